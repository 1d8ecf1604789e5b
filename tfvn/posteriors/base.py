"""The base class of posteriors."""

import abc
import copy
import functools
from collections.abc import Callable
from typing import Any

import keras
import tensorflow_probability as tfp

from tfvn import support
from tfvn.kernel import KernelSpec, LinearOp
from tfvn.utils.registry import Part, Registry

Tensor = Any

registry = Registry("posterior", support.add_posterior)
register = registry.register
get = registry.get
serialize = registry.serialize


def once_per_reading(method: Callable[[Any], Tensor]) -> Callable[[Any], Tensor]:
    """Makes a method of a `Posterior.read()` result compute its tensor only once."""

    @functools.wraps(method)
    def cached(self: "Posterior") -> Tensor:
        if self.computed is None:
            return method(self)
        if method.__name__ not in self.computed:
            self.computed[method.__name__] = method(self)
        return self.computed[method.__name__]

    return cached


class Posterior(Part, abc.ABC):
    """A distribution over a kernel, with the variables that training changes.

    A new posterior has no variables. A layer copies the posterior that you pass and calls
    `build` on the copy, so you may pass one posterior to many layers. Values have the
    dtype of the variables, even if the layer computes in another dtype.

    To add a posterior, subclass this class, implement the abstract methods, and register
    the class under an alias: `@tfvn.posteriors.register("mine")`. If its `law` is new, also
    pass `support={...}`: the estimators and priors, by alias, that treat this law
    differently from an unknown law. `get_config` must return the arguments of the
    constructor.

    Attributes:
        law: The kind of distribution of the weights, a column of the support tables.
        default_prior: Alias of the prior that `prior="auto"` chooses.
        zero_mean: Whether the mean is always zero, so that layers need not compute it.
        is_fitted: Whether a conversion sets the variables, which are then not trained.
        variable_groups: The variables by group: `"mean"`, `"scale"`.
    """

    spec: Any = None
    law: str = "gaussian"
    default_prior: str | None = "normal"
    zero_mean: bool = False
    is_fitted: bool = False

    # The tensors that a copy made by `read` has computed so far. `None` in a posterior
    # itself, which keeps no tensors.
    computed: dict[str, Tensor] | None = None

    def __init__(self) -> None:
        self.variable_groups: dict[str, list[keras.Variable]] = {}

    def read(self) -> "Posterior":
        """Returns a copy that caches tensors, to be used during one call of a layer.

        The estimator and the KL often need the same tensors; the copy computes each only
        once. Because it stores tensors, it must not be kept after the call.
        """
        reading = copy.copy(self)
        reading.computed = {}
        return reading

    def clone(self) -> "Posterior":
        """Returns a posterior with the same arguments and no variables."""
        return type(self)(**self.get_config())

    def default_initializer(self, spec: KernelSpec) -> Any:
        """Returns the default initializer of the kernel's main variable."""
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
            name: Name of the kernel. The names of the variables begin with it.
            **options: `initializer`, `regularizer` and `constraint` for the variable
                that corresponds to the kernel of a deterministic layer.
        """

    @abc.abstractmethod
    def mean(self) -> Tensor:
        """Returns the mean of each weight."""

    @abc.abstractmethod
    def variance(self) -> Tensor:
        """Returns the variance of each weight."""

    @abc.abstractmethod
    def sample(self, seed: Tensor) -> Tensor:
        """Returns one sampled kernel, differentiable with respect to the variables.

        Args:
            seed: Two integers; the same seed gives the same kernel.
        """

    @abc.abstractmethod
    def distribution(self) -> tfp.distributions.Distribution:
        """Returns the distribution of the kernel, a batch of scalar weights."""

    def push_variance(self, linear_op: LinearOp, squared_inputs: Tensor) -> Tensor:
        """Returns the variance of `linear_op(inputs, kernel)` per output element.

        Override it if the structure of the variances allows a faster computation, which
        does not form the variance of each weight.

        Args:
            linear_op: The function of inputs and kernel that the layer computes.
            squared_inputs: The squares of the inputs.
        """
        return linear_op(squared_inputs, self.variance())


class NormalPosterior(Posterior):
    """Independent Normal weights, each with its own mean.

    Subclasses differ in the variables from which they compute the scales.
    """

    mean_variable: keras.Variable

    @abc.abstractmethod
    def add_scale_variables(
        self, add_weight: Callable[..., keras.Variable], name: str
    ) -> list[keras.Variable]:
        """Creates the variables of the scales, after those of the means, and returns them.

        Args:
            add_weight: The layer's `add_weight`, with automatic casting off.
            name: Name of the kernel. The names of the variables begin with it.
        """

    def build(
        self,
        add_weight: Callable[..., keras.Variable],
        spec: KernelSpec,
        name: str = "kernel",
        **options: Any,
    ) -> None:
        self.spec = spec
        self.mean_variable = add_weight(
            name=f"{name}_mean", shape=spec.shape, **options
        )
        scales = self.add_scale_variables(add_weight, name)
        self.variable_groups = {"mean": [self.mean_variable], "scale": scales}

    def mean(self) -> Tensor:
        return self.mean_variable.value
