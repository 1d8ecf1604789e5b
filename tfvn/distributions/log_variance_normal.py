"""A Normal whose parameter is the logarithm of its variance."""

from typing import Any

import tensorflow as tf
from tensorflow_probability import distributions as tfd

from tfvn.distributions.scalar import SMALLEST_SCALE
from tfvn.distributions.serialization import register, remember
from tfvn.distributions.sums_over_weights import Exponentials, sums_of_exponentials


@register
class LogVarianceNormal(tfd.Normal):
    """A `tfd.Normal` whose parameter is the logarithm of its variance.

    Every KL needs this logarithm. Storing it saves computing it again for each weight.

    Args:
        loc: Means.
        log_variance: Logarithms of the variances.
        variances: The variances and their sums, if they have been computed already.
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
        # `copy(log_variance=...)` must not keep the variances of the old logarithm.
        parameters.pop("variances")
        self.log_variance = tf.convert_to_tensor(log_variance)
        self._variances = variances
        scale = tf.maximum(tf.exp(0.5 * self.log_variance), SMALLEST_SCALE)
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
