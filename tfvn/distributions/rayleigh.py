"""The Rayleigh distribution: a Normal times this noise is a Laplace."""

from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from tensorflow_probability import distributions as tfd

from tfvn import random
from tfvn.distributions.scalar import ScalarDistribution
from tfvn.distributions.serialization import register


@register
class Rayleigh(ScalarDistribution):
    """The distribution of the length of a vector of two independent `N(0, scale^2)`.

    Its square is exponential with mean `2 scale^2`, so that the product with an
    independent `N(0, s^2)` is `Laplace(0, scale s)`.

    Args:
        scale: Mode of the distribution, positive.
        validate_args: As in every TFP distribution.
        allow_nan_stats: As in every TFP distribution.
        name: Name of the distribution.

    Example:

    >>> import tfvn
    >>> round(float(tfvn.distributions.Rayleigh(1.0).mean()), 4)
    1.2533

    Reference:

    - [Nalisnick and Smyth, 2018](https://arxiv.org/abs/1810.04045), table 1
    """

    def __init__(
        self,
        scale: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Rayleigh",
    ):
        parameters = dict(locals())
        self.scale = tf.convert_to_tensor(scale)
        super().__init__(parameters, self.scale.dtype)

    @classmethod
    def _parameter_properties(cls, dtype: Any, num_classes: Any = None) -> dict:
        return {"scale": tfd.Normal.parameter_properties(dtype)["scale"]}

    def _sample_n(self, n: Any, seed: Any = None) -> Any:
        seed = tfp.random.sanitize_seed(seed)
        shape = tf.concat([[n], tf.shape(self.scale)], axis=0)
        # On [0, 1), so that the logarithm in `_quantile` never gets a zero.
        uniform = (random.uniform(shape, seed, self.dtype) + 1.0) / 2.0
        return self._quantile(uniform)

    def _log_prob(self, value: Any) -> Any:
        ratio = value / self.scale
        density = tf.math.log(ratio) - tf.square(ratio) / 2.0 - tf.math.log(self.scale)
        return tf.where(value < 0, -tf.constant(np.inf, self.dtype), density)

    def _cdf(self, value: Any) -> Any:
        ratio = tf.nn.relu(value) / self.scale
        return -tf.math.expm1(-tf.square(ratio) / 2.0)

    def _quantile(self, value: Any) -> Any:
        return self.scale * tf.sqrt(-2.0 * tf.math.log1p(-value))

    def _mean(self) -> Any:
        return self.scale * np.sqrt(np.pi / 2.0)

    def _variance(self) -> Any:
        return tf.square(self.scale) * (2.0 - np.pi / 2.0)
