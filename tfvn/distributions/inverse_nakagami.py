"""The inverse Nakagami distribution: a Normal times this noise is a Student-t."""

from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from tensorflow_probability import distributions as tfd

from tfvn.distributions.scalar import ScalarDistribution
from tfvn.distributions.serialization import register


@register
class InverseNakagami(ScalarDistribution):
    """The distribution of `1 / x` where `x` is Nakagami: `x^2 ~ Gamma(m, m / spread)`.

    Its square is inverse gamma with concentration `m` and scale `m / spread`, so that
    the product with an independent `N(0, s^2)` is `StudentT(2 m, 0, s / sqrt(spread))`.
    The mean is finite for `m > 1/2`, the variance for `m > 1`.

    Args:
        concentration: The parameter `m` of the Nakagami distribution, positive.
        spread: The parameter Omega of the Nakagami distribution, the mean of `x^2`,
            positive.
        validate_args: As in every TFP distribution.
        allow_nan_stats: As in every TFP distribution.
        name: Name of the distribution.

    Example:

    >>> import tfvn
    >>> law = tfvn.distributions.InverseNakagami(concentration=2.0, spread=2.0)
    >>> round(float(law.mean()), 4)
    0.8862

    Reference:

    - [Nalisnick and Smyth, 2018](https://arxiv.org/abs/1810.04045), table 1
    """

    def __init__(
        self,
        concentration: Any,
        spread: Any = 1.0,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "InverseNakagami",
    ):
        parameters = dict(locals())
        self.concentration = tf.convert_to_tensor(concentration)
        self.spread = tf.convert_to_tensor(spread, self.concentration.dtype)
        super().__init__(parameters, self.concentration.dtype)

    @classmethod
    def _parameter_properties(cls, dtype: Any, num_classes: Any = None) -> dict:
        properties = tfd.Gamma.parameter_properties(dtype)
        return {
            "concentration": properties["concentration"],
            "spread": properties["rate"],
        }

    @property
    def _rate(self) -> Any:
        """The rate of the gamma distribution of `1 / value^2`."""
        return self.concentration / self.spread

    def _sample_n(self, n: Any, seed: Any = None) -> Any:
        # This samples the logarithm of a gamma. With a small concentration, a sample of
        # the gamma itself is sometimes 0, which would make the noise infinite. With a tiny
        # concentration, even the exponential below would overflow, so it is limited.
        precision = tfd.ExpGamma(self.concentration, self._rate)
        log_noise = -0.5 * precision.sample(n, seed=tfp.random.sanitize_seed(seed))
        largest = np.log(np.finfo(self.dtype.as_numpy_dtype).max)
        return tf.exp(tf.minimum(log_noise, largest / 2.0))

    def _log_prob(self, value: Any) -> Any:
        precision = tfd.Gamma(self.concentration, self._rate)
        density = (
            precision.log_prob(value**-2.0) + np.log(2.0) - 3.0 * tf.math.log(value)
        )
        # The density is zero below the smallest value whose `value**-2` is finite.
        inside = (value > 0) & tf.math.is_finite(value**-2.0)
        return tf.where(inside, density, -tf.constant(np.inf, self.dtype))

    def _cdf(self, value: Any) -> Any:
        upper = tf.math.igammac(self.concentration, self._rate * value**-2.0)
        return tf.where(value > 0, upper, tf.zeros_like(upper))

    def _quantile(self, value: Any) -> Any:
        precision = tfp.math.igammacinv(self.concentration, value) / self._rate
        return tf.math.rsqrt(precision)

    def _mean(self) -> Any:
        excess = self.concentration - 0.5
        log_ratio = tf.math.lgamma(excess) - tf.math.lgamma(self.concentration)
        return self._if_positive(excess, tf.sqrt(self._rate) * tf.exp(log_ratio))

    def _variance(self) -> Any:
        excess = self.concentration - 1.0
        second = self._if_positive(excess, self._rate / excess)
        # If the second moment is infinite, so is the variance, even with an infinite mean.
        mean = tf.where(excess > 0, self._mean(), tf.zeros_like(second))
        return second - tf.square(mean)

    def _if_positive(self, excess: Any, moment: Any) -> Any:
        return tf.where(excess > 0, moment, tf.constant(np.inf, self.dtype))
