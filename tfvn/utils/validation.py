"""Checks of single arguments, for constructors everywhere in the library.

NumPy's numbers, and arrays and tensors of one number, are accepted as numbers. They are
returned as Python numbers, so that a config can be saved. `True` and `False` are refused:
nobody who writes `patience=True` means 1.
"""

import math
import operator
import os
import pathlib
from collections.abc import Iterable
from typing import Any

import numpy as np

_NONE_OR = "`None` or "


def check_count(name: str, value: Any, least: int = 1, or_none: bool = False) -> Any:
    """Returns an integer argument as an `int`, or raises.

    Args:
        name: Name of the argument, for the error message.
        value: The user's argument. Any integer type is accepted; floats are not, not even
            `3.0`.
        least: The smallest allowed value.
        or_none: Whether `None` is allowed, and returned as it is.

    Example:

    >>> import numpy as np
    >>> from tfvn.utils.validation import check_count
    >>> check_count("patience", np.int64(3))
    3
    """
    if value is None and or_none:
        return None
    try:
        count = None if _is_bool(value) else operator.index(value)
    except TypeError:
        count = None
    if count is None or count < least:
        raise ValueError(
            f"Argument `{name}` must be {_NONE_OR * or_none}an integer of at least {least}. "
            f"Received: {name}={value!r}"
        )
    return count


def check_number(
    name: str,
    value: Any,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    below: float | None = None,
    remark: str = "",
    or_none: bool = False,
) -> Any:
    """Returns a finite number as a `float` (an integer as an `int`), or raises.

    Args:
        name: Name of the argument, for the error message.
        value: The user's argument.
        least: The smallest allowed value.
        above: A bound that the number must exceed.
        most: The largest allowed value.
        below: A bound that the number must stay below.
        remark: More text for the error message.
        or_none: Whether `None` is allowed, and returned as it is.

    Example:

    >>> import numpy as np
    >>> from tfvn.utils.validation import check_number
    >>> check_number("factor", np.float32(0.5), above=0, below=1)
    0.5
    """
    if value is None and or_none:
        return None
    bounds: Any = (
        (least, "of at least", operator.ge),
        (above, "greater than", operator.gt),
        (most, "of at most", operator.le),
        (below, "smaller than", operator.lt),
    )
    given = [bound for bound in bounds if bound[0] is not None]
    number = as_number(value)
    if (
        number is None
        or not math.isfinite(number)
        or not all(holds(number, bound) for bound, _, holds in given)
    ):
        wanted = " and ".join(f"{text} {bound}" for bound, text, _ in given)
        expected = f"{_NONE_OR * or_none}a finite number {wanted}".strip()
        raise ValueError(
            f"Argument `{name}` must be {expected}{remark}. Received: {name}={value!r}"
        )
    return number


def check_choice(name: str, value: Any, choices: Iterable[Any]) -> Any:
    """Returns an argument, or raises unless it is one of a few values.

    Args:
        name: Name of the argument, for the error message.
        value: The user's argument.
        choices: The values that are allowed.

    Example:

    >>> from tfvn.utils.validation import check_choice
    >>> check_choice("mode", "min", ("min", "max"))
    'min'
    """
    choices = list(choices)
    for choice in choices:
        if type(value) is type(choice) and value == choice:
            return value
    if isinstance(value, str) and str(value) in choices:
        return str(value)  # a NumPy string, or another subclass
    raise ValueError(
        f"Argument `{name}` must be one of {choices}. Received: {name}={value!r}"
    )


def check_path(
    name: str, value: Any, what: str = "the path of a folder"
) -> pathlib.Path:
    """Returns the path of a file or folder, or raises if it is none.

    Args:
        name: Name of the argument, for the error message.
        value: The user's argument: a string or a path, and not an empty one.
        what: What the path is, for the error message.
    """
    try:
        text = os.fsdecode(value)
    except TypeError:
        text = ""
    if not text:
        raise ValueError(
            f"Argument `{name}` must be {what}, a string or a `pathlib.Path`. Received: "
            f"{name}={value!r}"
        )
    return pathlib.Path(text)


def check_verbose(value: Any) -> None:
    """Raises unless an argument `verbose` is one of those that Keras documents."""
    if isinstance(value, bool) or (as_number(value) in (0, 1, 2)):
        return
    check_choice("verbose", value, ("auto", 0, 1, 2))


def as_number(value: Any) -> int | float | None:
    """Returns a real number as a Python `int` or `float`, or `None` for anything else.

    Args:
        value: Anything: a number of Python, NumPy or TensorFlow, or something else.
    """
    if _is_bool(value) or isinstance(value, str | bytes | complex):
        return None
    try:
        array = np.asarray(value)
    except Exception:  # noqa: BLE001  whatever it is, it is no number
        return None
    if array.ndim != 0 or not (
        np.issubdtype(array.dtype, np.integer)
        or np.issubdtype(array.dtype, np.floating)
    ):
        return None
    return array.item()


def _is_bool(value: Any) -> bool:
    if isinstance(value, bool | np.bool_):
        return True
    dtype = getattr(value, "dtype", None)
    return str(getattr(dtype, "name", dtype)) == "bool"
