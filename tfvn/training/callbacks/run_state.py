"""What a run of `fit` consists of, beside its data: variables, and what callbacks remember."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import keras
import numpy as np

from tfvn.utils import private

# What Keras's callbacks count and keep. They have no method that tells; all of these are
# set by their constructors.
_OF_KERAS = (
    "best",
    "wait",
    "cooldown_counter",
    "stopped_epoch",
    "best_epoch",
    "best_weights",
    *private.CHECKPOINT_COUNTS,
)
_KERAS_CALLBACKS = (
    keras.callbacks.EarlyStopping,
    keras.callbacks.ModelCheckpoint,
    keras.callbacks.ReduceLROnPlateau,
)


def variables_of_run(model: keras.Model) -> list[keras.Variable]:
    """Returns all variables that training changes, each once.

    Those are the model's, with the states of its seed generators; the optimizer's, with
    its learning rates; and those that a model lists as `training_state_variables`.

    Args:
        model: A compiled model.
    """
    variables = [
        *model.variables,
        *model.optimizer.variables,
        *getattr(model, "training_state_variables", []),
    ]
    return list({id(variable): variable for variable in variables}.values())


def callback_states(callbacks: Iterable[Any]) -> dict[str, Any]:
    """Returns what the callbacks of a run remember, by their classes and order.

    A callback takes part if it has the methods `get_state` and `set_state`, or if it is
    one of those of Keras that count epochs.

    Args:
        callbacks: The callbacks of the run.
    """
    return {
        name: _get_state(callback)
        for name, callback in _by_name(callbacks).items()
        if _has_state(callback)
    }


def restore_callbacks(callbacks: Iterable[Any], states: dict[str, Any]) -> list[str]:
    """Gives callbacks back what they remembered.

    Args:
        callbacks: The callbacks of the run.
        states: What `callback_states` returned.

    Returns:
        The names of the callbacks that have no state in `states`, and of the states
        that have no callback.
    """
    named = {n: c for n, c in _by_name(callbacks).items() if _has_state(c)}
    for name in named.keys() & states.keys():
        _set_state(named[name], states[name])
    return sorted(named.keys() ^ states.keys())


def encode(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """Returns nested data as what JSON can hold; arrays go into a dictionary.

    Args:
        value: Numbers, strings, `None`, arrays, and lists and dictionaries of them.
        arrays: Where arrays are put, under names that the result refers to.
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
        "The state of a callback must consist of numbers, strings, arrays, lists and "
        f"dictionaries, to be put in a backup. Received: {value!r}"
    )


def decode(value: Any, arrays: Any) -> Any:
    """Returns the data that `encode` was given.

    Args:
        value: What `encode` returned.
        arrays: The arrays by name.
    """
    if isinstance(value, list):
        return [decode(part, arrays) for part in value]
    if isinstance(value, dict) and "array" in value:
        return arrays[value["array"]][()]  # a NumPy number is one again
    if isinstance(value, dict):
        return {key: decode(part, arrays) for key, part in value["dict"].items()}
    return value


def _by_name(callbacks: Iterable[Any]) -> dict[str, Any]:
    counts: Counter[str] = Counter()
    named = {}
    for callback in callbacks:
        name = type(callback).__name__
        counts[name] += 1
        named[f"{name} {counts[name]}"] = callback
    return named


def _has_state(callback: Any) -> bool:
    return hasattr(callback, "get_state") or isinstance(callback, _KERAS_CALLBACKS)


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
