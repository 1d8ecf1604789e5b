"""Predictive distributions against SciPy and by hand."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy import special, stats

import tfvn
from tfvn import likelihoods
from tfvn.prediction.mixture import Mixture
from tfvn.prediction.outputs import summaries_of

RNG = np.random.default_rng(0)
ROWS, DRAWS, TARGETS = 4, 7, 2
LOCATION, LOG_SCALE = RNG.normal(size=(2, ROWS, DRAWS, TARGETS))
LOG_SCALE *= 0.5


def scipy_parts(likelihood):
    """The distributions of the draws."""
    scale = np.exp(LOG_SCALE)
    if getattr(likelihood, "scale", None) is not None:
        scale = np.full_like(scale, likelihood.scale)
    return {
        "normal": lambda: stats.norm(LOCATION, scale),
        "laplace": lambda: stats.laplace(LOCATION, scale),
        "student_t": lambda: stats.t(likelihood.df, LOCATION, scale),
        "log_normal": lambda: stats.lognorm(scale, scale=np.exp(LOCATION)),
        "poisson": lambda: stats.poisson(np.exp(LOCATION + 1.0)),
    }[likelihood.alias]()


def answer_of(likelihood, **kwargs):
    parts = [LOCATION, LOG_SCALE][: likelihood.parameters]
    if likelihood.alias == "poisson":
        parts = [LOCATION + 1.0]
    outputs = np.concatenate(parts, axis=-1)
    return tfvn.PredictiveDistribution.of_draws(likelihood, outputs, **kwargs)


LIKELIHOODS = [
    likelihoods.Normal(),
    likelihoods.Normal(0.3),
    likelihoods.Laplace(),
    likelihoods.StudentT(5.0),
    likelihoods.StudentT(2.5, 0.7),
    likelihoods.LogNormal(),
    likelihoods.Poisson(),
]


@pytest.fixture(params=LIKELIHOODS, ids=str)
def likelihood(request):
    return request.param


def targets(likelihood):
    y = RNG.normal(size=(ROWS, TARGETS))
    if likelihood.discrete:
        return np.floor(np.exp(y + 1))
    return np.exp(y) if likelihood.above == 0 else y


def test_moments_by_the_law_of_total_variance(likelihood):
    parts, answer = scipy_parts(likelihood), answer_of(likelihood)
    np.testing.assert_allclose(answer.mean, parts.mean().mean(1), rtol=1e-9)
    aleatoric, epistemic = parts.var().mean(1), parts.mean().var(1)
    np.testing.assert_allclose(answer.aleatoric_std, np.sqrt(aleatoric), rtol=1e-9)
    np.testing.assert_allclose(answer.epistemic_std, np.sqrt(epistemic), rtol=1e-9)
    np.testing.assert_allclose(answer.std, np.sqrt(aleatoric + epistemic), rtol=1e-9)


def test_densities_of_the_mixture(likelihood):
    parts, answer, y = (
        scipy_parts(likelihood),
        answer_of(likelihood),
        targets(likelihood),
    )
    density = getattr(parts, "logpmf" if likelihood.discrete else "logpdf")
    expected = special.logsumexp(density(y[:, None]), axis=1) - np.log(DRAWS)
    np.testing.assert_allclose(answer.log_prob(y), expected, rtol=1e-9)
    cdf = parts.cdf(y[:, None]).mean(1)
    np.testing.assert_allclose(answer.cdf(y), cdf, rtol=1e-9)


def test_quantiles_invert_the_distribution_function(likelihood):
    answer = answer_of(likelihood)
    q = np.array([1e-6, 0.05, 0.5, 0.9, 1 - 1e-6])
    found = answer.quantile(q)
    assert found.shape == (5, ROWS, TARGETS)
    parts = scipy_parts(likelihood)
    for level, value in zip(q, found, strict=True):
        mass = parts.cdf(value[:, None]).mean(1)
        if likelihood.discrete:
            # The smallest count with at least that probability.
            assert (mass >= level).all()
            assert (parts.cdf(value[:, None] - 1).mean(1) < level).all()
            np.testing.assert_array_equal(value, np.round(value))
        else:
            np.testing.assert_allclose(mass, level, rtol=1e-6)
    np.testing.assert_allclose(answer.quantile(0.5), found[2], rtol=1e-7)


def test_intervals_have_equal_tails():
    answer = answer_of(likelihoods.Normal())
    lower, upper = answer.interval(0.8)
    np.testing.assert_allclose(answer.cdf(lower), 0.1, rtol=1e-8)
    np.testing.assert_allclose(answer.cdf(upper), 0.9, rtol=1e-8)
    # One draw is a Normal.
    one = tfvn.PredictiveDistribution.of_draws("normal", [[[3.0, np.log(2.0)]]])
    expected = stats.norm(3.0, 2.0).interval(0.9)
    np.testing.assert_allclose(np.ravel(one.interval(0.9)), expected, rtol=1e-8)


def test_quantiles_of_draws_far_apart():
    """Where the distribution function is flat, and where the scale is tiny."""
    outputs = np.array([[[-1e6, -10.0], [1e6, -10.0]]])
    answer = tfvn.PredictiveDistribution.of_draws("normal", outputs)
    expected = 1e6 + np.exp(-10.0) * stats.norm.ppf(0.8)
    assert answer.quantile(0.9)[0, 0] == pytest.approx(expected, rel=1e-9)
    wide = tfvn.PredictiveDistribution.of_draws("log_normal", [[[0.0, np.log(8.0)]]])
    expected = stats.lognorm(8.0).ppf(0.05)
    assert wide.quantile(0.05)[0, 0] == pytest.approx(expected, rel=1e-6)


@pytest.mark.one_in(3)
def test_float32_as_in_an_export(likelihood):
    answer = answer_of(likelihood)
    outputs = answer.outputs.astype("float32")
    mixture = Mixture(likelihood, keras.ops.convert_to_tensor(outputs))
    for q in (0.05, 0.95):
        found = mixture.quantile(q).numpy()
        assert found.dtype == "float32"
        np.testing.assert_allclose(found, answer.quantile(q), rtol=2e-5, atol=2e-5)


@pytest.mark.one_in(3)
def test_samples_are_targets(likelihood):
    outputs = np.repeat(answer_of(likelihood).outputs[:1, :2], 2_000, axis=0)
    answer = tfvn.PredictiveDistribution.of_draws(likelihood, outputs, seed=1)
    assert answer.samples.shape == (2_000, 2, TARGETS)
    if likelihood.discrete:
        mean, error = answer.samples.mean(), answer.std[0].mean() / np.sqrt(8_000)
        assert abs(mean - answer.mean[0].mean()) < 4 * 2 * error
        return
    parts = scipy_parts(likelihood)
    for target in range(TARGETS):
        pooled = answer.samples[:, :, target].ravel()

        def cdf(y, target=target):
            y = y.reshape(-1, *[1] * 3)
            return parts.cdf(y)[:, 0, :2, target].mean(-1)

        assert stats.kstest(pooled, cdf).pvalue > 1e-4
    again = tfvn.PredictiveDistribution.of_draws(likelihood, outputs[:5], seed=1)
    np.testing.assert_allclose(again.samples, answer.samples[:5], rtol=1e-7)


def test_samples_of_two_outputs_are_drawn_apart():
    normal = likelihoods.get("normal")
    draws, seeds = tf.zeros((3, 5, 2)), tf.reshape(tf.range(6), (3, 2))
    first, second = summaries_of(
        [draws, draws], [normal, normal], ("samples",), seeds=seeds
    )
    assert np.all(first["samples"] != second["samples"])


class TestShapes:
    def test_targets_without_their_axis(self):
        answer = tfvn.PredictiveDistribution.of_draws("normal", np.zeros((3, 5, 2)))
        y = np.arange(3.0)
        np.testing.assert_array_equal(answer.log_prob(y), answer.log_prob(y[:, None]))
        assert answer.cdf(y).shape == (3, 1)

    @pytest.mark.parametrize("shape", [(2,), (3, 3), (1, 3), (), (3, 1, 1, 1)])
    def test_nothing_broadcasts(self, shape):
        answer = tfvn.PredictiveDistribution.of_draws("normal", np.zeros((3, 5, 2)))
        with pytest.raises(ValueError, match=r"shape of the mean, \(3, 1\).*Received"):
            answer.log_prob(np.zeros(shape))

    @pytest.mark.parametrize("q", [0, 1, -0.1, [0.5, 2.0], np.nan, "0.9", None])
    def test_probabilities_are_checked(self, q):
        answer = tfvn.PredictiveDistribution.of_draws("normal", np.zeros((3, 5, 2)))
        expected = (
            r"must be a finite number greater than 0 and smaller than 1\. Received"
        )
        with pytest.raises(ValueError, match=f"`q` {expected}"):
            answer.quantile(q)
        with pytest.raises(ValueError, match=f"`level` {expected}"):
            answer.interval(q)

    def test_no_rows(self):
        answer = tfvn.PredictiveDistribution.of_draws("normal", np.zeros((0, 5, 2)))
        assert answer.mean.shape == answer.interval(0.9)[0].shape == (0, 1)


class TestPrediction:
    X = RNG.normal(size=(5, 4)).astype("float32")

    def model(self):
        posterior = tfvn.posteriors.MeanField(scale_initializer=0.3)
        head = tfvn.layers.NormalHead(1, posterior)
        return tfvn.Sequential([keras.Input((4,)), head])

    def test_it_is_that_of_the_draws(self):
        model = self.model()
        arguments = {"num_samples": 6, "seed": 3}
        raw = tfvn.ensemble_predict(
            model, self.X, outputs="regression", return_samples=True, **arguments
        )
        answer = tfvn.ensemble_predict(
            model, self.X, return_samples=True, batch_size=2, **arguments
        )
        means, scales = raw.samples[..., :1], np.exp(raw.samples[..., 1:])
        np.testing.assert_allclose(answer.mean, means.mean(1), rtol=1e-4, atol=1e-5)
        std = np.sqrt((scales**2).mean(1) + means.var(1))
        np.testing.assert_allclose(answer.std, std, rtol=1e-4)
        assert answer.samples.shape == (5, 6, 1)
        assert set(answer.to_dict()) == {
            *("mean", "std", "aleatoric_std", "epistemic_std", "samples")
        }
        assert repr(answer).startswith("PredictiveDistribution with num_samples=6:")
        whole = tfvn.ensemble_predict(model, self.X, return_samples=True, **arguments)
        np.testing.assert_allclose(answer.samples, whole.samples, rtol=1e-3, atol=1e-4)

    @pytest.mark.parametrize("name", ["interval", "quantile", "log_prob", "cdf"])
    def test_point_predictions_say_what_would_have_one(self, name):
        answer = tfvn.ensemble_predict(
            self.model(), self.X, num_samples=2, outputs="regression"
        )
        with pytest.raises(AttributeError, match=rf"`{name}`.*GaussianNLL.*'normal'"):
            getattr(answer, name)
        with pytest.raises(AttributeError, match="has no attribute 'medians'"):
            answer.medians  # noqa: B018

    def test_saved_heads_are_the_same(self, tmp_path):
        model = self.model()
        model.save(tmp_path / "model.keras")
        copy = keras.models.load_model(tmp_path / "model.keras")
        first, second = (
            tfvn.ensemble_predict(m, self.X, num_samples=3, seed=1)
            for m in (model, copy)
        )
        np.testing.assert_allclose(first.mean, second.mean, rtol=1e-5)
        assert copy.layers[-1].get_config() == model.layers[-1].get_config()

    def test_heads_refuse_what_makes_no_sense(self):
        with pytest.raises(ValueError, match=r"does not take `activation`.*'relu'"):
            tfvn.layers.NormalHead(1, activation="relu")
        with pytest.raises(ValueError, match=r"`units`.*Received: units=0"):
            tfvn.layers.NormalHead(0)
