"""Which of the compiled losses belongs to which output of a model."""

from typing import Any

import keras

from tfvn.likelihoods import Likelihood, likelihood_of
from tfvn.utils.models import functional_graph, last_layer


def losses_of(model: keras.Model, structure: Any) -> list[Any]:
    """Returns the compiled loss of each output, as Keras assigns them.

    Args:
        model: The model.
        structure: The structure of its outputs, with anything in it.

    Returns:
        A list in the order in which Keras flattens the outputs, `None` for outputs
        without a loss or with more than one.
    """
    loss = getattr(model, "loss", None)
    paths = [path for path, _ in keras.tree.flatten_with_path(structure)]
    if isinstance(loss, dict) and "class_name" not in loss:
        keys = [path[-1] if path else None for path in paths]
        names = output_names(model, len(paths))
        if isinstance(structure, dict):
            return [
                loss.get(key, loss.get(name))
                for key, name in zip(keys, names, strict=True)
            ]
        return [loss.get(name) for name in names]
    if isinstance(loss, list | tuple):
        if len(loss) == len(paths):
            return list(loss)
        flat = keras.tree.flatten(loss)
        return flat if len(flat) == len(paths) else [None] * len(paths)
    return [loss] * len(paths)


def output_names(model: keras.Model, count: int) -> list[str | None]:
    """Returns the names that Keras gives to the outputs of a model, if it does."""
    graph = functional_graph(model)
    names = getattr(graph if graph is not None else model, "output_names", None)
    return list(names) if names and len(names) == count else [None] * count


def last_layers(model: keras.Model, count: int) -> list[Any]:
    """Returns the layer that each output comes from, `None` where it is not known."""
    graph = functional_graph(model)
    if graph is None or len(graph.outputs) != count:
        return [None] * count
    return [last_layer(symbol) for symbol in graph.outputs]


def likelihoods_of(model: keras.Model, structure: Any) -> list[Likelihood | None]:
    """Returns the likelihood that the loss or else the last layer of an output has.

    Args:
        model: The model.
        structure: The structure of its outputs, with anything in it.
    """
    losses = losses_of(model, structure)
    layers = last_layers(model, len(losses))
    return [
        likelihood_of(loss) or (likelihood_of(layer) if layer is not None else None)
        for loss, layer in zip(losses, layers, strict=True)
    ]
