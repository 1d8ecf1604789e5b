"""The horseshoe distribution with its exact density."""

from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow_probability import distributions as tfd

from tfvn.distributions.scale_mixture import ScaleMixture
from tfvn.distributions.serialization import register

# Below the border a power series is used, above it a continued fraction. At the border,
# this many terms of the series, or levels of the fraction, leave an error of 1e-9.
_BORDER = 1.0
_TERMS = 12
_LEVELS = 30


@register
class ExactHorseshoe(tfd.Horseshoe):
    """A `tfd.Horseshoe` with an exact `log_prob`, and with a `cdf`.

    A weight from `N(0, s^2)` times half-Cauchy noise has the density, with
    `t = w^2 / (2 s^2)`, `exp(t) E_1(t) / sqrt(2 pi^3 s^2)`. TFP approximates this density
    with a relative error of 3e-4.

    Args:
        scale: The scale of the Normal times that of the half-Cauchy, positive.
        validate_args: As in every TFP distribution.
        allow_nan_stats: As in every TFP distribution.
        name: Name of the distribution.

    Example:

    >>> import tfvn
    >>> float(tfvn.distributions.ExactHorseshoe(2.0).cdf(0.0))
    0.5

    Reference:

    - [Carvalho et al., 2009](https://proceedings.mlr.press/v5/carvalho09a.html)
    """

    def _log_prob(self, x: Any) -> Any:
        t = tf.square(x / self.scale) / 2.0
        # The density has a pole at zero, where the gradient is NaN. The smallest positive
        # number is used instead.
        t = tf.maximum(t, np.finfo(self.dtype.as_numpy_dtype).tiny)
        constant = 0.5 * np.log(2.0 * np.pi**3)
        return log_scaled_e1(t) - constant - tf.math.log(self.scale)

    def _cdf(self, x: Any) -> Any:
        # Outside of any graph, because `ScaleMixture` needs the values of its noise.
        with tf.init_scope():
            noise = tfd.HalfCauchy(tf.zeros((), self.dtype), tf.ones((), self.dtype))
        return ScaleMixture(noise, self.scale).cdf(x)


def log_scaled_e1(t: Any) -> Any:
    """Returns `log(exp(t) E_1(t))`, where `E_1` is the exponential integral.

    Args:
        t: A tensor that is not negative. At zero the result is infinite.

    Reference:

    - [DLMF](https://dlmf.nist.gov/6.6#E2), equation 6.6.2, for the series
    """
    is_small = t < _BORDER
    # Each branch gets only arguments for which it is finite, because the gradient of
    # `tf.where` goes through both branches.
    small = tf.where(is_small, t, tf.ones_like(t))
    large = tf.where(is_small, _BORDER * tf.ones_like(t), t)
    series = tf.zeros_like(t)
    for k in range(_TERMS, 0, -1):
        # The terms (-1)^(k+1) t^k / (k k!), by Horner's rule.
        series = small / k * (1.0 / k - series)
    fraction = large + 2.0 * _LEVELS + 1.0
    for k in range(_LEVELS, 0, -1):
        fraction = large + 2.0 * k - 1.0 - k**2 / fraction
    return tf.where(
        is_small,
        small + tf.math.log(series - np.euler_gamma - tf.math.log(small)),
        -tf.math.log(fraction),
    )
