"""Closed forms of divergences against quadrature."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from kl_references import (
    exact_reference,
    gaussian,
    quadrature,
    uniform,
    value_and_gradients,
)
from scipy import special
from tensorflow_probability import distributions as tfd
from ztests import assert_mean

import tfvn
from tfvn import support
from tfvn.distributions import (
    ARD,
    DiminishingStudentT,
    KTiedNormal,
    LogUniform,
    LogVarianceNormal,
    MultiplicativeNormal,
    ZeroMeanNormal,
    ZeroMeanUniform,
)
from tfvn.distributions.sums_over_weights import exponentials
from tfvn.kl import log_uniform_molchanov

# What KL(q || LogUniform) leaves out, from E[log|w|] in closed form.
GAUSSIAN_CONSTANT = 0.5 * (special.digamma(0.5) - np.log(np.pi * np.e))
UNIFORM_CONSTANT = -(1.0 + np.log(2.0))


class TestClosedForms:
    """Every pair of the table that is not estimated."""

    @pytest.mark.parametrize(
        ("mean", "scale"), [(0.0, 1.0), (0.3, 0.05), (-1.5, 2.0), (2.0, 0.1)]
    )
    def test_gaussian_to_normal(self, mean, scale):
        q, bounds = gaussian(mean, scale)
        p = tfd.Normal(np.float64(0.2), np.float64(0.7))
        expected = quadrature(q, p, bounds)
        assert float(tfd.kl_divergence(q, p)) == pytest.approx(expected, rel=1e-6)

    @pytest.mark.parametrize(
        ("mean", "scale"), [(0.0, 1.0), (0.3, 0.05), (-1.5, 2.0), (2.0, 0.7)]
    )
    def test_gaussian_to_log_uniform(self, mean, scale):
        q, bounds = gaussian(mean, scale)
        p = LogUniform(dtype=tf.float64)
        expected = quadrature(q, p, bounds) - GAUSSIAN_CONSTANT
        divergence = float(tfd.kl_divergence(q, p))
        assert divergence == pytest.approx(expected, rel=1e-5, abs=1e-7)

    @pytest.mark.parametrize(
        ("mean", "scale"), [(0.0, 1.0), (0.3, 0.05), (-1.5, 2.0), (2.0, 0.1)]
    )
    def test_gaussian_to_ard(self, mean, scale):
        q, bounds = gaussian(mean, scale)
        best = tfd.Normal(np.float64(0.0), np.hypot(mean, scale))
        divergence = float(tfd.kl_divergence(q, ARD(dtype=tf.float64)))
        assert divergence == pytest.approx(0.5 * np.log1p((mean / scale) ** 2))
        assert divergence == pytest.approx(quadrature(q, best, bounds), abs=1e-6)

    @pytest.mark.parametrize("scale", [0.02, 0.5, 3.0])
    def test_uniform_to_normal(self, scale):
        q, bounds = uniform(scale)
        p = tfd.Normal(np.float64(0.2), np.float64(0.7))
        expected = quadrature(q, p, bounds)
        assert float(tfd.kl_divergence(q, p)) == pytest.approx(expected, rel=1e-6)

    def test_uniform_that_is_not_centred_to_normal(self):
        q = tfd.Uniform(np.float64(-0.3), np.float64(1.1))
        p = tfd.Normal(np.float64(0.2), np.float64(0.7))
        expected = quadrature(q, p, (-0.3, 1.1))
        assert float(tfd.kl_divergence(q, p)) == pytest.approx(expected, rel=1e-6)

    @pytest.mark.parametrize("scale", [0.02, 0.5, 3.0])
    def test_uniform_to_log_uniform(self, scale):
        q, bounds = uniform(scale)
        p = LogUniform(dtype=tf.float64)
        true_divergence = quadrature(q, p, bounds)
        assert true_divergence == pytest.approx(UNIFORM_CONSTANT, abs=1e-6)
        assert float(tfd.kl_divergence(q, p)) == 0.0

    @pytest.mark.parametrize("prior", [LogUniform(), LogUniform("molchanov"), ARD()])
    def test_zero_mean_is_constant(self, prior):
        scale = tf.constant([[1e-12, 0.1, 1e10]])
        value, (gradient,) = value_and_gradients(
            lambda s: tfd.kl_divergence(ZeroMeanNormal(s), prior) + 0.0 * s, scale
        )
        np.testing.assert_array_equal(value, np.zeros((1, 3)))
        np.testing.assert_array_equal(gradient, np.zeros((1, 3)))

    @pytest.mark.parametrize("jit_compile", [None, True])
    @pytest.mark.parametrize(
        "prior", [LogUniform(), LogUniform("molchanov"), ARD(), tfd.Normal(0.0, 1.0)]
    )
    def test_extreme_values_stay_finite(self, prior, jit_compile):
        mean, scale = np.meshgrid(
            np.float32([0.0, 1e-30, -1.0, 1e10]), np.float32([1e-12, 1.0, 1e10])
        )
        value, gradients = value_and_gradients(
            lambda m, s: tfd.kl_divergence(tfd.Normal(m, s), prior),
            mean,
            scale,
            jit_compile=jit_compile,
        )
        assert np.all(np.isfinite(value))
        assert all(np.all(np.isfinite(gradient)) for gradient in gradients)

    @settings(deadline=None, max_examples=200, derandomize=True)
    @given(
        mean=st.floats(-1e10, 1e10, width=32),
        scale=st.floats(1e-12, 1e10),
        prior=st.sampled_from(
            [LogUniform(), LogUniform("molchanov"), ARD(), tfd.Normal(0.5, 0.3)]
        ),
    )
    def test_is_never_negative(self, mean, scale, prior):
        q = tfd.Normal(np.float32(mean), np.float32(scale))
        divergence = float(tfd.kl_divergence(q, prior))
        # A difference of terms of size 1 can round below zero.
        assert divergence >= -1e-6
        assert np.isfinite(divergence)


class TestLaplace:
    @pytest.mark.parametrize("loc", [0.0, 0.3])
    @pytest.mark.parametrize(
        ("mean", "scale"), [(0.0, 1.0), (0.3, 0.05), (-1.5, 2.0), (2.0, 0.1)]
    )
    def test_closed_form_against_quadrature(self, mean, scale, loc):
        q, _ = gaussian(mean, scale)
        p = tfd.Laplace(np.float64(loc), np.float64(0.4))
        # Moved to where the kink is, around which panels shrink.
        moved, bounds = gaussian(mean - loc, scale)
        expected = quadrature(moved, tfd.Laplace(np.float64(0.0), p.scale), bounds)
        assert float(tfd.kl_divergence(q, p)) == pytest.approx(expected, rel=1e-6)

    def test_extreme_values_stay_finite(self):
        mean, scale = np.meshgrid(
            np.float32([0.0, 1e-30, -1.0, 1e10]), np.float32([1e-12, 1.0, 1e10])
        )
        value, gradients = value_and_gradients(
            lambda m, s: tfd.kl_divergence(tfd.Normal(m, s), tfd.Laplace(0.0, 1.0)),
            mean,
            scale,
        )
        assert np.all(np.isfinite(value))
        assert all(np.all(np.isfinite(gradient)) for gradient in gradients)


ALPHA_SHAPES = {"layer": (), "neuron": (1, 3), "weight": (4, 3)}


class TestMultiplicativeNormal:
    """Weights that share an alpha, against the sum over the weights."""

    LOG_ALPHA = np.linspace(np.log(1e-8), np.log(1e8), 12)

    def alphas(self, granularity):
        shape = ALPHA_SHAPES[granularity]
        return np.resize(self.LOG_ALPHA[2:], shape).astype("float32")

    @pytest.mark.parametrize("granularity", ALPHA_SHAPES)
    @pytest.mark.parametrize("prior", ["exact", "molchanov", "ard"])
    def test_sum_over_the_weights(self, prior, granularity):
        log_alpha = self.alphas(granularity)
        # Not of the means, even where they are zero.
        mean = np.linspace(-1.0, 2.0, 12).reshape(4, 3).astype("float32")
        mean[0, 1] = 0.0
        each = np.broadcast_to(log_alpha, (4, 3)).ravel().astype("float64")
        p = ARD() if prior == "ard" else LogUniform(prior)
        if prior == "ard":
            expected = 0.5 * np.sum(np.log1p(np.exp(-each)))
        elif prior == "exact":
            expected = sum(exact_reference(0.5 * np.exp(-x)) for x in each)
        else:
            expected = float(tf.reduce_sum(log_uniform_molchanov(each)))
        q = MultiplicativeNormal(mean, log_alpha)
        assert float(tfvn.kl.total(q, p)) == pytest.approx(expected, rel=1e-5)
        assert tfd.kl_divergence(q, p).shape == (4, 3)

    @pytest.mark.parametrize("prior", [LogUniform(), LogUniform("molchanov"), ARD()])
    def test_stays_finite_from_1e_minus_8_to_1e8(self, prior):
        value, (gradient,) = value_and_gradients(
            lambda a: tfd.kl_divergence(
                MultiplicativeNormal(tf.ones_like(a), a), prior
            ),
            self.LOG_ALPHA,
        )
        assert np.all(np.isfinite(value))
        assert np.all(value >= 0)
        assert np.all(np.diff(value) < 0)
        assert np.all(np.isfinite(gradient))
        assert np.all(gradient <= 0)
        # At 1e-8, 0.5 (log 2 + gamma - log alpha) and half a nat per unit of log alpha.
        np.testing.assert_allclose(gradient[0], -0.5, rtol=1e-3)

    @pytest.mark.parametrize("alpha", ["layer", "neuron", "weight"])
    @pytest.mark.parametrize("log_alpha", [-1e4, np.log(1e-8), np.log(1e8), 1e4])
    def test_layers_stay_finite(self, alpha, log_alpha):
        layer = tfvn.GaussianDropoutDense(3, alpha=alpha, kl_weight=1.0)
        layer.build((None, 4))
        (variable,) = layer.variable_groups["scale"]
        variable.assign(np.full(variable.shape, log_alpha))
        with tf.GradientTape() as tape:
            outputs = layer(np.ones((2, 4), "float32"))
            loss = tf.reduce_sum(outputs) + sum(layer.losses)
        variables = [v.value for v in layer.trainable_variables]
        assert np.all(np.isfinite(outputs))
        assert np.isfinite(loss)
        for gradient in tape.gradient(loss, variables):
            assert np.all(np.isfinite(gradient))

    def test_updates_keep_alpha_in_its_range(self):
        layer = tfvn.GaussianDropoutDense(3, initial_log_alpha=18.0, kl_weight=1.0)
        layer.build((None, 4))
        (variable,) = layer.variable_groups["scale"]
        keras.optimizers.SGD(1.0).apply([tf.constant(-50.0)], [variable])
        assert float(variable.numpy()) == pytest.approx(np.log(1e8), rel=1e-6)


def scattered(*shape, low=0.05, high=1.5):
    return np.random.default_rng(4).uniform(low, high, shape).astype("float32")


GAUSSIANS = {
    "normal": lambda: tfd.Normal(scattered(4, 3, low=-1.0), scattered(4, 3)),
    "zero_mean": lambda: ZeroMeanNormal(scattered(4, 3)),
    "log_variance": lambda: LogVarianceNormal(
        scattered(4, 3, low=-1.0), scattered(4, 3, low=-3.0)
    ),
    "multiplicative": lambda: MultiplicativeNormal(
        scattered(4, 3), scattered(1, 3, low=-3.0)
    ),
    "k_tied": lambda: KTiedNormal(
        scattered(4, 3, low=-1.0), scattered(4, 2), scattered(3, 2)
    ),
    "uniform": lambda: ZeroMeanUniform(scattered(4, 3)),
}
CLOSED = {
    "normal": tfd.Normal(0.2, 0.7),
    "normal-per-weight": tfd.Normal(0.2, scattered(4, 3)),
    "laplace": tfd.Laplace(0.1, 0.7),
    "log_uniform": LogUniform(),
    "molchanov": LogUniform("molchanov"),
    "ard": ARD(),
}


@pytest.mark.parametrize("prior", CLOSED)
@pytest.mark.parametrize("law", GAUSSIANS)
def test_total_is_the_sum_over_the_weights(law, prior):
    if law == "uniform" and prior in ("ard", "laplace"):
        pytest.skip("There is no closed form.")
    q, p = GAUSSIANS[law](), CLOSED[prior]
    each = tfd.kl_divergence(q, p)
    assert each.shape == (4, 3)
    expected = float(tf.reduce_sum(tf.cast(each, tf.float64)))
    assert float(tfvn.kl.total(q, p)) == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_total_of_a_copy_does_not_have_the_sums_of_the_original():
    prior, mean = tfd.Normal(0.2, 0.7), scattered(4, 3)
    old, new = (scattered(4, 3, low=low) for low in (-3.0, -1.0))
    original = LogVarianceNormal(mean, old, exponentials(tf.constant(old)))
    expected = tf.reduce_sum(
        tfd.kl_divergence(tfd.Normal(mean, tf.exp(0.5 * new)), prior)
    )
    found = tfvn.kl.total(original.copy(log_variance=new), prior)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("law", [LogVarianceNormal, tfd.Normal])
@pytest.mark.parametrize("jit_compile", [None, True])
def test_total_has_the_gradients_of_the_sum(law, jit_compile):
    prior = tfd.Normal(0.2, 0.7)
    mean, second = scattered(4, 3), scattered(4, 3) + 0.1

    def total(mean, second):
        return tfvn.kl.total(law(mean, second), prior)

    def plain(mean, second):
        scale = tf.exp(0.5 * second) if law is LogVarianceNormal else second
        return tf.reduce_sum(tfd.kl_divergence(tfd.Normal(mean, scale), prior))

    value, slopes = value_and_gradients(total, mean, second, jit_compile=jit_compile)
    expected, references = value_and_gradients(plain, mean, second)
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    for slope, reference in zip(slopes, references, strict=True):
        np.testing.assert_allclose(slope, reference, rtol=1e-4, atol=1e-5)


def test_total_takes_variables_of_a_strategy(two_replicas):
    mean, scale = np.float32([[0.3, -0.2]]), np.float32([[0.5, 0.1]])
    prior = tfd.Normal(0.1, 0.7)
    with two_replicas.scope():
        variables = [tf.Variable(mean), tf.Variable(scale)]
    expected, slopes = value_and_gradients(
        lambda m, s: tf.reduce_sum(tfd.kl_divergence(tfd.Normal(m, s), prior)),
        mean,
        scale,
    )
    with tf.GradientTape() as tape:
        total = tfvn.kl.total(tfd.Normal(*variables), prior)
    np.testing.assert_allclose(total, expected, rtol=1e-5)
    for gradient, slope in zip(tape.gradient(total, variables), slopes, strict=True):
        np.testing.assert_allclose(gradient, slope, rtol=1e-5)


def test_diminishing_student_t_is_log_uniform_up_to_a_constant():
    w = np.float32([1e-3, -0.02, 0.5, 30.0])
    student_t, log_uniform = DiminishingStudentT(), LogUniform()
    difference = student_t.log_prob(w) - log_uniform.log_prob(w)
    np.testing.assert_allclose(difference, difference[0], atol=1e-5)
    # What is left out is TFP's normaliser.
    complete = tfd.StudentT(np.float64(1e-16), np.float64(0.0), np.float64(1.0))
    left_out = student_t.log_prob(w) - complete.log_prob(w.astype("float64")).numpy()
    np.testing.assert_allclose(left_out, left_out[0], atol=1e-4)
    # The gradients of the estimate are those of the log-uniform prior.
    q, bounds = gaussian(0.7, 0.4)
    p = LogUniform(dtype=tf.float64)
    sample = np.random.default_rng(1).normal(0.7, 0.4, 50_000).astype("float32")
    q32 = tfd.Normal(np.float32(0.7), np.float32(0.4))
    estimates = tfvn.kl.monte_carlo(q32, student_t, sample).numpy()
    assert_mean(estimates, quadrature(q, p, bounds))


def test_every_supported_pair_is_tested_above():
    # A new row or law should not come without its own comparison.
    assert set(support.PRIORS) == {
        *("normal", "log_uniform", "ard", "laplace", "student_t", "horseshoe"),
        *("spike_and_slab", "any", "none"),
    }
