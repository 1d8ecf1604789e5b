"""The automatic-relevance-determination prior."""

from typing import Any

import tensorflow as tf
from tensorflow_probability import distributions as tfd

from tfvn.distributions.scalar import ScalarDistribution
from tfvn.distributions.serialization import register


@register
class ARD(ScalarDistribution):
    """A marker for a zero-mean Normal prior whose scale follows the posterior.

    The KL compares each weight `w ~ N(mean, scale^2)` with `N(0, mean^2 + scale^2)`,
    the zero-mean Normal closest to it, so that

        KL = 0.5 log(1 + mean^2 / scale^2),

    which is equation 11 of Neklyudov et al. with the factor 0.5 that is missing there.
    The prior depends on the posterior and has no density without one, so only the KL
    is defined.

    Args:
        dtype: Floating-point type of the weights.
        name: Name of the distribution.

    Reference:

    - [Titsias and Lazaro-Gredilla, 2014](https://proceedings.mlr.press/v32/titsias14.html)
    - [Neklyudov et al., 2019](https://arxiv.org/abs/1803.03764), equation 11
    """

    def __init__(self, dtype: Any = tf.float32, name: str = "ARD"):
        parameters = dict(locals())
        super().__init__(parameters, dtype, tfd.NOT_REPARAMETERIZED)

    @classmethod
    def _parameter_properties(cls, dtype: Any, num_classes: Any = None) -> dict:
        return {}
