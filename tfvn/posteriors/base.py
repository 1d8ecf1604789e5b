"""The contract of a posterior."""

import abc
from collections.abc import Callable
from typing import Any, ClassVar

import keras
import tensorflow_probability as tfp

from tfvn.kernel import KernelSpec
from tfvn.registry import Registry

Tensor = Any
LinearOp = Callable[[Tensor, Tensor], Tensor]

registry = Registry("posterior")
register = registry.register
get = registry.get
serialize = registry.serialize

# The smallest standard deviation: small enough to be no noise at all, large enough
# for its square, its inverse and its logarithm to be finite in float32.
SMALLEST_SCALE = 1e-12


class Posterior(abc.ABC):
    """A distribution over a kernel, and the variables that it is learned by.

    A posterior is made without variables, from its own arguments alone; the layer it
    is given to keeps a copy and calls `build`, so one posterior may be passed to
    many layers. Values are in the dtype of the variables, whatever a layer computes
    in.

    To add one, subclass this, implement the abstract methods, and give the class an
    alias with `tfvn.posteriors.register`. Arguments of the constructor must be
    returned by `get_config`.

    Attributes:
        law: The row of the support tables: the shape of the weights' distribution.
        default_prior: Alias of the prior that `prior="auto"` stands for.
        zero_mean: Whether the mean is zero by construction, so that nothing needs to
            be computed for it.
        variable_groups: The variables by group: `"mean"`, `"scale"`.
    """

    alias: str
    law: str = "gaussian"
    default_prior: str | None = "normal"
    default_initializer: ClassVar[Any] = "glorot_uniform"
    zero_mean: bool = False

    def __init__(self) -> None:
        self.spec: KernelSpec | None = None
        self.variable_groups: dict[str, list[keras.Variable]] = {}

    def clone(self) -> "Posterior":
        """Returns a posterior with the same arguments and no variables."""
        return type(self)(**self.get_config())

    def get_config(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "Posterior":
        return cls(**config)

    @abc.abstractmethod
    def build(
        self,
        add_weight: Callable[..., keras.Variable],
        spec: KernelSpec,
        name: str = "kernel",
        **options: Any,
    ) -> None:
        """Creates the variables.

        Args:
            add_weight: The layer's `add_weight`, with automatic casting off.
            spec: Geometry of the kernel.
            name: What the kernel is called, the stem of the variables' names.
            **options: `initializer`, `regularizer` and `constraint` for the variable
                that stands where the kernel of a deterministic layer would.
        """

    @abc.abstractmethod
    def mean(self) -> Tensor:
        """Returns the mean of each weight."""

    @abc.abstractmethod
    def variance(self) -> Tensor:
        """Returns the variance of each weight."""

    @abc.abstractmethod
    def sample(self, seed: Tensor) -> Tensor:
        """Returns one kernel, differentiable in the variables.

        Args:
            seed: Two integers; the same seed gives the same kernel.
        """

    @abc.abstractmethod
    def distribution(self) -> tfp.distributions.Distribution:
        """Returns the distribution of the kernel, a batch of scalar weights."""

    def push_variance(self, linear_op: LinearOp, squared_inputs: Tensor) -> Tensor:
        """Returns the variance of `linear_op(inputs, kernel)` per output element.

        A posterior whose variances have structure can do this without forming them.

        Args:
            linear_op: The layer's linear function of inputs and kernel.
            squared_inputs: The squares of the inputs.
        """
        return linear_op(squared_inputs, self.variance())
