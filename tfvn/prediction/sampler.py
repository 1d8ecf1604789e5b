"""Draws of a model's outputs, as traced functions that are kept with the model."""

import weakref
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfvn import random
from tfvn.layers.inside import all_layers, replaced_estimators, while_changed
from tfvn.prediction import noise
from tfvn.prediction.blocks import over_blocks, split
from tfvn.prediction.outputs import summaries_of
from tfvn.prediction.program import Program, functional_graph

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
        self.draws = bool(kinds)
        self._outputs: Any = None
        self._is_tiled = all(kinds)
        self._functions: dict[Any, Any] = {}

    def block_size(self, num_samples: int) -> int | None:
        """Returns how many rows share a seed, `None` if no row has noise of its own."""
        if not self._has_own_noise:
            return None
        if not self._is_tiled:
            return _LARGEST_BLOCK
        return max(1, min(_LARGEST_BLOCK, _ROWS_OF_A_PASS // num_samples))

    def function(
        self, x: Any, num_samples: int, kinds: list[str], parts: tuple[str, ...]
    ) -> Callable:
        """Returns the traced function for data of the form of `x`.

        Args:
            x: A batch of arrays.
            num_samples: Number of draws.
            kinds: What the outputs are, one for each.
            parts: Which parts of a summary to return.

        Returns:
            A function of a batch, a seed of two integers and the number of the batch's
            first block. It returns a list of dictionaries of parts, one for each of the
            model's outputs.
        """
        specs = _specs(self._model(), x)
        key = (_key(specs), num_samples, tuple(kinds), parts)
        if key not in self._functions:

            def predict(x: Any, seed: Tensor, first_block: Tensor) -> Any:
                return self._predict(x, seed, first_block, num_samples, kinds, parts)

            self._functions[key] = tf.function(
                predict,
                input_signature=[
                    specs,
                    tf.TensorSpec([2], tf.int32),
                    tf.TensorSpec([], tf.int32),
                ],
                autograph=False,
            )
        return self._functions[key]

    def pack(self, flat: list[Any]) -> Any:
        """Returns one thing for each output in the structure of the model's outputs.

        It is known once a function has been called.
        """
        is_list = isinstance(self._outputs, list | tuple)
        if len(flat) == 1 and (is_list or not keras.tree.is_nested(self._outputs)):
            return flat[0]  # as a call of the model does
        return keras.tree.pack_sequence_as(self._outputs, flat)

    def call(self, x: Any) -> Any:
        """Returns the model's outputs for a batch of arrays, with no noise but its own."""
        specs = _specs(self._model(), x)
        key = _key(specs)
        if key not in self._functions:

            def call(x: Any) -> Any:
                model = self._model()
                with replaced_estimators(model, self._estimator_of):
                    outputs = model(x, training=False)
                model._clear_losses()  # noqa: SLF001
                return outputs

            self._functions[key] = tf.function(
                call, input_signature=[specs], autograph=False
            )
        return self._functions[key](cast(x))

    def _predict(
        self,
        x: Any,
        seed: Tensor,
        first_block: Tensor,
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

            def draw_block(held: list[Tensor], seed: Tensor, block: Tensor) -> Any:
                # The first is that of what all blocks share.
                shared, own = random.fold_in(seed, 0), random.fold_in(seed, 1)
                own = random.fold_in(own, block)
                if self._is_tiled:
                    outputs = draw(held, shared, own)
                    outputs = [split(output, num_samples) for output in outputs]
                else:
                    outputs = _draw_one_by_one(draw, held, shared, own, num_samples)
                return summaries_of(outputs, kinds, parts)

            # A function of its own, whose outputs are known before it is called.
            specs = [tf.TensorSpec([None, *t.shape[1:]], t.dtype) for t in held]
            traced = tf.function(draw_block, autograph=False).get_concrete_function(
                specs, tf.TensorSpec([2], tf.int32), tf.TensorSpec([], tf.int32)
            )
            # Losses of a pass, of activity regularizers say, are none of the model's.
            model._clear_losses()  # noqa: SLF001
            size = self.block_size(num_samples)
            if size is None:
                return traced(held, seed, first_block)
            return over_blocks(
                lambda block, index: traced(block, seed, first_block + index),
                traced.structured_outputs,
                held,
                size,
            )


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
        # A layer that was changed since is traced again.
        state = tuple(
            (id(layer), noise.noise_of(layer), id(getattr(layer, "estimator", None)))
            for layer in all_layers(model)
        )
        known, sampler = samplers.get(name, (None, None))
        if known != state:
            sampler = Sampler(model, estimator_of)
            samplers[name] = state, sampler
        return sampler


_samplers: weakref.WeakKeyDictionary[keras.Model, dict[str, Any]] = (
    weakref.WeakKeyDictionary()
)


def _specs(model: Any, x: Any) -> Any:
    """Returns what batches like `x` are, whatever their number of rows."""
    graph = functional_graph(model)
    flat = _flatten(x)
    shapes = [array.shape[1:] for array in flat]
    if graph is not None and len(graph.inputs) == len(flat):
        for index, symbol in enumerate(graph.inputs):
            expected = symbol.shape[1:]
            if len(expected) == len(shapes[index]):
                # An axis of any length, such as time, is one in the trace too.
                shapes[index] = [
                    None if known is None else size
                    for known, size in zip(expected, shapes[index], strict=True)
                ]
    specs = [
        tf.TensorSpec([None, *shape], _dtype(array))
        for shape, array in zip(shapes, flat, strict=True)
    ]
    return keras.tree.pack_sequence_as(x, specs)


def _key(specs: Any) -> Any:
    structure = repr(keras.tree.map_structure(lambda _: 0, specs))
    return structure, tuple((tuple(s.shape), s.dtype) for s in _flatten(specs))


def cast(x: Any) -> Any:
    """Returns arrays as tensors of the types that functions are traced for."""
    return keras.tree.map_structure(lambda a: tf.convert_to_tensor(a, _dtype(a)), x)


def _dtype(array: np.ndarray) -> tf.DType:
    # NumPy's default is not what Keras computes in.
    return tf.as_dtype(
        keras.config.floatx() if array.dtype == np.float64 else array.dtype
    )


def _flatten(structure: Any) -> list[Any]:
    return keras.tree.flatten(structure)


def _draw_one_by_one(
    draw: Any, held: list[Tensor], seed: Tensor, example_seed: Tensor, count: int
) -> Any:
    specs = [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in held]
    pair = tf.TensorSpec([2], tf.int32)
    draw = tf.function(draw, autograph=False).get_concrete_function(specs, pair, pair)

    def one(number: Tensor) -> Any:
        return draw(
            held, random.fold_in(seed, number), random.fold_in(example_seed, number)
        )

    signature = tf.nest.map_structure(
        lambda t: tf.TensorSpec(t.shape, t.dtype), draw.structured_outputs
    )
    draws = tf.map_fn(
        one, tf.range(count), fn_output_signature=signature, parallel_iterations=1
    )

    def batch_first(tensor: Tensor) -> Tensor:
        rest = range(2, tensor.shape.rank)
        return tf.transpose(tensor, [1, 0, *rest])

    return tf.nest.map_structure(batch_first, draws)
