"""How a model is at some time, so that a trace of it can be known to be out of date.

A trace sees variables as they are now, but everything else as it was when it was made:
the rate of a dropout layer, an activation, the statistics and the vocabulary that
`adapt` or `load_weights` have found, the variables that there are.
"""

import functools
import weakref
from typing import Any

import keras
import numpy as np

from tfvn.layers.weighted_kl import WeightedKL
from tfvn.prediction.program import functional_graph
from tfvn.utils import private
from tfvn.utils.models import all_layers

# What Keras writes on a model while it trains, evaluates or predicts, and whatever else
# has nothing to do with what a call of the model computes.
_OF_TRAINING = frozenset(
    [
        "compiled",
        "history",
        "loss",
        "optimizer",
        "predict_function",
        "steps_per_execution",
        "stop_evaluating",
        "stop_predicting",
        "stop_training",
        "test_function",
        "train_function",
    ]
)

# Most attributes are of these types, for which asking no further is faster.
_PLAIN_TYPES = frozenset({bool, int, float, str, type(None)})
_VALUES = (bool, int, float, complex, str, bytes, type(None), np.generic)


def snapshot(model: keras.Model) -> Any:
    """Returns what a trace of a model depends on, variables' values aside.

    Of each layer these are its attributes: numbers and strings by value, lists and
    dictionaries by what is in them, all other objects by identity. Compiling a model
    anew is a change too, as it is for `keras.Model.predict`.

    Args:
        model: A model.

    Returns:
        A tuple that is equal to that of another time if nothing has changed. It keeps
        nothing alive.
    """
    compiled = private.compile_config(model)
    layers = [_attributes(layer) for layer in all_layers(model)]
    # All of them, which the attributes of the layers need not show.
    return _identity(compiled), _freeze(model.weights), tuple(layers)


def _attributes(layer: keras.Layer) -> Any:
    attributes = {}
    if functional_graph(layer) is None:
        attributes = vars(layer)
    keeps_notes = isinstance(layer, keras.Model | WeightedKL)
    # Private attributes of models and of this library's layers change in every call, and
    # those of TensorFlow say how the layer is saved.
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
    """Whether an attribute of a name may say what a call of a layer computes."""
    is_note = name.startswith("_" if keeps_notes else "_self_")
    return not is_note and name not in _of_all_layers() | _OF_TRAINING


@functools.cache
def _of_all_layers() -> frozenset[str]:
    """Returns the names of what Keras keeps on every layer."""
    return frozenset(vars(keras.Layer())) - {"call"}


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
    """Returns what is equal for one and the same object only."""
    try:
        # The number of an object that is gone can be that of another; its reference
        # is not. The number stands first, so that objects themselves, arrays say, are
        # never compared.
        return id(value), weakref.ref(value)
    except TypeError:
        return id(value), type(value)
