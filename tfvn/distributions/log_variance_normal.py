"""A Normal that knows the logarithm of its variance."""

from typing import Any

import tensorflow as tf
from tensorflow_probability import distributions as tfd

from tfvn.distributions.serialization import register, remember

# The smallest standard deviation: ratios to it stay finite in float32.
_SMALLEST_SCALE = 1e-12


@register
class LogVarianceNormal(tfd.Normal):
    """A `tfd.Normal` that is given by the logarithm of its variance.

    Every KL needs that logarithm; known, it need not be taken of each weight again.

    Args:
        loc: Means.
        log_variance: Logarithms of the variances.
        exp_log_variance: The variances, where they are known already.
        validate_args: As in every TFP distribution.
        allow_nan_stats: As in every TFP distribution.
        name: Name of the distribution.

    Example:

    >>> import tfvn
    >>> float(tfvn.distributions.LogVarianceNormal(0.0, log_variance=0.0).stddev())
    1.0
    """

    def __init__(
        self,
        loc: Any,
        log_variance: Any,
        exp_log_variance: Any = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "LogVarianceNormal",
    ):
        parameters = dict(locals())
        self.log_variance = tf.convert_to_tensor(log_variance)
        if exp_log_variance is None:
            exp_log_variance = tf.exp(self.log_variance)
        self.exp_log_variance = exp_log_variance
        scale = tf.maximum(tf.exp(0.5 * self.log_variance), _SMALLEST_SCALE)
        super().__init__(loc, scale, validate_args, allow_nan_stats, name=name)
        remember(self, parameters)

    @classmethod
    def _parameter_properties(cls, dtype: Any, num_classes: Any = None) -> dict:
        properties = tfd.Normal.parameter_properties(dtype)
        return {
            "loc": properties["loc"],
            "log_variance": properties["loc"],
            "exp_log_variance": properties["scale"],
        }

    def copy(self, **overrides: Any) -> "LogVarianceNormal":
        """Returns a copy; a new `log_variance` brings its own variance."""
        if "log_variance" in overrides:
            overrides.setdefault("exp_log_variance", None)
        return super().copy(**overrides)
