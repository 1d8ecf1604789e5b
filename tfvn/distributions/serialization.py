"""Priors inside a Keras config: `tfd.Distribution` objects as plain data.

A distribution is saved as its class and the parameters it was made from, so that
every TFP distribution of numbers, arrays and other distributions can be a prior of
a layer that is saved and loaded.
"""

import inspect
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow_probability import distributions as tfd

_CUSTOM: dict[str, type] = {}

# Arguments that say how a distribution computes, not which one it is.
_INCIDENTAL = {"name", "validate_args", "allow_nan_stats"}


def register(cls: type) -> type:
    """Lets a `tfd.Distribution` of one's own be saved as a prior (a decorator).

    The class must pass the arguments of its constructor on as `parameters`, as TFP's
    own distributions do.
    """
    _CUSTOM[cls.__name__] = cls
    return cls


def remember(distribution: Any, arguments: dict[str, Any]) -> None:
    """Sets the arguments that a distribution was made from.

    For a subclass of one of TFP's distributions that is made from other arguments:
    TFP keeps those of the base class, and copies by them.

    Args:
        distribution: The distribution, at the end of its constructor.
        arguments: The `locals()` of its constructor.
    """
    kept = {k: v for k, v in arguments.items() if k not in ("self", "__class__")}
    distribution._parameters = distribution._no_dependency(kept)  # noqa: SLF001


def serialize(distribution: Any) -> dict[str, Any]:
    """Returns a distribution as plain data that `deserialize` can read.

    Args:
        distribution: A distribution of TFP, of this library, or a registered one.

    Returns:
        A dictionary of strings, numbers, lists and such dictionaries.
    """
    cls: Any = distribution.__class__
    name = cls.__name__
    if _find(name) is not cls:
        raise ValueError(
            f"A `{name}` can't be saved as a prior; decorate the class with "
            "`tfvn.distributions.register` so that it can. "
            f"Received: distribution={distribution}"
        )
    # Of `__init__`: some of TFP's classes have a `__new__` that takes anything.
    accepted = inspect.signature(cls.__init__).parameters
    return {
        "distribution": name,
        "parameters": {
            key: _to_data(value, f"`{key}` of `{name}`")
            for key, value in distribution.parameters.items()
            if key in accepted and key not in _INCIDENTAL and value is not None
        },
    }


def deserialize(config: dict[str, Any]) -> tfd.Distribution:
    """Returns the distribution that `serialize` made `config` from."""
    cls = _find(config["distribution"])
    if cls is None:
        raise ValueError(
            f"Unknown distribution {config['distribution']!r}; if it is a class of "
            "your own, import the module that registers it with "
            f"`tfvn.distributions.register`. Received: config={config}"
        )
    parameters = config["parameters"]
    return cls(**{key: _from_data(value) for key, value in parameters.items()})


def is_config(value: Any) -> bool:
    """Whether `value` is a dictionary that `serialize` made."""
    return isinstance(value, dict) and set(value) == {"distribution", "parameters"}


def _find(name: str) -> Any:
    return _CUSTOM.get(name) or getattr(tfd, name, None)


def _to_data(value: Any, where: str) -> Any:
    if isinstance(value, tfd.Distribution):
        return serialize(value)
    # Before the plain numbers, of which a NumPy scalar may be one.
    if tf.is_tensor(value) or isinstance(value, tf.Variable | np.ndarray | np.generic):
        array = np.asarray(value)
        return {"array": array.tolist(), "dtype": array.dtype.name}
    if isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tf.DType):
        return {"dtype": value.name}
    if isinstance(value, list | tuple):
        return [_to_data(item, where) for item in value]
    raise ValueError(
        f"A prior is saved as numbers, arrays and distributions, but {where} is none "
        "of them; give the prior other parameters or leave the layer unsaved. "
        f"Received: {value!r}"
    )


def _from_data(value: Any) -> Any:
    if is_config(value):
        return deserialize(value)
    if isinstance(value, dict) and set(value) == {"dtype"}:
        return tf.as_dtype(value["dtype"])
    if isinstance(value, dict):
        return np.array(value["array"], dtype=value["dtype"])
    if isinstance(value, list):
        return [_from_data(item) for item in value]
    return value
