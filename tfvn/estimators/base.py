"""Base class of estimators."""

import abc
from typing import Any, NamedTuple

from tfvn import support
from tfvn.estimators.sequence_weights import FlippedWeights, HeldWeights
from tfvn.kernel import LinearOp
from tfvn.posteriors.base import Posterior
from tfvn.random import SeedGenerator
from tfvn.utils.registry import Part, Registry

Tensor = Any
Held = HeldWeights | FlippedWeights

registry = Registry("estimator", support.add_estimator)
register = registry.register
get = registry.get
serialize = registry.serialize


class Term(NamedTuple):
    """One summand of a layer's output, `linear_op(inputs, kernel)`."""

    linear_op: LinearOp
    posterior: Posterior
    inputs: Tensor


class Estimate(NamedTuple):
    """An output with noise in it.

    Attributes:
        outputs: The output, in the dtype of the inputs.
        weights: The kernel that was sampled for each term, or `None` if the estimator
            samples none.
    """

    outputs: Tensor
    weights: tuple[Tensor | None, ...]


class Estimator(Part, abc.ABC):
    """A way to sample `sum(linear_op(inputs, kernel))` for random kernels.

    To add one, subclass this and register the class with an alias and its support table:
    `@tfvn.estimators.register("mine", support={...})`. For the cells of recurrent layers,
    implement `hold` and pass `recurrent={...}` too.

    Attributes:
        noise_per_example: Whether the examples of a batch get independent noise.
        draws_weights: Whether it samples kernels, which an estimate of the KL can reuse.
        draws_noise: Whether two calls differ at all.
    """

    noise_per_example: bool = False
    draws_weights: bool = False
    draws_noise: bool = True

    @abc.abstractmethod
    def __call__(self, terms: list[Term], seed_generator: SeedGenerator) -> Estimate:
        """Returns one draw of the output."""

    def hold(
        self,
        posteriors: dict[str, Posterior],
        batch_size: Tensor,
        dtype: Any,
        seed_generator: SeedGenerator,
    ) -> Held:
        """Samples the weights of a cell for a whole sequence.

        Args:
            posteriors: The posteriors by the name of the weight: `"kernel"`,
                `"recurrent_kernel"` and, if it is random, `"bias"`.
            batch_size: Number of examples.
            dtype: The type that the steps compute in.
            seed_generator: Gives the seeds.
        """
        raise NotImplementedError(
            f"`{type(self).__name__}` can't be used in recurrent layers, because it "
            "has no `hold` method; define one, or choose another estimator."
        )

    def prepare(self, terms: list[Term], offset: Tensor | None) -> Any:
        """Returns what all draws of an output share, or `None`.

        It is a structure of tensors with the batch as first axis, from which `redraw`
        makes draws at a lower cost than calls. `None` means that draws share nothing, and
        that the estimator has to be called for each.

        Args:
            terms: The summands of the output.
            offset: A bias to add to every draw, or `None`.
        """
        return None

    def redraw(
        self, prepared: Any, copies: int, seed_generator: SeedGenerator
    ) -> Tensor:
        """Returns `copies` draws of each example, one after the other."""
        raise NotImplementedError(
            f"`{type(self).__name__}` has a `prepare` method, so it needs a `redraw` "
            "method as well; define both or neither."
        )
