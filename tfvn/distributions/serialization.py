"""Priors inside a Keras config: `tfd.Distribution` objects as plain data.

A distribution is saved as the name of its class and the arguments of its constructor. So
a layer can be saved and loaded with any TFP distribution as its prior whose arguments are
numbers, arrays, variables or other distributions. A loaded variable is a variable again,
with the value that it had.
"""

import inspect
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from tensorflow_probability import bijectors as tfb
from tensorflow_probability import distributions as tfd

from tfvn.utils import private

_CUSTOM: dict[str, type] = {}

# Arguments that do not change which distribution it is.
_INCIDENTAL = {"name", "validate_args", "allow_nan_stats"}


def register(cls: type) -> type:
    """Makes your own `tfd.Distribution` class a prior that can be saved (a decorator).

    The class must pass the arguments of its constructor to `tfd.Distribution` as
    `parameters`, as TFP's own distributions do.
    """
    _CUSTOM[cls.__name__] = cls
    return cls


def remember(distribution: Any, arguments: dict[str, Any]) -> None:
    """Stores the constructor arguments of a distribution, for copies and for saving.

    Needed in a subclass of a TFP distribution whose constructor has other arguments than
    the base class: TFP would store, and copy with, those of the base class.

    Args:
        distribution: The distribution, at the end of its constructor.
        arguments: The `locals()` of its constructor.
    """
    kept = {k: v for k, v in arguments.items() if k not in ("self", "__class__")}
    private.set_parameters(distribution, kept)


def serialize(distribution: Any) -> dict[str, Any]:
    """Returns a distribution as plain data that `deserialize` can read.

    Args:
        distribution: A distribution of TFP, of this library, or a registered one.

    Returns:
        A dictionary of strings, numbers, lists and nested dictionaries.
    """
    cls: Any = distribution.__class__
    name = cls.__name__
    if _find(name) is not cls:
        raise ValueError(
            f"A `{name}` can't be saved as a prior; decorate the class with "
            "`tfvn.distributions.register` so that it can. "
            f"Received: distribution={distribution}"
        )
    return {"distribution": name, "parameters": _parameters(distribution)}


def deserialize(config: dict[str, Any]) -> tfd.Distribution:
    """Returns the distribution that `serialize` made `config` from."""
    cls = _find(config["distribution"])
    if cls is None:
        raise ValueError(
            f"Unknown distribution {config['distribution']!r}; if it is a class of "
            "your own, import the module that registers it with "
            f"`tfvn.distributions.register`. Received: config={config}"
        )
    return cls(**_arguments(config))


def is_config(value: Any) -> bool:
    """Whether `value` is a dictionary that `serialize` made."""
    return isinstance(value, dict) and set(value) == {"distribution", "parameters"}


def _find(name: str) -> Any:
    return _CUSTOM.get(name) or getattr(tfd, name, None)


def _parameters(part: Any) -> dict[str, Any]:
    """Returns the constructor arguments of a distribution or bijector, as plain data."""
    cls: Any = part.__class__
    # The signature of `__init__`: some TFP classes have a `__new__` that accepts anything.
    accepted = inspect.signature(cls.__init__).parameters
    return {
        key: _to_data(value, f"`{key}` of `{cls.__name__}`")
        for key, value in part.parameters.items()
        if key in accepted and key not in _INCIDENTAL and value is not None
    }


def _arguments(config: dict[str, Any]) -> dict[str, Any]:
    return {key: _from_data(value) for key, value in config["parameters"].items()}


def _to_data(value: Any, where: str) -> Any:
    if isinstance(value, tfd.Distribution):
        return serialize(value)
    if isinstance(value, tf.Variable):
        return _variable_to_data(value)
    if isinstance(value, tfp.util.TransformedVariable):
        return {
            "transformed": _variable_to_data(value.pretransformed_input),
            "bijector": _to_data(value.bijector, where),
        }
    if isinstance(value, tfb.Bijector):
        name = type(value).__name__
        if getattr(tfb, name, None) is type(value):
            return {"bijector": name, "parameters": _parameters(value)}
    # Checked before plain numbers, because a NumPy float is also a Python float.
    if tf.is_tensor(value) or isinstance(value, np.ndarray | np.generic):
        return _array_to_data(value)
    if isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tf.DType):
        return {"dtype": value.name}
    if isinstance(value, list | tuple):
        return [_to_data(item, where) for item in value]
    raise ValueError(
        "The parameters of a prior must be numbers, arrays, variables or "
        f"distributions, so that the prior can be saved, but {where} is none of these; "
        f"use another prior, or do not save the layer. Received: {value!r}"
    )


def _array_to_data(value: Any) -> dict[str, Any]:
    array = np.asarray(value)
    return {"array": array.tolist(), "dtype": array.dtype.name}


def _array_from_data(data: dict[str, Any]) -> np.ndarray:
    return np.array(data["array"], dtype=data["dtype"])


def _variable_to_data(variable: tf.Variable) -> dict[str, Any]:
    data = {
        "variable": _array_to_data(tf.convert_to_tensor(variable)),
        "trainable": variable.trainable,
        "name": variable.name.partition(":")[0],
    }
    if private.is_saving():
        # A model is being saved, and other layers in it may share this variable.
        data["shared_object_id"] = id(variable)
    return data


def _variable_from_data(data: dict[str, Any]) -> tf.Variable:
    shared = data.get("shared_object_id")
    variable = None if shared is None else private.get_shared_object(shared)
    if variable is None:
        # Outside of the graph, in case one is being traced.
        with tf.init_scope():
            variable = tf.Variable(
                _array_from_data(data["variable"]),
                trainable=data["trainable"],
                name=data["name"],
            )
        if shared is not None:
            private.record_object_after_deserialization(variable, shared)
    return variable


def _from_data(value: Any) -> Any:
    if is_config(value):
        return deserialize(value)
    if isinstance(value, dict) and "variable" in value:
        return _variable_from_data(value)
    if isinstance(value, dict) and "transformed" in value:
        return tfp.util.TransformedVariable(
            None,
            _from_data(value["bijector"]),
            pretransformed_input=_variable_from_data(value["transformed"]),
        )
    if isinstance(value, dict) and "bijector" in value:
        return getattr(tfb, value["bijector"])(**_arguments(value))
    if isinstance(value, dict) and set(value) == {"dtype"}:
        return tf.as_dtype(value["dtype"])
    if isinstance(value, dict):
        return _array_from_data(value)
    if isinstance(value, list):
        return [_from_data(item) for item in value]
    return value
