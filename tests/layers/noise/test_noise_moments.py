"""What the noise does: moments of outputs, equivalences, and one draw per sequence."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from ztests import assert_mean, assert_moments

import tfvn
from tfvn.layers.noise import base

# Two laws, the second for the other factor of joint structures.
FIRST = tfvn.distributions.noise_law("gaussian", mean=2.0, stddev=0.6)
SECOND = tfvn.distributions.noise_law("bernoulli", keep_probability=0.8)
VARIANCE = 0.3**2
SECOND_VARIANCE = 0.25

EXAMPLES = 20_000
PASSES = 2_000


def examples(layer, inputs):
    """Returns the outputs of a batch of the same inputs, with noise."""
    return layer(np.repeat(inputs, EXAMPLES, axis=0), training=True).numpy()


def passes(layer, inputs):
    """Returns the outputs of several passes."""
    layer(inputs)

    @tf.function
    def draw():
        return tf.map_fn(
            lambda _: layer(inputs, training=True),
            tf.range(PASSES),
            fn_output_signature=tf.float32,
        )

    return draw().numpy()


def joint(parts):
    """Returns the variance of `tau * sum(xi * parts)` for parts on the first axis."""
    mean = parts.sum(0)
    square = mean**2 + VARIANCE * np.square(parts).sum(0)
    return (1 + SECOND_VARIANCE) * square - mean**2


class TestDense:
    X = np.float32([[1.0, -2.0, 0.5]])
    W = np.float32([[0.5, 1.0], [-1.0, 0.3], [0.7, 0.2]])
    B = np.float32([0.1, -0.2])

    @pytest.mark.parametrize("structure", ["ard", "dropconnect"])
    def test_moments(self, structure):
        layer = tfvn.NoisyDense(2, noise=FIRST, structure=structure, seed=1)
        layer.build((None, 3))
        layer.set_weights([self.W, self.B])
        draw = examples if structure == "ard" else passes
        samples = draw(layer, self.X).reshape(-1, 2)
        parts = self.X.T * self.W
        mean = parts.sum(0) + self.B
        assert_moments(samples, mean, VARIANCE * np.square(parts).sum(0))
        # Units share the noise of their inputs, but not that of their weights.
        covariance = VARIANCE * np.prod(parts, axis=1).sum()
        assert_mean(
            np.prod(samples - mean, axis=1), covariance if structure == "ard" else 0.0
        )


def test_multiplicative_noise():
    layer = tfvn.MultiplicativeNoise(FIRST, seed=1)
    samples = examples(layer, TestDense.X)
    assert_moments(samples, TestDense.X[0], VARIANCE * TestDense.X[0] ** 2)


class TestConvolution:
    @pytest.mark.parametrize(
        "structure", ["channels", "filters", "channels_and_filters"]
    )
    def test_moments(self, structure):
        generator = np.random.default_rng(0)
        inputs = generator.normal(size=(1, 3, 3, 2)).astype("float32")
        is_joint = structure == "channels_and_filters"
        layer = tfvn.NoisyConv2D(
            3,
            2,
            noise=FIRST,
            filter_noise=SECOND if is_joint else None,
            structure=structure,
            bias_initializer="random_normal",
            seed=1,
        )
        samples = passes(layer, inputs)[:, 0]
        kernel, bias = layer.get_weights()
        parts = np.stack(
            [
                keras.ops.conv(inputs[..., [c]], kernel[:, :, [c]])[0].numpy()
                for c in range(2)
            ]
        )
        variance = {
            "channels": VARIANCE * np.square(parts).sum(0),
            "filters": VARIANCE * np.square(parts.sum(0)),
            "channels_and_filters": joint(parts),
        }[structure]
        assert_moments(samples, parts.sum(0) + bias, variance)

    @pytest.mark.parametrize("normalize", [True, False])
    def test_filters_are_spatial_dropout_before_the_bias(self, normalize, monkeypatch):
        rate = 0.4
        inputs = np.random.default_rng(0).normal(size=(1, 5, 5, 2)).astype("float32")
        noise = tfvn.distributions.noise_law("bernoulli", keep_probability=1 - rate)
        layer = tfvn.NoisyConv2D(
            16,
            2,
            noise=noise,
            structure="filters",
            normalize=normalize,
            bias_initializer="ones",
            activation="relu",
        )
        twin = keras.layers.Conv2D(16, 2, use_bias=False)
        layer(inputs), twin(inputs)
        twin.set_weights(layer.get_weights()[:1])
        dropped = keras.layers.SpatialDropout2D(rate, seed=3)(
            twin(inputs), training=True
        )
        mask = tf.cast(
            tf.reduce_any(dropped != 0, axis=(1, 2), keepdims=True), "float32"
        )
        assert 0 < np.sum(mask) < 16
        monkeypatch.setattr(base.noise_laws, "sample", lambda law, shape, seed: mask)
        scale = 1.0 if normalize else 1 - rate
        expected = tf.nn.relu(scale * dropped + 1.0)
        np.testing.assert_allclose(layer(inputs, training=True), expected, atol=1e-5)


class TestResidual:
    @pytest.mark.parametrize("structure", ["depth", "ard", "depth_and_ard"])
    def test_moments(self, structure):
        kernel = np.random.default_rng(0).normal(size=(3, 3)).astype("float32")
        block = keras.layers.Dense(3, use_bias=False)
        is_joint = structure == "depth_and_ard"
        layer = tfvn.NoisyResidual(
            block, FIRST, structure, SECOND if is_joint else None, seed=1
        )
        layer.build((None, 3))
        block.set_weights([kernel])
        parts = TestDense.X.T * kernel
        variance = {
            "depth": VARIANCE * np.square(parts.sum(0)),
            "ard": VARIANCE * np.square(parts).sum(0),
            "depth_and_ard": joint(parts),
        }[structure]
        samples = examples(layer, TestDense.X)
        assert_moments(samples, TestDense.X[0] + parts.sum(0), variance)

    def test_depth_is_stochastic_depth(self, monkeypatch):
        block = keras.layers.Dense(4, activation="relu", use_bias=False)
        layer = tfvn.NoisyResidual(block, SECOND, normalize=False)
        inputs = np.random.default_rng(0).normal(size=(6, 4)).astype("float32")
        layer(inputs)
        kept = tf.constant([[1.0], [0.0], [1.0], [1.0], [0.0], [1.0]])
        monkeypatch.setattr(base.noise_laws, "sample", lambda law, shape, seed: kept)
        outputs = layer(inputs, training=True).numpy()
        np.testing.assert_allclose(outputs, inputs + kept * block(inputs), atol=1e-6)
        np.testing.assert_array_equal(outputs[1], inputs[1])


@pytest.mark.parametrize(("normalize", "factor"), [(True, 1.0), (False, 2.0 * 0.8)])
def test_both_noises_are_normalized_or_none(normalize, factor):
    inputs = np.random.default_rng(0).normal(size=(2, 3, 3, 2)).astype("float32")
    options = {"noise": FIRST, "normalize": normalize}
    layer = tfvn.NoisyConv2D(
        3,
        2,
        filter_noise=SECOND,
        structure="channels_and_filters",
        use_bias=False,
        **options,
    )
    outputs = layer(inputs).numpy()
    expected = factor * keras.ops.conv(inputs, layer.kernel)
    np.testing.assert_allclose(outputs, expected, rtol=1e-5, atol=1e-5)
    block = keras.layers.Dense(2, use_bias=False)
    residual = tfvn.NoisyResidual(
        block, depth_noise=SECOND, structure="depth_and_ard", **options
    )
    expected = residual(inputs) - inputs
    np.testing.assert_allclose(expected, factor * block(inputs), rtol=1e-4, atol=1e-5)


class TestLSTM:
    def layer(self, gates, input_gate, features=3, **kwargs):
        """Returns an LSTM whose output is the product of two affine functions.

        Activations are the identity, the forget gate is 0 and the output gate 1.
        """
        layer = tfvn.NoisyLSTM(
            1,
            "linear",
            "linear",
            noise=FIRST,
            gates=gates,
            return_sequences=True,
            seed=1,
            **kwargs,
        )
        layer.build((None, None, features))
        kernel = np.zeros((features, 4), "float32")
        kernel[:, 0] = input_gate
        kernel[:, 2] = TestDense.W[:features, 0]
        bias = np.float32([1.0, 0.0, 0.5, 1.0])
        layer.set_weights([kernel, np.zeros((1, 4)), bias])
        return layer

    @pytest.mark.parametrize("gates", ["tied", "untied"])
    def test_moments(self, gates):
        samples = examples(self.layer(gates, 0.0), TestDense.X[:, np.newaxis])[:, 0]
        parts = TestDense.X[0] * TestDense.W[:, 0]
        assert_moments(samples, parts.sum() + 0.5, VARIANCE * np.square(parts).sum())

    @pytest.mark.parametrize("gates", ["tied", "untied"])
    def test_gates_share_noise_or_do_not(self, gates):
        other = np.float32([0.4, -0.6, 1.0])
        samples = examples(self.layer(gates, other), TestDense.X[:, np.newaxis])[
            :, 0, 0
        ]
        first, second = TestDense.X[0] * other, TestDense.X[0] * TestDense.W[:, 0]
        covariance = VARIANCE * np.sum(first * second)
        expected = (first.sum() + 1.0) * (second.sum() + 0.5)
        assert abs(covariance) > 0.1
        assert_mean(samples, expected + (covariance if gates == "tied" else 0.0))

    @pytest.mark.parametrize("gates", ["tied", "untied"])
    @pytest.mark.parametrize("how", ["eager", "graph", "unroll"])
    def test_one_draw_per_sequence(self, gates, how):
        layer = self.layer(gates, 0.3, unroll=how == "unroll")
        inputs = np.repeat(TestDense.X[:, np.newaxis], 6, axis=1).repeat(4, axis=0)
        call = tf.function(layer) if how == "graph" else layer
        outputs = call(inputs, training=True).numpy()[..., 0]
        # All steps have the same inputs and no memory: they differ by their noise only.
        np.testing.assert_allclose(outputs, outputs[:, :1].repeat(6, axis=1), rtol=1e-5)
        assert len(np.unique(outputs[:, 0])) == 4
        again = call(inputs, training=True).numpy()[..., 0]
        assert np.all(again != outputs)

    @pytest.mark.parametrize("wrap", ["bidirectional", "stacked", "masked"])
    def test_one_draw_per_sequence_in_what_keras_has_for_it(self, wrap):
        layer = self.layer("tied", 0.3)
        inputs = np.repeat(TestDense.X[:, np.newaxis], 6, axis=1).repeat(4, axis=0)
        if wrap == "bidirectional":
            call = keras.layers.Bidirectional(layer)
            call(inputs)
            for direction in (call.forward_layer, call.backward_layer):
                direction.set_weights(layer.get_weights())
        elif wrap == "stacked":
            other = self.layer("untied", 0.3, features=1).cell
            call = keras.layers.RNN([layer.cell, other], return_sequences=True)
        else:
            call = keras.Sequential([keras.layers.Masking(), layer])
            inputs[:, 4:] = 0.0
        outputs = call(inputs, training=True).numpy()
        np.testing.assert_allclose(outputs, outputs[:, :1].repeat(6, axis=1), rtol=1e-5)
        assert len(np.unique(outputs[:, 0, 0])) == 4
        again = tf.function(call)(inputs, training=True).numpy()
        assert np.all(again != outputs)

    @pytest.mark.parametrize("gates", ["tied", "untied"])
    def test_noise_does_not_depend_on_the_length(self, gates):
        inputs = np.random.default_rng(0).normal(size=(4, 7, 3)).astype("float32")
        long, short = (
            self.layer(gates, 0.3)(inputs[:, :length], training=True).numpy()
            for length in (7, 2)
        )
        np.testing.assert_allclose(short, long[:, :2], rtol=1e-5)

    def test_a_cell_by_itself_draws_in_each_call(self):
        cell = tfvn.NoisyLSTMCell(3, noise=FIRST)
        inputs, states = np.ones((2, 4), "float32"), [np.zeros((2, 3), "float32")] * 2
        quiet, _ = cell(inputs, states)
        first, second = (cell(inputs, states, training=True)[0] for _ in range(2))
        assert np.any(first.numpy() != second.numpy())
        np.testing.assert_array_equal(cell(inputs, states)[0], quiet)
