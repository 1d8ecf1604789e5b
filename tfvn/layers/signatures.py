"""How a constructor with many arguments passes them on."""

from typing import Any


def given(scope: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments of a method, by name, from its `locals()`.

    A constructor writes down the arguments of its Keras twin and its own, for people and
    tools to read, and passes them on in one line. A test compares them with the twin's.

    Args:
        scope: The `locals()` of a method that has `**kwargs` and no other variables yet.
    """
    own = {name: value for name, value in scope.items() if name not in _NOT_ARGUMENTS}
    return {**own, **scope["kwargs"]}


# `super()` makes the class a local variable.
_NOT_ARGUMENTS = ("self", "kwargs", "__class__")
