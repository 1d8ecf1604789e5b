"""Draws for rows that have their own seeds, whatever else is in the batch."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfvn import estimators, random
from tfvn.layers.core.dense import Dense
from tfvn.prediction.blocks import split

Tensor = Any

# The number of single draws that run at the same time; each holds kernels in memory.
_DRAWS_AT_A_TIME = 2


class RowStream(random.Stream):
    """The seeds of a row, which depend on how many were taken before.

    The functions of `tfvn.random` and of Keras hash their seeds, so it is enough that
    seeds differ.

    Args:
        seed: The seed of the row: two integers from `hashed`.
    """

    def __init__(self, seed: Tensor):
        super().__init__(seed, seed)

    def _take(self, seed: Tensor, number: int) -> Tensor:
        return seed + tf.constant([0, number], tf.int32)


def hashed(seeds: Tensor) -> Tensor:
    """Returns hashed seeds of rows, which a caller can count up without collisions.

    The seeds that people choose are often consecutive numbers.
    """
    return tf.map_fn(lambda seed: random.fold_in(seed, 0), seeds)


def draws_by_row(
    draw: Callable, held: list[Tensor], seeds: Tensor, count: int, is_tiled: bool
) -> list[Tensor]:
    """Returns draws of shape `(rows, count, ...)`, which depend only on the row's seed.

    Args:
        draw: A function of the tensors of one row, a stream and a number of draws, which
            returns the draws one after the other.
        held: The tensors from which the draws are made.
        seeds: Hashed seeds of the rows.
        count: Number of draws.
        is_tiled: Whether all draws of a row can be one pass. If not, a layer samples
            kernels, and rows and draws are computed one after the other: slower, but
            without more memory.
    """
    if is_tiled:
        return tf.vectorized_map(
            lambda row: draw([t[None] for t in row[0]], RowStream(row[1]), count),
            (held, seeds),
            # It advises against random numbers per row, which it draws in a loop. That
            # costs no more than elsewhere.
            warn=False,
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
    """Returns an estimator that samples as if each row had its own kernel.

    If a dense layer with Gaussian weights has its own kernel for each input vector, its
    outputs are independent and Gaussian. `local` samples exactly these, at a fraction of
    the cost, and so replaces `weights` and `flipout`. In other layers the outputs of a
    row share weights, and the estimator stays.

    Args:
        layer: A layer with random weights.
        estimator: The estimator that it uses otherwise.
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
    """Local reparameterization for a layer whose inputs are vectors."""

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
            "A dense layer that was built for vectors can be called only with vectors "
            "if `seed` has a seed for each row; build the layer for the inputs with "
            f"the most axes. Received: inputs of rank {rank}"
        )
