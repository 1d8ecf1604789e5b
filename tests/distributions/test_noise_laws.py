"""Laws of multiplicative noise, and the priors that they induce on a weight."""

import itertools
import json

import mpmath
import numpy as np
import pytest
import tensorflow as tf
from scipy import integrate, stats
from tensorflow_probability import distributions as tfd
from ztests import FAILURE, assert_follows, assert_moments

from tfvn.distributions import (
    ExactHorseshoe,
    GeneralizedHyperbolic,
    InverseNakagami,
    Rayleigh,
    ScaleMixture,
    SpikeAndSlab,
    deserialize,
    marginal_prior,
    noise_aliases,
    noise_law,
    register_noise,
    serialize,
)
from tfvn.distributions import noise as noise_laws

SCALE = 0.7
COUNT = 20_000
POINTS = np.float32([-2.0, 1e-3, 0.4, 3.0])


class InverseNakagamiLaw:
    """What SciPy does not have, by its inverse gamma."""

    def __init__(self, m, omega):
        self.square = stats.invgamma(m, scale=m / omega)

    def cdf(self, x):
        return self.square.cdf(np.square(x))

    def pdf(self, x):
        return self.square.pdf(np.square(x)) * 2 * max(x, 0.0)


# Of each law with a density: the law, SciPy's, and the class of its marginal.
LAWS = {
    "gaussian": (noise_law("gaussian"), stats.norm(1, 0.5), ScaleMixture),
    "narrow gaussian": (
        noise_law("gaussian", stddev=0.02),
        stats.norm(1, 0.02),
        ScaleMixture,
    ),
    "wide gaussian": (
        noise_law("gaussian", stddev=2.0),
        stats.norm(1, 2),
        ScaleMixture,
    ),
    "zero-mean gaussian": (
        noise_law("gaussian", mean=0.0, stddev=1.5),
        stats.norm(0, 1.5),
        GeneralizedHyperbolic,
    ),
    "rayleigh": (
        noise_law("rayleigh", scale=1.2),
        stats.rayleigh(scale=1.2),
        tfd.Laplace,
    ),
    "inverse_nakagami": (
        noise_law("inverse_nakagami", concentration=1.5, spread=0.8),
        InverseNakagamiLaw(1.5, 0.8),
        tfd.StudentT,
    ),
    "half_cauchy": (
        noise_law("half_cauchy", scale=0.6),
        stats.halfcauchy(scale=0.6),
        ExactHorseshoe,
    ),
    "gamma": (tfd.Gamma(2.0, 3.0), stats.gamma(2, scale=1 / 3), ScaleMixture),
    "uniform": (tfd.Uniform(0.0, 2.0), stats.uniform(0, 2), ScaleMixture),
}
with_each_law = pytest.mark.parametrize("name", LAWS)


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
        with pytest.raises(NotImplementedError, match="known for one concentration"):
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

    def test_mass_out_of_reach(self):
        prior = marginal_prior(tfd.Gamma(0.05, 1.0))
        with pytest.raises(ValueError, match=r"must find all mass.*mass of 0\.98"):
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


class TestRayleigh:
    def test_against_scipy(self):
        scales = np.float32([0.3, 2.0])
        law, reference = Rayleigh(scales), stats.rayleigh(scale=scales)
        np.testing.assert_allclose(law.mean(), reference.mean(), rtol=1e-6)
        np.testing.assert_allclose(law.variance(), reference.var(), rtol=1e-5)
        points = np.float32([[0.01], [0.5], [3.0]])
        np.testing.assert_allclose(law.cdf(points), reference.cdf(points), rtol=1e-5)
        np.testing.assert_allclose(
            law.log_prob(points), reference.logpdf(points), rtol=1e-5, atol=1e-6
        )
        levels = np.float32([[0.01], [0.5], [0.99]])
        np.testing.assert_allclose(
            law.quantile(levels), reference.ppf(levels), rtol=1e-4
        )
        samples = law.sample(COUNT, seed=(1, 2)).numpy()
        assert_moments(samples, reference.mean(), reference.var())
        assert law.log_prob(-1.0).numpy().tolist() == [-np.inf] * 2
        assert law.cdf(-1.0).numpy().tolist() == [0.0] * 2


class TestInverseNakagami:
    @pytest.mark.parametrize(("m", "omega"), [(0.7, 2.0), (1.5, 0.8), (6.0, 1.0)])
    def test_against_scipy(self, m, omega):
        law, reference = InverseNakagami(m, omega), InverseNakagamiLaw(m, omega)
        points = np.float32([0.3, 1.0, 4.0])
        np.testing.assert_allclose(law.cdf(points), reference.cdf(points), rtol=1e-4)
        np.testing.assert_allclose(
            law.log_prob(points),
            np.log([reference.pdf(point) for point in points]),
            rtol=1e-4,
            atol=1e-5,
        )
        levels = np.float32([0.05, 0.5, 0.95])
        np.testing.assert_allclose(
            reference.cdf(law.quantile(levels)), levels, rtol=1e-3
        )
        samples = law.sample(COUNT, seed=(1, 2)).numpy()
        assert_follows(samples, reference)

    def test_moments(self):
        law = InverseNakagami(np.float32([0.4, 0.7, 3.0, 6.0]), 2.0)
        mean, variance = law.mean().numpy(), law.variance().numpy()
        assert mean[0] == np.inf
        assert list(variance[:2]) == [np.inf, np.inf]
        samples = law.sample(COUNT, seed=(1, 2)).numpy()[:, 2:]
        assert_moments(samples, mean[2:], variance[2:])

    def test_outside_of_the_support(self):
        law = InverseNakagami(2.0)
        assert law.cdf(-1.0) == 0.0
        assert law.cdf(0.0) == 0.0
        for value in (-1.0, 0.0, 1e-30):
            assert law.log_prob(value) == -np.inf

    def test_no_infinite_samples_at_a_small_concentration(self):
        samples = InverseNakagami(0.05).sample(COUNT, seed=(1, 2))
        assert np.all(np.isfinite(tf.math.log(samples)))


class TestDraws:
    @with_each_law
    def test_fast_samples_follow_the_law(self, name):
        law, reference, _ = LAWS[name]
        samples = noise_laws.sample(law, (COUNT,), tf.constant([1, 2]))
        assert samples.dtype == "float32"
        assert_follows(samples, reference)

    @pytest.mark.parametrize("keep", [0.0, 0.1, 0.8, 1.0])
    def test_bernoulli(self, keep):
        law = noise_law("bernoulli", keep_probability=keep)
        samples = noise_laws.sample(law, (COUNT,), tf.constant([1, 2])).numpy()
        assert set(np.unique(samples)) <= {0.0, 1.0}
        ones = int(samples.sum())
        if keep in (0.0, 1.0):
            assert ones == keep * COUNT
        else:
            assert stats.binomtest(ones, COUNT, keep).pvalue > FAILURE

    def test_center_is_the_mean_or_else_the_median(self):
        assert noise_laws.center(noise_law("bernoulli")) == pytest.approx(0.8)
        assert noise_laws.center(noise_law("rayleigh")) == pytest.approx(
            stats.rayleigh(scale=0.5**0.5).mean()
        )
        assert noise_laws.center(noise_law("half_cauchy", scale=3.0)) == pytest.approx(
            3
        )
        heavy = noise_law("inverse_nakagami", concentration=0.4, spread=1.0)
        median = noise_laws.center(heavy)
        assert InverseNakagamiLaw(0.4, 1.0).cdf(median) == pytest.approx(0.5, abs=1e-4)

    def test_defaults_have_a_size_in_common(self):
        for alias in {*noise_aliases()} - {"half_cauchy"}:
            law = noise_law(alias)
            relative = float(law.variance()) / float(law.mean()) ** 2
            assert 0.24 < relative < 0.28


def test_an_alias_of_ones_own(monkeypatch):
    monkeypatch.setattr(noise_laws, "_BUILDERS", dict(noise_laws._BUILDERS))

    @register_noise("gamma")
    def gamma(concentration=2.0):
        return tfd.Gamma(concentration, concentration)

    assert "gamma" in noise_aliases()
    assert noise_law("gamma", concentration=3.0).concentration == 3.0


class TestErrors:
    @pytest.mark.parametrize(
        "noise", ["gausian", None, 0.5, tfd.Normal([0.0, 1.0], 1.0)]
    )
    def test_unknown_noise(self, noise):
        with pytest.raises(ValueError, match=r"Unknown noise: expected one of \['bern"):
            noise_law(noise)

    def test_parameters_beside_a_distribution(self):
        with pytest.raises(ValueError, match=r"has its parameters.*Received: scale=2"):
            noise_law(tfd.Normal(1.0, 1.0), scale=2.0)

    @pytest.mark.parametrize(
        ("alias", "name", "value"),
        [
            ("bernoulli", "keep_probability", 1.5),
            ("bernoulli", "keep_probability", -0.1),
            ("gaussian", "stddev", -1.0),
            ("gaussian", "stddev", float("nan")),
            ("rayleigh", "scale", 0.0),
            ("inverse_nakagami", "concentration", -1.0),
            ("inverse_nakagami", "spread", float("inf")),
            ("half_cauchy", "scale", "1"),
        ],
    )
    def test_parameters(self, alias, name, value):
        with pytest.raises(ValueError, match=rf"`{name}` must be .*Received: {name}="):
            noise_law(alias, **{name: value})

    @pytest.mark.parametrize("scale", [0.0, -1.0, None])
    def test_scale(self, scale):
        with pytest.raises(ValueError, match=r"`scale` must be a positive number"):
            marginal_prior("rayleigh", scale)

    def test_always_zero(self):
        with pytest.raises(ValueError, match="always zero"):
            marginal_prior(noise_law("bernoulli", keep_probability=0.0))

    @pytest.mark.parametrize(
        "noise", [tfd.Poisson(1.0), tfd.FiniteDiscrete([0.0, 2.0], probs=[0.5, 0.5])]
    )
    def test_no_density(self, noise):
        with pytest.raises(ValueError, match="noise with a density"):
            marginal_prior(noise)
        if not noise.dtype.is_floating:
            return
        with pytest.raises(ValueError, match="must be one law of one number"):
            ScaleMixture(noise, 1.0)

    def test_neither_mean_nor_median(self):
        with pytest.raises(ValueError, match="finite mean or a median"):
            noise_laws.center(tfd.Normal(np.float32("inf"), 1.0))

    def test_spike_wider_than_the_slab(self):
        with pytest.raises(ValueError, match="or 0 for an atom"):
            SpikeAndSlab(1.0, 2.0)
