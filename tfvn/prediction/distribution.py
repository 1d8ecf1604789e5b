"""The predictive distribution of an ensemble whose outputs parameterize a distribution."""

import dataclasses
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

from tfvn import likelihoods
from tfvn.likelihoods import Likelihood
from tfvn.prediction.mixture import Mixture
from tfvn.prediction.result import EnsemblePrediction
from tfvn.utils.validation import check_number

# The largest number of elements of draws that are processed at a time, to bound memory.
_NUMBERS_AT_A_TIME = 4_000_000


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class PredictiveDistribution(EnsemblePrediction):
    """The distribution of the targets that an ensemble predicts, for each example.

    Each draw of the weights predicts a distribution, for instance a Normal with a mean and a
    standard deviation. The ensemble predicts their mixture, in which all draws have the same
    weight. `ensemble_predict` returns a `PredictiveDistribution` if the loss is one of
    `tfvn.losses`, if the last layer is a `tfvn.layers.NormalHead`, or if you pass
    `outputs="normal"` or another alias of `tfvn.likelihoods`.

    With several targets, every method treats each target separately: `log_prob`, for
    instance, is not a joint density, and has the shape of `mean`.

    Attributes:
        mean: The mean of the mixture, of shape `(rows, ..., targets)`.
        std: Its standard deviation: `sqrt(aleatoric_std**2 + epistemic_std**2)`.
        aleatoric_std: The noise in the targets, which more data would not reduce: the root
            of the mean of the draws' variances.
        epistemic_std: How far the draws disagree, which more data would reduce: the
            standard deviation of the draws' means.
        samples: A target sampled from each draw's distribution, on axis 1, if requested.
            Their standard deviation is that of the mixture, `std`.
        outputs: The draws of the model's outputs, on axis 1.
        likelihood: The family of distributions, of `tfvn.likelihoods`.
        num_samples: Number of draws.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> import tfvn
    >>> model = tfvn.Sequential([keras.Input((4,)), tfvn.MeanFieldDense(1)])
    >>> model.compile("adam", tfvn.losses.GaussianNLL(scale=0.5))
    >>> answer = tfvn.ensemble_predict(model, np.ones((3, 4)), seed=1)
    >>> lower, upper = answer.interval(0.9)
    >>> lower.shape, answer.log_prob([0.0, 0.5, 1.0]).shape
    ((3, 1), (3, 1))
    >>> np.round(answer.aleatoric_std[:, 0], 6).tolist()
    [0.5, 0.5, 0.5]

    Reference:

    - [Lakshminarayanan et al., 2017](https://arxiv.org/abs/1612.01474), section 2.4
    - [Depeweg et al., 2018](https://arxiv.org/abs/1710.07283), for the two parts of the
      standard deviation
    """

    aleatoric_std: np.ndarray | None = None
    epistemic_std: np.ndarray | None = None
    outputs: np.ndarray | None = None
    likelihood: Likelihood | None = None

    _hidden: ClassVar[tuple[str, ...]] = ("num_samples", "outputs", "likelihood")

    @classmethod
    def of_draws(
        cls, likelihood: Likelihood, outputs: Any, seed: Any = None
    ) -> "PredictiveDistribution":
        """Returns the predictive distribution, given draws of a model's outputs.

        Args:
            likelihood: The family of distributions, or its alias.
            outputs: Draws of outputs, of shape `(rows, draws, ...)`.
            seed: Integers, the seed of `samples`. `None` leaves `samples` out.
        """
        outputs = np.asarray(outputs)
        likelihood = likelihoods.get(likelihood)
        moments = _by_rows(likelihood, outputs, lambda mixture: mixture.moments)
        samples = None
        if seed is not None:
            shape = (*outputs.shape[:2], *moments["mean"].shape[1:])
            uniform = np.random.default_rng(seed).uniform(size=shape)
            uniform = np.clip(uniform, 1e-12, 1 - 1e-12)
            samples = _by_rows(likelihood, outputs, Mixture.outcomes, uniform)
        return cls(
            **moments,
            samples=samples,
            num_samples=outputs.shape[1],
            outputs=outputs,
            likelihood=likelihood,
        )

    def interval(self, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Returns the bounds between which a target lies with a given probability.

        The probabilities below and above the interval are equal. For counts the bounds are
        integers, and the probability of the interval may be larger than `level`.

        Args:
            level: The probability of the interval, in (0, 1).

        Returns:
            The lower and the upper bounds, of the shape of `mean`.
        """
        tail = (1.0 - check_level("level", level)) / 2.0
        return self.quantile(tail), self.quantile(1.0 - tail)

    def quantile(self, q: Any) -> np.ndarray:
        """Returns the quantile: a target is not larger than this with probability `q`.

        For counts it is the smallest count with at least that probability.

        Args:
            q: The probability, in (0, 1), or an array of probabilities.

        Returns:
            An array whose axes are those of `q` and then those of `mean`.
        """
        q = np.asarray(q)
        for value in q.ravel():
            check_level("q", value)
        q = q.astype("float64")
        return self.quantile_of_each(np.multiply.outer(q, np.ones_like(self.mean)))

    def quantile_of_each(self, q: np.ndarray) -> np.ndarray:
        """Returns quantiles with a separate probability for each target.

        Args:
            q: Probabilities in (0, 1). The last axes have the shape of `mean`.
        """
        # All at once, because a search for many numbers takes no more steps than for few.
        return self._of_mixtures(Mixture.quantile, q)

    def cdf_of_each(self, y: np.ndarray) -> np.ndarray:
        """Returns the probabilities that targets are not larger than given numbers.

        Args:
            y: The numbers. The last axes have the shape of `mean`.
        """
        return self._of_mixtures(Mixture.cdf, y)

    def log_prob(self, y: Any) -> np.ndarray:
        """Returns the logarithm of the density, or of the probability of a count, in nats.

        Args:
            y: Targets, of the shape of `mean`; a last axis of size 1 may be left out.

        Returns:
            An array of the shape of `mean`: the density of each target separately.
        """
        return self._of_mixtures(Mixture.log_prob, self.align(y))

    def cdf(self, y: Any) -> np.ndarray:
        """Returns the probability that a target is not larger than `y`.

        Args:
            y: As in `log_prob`.

        Returns:
            An array of the shape of `mean`.
        """
        return self._of_mixtures(Mixture.cdf, self.align(y))

    def align(self, y: Any) -> np.ndarray:
        """Returns targets in the shape of `mean`, or raises an error if they do not fit.

        Args:
            y: As in `log_prob`.
        """
        fitting = fitted(y, self.mean.shape)
        if fitting is None:
            raise ValueError(
                f"Argument `y` must have the shape of the mean, {self.mean.shape}; a "
                "last axis of size 1 may be left out. Received: y of shape "
                f"{np.shape(y)}"
            )
        return fitting

    def _of_mixtures(self, function: Any, values: np.ndarray) -> np.ndarray:
        """Applies a function to the mixtures and values whose last axes are those of `mean`."""
        outputs: Any = self.outputs
        flat = np.reshape(values, (-1, *self.mean.shape[1:]))
        times = len(flat) // max(1, len(outputs))
        repeated = np.concatenate([outputs] * times) if times else outputs
        found = _by_rows(self.likelihood, repeated, function, flat)
        return np.reshape(found, np.shape(values))


def fitted(y: Any, shape: tuple[int, ...]) -> np.ndarray | None:
    """Returns targets in a shape, or `None` if more differs than a last axis of size 1."""
    try:
        y = np.asarray(y, "float64")
    except (TypeError, ValueError):
        raise ValueError(
            "Targets must be numbers, in an array or in lists of equal lengths. Received: "
            f"targets of type {type(y).__name__}, {_shown(y)}"
        ) from None
    fits = shape in (y.shape, (*y.shape, 1)) or y.shape == (*shape, 1)
    return y.reshape(shape) if fits else None


def _shown(y: Any) -> str:
    shown = repr(y)
    return shown if len(shown) < 60 else f"{shown[:60]}..."


def check_level(name: str, value: Any) -> float:
    """Returns a probability, or raises an error if it is not between 0 and 1."""
    return check_number(name, value, above=0, below=1)


def _by_rows(likelihood: Any, outputs: Any, function: Any, *others: np.ndarray) -> Any:
    """Applies a function to the mixtures of all rows, some rows at a time, in float64.

    Args:
        likelihood: The family of distributions.
        outputs: Draws of outputs.
        function: Takes a mixture and rows of `others`, and returns a tensor or a
            dictionary of tensors.
        *others: Arrays with as many rows as `outputs`.
    """
    size = max(1, _NUMBERS_AT_A_TIME // max(1, int(np.prod(outputs.shape[1:]))))
    parts = []
    for start in range(0, max(1, len(outputs)), size):
        rows = slice(start, start + size)
        draws = tf.constant(np.asarray(outputs[rows], "float64"))
        mixture = Mixture(likelihood, draws)
        values = function(mixture, *(tf.constant(other[rows]) for other in others))
        parts.append(tf.nest.map_structure(lambda tensor: tensor.numpy(), values))
    return tf.nest.map_structure(lambda *arrays: np.concatenate(arrays), *parts)
