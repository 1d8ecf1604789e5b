"""The prediction of an ensemble."""

import dataclasses
from typing import Any, ClassVar, NoReturn

import numpy as np

# Attributes that only a `PredictiveDistribution` has.
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
    """A summary of the draws of an ensemble, with one row for each example.

    Entropies are in nats. The entropy of the mean is the total uncertainty. The expected
    entropy is the uncertainty that would remain if the weights were known. Their difference,
    the mutual information, measures how far the draws disagree. For regression the three
    are `None`, and `std` measures how far the draws disagree. `std` does not include the
    noise in the targets, so an interval of `mean` plus or minus a multiple of `std` is too
    narrow for targets; use the interval of a `tfvn.PredictiveDistribution`.

    Attributes:
        mean: Mean over the draws, of probabilities or, for regression, of outputs.
        std: Standard deviation over the draws, without Bessel's correction.
        entropy: Entropy of the mean. Binary outputs have one entropy for each output; for a
            single output, that axis is left out.
        expected_entropy: Mean entropy of the draws.
        mutual_information: `entropy - expected_entropy`.
        samples: The draws, on axis 1, if requested.
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

    Reference:

    - [Depeweg et al., 2018](https://arxiv.org/abs/1710.07283)
    """

    mean: np.ndarray
    std: np.ndarray
    num_samples: int
    entropy: np.ndarray | None = None
    expected_entropy: np.ndarray | None = None
    mutual_information: np.ndarray | None = None
    samples: np.ndarray | None = None

    # Fields that `to_dict` and `repr` leave out.
    _hidden: ClassVar[tuple[str, ...]] = ("num_samples",)

    def to_dict(self) -> dict[str, Any]:
        """Returns all arrays that are not `None`, by name."""
        names = [f.name for f in dataclasses.fields(self) if f.name not in self._hidden]
        values = {name: getattr(self, name) for name in names}
        return {name: value for name, value in values.items() if value is not None}

    def __getattr__(self, name: str) -> NoReturn:
        # Python calls this only for attributes that do not exist.
        if name in _OF_DISTRIBUTIONS:
            raise AttributeError(
                f"Only a `tfvn.PredictiveDistribution` has `{name}`; train with a loss "
                "of `tfvn.losses`, such as `GaussianNLL`, or, if the outputs are means "
                "and logarithms of standard deviations, pass `outputs='normal'` to "
                "`ensemble_predict`. Received: a prediction of "
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
            # An average makes sense only for arrays with one number for each example.
            if value.ndim == 1 and len(value):
                line += f", {value.mean():.3g} on average"
            lines.append(line)
        return "\n".join(lines)
