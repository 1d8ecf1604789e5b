"""Families of distributions of targets, given the outputs of a model.

One object describes a family: how many outputs the model has for each target, and which
distribution they parameterize. Losses, last layers, predictions, exports and metrics all use
this object, so adding a family takes one class here.
"""

import dataclasses
import math
from typing import Any

import tensorflow as tf
from tensorflow_probability import distributions as tfd

from tfvn.utils.registry import Registry
from tfvn.utils.validation import check_number

Tensor = Any

# Scales below exp(-15) or above exp(15) would overflow float32 when squared and divided.
LARGEST_LOG_SCALE = 15.0

registry = Registry("likelihood")


class Likelihood:
    """A family of distributions of targets.

    A subclass is a frozen dataclass, registered under an alias, that implements
    `parameters` and `from_parts`.

    Attributes:
        parameters: Number of outputs for each target.
        discrete: Whether the targets are integers.
        above: Lower bound: all targets are larger than this number.
    """

    alias: str
    discrete = False
    above = -math.inf

    @property
    def parameters(self) -> int:
        raise NotImplementedError

    def from_parts(self, *parts: Tensor) -> tfd.Distribution:
        """Returns the distribution, given one tensor for each parameter."""
        raise NotImplementedError

    def split(self, outputs: Tensor) -> list[Tensor]:
        """Returns one tensor for each parameter, each of the shape of the targets."""
        if self.parameters == 1:
            return [outputs]
        size = outputs.shape[-1] if outputs.shape.rank else None
        if size is None or size % self.parameters:
            raise ValueError(
                f"The last axis of the outputs must have {self.parameters} numbers for "
                f"each target with {self}; if the scale is known, pass it, as in "
                "`tfvn.losses.GaussianNLL(scale=0.3)` or "
                "`outputs=tfvn.likelihoods.Normal(scale=0.3)`. "
                f"Received: outputs of shape {tuple(outputs.shape)}"
            )
        return tf.split(outputs, self.parameters, axis=-1)

    def distribution(self, outputs: Tensor) -> tfd.Distribution:
        """Returns the distribution of the targets.

        Args:
            outputs: Outputs of a model. The last axis has the first parameters of all
                targets, then the second parameters of all targets.
        """
        return self.from_parts(*self.split(outputs))

    def log_prob(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Returns the logarithm of the density, or of the probability, of targets.

        Args:
            outputs: As in `distribution`.
            y: Targets, in a shape that broadcasts to that of the distribution.
        """
        return self.distribution(outputs).log_prob(y)

    def cdf(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Returns the probability that a target is not larger than `y`."""
        return self.distribution(outputs).cdf(y)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return dataclasses.asdict(self)  # type: ignore[call-overload]

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        return cls(**config)


class _LocationScale(Likelihood):
    """A family in which `(y - location) / scale` has a fixed distribution."""

    scale: float | None

    def __post_init__(self) -> None:
        remark = "; with `None`, the outputs must contain it"
        check_number("scale", self.scale, above=0, or_none=True, remark=remark)

    @property
    def parameters(self) -> int:
        return 2 if self.scale is None else 1

    def from_parts(self, *parts: Tensor) -> tfd.Distribution:
        location = parts[0]
        return self.law(location, tf.exp(self._log_scale(parts)))

    def law(self, location: Tensor, scale: Tensor) -> tfd.Distribution:
        """Returns the distribution with the given location and scale."""
        raise NotImplementedError

    def log_prob(self, outputs: Tensor, y: Tensor) -> Tensor:
        # Computed from the standardized target: TFP divides before it subtracts, which
        # loses digits if the scale is small.
        parts = self.split(outputs)
        log_scale = self._log_scale(parts)
        standard = self.law(tf.zeros((), y.dtype), tf.ones((), y.dtype))
        return standard.log_prob((y - parts[0]) * tf.exp(-log_scale)) - log_scale

    def _log_scale(self, parts: Any) -> Tensor:
        if self.scale is not None:
            return tf.constant(math.log(self.scale), parts[0].dtype)
        return tf.clip_by_value(parts[1], -LARGEST_LOG_SCALE, LARGEST_LOG_SCALE)


@registry.register("normal")
@dataclasses.dataclass(frozen=True)
class Normal(_LocationScale):
    """Normal targets: the outputs are means and logarithms of standard deviations.

    Args:
        scale: The standard deviation if it is known. The outputs are then means alone.

    Example:

    >>> import tensorflow as tf
    >>> import tfvn
    >>> likelihood = tfvn.likelihoods.Normal()
    >>> likelihood.distribution(tf.constant([[3.0, 0.0]])).stddev().numpy()
    array([[1.]], dtype=float32)
    """

    scale: float | None = None

    def law(self, location: Tensor, scale: Tensor) -> tfd.Distribution:
        return tfd.Normal(location, scale)


@registry.register("laplace")
@dataclasses.dataclass(frozen=True)
class Laplace(_LocationScale):
    """Laplace targets: the outputs are medians and logarithms of scales.

    The standard deviation is `sqrt(2)` times the scale. The tails are heavier than those
    of a Normal, so that outliers among the targets influence the model less.

    Args:
        scale: The scale if it is known. The outputs are then medians alone.

    Example:

    >>> import tensorflow as tf
    >>> import tfvn
    >>> likelihood = tfvn.likelihoods.Laplace(scale=1.0)
    >>> likelihood.distribution(tf.constant([[3.0]])).mean().numpy()
    array([[3.]], dtype=float32)
    """

    scale: float | None = None

    def law(self, location: Tensor, scale: Tensor) -> tfd.Distribution:
        return tfd.Laplace(location, scale)


@registry.register("student_t")
@dataclasses.dataclass(frozen=True)
class StudentT(_LocationScale):
    """Student-t targets: the outputs are means and logarithms of scales.

    For data with outliers. The standard deviation is `sqrt(df / (df - 2))` times the
    scale.

    Args:
        df: Degrees of freedom, more than 2, so that the standard deviation is finite.
        scale: The scale if it is known. The outputs are then means alone.

    Example:

    >>> import tensorflow as tf
    >>> import tfvn
    >>> likelihood = tfvn.likelihoods.StudentT(df=4.0)
    >>> likelihood.distribution(tf.constant([[3.0, 0.0]])).variance().numpy()
    array([[2.]], dtype=float32)
    """

    df: float = 4.0
    scale: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        remark = ", so that the standard deviation is finite"
        check_number("df", self.df, above=2, remark=remark)

    def law(self, location: Tensor, scale: Tensor) -> tfd.Distribution:
        return tfd.StudentT(tf.constant(self.df, location.dtype), location, scale)

    def cdf(self, outputs: Tensor, y: Tensor) -> Tensor:
        # This takes one op. TFP's `cdf`, which also has gradients, takes hundreds.
        parts = self.split(outputs)
        z = (y - parts[0]) * tf.exp(-self._log_scale(parts))
        df = tf.constant(self.df, z.dtype)
        tail = 0.5 * tf.math.betainc(
            0.5 * df, tf.constant(0.5, z.dtype), df / (df + tf.square(z))
        )
        return tf.where(z < 0.0, tail, 1.0 - tail)


@registry.register("log_normal")
@dataclasses.dataclass(frozen=True)
class LogNormal(_LocationScale):
    """Positive targets whose logarithm is Normal.

    The outputs are means and logarithms of standard deviations, both of the logarithm of
    the target.

    Args:
        scale: The standard deviation of the logarithm if it is known. The outputs are
            then means alone.

    Example:

    >>> import tensorflow as tf
    >>> import tfvn
    >>> likelihood = tfvn.likelihoods.LogNormal(scale=1.0)
    >>> likelihood.distribution(tf.constant([0.0])).quantile(0.5).numpy()
    array([1.], dtype=float32)
    """

    scale: float | None = None
    above = 0.0

    def law(self, location: Tensor, scale: Tensor) -> tfd.Distribution:
        return tfd.LogNormal(location, scale)

    def log_prob(self, outputs: Tensor, y: Tensor) -> Tensor:
        log_y = tf.math.log(self._inside(y))
        log_prob = Normal(self.scale).log_prob(outputs, log_y) - log_y
        return tf.where(y > self.above, log_prob, tf.constant(-math.inf, y.dtype))

    def cdf(self, outputs: Tensor, y: Tensor) -> Tensor:
        cdf = Normal(self.scale).cdf(outputs, tf.math.log(self._inside(y)))
        return tf.where(y > self.above, cdf, tf.zeros((), y.dtype))

    def _inside(self, y: Tensor) -> Tensor:
        return tf.where(y > self.above, y, tf.ones((), y.dtype))


@registry.register("poisson")
@dataclasses.dataclass(frozen=True)
class Poisson(Likelihood):
    """Counts: the outputs are logarithms of rates.

    Targets that are negative or not integers have probability 0.

    Example:

    >>> import tensorflow as tf
    >>> import tfvn
    >>> likelihood = tfvn.likelihoods.Poisson()
    >>> likelihood.distribution(tf.constant([[0.0]])).mean().numpy()
    array([[1.]], dtype=float32)
    """

    discrete = True
    above = -1.0

    @property
    def parameters(self) -> int:
        return 1

    def from_parts(self, *parts: Tensor) -> tfd.Distribution:
        (log_rate,) = parts
        log_rate = tf.clip_by_value(log_rate, -LARGEST_LOG_SCALE, LARGEST_LOG_SCALE)
        return tfd.Poisson(log_rate=log_rate, force_probs_to_zero_outside_support=True)


def get(identifier: Any) -> Likelihood:
    """Returns the likelihood for an alias, a config or an instance."""
    return registry.get(identifier)


def aligned(y: Tensor, like: Tensor) -> Tensor | None:
    """Adds or removes a last axis of size 1, so that targets get the shape of a tensor.

    Args:
        y: Targets.
        like: A tensor of the shape that the targets should have.

    Returns:
        The targets, or `None` if the shapes differ in any other way, because such targets
        must not be broadcast.
    """
    rank = like.shape.rank
    if y.shape.rank is None:
        # If targets change their rank, Keras traces a function for targets of any rank.
        shape = tf.concat([tf.shape(y), [1]], axis=0)[:rank]
        return _reshaped(y, shape, like)
    if y.shape.rank == rank - 1 and like.shape[-1] == 1:
        y = tf.expand_dims(y, axis=-1)
    elif y.shape.rank == rank + 1 and y.shape[-1] == 1:
        y = tf.squeeze(y, axis=-1)
    if y.shape.rank != rank or not y.shape.is_compatible_with(like.shape):
        return None
    if y.shape.is_fully_defined() and like.shape.is_fully_defined():
        return y
    return _reshaped(y, tf.shape(y), like)


def _reshaped(y: Tensor, shape: Tensor, like: Tensor) -> Tensor:
    """Returns targets in a shape that is known only when the graph runs.

    Args:
        y: Targets.
        shape: Their shape after adding or removing a last axis of size 1. It must be equal
            to the shape of `like`.
        like: A tensor of the shape that the targets should have.
    """
    check = tf.debugging.assert_equal(
        shape,
        tf.shape(like),
        message="The targets must have the shape that the outputs predict, (rows, ..., "
        "targets); a last axis of size 1 may be left out. The number of outputs must be "
        "the number of targets times the number of parameters for each target.",
    )
    # XLA ignores assertions; there, the reshape fails instead.
    with tf.control_dependencies([] if check is None else [check]):
        return tf.ensure_shape(tf.reshape(y, tf.shape(like)), like.shape)


def likelihood_of(part: Any) -> Likelihood | None:
    """Returns the likelihood of a loss or a layer, or `None`."""
    likelihood = getattr(part, "likelihood", None)
    return likelihood if isinstance(likelihood, Likelihood) else None


__all__ = [
    "Laplace",
    "Likelihood",
    "LogNormal",
    "Normal",
    "Poisson",
    "StudentT",
    "get",
]
