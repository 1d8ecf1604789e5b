"""What an ensemble says of targets that have a distribution."""

import dataclasses
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

from tfvn import likelihoods
from tfvn.likelihoods import Likelihood
from tfvn.prediction.mixture import Mixture
from tfvn.prediction.result import EnsemblePrediction
from tfvn.utils.validation import check_number

# Numbers of draws that are worked on at a time, so that memory is bounded.
_NUMBERS_AT_A_TIME = 4_000_000


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class PredictiveDistribution(EnsemblePrediction):
    """The distribution of the targets that an ensemble predicts, for each example.

    Each draw of the weights predicts a distribution: a Normal with a mean and a standard
    deviation, say. The ensemble predicts their mixture, in which all draws count the
    same. `ensemble_predict` returns one where the loss is of `tfvn.losses`, the last layer
    is a `tfvn.layers.NormalHead`, or `outputs="normal"` (or another alias of
    `tfvn.likelihoods`) says so.

    Everything is by target. With several targets, `log_prob` and the like are of each one
    alone, not of all together, and have the shape of `mean`.

    Attributes:
        mean: The mean of the mixture, of shape `(rows, ..., targets)`.
        std: Its standard deviation: `sqrt(aleatoric_std**2 + epistemic_std**2)`.
        aleatoric_std: The noise in the targets, which more data would not take away: the
            root of the mean of the draws' variances.
        epistemic_std: What the draws disagree on, which more data would settle: the
            standard deviation of the draws' means.
        samples: A target drawn from each draw's distribution, on axis 1, if they were
            asked for. Their spread is all of `std`.
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
        """Returns the prediction that draws of outputs make.

        Args:
            likelihood: The family of distributions, or its alias.
            outputs: Draws of outputs, of shape `(rows, draws, ...)`.
            seed: Integers, to draw `samples` by; `None` does not draw any.
        """
        outputs = np.asarray(outputs)
        likelihood = likelihoods.get(likelihood)

        def moments(mixture: Mixture) -> list[Any]:
            names = ("mean", "std", "aleatoric_std", "epistemic_std")
            return [getattr(mixture, name) for name in names]

        mean, std, aleatoric, epistemic = _by_rows(likelihood, outputs, moments)
        samples = None
        if seed is not None:
            shape = (*outputs.shape[:2], *mean.shape[1:])
            uniform = np.random.default_rng(seed).uniform(size=shape)
            uniform = np.clip(uniform, 1e-12, 1 - 1e-12)
            (samples,) = _by_rows(likelihood, outputs, _outcomes, uniform)
        return cls(
            mean=mean,
            std=std,
            aleatoric_std=aleatoric,
            epistemic_std=epistemic,
            samples=samples,
            num_samples=outputs.shape[1],
            outputs=outputs,
            likelihood=likelihood,
        )

    def interval(self, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Returns the bounds between which a target lies with a probability.

        As much of the rest lies below as above. For counts the bounds are among them, and
        the probability may be larger.

        Args:
            level: The probability, in (0, 1).

        Returns:
            The lower and the upper bounds, of the shape of `mean`.
        """
        tail = (1.0 - check_level("level", level)) / 2.0
        return self.quantile(tail), self.quantile(1.0 - tail)

    def quantile(self, q: Any) -> np.ndarray:
        """Returns what a target is not larger than with a probability.

        For counts it is the smallest one with at least that probability.

        Args:
            q: The probability, in (0, 1), or an array of them.

        Returns:
            An array of the shape of `mean`, behind the axes of `q`.
        """
        q = np.asarray(q)
        for value in q.ravel():
            check_level("q", value)
        q = q.astype("float64")
        return self.quantile_of_each(np.multiply.outer(q, np.ones_like(self.mean)))

    def quantile_of_each(self, q: np.ndarray) -> np.ndarray:
        """Returns quantiles of other probabilities for each target.

        Args:
            q: Probabilities in (0, 1), of the shape of `mean` behind any axes.
        """
        # All at once: a search for many numbers takes as many steps as one for a few.
        return self._behind_axes(lambda mixture, q: [mixture.quantile(q)], q)

    def cdf_of_each(self, y: np.ndarray) -> np.ndarray:
        """Returns probabilities that targets are not larger than several numbers.

        Args:
            y: The numbers, of the shape of `mean` behind any axes.
        """
        return self._behind_axes(lambda mixture, y: [mixture.cdf(y)], y)

    def log_prob(self, y: Any) -> np.ndarray:
        """Returns the logarithm of the density, or of the probability of a count, in nats.

        Args:
            y: Targets, of the shape of `mean`; a last axis of size 1 may be left out.

        Returns:
            An array of the shape of `mean`: the density of each target by itself.
        """
        return self._each(lambda mixture, y: [mixture.log_prob(y)], y)

    def cdf(self, y: Any) -> np.ndarray:
        """Returns the probability that a target is not larger than `y`.

        Args:
            y: As in `log_prob`.

        Returns:
            An array of the shape of `mean`.
        """
        return self._each(lambda mixture, y: [mixture.cdf(y)], y)

    def align(self, y: Any) -> np.ndarray:
        """Returns targets in the shape of `mean`, and refuses what does not fit.

        Args:
            y: As in `log_prob`.
        """
        y = tf.convert_to_tensor(np.asarray(y, "float64"))
        fitting = likelihoods.aligned(y, tf.constant(self.mean))
        if fitting is None:
            raise ValueError(
                f"The targets must have the shape of the mean, {self.mean.shape}; a last "
                f"axis of size 1 may be left out. Received: y of shape {tuple(y.shape)}"
            )
        return fitting.numpy()

    def _behind_axes(self, function: Any, values: np.ndarray) -> np.ndarray:
        outputs: Any = self.outputs
        flat = np.reshape(values, (-1, *self.mean.shape[1:]))
        times = len(flat) // max(1, len(outputs))
        repeated = np.concatenate([outputs] * times) if times else outputs
        (found,) = _by_rows(self.likelihood, repeated, function, flat)
        return np.reshape(found, np.shape(values))

    def _each(self, function: Any, y: Any = None) -> np.ndarray:
        others = () if y is None else (self.align(y),)
        (result,) = _by_rows(self.likelihood, self.outputs, function, *others)
        return result


def check_level(name: str, value: Any) -> float:
    """Returns a probability, and refuses what is none."""
    return check_number(name, value, above=0, below=1)


def _outcomes(mixture: Mixture, uniform: Any) -> list[Any]:
    return [mixture.outcomes(uniform)]


def _by_rows(
    likelihood: Any, outputs: Any, function: Any, *others: np.ndarray
) -> list[np.ndarray]:
    """Returns what a function of mixtures gives, some rows at a time, in float64.

    Args:
        likelihood: The family of distributions.
        outputs: Draws of outputs.
        function: Takes a mixture and rows of `others`, and returns a list of tensors.
        *others: Arrays of as many rows.
    """
    size = max(1, _NUMBERS_AT_A_TIME // max(1, int(np.prod(outputs.shape[1:]))))
    parts = []
    for start in range(0, max(1, len(outputs)), size):
        rows = slice(start, start + size)
        draws = tf.constant(np.asarray(outputs[rows], "float64"))
        mixture = Mixture(likelihood, draws)
        values = function(mixture, *(tf.constant(other[rows]) for other in others))
        parts.append([value.numpy() for value in values])
    return [np.concatenate(part) for part in zip(*parts, strict=True)]
