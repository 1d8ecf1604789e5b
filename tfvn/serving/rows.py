"""Draws for rows that have a seed each, whatever else is in their batch."""

import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

from tfvn import estimators, layers, random
from tfvn.layers.inside import all_layers, replaced_estimators
from tfvn.prediction import noise
from tfvn.prediction.blocks import over_blocks, split
from tfvn.prediction.outputs import summaries_of
from tfvn.prediction.program import Program, draws_without_rows

Tensor = Any

# Rows of one pass of the part of a model that draws.
_ROWS_OF_A_PASS = 640

# Of draws that are made one by one, how many at the same time: each holds kernels.
_DRAWS_AT_A_TIME = 2


class RowSampler:
    """Draws outputs of a model, with a seed for each row.

    What precedes the noise is computed once for a batch. Where all noise is per example,
    the draws of a block of rows are one pass; a layer that draws kernels gets one for each
    row and draw, one after the other: slower, and no more memory.

    Args:
        model: A model that has been built.
        num_samples: Number of draws.
        kinds: What each output is, as `tfvn.prediction.kinds.find_kinds` says.
        level: The probability of the interval of outputs that have a distribution.
    """

    def __init__(
        self,
        model: keras.Model,
        num_samples: int,
        kinds: list[Any],
        level: float | None = None,
    ):
        self.model, self.num_samples, self.kinds = model, num_samples, kinds
        self._level = level
        with replaced_estimators(model, with_a_kernel_per_row):
            found = [noise.noise_of(layer) for layer in all_layers(model)]
            kinds_of_noise = [kind for kind in found if kind is not None]
            self._is_tiled = all(kinds_of_noise) and not draws_without_rows(model)
        self.draws = bool(kinds_of_noise)

    def __call__(
        self, inputs: Any, seeds: Tensor, parts: tuple[str, ...]
    ) -> tuple[Any, list[dict[str, Tensor]]]:
        """Returns parts of a summary for each of the model's outputs.

        Args:
            inputs: The model's inputs, in their structure.
            seeds: Integers of shape `(batch_size, 2)`.
            parts: Names of what `summarize` gives.

        Returns:
            The structure of the model's outputs, and for each of them a dictionary of
            tensors by part.
        """
        model = self.model
        with (
            replaced_estimators(model, with_a_kernel_per_row),
            noise.drawing(model),
            _without_advice(),
        ):
            program = Program(model, inputs)
            outputs: Any = None

            def draw(held: list[Tensor], seed: Tensor, copies: int) -> list[Tensor]:
                nonlocal outputs
                with random.drawn_from(_RowStream(seed)):
                    drawn = program.run([t[None] for t in held], copies)
                outputs = keras.tree.map_structure(lambda _: None, drawn)
                return keras.tree.flatten(drawn)

            def draw_block(tensors: list[Tensor]) -> list[dict[str, Tensor]]:
                *held, seeds = tensors
                draws = self._draws(draw, held, seeds)
                return summaries_of(draws, self.kinds, parts, self._level, seeds)

            # The seeds that people choose are neighbours, as are those that are made of
            # one; from hashed ones, each row can count up and meet no other.
            seeds = tf.map_fn(lambda seed: random.fold_in(seed, 0), seeds)
            tensors = [*program.held, seeds]
            # A function of its own, whose outputs are known before it is called.
            traced = tf.function(draw_block, autograph=False).get_concrete_function(
                [tf.TensorSpec([None, *t.shape[1:]], t.dtype) for t in tensors]
            )
            summaries = over_blocks(
                lambda block, index: traced(block),
                traced.structured_outputs,
                tensors,
                self._block_size,
            )
            model._clear_losses()  # noqa: SLF001
        return outputs, summaries

    @property
    def _block_size(self) -> int:
        return max(1, _ROWS_OF_A_PASS // self.num_samples)

    def _draws(self, draw: Callable, held: list[Tensor], seeds: Tensor) -> list[Tensor]:
        """Returns draws of shape `(rows, num_samples, ...)`."""
        count = self.num_samples
        if self._is_tiled:
            return tf.vectorized_map(lambda row: draw(*row, count), (held, seeds))

        traced = tf.function(
            lambda held, seed: [output[0] for output in draw(held, seed, 1)],
            autograph=False,
        ).get_concrete_function(
            [tf.TensorSpec(t.shape[1:], t.dtype) for t in held],
            tf.TensorSpec([2], tf.int32),
        )

        def one(number: Tensor) -> list[Tensor]:
            row = number // count
            seed = random.fold_in(seeds[row], number % count)
            return traced([tensor[row] for tensor in held], seed)

        draws = tf.map_fn(
            one,
            tf.range(tf.shape(seeds)[0] * count),
            fn_output_signature=[
                tf.TensorSpec(t.shape, t.dtype) for t in traced.structured_outputs
            ],
            parallel_iterations=_DRAWS_AT_A_TIME,
        )
        return [split(tensor, count) for tensor in draws]


def with_a_kernel_per_row(layer: Any) -> estimators.Estimator:
    """Returns the estimator that draws, for each row, what a kernel of its own gives.

    The outputs of a dense layer with Gaussian weights of their own for each vector of
    inputs are independent and Gaussian, which is what `local` draws, at a fraction of the
    cost: it then stands for `weights` and `flipout`. Elsewhere a row's outputs share
    weights, and the layer's own estimator stays.
    """
    if (
        isinstance(layer, layers.Dense)
        and layer.posterior.law == "gaussian"
        and layer.estimator.draws_noise
        and len(layer.get_build_config()["input_shape"]) == 2
    ):
        return _LocalOfVectors()
    return layer.estimator


class _LocalOfVectors(estimators.LocalReparameterization):
    """Local reparameterization of a layer that is called with vectors only."""

    def __call__(self, terms: Any, seed_generator: Any) -> estimators.Estimate:
        _check_vectors(terms)
        return super().__call__(terms, seed_generator)

    def prepare(self, terms: Any, offset: Any) -> Any:
        _check_vectors(terms)
        return super().prepare(terms, offset)


def _check_vectors(terms: Any) -> None:
    rank = terms[0].inputs.shape.rank
    if rank != 2:
        raise ValueError(
            "A dense layer that is built for vectors must be called with vectors; build "
            f"it for its inputs of highest rank. Received: inputs of rank {rank}"
        )


class _RowStream(random.Stream):
    """Seeds of a row, by how many were taken before.

    The functions of `tfvn.random` and of Keras hash the seeds that they are given, so
    that seeds need only be different.

    Args:
        seed: The seed of the row, two integers that `tfvn.random.fold_in` has hashed.
    """

    def __init__(self, seed: Tensor):
        super().__init__(seed, seed)

    def _take(self, seed: Tensor, number: int) -> Tensor:
        return seed + tf.constant([0, number], tf.int32)


@contextlib.contextmanager
def _without_advice() -> Iterator[None]:
    """Keeps `tf.vectorized_map` from advising against random numbers per row.

    They are made by a loop inside of it, and cost what they would cost anywhere.
    """

    def is_other(record: logging.LogRecord) -> bool:
        return "Using a while_loop for converting" not in record.getMessage()

    logger = tf.get_logger()
    logger.addFilter(is_other)
    try:
        yield
    finally:
        logger.removeFilter(is_other)
