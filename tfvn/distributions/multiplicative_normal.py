"""The Normal of Gaussian dropout, whose scale is proportional to its mean."""

from typing import Any

import tensorflow as tf
from tensorflow_probability import distributions as tfd

from tfvn.distributions.scalar import SMALLEST_SCALE
from tfvn.distributions.serialization import register, remember


@register
class MultiplicativeNormal(tfd.Normal):
    """The distribution `N(loc, alpha loc^2)` of a weight times noise from `N(1, alpha)`.

    It needs its own class because its KL to the log-uniform and the ARD prior depends on
    `alpha` alone and not on `loc`, even if `loc` is zero.

    Args:
        loc: Means.
        log_alpha: Logarithms of the dropout rates, in a shape that broadcasts to
            that of `loc`.
        validate_args: As in every TFP distribution.
        allow_nan_stats: As in every TFP distribution.
        name: Name of the distribution.

    Example:

    >>> import tfvn
    >>> d = tfvn.distributions.MultiplicativeNormal([1.0, -2.0], log_alpha=0.0)
    >>> d.stddev().numpy().tolist()
    [1.0, 2.0]

    Reference:

    - [Kingma et al., 2015](https://arxiv.org/abs/1506.02557), section 3
    """

    def __init__(
        self,
        loc: Any,
        log_alpha: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "MultiplicativeNormal",
    ):
        parameters = dict(locals())
        loc = tf.convert_to_tensor(loc)
        self.log_alpha = tf.convert_to_tensor(log_alpha, dtype=loc.dtype)
        scale = tf.exp(0.5 * self.log_alpha) * tf.abs(loc)
        # A weight of mean zero would have scale zero, and no density.
        scale = tf.maximum(scale, SMALLEST_SCALE)
        super().__init__(loc, scale, validate_args, allow_nan_stats, name=name)
        remember(self, parameters)

    @classmethod
    def _parameter_properties(cls, dtype: Any, num_classes: Any = None) -> dict:
        properties = tfd.Normal.parameter_properties(dtype)
        return {"loc": properties["loc"], "log_alpha": properties["loc"]}
