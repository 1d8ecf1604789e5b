"""Estimated divergences against quadrature."""

import numpy as np
import pytest
import tensorflow as tf
from kl_references import (
    exact_reference,
    gaussian,
    quadrature,
    two_normals,
    uniform,
)
from scipy import special
from tensorflow_probability import distributions as tfd
from ztests import assert_mean

import tfvn
from tfvn.distributions import (
    LogUniform,
    SpikeAndSlab,
    ZeroMeanUniform,
)

# What KL(q || LogUniform) leaves out, from E[log|w|] in closed form.
GAUSSIAN_CONSTANT = 0.5 * (special.digamma(0.5) - np.log(np.pi * np.e))
UNIFORM_CONSTANT = -(1.0 + np.log(2.0))


# Priors without a closed form, for any floating-point type.
ANY = {
    "student_t": lambda t: tfd.StudentT(t(3.0), t(0.1), t(0.5)),
    "laplace": lambda t: tfd.Laplace(t(0.0), t(0.4)),
    "horseshoe": lambda t: tfd.Horseshoe(t(0.5)),
    "spike_and_slab": lambda t: (
        SpikeAndSlab(0.7, 0.05) if t is np.float32 else two_normals(0.7, 0.05)
    ),
    "cauchy": lambda t: tfd.Cauchy(t(0.0), t(0.3)),
    "mixture": lambda t: tfd.MixtureSameFamily(
        tfd.Categorical(probs=t([0.3, 0.7])), tfd.Normal(t([0.0, 0.5]), t([0.1, 2.0]))
    ),
}


class TestMonteCarlo:
    """Every pair of the table that is estimated is estimated without bias."""

    MEAN, SCALE = 0.3, 0.6

    def make_layer(self, posterior, **kwargs):
        """A layer of equal weights: each is one more draw of the same estimate."""
        layer = tfvn.layers.Dense(
            50, posterior=posterior, use_bias=False, kl_weight=1.0, seed=3, **kwargs
        )
        layer.build((None, 40))
        parameters = layer.posterior
        if posterior == "mean_field":
            parameters.mean_variable.assign(np.full((40, 50), self.MEAN))
            parameters.log_variance_variable.assign(
                np.full((40, 50), 2 * np.log(self.SCALE))
            )
        else:
            parameters.scale.assign(np.full((40, 50), self.SCALE))
        return layer

    def estimate(self, layer):
        """Returns many estimates of the KL of one weight."""
        return np.array([layer.kl_divergence().numpy() for _ in range(60)]) / 2_000

    def expected(self, posterior, prior):
        if posterior == "mean_field":
            q, bounds = gaussian(self.MEAN, self.SCALE)
        elif posterior.law == "gaussian":
            q, bounds = gaussian(0.0, self.SCALE)
        else:
            q, bounds = uniform(self.SCALE)
        return quadrature(q, prior, bounds)

    @pytest.mark.one_in(5)
    @pytest.mark.parametrize("prior", ANY)
    @pytest.mark.parametrize(
        "posterior",
        [
            "mean_field",
            tfvn.posteriors.Variance("gaussian"),
            tfvn.posteriors.Variance("uniform"),
        ],
        ids=["mean_field", "variance-gaussian", "variance-uniform"],
    )
    def test_any_distribution(self, posterior, prior):
        layer = self.make_layer(posterior, prior=ANY[prior](np.float32))
        estimates = self.estimate(layer)
        expected = self.expected(posterior, ANY[prior](np.float64))
        assert_mean(estimates, expected)

    @pytest.mark.parametrize("estimator", ["local", "weights"])
    def test_loss_is_the_estimate(self, estimator):
        prior = "student_t"
        layer = self.make_layer(
            "mean_field", prior=ANY[prior](np.float32), estimator=estimator
        )
        losses = []
        for _ in range(60):
            layer(np.ones((1, 40), "float32"))
            (loss,) = layer.losses
            losses.append(loss.numpy())
        expected = self.expected("mean_field", ANY[prior](np.float64))
        assert_mean(np.array(losses) / 2_000, expected)

    @pytest.mark.parametrize("kl", ["exact", "molchanov"])
    def test_log_uniform_agrees_with_the_closed_form(self, kl):
        analytic = self.make_layer("mean_field", prior=LogUniform(kl))
        estimated = self.make_layer(
            "mean_field", prior=LogUniform(kl), kl_method="monte_carlo"
        )
        expected = exact_reference(0.5 * (self.MEAN / self.SCALE) ** 2)
        tolerance = {"exact": 1e-5, "molchanov": 0.1}[kl]
        assert analytic.kl_divergence().numpy() == pytest.approx(
            2_000 * expected, rel=tolerance
        )
        estimates = self.estimate(estimated)
        assert_mean(estimates, expected)

    def test_uniform_to_log_uniform_leaves_out_the_same_constant(self):
        q = ZeroMeanUniform(tf.fill([50_000], 0.3))
        weights = q.sample(seed=(1, 2))
        assert_mean(tfvn.kl.monte_carlo(q, LogUniform(), weights).numpy(), 0.0)

    def test_normal_agrees_with_the_closed_form(self):
        layer = self.make_layer(
            "mean_field", prior=tfd.Normal(0.2, 0.7), kl_method="monte_carlo"
        )
        estimates = self.estimate(layer)
        p = tfd.Normal(np.float64(0.2), np.float64(0.7))
        assert_mean(estimates, self.expected("mean_field", p))

    def test_gradient_is_unbiased(self):
        layer = self.make_layer(
            "mean_field", prior=ANY["laplace"](np.float32), kl_method="monte_carlo"
        )
        means = layer.posterior.mean_variable
        gradients = []
        for _ in range(30):
            with tf.GradientTape() as tape:
                divergence = layer.kl_divergence()
            gradients.append(tape.gradient(divergence, means.value).numpy())
        step = 1e-4
        above, below = (
            quadrature(q, ANY["laplace"](np.float64), bounds)
            for q, bounds in (
                gaussian(self.MEAN + sign * step, self.SCALE) for sign in (1, -1)
            )
        )
        assert_mean(np.ravel(gradients), (above - below) / (2 * step), rounding=1e-3)

    def test_a_wrong_sign_fails(self):
        layer = self.make_layer(
            "mean_field", prior=ANY["laplace"](np.float32), kl_method="monte_carlo"
        )
        estimates = -self.estimate(layer)
        with pytest.raises(AssertionError, match="The mean of element"):
            assert_mean(
                estimates, self.expected("mean_field", ANY["laplace"](np.float64))
            )
