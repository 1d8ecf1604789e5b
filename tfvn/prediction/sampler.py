"""Draws of a model's outputs, as traced functions that are kept with the model."""

import weakref
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tfvn import random
from tfvn.layers.inside import all_layers, replaced_estimators, while_changed
from tfvn.prediction import noise
from tfvn.prediction.blocks import over_blocks, split, whole_blocks
from tfvn.prediction.outputs import summaries_of
from tfvn.prediction.program import (
    Program,
    draws_without_rows,
    functional_graph,
    state_variables,
)
from tfvn.prediction.rows import as_tensor, spec_of
from tfvn.prediction.snapshot import snapshot

Tensor = Any
EstimatorOf = Callable[[Any], Any]

# Rows of one pass of the part of a model that draws, where all noise is per example;
# few enough for their activations to stay in a cache.
_ROWS_OF_A_PASS = 160

# Examples that share a seed at most.
_LARGEST_BLOCK = 16


class Sampler:
    """Draws outputs of a model.

    What precedes the noise is computed once for a batch. If all noise is per example,
    the draws of a block of rows are one pass over its repeated rows; else each draw is a
    pass, in which a batch shares kernels as it does in a call of the model.

    Noise is a function of the seed, of the number of the draw and, where it is per
    example, of the number of the block: which rows are predicted together does not
    matter, as long as batches start at a multiple of `block_size(num_samples)`.

    Where recurrent layers are stateful, each draw has states of its own, which start
    from those of the model and are carried from batch to batch.

    Args:
        model: A model that has been built.
        estimator_of: Returns the estimator with which a layer with a random kernel is
            to be traced; `None` is its own.
    """

    def __init__(self, model: keras.Model, estimator_of: EstimatorOf | None = None):
        # Whoever keeps a sampler shall not keep the model.
        self._model: Callable[[], Any] = weakref.ref(model)
        self._estimator_of = estimator_of or (lambda layer: layer.estimator)
        with replaced_estimators(model, self._estimator_of):
            layers = all_layers(model)
            found = [noise.noise_of(layer) for layer in layers]
            kinds = [kind for kind in found if kind is not None]
            self._has_own_noise = any(noise.has_own_noise(layer) for layer in layers)
            # It may have its rows on another axis than the first.
            self._has_unknown_noise = any(noise.is_unknown(layer) for layer in layers)
            states = state_variables(model)
            self._is_tiled = all(kinds) and not states and not draws_without_rows(model)
        self.draws = bool(kinds)
        self._outputs: Any = None
        self.fixed_rows: int | None = states[0].shape[0] if states else None
        self._functions: dict[Any, Any] = {}
        self._snapshot: Any = snapshot(model)

    def is_up_to_date(self) -> bool:
        """Whether the model is still as it was when the sampler looked at it last."""
        return self._snapshot == snapshot(self._model())

    def block_size(self, num_samples: int) -> int | None:
        """Returns how many rows share a seed, `None` if it is all rows of a batch."""
        if not self._has_own_noise or self.fixed_rows is not None:
            return None
        if not self._is_tiled:
            return _LARGEST_BLOCK
        return max(1, min(_LARGEST_BLOCK, _ROWS_OF_A_PASS // num_samples))

    def function(
        self, x: Any, num_samples: int, kinds: list[str], parts: tuple[str, ...]
    ) -> Callable:
        """Returns the traced function for data of the form of `x`.

        Args:
            x: A batch, of rows as `tfvn.prediction.rows.as_rows` makes them.
            num_samples: Number of draws.
            kinds: What the outputs are, one for each.
            parts: Which parts of a summary to return.

        Returns:
            A function of a batch as a list of tensors, a seed of two integers, the number
            of the batch's first block, and the states of all draws. It returns a list of
            dictionaries of parts, one for each of the model's outputs, and the states
            after the batch.
        """

        def predict(
            x: list[Tensor], seed: Tensor, first_block: Tensor, states: list[Tensor]
        ) -> Any:
            x = structure.pack(x)
            block = seed, first_block, states
            return self._predict(x, *block, num_samples, kinds, parts)

        structure = _Structure(x)
        specs = [
            _specs(self._model(), x, self.fixed_rows),
            tf.TensorSpec([2], tf.int32),
            tf.TensorSpec([], tf.int32),
            [tf.TensorSpec(s.shape, s.dtype) for s in self.states(num_samples)],
        ]
        key = (structure.key, _key(specs[0]), num_samples, tuple(kinds), parts)
        return self._traced(key, predict, specs)

    def states(self, num_samples: int) -> list[Tensor]:
        """Returns the states of the model's stateful layers, once for each draw."""
        return [
            tf.repeat(tf.convert_to_tensor(state)[None], num_samples, axis=0)
            for state in state_variables(self._model())
        ]

    def pack(self, flat: list[Any]) -> Any:
        """Returns one thing for each output in the structure of the model's outputs.

        It is known once a function has been called.
        """
        is_list = isinstance(self._outputs, list | tuple)
        if len(flat) == 1 and (is_list or not keras.tree.is_nested(self._outputs)):
            return flat[0]  # as a call of the model does
        return keras.tree.pack_sequence_as(self._outputs, flat)

    def call(self, x: Any) -> Any:
        """Returns the model's outputs for a batch of rows, with no noise but its own."""

        def call(x: list[Tensor]) -> Any:
            model = self._model()
            with replaced_estimators(model, self._estimator_of):
                outputs = model(structure.pack(x), training=False)
            model._clear_losses()  # noqa: SLF001
            return outputs

        structure = _Structure(x)
        specs = _specs(self._model(), x, self.fixed_rows)
        return self._traced((structure.key, _key(specs)), call, [specs])(tensors(x))

    def _traced(self, key: Any, function: Callable, signature: list[Any]) -> Callable:
        if key not in self._functions:
            # Also where `tf.config.run_functions_eagerly` is on: what is computed once
            # and what is drawn again is told apart in a graph.
            self._functions[key] = tf.function(
                function, input_signature=signature, autograph=False
            ).get_concrete_function()
            # A first call may leave something on the layers, which is no change.
            self._snapshot = snapshot(self._model())
        return self._functions[key]

    def _predict(
        self,
        x: Any,
        seed: Tensor,
        first_block: Tensor,
        states: list[Tensor],
        num_samples: int,
        kinds: list[str],
        parts: tuple[str, ...],
    ) -> Any:
        model = self._model()
        with replaced_estimators(model, self._estimator_of), noise.drawing(model):
            program = Program(model, x)
            held = program.held
            generators = noise.per_example_generators(model)

            def draw(held: list[Tensor], seed: Tensor, example_seed: Tensor) -> Any:
                copies = num_samples if self._is_tiled else 1
                stream = random.Stream(seed, example_seed, generators)
                with random.drawn_from(stream):
                    outputs = program.run(held, copies)
                self._outputs = keras.tree.map_structure(lambda _: None, outputs)
                return _flatten(outputs)

            def draw_block(
                held: list[Tensor], seed: Tensor, block: Tensor, states: list[Tensor]
            ) -> Any:
                # The first is that of what all blocks share.
                shared, own = random.fold_in(seed, 0), random.fold_in(seed, 1)
                own = random.fold_in(own, block)
                if self._is_tiled:
                    outputs = draw(held, shared, own)
                    outputs = [split(output, num_samples) for output in outputs]
                else:
                    outputs, states = _draw_one_by_one(
                        draw, held, shared, own, _States(model, states, num_samples)
                    )
                return summaries_of(outputs, kinds, parts), states

            # A function of its own, whose outputs are known before it is called.
            specs = [tf.TensorSpec([None, *t.shape[1:]], t.dtype) for t in held]
            if self.fixed_rows is not None:
                specs = [tf.TensorSpec(t.shape, t.dtype) for t in held]
            traced = tf.function(draw_block, autograph=False).get_concrete_function(
                specs,
                tf.TensorSpec([2], tf.int32),
                tf.TensorSpec([], tf.int32),
                [tf.TensorSpec(s.shape, s.dtype) for s in states],
            )
            # Losses of a pass, of activity regularizers say, are none of the model's.
            model._clear_losses()  # noqa: SLF001
            size = self.block_size(num_samples)
            if size is None:
                return traced(held, seed, first_block, states)
            if self._has_unknown_noise:
                held = whole_blocks(held, size)
            summaries = over_blocks(
                lambda block, index: traced(block, seed, first_block + index, [])[0],
                traced.structured_outputs[0],
                held,
                size,
            )
            return summaries, []


def sampler_of(
    model: keras.Model, name: str = "", estimator_of: EstimatorOf | None = None
) -> Sampler:
    """Returns the sampler of a model, the same one every time.

    Args:
        model: A model that has been built.
        name: What `estimator_of` is called, as it is the same in every call.
        estimator_of: As in `Sampler`.
    """
    with while_changed:
        samplers = _samplers.setdefault(model, {})
        # A model that was changed since is traced again.
        if name not in samplers or not samplers[name].is_up_to_date():
            samplers[name] = Sampler(model, estimator_of)
        return samplers[name]


_samplers: weakref.WeakKeyDictionary[keras.Model, dict[str, Sampler]] = (
    weakref.WeakKeyDictionary()
)


class _Structure:
    """The structure of batches, some inputs of which may be left out.

    Args:
        x: A batch.
    """

    def __init__(self, x: Any):
        self._is_there = keras.tree.map_structure(lambda rows: rows is not None, x)
        self.key = repr(self._is_there)

    def pack(self, tensors: list[Tensor]) -> Any:
        """Returns the tensors of a batch in its structure."""
        rest = iter(tensors)
        return keras.tree.map_structure(
            lambda is_there: next(rest) if is_there else None, self._is_there
        )


def tensors(x: Any) -> list[Tensor]:
    """Returns what there is of a batch as tensors, as functions are traced for."""
    return [as_tensor(rows) for rows in _flatten(x) if rows is not None]


def _specs(model: Any, x: Any, count: int | None) -> list[Any]:
    """Returns what batches like `x` are, whatever their number of rows."""
    graph = functional_graph(model)
    flat = _flatten(x)
    symbols = [None] * len(flat)
    if graph is not None and len(graph.inputs) == len(flat):
        symbols = graph.inputs
    return [
        spec_of(rows, count, _shape(rows, symbol))
        for rows, symbol in zip(flat, symbols, strict=True)
        if rows is not None
    ]


def _shape(rows: Any, symbol: Any) -> list[int | None]:
    """Returns the shape of a row, with `None` where the model takes any size."""
    shape = list(rows.shape[1:])
    if symbol is None or len(symbol.shape) != len(shape) + 1:
        return shape
    # An axis of any length, such as time, is one in the trace too.
    return [
        None if known is None else size
        for known, size in zip(symbol.shape[1:], shape, strict=True)
    ]


def _key(specs: list[Any]) -> Any:
    return tuple((type(s), tuple(s.shape), s.dtype) for s in specs)


def _flatten(structure: Any) -> list[Any]:
    return keras.tree.flatten(structure)


class _States:
    """What the stateful layers of a model carry, for each draw.

    Args:
        model: The model.
        values: The states before a batch, with the draws on the first axis.
        count: Number of draws.
    """

    def __init__(self, model: Any, values: list[Tensor], count: int):
        self._variables = state_variables(model)
        self._values, self.count = values, count

    def put(self, number: Tensor) -> None:
        """Makes the states those of a draw."""
        for variable, value in zip(self._variables, self._values, strict=True):
            variable.assign(value[number])

    def take(self) -> list[Tensor]:
        """Returns the states as they are now."""
        return [tf.convert_to_tensor(variable) for variable in self._variables]


def _draw_one_by_one(
    draw: Any, held: list[Tensor], seed: Tensor, example_seed: Tensor, states: _States
) -> Any:
    specs = [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in held]
    pair = tf.TensorSpec([2], tf.int32)
    draw = tf.function(draw, autograph=False).get_concrete_function(specs, pair, pair)

    def one(number: Tensor) -> Any:
        states.put(number)
        outputs = draw(
            held, random.fold_in(seed, number), random.fold_in(example_seed, number)
        )
        return outputs, states.take()

    signature = tf.nest.map_structure(
        lambda t: tf.TensorSpec(t.shape, t.dtype),
        (draw.structured_outputs, states.take()),
    )
    draws, after = tf.map_fn(
        one,
        tf.range(states.count),
        fn_output_signature=signature,
        parallel_iterations=1,
    )

    def batch_first(tensor: Tensor) -> Tensor:
        rest = range(2, tensor.shape.rank)
        return tf.transpose(tensor, [1, 0, *rest])

    return tf.nest.map_structure(batch_first, draws), after
