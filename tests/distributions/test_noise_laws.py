"""Laws of multiplicative noise: their densities, their draws, and their aliases."""

import numpy as np
import pytest
import tensorflow as tf
from noise_law_cases import COUNT, LAWS, InverseNakagamiLaw, with_each_law
from scipy import stats
from tensorflow_probability import distributions as tfd
from ztests import FAILURE, assert_follows, assert_moments

from tfvn.distributions import (
    InverseNakagami,
    Rayleigh,
    noise_aliases,
    noise_law,
    register_noise,
)
from tfvn.distributions import noise as noise_laws


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
        with pytest.raises(
            ValueError, match=r"already has its parameters.*Received: scale=2"
        ):
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

    def test_neither_mean_nor_median(self):
        with pytest.raises(ValueError, match="finite mean or a median"):
            noise_laws.center(tfd.Normal(np.float32("inf"), 1.0))
