"""The variables of a model, sorted into groups."""

from typing import Any

import keras

GROUPS = ("mean", "scale", "prior", "default")


def variable_groups(model: keras.Layer) -> dict[str, list[keras.Variable]]:
    """Returns the trainable variables of a model by group.

    Args:
        model: A model, of this library or of Keras, that has been built.

    Returns:
        A dictionary of lists: `"mean"` and `"scale"`, the means and scales of random
        weights; `"prior"`, the variables of trainable priors, if there are any; and
        `"default"`, all other variables.

    Example:

    >>> import keras
    >>> import tfvn
    >>> model = keras.Sequential([keras.Input((4,)), tfvn.MeanFieldDense(3)])
    >>> {name: len(group) for name, group in tfvn.variable_groups(model).items()}
    {'mean': 1, 'scale': 1, 'default': 1}
    """
    if not isinstance(model, keras.Layer):
        raise ValueError(
            "Argument `model` must be a Keras model or layer. Received: "
            f"model={model!r} of type {type(model).__name__}"
        )
    groups: dict[str, list[Any]] = {name: [] for name in GROUPS}
    for variable in model.trainable_variables:
        groups.setdefault(group_of(variable), []).append(variable)
    if not groups["prior"]:
        del groups["prior"]
    return groups


def group_of(variable: keras.Variable) -> str:
    """Returns the group that the layer of a variable has marked it with."""
    return getattr(variable, "variable_group", "default")
