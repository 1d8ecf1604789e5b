"""What is inside a model: its graph, and its random layers."""

from typing import Any

import keras

from tfvn.layers.random_weights_layer import RandomWeightsLayer
from tfvn.layers.weighted_kl import WeightedKL
from tfvn.utils import private


def all_layers(model: keras.Layer) -> list[keras.Layer]:
    """Returns a model and all layers in it, however deep, each once."""
    return private.flatten_layers(model)


def functional_graph(operation: Any) -> Any:
    """Returns the graph that a call of a model follows, or `None` for other calls."""
    call = getattr(type(operation), "call", None)
    if isinstance(operation, private.Functional) and call is private.Functional.call:
        return operation
    if isinstance(operation, keras.Sequential) and call is keras.Sequential.call:
        # What a sequential model builds for itself, unless its inputs are structures.
        return private.graph_of_sequential(operation)
    return None


def last_layer(symbol: Any) -> Any:
    """Returns the layer, or the operation, that a symbolic output comes from.

    Of a nested model that is its own last layer, and of one that is applied to each time
    step, the layer that is applied.
    """
    layer, index = private.history(symbol)
    while isinstance(layer, keras.layers.TimeDistributed):
        layer = layer.layer
    graph = functional_graph(layer)
    return layer if graph is None else last_layer(graph.outputs[index])


def stochastic_layers(model: keras.Layer) -> list[RandomWeightsLayer]:
    """Returns the layers with a random kernel in a model, however deep, each once.

    Of a recurrent layer, that is its cell.
    """
    return [
        layer for layer in all_layers(model) if isinstance(layer, RandomWeightsLayer)
    ]


def weighted_layers(model: keras.Layer) -> list[WeightedKL]:
    """Returns the layers that may add a divergence to the loss, each once."""
    return [layer for layer in all_layers(model) if isinstance(layer, WeightedKL)]


def has_noise_per_example(model: keras.Layer) -> bool:
    """Whether the examples of a batch get independent noise in every layer."""
    # Of layers that don't say, Keras's dropout has, and most others have no noise.
    return all(
        getattr(layer, "noise_per_example", True) is not False
        for layer in all_layers(model)
    )
