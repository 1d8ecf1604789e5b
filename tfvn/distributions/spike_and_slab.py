"""The spike-and-slab prior as a mixture of two Normals."""

from typing import Any

import tensorflow as tf
from tensorflow_probability import distributions as tfd

from tfvn.distributions.serialization import register, remember


@register
class SpikeAndSlab(tfd.MixtureSameFamily):
    """A mixture of two zero-mean Normals, a wide slab and a narrow spike.

    Args:
        slab_scale: Standard deviation of the slab.
        spike_scale: Standard deviation of the spike, smaller.
        slab_probability: Probability of the slab.
        name: Name of the distribution.

    Example:

    >>> import tfvn
    >>> prior = tfvn.distributions.SpikeAndSlab(slab_scale=1.0, spike_scale=0.01)
    >>> round(float(prior.variance()), 2)
    0.5

    Reference:

    - [Blundell et al., 2015](https://arxiv.org/abs/1505.05424), equation 7
    """

    def __init__(
        self,
        slab_scale: float,
        spike_scale: float,
        slab_probability: float = 0.5,
        name: str = "SpikeAndSlab",
    ):
        parameters = dict(locals())
        if not 0 < spike_scale < slab_scale:
            raise ValueError(
                "The scales of a `SpikeAndSlab` must be positive, that of the spike the "
                f"smaller one. Received: slab_scale={slab_scale} and "
                f"spike_scale={spike_scale}"
            )
        if not 0 < slab_probability < 1:
            raise ValueError(
                "Argument `slab_probability` must be between 0 and 1. "
                f"Received: slab_probability={slab_probability}"
            )
        super().__init__(
            tfd.Categorical(probs=[slab_probability, 1.0 - slab_probability]),
            tfd.Normal(0.0, tf.constant([slab_scale, spike_scale], tf.float32)),
            name=name,
        )
        remember(self, parameters)

    @classmethod
    def _parameter_properties(cls, dtype: Any, num_classes: Any = None) -> dict:
        return {}
