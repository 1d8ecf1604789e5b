"""Which layers have a counterpart with random weights, and why others have none."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import keras

from tfvn import layers
from tfvn.layers.base import RandomWeightsLayer
from tfvn.utils import private
from tfvn.utils.models import functional_graph

# A layer of Keras, and the layer of this library that has the same arguments.
_COUNTERPARTS: dict[type, type] = {
    getattr(keras.layers, name): getattr(layers, name)
    for name in (
        "Dense",
        "EinsumDense",
        "Conv1D",
        "Conv2D",
        "Conv3D",
        "Conv2DTranspose",
        "DepthwiseConv2D",
        "LSTM",
        "LSTMCell",
        "GRU",
        "GRUCell",
    )
}


class LayerState(NamedTuple):
    """What is known about a layer with weights.

    Attributes:
        layer: The layer.
        is_random: Whether it has random weights.
        counterpart: The class that has its arguments and random weights, or `None`.
        reason: Why there is no counterpart, in words, or `None`.
    """

    layer: Any
    is_random: bool
    counterpart: type | None
    reason: str | None


def counterpart_of(layer: Any) -> type | None:
    """Returns the class of this library that a layer becomes, or `None`.

    Args:
        layer: A layer with plain weights.

    Example:

    >>> import keras
    >>> from tfvn.analysis.conversion import counterpart_of
    >>> counterpart_of(keras.layers.Dense(3)).__module__
    'tfvn.layers.core.dense'
    >>> counterpart_of(keras.layers.BatchNormalization()) is None
    True
    """
    return None if reason_against(layer) else _counterpart_class(layer)


def reason_against(layer: Any) -> str | None:
    """Returns why a layer has no counterpart, in words, or `None` if it has one."""
    kind = type(layer)
    name = kind.__name__
    if is_random(layer):
        return f"`{name}` has random weights already"
    if _counterpart_class(layer) is not None:
        mode = getattr(layer, "quantization_mode", None)
        return (
            mode and f"it is quantized ({mode}), and random weights need a float kernel"
        )
    if isinstance(layer, keras.layers.SpectralNormalization):
        return "it normalizes the kernel of the layer inside, which must not be random"
    for known in _COUNTERPARTS:
        if issubclass(kind, known):
            return (
                f"`{name}` is a subclass of `{known.__name__}` with code of its own, which "
                "a counterpart would not have"
            )
    return f"the library has no `{name}` with random weights"


def is_random(layer: Any) -> bool:
    """Whether a layer, or the cell or dense layer that it stands for, has random weights."""
    if isinstance(layer, layers.LikelihoodHead):
        return layer.posterior is not None
    return isinstance(layer, RandomWeightsLayer | layers.StochasticRNN)


def layer_states(model: keras.Layer) -> list[LayerState]:
    """Returns, for each layer of a model that has weights, whether they are random.

    Layers inside models, wrappers and other layers are listed on their own, each once. A
    recurrent layer stands for its cell.

    Example:

    >>> import keras
    >>> from tfvn.analysis.conversion import layer_states
    >>> embedding = keras.layers.Embedding(5, 2, name="words")
    >>> dense = keras.layers.Dense(3, name="classes")
    >>> model = keras.Sequential([keras.Input((4,)), embedding, dense])
    >>> for state in layer_states(model):
    ...     print(state.layer.name, state.is_random, state.reason)
    words False the library has no `Embedding` with random weights
    classes False None
    """
    return [
        LayerState(
            layer,
            is_random=is_random(layer),
            counterpart=counterpart_of(layer),
            reason=reason_against(layer),
        )
        for layer in _units(model, set())
    ]


def layers_to_convert(model: Any, chosen: Any) -> list[keras.Layer]:
    """Returns the layers of a model that a `layers` argument means, or raises.

    Args:
        model: A model that has been built.
        chosen: `"all"`, `"last"`, layers or their names, or a function of a layer.
    """
    states = layer_states(model)
    if callable(chosen) and not isinstance(chosen, keras.Layer):
        selected = [state for state in states if chosen(state.layer)]
        if not selected:
            raise ValueError(
                "Argument `layers` must select a layer; of the layers with weights, "
                f"{[state.layer.name for state in states]}, the function selects none. "
                f"Received: layers={chosen!r}"
            )
        return _convertible(selected)
    if isinstance(chosen, str) and chosen == "all":
        found = [state.layer for state in states if state.counterpart is not None]
        if not found:
            _refuse_none(states, "all")
        return found
    if isinstance(chosen, str) and chosen == "last":
        return _last(model)
    names = [chosen] if isinstance(chosen, str | keras.Layer) else chosen
    if isinstance(names, list | tuple | set | frozenset) and names:
        return _named(model, list(names))
    raise ValueError(
        "Argument `layers` must be 'all', 'last', layers or their names, or a function "
        f"that takes a layer and returns whether to convert it. Received: layers={chosen!r}"
    )


def _counterpart_class(layer: Any) -> type | None:
    if isinstance(layer, layers.LikelihoodHead):
        return type(layer)
    # Not of a subclass, which may compute something else.
    return _COUNTERPARTS.get(type(layer))


def _units(layer: Any, seen: set[int]) -> Iterator[keras.Layer]:
    """Yields the layers with weights, in which others may not be looked for, each once."""
    if id(layer) in seen:
        return
    seen.add(id(layer))
    is_named = (
        isinstance(layer, keras.layers.RNN) and type(layer) is not keras.layers.RNN
    )
    is_whole = (
        is_random(layer)
        or _counterpart_class(layer) is not None
        or isinstance(layer, keras.layers.SpectralNormalization)
        or is_named
    )
    if is_whole or private.own_variables(layer):
        yield layer
    if not is_whole:
        for part in private.layers_inside(layer):
            yield from _units(part, seen)


def _convertible(states: list[LayerState]) -> list[keras.Layer]:
    for layer, _, counterpart, reason in states:
        if counterpart is None:
            raise ValueError(
                "Argument `layers` must select layers that have a counterpart with random "
                f"weights. Received: layer {layer.name!r} of type {type(layer).__name__}, "
                f"and {reason}"
            )
    return [state.layer for state in states]


def _refuse_none(states: list[LayerState], chosen: str) -> None:
    reasons = sorted({f"{state.layer.name!r}: {state.reason}" for state in states})
    raise ValueError(
        "Argument `model` must have layers that have a counterpart with random weights. "
        f"Received: layers={chosen!r} and {reasons or 'no layer with weights'}"
    )


def _named(model: Any, names: list[Any]) -> list[keras.Layer]:
    every = private.flatten_layers(model)[1:]
    found: dict[int, keras.Layer] = {}
    for name in names:
        matches = [layer for layer in every if layer is name or layer.name == name]
        if not matches:
            known = [state.layer.name for state in layer_states(model)]
            asked = [getattr(one, "name", one) for one in names]
            raise ValueError(
                f"Argument `layers` must name layers of the model; those with weights are "
                f"{known}. Received: layers={asked}, and there is no "
                f"{getattr(name, 'name', name)!r}"
            )
        for match in matches:
            states = layer_states(match)
            # The name of a model or a wrapper means all that can be converted inside.
            is_holder = not states or states[0].layer is not match
            inside = [state for state in states if state.counterpart is not None]
            if is_holder and not inside:
                _refuse_none(states, match.name)
            for layer in _convertible(inside if is_holder else states):
                found[id(layer)] = layer
    return list(found.values())


def _last(model: Any) -> list[keras.Layer]:
    graph = functional_graph(model)
    if graph is None:
        raise ValueError(
            "The last layer is known in sequential and functional models; expected "
            "`layers='all'`, names or a function. Received: layers='last' and model "
            f"{model.name!r} of type {type(model).__name__}"
        )
    ends: dict[int, Any] = {}
    for symbol in graph.outputs:
        for layer in _last_with_weights(symbol):
            ends[id(layer)] = layer
    found = []
    for end in ends.values():
        states = layer_states(end)
        inside = [state.layer for state in states if state.counterpart is not None]
        if not inside:
            raise ValueError(
                "The last layer with weights must have a counterpart with random weights; "
                "name another one in `layers`. Received: layers='last' and layer "
                f"{end.name!r} of type {type(end).__name__}, and {states[0].reason}"
            )
        found += inside
    if not found:
        _refuse_none(layer_states(model), "last")
    return found


def _last_with_weights(symbol: Any) -> list[Any]:
    """Returns the last layers with weights on the ways to a symbolic tensor."""
    operation, index, inputs = private.call_of(symbol)
    graph = functional_graph(operation)
    if graph is not None:
        found = _last_with_weights(graph.outputs[index])
        if found:
            return found
    elif isinstance(operation, keras.Layer) and next(_units(operation, set()), None):
        return [operation]
    return [layer for before in inputs for layer in _last_with_weights(before)]
