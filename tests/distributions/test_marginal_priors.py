"""The priors that multiplicative noise induces on a weight."""

import itertools
import json

import mpmath
import numpy as np
import pytest
import tensorflow as tf
from noise_law_cases import COUNT, LAWS, with_each_law
from scipy import integrate, stats
from tensorflow_probability import distributions as tfd
from ztests import FAILURE, assert_follows, assert_moments

from tfvn.distributions import (
    ExactHorseshoe,
    GeneralizedHyperbolic,
    ScaleMixture,
    SpikeAndSlab,
    deserialize,
    marginal_prior,
    noise_law,
    serialize,
)

SCALE = 0.7
POINTS = np.float32([-2.0, 1e-3, 0.4, 3.0])


def mix(law, function, points):
    """Returns `E[function(point, xi)]`, by adaptive quadrature in log|xi|."""

    def integrand(t, point):
        xi = np.exp(t)
        return function(point, xi) * (law.pdf(xi) + law.pdf(-xi)) * xi

    borders = [-30, -8, -3, -0.1, 0, 0.1, np.log(2), 3, 8, 30]
    return [
        sum(
            integrate.quad(integrand, a, b, args=(point,), epsabs=1e-12)[0]
            for a, b in itertools.pairwise(borders)
        )
        for point in points
    ]


class TestMarginalPrior:
    @with_each_law
    def test_product_follows_it(self, name):
        law, reference, kind = LAWS[name]
        prior = marginal_prior(law, SCALE)
        assert type(prior) is kind
        generator = np.random.default_rng(1)
        noise = law.sample(COUNT, seed=(1, 2)).numpy()
        assert_follows(noise, reference)
        product = noise * generator.normal(scale=SCALE, size=COUNT)
        result = stats.kstest(product, lambda x: prior.cdf(np.float32(x)).numpy())
        assert result.pvalue > FAILURE

    @with_each_law
    def test_samples(self, name):
        law, _, _ = LAWS[name]
        prior = marginal_prior(law, SCALE)
        samples = prior.sample(COUNT, seed=(3, 4)).numpy()
        generator = np.random.default_rng(2)
        noise = law.sample(COUNT, seed=(5, 6)).numpy()
        product = noise * generator.normal(scale=SCALE, size=COUNT)
        assert stats.ks_2samp(samples, product).pvalue > FAILURE

    @with_each_law
    def test_cdf(self, name):
        law, reference, _ = LAWS[name]
        expected = mix(
            reference, lambda w, xi: stats.norm.cdf(w / (SCALE * xi)), POINTS
        )
        prior = marginal_prior(law, SCALE)
        np.testing.assert_allclose(prior.cdf(POINTS), expected, atol=2e-6)
        np.testing.assert_allclose(prior.cdf(0.0), 0.5, atol=1e-6)

    @with_each_law
    def test_log_prob(self, name):
        law, reference, _ = LAWS[name]
        expected = np.log(
            mix(
                reference,
                lambda w, xi: stats.norm.pdf(w / (SCALE * xi)) / (SCALE * xi),
                POINTS,
            )
        )
        prior = marginal_prior(law, SCALE)
        np.testing.assert_allclose(prior.log_prob(POINTS), expected, atol=1e-5)

    @pytest.mark.parametrize("name", ["gaussian", "zero-mean gaussian", "half_cauchy"])
    def test_under_xla_and_its_gradient(self, name):
        prior = marginal_prior(LAWS[name][0], SCALE)

        def slope(points):
            with tf.GradientTape() as tape:
                tape.watch(points)
                value = prior.log_prob(points)
            return value, tape.gradient(value, points)

        points = tf.constant(POINTS)
        value, gradient = slope(points)
        compiled = tf.function(slope, jit_compile=True)(points)
        np.testing.assert_allclose(value, compiled[0], atol=1e-5)
        np.testing.assert_allclose(gradient, compiled[1], rtol=1e-3)
        step = np.float32(1e-2) * np.abs(POINTS)  # of densities that have a pole
        rise = prior.log_prob(POINTS + step) - prior.log_prob(POINTS - step)
        np.testing.assert_allclose(gradient, rise / (2 * step), rtol=2e-2)
        np.testing.assert_allclose(
            tf.function(prior.cdf)(points), prior.cdf(points), atol=1e-6
        )

    @with_each_law
    def test_is_saved(self, name):
        for law in (LAWS[name][0], marginal_prior(LAWS[name][0], SCALE)):
            config = json.loads(json.dumps(serialize(law)))
            again = deserialize(config)
            assert type(again) is type(law)
            np.testing.assert_array_equal(again.log_prob(0.3), law.log_prob(0.3))

    def test_bernoulli(self):
        prior = marginal_prior(noise_law("bernoulli", keep_probability=0.3), SCALE)
        assert type(prior) is SpikeAndSlab
        generator = np.random.default_rng(0)
        product = generator.binomial(1, 0.3, COUNT) * generator.normal(
            scale=SCALE, size=COUNT
        )
        for samples in (product, prior.sample(COUNT, seed=(1, 2)).numpy()):
            zeros = int(np.sum(samples == 0))
            assert stats.binomtest(zeros, COUNT, 0.7).pvalue > FAILURE
            assert_follows(samples[samples != 0], stats.norm(0, SCALE))
            assert_moments(samples, 0.0, 0.3 * SCALE**2)
        np.testing.assert_allclose(prior.variance(), 0.3 * SCALE**2, rtol=1e-6)
        points = np.float32([-1.0, -1e-6, 0.0, 0.5])
        slab = stats.norm(0, SCALE)
        np.testing.assert_allclose(
            prior.cdf(points), 0.3 * slab.cdf(points) + 0.7 * (points >= 0), rtol=1e-5
        )
        np.testing.assert_allclose(prior.log_prob(0.0), np.log(0.7), rtol=1e-6)
        np.testing.assert_allclose(
            prior.log_prob(0.5), np.log(0.3 * slab.pdf(0.5)), rtol=1e-5
        )

    def test_horseshoe_is_more_exact_than_that_of_tfp(self):
        points = np.float32([0.05, 0.5, 2.0])
        expected = mix(stats.halfcauchy(), lambda w, x: stats.norm.pdf(w, 0, x), points)
        ours, peers = (
            np.abs(law.log_prob(points) - np.log(expected))
            for law in (ExactHorseshoe(1.0), tfd.Horseshoe(1.0))
        )
        assert ours.max() < 2e-6
        assert peers.max() > 1e-4

    @pytest.mark.parametrize("value", [1e-10, 1e-3, 50.0, 1e4, 1e7])
    def test_horseshoe_far_out(self, value):
        t = mpmath.mpf(float(np.float32(value))) ** 2 / 2
        scaled = mpmath.exp(t) * mpmath.e1(t) if t < 1e4 else 1 / t - 1 / t**2
        expected = float(mpmath.log(scaled / mpmath.sqrt(2 * mpmath.pi**3)))
        measured = ExactHorseshoe(1.0).log_prob(np.float32(value))
        np.testing.assert_allclose(measured, expected, rtol=1e-6, atol=1e-6)

    @pytest.mark.parametrize("concentration", [0.5, 1.0, 2.5])
    def test_generalized_hyperbolic(self, concentration):
        law = GeneralizedHyperbolic(np.float32([0.5, 2.0]), concentration)
        assert law.batch_shape == (2,)
        samples = law.sample(COUNT, seed=(1, 2)).numpy()
        assert_moments(samples, np.zeros(2), 2 * concentration * np.square([0.5, 2.0]))
        np.testing.assert_allclose(law.variance(), samples.var(0), rtol=0.1)
        chi = stats.chi(2 * concentration)
        expected = mix(chi, lambda w, x: stats.norm.pdf(w, 0, 2 * x), POINTS)
        measured = law.log_prob(POINTS[:, np.newaxis])[:, 1]
        np.testing.assert_allclose(measured, np.log(expected), atol=1e-5)
        if concentration == 1.0:
            laplace = tfd.Laplace(0.0, 2.0).log_prob(POINTS)
            np.testing.assert_allclose(measured, laplace, atol=1e-5)

    def test_generalized_hyperbolic_of_several_concentrations(self):
        law = GeneralizedHyperbolic(2.0, np.float32([0.5, 1.0]))
        expected = [GeneralizedHyperbolic(2.0, c).log_prob(0.4) for c in (0.5, 1.0)]
        np.testing.assert_allclose(law.log_prob(0.4), expected, rtol=1e-5)
        with pytest.raises(NotImplementedError, match="for a single concentration"):
            law.cdf(0.4)

    @pytest.mark.parametrize(
        ("concentration", "dtype"), [(0.2, "float32"), (0.05, "float64")]
    )
    def test_mass_near_zero(self, concentration, dtype):
        prior = marginal_prior(tfd.Gamma(np.asarray(concentration, dtype), 1.0))
        small = np.asarray(1e-6, dtype)
        inside = float(prior.cdf(small) - prior.cdf(-small))
        samples = prior.sample(COUNT, seed=(1, 2)).numpy()
        count = int(np.sum(np.abs(samples) < small))
        assert stats.binomtest(count, COUNT, inside).pvalue > FAILURE

    @pytest.mark.parametrize(
        ("noise", "mean_square"),
        [(tfd.Gamma(3.0, 2.0), 3.0), (tfd.Normal(-1.5, 0.5), 2.5)],
    )
    def test_variance_of_a_mixture(self, noise, mean_square):
        prior = marginal_prior(noise, scale=0.5)
        assert isinstance(prior, ScaleMixture)
        assert float(prior.variance()) == pytest.approx(0.25 * mean_square, rel=1e-6)

    def test_mass_out_of_reach(self):
        prior = marginal_prior(tfd.Gamma(0.05, 1.0))
        with pytest.raises(ValueError, match=r"must lie between.*probability of 0\.98"):
            prior.cdf(0.0)

    def test_pole_is_no_nan(self):
        for prior in (GeneralizedHyperbolic(1.0), ExactHorseshoe(1.0)):
            zero = tf.zeros(())
            with tf.GradientTape() as tape:
                tape.watch(zero)
                value = prior.log_prob(zero)
            assert prior.log_prob(1e-4) < value < np.inf
            assert np.isfinite(tape.gradient(value, zero))
        limit = GeneralizedHyperbolic(2.0, 1.0).log_prob(0.0)
        np.testing.assert_allclose(limit, np.log(0.25), rtol=1e-5)

    def test_without_variance_is_the_normal(self):
        for law in (
            noise_law("bernoulli", keep_probability=1),
            noise_law("gaussian", stddev=0),
        ):
            prior = marginal_prior(law, SCALE)
            assert isinstance(prior, tfd.Normal)
            assert prior.stddev() == np.float32(SCALE)


class TestErrors:
    @pytest.mark.parametrize("scale", [0.0, -1.0, None])
    def test_scale(self, scale):
        with pytest.raises(
            ValueError, match=r"`scale` must be a finite number greater than 0"
        ):
            marginal_prior("rayleigh", scale)

    def test_always_zero(self):
        with pytest.raises(ValueError, match="always zero"):
            marginal_prior(noise_law("bernoulli", keep_probability=0.0))

    @pytest.mark.parametrize(
        "noise", [tfd.Poisson(1.0), tfd.FiniteDiscrete([0.0, 2.0], probs=[0.5, 0.5])]
    )
    def test_no_density(self, noise):
        with pytest.raises(ValueError, match="with a density, only"):
            marginal_prior(noise)
        if not noise.dtype.is_floating:
            return
        with pytest.raises(ValueError, match="must be a single scalar distribution"):
            ScaleMixture(noise, 1.0)

    def test_spike_wider_than_the_slab(self):
        with pytest.raises(ValueError, match="or 0 for weights that are exactly zero"):
            SpikeAndSlab(1.0, 2.0)
