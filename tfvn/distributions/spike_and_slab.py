"""The spike-and-slab prior: two Normals, or a Normal and an atom at zero."""

from typing import Any

import tensorflow as tf
from tensorflow_probability import distributions as tfd

from tfvn.distributions import trainable
from tfvn.distributions.serialization import register, remember
from tfvn.utils.validation import as_number


@register
class SpikeAndSlab(tfd.MixtureSameFamily):
    """A mixture of a wide slab, `N(0, slab_scale^2)`, and a narrow spike at zero.

    The spike is a second zero-mean Normal or, with a scale of 0, an atom: the weight is
    then exactly zero with positive probability. A Normal weight times Bernoulli noise has
    this distribution. With an atom, `log_prob` is a density with respect to Lebesgue
    measure plus a unit mass at zero: at zero it returns the logarithm of the atom's
    probability, elsewhere the log density of the slab times the slab's probability.

    Args:
        slab_scale: Standard deviation of the slab.
        spike_scale: Standard deviation of the spike, smaller than that of the slab, or 0
            for an atom.
        slab_probability: Probability of the slab. The probability and the scales may be
            numbers or, in a prior that is trained, variables.
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
        slab_scale: Any,
        spike_scale: Any,
        slab_probability: Any = 0.5,
        name: str = "SpikeAndSlab",
    ):
        parameters = dict(locals())
        # A prior that is trained is rebuilt in every step from tensors, whose values are
        # unknown while the step is traced. Those are not checked.
        slab, spike, probability = (
            None if trainable.is_variable(value) else as_number(value)
            for value in (slab_scale, spike_scale, slab_probability)
        )
        if slab is not None and spike is not None and not 0 <= spike < slab:
            raise ValueError(
                "Argument `slab_scale` must be positive, and `spike_scale` must be "
                "smaller than it and positive, or 0 for weights that are exactly zero. "
                f"Received: slab_scale={slab} and spike_scale={spike}"
            )
        if probability is not None and not 0 < probability < 1:
            raise ValueError(
                "Argument `slab_probability` must be between 0 and 1. "
                f"Received: slab_probability={slab_probability}"
            )
        self._has_atom = spike == 0
        self._slab_probability = tf.cast(slab_probability, tf.float32)
        self._slab = tfd.Normal(0.0, tf.cast(slab_scale, tf.float32))
        probabilities = [self._slab_probability, 1.0 - self._slab_probability]
        scales = [self._slab.scale, tf.cast(spike_scale, tf.float32)]
        super().__init__(
            tfd.Categorical(probs=tf.stack(probabilities)),
            tfd.Normal(0.0, tf.stack(scales)),
            name=name,
        )
        remember(self, parameters)

    @classmethod
    def _parameter_properties(cls, dtype: Any, num_classes: Any = None) -> dict:
        return {}

    # A Normal with scale 0 has no density, and its `cdf` at zero is NaN, so the methods
    # below treat the atom separately.

    def _log_prob(self, x: Any) -> Any:
        if not self._has_atom:
            return super()._log_prob(x)
        slab = self._slab.log_prob(x) + tf.math.log(self._slab_probability)
        return tf.where(x == 0, tf.math.log1p(-self._slab_probability), slab)

    def _log_cdf(self, x: Any) -> Any:
        if not self._has_atom:
            return super()._log_cdf(x)
        atom = tf.cast(x >= 0, x.dtype) * (1.0 - self._slab_probability)
        return tf.math.log(self._slab_probability * self._slab.cdf(x) + atom)
