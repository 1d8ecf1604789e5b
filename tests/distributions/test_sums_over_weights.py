"""Sums over the weights, and the gradients that are written down for them."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from kl_references import value_and_gradients

import tfvn
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


# Shapes that one row more or less would divide into blocks of 12 products, ranks, and a
# matrix whose single row is longer than a block.
BLOCKED = [(24, 3, 1), (25, 3, 2), (3, 25, 2), (23, 4, 3), (17, 13, 2), (7, 5, 3)]


@pytest.mark.parametrize("jit_compile", [None, True])
@pytest.mark.parametrize("shape", BLOCKED)
def test_logs_of_products_in_blocks(shape, jit_compile, monkeypatch):
    rows, columns, rank = shape
    factors = positive(rows, rank), positive(columns, rank)
    whole, whole_slopes = value_and_gradients(sums.sum_of_logs_of_products, *factors)
    monkeypatch.setattr(sums, "BLOCK", 12)
    value, slopes = value_and_gradients(
        sums.sum_of_logs_of_products, *factors, jit_compile=jit_compile
    )
    left, right = (factor.astype("float64") for factor in factors)
    inverse = 1.0 / (left @ right.T)
    expected = (inverse @ right, inverse.T @ left)
    assert float(value) == pytest.approx(-np.sum(np.log(inverse)), rel=1e-6)
    np.testing.assert_allclose(value, whole, rtol=1e-6)
    for slope, exact, other in zip(slopes, expected, whole_slopes, strict=True):
        np.testing.assert_allclose(slope, exact, rtol=1e-5)
        np.testing.assert_allclose(slope, other, rtol=1e-5)


@pytest.mark.parametrize("jit_compile", [None, True])
def test_logs_in_blocks_may_be_used_twice(jit_compile, monkeypatch):
    monkeypatch.setattr(sums, "BLOCK", 12)
    left, right = positive(25, 2), positive(3, 2)

    def use(left, right):
        logs = sums.sum_of_logs_of_products(left, right)
        return tf.square(logs) + 2.0 * logs + sums.sum_of_logs_of_products(left, left)

    def plain(left, right):
        logs = plain_sum(tf.math.log(products(left, right)))
        more = plain_sum(tf.math.log(products(left, left)))
        return tf.square(logs) + 2.0 * logs + more

    value, slopes = value_and_gradients(use, left, right, jit_compile=jit_compile)
    expected, references = value_and_gradients(plain, left, right)
    np.testing.assert_allclose(value, expected, rtol=1e-6)
    for slope, reference in zip(slopes, references, strict=True):
        np.testing.assert_allclose(slope, reference, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("in_graph", [False, True])
def test_second_derivatives_of_logs_in_blocks(in_graph, monkeypatch):
    left, right = tf.constant(positive(7, 2)), tf.constant(positive(3, 2))

    def curvature():
        with tf.GradientTape() as outer:
            outer.watch(left)
            with tf.GradientTape() as inner:
                inner.watch(left)
                logs = sums.sum_of_logs_of_products(left, right)
            slope = inner.gradient(logs, left)
        return outer.gradient(slope, left)

    # Of the sum of the slopes: -sum_j r_jk sum_l r_jl / s_ij^2.
    exact = -(
        (1.0 / products(left, right) ** 2) @ (right * tf.reduce_sum(right, 1)[:, None])
    )
    for block in (6, 2**20):
        monkeypatch.setattr(sums, "BLOCK", block)
        found = tf.function(curvature)() if in_graph else curvature()
        np.testing.assert_allclose(found, exact, rtol=1e-4)


def test_a_small_layer_is_one_block_and_a_large_one_a_loop():
    def ops(rows):
        function = tf.function(sums.sum_of_logs_of_products)
        spec = tf.TensorSpec((rows, 2))
        graph = function.get_concrete_function(spec, spec).graph
        return [op for op in graph.get_operations() if op.type.endswith("While")]

    assert not ops(1024)
    (loop,) = ops(1025)
    # No matrix of products enters or leaves the loop.
    sizes = [tensor.shape.num_elements() for tensor in (*loop.inputs, *loop.outputs)]
    assert max(size or 0 for size in sizes) < 4 * 2 * 1025


def test_mixed_precision_layer_in_blocks(monkeypatch):
    x = positive(4, 9)

    def gradients(block):
        monkeypatch.setattr(sums, "BLOCK", block)
        keras.utils.set_random_seed(3)
        layer = tfvn.KTiedDense(7, kl_weight=1.0, dtype="mixed_bfloat16")
        layer.build(x.shape)
        with tf.GradientTape() as tape:
            divergence = layer.kl_divergence()
        return divergence, tape.gradient(divergence, layer.trainable_variables[:3])

    (value, slopes), (expected, references) = gradients(10), gradients(2**20)
    assert value.dtype == tf.float32
    np.testing.assert_allclose(value, expected, rtol=1e-6)
    for slope, reference in zip(slopes, references, strict=True):
        np.testing.assert_allclose(slope, reference, rtol=1e-5)
