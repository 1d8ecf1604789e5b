"""Finds the layers of a model, its graph, and the losses of its outputs."""

from typing import Any

import keras

from tfvn.utils import private


def all_layers(model: keras.Layer) -> list[keras.Layer]:
    """Returns a model and all layers in it, at any depth, each once."""
    return private.flatten_layers(model)


def is_stock(part: Any) -> bool:
    """Whether a class or a function is one of Keras or of this library, and not a user's."""
    module = getattr(part, "__module__", None) or ""
    return module.partition(".")[0] in ("keras", "tfvn")


def functional_graph(operation: Any) -> Any:
    """Returns the graph that a call of a model follows, or `None` for other calls."""
    call = getattr(type(operation), "call", None)
    if isinstance(operation, private.Functional) and call is private.Functional.call:
        return operation
    if isinstance(operation, keras.Sequential) and call is keras.Sequential.call:
        # The graph that a sequential model builds, unless its inputs are structures.
        return private.graph_of_sequential(operation)
    return None


def last_layer(symbol: Any) -> Any:
    """Returns the layer, or the operation, that a symbolic output comes from.

    For a nested model it is the last layer of that model; for `TimeDistributed` it is the
    layer inside.
    """
    layer, index = private.history(symbol)
    while isinstance(layer, keras.layers.TimeDistributed):
        layer = layer.layer
    graph = functional_graph(layer)
    return layer if graph is None else last_layer(graph.outputs[index])


def has_noise_per_example(model: keras.Layer) -> bool:
    """Whether the examples of a batch get independent noise in every layer."""
    return not any(map(_shares_noise, all_layers(model)))


def _shares_noise(layer: keras.Layer) -> bool:
    # Of layers that don't say, Keras's dropout has noise per example unless its shape of the
    # noise fixes the first axis, and most others have no noise.
    shape = getattr(layer, "noise_shape", None)
    is_fixed = shape is not None and shape[0] is not None
    return not getattr(layer, "noise_per_example", not is_fixed)


def losses_of(model: keras.Model, structure: Any) -> list[Any]:
    """Returns the compiled loss of each output, as Keras assigns them.

    Args:
        model: The model.
        structure: The structure of its outputs, with anything in it.

    Returns:
        A list in the order in which Keras flattens the outputs, with `None` for outputs
        that have no loss or more than one.
    """
    loss = getattr(model, "loss", None)
    paths = [path for path, _ in keras.tree.flatten_with_path(structure)]
    if isinstance(loss, dict) and "class_name" not in loss:
        keys = [path[-1] if path else None for path in paths]
        names = output_names(model, len(paths))
        pairs = zip(keys, names, strict=True)
        return [loss.get(key, loss.get(name)) for key, name in pairs]
    if isinstance(loss, list | tuple):
        if len(loss) == len(paths):
            return list(loss)
        flat = keras.tree.flatten(loss)
        return flat if len(flat) == len(paths) else [None] * len(paths)
    return [loss] * len(paths)


def output_names(model: keras.Model, count: int) -> list[str | None]:
    """Returns Keras's names for the outputs of a model, or `None` for each without one."""
    graph = functional_graph(model)
    names = getattr(graph if graph is not None else model, "output_names", None)
    return list(names) if names and len(names) == count else [None] * count


def last_layers(model: keras.Model, count: int) -> list[Any]:
    """Returns the layer that each output comes from, or `None` if it is not known."""
    graph = functional_graph(model)
    if graph is None or len(graph.outputs) != count:
        return [None] * count
    return [last_layer(symbol) for symbol in graph.outputs]
