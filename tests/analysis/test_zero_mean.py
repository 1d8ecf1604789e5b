"""How far predictions can move if the means of a layer are set to zero."""

import math

import keras
import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import layers
from scipy import stats
from zero_mean_models import (
    ALPHAS,
    X,
    dropout,
    model_of,
    set_scales,
)

import tfvn
from tfvn.analysis import ZeroMeanBound


class TestBound:
    @given(st.floats(1e-6, 60.0))
    @settings(max_examples=20, deadline=None)
    def test_total_variation_is_that_of_two_normals(self, distance_squared):
        """Half the integral of the difference of the densities, along the one direction."""
        d = mpmath.sqrt(distance_squared)
        half = mpmath.quad(
            lambda t: abs(mpmath.npdf(t) - mpmath.npdf(t, d)),
            [-mpmath.inf, -8, 0, d / 2, d, d + 8, mpmath.inf],
        )
        bound = ZeroMeanBound(distance_squared)
        assert bound.total_variation == pytest.approx(float(half) / 2, rel=1e-6)
        assert bound.total_variation <= bound.prediction <= 1.0
        assert bound.mmd == 2 * bound.prediction

    def test_total_variation_in_several_dimensions_by_sampling(self):
        """With an alpha for each weight: the mean of (1 - q0 / q)+ under q."""
        layer = dropout(alpha="weight")
        layer.build((None, 2))
        rng = np.random.default_rng(1)
        layer.posterior.log_alpha_variable.assign(rng.uniform(0.0, 3.0, size=(2, 3)))
        q = layer.posterior_distribution()
        mean, scale = (np.asarray(v, "float64").ravel() for v in (q.mean(), q.stddev()))
        w = rng.normal(mean, scale, size=(200_000, 6))
        log_ratio = np.sum(
            stats.norm.logpdf(w, 0.0, scale) - stats.norm.logpdf(w, mean, scale), axis=1
        )
        values = np.maximum(-np.expm1(log_ratio), 0.0)
        error = values.std() / np.sqrt(len(values))
        bound = tfvn.zero_mean_bound(layer)
        assert abs(values.mean() - bound.total_variation) < 5 * error
        inverse = np.exp(-layer.posterior.log_alpha_variable.numpy()).sum()
        assert bound.sum_inverse_alpha == pytest.approx(inverse, rel=1e-6)

    def test_of_one_alpha_is_the_papers(self):
        layer = dropout(5, log_alpha=6.0)
        layer.build((None, 7))
        bound, alpha = tfvn.zero_mean_bound(layer), math.exp(6.0)
        assert bound.mmd == pytest.approx(math.sqrt(2 * 35 / math.pi / alpha))
        assert bound.prediction == pytest.approx(math.sqrt(35 / (2 * math.pi) / alpha))

    def test_says_when_it_is_vacuous(self):
        for log_alpha, expected in ((-5.0, True), (8.0, False)):
            layer = dropout(log_alpha=log_alpha)
            layer.build((None, 4))
            bound = tfvn.zero_mean_bound(layer)
            assert bound.is_vacuous is expected
            assert f"is_vacuous={expected}" in repr(bound)
            assert (bound.mmd == 2.0) is (bound.prediction == 1.0) is expected
        assert ZeroMeanBound(2 * math.pi + 1e-9).is_vacuous
        assert not ZeroMeanBound(2 * math.pi - 1e-9).is_vacuous

    @pytest.mark.parametrize("arguments", ALPHAS, ids=str)
    def test_of_every_parameterization_from_the_moments(self, arguments):
        layer = dropout(**arguments)
        layer.build((None, 4))
        set_scales(layer, np.random.default_rng(0))
        q = layer.posterior_distribution()
        expected = np.sum(np.square(q.mean()) / q.variance())
        bound = tfvn.zero_mean_bound(layer)
        assert bound.sum_inverse_alpha == pytest.approx(expected, rel=1e-4)

    def test_of_other_posteriors(self):
        for name in ("MeanFieldDense", "KTiedDense"):
            layer = getattr(tfvn, name)(3)
            layer.build((None, 4))
            q = layer.posterior_distribution()
            expected = np.sum(np.square(q.mean() / q.stddev()))
            bound = tfvn.zero_mean_bound(layer)
            assert bound.sum_inverse_alpha == pytest.approx(expected, rel=1e-4)
        for noise in ("gaussian", "bernoulli", "uniform"):
            layer = tfvn.VarianceDense(3, noise=noise)
            layer.build((None, 4))
            bound = tfvn.zero_mean_bound(layer)
            assert (bound.mmd, bound.prediction, bound.total_variation) == (0, 0, 0)

    def test_of_a_recurrent_layer_counts_both_kernels_but_no_bias(self):
        arguments = {"initial_log_alpha": 6.0, "bias_posterior": "mean_field"}
        layer = tfvn.GaussianDropoutLSTM(3, **arguments)
        layer.build((None, 2, 5))
        bound = tfvn.zero_mean_bound(layer)
        assert bound.sum_inverse_alpha == pytest.approx((5 + 3) * 12 / math.exp(6.0))

    def test_weights_of_zero_are_the_same_in_both(self):
        layer = dropout(kernel_initializer="zeros")
        layer.build((None, 4))
        assert tfvn.zero_mean_bound(layer).total_variation == 0.0

    def test_refuses(self, registries):
        with pytest.raises(ValueError, match="must be one layer with random weights"):
            tfvn.zero_mean_bound(layers.Dense(2))
        with pytest.raises(ValueError, match="not built"):
            tfvn.zero_mean_bound(dropout())

        @tfvn.posteriors.register("wide", package="mine")
        class Wide(tfvn.posteriors.MeanField):
            law = "laplace"

        layer = tfvn.layers.Dense(2, posterior="wide", prior=None, estimator="weights")
        layer.build((None, 4))
        with pytest.raises(ValueError, match=r"Gaussian weights.*law='laplace'"):
            tfvn.zero_mean_bound(layer)


def expected_probability(mean, variance):
    """The mean of a sigmoid of a Normal, by quadrature."""
    scale = math.sqrt(variance)
    if scale == 0.0:
        return 1 / (1 + math.exp(-mean))
    # A steep sigmoid needs points about its step, a flat one about the mean.
    grid = np.concatenate(
        [mean + scale * np.linspace(-9, 9, 4001), np.linspace(-40, 40, 8001)]
    )
    grid = np.unique(grid)
    values = stats.norm.pdf(grid, mean, scale) / (1 + np.exp(-np.clip(grid, -700, 700)))
    return np.trapezoid(values, grid) + stats.norm.sf(grid[-1], mean, scale)


class TestTheBoundHolds:
    @given(
        st.integers(0, 2**31 - 1),
        st.integers(1, 4),
        st.floats(-3.0, 9.0),
        st.sampled_from(range(len(ALPHAS))),
    )
    @settings(max_examples=40, deadline=None)
    def test_for_expected_probabilities_of_random_layers(
        self, seed, rows, log_alpha, which
    ):
        """A softmax of two classes is a sigmoid of their difference, a Normal."""
        rng = np.random.default_rng(seed)
        layer = dropout(2, use_bias=False, **ALPHAS[which])
        layer.build((None, rows))
        layer.posterior.mean_variable.assign(
            rng.normal(size=(rows, 2)) * 10.0 ** rng.uniform(-1, 1)
        )
        set_scales(layer, rng, log_alpha)
        q = layer.posterior_distribution()
        mean, variance = (np.asarray(v, "float64") for v in (q.mean(), q.variance()))
        x = rng.normal(size=rows) * 10.0 ** rng.uniform(-1, 1)
        difference = x @ (mean[:, 0] - mean[:, 1])
        spread = x**2 @ (variance[:, 0] + variance[:, 1])
        change = abs(
            expected_probability(difference, spread) - expected_probability(0.0, spread)
        )
        bound = tfvn.zero_mean_bound(layer)
        assert change <= bound.total_variation + 1e-4
        assert bound.total_variation <= bound.prediction + 1e-12

    def test_and_no_smaller_one_would(self):
        """The best test between the two laws of the weights reaches the total variation."""
        layer = dropout(alpha="weight", use_bias=False)
        layer.build((None, 4))
        layer.posterior.log_alpha_variable.assign(
            np.random.default_rng(0).uniform(0.0, 4.0, size=(4, 3))
        )
        q = layer.posterior_distribution()
        # The test statistic, the sum of mean * w / variance, is Normal under both.
        mean, variance = (np.asarray(v, "float64") for v in (q.mean(), q.variance()))
        distance = math.sqrt(np.sum(mean**2 / variance))
        change = stats.norm.sf(-distance / 2) - stats.norm.sf(distance / 2)
        bound = tfvn.zero_mean_bound(layer)
        assert change == pytest.approx(bound.total_variation, rel=1e-5)

    @pytest.mark.parametrize("estimator", ["local", "weights"])
    def test_for_predictions_of_converted_models(self, estimator):
        noisy = dropout(log_alpha=4.0, activation="tanh", estimator=estimator)
        model = model_of(noisy, layers.Dense(3, "softmax"))
        bound = tfvn.zero_mean_bound(noisy)
        assert not bound.is_vacuous
        converted = tfvn.to_variance(model, min_log_alpha=4)
        draws = 4000
        answers = [
            tfvn.ensemble_predict(m, X, draws, seed=seed)
            for m, seed in ((model, 1), (converted, 2))
        ]
        change = np.abs(answers[0].mean - answers[1].mean)
        error = np.hypot(answers[0].std, answers[1].std) / math.sqrt(draws)
        assert (change < bound.total_variation + 5 * error).all()
        # The means move the predictions by far less, too little to be seen here.
        assert change.max() < 0.05


@pytest.mark.parametrize("posterior", ["gaussian_dropout", "mean_field"])
def test_bound_of_pruned_layer(posterior):
    layer = tfvn.layers.Dense(3, posterior=posterior)
    model = keras.Sequential([keras.Input((4,)), layer])
    pruned = tfvn.prune(model, fraction=0.5)
    found = pruned.layers[0].posterior
    ratios = np.square(layer.posterior.mean()) / np.asarray(layer.posterior.variance())
    expected = np.sum(ratios[np.asarray(found.mask)])
    bound = tfvn.zero_mean_bound(pruned.layers[0])
    np.testing.assert_allclose(bound.sum_inverse_alpha, expected, rtol=1e-5)
