"""Finds the random kernels of a model, and the layers that have them."""

from typing import Any

import keras
import numpy as np

from tfvn.analysis.copies import checked_layers
from tfvn.layers.base import RandomWeightsLayer
from tfvn.layers.heads import LikelihoodHead
from tfvn.layers.recurrent.base_layer import StochasticRNN
from tfvn.posteriors.pruned import unpruned
from tfvn.utils.models import all_layers

ALL = "all"


def chosen_layers(model: keras.Model, layers: Any) -> list[keras.Layer]:
    """Returns the layers with random kernels that the argument `layers` chooses.

    Args:
        model: A model.
        layers: `"all"`; a layer or its name, or a list of these; or a function that
            returns whether to take a layer. A wrapper or a nested model stands for all
            layers in it.
    """
    known = layers_with_kernels(model)
    if isinstance(layers, str) and layers == ALL:
        return known
    if callable(layers) and not isinstance(layers, keras.Layer):
        ids = {id(layer) for layer in known if layers(layer)}
    else:
        listed = layers if isinstance(layers, list | tuple | set) else [layers]
        ids = {number for item in listed for number in _ids_of(item, model, known)}
    chosen = [layer for layer in known if id(layer) in ids]
    if not chosen:
        raise ValueError(
            "Argument `layers` must choose at least one of the layers "
            f"{[layer.name for layer in known]}. Received: layers={layers!r}"
        )
    return chosen


def _ids_of(item: Any, model: keras.Model, known: list[keras.Layer]) -> set[int]:
    """Returns the identities of a layer, or of layers of a name, and of what is inside."""
    named = [x for x in all_layers(model)[1:] if item is x or item == x.name]
    ids = {id(part) for layer in named for part in all_layers(layer)}
    if not any(id(layer) in ids for layer in known):
        raise ValueError(
            "Argument `layers` must name layers with random kernels, some of "
            f"{[layer.name for layer in known]}, or what is around them. "
            f"Received: layers with {item!r}"
        )
    return ids


def layers_with_kernels(model: keras.Model) -> list[keras.Layer]:
    """Returns the layers with random kernels as users know them, each once.

    These are not the cells of recurrent layers, nor the dense layers in heads.
    """
    checked_layers(model)
    owners: dict[int, keras.Layer] = {}
    for layer in all_layers(model):  # a layer comes before those inside it
        part = random_part(layer)
        if part is not None:
            owners.setdefault(id(part), layer)
    return list(owners.values())


def random_part(layer: Any) -> Any:
    """Returns what has the random kernels of a layer, or `None` if it has none."""
    if isinstance(layer, StochasticRNN):
        return layer.cell
    if isinstance(layer, LikelihoodHead):
        layer = layer.dense
    return layer if isinstance(layer, RandomWeightsLayer) else None


def kernels_of(layer: RandomWeightsLayer) -> list[tuple[str, Any]]:
    """Returns the kernels of a layer by name, without its bias, with their posteriors."""
    return [(name, layer.posteriors[name]) for name in layer.kernels]


def kernel_mask(posterior: Any) -> np.ndarray:
    """Returns which weights of a kernel are kept."""
    if unpruned(posterior) is posterior:
        return np.ones(posterior.spec.shape, bool)
    return np.asarray(posterior.mask.value, bool)
