"""The variables of a model by what they mean."""

from typing import Any

import keras

from tfvn.layers.random_weights_layer import RandomWeightsLayer
from tfvn.layers.weighted_kl import WeightedKL

GROUPS = ("mean", "scale", "default")


def stochastic_layers(model: keras.Layer) -> list[RandomWeightsLayer]:
    """Returns the layers with a random kernel in a model, however deep, each once.

    Of a recurrent layer, that is its cell.
    """
    # The only list of all nested layers that Keras has.
    layers = model._flatten_layers()  # noqa: SLF001
    return [layer for layer in layers if isinstance(layer, RandomWeightsLayer)]


def weighted_layers(model: keras.Layer) -> list[WeightedKL]:
    """Returns the layers that may add a divergence to the loss, each once."""
    layers = model._flatten_layers()  # noqa: SLF001
    return [layer for layer in layers if isinstance(layer, WeightedKL)]


def has_noise_per_example(model: keras.Layer) -> bool:
    """Whether the examples of a batch get independent noise in every layer."""
    # Of layers that don't say, Keras's dropout has, and most others have no noise.
    layers = model._flatten_layers()  # noqa: SLF001
    return all(getattr(layer, "noise_per_example", True) for layer in layers)


def variable_groups(model: keras.Layer) -> dict[str, list[keras.Variable]]:
    """Returns the trainable variables of a model by group.

    Args:
        model: A model, of this library or of Keras, that has been built.

    Returns:
        A dictionary of three lists: `"mean"` and `"scale"`, the means and scales of
        random weights, and `"default"`, all others.

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
    return groups
