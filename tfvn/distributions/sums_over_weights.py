"""Sums over all weights, computed in few passes over them.

The sums are float64, because near the prior the terms of a KL divergence cancel. Their
gradients are written by hand: automatic gradients take two to four times as many passes over
the weights, and allocate memory for each in every step.
"""

from typing import Any, NamedTuple

import tensorflow as tf

Tensor = Any


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


@tf.custom_gradient
def sum_of_logs_of_products(left: Tensor, right: Tensor) -> Any:
    """Returns the sum of the logarithms of `left @ transpose(right)`."""
    products = tf.matmul(left, right, transpose_b=True)

    def gradient(upstream: Tensor) -> tuple[Tensor, Tensor]:
        slope = tf.cast(upstream, products.dtype) / products
        # Computed as the transpose of a wide product, which is faster than a tall one.
        slope_right = tf.transpose(tf.matmul(left, slope, transpose_a=True))
        return tf.matmul(slope, right), slope_right

    return _sum(tf.math.log(products)), gradient


def _sum(x: Tensor) -> Tensor:
    # Converts the sums of rows to float64 instead of every element.
    rows = tf.reduce_sum(x, axis=-1) if x.shape.rank else x
    return tf.reduce_sum(tf.cast(rows, tf.float64))


def _plus(x: Tensor, number: Tensor) -> Tensor:
    # The gradient of an unused sum is a constant zero; adding it would cost a pass.
    is_zero = tf.get_static_value(number) == 0.0
    return x if is_zero else x + tf.cast(number, x.dtype)
