"""Splits a model into two parts: the part before any noise, and the rest.

The first part runs once per batch. The second part runs for each draw, from the tensors
that the first part keeps for it.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

from tfvn.layers.feed_forward import StochasticLayer
from tfvn.prediction import noise
from tfvn.utils import private
from tfvn.utils.models import all_layers, functional_graph

Tensor = Any


@dataclasses.dataclass(frozen=True, eq=False)
class _Later:
    """A placeholder for an output of a step that waits for noise."""

    step: int
    index: int | None  # among the flat outputs; `None` is all of them, as they are


@dataclasses.dataclass(frozen=True, eq=False)
class _Held:
    """A placeholder for a tensor that is kept for the second part."""

    index: int
    # For a ragged tensor, which is kept with zeros at the ends of its rows.
    lengths: int | None = None
    is_sparse: bool = False
    # The mask that Keras has attached to the tensor, maybe a placeholder too.
    mask: Any = None


@dataclasses.dataclass(frozen=True)
class _Step:
    """A call that has to wait for noise."""

    function: Callable
    args: Any
    kwargs: Any
    redraws: bool = False
    mask: Any = None  # of the redrawn outputs


class _Values:
    """The values of placeholders, in one run of the second part.

    Args:
        held: The tensors that were kept.
        copies: How often each row is repeated.
    """

    def __init__(self, held: list[Tensor], copies: int):
        self._held, self._copies = held, copies
        self._repeated: dict[int, Tensor] = {}
        self.results: list[Any] = []

    def fetch_all(self, structure: Any) -> Any:
        """Returns a structure with values, in which rows are repeated."""
        return keras.tree.map_structure(self._fetch, structure)

    def once(self, leaf: Any) -> Any:
        """Returns the value of a kept tensor, without repeated rows."""
        return self._held[leaf.index] if isinstance(leaf, _Held) else leaf

    def _fetch(self, leaf: Any) -> Any:
        if isinstance(leaf, _Later):
            result = self.results[leaf.step]
            return result if leaf.index is None else _flatten(result)[leaf.index]
        if not isinstance(leaf, _Held):
            return leaf
        value = self._repeat(leaf.index, leaf.mask)
        if leaf.is_sparse:
            value = tf.sparse.from_dense(value)
        if leaf.lengths is not None:
            value = tf.RaggedTensor.from_tensor(value, self._repeat(leaf.lengths))
        return value

    def _repeat(self, index: int, mask: Any = None) -> Tensor:
        if index not in self._repeated:
            value = self._held[index]
            if self._copies > 1:
                value = tf.repeat(value, self._copies, axis=0)
            self._repeated[index] = self.with_mask(value, mask)
        return self._repeated[index]

    def with_mask(self, value: Tensor, mask: Any) -> Tensor:
        """Attaches the value of a mask to a tensor, unless there is none."""
        if mask is not None:
            private.set_keras_mask(value, self._fetch(mask))
        return value


class Program:
    """Runs the part of a model that needs no noise, and keeps the rest for later.

    It follows the graphs of functional and sequential models, also nested ones. Layers
    that draw noise, and everything that depends on them, have to wait; a model without a
    graph waits as a whole. If a layer with a random kernel comes first, the part that its
    draws share is computed at once.

    Args:
        model: The model.
        inputs: Its inputs, tensors of the function that is being traced.
    """

    def __init__(self, model: keras.Model, inputs: Any):
        self._steps: list[_Step] = []
        self._index_of: dict[int, int] = {}
        self.held: list[Tensor] = []
        # Kept alive, so that no other object gets the same `id`.
        self._without_rows: dict[int, Any] = {}
        graph = functional_graph(model)
        if graph is not None:
            # Casts, orders and reshapes the inputs like a call of the model.
            inputs = private.standardize_inputs(graph, inputs)
            outputs = self._follow(graph, inputs)
        else:
            outputs = self._call(model, (inputs,), {}, None)
        self._outputs = self._hold(outputs)

    def run(self, held: list[Tensor], copies: int) -> Any:
        """Returns the outputs for `copies` draws of each example, one after the other.

        Args:
            held: The attribute `held`, or the same rows of all its tensors.
            copies: Number of draws.
        """
        values = _Values(held, copies)
        for step in self._steps:
            if step.redraws:
                prepared = keras.tree.map_structure(values.once, step.args)
                result = step.function(*prepared, copies=copies)
                result = values.with_mask(result, step.mask)
            else:
                args, kwargs = values.fetch_all((step.args, step.kwargs))
                result = step.function(*args, **kwargs)
            values.results.append(result)
        return values.fetch_all(self._outputs)

    def _follow(self, graph: Any, inputs: Any) -> Any:
        """Runs through the graph of a functional model, like a call in Keras."""
        values = dict(zip(map(id, graph.inputs), _flatten(inputs), strict=True))
        for node in private.nodes(graph):
            unknown = any(id(tensor) not in values for tensor in node.input_tensors)
            if not node.operation or node.is_input or unknown:
                continue
            args, kwargs = node.arguments.fill_in(values)
            if "training" in kwargs:
                kwargs = {**kwargs, "training": False}
            outputs = self._call(node.operation, args, kwargs, len(node.outputs))
            given = [values[id(symbol)] for symbol in node.input_tensors]
            none_given = all(id(value) in self._without_rows for value in given)
            for symbol, value in zip(node.outputs, _flatten(outputs), strict=True):
                values[id(symbol)] = value
                if none_given or _has_no_rows(graph, symbol):
                    self._without_rows[id(value)] = value
        outputs = [values[id(symbol)] for symbol in graph.outputs]
        return keras.tree.pack_sequence_as(graph.output, outputs)

    def _call(self, operation: Any, args: Any, kwargs: Any, count: int | None) -> Any:
        """Calls an operation now, or keeps the call for later.

        Args:
            operation: A layer or another operation of a Keras graph.
            args: Its arguments, some of which may be placeholders.
            kwargs: Likewise.
            count: Number of its outputs, or `None` if it is not known.
        """
        leaves = _flatten((args, kwargs))
        waits = any(isinstance(leaf, _Later) for leaf in leaves)
        # Each draw has its own states.
        is_noisy = noise.is_noisy(operation) or bool(state_variables(operation))
        if not waits and not is_noisy:
            with noise.refused(operation):
                return operation(*args, **kwargs)
        graph = functional_graph(operation)
        if is_noisy and graph is not None and _fits(graph, args, kwargs):
            inputs = [
                leaf
                if leaf is None
                else self._call(_inputs_of(symbol), (leaf,), {}, None)
                for symbol, leaf in zip(graph.inputs, _flatten(args[0]), strict=True)
            ]
            return self._follow(graph, inputs)
        has_rows = not any(id(leaf) in self._without_rows for leaf in leaves)
        if not waits and has_rows and _can_redraw(operation, args, kwargs):
            prepared = operation.prepare(*args)
            if prepared is not None:
                mask = private.get_keras_mask(args[0])
                if mask is not None:
                    keeps_mask = operation.supports_masking
                    mask = operation.compute_mask(args[0], mask) if keeps_mask else None
                mask = self._hold_one(mask)
                # The structure is one argument, and may contain `None`.
                args = (keras.tree.map_structure(self._hold_one, prepared),)
                return self._defer(
                    _Step(operation.redraw, args, {}, redraws=True, mask=mask), count
                )
        args, kwargs = self._hold(args), self._hold(kwargs)
        return self._defer(_Step(operation, args, kwargs), count)

    def _defer(self, step: _Step, count: int | None) -> Any:
        index = len(self._steps)
        self._steps.append(step)
        if count is None:
            return _Later(index, None)
        return [_Later(index, position) for position in range(count)]

    def _hold(self, structure: Any) -> Any:
        return keras.tree.map_structure(self._hold_one, structure)

    def _hold_one(self, leaf: Any) -> Any:
        if id(leaf) in self._without_rows:
            return leaf
        if isinstance(leaf, tf.SparseTensor):
            return _Held(self._place(tf.sparse.to_dense(leaf)), is_sparse=True)
        if isinstance(leaf, tf.RaggedTensor):
            return self._hold_ragged(leaf)
        # Constants of the graph are not tensors of this trace, and have no rows.
        # Tensors that all rows share, such as positions `(1, time, features)`, have no
        # rows either.
        if not tf.is_symbolic_tensor(leaf) or tuple(leaf.shape[:1]) in ((), (1,)):
            return leaf
        # Most layers get their masks as arguments, but those that were called with several
        # tensors, or with arguments by name, get them from their tensors.
        mask = private.get_keras_mask(leaf)
        return _Held(
            self._place(leaf), mask=None if mask is None else self._hold_one(mask)
        )

    def _hold_ragged(self, leaf: tf.RaggedTensor) -> _Held:
        if leaf.ragged_rank > 1:
            raise ValueError(
                "Argument `x` must have only one ragged axis if the model draws noise; "
                "pad the other axes with `to_tensor()`. Received: a ragged tensor with "
                f"{leaf.ragged_rank} ragged axes"
            )
        lengths = self._place(leaf.row_lengths())
        return _Held(self._place(leaf.to_tensor()), lengths=lengths)

    def _place(self, tensor: Tensor) -> int:
        if id(tensor) not in self._index_of:
            self._index_of[id(tensor)] = len(self.held)
            self.held.append(tensor)
        return self._index_of[id(tensor)]


def draws_without_rows(model: keras.Layer) -> bool:
    """Whether a layer draws noise for a tensor that all rows share, such as positions.

    Repeated rows would share that noise too, so each draw needs its own pass.
    """
    graphs = [functional_graph(layer) for layer in all_layers(model)]
    return any(
        noise.is_noisy(node.operation)
        and all(_has_no_rows(graph, symbol) for symbol in node.input_tensors)
        for graph in graphs
        if graph is not None
        for node in private.nodes(graph)
        if not node.is_input
    )


def state_variables(operation: Any) -> list[Any]:
    """Returns the variables that hold the states of stateful recurrent layers."""
    if not isinstance(operation, keras.Layer):
        return []
    return [
        state
        for layer in all_layers(operation)
        if isinstance(layer, keras.layers.RNN) and layer.stateful
        for state in _flatten(layer.states or [])
    ]


@contextlib.contextmanager
def preserved_states(model: keras.Model) -> Iterator[None]:
    """Restores the states of stateful layers at the end of the context."""
    states = [(state, state.numpy()) for state in state_variables(model)]
    try:
        yield
    finally:
        for state, before in states:
            state.assign(before)


def inputs_by_name(model: Any, x: Any) -> Any:
    """Returns inputs that were passed by name in the structure of the model's inputs.

    As in a call of a functional model, a dictionary may replace a list, and may have more
    keys than the model has inputs.

    Args:
        model: A model.
        x: A structure of inputs.
    """
    graph = functional_graph(model)
    if graph is None or not isinstance(x, dict):
        return x
    structure = graph.input
    is_by_name = isinstance(structure, dict)
    names = list(structure) if is_by_name else [s.name for s in graph.inputs]
    if any(name not in x for name in names):
        raise ValueError(
            f"Argument `x` must have a key for each input of the model: {names}. "
            f"Received: x with keys {list(x)}"
        )
    if is_by_name:
        return {name: x[name] for name in names}
    return keras.tree.pack_sequence_as(structure, [x[name] for name in names])


def _inputs_of(symbol: Any) -> keras.Model:
    """Returns a model that casts and reshapes one input, as each functional model does."""
    return keras.Model(symbol, symbol, name="inputs")


def _flatten(structure: Any) -> list[Any]:
    return keras.tree.flatten(structure)


def _has_no_rows(graph: Any, symbol: Any) -> bool:
    """Whether a tensor of a graph does not depend on the number of examples.

    If the number of examples is fixed, this cannot be told.
    """
    any_number = all(tuple(given.shape[:1]) == (None,) for given in graph.inputs)
    return any_number and tuple(symbol.shape[:1]) != (None,)


def _fits(graph: Any, args: Any, kwargs: Any) -> bool:
    """Whether a nested model is called with exactly its inputs, in their order."""
    others = [value for key, value in kwargs.items() if key != "training"]
    if len(args) != 1 or any(value is not None for value in others):
        return False
    structure = graph.input
    try:
        keras.tree.assert_same_structure(
            keras.tree.lists_to_tuples(args[0]), keras.tree.lists_to_tuples(structure)
        )
    except (ValueError, TypeError):
        is_single = not keras.tree.is_nested(args[0])
        return is_single and len(graph.inputs) == 1
    return True


def _can_redraw(operation: Any, args: Any, kwargs: Any) -> bool:
    return (
        isinstance(operation, StochasticLayer)
        and type(operation).call is StochasticLayer.call
        and len(args) == 1
        and not kwargs
        and tf.is_tensor(args[0])
    )
