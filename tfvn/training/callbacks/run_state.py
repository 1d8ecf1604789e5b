"""The state of a run of `fit`: its variables, and the state of its callbacks."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import keras
import numpy as np

from tfvn.utils import private_training

# The attributes in which Keras's callbacks keep their state, all set by their constructors.
# Keras has no method that returns this state.
_OF_KERAS = (
    "best",
    "wait",
    "cooldown_counter",
    "stopped_epoch",
    "best_epoch",
    "best_weights",
    *private_training.CHECKPOINT_COUNTS,
)
_KERAS_CALLBACKS = (
    keras.callbacks.EarlyStopping,
    keras.callbacks.ModelCheckpoint,
    keras.callbacks.ReduceLROnPlateau,
)


def variables_of_run(model: keras.Model) -> list[keras.Variable]:
    """Returns all variables that training changes, each once.

    These are the variables of the model, including the states of its seed generators; the
    variables of the optimizer, including its learning rates; and the model's
    `training_state_variables`, if it has any.

    Args:
        model: A compiled model. Its optimizer is built, if it is not yet.
    """
    if not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)
    variables = [
        *model.variables,
        *model.optimizer.variables,
        *getattr(model, "training_state_variables", []),
    ]
    return list({id(variable): variable for variable in variables}.values())


def callback_states(callbacks: Iterable[Any]) -> dict[str, Any]:
    """Returns the states of the callbacks of a run, by class name and position.

    Included are callbacks with the methods `get_state` and `set_state`, and Keras's
    callbacks that count epochs.

    Args:
        callbacks: The callbacks of the run.
    """
    found = _with_state(callbacks)
    return {name: _get_state(callback) for name, callback in found.items()}


def restore_callbacks(callbacks: Iterable[Any], states: dict[str, Any]) -> list[str]:
    """Restores the states of callbacks.

    Args:
        callbacks: The callbacks of the run.
        states: The result of `callback_states`.

    Returns:
        The names of the callbacks that have no state in `states`, and of the states
        that have no callback.
    """
    found = _with_state(callbacks)
    for name in found.keys() & states.keys():
        _set_state(found[name], states[name])
    return sorted(found.keys() ^ states.keys())


def encode(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """Returns nested data in a form that JSON can store, and moves arrays out of it.

    Args:
        value: Numbers, strings, `None`, arrays, and lists and dictionaries of them.
        arrays: A dictionary to which the arrays are added, under names that the result
            refers to.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, dict):
        return {"dict": {key: encode(part, arrays) for key, part in value.items()}}
    if isinstance(value, list | tuple):
        return [encode(part, arrays) for part in value]
    if isinstance(value, np.ndarray | np.generic):
        name = f"array_{len(arrays)}"
        arrays[name] = np.asarray(value)
        return {"array": name}
    raise ValueError(
        "A callback can be saved in a backup only if its state consists of numbers, "
        f"strings, arrays, lists and dictionaries. Received: {value!r}"
    )


def decode(value: Any, arrays: Any) -> Any:
    """Reverses `encode`.

    Args:
        value: The result of `encode`.
        arrays: The arrays by name.
    """
    if isinstance(value, list):
        return [decode(part, arrays) for part in value]
    if isinstance(value, dict) and "array" in value:
        return arrays[value["array"]][()]  # `[()]` turns a 0-d array into a number
    if isinstance(value, dict):
        return {key: decode(part, arrays) for key, part in value["dict"].items()}
    return value


def _with_state(callbacks: Iterable[Any]) -> dict[str, Any]:
    """Returns the callbacks that have a state, by class name and position."""
    counts: Counter[str] = Counter()
    found = {}
    for callback in callbacks:
        if hasattr(callback, "get_state") or isinstance(callback, _KERAS_CALLBACKS):
            name = type(callback).__name__
            counts[name] += 1
            found[f"{name} {counts[name]}"] = callback
    return found


def _get_state(callback: Any) -> Any:
    if hasattr(callback, "get_state"):
        return callback.get_state()
    return {
        name: getattr(callback, name) for name in _OF_KERAS if hasattr(callback, name)
    }


def _set_state(callback: Any, state: Any) -> None:
    if hasattr(callback, "get_state"):
        callback.set_state(state)
        return
    for name, value in state.items():
        setattr(callback, name, value)
