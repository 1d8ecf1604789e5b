"""Variance layers made of Gaussian dropout."""

import math
import warnings

import keras
import numpy as np
import pytest
from keras import layers
from zero_mean_models import (
    ALPHAS,
    FEATURES,
    X,
    dropout,
    model_of,
    set_scales,
)

import tfvn
from tfvn.layers.base import stochastic_layers


class TestToVariance:
    @pytest.mark.one_in(3)
    @pytest.mark.parametrize("arguments", ALPHAS, ids=str)
    @pytest.mark.parametrize("estimator", ["local", "flipout", "weights"])
    def test_is_the_prediction_without_means(self, arguments, estimator):
        noisy = dropout(activation="tanh", estimator=estimator, **arguments)
        model = model_of(noisy, layers.Dense(2))
        set_scales(noisy, np.random.default_rng(0))
        noisy.bias.assign([0.5, -0.5, 1.0])
        converted = tfvn.to_variance(model)
        layer = converted.layers[0]
        assert type(layer) is tfvn.VarianceDense
        assert layer.estimator.alias == estimator
        np.testing.assert_allclose(
            layer.posterior.variance(), noisy.posterior.variance(), rtol=1e-4
        )
        options = {"num_samples": 3, "seed": 1, "outputs": "regression"}
        np.testing.assert_allclose(
            tfvn.ensemble_predict(converted, X, **options).mean,
            tfvn.zero_mean_predict(model, X, **options).mean,
            rtol=1e-3,
            atol=1e-3,
        )

    @pytest.mark.parametrize(
        ("layer", "shape", "kind"),
        [
            (tfvn.GaussianDropoutConv1D(3, 2), (5, 2), "VarianceConv1D"),
            (
                tfvn.GaussianDropoutConv2D(4, 2, groups=2, alpha="neuron"),
                (5, 5, 2),
                "VarianceConv2D",
            ),
            (
                tfvn.GaussianDropoutConv2DTranspose(3, 2, alpha="neuron"),
                (4, 4, 2),
                "VarianceConv2DTranspose",
            ),
            (
                tfvn.GaussianDropoutDepthwiseConv2D(2, depth_multiplier=2),
                (4, 4, 3),
                "VarianceDepthwiseConv2D",
            ),
            (tfvn.GaussianDropoutLSTM(3, alpha="neuron"), (3, 2), "VarianceLSTM"),
            (
                layers.Bidirectional(tfvn.GaussianDropoutGRU(3)),
                (3, 2),
                "VarianceGRU",
            ),
        ],
        ids=lambda value: getattr(value, "name", None),
    )
    def test_in_all_layers(self, layer, shape, kind, tmp_path):
        model = tfvn.Sequential([keras.Input(shape), layer])
        for part in stochastic_layers(model):
            set_scales(part, np.random.default_rng(0))
        converted = tfvn.to_variance(model)
        pairs = zip(stochastic_layers(model), stochastic_layers(converted), strict=True)
        for old, new in pairs:
            assert isinstance(new.posterior, tfvn.posteriors.Variance)
            for weight in old.kernels:
                np.testing.assert_allclose(
                    new.posteriors[weight].variance(),
                    old.posteriors[weight].variance(),
                    rtol=1e-4,
                )
            np.testing.assert_array_equal(new.bias, old.bias)
        inside = [type(one).__name__ for one in converted._flatten_layers()]
        assert kind in inside
        converted.save(tmp_path / "model.keras")
        loaded = keras.models.load_model(tmp_path / "model.keras")
        for one, other in zip(converted.weights, loaded.weights, strict=True):
            np.testing.assert_array_equal(one, other)

    def test_keeps_the_rest_and_trains_further(self):
        noisy = dropout(
            bias_posterior="mean_field", prior="ard", kl_weight=0.5, seed=3, name="n"
        )
        other = tfvn.MeanFieldDense(2)
        model = model_of(noisy, other)
        model.compile({"scale": "sgd"}, "mse", kl_schedule=0.5, jit_compile=False)
        before = [weight.copy() for weight in model.get_weights()]
        with warnings.catch_warnings():
            warnings.simplefilter(
                "error", UserWarning
            )  # all that could be converted was
            converted = tfvn.to_variance(model)
        layer = converted.layers[0]
        config = layer.get_config()
        assert (config["name"], config["seed"], config["kl_weight"]) == ("n", 3, 0.5)
        # The kernel's prior changes, that of the bias does not.
        assert (config["prior"], config["bias_prior"]) == ("auto", "ard")
        bias = noisy.posterior_distribution("bias")
        np.testing.assert_array_equal(
            layer.posterior_distribution("bias").stddev(), bias.stddev()
        )
        kl = float(tfvn.kl.total(bias, tfvn.distributions.ARD()))
        assert float(layer.kl_divergence()) == pytest.approx(kl, rel=1e-4)
        np.testing.assert_array_equal(
            converted.layers[1].posterior.mean(), other.posterior.mean()
        )
        history = converted.fit(X, np.ones((5, 2)), verbose=0).history
        assert history["kl_weight"] == [0.5]
        for now, then in zip(model.get_weights(), before, strict=True):
            np.testing.assert_array_equal(now, then)

    def test_converts_some_and_says_which_it_kept(self):
        model = model_of(dropout(name="high"), dropout(log_alpha=2.0, name="low"))
        words = r"converted \['high'\] and kept .* below 5.0: 'low' with 2"
        with pytest.warns(UserWarning, match=words):
            converted = tfvn.to_variance(model)
        kinds = [type(layer) for layer in converted.layers]
        assert kinds == [tfvn.VarianceDense, tfvn.GaussianDropoutDense]
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            tfvn.to_variance(model, layers="high")
            tfvn.to_variance(model, min_log_alpha=2)

    def test_one_small_alpha_keeps_the_layer(self):
        layer = dropout(alpha="weight", name="mixed")
        model = model_of(layer)
        alphas = np.full((FEATURES, 3), 9.0)
        alphas[1, 2] = 4.5
        layer.posterior.log_alpha_variable.assign(alphas)
        with pytest.raises(ValueError, match=r"Received: 'mixed' with 4\.5"):
            tfvn.to_variance(model)
        recurrent = tfvn.GaussianDropoutLSTM(2, initial_log_alpha=9.0, name="lstm")
        model = tfvn.Sequential([keras.Input((3, 2)), recurrent])
        recurrent.recurrent_posterior.log_alpha_variable.assign(1.0)
        with pytest.raises(ValueError, match="'lstm_cell' with 1"):
            tfvn.to_variance(model)

    def test_of_a_head(self):
        posterior = tfvn.posteriors.GaussianDropout(initial_log_alpha=8.0)
        head = tfvn.layers.NormalHead(1, posterior=posterior, name="head")
        converted = tfvn.to_variance(model_of(head))
        new = converted.layers[0]
        assert isinstance(new.posterior, tfvn.posteriors.Variance)
        np.testing.assert_allclose(
            new.dense.posterior.variance(), head.dense.posterior.variance(), rtol=1e-4
        )

    @pytest.mark.parametrize(
        ("make", "kwargs", "words"),
        [
            (lambda: dropout(log_alpha=-5.0, name="d"), {}, "'d' with -5"),
            (lambda: tfvn.MeanFieldDense(2), {}, "without Gaussian dropout"),
            (
                lambda: tfvn.MeanFieldDense(2, name="m"),
                {"layers": "m"},
                "'m' without log alpha",
            ),
            (dropout, {"min_log_alpha": None}, "Received: min_log_alpha=None"),
            (dropout, {"min_log_alpha": math.nan}, "Received: min_log_alpha=nan"),
            (dropout, {"layers": "x"}, "Received: 'x'"),
            (
                lambda: dropout(kernel_regularizer="l2", name="d"),
                {},
                "`kernel_regularizer` acts on means.* layer 'd'",
            ),
            (lambda: layers.Dense(2), {}, "must have layers with random weights"),
        ],
    )
    def test_refuses(self, make, kwargs, words):
        with pytest.raises(ValueError, match=words):
            tfvn.to_variance(model_of(make()), **kwargs)

    def test_pruned_layers_are_named_as_such(self):
        pruned = tfvn.prune(model_of(dropout(name="d")), fraction=0.5)
        words = r"Received: 'd' with pruned weights \(convert first, then prune"
        with pytest.raises(ValueError, match=words):
            tfvn.to_variance(pruned)
        both = model_of(dropout(name="d"), dropout(name="e"))
        with pytest.warns(
            UserWarning, match=r"kept layers .*: 'd' with pruned weights"
        ):
            converted = tfvn.to_variance(tfvn.prune(both, fraction=0.5, layers="d"))
        assert type(converted.layers[1]) is tfvn.VarianceDense
        assert tfvn.sparsity(converted).layers["d"] == 0.5
