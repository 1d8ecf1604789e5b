"""Which layers of a model an argument stands for."""

from typing import Any

import keras

from tfvn.analysis.copies import checked_layers
from tfvn.layers.base import RandomWeightsLayer, stochastic_layers
from tfvn.utils.models import all_layers

ALL = "all"


def is_all(which: Any) -> bool:
    """Whether an argument `layers` is `"all"`."""
    return isinstance(which, str) and which == ALL


def chosen_layers(model: Any, which: Any) -> list[RandomWeightsLayer]:
    """Returns the layers with random weights that an argument `layers` stands for.

    Args:
        model: A model that has been built.
        which: `"all"`; a layer or its name, where a recurrent layer, a wrapper, a head or a
            nested model stands for the layers inside of it; or a list of these.
    """
    everything = checked_layers(model)
    if is_all(which):
        return everything
    asked = list(which) if isinstance(which, list | tuple | set) else [which]
    if not asked:
        raise ValueError(
            f"Argument `layers` must be {ALL!r}, or name at least one layer. "
            f"Received: layers={which!r}"
        )
    found: dict[int, RandomWeightsLayer] = {}
    for item in asked:
        same = [one for one in all_layers(model) if one is item or one.name == item]
        inside = [part for one in same for part in stochastic_layers(one)]
        if not inside:
            names = [layer.name for layer in everything]
            raise ValueError(
                f"Argument `layers` must be {ALL!r}, or layers of the model with random "
                f"weights, such as {names}, or their names. "
                f"Received: {getattr(item, 'name', item)!r}"
            )
        found |= {id(part): part for part in inside}
    return list(found.values())


def single_layer(layer: Any) -> RandomWeightsLayer:
    """Returns the one layer or cell with random weights in a layer, or raises."""
    inside = stochastic_layers(layer) if isinstance(layer, keras.Layer) else []
    if len(inside) != 1:
        raise ValueError(
            "Argument `layer` must be one layer with random weights, or have one inside. "
            f"Received: layer={getattr(layer, 'name', layer)!r} of type "
            f"{type(layer).__name__}, with {[part.name for part in inside]}"
        )
    return inside[0]


def kernel_posteriors(layer: RandomWeightsLayer) -> dict[str, Any]:
    """Returns the posteriors of the kernels of a layer, by name, without that of a bias."""
    return {name: layer.posteriors[name] for name in layer.kernels}
