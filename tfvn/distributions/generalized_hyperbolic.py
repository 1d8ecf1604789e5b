"""The generalized hyperbolic law that Gaussian noise makes of a Normal."""

from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from tensorflow_probability import distributions as tfd

from tfvn import random
from tfvn.distributions.scale_mixture import ScaleMixture
from tfvn.distributions.serialization import register


@register
class GeneralizedHyperbolic(tfd.Distribution):
    """The symmetric generalized hyperbolic law with `delta = 0`, or variance-gamma.

    With `lambda` for the concentration and `z = |w| / scale` the density is

        p(w) = (z / 2)^(lambda - 1/2) K_(lambda - 1/2)(z) / (sqrt(pi) Gamma(lambda) scale).

    It is the law of `scale c n` for independent `c ~ Chi(2 lambda)` and `n ~ N(0, 1)`. With
    the default, 1/2, it is that of the product of two Normals, `K_0(z) / (pi scale)`, with
    a pole at zero; with 1 it is a Laplace.

    Args:
        scale: Positive; a weight of `N(0, s^2)` times a noise of `N(0, t^2)` has `s t`.
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
        self.scale = tf.convert_to_tensor(scale)
        self.concentration = tf.convert_to_tensor(concentration, self.scale.dtype)
        super().__init__(
            dtype=self.scale.dtype,
            reparameterization_type=tfd.FULLY_REPARAMETERIZED,
            validate_args=validate_args,
            allow_nan_stats=allow_nan_stats,
            parameters=parameters,
            name=name,
        )

    @classmethod
    def _parameter_properties(cls, dtype: Any, num_classes: Any = None) -> dict:
        properties = tfd.Gamma.parameter_properties(dtype)
        return {
            "scale": properties["rate"],
            "concentration": properties["concentration"],
        }

    def _event_shape_tensor(self) -> Any:
        return tf.constant([], dtype=tf.int32)

    def _event_shape(self) -> tf.TensorShape:
        return tf.TensorShape([])

    def _sample_n(self, n: Any, seed: Any = None) -> Any:
        first, second = tf.unstack(tfp.random.split_seed(seed, n=2))
        shape = tf.concat([[n], self.batch_shape_tensor()], axis=0)
        df = tf.broadcast_to(2.0 * self.concentration, shape[1:])
        normal = random.normal(shape, second, self.dtype)
        return self.scale * tfd.Chi(df).sample(n, seed=first) * normal

    def _log_prob(self, value: Any) -> Any:
        index = self.concentration - 0.5
        z = tf.abs(value) / self.scale
        # At the pole only the power and the function together have a limit; the
        # smallest number that is not zero is as near to it as matters.
        z = tf.maximum(z, np.finfo(self.dtype.as_numpy_dtype).tiny)
        bessel = tfp.math.log_bessel_kve(tf.abs(index), z) - z
        constant = 0.5 * np.log(np.pi) + tf.math.lgamma(self.concentration)
        return (
            index * tf.math.log(z / 2.0) + bessel - constant - tf.math.log(self.scale)
        )

    def _cdf(self, value: Any) -> Any:
        # Outside of the graph, as a mixture takes its noise.
        with tf.init_scope():
            noise = tfd.Chi(2.0 * self.concentration)
        return ScaleMixture(noise, self.scale).cdf(value)

    def _mean(self) -> Any:
        return tf.zeros(self.batch_shape_tensor(), self.dtype)

    def _variance(self) -> Any:
        return 2.0 * self.concentration * tf.square(self.scale)
