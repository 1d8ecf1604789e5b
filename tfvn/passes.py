"""What a call of a model is for, as far as its layers have to know.

Whoever runs a pass through a model enters a `Pass`; layers read it and write on nothing
but its record. It is a context variable: every thread has its own, and so has every
replica of a strategy, as long as it is entered inside of what the strategy runs.
"""

import contextlib
import contextvars
import dataclasses
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

Tensor = Any


class Record:
    """What the layers of a pass have to tell whoever runs it.

    Attributes:
        divergences: The KL of each layer that was called, in nats and without any
            weight, by the layer's identity.
        draws: How many draws of the noise the loss has been computed from.
        is_tracked: Whether the parts of the loss have been noted.
    """

    def __init__(self) -> None:
        self.divergences: dict[int, Tensor] = {}
        self.draws = 0
        self.is_tracked = False

    def kl(self) -> Tensor:
        """Returns the sum of the divergences of the last pass."""
        return tf.add_n([tf.zeros(()), *self.divergences.values()])


@dataclasses.dataclass(frozen=True, eq=False)
class Pass:
    """What a call of a model is for.

    Attributes:
        owner: The `tfvn.Model` whose step this is, or `None` outside of any step.
        kl_weight: The weight of the schedule in this step.
        kl_factor: What each layer multiplies its KL by, beside its own `kl_weight`: the
            weight of the schedule divided by the number of training examples. `None` in
            a step means that the number of examples is not known.
        kl_gradient: `"total"`, or `"path"` to leave out the score term.
        num_samples: How many draws of the noise the loss averages over.
        record: Where layers note their KL.
    """

    owner: Any = None
    kl_weight: Tensor | None = None
    kl_factor: Tensor | None = None
    kl_gradient: str = "total"
    num_samples: int = 1
    record: Record = dataclasses.field(default_factory=Record)


_OUTSIDE = Pass()

_current: contextvars.ContextVar[Pass | None] = contextvars.ContextVar(
    "pass", default=None
)


def current() -> Pass:
    """Returns the pass that is going on, here and now."""
    return _current.get() or _OUTSIDE


@contextlib.contextmanager
def entered(new: Pass) -> Iterator[Pass]:
    """Makes a pass the current one, within the context.

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
