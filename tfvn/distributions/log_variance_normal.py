"""A Normal that knows the logarithm of its variance."""

from typing import Any

import tensorflow as tf
from tensorflow_probability import distributions as tfd

from tfvn.distributions.serialization import register, remember
from tfvn.distributions.sums_over_weights import Exponentials, sums_of_exponentials

# The smallest standard deviation: ratios to it stay finite in float32.
_SMALLEST_SCALE = 1e-12


@register
class LogVarianceNormal(tfd.Normal):
    """A `tfd.Normal` that is given by the logarithm of its variance.

    Every KL needs that logarithm; known, it need not be taken of each weight again.

    Args:
        loc: Means.
        log_variance: Logarithms of the variances.
        variances: The variances and their sums, where they are known already.
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
        variances: Exponentials | None = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "LogVarianceNormal",
    ):
        parameters = dict(locals())
        # A copy may have another logarithm, and finds its own.
        parameters.pop("variances")
        self.log_variance = tf.convert_to_tensor(log_variance)
        self._variances = variances
        scale = tf.maximum(tf.exp(0.5 * self.log_variance), _SMALLEST_SCALE)
        super().__init__(loc, scale, validate_args, allow_nan_stats, name=name)
        remember(self, parameters)

    @classmethod
    def _parameter_properties(cls, dtype: Any, num_classes: Any = None) -> dict:
        properties = tfd.Normal.parameter_properties(dtype)
        return {"loc": properties["loc"], "log_variance": properties["loc"]}

    def sums(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the sums of all variances and of their logarithms, in float64."""
        if self._variances is None:
            return sums_of_exponentials(self.log_variance)
        return self._variances.sum, self._variances.sum_of_exponents
