"""Sums over the weights, and the gradients that are written down for them."""

import numpy as np
import pytest
import tensorflow as tf
from kl_references import value_and_gradients

from tfvn.distributions import sums_over_weights as sums


def positive(*shape):
    return np.random.default_rng(1).uniform(0.2, 2.0, shape).astype("float32")


def plain_sum(x):
    return tf.reduce_sum(tf.cast(x, tf.float64))


def products(left, right):
    return tf.matmul(left, right, transpose_b=True)


def with_exponentials(use):
    """Returns a function of known exponentials, and the same one of plain ones."""

    def plain(x):
        exp_x = tf.exp(x)
        return use(sums.Exponentials(exp_x, plain_sum(exp_x), plain_sum(x)))

    return lambda x: use(sums.exponentials(x)), plain


X, LEFT, RIGHT = positive(5, 3), positive(5, 2), positive(3, 2)
# Name -> (the sum, the same without gradients of its own, arguments).
SUMS = {
    "squares": (sums.sum_of_squares, lambda x: plain_sum(tf.square(x)), [X]),
    "squares, quick": (
        sums.quick_sum_of_squares,
        lambda x: plain_sum(tf.square(x)),
        [X],
    ),
    "logs": (sums.sum_of_logs, lambda x: plain_sum(tf.math.log(x)), [X]),
    "logs of products": (
        sums.sum_of_logs_of_products,
        lambda left, right: plain_sum(tf.math.log(products(left, right))),
        [LEFT, RIGHT],
    ),
    "sums of exponentials": (
        lambda x: tf.reduce_sum(tf.stack(sums.sums_of_exponentials(x)) * [3.0, 0.5]),
        lambda x: 3.0 * plain_sum(tf.exp(x)) + 0.5 * plain_sum(x),
        [X],
    ),
    "exponentials, all": (
        *with_exponentials(
            lambda e: 3.0 * e.sum - e.sum_of_exponents + plain_sum(tf.square(e.each))
        ),
        [X],
    ),
    "exponentials, each": (
        *with_exponentials(lambda e: plain_sum(tf.square(e.each))),
        [X],
    ),
    "exponentials, sum": (*with_exponentials(lambda e: 3.0 * e.sum), [X]),
    "exponentials, exponents": (
        *with_exponentials(lambda e: 3.0 * e.sum_of_exponents),
        [X],
    ),
}


@pytest.mark.parametrize("jit_compile", [None, True])
@pytest.mark.parametrize("name", SUMS)
def test_values_and_gradients(name, jit_compile):
    function, plain, arguments = SUMS[name]
    value, slopes = value_and_gradients(function, *arguments, jit_compile=jit_compile)
    expected, references = value_and_gradients(plain, *arguments)
    np.testing.assert_allclose(value, expected, rtol=1e-6)
    for slope, reference in zip(slopes, references, strict=True):
        np.testing.assert_allclose(slope, reference, rtol=1e-5)


@pytest.mark.parametrize("shape", [(), (7,), (2, 3, 4)])
def test_any_rank(shape):
    x = positive(*shape)
    exact = x.astype("float64")
    assert float(sums.sum_of_squares(x)) == pytest.approx(np.sum(exact**2), rel=1e-6)
    assert float(sums.sum_of_logs(x)) == pytest.approx(np.sum(np.log(exact)), rel=1e-5)
    known = sums.exponentials(x)
    assert float(known.sum) == pytest.approx(np.sum(np.exp(exact)), rel=1e-6)
    assert float(known.sum_of_exponents) == pytest.approx(np.sum(exact), rel=1e-6)


@pytest.mark.parametrize("jit_compile", [None, True])
def test_are_exact_where_divergences_cancel(jit_compile):
    # Of a million weights just off their prior, whose KL is 0.25 nats.
    rng = np.random.default_rng(2)
    log_variance = rng.normal(0.0, 1e-3, (2000, 500)).astype("float32")

    @tf.function(jit_compile=jit_compile)
    def divergence(x):
        variances = sums.exponentials(x)
        size = tf.cast(tf.size(x), tf.float64)
        return 0.5 * (variances.sum - size - variances.sum_of_exponents)

    exponents = log_variance.astype("float64")
    exact = 0.5 * np.sum(np.expm1(exponents) - exponents)
    assert float(divergence(tf.constant(log_variance))) == pytest.approx(exact, abs=0.1)
