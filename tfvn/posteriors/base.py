"""The contract of a posterior."""

import abc
import copy
import functools
from collections.abc import Callable
from typing import Any

import keras
import tensorflow_probability as tfp

from tfvn import support
from tfvn.kernel import KernelSpec, LinearOp
from tfvn.utils.registry import Registry

Tensor = Any

registry = Registry("posterior", support.add_posterior)
register = registry.register
get = registry.get
serialize = registry.serialize

# The smallest standard deviation: small enough to be no noise at all, large enough
# for its square, its inverse and its logarithm to be finite in float32.
SMALLEST_SCALE = 1e-12


def once_per_reading(method: Callable[[Any], Tensor]) -> Callable[[Any], Tensor]:
    """Makes a method compute its tensor only once in a `Posterior.read()`."""

    @functools.wraps(method)
    def cached(self: "Posterior") -> Tensor:
        if self.computed is None:
            return method(self)
        if method.__name__ not in self.computed:
            self.computed[method.__name__] = method(self)
        return self.computed[method.__name__]

    return cached


class Posterior(abc.ABC):
    """A distribution over a kernel, and the variables that it is learned by.

    A posterior is made without variables, from its own arguments alone; the layer it
    is given to keeps a copy and calls `build`, so one posterior may be passed to
    many layers. Values are in the dtype of the variables, whatever a layer computes
    in.

    To add one, subclass this, implement the abstract methods, and register the class
    with an alias: `@tfvn.posteriors.register("mine")`. If its `law` is a new one, pass
    what combines with it differently than with any other: `support={...}`. Arguments
    of the constructor must be returned by `get_config`.

    Attributes:
        law: The row of the support tables: the shape of the weights' distribution.
        default_prior: Alias of the prior that `prior="auto"` stands for.
        zero_mean: Whether the mean is zero by construction, so that nothing needs to
            be computed for it.
        variable_groups: The variables by group: `"mean"`, `"scale"`.
    """

    alias: str
    spec: Any = None
    law: str = "gaussian"
    default_prior: str | None = "normal"
    zero_mean: bool = False

    # What a reading has computed so far; a posterior itself keeps no tensors.
    computed: dict[str, Tensor] | None = None

    def __init__(self) -> None:
        self.variable_groups: dict[str, list[keras.Variable]] = {}

    def read(self) -> "Posterior":
        """Returns the posterior as it is now, for the length of one call.

        What is asked of it more than once, by the estimator and by the KL, is computed
        once. It holds tensors, so it must not outlive the call.
        """
        reading = copy.copy(self)
        reading.computed = {}
        return reading

    def clone(self) -> "Posterior":
        """Returns a posterior with the same arguments and no variables."""
        return type(self)(**self.get_config())

    def get_config(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "Posterior":
        return cls(**config)

    def default_initializer(self, spec: KernelSpec) -> Any:
        """Returns the initializer of the variable that stands for the kernel."""
        return keras.initializers.GlorotUniform()

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
            linear_op: What the layer does with a kernel.
            squared_inputs: The squares of the inputs.
        """
        return linear_op(squared_inputs, self.variance())
