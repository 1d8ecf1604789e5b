"""The spike-and-slab prior: two Normals, or a Normal and an atom at zero."""

from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow_probability import distributions as tfd

from tfvn.distributions.serialization import register, remember


@register
class SpikeAndSlab(tfd.MixtureSameFamily):
    """A mixture of a wide slab, `N(0, slab_scale^2)`, and a narrow spike at zero.

    The spike is a second zero-mean Normal or, with a scale of 0, an atom: the weight is
    exactly zero. That is what Bernoulli noise makes of a Normal. `log_prob` is then a
    density against Lebesgue measure plus a unit mass at zero: at zero it is the
    logarithm of the atom's probability, elsewhere that of the slab's part.

    Args:
        slab_scale: Standard deviation of the slab.
        spike_scale: Standard deviation of the spike, smaller, or 0 for an atom.
        slab_probability: Probability of the slab.
        name: Name of the distribution.

    Example:

    >>> import tfvn
    >>> prior = tfvn.distributions.SpikeAndSlab(slab_scale=1.0, spike_scale=0.01)
    >>> round(float(prior.variance()), 2)
    0.5

    Reference:

    - [Blundell et al., 2015](https://arxiv.org/abs/1505.05424), equation 7
    - [Nalisnick and Smyth, 2018](https://arxiv.org/abs/1810.04045), equation 12
    """

    def __init__(
        self,
        slab_scale: float,
        spike_scale: float,
        slab_probability: float = 0.5,
        name: str = "SpikeAndSlab",
    ):
        parameters = dict(locals())
        if not 0 <= spike_scale < slab_scale:
            raise ValueError(
                "The scales of a `SpikeAndSlab` must be positive, that of the spike the "
                "smaller one or 0 for an atom. "
                f"Received: slab_scale={slab_scale} and spike_scale={spike_scale}"
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
        self._has_atom = spike_scale == 0
        self._slab = tfd.Normal(0.0, tf.constant(slab_scale, tf.float32))
        self._slab_probability = slab_probability

    @classmethod
    def _parameter_properties(cls, dtype: Any, num_classes: Any = None) -> dict:
        return {}

    # A Normal of scale 0 has no density and, at zero, no distribution function.

    def _log_prob(self, x: Any) -> Any:
        if not self._has_atom:
            return super()._log_prob(x)
        slab = self._slab.log_prob(x) + np.log(self._slab_probability)
        return tf.where(
            x == 0, tf.cast(np.log1p(-self._slab_probability), x.dtype), slab
        )

    def _log_cdf(self, x: Any) -> Any:
        if not self._has_atom:
            return super()._log_cdf(x)
        atom = tf.cast(x >= 0, x.dtype) * (1.0 - self._slab_probability)
        return tf.math.log(self._slab_probability * self._slab.cdf(x) + atom)
