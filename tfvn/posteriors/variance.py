"""The zero-mean posterior of a variance layer."""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
import tensorflow_probability as tfp

from tfvn import distributions, random
from tfvn.distributions.scalar import SMALLEST_SCALE
from tfvn.kernel import KernelSpec
from tfvn.posteriors.base import Posterior, register
from tfvn.utils.validation import check_choice

Tensor = Any

# noise -> (function that samples it at scale 1, its variance, distribution of the weights)
_NOISES: dict[str, tuple[Callable[..., Tensor], float, type]] = {
    "gaussian": (random.normal, 1.0, distributions.ZeroMeanNormal),
    "bernoulli": (random.rademacher, 1.0, distributions.ZeroMeanBernoulli),
    "uniform": (random.uniform, 1.0 / 3.0, distributions.ZeroMeanUniform),
}


@register("variance")
class Variance(Posterior):
    """Weights with mean zero, which store all information in their variances.

    A weight is `scale * noise`. The scale may be any number: only its square matters, so
    it needs no constraint and no exponential. Its initial values are uniform on
    `+-1 / sqrt(fan_in)`. They must differ between the weights, or the layer does not learn.
    A scale of exactly zero has no gradient and stays zero.

    Args:
        noise: `"gaussian"` for standard normal noise, `"bernoulli"` for random
            signs, or `"uniform"` for noise that is uniform on [-1, 1].

    Example:

    >>> import tfvn
    >>> tfvn.posteriors.Variance(noise="uniform").law
    'uniform'

    Reference:

    - [Neklyudov et al., 2019](https://arxiv.org/abs/1803.03764), section 3
    """

    zero_mean = True

    def __init__(self, noise: str = "gaussian"):
        super().__init__()
        self.noise = check_choice("noise", noise, _NOISES)
        self.law = noise
        # The KL of a discrete distribution to any density is infinite.
        self.default_prior = None if noise == "bernoulli" else "log_uniform"
        self._draw, self._unit_variance, self._distribution = _NOISES[noise]

    def default_initializer(self, spec: KernelSpec) -> Any:
        # As in the authors' code.
        limit = spec.rows**-0.5
        return keras.initializers.RandomUniform(-limit, limit)

    def build(
        self,
        add_weight: Callable[..., keras.Variable],
        spec: KernelSpec,
        name: str = "kernel",
        **options: Any,
    ) -> None:
        self.spec = spec
        self.scale = add_weight(name=f"{name}_scale", shape=spec.shape, **options)
        self.variable_groups = {"scale": [self.scale]}

    def mean(self) -> Tensor:
        return tf.zeros_like(self.scale.value)

    def variance(self) -> Tensor:
        variance = tf.square(self.scale.value)
        return variance if self._unit_variance == 1 else self._unit_variance * variance

    def sample(self, seed: Tensor) -> Tensor:
        scale = self.scale.value
        return scale * self._draw(scale.shape, seed, scale.dtype)

    def distribution(self) -> tfp.distributions.Distribution:
        scale = tf.maximum(tf.abs(self.scale.value), SMALLEST_SCALE)
        return self._distribution(scale)

    def get_config(self) -> dict[str, Any]:
        return {"noise": self.noise}
