"""Sums over all weights, computed in few passes over them.

The sums are float64, because near the prior the terms of a KL divergence cancel. Their
gradients are written by hand: automatic gradients take two to four times as many passes over
the weights, and allocate memory for each in every step.
"""

from typing import Any, NamedTuple

import tensorflow as tf

Tensor = Any

# How many products of the factors of k-tied scales are formed at a time, and how many such
# blocks may exist at once. Smaller blocks cost more time, because starting an op takes some.
BLOCK = 2**20
_PARALLEL_BLOCKS = 4


class Exponentials(NamedTuple):
    """The exponentials of a tensor, their sum, and the sum of the exponents."""

    each: Tensor
    sum: Tensor
    sum_of_exponents: Tensor


def exponentials(x: Tensor) -> Exponentials:
    """Returns the exponentials of a tensor together with the sums that a KL needs.

    Args:
        x: A tensor.

    Returns:
        `exp(x)`, and the sums of `exp(x)` and of `x`. One expression computes the gradient
        of all three with respect to `x`.
    """
    # `tf.custom_gradient` does not accept the variables of a strategy, only tensors.
    return Exponentials(*_exponentials(tf.convert_to_tensor(x)))


@tf.custom_gradient
def _exponentials(x: Tensor) -> Any:
    exp_x = tf.exp(x)

    def gradient(
        upstream: Tensor, upstream_sum: Tensor, upstream_exponents: Tensor
    ) -> Tensor:
        slope = exp_x * _plus(upstream, upstream_sum)
        return _plus(slope, upstream_exponents)

    return (exp_x, _sum(exp_x), _sum(x)), gradient


@tf.custom_gradient
def sums_of_exponentials(x: Tensor) -> Any:
    """Returns the sums of `exp(x)` and of `x`."""
    exp_x = tf.exp(x)

    def gradient(upstream: Tensor, upstream_exponents: Tensor) -> Tensor:
        scaled = tf.cast(upstream, x.dtype) * exp_x
        return scaled + tf.cast(upstream_exponents, x.dtype)

    return (_sum(exp_x), _sum(x)), gradient


@tf.custom_gradient
def sum_of_squares(x: Tensor) -> Any:
    """Returns the sum of the squares."""
    return _sum(tf.square(x)), lambda upstream: _doubled(upstream, x)


@tf.custom_gradient
def quick_sum_of_squares(x: Tensor) -> Any:
    """Returns the sum of the squares without storing the squares.

    It has the precision of float32, which is enough for means, whose squares do not cancel.
    """
    value = 2.0 * tf.cast(tf.nn.l2_loss(x), tf.float64)
    return value, lambda upstream: _doubled(upstream, x)


def _doubled(upstream: Tensor, x: Tensor) -> Tensor:
    return tf.cast(2.0 * upstream, x.dtype) * x


@tf.custom_gradient
def sum_of_logs(x: Tensor) -> Any:
    """Returns the sum of the logarithms."""
    return _sum(tf.math.log(x)), lambda upstream: tf.cast(upstream, x.dtype) / x


def sum_of_logs_of_products(left: Tensor, right: Tensor) -> Tensor:
    """Returns the sum of the logarithms of `left @ transpose(right)`.

    A large matrix of products is never kept: blocks of its rows are formed one after the
    other.

    Args:
        left: A matrix `(rows, rank)` of known shape.
        right: A matrix `(columns, rank)` of known shape.
    """
    left, right = tf.convert_to_tensor(left), tf.convert_to_tensor(right)
    if left.shape[0] * right.shape[0] <= BLOCK:
        return _sum_of_logs_of_products(left, right)
    if left.shape[0] < right.shape[0]:
        # The sum is the same, and rows are short enough for several in a block.
        left, right = right, left
    return _sum_over_blocks(left, right)


@tf.custom_gradient
def _sum_of_logs_of_products(left: Tensor, right: Tensor) -> Any:
    products = tf.matmul(left, right, transpose_b=True)

    def gradient(upstream: Tensor) -> tuple[Tensor, Tensor]:
        slope = tf.cast(upstream, products.dtype) / products
        return _slopes(slope, left, right)

    return _sum(tf.math.log(products)), gradient


@tf.custom_gradient
def _sum_over_blocks(left: Tensor, right: Tensor) -> Any:
    # The slopes of a block are computed with its logarithms, because to form the products
    # again for the gradient takes longer. A graph without a gradient leaves the slopes out.
    def of_block(block: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        products = tf.matmul(block, right, transpose_b=True)
        slopes = _slopes(tf.math.reciprocal(products), block, right)
        return _sum(tf.math.log(products)), *slopes

    rows, rank = left.shape
    size = max(1, BLOCK // right.shape[0])
    rest = rows % size
    sums, lefts, rights = tf.map_fn(
        of_block,
        tf.reshape(left[: rows - rest], [-1, size, rank]),
        # Some ops use one core; as many blocks as this may exist at once.
        parallel_iterations=_PARALLEL_BLOCKS,
        fn_output_signature=(tf.float64, left.dtype, right.dtype),
    )
    value, slope_left, slope_right = of_block(left[rows - rest :])
    value += tf.reduce_sum(sums)
    slope_left = tf.concat([tf.reshape(lefts, [rows - rest, rank]), slope_left], axis=0)
    slope_right += tf.reduce_sum(rights, axis=0)

    def gradient(upstream: Tensor) -> tuple[Tensor, Tensor]:
        upstream = tf.cast(upstream, left.dtype)
        return upstream * slope_left, upstream * slope_right

    return value, gradient


def _slopes(slope: Tensor, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the slopes with respect to the factors from those of their products."""
    # Computed as the transpose of a wide product, which is faster than a tall one.
    slope_right = tf.transpose(tf.matmul(left, slope, transpose_a=True))
    return tf.matmul(slope, right), slope_right


def _sum(x: Tensor) -> Tensor:
    # Converts the sums of rows to float64 instead of every element.
    rows = tf.reduce_sum(x, axis=-1) if x.shape.rank else x
    return tf.reduce_sum(tf.cast(rows, tf.float64))


def _plus(x: Tensor, number: Tensor) -> Tensor:
    # The gradient of an unused sum is a constant zero; adding it would cost a pass.
    is_zero = tf.get_static_value(number) == 0.0
    return x if is_zero else x + tf.cast(number, x.dtype)
