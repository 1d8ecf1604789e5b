"""Calls of every layer: masks, noise, compilation, and the order of the axes."""

import inspect

import harness
import keras
import numpy as np
import pytest
import tensorflow as tf
from layer_cases import CASES, LAYERS
from tensorflow_probability import distributions as tfd

import tfvn


class TestMasking:
    def inputs(self):
        inputs = np.random.default_rng(0).normal(size=(4, 5, 3)).astype("float32")
        inputs[:, 3:] = 0.0
        return inputs, np.ones((4, 5, 2), "float32")

    @pytest.mark.parametrize("name", CASES)
    def test_is_supported_as_in_the_twin(self, name):
        layer = LAYERS[name](**CASES[name]["arguments"])
        twin = harness.twin_of(LAYERS[name])(**CASES[name]["arguments"])
        assert layer.supports_masking == twin.supports_masking

    @pytest.mark.parametrize("estimator", tfvn.support.ESTIMATORS)
    def test_passes_through_a_dense_layer(self, estimator):
        inputs, _ = self.inputs()
        layer = tfvn.MeanFieldDense(2, kl_weight=1.0, estimator=estimator)
        outputs = layer(keras.layers.Masking()(inputs))
        mask = keras.src.backend.get_keras_mask(outputs)
        np.testing.assert_array_equal(mask, np.any(inputs != 0, axis=-1))

    def test_masked_steps_do_not_count(self):
        inputs, targets = self.inputs()
        layer = tfvn.MeanFieldDense(2, kl_weight=0.5, estimator="mean")
        model = keras.Sequential([keras.Input((5, 3)), keras.layers.Masking(), layer])
        model.compile(loss="mse")
        squares = np.square(model(inputs).numpy() - targets).mean(axis=-1)
        expected = squares[:, :3].mean() + 0.5 * layer.kl_divergence().numpy()
        loss = model.evaluate(inputs, targets, verbose=0)
        np.testing.assert_allclose(loss, expected, rtol=1e-5)

    def test_sample_weight_is_for_the_likelihood(self):
        inputs, targets = self.inputs()
        weights = np.random.default_rng(1).uniform(size=(4, 5)).astype("float32")
        layer = tfvn.MeanFieldDense(2, kl_weight=0.5, estimator="mean")
        model = keras.Sequential([keras.Input((5, 3)), layer])
        model.compile(loss="mse")
        squares = np.square(model(inputs).numpy() - targets).mean(axis=-1)
        expected = np.mean(squares * weights) + 0.5 * layer.kl_divergence().numpy()
        loss = model.evaluate(inputs, targets, sample_weight=weights, verbose=0)
        np.testing.assert_allclose(loss, expected, rtol=1e-5)


class TestNoise:
    @pytest.mark.one_in(4)
    @pytest.mark.parametrize("training", [True, False, None])
    @pytest.mark.parametrize("name", CASES)
    def test_is_drawn_in_every_call(self, name, training):
        layer = LAYERS[name](**CASES[name]["arguments"], kl_weight=1.0)
        inputs = np.ones(CASES[name]["input_shape"], "float32")
        first, second = (layer(inputs, training=training).numpy() for _ in "12")
        assert np.mean(first == second) < 0.5

    @pytest.mark.one_in(3)
    @pytest.mark.parametrize("name", CASES)
    def test_seed_determines_it(self, name):
        inputs = np.ones(CASES[name]["input_shape"], "float32")

        def outputs(seed):
            keras.utils.set_random_seed(3)
            layer = LAYERS[name](**CASES[name]["arguments"], seed=seed, kl_weight=1.0)
            return layer(inputs).numpy()

        np.testing.assert_array_equal(outputs(1), outputs(1))
        np.testing.assert_array_equal(outputs(None), outputs(None))
        assert np.any(outputs(1) != outputs(2))

    def test_layers_without_a_seed_differ(self):
        inputs = np.ones((2, 4), "float32")
        options = {"prior": None, "kernel_initializer": "ones"}
        first, second = (tfvn.VarianceDense(3, **options)(inputs) for _ in "12")
        assert np.all(first != second)


@pytest.mark.parametrize("estimator", ["mean", "local", "weights"])
@pytest.mark.parametrize("random_bias", [False, True])
def test_channels_first_agrees_with_channels_last(random_bias, estimator):
    # On a CPU such convolutions run compiled only. As many filters as the outputs
    # are wide: a bias must not end up on the wrong axis.
    inputs = np.random.default_rng(0).normal(size=(2, 4, 6, 5)).astype("float32")
    posterior = tfvn.posteriors.MeanField(scale_initializer=1e-6)
    options = {
        "strides": 2,
        "padding": "same",
        "posterior": posterior,
        "estimator": estimator,
        "prior": None,
        "bias_posterior": posterior if random_bias else None,
    }
    last = tfvn.layers.Conv2D(3, 3, **options)
    last.build((None, 6, 5, 4))
    bias = last.bias_posterior.mean_variable if random_bias else last.bias
    bias.assign([1.0, 20.0, 300.0])
    first = tfvn.layers.Conv2D(3, 3, data_format="channels_first", **options)
    first.build(inputs.shape)
    first.set_weights(last.get_weights())
    assert first.compute_output_shape((None, 4, 6, 5)) == (None, 3, 3, 3)
    outputs = tf.function(first, jit_compile=True, autograph=False)(inputs)
    expected = last(np.moveaxis(inputs, 1, -1))
    np.testing.assert_allclose(np.moveaxis(outputs, 1, -1), expected, atol=1e-3)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", CASES)
def test_layers_are_functions_to_tensorflow(name):
    inputs = np.ones(CASES[name]["input_shape"], "float32")
    layer = LAYERS[name](**CASES[name]["arguments"], kl_weight=1.0)
    twin = harness.twin_of(LAYERS[name])(**CASES[name]["arguments"])
    assert [*inspect.signature(layer).parameters] == ["args", "kwargs"]
    assert tf.function(layer)(inputs).shape == twin(inputs).shape


@pytest.mark.parametrize("prior", [tfd.Normal(0.0, 1.0), tfd.Laplace(0.0, 1.0)])
def test_one_posterior_serves_many_layers(prior):
    posterior = tfvn.posteriors.MeanField(scale_initializer=0.2)
    options = {"posterior": posterior, "prior": prior, "kl_weight": 1.0}
    layers = [tfvn.layers.Dense(units, **options) for units in (2, 3)]
    for layer in layers:
        layer.build((None, 4))
    assert [len(layer.trainable_weights) for layer in layers] == [3, 3]
    shapes = [layer.posterior_distribution().batch_shape for layer in layers]
    assert shapes == [(4, 2), (4, 3)]
    assert posterior.variable_groups == {}
