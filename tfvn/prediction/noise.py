"""Finds the layers that draw noise at inference, and makes them read the `Pass`.

A layer declares its noise in an attribute `noise_per_example`: `True` if the examples of a
batch get independent noise, `False` if they share some of it, `None` if there is none. For
Keras's own layers, this module knows it. Any other layer with a
`keras.random.SeedGenerator` is unknown, for instance a subclass of `Dropout` with another
`call`. It gets one pass for each draw, in case a batch shares its noise, and one seed for
each block of rows, in case a batch does not: that is always right, but may be slow. If its
`call` takes `training` and there are no layers inside of it, the layer is called as in
training, because it may draw only then.
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

# Keras's layers that draw noise in training, and the attributes that say how much.
_AMOUNTS: dict[type, tuple[str, ...]] = {
    keras.layers.Dropout: ("rate",),
    keras.layers.AlphaDropout: ("rate",),
    keras.layers.GaussianDropout: ("rate",),
    keras.layers.GaussianNoise: ("stddev",),
    keras.layers.Attention: ("dropout",),
    private.DropoutRNNCell: ("dropout", "recurrent_dropout"),
    private.DataLayer: (),  # augmentation belongs to training
}

NAMES_OF_AMOUNTS = tuple(
    dict.fromkeys(name for names in _AMOUNTS.values() for name in names)
)

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


def prepare(model: keras.Layer, batch_statistics: bool = False) -> None:
    """Makes the noise layers of a model, and their seed generators, read the `Pass`.

    Layers of this library do so by themselves. In a pass with `draws_noise`, Keras's
    noise layers are called as in training, while other layers, such as batch
    normalization, are not; in a pass with a stream, seeds come from the stream. Otherwise
    they behave as before. This happens once for each layer and permanently, so that a
    pass changes nothing that another thread can see.

    Args:
        model: The model.
        batch_statistics: Whether its batch normalization reads the `Pass` as well.
    """
    for layer in all_layers(model):
        if batch_statistics and isinstance(layer, keras.layers.BatchNormalization):
            _wrap(layer, "call", functools.partial(_Normalize, layer))
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
                "This layer draws random numbers in a way that gives all draws of the "
                "ensemble the same noise; draw them with a "
                "`keras.random.SeedGenerator` that is an attribute of the layer, or "
                "set the layer's attribute `noise_per_example` to `True` or `False`. "
                f"Received: layer {operation.name!r} of type "
                f"{type(operation).__name__}, which draws random numbers (op {op.type})"
            )


def check_drawn(model: keras.Layer, asked: set[int]) -> None:
    """Raises if no layer of a model has drawn noise, and warns if some have not.

    Args:
        model: A model of which draws have just been traced.
        asked: The seed generators that were asked for seeds, by identity.
    """
    noisy = [
        layer
        for layer in all_layers(model)
        # A recurrent layer leaves the noise to its cell.
        if noise_of(layer) is not None and not isinstance(layer, keras.layers.RNN)
    ]
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
        "The ensemble lacks the noise of a layer that was not asked for any; call the "
        "layer whenever the model is called and pass it `training`, instead of calling "
        "it only `if training`, and don't call it in a `tf.function` that was traced "
        f"before. Received: layer {names}"
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
    elif not isinstance(before, _Wrapper):
        attributes[name] = wrapper(before)


# Objects rather than closures, so that copies and pickles of their owner get their own.


class _Wrapper:
    """Replaces a method of a layer, or of its seed generator.

    Args:
        layer: The layer.
        own: The method.
    """

    def __init__(self, layer: Any, own: Callable):
        self._layer = layer
        functools.update_wrapper(self, own)  # type: ignore[arg-type]


class _Call(_Wrapper):
    """The `call` of a layer, as in training if the pass has `draws_noise`."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        own = self.__wrapped__  # type: ignore[attr-defined]
        if not (passes.current().draws_noise and _draws_in_training(self._layer)):
            return own(*args, **kwargs)
        bound = inspect.signature(own).bind(*args, **kwargs)
        bound.arguments["training"] = True
        return own(*bound.args, **bound.kwargs)


class _Normalize(_Wrapper):
    """The `call` of a batch normalization, as in training if the pass asks for it."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        own = self.__wrapped__  # type: ignore[attr-defined]
        if not passes.current().batch_statistics:
            return own(*args, **kwargs)
        bound = inspect.signature(own).bind(*args, **kwargs)
        bound.arguments["training"] = True
        # The scope takes the new moving statistics, and forgets them.
        with keras.StatelessScope():
            return own(*bound.args, **bound.kwargs)


class _Next(_Wrapper):
    """The `next` of a layer's seed generator, from the stream of the pass if it has one."""

    def __call__(self, ordered: bool = True, per_example: bool | None = None) -> Any:
        own, now = self.__wrapped__, passes.current()  # type: ignore[attr-defined]
        if now.stream is None:
            return own(ordered=ordered)
        now.record.asked.add(id(own.__self__))
        if per_example is None:
            per_example = has_own_noise(self._layer)
        return now.stream.next(per_example)


def _keras_noise(layer: Any) -> bool | None:
    """Returns what `noise_of` does, for Keras's own layers."""
    if isinstance(layer, keras.layers.RNN):
        # It passes `training` to its cell.
        cells = getattr(layer.cell, "cells", [layer.cell])
        return any(_keras_noise(cell) for cell in cells if _is_known(cell)) or None
    names = next(names for cls, names in _AMOUNTS.items() if isinstance(layer, cls))
    if not any(getattr(layer, name) > 0 for name in names):
        return None
    # With some noise shapes the whole batch shares the noise.
    shape = getattr(layer, "noise_shape", None)
    return shape is None or shape[0] is None


def is_unknown(layer: Any) -> bool:
    """Whether a layer has seed generators, but does not declare its noise."""
    if hasattr(layer, "noise_per_example") or _is_known(layer):
        return False
    return bool(private.seed_generators(layer))


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
            "Keras creates the seed generator of a noise layer only if the layer is "
            "made with a rate (or a standard deviation) above 0; make the layer with "
            "the rate that you want, instead of changing the attribute later. "
            f"Received: layer {layer.name!r} of type {type(layer).__name__}, made "
            "without noise"
        )


def _is_known(layer: Any) -> bool:
    if isinstance(layer, private.DropoutRNNCell | keras.layers.RNN | private.DataLayer):
        return True  # the user's `call` surrounds what Keras draws
    # Elsewhere the user's `call` may share the noise between examples.
    is_own = not type(layer).call.__module__.startswith("keras.")
    is_in_table = isinstance(layer, tuple(_AMOUNTS))
    return is_in_table and not (is_own and private.seed_generators(layer))
