"""A Normal that knows the logarithm of its scale."""

from typing import Any

import tensorflow as tf
from tensorflow_probability import distributions as tfd

from tfvn.distributions.serialization import register, remember


@register
class LogScaleNormal(tfd.Normal):
    """A `tfd.Normal` that is given by the logarithm of its scale.

    Every KL needs that logarithm; known, it need not be taken of each weight again.

    Args:
        loc: Means.
        log_scale: Logarithms of the standard deviations.
        scale: The standard deviations, where they are known already.
        validate_args: As in every TFP distribution.
        allow_nan_stats: As in every TFP distribution.
        name: Name of the distribution.

    Example:

    >>> import tfvn
    >>> float(tfvn.distributions.LogScaleNormal(0.0, log_scale=0.0).stddev())
    1.0
    """

    def __init__(
        self,
        loc: Any,
        log_scale: Any,
        scale: Any = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "LogScaleNormal",
    ):
        parameters = dict(locals())
        self.log_scale = tf.convert_to_tensor(log_scale)
        scale = tf.exp(self.log_scale) if scale is None else scale
        super().__init__(loc, scale, validate_args, allow_nan_stats, name=name)
        remember(self, parameters)

    @classmethod
    def _parameter_properties(cls, dtype: Any, num_classes: Any = None) -> dict:
        properties = tfd.Normal.parameter_properties(dtype)
        return {
            "loc": properties["loc"],
            "log_scale": properties["loc"],
            "scale": properties["scale"],
        }

    def copy(self, **overrides: Any) -> "LogScaleNormal":
        """Returns a copy; a new `log_scale` brings its own scale."""
        if "log_scale" in overrides:
            overrides.setdefault("scale", None)
        return super().copy(**overrides)
