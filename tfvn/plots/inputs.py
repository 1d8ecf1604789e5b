"""Reads what users pass to plots: arrays, logs of `fit`, and several of them by name."""

from collections.abc import Mapping
from typing import Any

import numpy as np


def numbers(name: str, values: Any, ndim: int = 1) -> np.ndarray:
    """Returns an argument as an array of finite numbers, or raises.

    Args:
        name: Name of the argument, for the error message.
        values: The user's argument.
        ndim: The number of axes that it must have.
    """
    try:
        array = np.asarray(values, dtype="float64")
    except (TypeError, ValueError):
        array = np.asarray(np.nan)
    if array.ndim == ndim and array.size and np.isfinite(array).all():
        return array
    axes = "1 axis" if ndim == 1 else f"{ndim} axes"
    raise ValueError(
        f"Argument `{name}` must be an array of finite numbers with {axes}. "
        f"Received: {name}={described(values)}"
    )


def described(values: Any) -> str:
    """Returns a short description of an argument, for error messages."""
    if isinstance(values, np.ndarray | list | tuple) or hasattr(values, "shape"):
        array = np.asarray(values, dtype=object)
        text = f"{type(values).__name__} of shape {array.shape}"
        if array.size <= 6:
            text = repr(values)
        return text
    return repr(values) if isinstance(values, int | float) else type(values).__name__


def logs_of(name: str, history: Any) -> dict[str, np.ndarray]:
    """Returns the logs of `fit`, one number for each epoch, or raises.

    Args:
        name: Name of the argument, for the error message.
        history: What `fit` returns, or its `history`, a dictionary of lists.
    """
    logs = getattr(history, "history", history)
    if not isinstance(logs, Mapping) or not all(isinstance(key, str) for key in logs):
        raise ValueError(
            f"Argument `{name}` must be what `fit` returns, or a dictionary from names of "
            f"logs to their values. Received: {name}={type(history).__name__}"
        )
    return {
        key: np.ravel(np.asarray(values, "float64")) for key, values in logs.items()
    }


def runs_of(name: str, runs: Any) -> dict[str | None, dict[str, np.ndarray]]:
    """Returns the logs of one or several runs of `fit` by name; a single one has none.

    Args:
        name: Name of the argument, for the error message.
        runs: The logs of one run, as in `logs_of`, or a dictionary from names to these.
    """
    if isinstance(runs, Mapping) and any(
        isinstance(value, Mapping) or hasattr(value, "history")
        for value in runs.values()
    ):
        return {str(key): logs_of(name, value) for key, value in runs.items()}
    return {None: logs_of(name, runs)}


def epochs_of(values: np.ndarray) -> np.ndarray:
    """Returns the numbers of the epochs, which begin with 1."""
    return np.arange(1, len(values) + 1)
