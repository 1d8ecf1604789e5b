"""Draws a model's outputs, with traced functions that are kept with the model."""

import contextlib
import dataclasses
import weakref
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tfvn import passes, random
from tfvn.prediction import noise
from tfvn.prediction.blocks import map_blocks, split, whole_blocks
from tfvn.prediction.draws_by_row import (
    draws_by_row,
    hashed,
    with_a_kernel_per_row,
)
from tfvn.prediction.outputs import summaries_of
from tfvn.prediction.program import Program, draws_without_rows, state_variables
from tfvn.prediction.rows import as_tensor, specs_of
from tfvn.prediction.snapshot import snapshot
from tfvn.utils import private
from tfvn.utils.models import all_layers

Tensor = Any

# A pass in which layers use their own estimators and posteriors.
AS_IT_IS = passes.Pass()

# The number of rows in one pass of the part of a model that draws: if all noise is per
# example, few enough for their activations to stay in a cache; and if each row has a
# seed.
_ROWS_OF_A_PASS = 160
_ROWS_OF_A_PASS_BY_ROW = 640

# The largest number of examples that share a seed.
_LARGEST_BLOCK = 16


class Sampler:
    """Draws outputs of a model.

    The part of the model before the noise is computed once for a batch. If all noise is
    per example, all draws of a block of rows are one pass over repeated rows; otherwise
    each draw is a pass, in which a batch shares kernels as in a call of the model.

    Noise depends on the seed, on the number of the draw and, if it is per example, on the
    number of the block. It does not depend on which rows are predicted together, as long
    as batches start at a multiple of `block_size(num_samples)`. If each row has a seed,
    its noise, including kernels, depends only on that seed; some layers then sample
    outputs instead of kernels.

    With stateful recurrent layers, each draw has its own states, which start from those
    of the model and are carried from batch to batch.

    If batch normalization uses the statistics of the batch, each draw is a pass over all
    rows of a batch.

    Args:
        model: A model that has been built.
        what: A pass with other estimators or posteriors for the layers, or one in which
            batch normalization uses the statistics of the batch.
        by_row: Whether each row has a seed.

    Attributes:
        draws: Whether the model draws any noise.
        fixed_rows: The number of rows in a batch of a stateful model, or `None`.
        outputs: The structure of the model's outputs, once something has been traced.
    """

    def __init__(
        self,
        model: keras.Model,
        what: passes.Pass = AS_IT_IS,
        by_row: bool = False,
    ):
        # A weak reference, so that a sampler does not keep the model alive.
        self._model: Callable[[], Any] = weakref.ref(model)
        self._by_row = by_row
        self._pass = dataclasses.replace(what, adds_kl=False, is_compiled=False)
        if by_row:

            def estimator_of(layer: Any) -> Any:
                own = what.estimator_of(layer) if what.estimator_of else layer.estimator
                return with_a_kernel_per_row(layer, own)

            self._pass = dataclasses.replace(self._pass, estimator_of=estimator_of)
        noise.prepare(model, what.batch_statistics)
        with passes.entered(self._pass):
            layers = all_layers(model)
            found = [noise.noise_of(layer) for layer in layers]
            kinds = [kind for kind in found if kind is not None]
            self._has_own_noise = any(noise.has_own_noise(layer) for layer in layers)
            # Such noise may have its rows on an axis other than the first.
            self._has_unknown_noise = any(noise.is_unknown(layer) for layer in layers)
            states = state_variables(model)
            self._is_tiled = (
                all(kinds)
                and not states
                and not what.batch_statistics
                and not draws_without_rows(model)
            )
        self.draws = bool(kinds)
        self.outputs: Any = None
        self.fixed_rows: int | None = states[0].shape[0] if states else None
        self._functions: dict[Any, Any] = {}
        self._snapshot: Any = snapshot(model)

    def is_up_to_date(self) -> bool:
        """Whether the model has not changed since the last snapshot."""
        return self._snapshot == snapshot(self._model())

    def block_size(self, num_samples: int) -> int | None:
        """Returns how many rows are drawn at a time, or `None` for the whole batch."""
        if self._by_row:
            return max(1, _ROWS_OF_A_PASS_BY_ROW // num_samples)
        if self._pass.batch_statistics:
            return None
        if not self._has_own_noise or self.fixed_rows is not None:
            return None
        if not self._is_tiled:
            return _LARGEST_BLOCK
        return max(1, min(_LARGEST_BLOCK, _ROWS_OF_A_PASS // num_samples))

    def function(
        self,
        x: Any,
        num_samples: int,
        kinds: list[str],
        parts: tuple[str, ...],
        device: str | None = None,
    ) -> Callable:
        """Returns the traced function for data of the form of `x`.

        Args:
            x: A batch of rows from `tfvn.prediction.rows.as_rows`.
            num_samples: Number of draws.
            kinds: What the outputs are, one for each.
            parts: Which parts of a summary to return.
            device: The device that computes; `None` leaves it to TensorFlow.

        Returns:
            A function of a batch of tensors, a seed of two integers, or two
            for each row, the number of the batch's first block, and the states of all
            draws. It returns a list of dictionaries of parts, one for each of the model's
            outputs, and the states after the batch.
        """

        def predict(
            x: Any, seed: Tensor, first_block: Tensor, states: list[Tensor]
        ) -> Any:
            block = seed, first_block, states
            with tf.device(device) if device else contextlib.nullcontext():
                return self.summarize(x, *block, num_samples, kinds, parts)

        specs = [
            specs_of(self._model(), x, self.fixed_rows),
            tf.TensorSpec([None, 2] if self._by_row else [2], tf.int32),
            tf.TensorSpec([], tf.int32),
            [tf.TensorSpec(s.shape, s.dtype) for s in self.states(num_samples)],
        ]
        # Variables are read where the trace is made, so each device has its own.
        key = (num_samples, tuple(kinds), parts, device)
        return self._traced(predict, specs, key)

    def states(self, num_samples: int) -> list[Tensor]:
        """Returns the states of the model's stateful layers, once for each draw."""
        return [
            tf.repeat(tf.convert_to_tensor(state)[None], num_samples, axis=0)
            for state in state_variables(self._model())
        ]

    def pack(self, flat: list[Any]) -> Any:
        """Packs a list with one item per output into the structure of the outputs.

        The structure is known once a function has been called.
        """
        is_list = isinstance(self.outputs, list | tuple)
        if len(flat) == 1 and (is_list or not keras.tree.is_nested(self.outputs)):
            return flat[0]  # as a call of the model does
        return keras.tree.pack_sequence_as(self.outputs, flat)

    def call(self, x: Any) -> Any:
        """Returns the model's outputs for a batch of rows, without noise from noise layers."""
        specs = [specs_of(self._model(), x, self.fixed_rows)]
        function = self._traced(self.call_model, specs)
        return function(keras.tree.map_structure(as_tensor, x))

    def _traced(self, function: Callable, specs: list[Any], *key: Any) -> Callable:
        key = (repr(specs), *key)
        if key not in self._functions:
            # Traced even if `tf.config.run_functions_eagerly` is on, because only a
            # graph separates what is computed once from what is drawn again.
            self._functions[key] = tf.function(
                function, autograph=False
            ).get_concrete_function(*specs)
            # A first call may set attributes of layers, which must not count as a
            # change.
            self._snapshot = snapshot(self._model())
        return self._functions[key]

    def call_model(self, x: Any) -> Any:
        """Calls the model inside a trace, without noise from noise layers."""
        model = self._model()
        with passes.entered(self._pass):
            outputs = model(x, training=False)
        private.clear_losses(model)
        return outputs

    def summarize(
        self,
        x: Any,
        seed: Tensor,
        first_block: Tensor,
        states: list[Tensor],
        num_samples: int,
        kinds: list[Any],
        parts: tuple[str, ...],
        level: float | None = None,
    ) -> Any:
        """Returns the result of a function from `function`, inside a trace.

        Args:
            x: A batch, in the structure of the model's inputs.
            seed: Two integers, or two for each row.
            first_block: The number of the batch's first block.
            states: The states of all draws.
            num_samples: Number of draws.
            kinds: What the outputs are, one for each.
            parts: Which parts of a summary to return.
            level: The probability of the interval of outputs that have a distribution.
        """
        model = self._model()
        record = passes.Record()
        drawing = dataclasses.replace(self._pass, draws_noise=True, record=record)
        with passes.entered(drawing):
            program = Program(model, x)
            held = program.held

            def draw(held: list[Tensor], stream: random.Stream, copies: int) -> Any:
                with passes.changed(stream=stream):
                    outputs = program.run(held, copies)
                self.outputs = keras.tree.map_structure(lambda _: None, outputs)
                return keras.tree.flatten(outputs)

            def draw_rows(rows: list[Tensor], *unused: Any) -> Any:
                *held, seeds = rows
                outputs = draws_by_row(draw, held, seeds, num_samples, self._is_tiled)
                return summaries_of(outputs, kinds, parts, level, seeds), []

            def draw_block(
                held: list[Tensor], seed: Tensor, block: Tensor, states: list[Tensor]
            ) -> Any:
                # The first seed is for noise that all blocks share.
                shared, own = random.fold_in(seed, 0), random.fold_in(seed, 1)
                own = random.fold_in(own, block)
                if self._is_tiled:
                    outputs = draw(held, random.Stream(shared, own), num_samples)
                    outputs = [split(output, num_samples) for output in outputs]
                else:
                    variables = state_variables(model)
                    outputs, states = _draw_one_by_one(
                        draw, held, (shared, own), num_samples, variables, states
                    )
                return summaries_of(outputs, kinds, parts, level), states

            if self._by_row:
                held = [*held, hashed(seed)]
                seed = tf.zeros([2], tf.int32)
            # A separate function, so that its outputs are known before it is called.
            specs = [tf.TensorSpec([None, *t.shape[1:]], t.dtype) for t in held]
            if self.fixed_rows is not None:
                specs = [tf.TensorSpec(t.shape, t.dtype) for t in held]
            draws = draw_rows if self._by_row else draw_block
            traced = tf.function(draws, autograph=False).get_concrete_function(
                specs,
                tf.TensorSpec([2], tf.int32),
                tf.TensorSpec([], tf.int32),
                [tf.TensorSpec(s.shape, s.dtype) for s in states],
            )
            noise.check_drawn(model, record.asked)
            # Removes losses of this pass, for example of activity regularizers.
            private.clear_losses(model)
            size = self.block_size(num_samples)
            if size is None:
                return traced(held, seed, first_block, states)
            if self._has_unknown_noise and not self._by_row:
                held = whole_blocks(held, size)
            summaries = map_blocks(
                lambda block, index: traced(block, seed, first_block + index, [])[0],
                traced.structured_outputs[0],
                held,
                size,
            )
            return summaries, []


def sampler_of(
    model: keras.Model, what: passes.Pass = AS_IT_IS, by_row: bool = False
) -> Sampler:
    """Returns the sampler of a model, the same one every time.

    Args:
        model: A model that has been built.
        what: As in `Sampler`; each `what` has its own sampler.
        by_row: As in `Sampler`.
    """
    samplers = _samplers.setdefault(model, {})
    sampler = samplers.get((what, by_row))
    # A model that has changed since is traced again.
    if sampler is None or not sampler.is_up_to_date():
        sampler = samplers[what, by_row] = Sampler(model, what, by_row)
    return sampler


_samplers: weakref.WeakKeyDictionary[keras.Model, dict[Any, Sampler]] = (
    weakref.WeakKeyDictionary()
)


def _draw_one_by_one(
    draw: Callable,
    held: list[Tensor],
    seeds: tuple[Tensor, Tensor],
    count: int,
    variables: list[Any],
    states: list[Tensor],
) -> Any:
    """Returns draws of shape `(rows, count, ...)`, each by its own pass, and new states.

    Args:
        draw: A function of held tensors, a stream and the number 1, which returns outputs.
        held: The tensors from which the draws are made.
        seeds: The seed of noise that all blocks share, and the seed of this block.
        count: Number of draws.
        variables: The variables that hold the states of the model's stateful layers.
        states: Their values before the batch, with the draws on the first axis.
    """
    specs = [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in held]
    pair = tf.TensorSpec([2], tf.int32)
    traced = tf.function(
        lambda held, *seeds: draw(held, random.Stream(*seeds), 1), autograph=False
    ).get_concrete_function(specs, pair, pair)

    def one(number: Tensor, states: list[Tensor]) -> Any:
        for variable, state in zip(variables, states, strict=True):
            variable.assign(state)
        outputs = traced(held, *(random.fold_in(seed, number) for seed in seeds))
        return outputs, [tf.convert_to_tensor(variable) for variable in variables]

    draws, states = tf.map_fn(
        lambda draw: one(*draw),
        (tf.range(count), states),
        fn_output_signature=tf.nest.map_structure(
            lambda t: tf.TensorSpec(t.shape, t.dtype),
            (traced.structured_outputs, variables),
        ),
        parallel_iterations=1,
    )
    # Rows first, then draws.
    draws = [tf.transpose(t, [1, 0, *range(2, t.shape.rank)]) for t in draws]
    return draws, states
