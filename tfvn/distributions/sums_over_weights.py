"""Sums over all weights, in few passes over them.

They are float64, because near the prior the sums of a divergence cancel. Their gradients are
written down: the automatic ones take two to four times as many passes over the weights, and
with them memory that has to be found in every step.
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
    """Returns the exponentials with their sums, for what needs all of them.

    Args:
        x: A tensor.

    Returns:
        `exp(x)`, and the sums of `exp(x)` and of `x`, of which the gradient with respect
        to `x` is taken in one go.
    """
    # A function with a gradient of its own takes no variables of a strategy.
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
    """Returns the sum of the squares, which are never stored.

    It is as exact as a float32, enough where nothing cancels: for means.
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
        # Thin products are faster the wide way round.
        slope_right = tf.transpose(tf.matmul(left, slope, transpose_a=True))
        return tf.matmul(slope, right), slope_right

    return _sum(tf.math.log(products)), gradient


def _sum(x: Tensor) -> Tensor:
    # The sums of rows are converted to float64, rather than every element.
    rows = tf.reduce_sum(x, axis=-1) if x.shape.rank else x
    return tf.reduce_sum(tf.cast(rows, tf.float64))


def _plus(x: Tensor, number: Tensor) -> Tensor:
    # The gradient of a sum that nobody used is a constant zero, and adding it a pass.
    is_zero = tf.get_static_value(number) == 0.0
    return x if is_zero else x + tf.cast(number, x.dtype)
