"""Every structure of the noise family through what a Keras layer is asked to do."""

import inspect
import itertools
import json
import pathlib
import tempfile

import harness
import keras
import numpy as np
import pytest
import tensorflow as tf
from noise_cases import CASES
from tensorflow_probability import distributions as tfd

import tfvn
from tfvn import passes

with_each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)

NO_NOISE = {
    "bernoulli": tfvn.distributions.noise_law("bernoulli", keep_probability=1.0),
    "gaussian": tfvn.distributions.noise_law("gaussian", stddev=0.0),
}


def noisy(model, inputs):
    """Returns a model's outputs with the noise that it starts with."""
    harness.reset_noise(model)
    outputs = model(inputs, training=True).numpy()
    harness.reset_noise(model)
    return outputs


@with_each_case
class TestAsALayer:
    def test_config(self, case):
        layer = case.make()
        config = layer.get_config()
        again = type(layer).from_config(json.loads(json.dumps(config)))
        assert again.get_config() == config
        assert config["name"] == again.name
        if not isinstance(layer, keras.layers.RNN) or isinstance(layer, tfvn.NoisyLSTM):
            taken = {*inspect.signature(type(layer)).parameters} - {
                *("kwargs", "use_cudnn", "activity_regularizer")
            }
            assert taken <= {*config}
            serialized = keras.saving.serialize_keras_object(layer)
            assert serialized["registered_name"] == f"tfvn>{type(layer).__name__}"

    def test_shapes(self, case):
        layer, inputs = case.make(), case.data()
        twin = case.twin()
        expected = tuple(twin.compute_output_shape(case.input_shape))
        assert tuple(layer.compute_output_shape(case.input_shape)) == expected
        symbolic = layer(keras.Input(case.input_shape[1:]))
        assert symbolic.shape == (None, *expected[1:])
        for training in (True, False):
            outputs = layer(inputs, training=training)
            assert tuple(outputs.shape) == expected
            assert outputs.dtype == "float32"
        assert sum(len(part._seed_generators) for part in layer._flatten_layers()) == 1
        flags = [
            part.noise_per_example
            for part in layer._flatten_layers()
            if hasattr(part, "noise_per_example")
        ]
        assert flags
        assert all(flag == case.per_example for flag in flags)

    def test_saving(self, case):
        model, inputs = case.model(), case.data()
        for variable in model.trainable_variables:
            variable.assign(variable + 0.1)
        quiet, outputs = model(inputs).numpy(), noisy(model, inputs)
        assert np.any(outputs != quiet)
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory) / "model.keras"
            model.save(path)
            loaded = keras.models.load_model(path)
            np.testing.assert_array_equal(loaded(inputs), quiet)
            np.testing.assert_array_equal(noisy(loaded, inputs), outputs)
            path = pathlib.Path(directory) / "model.weights.h5"
            model.save_weights(path)
            other = case.model()
            other.load_weights(path)
            np.testing.assert_array_equal(noisy(other, inputs), outputs)

    def test_acts_in_training_and_in_an_ensemble(self, case):
        layer, inputs = case.make(), case.data()
        quiet = layer(inputs).numpy()
        np.testing.assert_array_equal(layer(inputs, training=False), quiet)
        first, second = (layer(inputs, training=True).numpy() for _ in range(2))
        assert np.mean(first == quiet) < 0.5
        assert np.mean(first == second) < 0.5
        with passes.changed(draws_noise=True):
            drawn = layer(inputs).numpy()
            traced = tf.function(layer)(inputs)
        assert np.mean(drawn == quiet) < 0.5
        assert np.mean(traced.numpy() == drawn) < 0.5
        np.testing.assert_array_equal(layer(inputs), quiet)

    def test_examples_share_noise_or_do_not(self, case):
        layer = case.make()
        inputs = np.repeat(case.data()[:1], 8, axis=0)
        outputs = layer(inputs, training=True).numpy()
        if case.per_example:
            for index in range(1, 8):
                assert np.any(np.abs(outputs[index] - outputs[0]) > 1e-3)
        else:
            np.testing.assert_allclose(outputs, outputs[:1].repeat(8, 0), rtol=1e-5)


class TestTwin:
    @pytest.mark.parametrize("noise", NO_NOISE)
    @with_each_case
    def test_without_variance(self, case, noise):
        """Outputs and gradients are those of the Keras twin."""
        layer, twin = case.make(NO_NOISE[noise], normalize=False), case.twin()
        inputs = tf.constant(case.data())
        layer(inputs)
        twin(inputs)
        layer.set_weights(twin.get_weights())
        results = []
        for one in (layer, twin):
            with tf.GradientTape() as tape:
                tape.watch(inputs)
                outputs = one(inputs, training=True)
                loss = tf.reduce_sum(tf.sin(outputs))
            sources = [inputs, *(v.value for v in one.trainable_variables)]
            results.append([outputs, *tape.gradient(loss, sources)])
        for ours, theirs in zip(*results, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-5)

    @with_each_case
    def test_at_inference(self, case):
        layer, twin, inputs = case.make("half_cauchy"), case.twin(), case.data()
        layer(inputs)
        twin(inputs)
        layer.set_weights(twin.get_weights())
        np.testing.assert_allclose(layer(inputs), twin(inputs), atol=1e-6)

    def test_lstm_passes_arguments_on(self):
        layer = tfvn.NoisyLSTM(
            3,
            "relu",
            recurrent_dropout=0.5,
            dropout=0.2,
            seed=3,
            go_backwards=True,
            dtype="float64",
            trainable=False,
        )
        twin = keras.layers.LSTM(3, "relu", go_backwards=True, dtype="float64")
        inputs = np.random.default_rng(0).normal(size=(2, 4, 5))
        layer(inputs), twin(inputs)
        layer.set_weights(twin.get_weights())
        np.testing.assert_allclose(layer(inputs), twin(inputs), atol=1e-12)
        assert layer.cell.recurrent_dropout == 0.5
        assert layer.cell.seed == 3
        assert not layer.trainable_variables
        assert np.any(layer(inputs, training=True) != layer(inputs))

    def test_lstm_takes_an_implementation(self):
        layer = tfvn.NoisyLSTM(3, implementation=1)
        assert layer.cell.implementation == 1
        assert layer.cell.name == f"{layer.name}_cell"

    def test_lstm_cell_takes_arguments_by_position(self):
        twin = harness.twin_arguments(tfvn.NoisyLSTMCell)
        values = {name: parameter.default for name, parameter in twin.items()}
        values |= {"units": 3, "activation": "relu", "seed": 5}
        config = tfvn.NoisyLSTMCell(*values.values()).get_config()
        assert config["seed"] == 5
        named = tfvn.NoisyLSTMCell(**values, name=config["name"])
        assert config == named.get_config()
        assert named.seed_generator._initial_seed == 5

    @pytest.mark.parametrize("gates", ["tied", "untied"])
    def test_lstm_has_the_dropout_of_keras_too(self, gates):
        inputs = np.ones((4, 3, 50), "float32")
        layer = tfvn.NoisyLSTM(
            8, noise=NO_NOISE["gaussian"], gates=gates, dropout=0.5, seed=1
        )
        quiet = layer(inputs)
        assert np.any(np.abs(layer(inputs, training=True) - quiet) > 1e-3)
        recurrent = tfvn.NoisyLSTM(
            8, noise=NO_NOISE["gaussian"], gates=gates, recurrent_dropout=0.5, seed=1
        )
        quiet = recurrent(inputs)
        assert np.any(np.abs(recurrent(inputs, training=True) - quiet) > 1e-3)


def check_training(case, **options):
    model = case.model()
    inputs, targets = case.data(), np.full((8, 1), 2.0, "float32")
    model.compile(keras.optimizers.Adam(0.05), "mse", **options)
    before = [v.numpy() for v in model.trainable_variables]
    first = model.evaluate(inputs, targets, verbose=0)
    history = model.fit(inputs, targets, batch_size=8, epochs=8, verbose=0)
    assert np.all(np.isfinite(history.history["loss"]))
    assert model.evaluate(inputs, targets, verbose=0) < first
    for variable, value in zip(model.trainable_variables, before, strict=True):
        assert np.all(np.isfinite(variable))
        assert np.any(variable.numpy() != value)


def check_mixed_precision(case, policy):
    keras.config.set_dtype_policy(policy)
    layer = case.make("half_cauchy")
    inputs = case.data()
    half = policy.removeprefix("mixed_")
    assert layer(keras.Input(case.input_shape[1:])).dtype == half
    for _ in range(3):
        outputs = layer(inputs, training=True)
        assert outputs.dtype == half
        assert np.all(np.isfinite(tf.cast(outputs, "float32")))
    assert all(v.dtype == "float32" for v in layer.trainable_variables)
    check_training(case, jit_compile=False)


def check_export(case):
    model, inputs = case.model(), case.data()
    with tempfile.TemporaryDirectory() as directory:
        model.export(directory, verbose=False)
        served = tf.saved_model.load(directory)
        np.testing.assert_allclose(served.serve(inputs), model(inputs), atol=1e-6)

        def draw(inputs):
            with passes.changed(draws_noise=True):
                return model(inputs)

        archive = keras.export.ExportArchive()
        archive.track(model)
        signature = [tf.TensorSpec((None, *case.input_shape[1:]), tf.float32)]
        archive.add_endpoint("draw", draw, input_signature=signature)
        archive.write_out(f"{directory}/ensemble", verbose=False)
        served = tf.saved_model.load(f"{directory}/ensemble")
        first, second = (served.draw(inputs).numpy() for _ in range(2))
        assert np.any(first != second)


def check_mirrored(case):
    strategy = harness.two_replicas()
    inputs, targets = case.data(), np.ones((8, 1), "float32")
    with strategy.scope():
        model = case.model()
        model.compile("sgd", "mse", jit_compile=False)
    layer = model.layers[0]
    step = tf.function(lambda x: layer(x, training=True))
    first, second = strategy.run(step, args=(tf.constant(inputs),)).values
    assert np.mean(first.numpy() == second.numpy()) < 0.5
    history = model.fit(inputs, targets, batch_size=8, verbose=0)
    assert np.isfinite(history.history["loss"][0])


REGIMES = {
    "graph": lambda case: check_training(case, jit_compile=False),
    "jit": lambda case: check_training(case, jit_compile=True),
    "mixed_float16": lambda case: check_mixed_precision(case, "mixed_float16"),
    "mixed_bfloat16": lambda case: check_mixed_precision(case, "mixed_bfloat16"),
    "export": check_export,
    "mirrored": check_mirrored,
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("name", "regime"), [*zip(CASES, itertools.cycle(REGIMES), strict=False)]
)
def test_regimes_in_turn(name, regime):
    REGIMES[regime](CASES[name])


@pytest.mark.exhaustive
@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("name", CASES)
def test_every_regime(name, regime):
    REGIMES[regime](CASES[name])


@pytest.mark.parametrize("noise", tfvn.distributions.noise_aliases())
def test_every_law_under_xla(noise):
    layer = tfvn.NoisyDense(3, noise=noise)
    inputs = np.ones((8, 4), "float32")
    layer(inputs)

    @tf.function(jit_compile=True)
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(inputs, training=True) ** 2)
        return tape.gradient(loss, layer.kernel.value)

    first, second = step().numpy(), step().numpy()
    assert np.all(np.isfinite(first))
    assert np.any(first != second)


def test_any_distribution_is_saved_and_loaded():
    layer = tfvn.MultiplicativeNoise(tfd.Gamma(3.0, 2.0), normalize=False)
    again = tfvn.MultiplicativeNoise.from_config(layer.get_config())
    np.testing.assert_allclose(again(np.ones(2)), 1.5)


class TestMultiplicativeNoise:
    def test_normalize(self):
        ones = np.ones((1, 1), "float32")
        law = tfvn.distributions.noise_law("rayleigh", scale=2.0)
        raw = tfvn.MultiplicativeNoise(law, normalize=False, seed=1)
        divided = tfvn.MultiplicativeNoise(law, seed=1)
        mean = 2.0 * np.sqrt(np.pi / 2)
        np.testing.assert_allclose(raw(ones), mean, rtol=1e-6)
        np.testing.assert_allclose(divided(ones), 1.0)
        np.testing.assert_allclose(
            raw(ones, training=True), mean * divided(ones, training=True), rtol=1e-5
        )

    def test_median_stands_in_for_a_mean_that_is_none(self):
        law = tfvn.distributions.noise_law("half_cauchy", scale=3.0)
        layer = tfvn.MultiplicativeNoise(law, normalize=False)
        np.testing.assert_allclose(layer(np.ones((1, 1))), 3.0, rtol=1e-6)

    @pytest.mark.parametrize(
        ("noise_shape", "axis", "per_example"),
        [((None, 1, 3), 1, True), ((1, 4, None), 0, False)],
    )
    def test_noise_shape(self, noise_shape, axis, per_example):
        layer = tfvn.MultiplicativeNoise("gaussian", noise_shape)
        outputs = layer(np.ones((2, 4, 3)), training=True).numpy()
        first = outputs.take([0], axis=axis)
        np.testing.assert_array_equal(outputs, np.broadcast_to(first, outputs.shape))
        assert len(np.unique(first)) == first.size
        assert layer.noise_per_example == per_example

    def test_keeps_masks(self):
        layer = tfvn.MultiplicativeNoise()
        embedded = keras.layers.Embedding(5, 2, mask_zero=True)(np.array([[1, 0]]))
        outputs = layer(embedded, training=True)
        assert keras.src.backend.get_keras_mask(outputs).numpy().tolist() == [
            [True, False]
        ]

    def test_half_precision_ends_where_a_product_does(self):
        layer = tfvn.MultiplicativeNoise("half_cauchy", dtype="float16", seed=1)
        outputs = layer(np.full((100_000,), 200.0, "float16"), training=True).numpy()
        assert np.all(np.isfinite(outputs))
        assert outputs.max() == 200 * 255


@pytest.mark.parametrize("structure", ["depth", "ard", "depth_and_ard"])
def test_residual_passes_masks_on(structure):
    block = keras.layers.LSTM(3, return_sequences=True)
    noise = tfvn.distributions.noise_law("gaussian", stddev=0.0)
    layer = tfvn.NoisyResidual(block, noise=noise, structure=structure)
    embedding = keras.layers.Embedding(5, 3, mask_zero=True)
    inputs = embedding(np.array([[1, 2, 0, 3], [4, 0, 0, 0]]))
    quiet = layer(inputs)
    np.testing.assert_allclose(layer(inputs, training=True), quiet, atol=1e-6)
    with passes.changed(draws_noise=True):
        np.testing.assert_allclose(layer(inputs), quiet, atol=1e-6)
    unmasked = layer(tf.identity(inputs))
    assert np.any(np.abs(unmasked - quiet) > 1e-4)


def test_channels_first():
    inputs = np.random.default_rng(0).normal(size=(2, 5, 5, 3)).astype("float32")
    layer = tfvn.NoisyConv2D(3, 2, bias_initializer="random_normal", seed=1)
    first = tfvn.NoisyConv2D(
        3, 2, bias_initializer="random_normal", data_format="channels_first", seed=1
    )
    first.build((2, 3, 5, 5))
    expected = layer(inputs, training=True)
    first.set_weights(layer.get_weights())
    # Convolutions of such inputs are for other devices, but for XLA.
    compiled = tf.function(lambda x: first(x, training=True), jit_compile=True)
    outputs = compiled(np.moveaxis(inputs, -1, 1)).numpy()
    again = tf.function(lambda x: layer(x, training=True), jit_compile=True)
    harness.reset_noise(layer)
    harness.reset_noise(first)
    outputs = compiled(np.moveaxis(inputs, -1, 1)).numpy()
    expected = again(inputs).numpy()
    np.testing.assert_allclose(np.moveaxis(outputs, 1, -1), expected, atol=1e-5)
