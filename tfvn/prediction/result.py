"""What an ensemble says."""

import dataclasses
from typing import Any, ClassVar, NoReturn

import numpy as np

# What a `PredictiveDistribution` has beside.
_OF_DISTRIBUTIONS = (
    "aleatoric_std",
    "cdf",
    "epistemic_std",
    "interval",
    "log_prob",
    "quantile",
)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class EnsemblePrediction:
    """The draws of an ensemble in figures, one row for each example.

    Entropies are in nats. The entropy of the mean is all that the ensemble does not
    know; the expected entropy is what it would not know even if it were sure of its
    weights; their difference, the mutual information, is what its draws disagree on.
    For regression these are `None`: what the draws disagree on is `std`. It knows
    nothing of the noise in the targets, so that `mean` plus and minus some of it is no
    interval for them; a `tfvn.PredictiveDistribution` has one.

    Attributes:
        mean: Mean over the draws, of probabilities or, for regression, of outputs.
        std: Standard deviation over the draws, not corrected for their number.
        entropy: Entropy of the mean. For binary outputs one for each, with no axis for
            a single one.
        expected_entropy: Mean entropy of the draws.
        mutual_information: `entropy - expected_entropy`.
        samples: The draws, on axis 1, if they were asked for.
        num_samples: Number of draws.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> import tfvn
    >>> layers = [keras.layers.Dropout(0.5), keras.layers.Dense(3, "softmax")]
    >>> model = keras.Sequential([keras.Input((4,)), *layers])
    >>> answer = tfvn.ensemble_predict(model, np.ones((2, 4)), num_samples=5)
    >>> {name: array.shape for name, array in answer.to_dict().items()}["entropy"]
    (2,)
    """

    mean: np.ndarray
    std: np.ndarray
    num_samples: int
    entropy: np.ndarray | None = None
    expected_entropy: np.ndarray | None = None
    mutual_information: np.ndarray | None = None
    samples: np.ndarray | None = None

    # What is no array with one row for each example to look at.
    _hidden: ClassVar[tuple[str, ...]] = ("num_samples",)

    def to_dict(self) -> dict[str, Any]:
        """Returns the arrays that there are, by name."""
        names = [f.name for f in dataclasses.fields(self) if f.name not in self._hidden]
        values = {name: getattr(self, name) for name in names}
        return {name: value for name, value in values.items() if value is not None}

    def __getattr__(self, name: str) -> NoReturn:
        # Only what is not there comes here.
        if name in _OF_DISTRIBUTIONS:
            raise AttributeError(
                f"Only predictions of a distribution of the targets have `{name}`; train "
                "with a loss that says what it is, such as `tfvn.losses.GaussianNLL`, or "
                "pass `outputs='normal'` to `ensemble_predict` if the outputs are means "
                "and logarithms of standard deviations. Received: a prediction of "
                f"{'numbers' if self.entropy is None else 'classes'}, which has "
                f"{sorted(self.to_dict())}"
            )
        raise AttributeError(
            f"{type(self).__name__!r} object has no attribute {name!r}"
        )

    def __len__(self) -> int:
        return len(self.mean)

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} with num_samples={self.num_samples}:"]
        for name, value in self.to_dict().items():
            line = f"  {name:<19}{value.dtype} {value.shape}"
            # Averages that mean something, of what has one figure for each example.
            if value.ndim == 1 and len(value):
                line += f", {value.mean():.3g} on average"
            lines.append(line)
        return "\n".join(lines)
