"""A posterior in which some weights are pruned."""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
import tensorflow_probability as tfp

from tfvn import distributions
from tfvn.kernel import KernelSpec
from tfvn.posteriors.base import Posterior, get, once_per_reading, register, serialize
from tfvn.support import CORRELATED

Tensor = Any


@register()
class Pruned(Posterior):
    """Another posterior, in which some weights are exactly zero.

    A variable that is not trained, the mask, says which weights are kept. At first all
    are; `tfvn.prune` makes layers with this posterior and sets their masks. The posterior
    applies the mask whenever it is read, so that a pruned weight stays zero whatever an
    optimizer does to its variables. No gradient reaches these, and the weight adds
    nothing to the KL.

    Pruning saves no time: the kernel is as large as before.

    Args:
        posterior: The posterior of the weights that are kept: an alias or an instance.
            Defaults to `"mean_field"`.

    Attributes:
        posterior: The posterior of the weights that are kept.
        mask: The variable, `True` for each weight that is kept.

    Example:

    >>> import tfvn
    >>> layer = tfvn.layers.Dense(2, posterior=tfvn.posteriors.Pruned("variance"))
    >>> layer.build((None, 3))
    >>> _ = layer.posterior.mask.assign([[True, False]] * 3)
    >>> layer.posterior_distribution().variance().numpy()[:, 1].tolist()
    [0.0, 0.0, 0.0]
    """

    mask: keras.Variable

    def __init__(self, posterior: Any = "mean_field"):
        super().__init__()
        self.posterior: Posterior = unpruned(get(posterior)).clone()
        if self.posterior.law == CORRELATED:
            raise ValueError(
                "Weights that are correlated can't be pruned one by one, because the others "
                "would change too; expected a posterior of independent weights, such as "
                "that of `tfvn.last_layer_laplace(..., hessian='diag')`. "
                f"Received: posterior={self.posterior.alias!r}"
            )
        self.alias = f"pruned {self.posterior.alias}"
        self.law = self.posterior.law
        self.default_prior = self.posterior.default_prior
        self.zero_mean = self.posterior.zero_mean

    def default_initializer(self, spec: KernelSpec) -> Any:
        return self.posterior.default_initializer(spec)

    def build(
        self,
        add_weight: Callable[..., keras.Variable],
        spec: KernelSpec,
        name: str = "kernel",
        **options: Any,
    ) -> None:
        self.spec = spec
        self.posterior.build(add_weight, spec, name, **options)
        self.variable_groups = self.posterior.variable_groups
        self.mask = add_weight(
            name=f"{name}_mask",
            shape=spec.shape,
            dtype="bool",
            initializer="ones",
            trainable=False,
        )

    def read(self) -> "Pruned":
        reading: Any = super().read()
        reading.posterior = self.posterior.read()
        return reading

    @once_per_reading
    def mean(self) -> Tensor:
        return self._masked(self.posterior.mean())

    @once_per_reading
    def variance(self) -> Tensor:
        return self._masked(self.posterior.variance())

    def sample(self, seed: Tensor) -> Tensor:
        return self._masked(self.posterior.sample(seed))

    def distribution(self) -> tfp.distributions.Distribution:
        return distributions.PrunedWeights(
            self.posterior.distribution(), self.mask.value
        )

    def _masked(self, values: Tensor) -> Tensor:
        return tf.where(self.mask.value, values, tf.zeros((), values.dtype))

    def get_config(self) -> dict[str, Any]:
        return {"posterior": serialize(self.posterior)}


def unpruned(posterior: Any) -> Any:
    """Returns the posterior inside a `Pruned`, and any other posterior as it is.

    Args:
        posterior: A posterior, or its reading.
    """
    return posterior.posterior if isinstance(posterior, Pruned) else posterior
