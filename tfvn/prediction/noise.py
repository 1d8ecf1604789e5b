"""Finds the layers that draw noise at inference, and makes them read the `Pass`.

A layer says so by an attribute `noise_per_example`: `True` where the examples of a batch
get independent noise, `False` where they share some of it, `None` where there is none.
For Keras's own layers the table below says it. A layer of unknown kind that owns a
`keras.random.SeedGenerator`, a `Dropout` with another `call` among them, gets a pass for
each draw, as if a batch shared its noise,
and a seed for each block of rows, as if it did not: slower than need be, and never wrong.
If its `call` takes `training` and it has no layers inside, it may draw in training only,
and is called as in training.
"""

import contextlib
import functools
import inspect
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

from tfvn import passes
from tfvn.layers.base import RandomWeightsLayer
from tfvn.utils import private
from tfvn.utils.models import all_layers

# The types of TensorFlow's ops that draw random numbers.
_RANDOM_OP = re.compile(
    "(Stateful|Stateless)?"
    "(Multinomial|(Parameterized)?TruncatedNormal|Random|StandardNormal|Uniform)"
)


def noise_of(layer: Any) -> bool | None:
    """Returns whether a layer's own noise is per example, or `None` if it draws none.

    Layers inside of the layer do not count; see `is_noisy`.
    """
    if hasattr(layer, "noise_per_example"):
        return layer.noise_per_example
    if _is_known(layer):
        return _keras_noise(layer)
    return False if is_unknown(layer) else None


def has_own_noise(layer: Any) -> bool:
    """Whether any of a layer's own noise is, or may be, per example."""
    if isinstance(layer, RandomWeightsLayer):
        # Flipout shares a kernel and has signs for each example.
        estimator = layer.estimator_in_use
        return estimator.draws_noise and not estimator.draws_weights
    return bool(noise_of(layer)) or is_unknown(layer)


def is_noisy(operation: Any) -> bool:
    """Whether an operation of a Keras graph, or any layer in it, draws noise."""
    return isinstance(operation, keras.Layer) and any(
        noise_of(layer) is not None for layer in all_layers(operation)
    )


def prepare(model: keras.Layer) -> None:
    """Makes the noise layers of a model, and their seed generators, read the `Pass`.

    Layers of this library do so by themselves. In a pass with `draws_noise`, Keras's
    noise layers are called as in training, while other layers, such as batch
    normalization, are not; in a pass with a stream, seeds come from the stream. Otherwise
    they behave as before. This happens once for each layer and permanently, so that a
    pass changes nothing that another thread can see.
    """
    for layer in all_layers(model):
        if _draws_in_training(layer):
            _check_generator(layer)
            _wrap(layer, "call", functools.partial(_Call, layer))
        if not isinstance(layer, RandomWeightsLayer):
            for generator in private.seed_generators(layer):
                _wrap(generator, "next", functools.partial(_Next, layer))


@contextlib.contextmanager
def refused(operation: Any) -> Iterator[None]:
    """Raises if an operation that is not known to draw noise does so, in a trace."""
    graph = tf.compat.v1.get_default_graph()
    before = len(graph.get_operations())
    yield
    for op in graph.get_operations()[before:]:
        if _RANDOM_OP.match(op.type):
            raise ValueError(
                "Noise of a layer of one's own would be the same in all draws, unless the "
                "layer has a `keras.random.SeedGenerator` as an attribute, or an attribute "
                "`noise_per_example` that is `True` or `False`. Received: layer "
                f"{operation.name!r} of type {type(operation).__name__}, which draws "
                f"random numbers (op {op.type})"
            )


def check_drawn(model: keras.Layer, asked: set[int]) -> None:
    """Raises if no layer of a model has drawn noise, and warns if some have not.

    Args:
        model: A model of which draws have just been traced.
        asked: The seed generators that were asked for seeds, by identity.
    """
    noisy = [layer for layer in all_layers(model) if noise_of(layer) is not None]
    # A recurrent layer leaves the noise to its cell.
    noisy = [layer for layer in noisy if not isinstance(layer, keras.layers.RNN)]
    lost = [
        layer
        for layer in noisy
        if private.seed_generators(layer)
        and not asked & set(map(id, private.seed_generators(layer)))
    ]
    if not lost:
        return
    names = ", ".join(repr(layer.name) for layer in lost)
    message = (
        "The ensemble lacks the noise of a layer that drew none; let it draw at inference "
        "too: call it always and hand it `training`, instead of calling it `if training`, "
        "and not in a `tf.function` that an earlier call has traced. "
        f"Received: layer {names}"
    )
    if len(lost) == len(noisy):
        raise ValueError(message)
    warnings.warn(message, stacklevel=2)


def _wrap(owner: Any, name: str, wrapper: Callable) -> None:
    # Set in the instance's dictionary, because built Keras layers lock their
    # attributes.
    attributes = vars(owner)
    before = attributes.get(name)
    if before is None:
        # If two threads do this, the first one wins.
        attributes.setdefault(name, wrapper(getattr(owner, name)))
    elif not isinstance(before, _Call | _Next):
        attributes[name] = wrapper(before)


# Objects rather than closures, so that copies and pickles of their owner get their own.


class _Call:
    """The `call` of a layer, as in training if the pass has `draws_noise`."""

    def __init__(self, layer: Any, own: Callable):
        self._layer = layer
        functools.update_wrapper(self, own)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        own = self.__wrapped__  # type: ignore[attr-defined]
        if not (passes.current().draws_noise and _draws_in_training(self._layer)):
            return own(*args, **kwargs)
        bound = inspect.signature(own).bind(*args, **kwargs)
        bound.arguments["training"] = True
        return own(*bound.args, **bound.kwargs)


class _Next:
    """The `next` of a layer's seed generator, from the stream of the pass if it has one."""

    def __init__(self, layer: Any, own: Callable):
        self._layer = layer
        functools.update_wrapper(self, own)

    def __call__(self, ordered: bool = True, per_example: bool | None = None) -> Any:
        own, now = self.__wrapped__, passes.current()  # type: ignore[attr-defined]
        if now.stream is None:
            return own(ordered=ordered)
        now.record.asked.add(id(own.__self__))
        if per_example is None:
            per_example = bool(noise_of(self._layer)) or is_unknown(self._layer)
        return now.stream.next(per_example)


@functools.singledispatch
def _keras_noise(layer: Any) -> bool | None:
    """The table of `noise_of` for Keras's own layers."""
    raise TypeError(f"{type(layer).__name__} is not in the table.")


@_keras_noise.register
def _(layer: keras.layers.Dropout) -> bool | None:
    if layer.rate == 0:
        return None
    # With some noise shapes the whole batch shares the noise.
    return layer.noise_shape is None or layer.noise_shape[0] is None


@_keras_noise.register(keras.layers.AlphaDropout)
def _(layer: Any) -> bool | None:
    if layer.rate == 0:
        return None
    return layer.noise_shape is None or layer.noise_shape[0] is None


@_keras_noise.register(keras.layers.GaussianDropout)
def _(layer: Any) -> bool | None:
    return True if layer.rate > 0 else None


@_keras_noise.register(keras.layers.GaussianNoise)
def _(layer: Any) -> bool | None:
    return True if layer.stddev > 0 else None


@_keras_noise.register(keras.layers.Attention)
def _(layer: Any) -> bool | None:
    return True if layer.dropout > 0 else None


@_keras_noise.register(private.DropoutRNNCell)
def _(cell: Any) -> bool | None:
    return True if cell.dropout > 0 or cell.recurrent_dropout > 0 else None


@_keras_noise.register(keras.layers.RNN)
def _(layer: Any) -> bool | None:
    # It passes `training` to its cell.
    cells = getattr(layer.cell, "cells", [layer.cell])
    drops = [_keras_noise(cell) for cell in cells if _is_known(cell)]
    return True if any(drops) else None


@_keras_noise.register(private.DataLayer)
def _(layer: Any) -> bool | None:
    return None  # augmentation belongs to training


def is_unknown(layer: Any) -> bool:
    """Whether a layer has seed generators, but does not declare its noise."""
    is_told = hasattr(layer, "noise_per_example") or _is_known(layer)
    return not is_told and bool(private.seed_generators(layer))


def _draws_in_training(layer: Any) -> bool:
    """Whether a layer draws, or may draw, noise only if it is called as in training."""
    if _is_known(layer):
        return _keras_noise(layer) is not None
    # Layers inside, such as batch normalization, would switch to training too.
    return (
        is_unknown(layer)
        and all_layers(layer) == [layer]
        and "training" in inspect.signature(layer.call).parameters
    )


def _check_generator(layer: Any) -> None:
    """Raises if a rate was changed from zero, because Keras made no generator then."""
    # A recurrent layer leaves the noise to its cell.
    if not isinstance(layer, keras.layers.RNN) and not private.seed_generators(layer):
        raise ValueError(
            "Keras gives a noise layer its seed generator only if the layer is made with a "
            "rate (or a standard deviation) above 0; make the layer with the rate that it "
            "is to have, instead of changing the attribute later. "
            f"Received: layer {layer.name!r} of type {type(layer).__name__}, made without "
            "noise"
        )


def _is_known(layer: Any) -> bool:
    default = _keras_noise.dispatch(object)
    if _keras_noise.dispatch(type(layer)) is default:
        return False
    if isinstance(layer, private.DropoutRNNCell | keras.layers.RNN | private.DataLayer):
        return True  # the user's `call` surrounds what Keras draws
    # Elsewhere the user's `call` may share the noise between examples.
    is_own = not type(layer).call.__module__.startswith("keras.")
    return not (is_own and private.seed_generators(layer))
