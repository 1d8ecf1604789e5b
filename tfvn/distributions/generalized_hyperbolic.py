"""The generalized hyperbolic distribution: a Normal times zero-mean Gaussian noise."""

from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from tensorflow_probability import distributions as tfd

from tfvn import random
from tfvn.distributions import trainable
from tfvn.distributions.scalar import ScalarDistribution
from tfvn.distributions.scale_mixture import ScaleMixture
from tfvn.distributions.serialization import register

# Below the border `K_0` is a power series, above it an integral by the trapezoidal rule.
# This many terms, and nodes this far apart, leave an error of 1e-10.
_BORDER = 2.0
_TERMS = 10
_NODES = np.arange(-5.0, 5.5, 0.5)


@register
class GeneralizedHyperbolic(ScalarDistribution):
    """The symmetric generalized hyperbolic distribution with `delta = 0`, or variance-gamma.

    With `lambda` for the concentration and `z = |w| / scale` the density is

        p(w) = (z / 2)^(lambda - 1/2) K_(lambda - 1/2)(z) / (sqrt(pi) Gamma(lambda) scale).

    It is the distribution of `scale c n` for independent `c ~ Chi(2 lambda)` and
    `n ~ N(0, 1)`. With the default concentration of 1/2 it is the distribution of a product
    of two Normals, with the density `K_0(z) / (pi scale)` and a pole at zero. With a
    concentration of 1 it is a Laplace distribution.

    Args:
        scale: Positive number. A weight from `N(0, s^2)` times noise from `N(0, t^2)` has
            the scale `s t`.
        concentration: The index lambda, positive.
        validate_args: As in every TFP distribution.
        allow_nan_stats: As in every TFP distribution.
        name: Name of the distribution.

    Example:

    >>> import tfvn
    >>> law = tfvn.distributions.GeneralizedHyperbolic(scale=2.0)
    >>> float(law.variance())
    4.0

    Reference:

    - [Barndorff-Nielsen, 1977](https://doi.org/10.1098/rspa.1977.0041)
    - [Nalisnick and Smyth, 2018](https://arxiv.org/abs/1810.04045), table 1
    """

    def __init__(
        self,
        scale: Any,
        concentration: Any = 0.5,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "GeneralizedHyperbolic",
    ):
        parameters = dict(locals())
        if trainable.is_variable(concentration):
            raise ValueError(
                "The concentration of a `GeneralizedHyperbolic` can't be trained, because "
                "the Bessel function has no gradient with respect to its index; make it a "
                f"number. Received: concentration={concentration}"
            )
        self.scale = tf.convert_to_tensor(scale)
        self.concentration = tf.convert_to_tensor(concentration, self.scale.dtype)
        super().__init__(parameters, self.scale.dtype)

    @classmethod
    def _parameter_properties(cls, dtype: Any, num_classes: Any = None) -> dict:
        properties = tfd.Gamma.parameter_properties(dtype)
        return {
            "scale": properties["rate"],
            "concentration": properties["concentration"],
        }

    def _sample_n(self, n: Any, seed: Any = None) -> Any:
        first, second = tf.unstack(tfp.random.split_seed(seed, n=2))
        shape = tf.concat([[n], self.batch_shape_tensor()], axis=0)
        df = tf.broadcast_to(2.0 * self.concentration, shape[1:])
        normal = random.normal(shape, second, self.dtype)
        return self.scale * tfd.Chi(df).sample(n, seed=first) * normal

    def _log_prob(self, value: Any) -> Any:
        index = self.concentration - 0.5
        z = tf.abs(value) / self.scale
        # At zero the density has a pole, or the formula is 0 times infinity. A tiny
        # positive number is used instead.
        z = tf.maximum(z, np.sqrt(np.finfo(self.dtype.as_numpy_dtype).tiny))
        is_default = np.all(tf.get_static_value(self.concentration) == 0.5)
        bessel = log_k0e(z) if is_default else tfp.math.log_bessel_kve(index, z)
        constant = 0.5 * np.log(np.pi) + tf.math.lgamma(self.concentration)
        power = index * tf.math.log(z / 2.0)
        return power + bessel - z - constant - tf.math.log(self.scale)

    def _cdf(self, value: Any) -> Any:
        if self.concentration.shape.rank != 0:
            raise NotImplementedError(
                "The `cdf` of a `GeneralizedHyperbolic` is implemented for a single "
                "concentration only; make one distribution for each concentration. "
                f"Received: concentration of shape {self.concentration.shape}"
            )
        # Outside of any graph, because `ScaleMixture` needs the values of its noise.
        with tf.init_scope():
            noise = tfd.Chi(2.0 * self.concentration)
        return ScaleMixture(noise, self.scale).cdf(value)

    def _mean(self) -> Any:
        return tf.zeros(self.batch_shape_tensor(), self.dtype)

    def _variance(self) -> Any:
        return 2.0 * self.concentration * tf.square(self.scale)


def log_k0e(z: Any) -> Any:
    """Returns `log(exp(z) K_0(z))`, where `K_0` is a modified Bessel function.

    TFP's own function accepts any index, but XLA takes half a minute to compile it.

    Args:
        z: A positive tensor.

    Reference:

    - [DLMF](https://dlmf.nist.gov/10.31#E2), equation 10.31.2, for the series
    - [DLMF](https://dlmf.nist.gov/10.32#E9), equation 10.32.9, for the integral
    """
    is_small = z < _BORDER
    # Each branch gets only arguments for which it is finite, because the gradient of
    # `tf.where` goes through both branches.
    small = tf.where(is_small, z, tf.ones_like(z))
    large = tf.where(is_small, _BORDER * tf.ones_like(z), z)
    square = tf.square(small / 2.0)
    harmonic = np.cumsum([0.0, *(1.0 / np.arange(1, _TERMS + 1))])
    series, i0 = tf.zeros_like(z), tf.zeros_like(z)
    for k in range(_TERMS, -1, -1):
        # The terms have the form x^k / k!^2 and are summed by Horner's rule.
        series = harmonic[k] + square / (k + 1) ** 2 * series
        i0 = 1.0 + square / (k + 1) ** 2 * i0
    k0 = series - (tf.math.log(small / 2.0) + np.euler_gamma) * i0
    integral = tf.add_n(
        [0.5 * np.exp(-(u**2)) * tf.math.rsqrt(2.0 * large + u**2) for u in _NODES]
    )
    return tf.where(is_small, small + tf.math.log(k0), tf.math.log(integral))
