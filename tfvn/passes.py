"""The purpose of a call of a model, as far as its layers need to know it.

The code that runs a model enters a `Pass`; layers read it and write only to its record.
It is a context variable: every thread has its own, and so has every replica of a
strategy. Enter it inside the Python function that TensorFlow traces, and inside the
function that a strategy runs, because the threads of replicas do not inherit context
variables.
"""

import contextlib
import contextvars
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import tensorflow as tf

Tensor = Any


class Divergence(NamedTuple):
    """What a layer reports about its KL.

    Attributes:
        nats: The KL in nats, without any weight.
        loss: The weighted KL, which the layer has added to the losses.
        call: The call of the outermost layer in which it did so.
    """

    nats: Tensor
    loss: Tensor
    call: Any


class Record:
    """What the layers report during a pass.

    Attributes:
        divergences: The KL of each layer that was called, by the layer's identity.
        draws: How many draws of the noise the loss was computed from.
        is_tracked: Whether the parts of the loss have been logged.
        asked: The seed generators that were asked for seeds, by identity, in a pass
            with a stream.
        part: The part of the batch that the replica has, or `None` without replicas.
    """

    def __init__(self) -> None:
        self.divergences: dict[int, Divergence] = {}
        self.draws = 0
        self.is_tracked = False
        self.asked: set[int] = set()
        self.part: Any = None

    def kl(self) -> Tensor:
        """Returns the sum of the divergences of the last pass."""
        nats = [divergence.nats for divergence in self.divergences.values()]
        return tf.add_n([tf.zeros(()), *nats])


@dataclasses.dataclass(frozen=True, eq=False)
class Pass:
    """The purpose of a call of a model.

    Attributes:
        owner: The `tfvn.Model` whose step this is, or `None` outside of any step.
        adds_kl: Whether layers add their KL to the losses; a prediction has no loss.
        kl_weight: The weight of the schedule in this step.
        kl_factor: The factor by which each layer multiplies its KL, besides its own
            `kl_weight`: the weight of the schedule divided by the number of training
            examples. `None` in a step means that the number of examples is not known.
        kl_gradient: `"total"`, or `"path"` to leave out the score term.
        num_samples: How many draws of the noise the loss averages over.
        record: Where layers write their KL in nats, in a step.
        stream: The `tfvn.random.Stream` that gives all seeds, or `None` for the seed
            generators of the layers.
        estimator_of: Returns the estimator that a layer with random weights uses, or
            `None` for the layer's own.
        posterior_of: Returns what replaces the posterior of a layer, or `None` for the
            posterior itself.
        draws_noise: Whether noise layers also draw at inference, where they usually do
            not.
        batch_statistics: Whether batch normalization uses the mean and the variance of
            the batch, as in training, and leaves its moving statistics unchanged.
        noise_of: A function of a noise layer, its source of noise and a shape that
            returns the factors of the layer; `None` lets the layer draw them.
        is_compiled: Whether XLA compiles the pass; `None` if this is not known.
    """

    owner: Any = None
    adds_kl: bool = True
    kl_weight: Tensor | None = None
    kl_factor: Tensor | None = None
    kl_gradient: str = "total"
    num_samples: int = 1
    record: Record = dataclasses.field(default_factory=Record)
    stream: Any = None
    estimator_of: Callable[[Any], Any] | None = None
    posterior_of: Callable[[Any], Any] | None = None
    draws_noise: bool = False
    batch_statistics: bool = False
    noise_of: Callable[[Any, Any, Any], Tensor] | None = None
    is_compiled: bool | None = None


_OUTSIDE = Pass()

_current: contextvars.ContextVar[Pass] = contextvars.ContextVar(
    "pass", default=_OUTSIDE
)


def current() -> Pass:
    """Returns the current pass."""
    return _current.get()


@contextlib.contextmanager
def entered(new: Pass) -> Iterator[Pass]:
    """Makes a pass the current one inside the context.

    Example:

    >>> from tfvn import passes
    >>> with passes.entered(passes.Pass(kl_gradient="path")):
    ...     passes.current().kl_gradient
    'path'
    >>> passes.current().kl_gradient
    'total'
    """
    token = _current.set(new)
    try:
        yield new
    finally:
        _current.reset(token)


def changed(**fields: Any) -> contextlib.AbstractContextManager[Pass]:
    """Enters a copy of the current pass with some fields changed.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.MultiplicativeNoise()
    >>> with tfvn.passes.changed(draws_noise=True):
    ...     bool((layer(np.ones((50, 4))).numpy() == 1.0).all())
    False
    >>> bool((layer(np.ones((50, 4))).numpy() == 1.0).all())
    True
    """
    return entered(dataclasses.replace(current(), **fields))
