"""Draws for rows that have a seed each, whatever else is in their batch."""

import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from tfvn import estimators, random
from tfvn.layers.core.dense import Dense
from tfvn.prediction.blocks import split

Tensor = Any

# Of draws that are made one by one, how many at the same time: each holds kernels.
_DRAWS_AT_A_TIME = 2


class RowStream(random.Stream):
    """Seeds of a row, by how many were taken before.

    The functions of `tfvn.random` and of Keras hash the seeds that they are given, so
    that seeds need only be different.

    Args:
        seed: The seed of the row, two integers that `hashed` has made.
    """

    def __init__(self, seed: Tensor):
        super().__init__(seed, seed)

    def _take(self, seed: Tensor, number: int) -> Tensor:
        return seed + tf.constant([0, number], tf.int32)


def hashed(seeds: Tensor) -> Tensor:
    """Returns seeds of rows that can be counted up from and meet no other.

    Those that people choose are neighbours, as are those that are made of one.
    """
    return tf.map_fn(lambda seed: random.fold_in(seed, 0), seeds)


def draws_by_row(
    draw: Callable, held: list[Tensor], seeds: Tensor, count: int, is_tiled: bool
) -> list[Tensor]:
    """Returns draws of shape `(rows, count, ...)`, a row's by its seed alone.

    Args:
        draw: Returns some draws, one after the other, of tensors of one row, a stream
            and the number of draws.
        held: What the draws are made from.
        seeds: Seeds of the rows that have been hashed.
        count: Number of draws.
        is_tiled: Whether the draws of a row can be one pass. Else a layer draws kernels,
            which are made for one row and draw after the other: slower, and no more
            memory.
    """
    if is_tiled:
        with _without_advice():
            return tf.vectorized_map(
                lambda row: draw([t[None] for t in row[0]], RowStream(row[1]), count),
                (held, seeds),
            )

    def draw_one(held: list[Tensor], seed: Tensor) -> list[Tensor]:
        outputs = draw([tensor[None] for tensor in held], RowStream(seed), 1)
        return [output[0] for output in outputs]

    traced = tf.function(draw_one, autograph=False).get_concrete_function(
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


def with_a_kernel_per_row(
    layer: Any, estimator: estimators.Estimator
) -> estimators.Estimator:
    """Returns the estimator that draws, for each row, what a kernel of its own gives.

    The outputs of a dense layer with Gaussian weights of their own for each vector of
    inputs are independent and Gaussian, which is what `local` draws, at a fraction of the
    cost: it then stands for `weights` and `flipout`. Elsewhere a row's outputs share
    weights, and the estimator stays.

    Args:
        layer: A layer with random weights.
        estimator: The estimator that it would use.
    """
    if (
        isinstance(layer, Dense)
        and layer.posterior.law == "gaussian"
        and estimator.draws_noise
        and not estimator.noise_per_example
        and len(layer.get_build_config()["input_shape"]) == 2
    ):
        return _LocalOfVectors()
    return estimator


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
