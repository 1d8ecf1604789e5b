"""The variables of a model, sorted into groups."""

from typing import Any

import keras

from tfvn.layers.base import stochastic_layers

GROUPS = ("mean", "scale", "prior", "default")

# The groups that are in every result, even without variables.
_ALWAYS = ("mean", "scale", "default")


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
    group_of: dict[int, str] = {}
    for layer in stochastic_layers(model):
        if layer.built:
            for name, variables in layer.variable_groups.items():
                group_of.update({id(variable): name for variable in variables})
    groups: dict[str, list[Any]] = {name: [] for name in GROUPS}
    for variable in model.trainable_variables:
        groups.setdefault(group_of.get(id(variable), "default"), []).append(variable)
    return {
        name: variables
        for name, variables in groups.items()
        if variables or name in _ALWAYS
    }
