"""The KL to the log-uniform prior against mpmath."""

import numpy as np
import pytest
import tensorflow as tf
from kl_references import (
    exact_reference,
    gaussian,
    quadrature,
    slope_reference,
    value_and_gradients,
)
from scipy import special
from tensorflow_probability import distributions as tfd

from tfvn.distributions import (
    LogUniform,
)
from tfvn.kl import log_uniform_exact, log_uniform_molchanov

# What KL(q || LogUniform) leaves out, from E[log|w|] in closed form.
GAUSSIAN_CONSTANT = 0.5 * (special.digamma(0.5) - np.log(np.pi * np.e))
UNIFORM_CONSTANT = -(1.0 + np.log(2.0))


class TestLogUniformExact:
    # Both ends, the places where formulas switch, and everything in between.
    RATIOS = np.sqrt(
        2.0
        * np.concatenate(
            [
                [0.0, 1e-30, 1e-12],
                np.logspace(-8, 6, 150),
                *(c * (1 + np.linspace(-1e-3, 1e-3, 7)) for c in (1e-4, 5.0, 50.0)),
                # Where tfp.math.dawsn changes its formula, |x| = 3.25, 6.25, 1e9.
                *(c**2 * (1 + np.linspace(-1e-3, 1e-3, 7)) for c in (3.25, 6.25)),
            ]
        )
    ).astype("float32")

    @pytest.mark.parametrize("jit_compile", [None, False, True])
    @pytest.mark.parametrize("scale", [1.0, 0.013])
    def test_value_and_gradient(self, scale, jit_compile):
        scale = np.float32(scale)
        mean = self.RATIOS * scale
        u = 0.5 * np.square(mean.astype("float64") / np.float64(scale))
        value, (by_mean, by_scale) = value_and_gradients(
            log_uniform_exact, mean, np.full_like(mean, scale), jit_compile=jit_compile
        )
        slope = slope_reference(u) * mean.astype("float64") / np.float64(scale) ** 2
        reference = [exact_reference(x) for x in u]
        np.testing.assert_allclose(value, reference, rtol=1e-5, atol=1e-35)
        np.testing.assert_allclose(by_mean, slope, rtol=1e-5, atol=1e-35)
        np.testing.assert_allclose(by_scale, -slope * mean / scale, rtol=1e-5)

    @pytest.mark.parametrize("jit_compile", [None, True])
    def test_derivative_by_u_is_one_at_zero(self, jit_compile):
        # u is mean^2 / 2 here, so the second derivative by the mean is du KL = 1.
        def slope(mean):
            with tf.GradientTape() as tape:
                tape.watch(mean)
                value = log_uniform_exact(mean, tf.ones_like(mean))
            return tape.gradient(value, mean)

        _, (second,) = value_and_gradients(slope, [0.0, 1e-6], jit_compile=jit_compile)
        np.testing.assert_allclose(second, 1.0, rtol=1e-5)

    def test_constant_is_the_documented_one(self):
        q, bounds = gaussian(0.7, 0.4)
        prior = LogUniform(dtype=tf.float64)
        expected = quadrature(q, prior, bounds) + 2.0541200
        assert float(log_uniform_exact(0.7, 0.4)) == pytest.approx(expected, abs=1e-6)
        assert pytest.approx(-2.0541200, abs=1e-7) == GAUSSIAN_CONSTANT

    def test_double_precision(self):
        value = log_uniform_exact(np.float64(1.2), np.float64(0.3))
        assert value.dtype == tf.float64
        assert float(value) == pytest.approx(exact_reference(8.0), rel=1e-6)


class TestLogUniformMolchanov:
    LOG_ALPHA = np.linspace(-12, 12, 481)

    def test_error_against_exact(self):
        exact = [exact_reference(u) for u in 0.5 * np.exp(-self.LOG_ALPHA)]
        error = np.abs(log_uniform_molchanov(self.LOG_ALPHA) - exact)
        assert error.max() == pytest.approx(0.0094, abs=1e-4)
        assert self.LOG_ALPHA[error.argmax()] == pytest.approx(-3.5, abs=0.1)

    def test_falls_from_large_to_zero(self):
        # edward2 ships this with the sign flipped: rising, and never positive.
        divergence = log_uniform_molchanov(self.LOG_ALPHA).numpy()
        assert np.all(divergence >= 0)
        assert np.all(np.diff(divergence) < 0)
        assert divergence[0] > 6
        assert float(log_uniform_molchanov(80.0)) == pytest.approx(0.0, abs=1e-30)

    def test_is_an_option_of_the_prior(self):
        mean, scale = np.float32([0.0, -0.3, 2.0]), np.float32([0.5, 0.2, 0.1])
        q = tfd.Normal(mean, scale)
        divergence = tfd.kl_divergence(q, LogUniform(kl="molchanov")).numpy()
        with np.errstate(divide="ignore"):
            log_alpha = np.minimum(2 * np.log(scale / np.abs(mean)), 80)
        np.testing.assert_allclose(
            divergence, log_uniform_molchanov(log_alpha), rtol=1e-5, atol=1e-30
        )
        exact = tfd.kl_divergence(q, LogUniform()).numpy()
        assert 1e-4 < np.abs(divergence - exact).max() < 0.0095
