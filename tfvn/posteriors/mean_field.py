"""The fully factorised Normal posterior."""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
import tensorflow_probability as tfp

from tfvn import distributions, random
from tfvn.distributions.sums_over_weights import Exponentials, exponentials
from tfvn.posteriors.base import NormalPosterior, once_per_reading, register
from tfvn.utils.validation import as_number, check_number

Tensor = Any


@register("mean_field")
class MeanField(NormalPosterior):
    """Independent Normal weights, each with its own mean and scale.

    The trainable variable is the logarithm of the variance. Other libraries use a softplus,
    which for small scales is almost an exponential too, but costs an extra logarithm. The
    initial standard deviations are small, about 0.01, so that a network first learns its
    means, as a deterministic one would.

    Args:
        scale_initializer: The initial standard deviations: a positive number, or a Keras
            initializer that returns positive values. Defaults to values around 0.01.

    Example:

    >>> import tfvn
    >>> layer = tfvn.layers.Dense(
    ...     3, posterior=tfvn.posteriors.MeanField(scale_initializer=0.1)
    ... )
    >>> layer.build((None, 2))
    >>> print(layer.posterior_distribution().stddev().numpy().round(3))
    [[0.1 0.1 0.1]
     [0.1 0.1 0.1]]

    Reference:

    - [Blundell et al., 2015](https://arxiv.org/abs/1505.05424), section 3.2
    - [Swiatkowski et al., 2020](https://arxiv.org/abs/2002.02655), appendix, for the
      initial values
    """

    def __init__(self, scale_initializer: Any = None):
        super().__init__()
        self.scale_initializer = _scale_initializer(scale_initializer)

    def add_scale_variables(
        self, add_weight: Callable[..., keras.Variable], name: str
    ) -> list[keras.Variable]:
        self.log_variance_variable = add_weight(
            name=f"{name}_log_variance",
            shape=self.spec.shape,
            initializer=self._initial_log_variance,
        )
        return [self.log_variance_variable]

    def _initial_log_variance(self, shape: Any, dtype: Any = None) -> Tensor:
        # Outside of the graph, in case the layer is built while one is being traced.
        with tf.init_scope():
            scale = tf.convert_to_tensor(self.scale_initializer(shape, dtype=dtype))
            smallest = float(tf.reduce_min(scale))
        if not smallest > 0:
            raise ValueError(
                "Argument `scale_initializer` must return positive standard "
                f"deviations. Received: scale_initializer={self.scale_initializer}, "
                f"which returned {smallest}"
            )
        return 2.0 * tf.math.log(scale)

    @once_per_reading
    def variances(self) -> Exponentials:
        """Returns the variance of each weight, and the sums that a KL needs."""
        return exponentials(self.log_variance_variable.value)

    def variance(self) -> Tensor:
        return self.variances().each

    def scale(self) -> Tensor:
        """Returns the standard deviation of each weight."""
        return tf.exp(0.5 * self.log_variance_variable.value)

    def sample(self, seed: Tensor) -> Tensor:
        scale = self.scale()
        return self.mean() + scale * random.normal(scale.shape, seed, scale.dtype)

    def distribution(self) -> tfp.distributions.Distribution:
        # If an estimator has computed the variances in this call, the KL uses the same
        # tensors, so that their gradient is computed once.
        known = (self.computed or {}).get("variances")
        return distributions.LogVarianceNormal(
            self.mean(), self.log_variance_variable.value, known
        )

    def get_config(self) -> dict[str, Any]:
        initializer = keras.initializers.serialize(self.scale_initializer)
        return {"scale_initializer": initializer}


def _scale_initializer(identifier: Any) -> Any:
    if identifier is None:
        # Swiatkowski et al. use N(0.01, 0.001); truncating it keeps the scales positive.
        return keras.initializers.TruncatedNormal(mean=0.01, stddev=0.001)
    if as_number(identifier) is not None:
        scale = check_number("scale_initializer", identifier, above=0)
        return keras.initializers.Constant(scale)
    return keras.initializers.get(identifier)
