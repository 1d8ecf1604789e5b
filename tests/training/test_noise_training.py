"""Noise layers in a `tfvn.Model`: the prior's Normal factor, and several draws."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from harness import no_likelihood

import tfvn
from tfvn.training.draws import draw

DATA = np.random.default_rng(0)
X = DATA.normal(size=(20, 6, 6, 1)).astype("float32")
Y = DATA.normal(size=(20, 1)).astype("float32")


def make(structure="filters", library=tfvn, **kwargs):
    return library.Sequential(
        [
            keras.Input((6, 6, 1)),
            tfvn.NoisyConv2D(2, 3, structure=structure, seed=1, **kwargs),
            keras.layers.Flatten(),
            tfvn.NoisyDense(1, seed=2, **kwargs),
        ]
    )


class TestPrior:
    def test_is_weight_decay_over_the_number_of_examples(self):
        noise = tfvn.distributions.noise_law("gaussian", stddev=0.0)
        model = make(noise=noise, prior_scale=0.5)
        model.compile(keras.optimizers.SGD(0.0), "mse", jit_compile=False)
        history = model.fit(X, Y, batch_size=10, verbose=0).history
        kernels = [layer.kernel.numpy() for layer in (model.layers[0], model.layers[2])]
        expected = sum(np.sum(np.square(kernel)) for kernel in kernels) / (2 * 0.5**2)
        np.testing.assert_allclose(history["kl"], expected, rtol=1e-5)
        nll = np.mean(np.square(model.predict(X, verbose=0) - Y))
        np.testing.assert_allclose(history["nll"], nll, rtol=1e-4)
        np.testing.assert_allclose(history["loss"], nll + expected / 20, rtol=1e-4)

    def test_gradient_is_the_weight_over_the_variance(self):
        model = make(noise="gaussian", prior_scale=0.5)
        model.compile(keras.optimizers.SGD(1.0), no_likelihood, jit_compile=False)
        kernel = model.layers[0].kernel.numpy()
        model.fit(X, Y, batch_size=20, verbose=0)
        expected = kernel - kernel / 0.5**2 / 20
        np.testing.assert_allclose(model.layers[0].kernel, expected, atol=1e-6)

    def test_without_a_scale_there_is_none(self):
        model = make()
        model.compile("sgd", "mse", jit_compile=False)
        history = model.fit(X, Y, verbose=0).history
        assert history["kl"] == [0.0]
        assert model.layers[0].kl_weight is None
        assert not model.losses

    def test_in_a_stock_model(self):
        layer = tfvn.NoisyDense(1, prior_scale=2.0, kl_weight=0.05)
        model = keras.Sequential([keras.Input((3,)), layer])
        model(np.ones((2, 3)))
        (loss,) = model.losses
        np.testing.assert_allclose(loss, 0.05 * layer.negative_log_prior(), rtol=1e-6)
        expected = np.sum(np.square(layer.kernel)) / (2 * 2.0**2)
        np.testing.assert_allclose(layer.negative_log_prior(), expected, rtol=1e-6)

    def test_warns_without_a_weight_in_a_stock_model(self):
        model = keras.Sequential(
            [keras.Input((3,)), tfvn.NoisyDense(1, prior_scale=2.0)]
        )
        with pytest.warns(UserWarning, match="without a `kl_weight`"):
            model(np.ones((2, 3)), training=True)

    @pytest.mark.parametrize("policy", ["float32", "mixed_float16"])
    @pytest.mark.parametrize("gates", ["tied", "untied"])
    def test_of_an_lstm_counts_once(self, gates, policy):
        layer = tfvn.NoisyLSTM(
            3, gates=gates, prior_scale=0.01, kl_weight=1.0, dtype=policy
        )
        model = keras.Sequential([keras.Input((5, 2)), layer])
        model.compile("sgd", "mse", jit_compile=False)
        model(np.ones((2, 5, 2)))
        (loss,) = model.losses
        kernel, recurrent, _ = layer.get_weights()[:3]
        expected = (np.sum(kernel**2) + np.sum(recurrent**2)) / (2 * 0.01**2)
        # In half precision the weights, let alone their squares, would be off by more.
        np.testing.assert_allclose(loss, expected, rtol=1e-6)
        history = model.fit(np.ones((2, 5, 2)), np.zeros((2, 3)), verbose=0).history
        assert expected <= history["loss"][0] * (1 + 1e-6) < 1.01 * expected + 10

    def test_is_saved(self, tmp_path):
        model = make(prior_scale=0.5)
        model.compile("sgd", "mse")
        model.layers[0].kl_weight.assign(0.25)
        model.save(tmp_path / "model.keras")
        loaded = keras.models.load_model(tmp_path / "model.keras")
        assert loaded.layers[0].prior_scale == 0.5
        assert loaded.layers[0].kl_weight.numpy() == 0.25


class TestSeveralDraws:
    X = np.repeat(X[:1], 4, axis=0)

    def outputs(self, *layers):
        model = tfvn.Sequential(
            [keras.Input((6, 6, 1)), *layers, keras.layers.Flatten()]
        )
        drawn = draw(model, tf.constant(self.X), 3)
        return np.stack([d.y_pred.numpy() for d in drawn]).reshape(3, 4, -1)[..., 0]

    def test_of_shared_noise_are_passes_of_their_own(self):
        layer = tfvn.NoisyConv2D(2, 3, noise="gaussian", structure="filters")
        outputs = self.outputs(layer)
        np.testing.assert_allclose(outputs, outputs[:, :1].repeat(4, axis=1), rtol=1e-5)
        assert len(np.unique(outputs[:, 0].round(5))) == 3

    def test_of_noise_per_example_are_one_pass(self):
        layer = tfvn.MultiplicativeNoise("gaussian")
        calls = []
        plain = layer.call
        layer.call = lambda *args, **kwargs: calls.append(1) or plain(*args, **kwargs)
        outputs = self.outputs(layer)
        assert len(np.unique(outputs)) == 12
        assert len(calls) == 1

    @pytest.mark.parametrize("reduction", ["mean", "log_mean_exp"])
    def test_train(self, reduction):
        model = make(noise="rayleigh", prior_scale=1.0)
        model.compile(
            "sgd",
            tfvn.losses.GaussianNLL(1.0),
            num_samples=3,
            sample_reduction=reduction,
            jit_compile=False,
        )
        assert np.isfinite(model.fit(X, Y, verbose=0).history["loss"][0])


def test_a_mask_that_a_batch_shares_is_drawn_for_each_draw():
    inputs = keras.Input((50,))
    outputs = keras.layers.Dropout(0.5, noise_shape=(1, 50))(inputs)
    model = tfvn.Model(inputs, outputs)
    first, second = (d.y_pred.numpy() for d in draw(model, tf.ones((3, 50)), 2))
    assert (first == first[0]).all()
    # Masks of their own differ in half of the features; 10 is 4.2 standard deviations below.
    assert (first[0] != second[0]).sum() > 10
