"""The accuracy of a model against the share of its weights that are pruned."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from tfvn.analysis.pruning import PruningCopier
from tfvn.analysis.ranking import LAYER, Ranking, check_fraction
from tfvn.analysis.selection import ALL, chosen_layers
from tfvn.analysis.weight_scores import AUTO
from tfvn.prediction import ensemble_predict, metrics
from tfvn.utils.validation import check_number

FRACTIONS = (0.0, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class PruningCurve:
    """The result of `tfvn.pruning_curve`: an entry for each share of pruned weights.

    Attributes:
        fractions: The shares, as they were given.
        accuracy: Accuracy of the ensemble's averaged probabilities.
        nll: Their negative log-likelihood, in nats per example.
        num_samples: Number of draws of the ensemble.
    """

    fractions: np.ndarray
    accuracy: np.ndarray
    nll: np.ndarray
    num_samples: int

    def largest_fraction(self, drop: float = 0.002) -> float:
        """Returns the largest share up to which the accuracy falls by at most `drop`.

        The accuracy is compared with that of the smallest share, and every share from
        there to the result has to pass.

        Args:
            drop: A difference of accuracies; 0.002 is 0.2 percentage points.
        """
        drop = check_number("drop", drop, least=0)
        order = np.argsort(self.fractions, kind="stable")
        accuracy = self.accuracy[order]
        # A difference of two shares of examples has rounding errors.
        falls = accuracy[0] - accuracy > drop + 1e-9
        passed = np.argmax(falls) if falls.any() else len(falls)
        return float(self.fractions[order][passed - 1])

    def __repr__(self) -> str:
        lines = [f"{'pruned':>8}{'accuracy':>11}{'NLL':>9}"]
        columns = (self.fractions, self.accuracy, self.nll)
        lines += [
            f"{fraction:>8.2%}{accuracy:>11.2%}{nll:>9.4f}"
            for fraction, accuracy, nll in zip(*columns, strict=True)
        ]
        return "\n".join(lines)


def pruning_curve(
    model: keras.Model,
    x: Any,
    y: Any,
    fractions: Sequence[float] = FRACTIONS,
    num_samples: int = 20,
    by: str = AUTO,
    scope: str = LAYER,
    layers: Any = ALL,
    batch_size: int | None = 32,
    seed: int | None = None,
    outputs: Any = "auto",
) -> PruningCurve:
    """Measures the accuracy of a classifier as more and more of its weights are pruned.

    For each share of pruned weights, this predicts with an ensemble of a pruned copy of
    the model, without further training. All shares use the same noise.

    Args:
        model: A classifier with one output, as in `tfvn.prune`. It does not change.
        x: Inputs, as in `tfvn.ensemble_predict`.
        y: Labels, integers or one-hot.
        fractions: Shares of weights to prune, each at least 0 and less than 1, and not
            less than the share that is pruned already.
        num_samples: Number of draws of the ensemble.
        by: As in `tfvn.prune`.
        scope: As in `tfvn.prune`.
        layers: As in `tfvn.prune`.
        batch_size: As in `tfvn.ensemble_predict`.
        seed: Integer; `None` is a fresh one.
        outputs: As in `tfvn.ensemble_predict`.

    Returns:
        A `PruningCurve` with `fractions`, `accuracy` and `nll`.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> import tfvn
    >>> model = keras.Sequential(
    ...     [keras.Input((4,)), tfvn.VarianceDense(3, activation="softmax")]
    ... )
    >>> x, y = np.ones((5, 4)), np.zeros(5)
    >>> curve = tfvn.pruning_curve(model, x, y, fractions=[0.0, 0.5], num_samples=2)
    >>> curve.accuracy.shape, curve.nll.shape
    ((2,), (2,))

    Reference:

    - [Neklyudov et al., 2019](https://arxiv.org/abs/1803.03764), figure 5
    """
    if y is None or not np.size(y):
        raise ValueError(
            "Argument `y` must have a label for each example, also if `x` is a data set. "
            f"Received: y={y!r}"
        )
    ranking = Ranking(chosen_layers(model, layers), by, scope)
    shares = _checked_fractions(fractions, ranking)
    copier = PruningCopier(model, ranking.masks_of(shares[0]))
    copy = copier.copy(model)
    if seed is None:
        seed = int(keras.random.randint((), 0, 2**31 - 1))
    accuracies, nlls = [], []
    for share in shares:
        # One copy with other masks, so that its functions are traced once.
        copier.set_masks(ranking.masks_of(share))
        answer = ensemble_predict(
            copy, x, num_samples, batch_size, seed, outputs=outputs, verbose=0
        )
        probabilities = _probabilities(answer)
        accuracies.append(_measure(metrics.EnsembleAccuracy(), y, probabilities))
        nlls.append(_measure(metrics.EnsembleNLL(), y, probabilities))
    return PruningCurve(
        fractions=np.array(shares, "float64"),
        accuracy=np.array(accuracies),
        nll=np.array(nlls),
        num_samples=num_samples,
    )


def _checked_fractions(fractions: Any, ranking: Ranking) -> list[float]:
    shares = [check_fraction("fractions", share) for share in np.ravel(fractions)]
    if not shares:
        raise ValueError(
            "Argument `fractions` must have at least one share of weights to prune. "
            f"Received: fractions={fractions!r}"
        )
    for share in shares:
        if ranking.undoes_pruning(share):
            raise ValueError(
                "Weights that are pruned stay pruned; expected `fractions` that are not "
                "smaller than what `tfvn.sparsity` finds for these layers. "
                f"Received: fractions={fractions!r}"
            )
    return shares


def _probabilities(answer: Any) -> np.ndarray:
    entropy = getattr(answer, "entropy", None)
    if entropy is None or entropy.ndim != answer.mean.ndim - 1:
        raise ValueError(
            "Argument `model` must be a classifier with one output, of probabilities or "
            "logits of classes; for another model, call `tfvn.prune` for each share and "
            f"evaluate the result. Received: predictions {answer!r}"
        )
    is_nan = np.isnan(answer.mean).reshape(len(answer.mean), -1).any(axis=1)
    if is_nan.any():
        raise ValueError(
            "The model must predict numbers for all rows of `x`; look for NaN and infinite "
            "values in `x`, or in the weights of the model. Received: "
            f"x with {is_nan.sum()} rows for which the prediction is NaN"
        )
    return answer.mean


def _measure(metric: Any, y: Any, probabilities: np.ndarray) -> float:
    # The metrics take draws, and average them; the average is like a single draw.
    metric.update_state(y, probabilities[:, None])
    return float(metric.result())
