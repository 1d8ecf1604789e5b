"""When layers that are quiet at inference draw all the same.

Noise layers, like `keras.layers.Dropout`, act in training only. An ensemble needs their
noise at inference, without the rest of the model (batch normalization, say) believing
that it is being trained.
"""

import contextlib
import contextvars
from collections.abc import Iterator

_drawing = contextvars.ContextVar("drawing", default=False)


def is_drawing() -> bool:
    """Whether noise layers draw at inference, here and now."""
    return _drawing.get()


@contextlib.contextmanager
def drawing() -> Iterator[None]:
    """Makes noise layers that are called, or traced, in the context draw.

    The state belongs to the thread (or task) that entered the context, and to no model.

    Example:

    >>> from tfvn import sampling
    >>> with sampling.drawing():
    ...     sampling.is_drawing()
    True
    >>> sampling.is_drawing()
    False
    """
    token = _drawing.set(True)
    try:
        yield
    finally:
        _drawing.reset(token)
