"""Snapshots of a model, which show whether a trace of it is out of date.

A trace uses the current values of variables, but everything else as it was at the time of
the trace: the rate of a dropout layer, an activation, the statistics and the vocabulary
from `adapt` or `load_weights`, the set of variables.
"""

import functools
import weakref
from typing import Any

import keras
import numpy as np

from tfvn.layers.weighted_kl import WeightedKL
from tfvn.utils import private_training
from tfvn.utils.models import all_layers, functional_graph

# Most attributes have these types; stopping here is faster.
_PLAIN_TYPES = frozenset({bool, int, float, str, type(None)})
_VALUES = (bool, int, float, complex, str, bytes, type(None), np.generic)


def snapshot(model: keras.Model) -> Any:
    """Returns everything that a trace of a model depends on, except variables' values.

    For each layer these are its attributes: numbers and strings by value, lists and
    dictionaries by their items, all other objects by identity. Compiling a model again
    counts as a change, as for `keras.Model.predict`.

    Args:
        model: A model.

    Returns:
        A tuple that equals an earlier one if nothing has changed. It keeps nothing alive.
    """
    compiled = private_training.compile_config(model)
    layers = [_attributes(layer) for layer in all_layers(model)]
    return _identity(compiled), tuple(layers)


def _attributes(layer: keras.Layer) -> Any:
    attributes = {}
    if functional_graph(layer) is None:
        attributes = vars(layer)
    keeps_notes = isinstance(layer, keras.Model | WeightedKL)
    # Left out are private attributes of models and of this library's layers, which
    # change in every call, and those of TensorFlow, which concern saving.
    return (
        id(layer),
        _identity(layer.dtype_policy),
        tuple(
            [
                (name, value if type(value) in _PLAIN_TYPES else _freeze(value))
                for name, value in attributes.items()
                if _counts(name, keeps_notes)
            ]
        ),
    )


@functools.cache
def _counts(name: str, keeps_notes: bool) -> bool:
    """Whether an attribute with this name may affect the result of a call."""
    is_note = name.startswith("_" if keeps_notes else "_self_")
    return not is_note and name not in _names_of_keras()


@functools.cache
def _names_of_keras() -> set[str]:
    """Returns the names of the attributes that Keras sets on layers and models."""
    while_training = {"history", "optimizer"}
    stops = {"stop_evaluating", "stop_predicting", "stop_training"}
    return {*vars(keras.Model(name="names")), *while_training, *stops} - {"call"}


def _freeze(value: Any, depth: int = 3) -> Any:
    if isinstance(value, _VALUES):
        return value
    if depth and isinstance(value, list | tuple):
        return tuple([_freeze(item, depth - 1) for item in value])
    if depth and isinstance(value, dict):
        items = value.items()
        return tuple([(_freeze(k), _freeze(v, depth - 1)) for k, v in items])
    return _identity(value)


def _identity(value: Any) -> Any:
    """Returns a value that is equal only for the same object."""
    try:
        # A new object can get the `id` of a deleted one, but not its reference. The
        # `id` comes first, so that the objects themselves, such as arrays, are never
        # compared.
        return id(value), weakref.ref(value)
    except TypeError:
        return id(value), type(value)
