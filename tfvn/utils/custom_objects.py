"""Functions and classes of users that a copy of a model needs, which no file tells.

Keras writes a function into a config by its name. A copy that is made from configs alone
would need all functions and classes to be registered, and would take a function of Keras
where a user's has the same name.
"""

import contextlib
import inspect
import types
from collections.abc import Iterator
from typing import Any

import keras

from tfvn.utils import private
from tfvn.utils.models import all_layers, is_stock


@contextlib.contextmanager
def known_objects(model: keras.Layer) -> Iterator[None]:
    """Lets Keras find the classes and functions that a model has, by their names.

    Args:
        model: The model or layer whose configs are read in the scope.
    """
    found: dict[str, Any] = {}
    for layer in all_layers(model):
        cls = getattr(layer, "original_class", None) or type(layer)
        if not is_stock(cls):
            found[keras.saving.get_registered_name(cls)] = cls
        for value in vars(layer).values():
            is_function = isinstance(value, types.FunctionType)
            # Keras reads the name of one of its own functions as that function.
            if is_function and not hasattr(keras.activations, value.__name__):
                found[keras.saving.get_registered_name(value)] = value
    with private.custom_objects_too(found):
        yield


def with_functions(layer: Any, config: dict[str, Any]) -> dict[str, Any]:
    """Returns the config of a layer with the functions themselves, not their names.

    Args:
        layer: The layer.
        config: Its config, which a class of Keras, of this library, or one that does not
            override `from_config` takes.
    """
    if isinstance(layer, keras.layers.Lambda):
        return {**config, **private.lambda_arguments(layer)}
    functions = {key: getattr(layer, key, None) for key in config}
    found = {key: value for key, value in functions.items() if _is_function(value)}
    return {**config, **found}


def takes_functions(cls: type) -> bool:
    """Whether `from_config` of a class takes functions themselves."""
    maker = next(base for base in cls.__mro__ if "from_config" in vars(base))
    return is_stock(maker)


def check_functions(layer: keras.Layer, copy: keras.Layer) -> None:
    """Raises if a function in a layer is another one in its copy.

    Args:
        layer: The layer.
        copy: Its copy, which may be of another class.
    """
    for key, value in vars(layer).items():
        other = vars(copy).get(key)
        both = (value, other)
        if all(isinstance(f, types.FunctionType) for f in both) and (
            value.__code__ is not other.__code__
        ):
            raise ValueError(
                "A function in a layer is found by its name when the layer is copied; "
                "expected a name that no other function has. Received: layer "
                f"{layer.name!r} of type {type(layer).__name__} with "
                f"{key}={value.__module__}.{value.__qualname__}, for which "
                f"{other.__module__}.{other.__qualname__} was found"
            )


def _is_function(value: Any) -> bool:
    is_object = isinstance(value, type) or hasattr(value, "get_config")
    return callable(value) and not is_object and not inspect.ismethod(value)
