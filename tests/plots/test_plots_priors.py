"""The KL of priors and the densities of noises are those of references."""

import itertools

import matplotlib.pyplot as plt
import mpmath
import numpy as np
import pytest
from scipy import integrate, special, stats
from tensorflow_probability import distributions as tfd

import tfvn

LOG_ALPHA = np.array([-6.0, -2.0, 0.0, 3.0])


def numeric_kl(log_prior, log_alpha, mean):
    """The KL from Gaussian dropout by adaptive quadrature, cut at a pole at zero."""
    q = stats.norm(mean, abs(mean) * np.exp(0.5 * log_alpha))

    def integrand(w):
        return q.pdf(w) * (q.logpdf(w) - log_prior(w))

    low, high = q.ppf(1e-15), q.isf(1e-15)
    borders = [low, 0.0, high] if low < 0 < high else [low, high]
    pairs = itertools.pairwise(borders)
    return sum(integrate.quad(integrand, *pair, limit=500)[0] for pair in pairs)


class TestKLOfPriors:
    def curve(self, prior, **options):
        priors = [prior] if isinstance(prior, str) else {"it": prior}
        ax = tfvn.plots.kl_of_priors(priors, LOG_ALPHA, **options)
        np.testing.assert_array_equal(ax.lines[0].get_xdata(), LOG_ALPHA)
        return ax.lines[0].get_ydata()

    def exact(self):
        u = [mpmath.exp(-value) / 2 for value in LOG_ALPHA]
        return [float(v * mpmath.hyp2f2(1, 1, 1.5, 2, -v)) for v in u]

    @pytest.mark.parametrize("mean", [1.0, -0.3])
    def test_log_uniform(self, mean):
        shown = self.curve("log_uniform", mean=mean)
        np.testing.assert_allclose(shown, self.exact(), rtol=1e-5)

    def test_molchanov(self):
        shown = self.curve("molchanov")
        sigmoid = 1 / (1 + np.exp(1.87320 + 1.48695 * LOG_ALPHA))
        expected = 0.63576 * sigmoid + 0.5 * np.log1p(np.exp(-LOG_ALPHA))
        np.testing.assert_allclose(shown, expected, rtol=1e-6)

    def test_ard(self):
        expected = 0.5 * np.log1p(np.exp(-LOG_ALPHA))
        np.testing.assert_allclose(self.curve("ard"), expected, rtol=1e-6)

    def test_student_t_is_as_the_log_uniform(self):
        np.testing.assert_allclose(self.curve("student_t"), self.exact(), atol=2e-5)

    def test_closed_form_of_tfp(self):
        variance = 0.25 * np.exp(LOG_ALPHA)
        expected = 0.5 * (variance + 0.25 - 1.0 - np.log(variance))
        shown = self.curve(tfd.Normal(0.0, 1.0), mean=0.5)
        np.testing.assert_allclose(shown, expected, rtol=1e-5)

    @pytest.mark.parametrize(
        ("prior", "log_prob"),
        [
            (tfd.StudentT(3.0, 0.0, 2.0), stats.t(3, 0, 2).logpdf),
            (tfd.Cauchy(0.0, 1.0), stats.cauchy.logpdf),
        ],
        ids=["student_t", "cauchy"],
    )
    def test_quadrature(self, prior, log_prob):
        expected = [numeric_kl(log_prob, value, 0.7) for value in LOG_ALPHA]
        np.testing.assert_allclose(self.curve(prior, mean=0.7), expected, rtol=1e-4)

    def test_pole_at_zero(self):
        prior = tfvn.distributions.GeneralizedHyperbolic(1.0)

        def log_prob(w):
            return np.log(special.k0e(abs(w)) / np.pi) - abs(w)

        expected = [numeric_kl(log_prob, value, 0.7) for value in LOG_ALPHA]
        np.testing.assert_allclose(self.curve(prior, mean=0.7), expected, rtol=1e-4)

    def test_all_by_default(self, legend):
        ax = tfvn.plots.kl_of_priors()
        assert len(legend(ax)) == 4
        for line in ax.lines:
            assert (np.diff(line.get_ydata()) < 1e-6).all()
            assert line.get_ydata()[-1] == pytest.approx(0.0, abs=1e-3)

    @pytest.mark.parametrize(
        ("arguments", "text"),
        [
            ((["laplace"],), "`priors` must be one of"),
            (({"mine": "laplace"},), "`priors` must have aliases"),
            ((["ard"], [[0.0]]), "`log_alpha` must be an array"),
            ((["ard"], None, 0.0), "`mean` must not be zero"),
        ],
    )
    def test_bad_input(self, arguments, text):
        with pytest.raises(ValueError, match=text):
            tfvn.plots.kl_of_priors(*arguments)


class TestNoiseVariances:
    def test_densities_of_rayleigh_noise(self):
        noise, variance, prior = tfvn.plots.noise_variances("rayleigh", scale=2.0)
        law = stats.rayleigh(scale=np.sqrt(0.5))
        (line,) = noise.lines
        expected = law.pdf(line.get_xdata())
        np.testing.assert_allclose(line.get_ydata(), expected, atol=1e-6)
        (line,) = variance.lines
        expected = stats.expon.pdf(line.get_xdata())
        np.testing.assert_allclose(line.get_ydata(), expected, rtol=1e-4)
        (line,) = prior.lines
        expected = stats.laplace(scale=2 * np.sqrt(0.5)).pdf(line.get_xdata())
        np.testing.assert_allclose(line.get_ydata(), expected, rtol=1e-4)

    def test_square_of_noise_that_may_be_negative(self):
        law = tfd.Normal(0.0, 1.0)
        (ax,) = tfvn.plots.noise_variances({"standard": law}, show=["variance"])
        (line,) = ax.lines
        expected = stats.chi2(1).pdf(line.get_xdata())
        np.testing.assert_allclose(line.get_ydata(), expected, rtol=1e-4)

    def test_bernoulli_noise_has_points(self):
        axes = tfvn.plots.noise_variances("bernoulli")
        for ax in axes[:2]:
            zero, one = ax.lines[1:]
            assert (zero.get_xdata()[1], one.get_xdata()[1]) == (0, 1)
            heights = (zero.get_ydata()[1], one.get_ydata()[1])
            assert heights == pytest.approx((0.2, 0.8))
        slab, spike = axes[2].lines
        expected = 0.8 * stats.norm.pdf(slab.get_xdata())
        np.testing.assert_allclose(slab.get_ydata(), expected, rtol=1e-4)
        assert spike.get_ydata()[1] == pytest.approx(0.2)

    def test_panels_on_given_axes(self, legend):
        _, ax = plt.subplots()
        (returned,) = tfvn.plots.noise_variances(show=["prior"], ax=ax)
        assert returned is ax
        assert legend(ax)[-1] == "half cauchy"

    @pytest.mark.parametrize(
        ("options", "text"),
        [
            ({"show": ["law"]}, "`show` must be one of"),
            ({"show": []}, "at least one noise and one panel"),
            ({"noises": []}, "at least one noise and one panel"),
            ({"limit": 0}, "`limit` must be a finite number"),
            ({"scale": -1.0}, "`scale` must be a finite number"),
        ],
    )
    def test_bad_input(self, options, text):
        with pytest.raises(ValueError, match=text):
            tfvn.plots.noise_variances(**options)

    def test_wrong_number_of_axes(self):
        with pytest.raises(ValueError, match="`ax` must have 3 matplotlib `Axes`"):
            tfvn.plots.noise_variances(ax=plt.subplots()[1])
