"""Which layers of a model an argument stands for."""

from typing import Any

import keras
import numpy as np

from tfvn.analysis.copies import checked_layers
from tfvn.layers.base import RandomWeightsLayer, stochastic_layers
from tfvn.layers.core.joint_dense import JointDense
from tfvn.layers.heads import LikelihoodHead
from tfvn.layers.recurrent.base_layer import StochasticRNN
from tfvn.posteriors.pruned import unpruned
from tfvn.utils.models import all_layers

ALL = "all"


def is_all(which: Any) -> bool:
    """Whether an argument `layers` is `"all"`."""
    return isinstance(which, str) and which == ALL


def layers_with_kernels(model: Any) -> list[keras.Layer]:
    """Returns the layers with random kernels as users know them, each once.

    These are not the cells of recurrent layers, nor the dense layers in heads.

    Args:
        model: A model that has been built, with at least one such layer.
    """
    checked_layers(model)
    found: dict[int, keras.Layer] = {}
    for layer in all_layers(model):  # a layer comes before those inside it
        part = random_part(layer)
        if part is not None:
            found.setdefault(id(part), layer)
    return list(found.values())


def random_part(layer: Any) -> Any:
    """Returns what has the random kernels of a layer, or `None` if it has none."""
    if isinstance(layer, StochasticRNN):
        return layer.cell
    if isinstance(layer, LikelihoodHead):
        layer = layer.dense
    return layer if isinstance(layer, RandomWeightsLayer) else None


def chosen_layers(model: Any, which: Any) -> list[keras.Layer]:
    """Returns the layers with random kernels that an argument `layers` stands for.

    Args:
        model: A model that has been built.
        which: `"all"`; a layer or its name, where a wrapper or a nested model stands for
            the layers inside of it; a list of these; or a function that takes a layer and
            returns whether it is meant.
    """
    everything = layers_with_kernels(model)
    names = [layer.name for layer in everything]
    if is_all(which):
        return everything
    if callable(which) and not isinstance(which, keras.Layer):
        chosen = [layer for layer in everything if which(layer)]
    else:
        asked = list(which) if isinstance(which, list | tuple | set) else [which]
        found: set[int] = set()
        for item in asked:
            same = [one for one in all_layers(model) if one is item or one.name == item]
            inside = {id(part) for one in same for part in stochastic_layers(one)}
            if not inside:
                raise ValueError(
                    f"Argument `layers` must be {ALL!r}, layers of the model with random "
                    f"kernels or their names, of {names}, or a function. "
                    f"Received: {getattr(item, 'name', item)!r}"
                )
            found |= inside
        chosen = [layer for layer in everything if id(random_part(layer)) in found]
    if not chosen:
        raise ValueError(
            f"Argument `layers` must choose at least one of the layers {names}. "
            f"Received: layers={which!r}"
        )
    return chosen


def chosen_parts(model: Any, which: Any) -> list[RandomWeightsLayer]:
    """Returns what has the random kernels of the layers of `chosen_layers`."""
    return [random_part(layer) for layer in chosen_layers(model, which)]


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


def kernel_mask(posterior: Any) -> np.ndarray:
    """Returns which weights of a kernel are kept: all but those that are pruned."""
    if unpruned(posterior) is posterior:
        return np.ones(posterior.spec.shape, bool)
    return np.asarray(posterior.mask.value, bool)


def is_weight(layer: Any, posterior: Any) -> np.ndarray:
    """Returns which numbers of a kernel are weights, and no biases in its last row."""
    found = np.ones(posterior.spec.shape, bool)
    if isinstance(layer, JointDense) and layer.use_bias:
        found[-1] = False
    return found
