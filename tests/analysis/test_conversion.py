"""Models get random weights and lose them again, and keep all they have learned."""

import conversion_models as models
import keras
import numpy as np
import pytest
import tensorflow as tf
from conversion_models import MODELS, data, rows
from keras import layers

import tfvn
from tfvn.layers.base import stochastic_layers


def classes(model):
    return [type(layer) for layer in model._flatten_layers()]


def configs(model):
    """The configs of all layers; a written model names its layers anew each time."""
    found = [layer.get_config() for layer in model.layers]
    is_written = isinstance(model, models.Written)
    return [{**c, "name": None, "layers": None} if is_written else c for c in found]


def assert_same_weights(first, second):
    for mine, its in zip(first.get_weights(), second.get_weights(), strict=True):
        np.testing.assert_array_equal(mine, its)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
def test_there_and_back(make, tmp_path):
    model = make()
    x, before = data(model), [w.copy() for w in model.get_weights()]
    expected = model.predict(x, verbose=0)
    converted = tfvn.from_deterministic(model)
    assert isinstance(converted, tfvn.Model | tfvn.Sequential)
    np.testing.assert_allclose(tfvn.mean_predict(converted, x), expected, atol=1e-5)
    names = [layer.name for layer in model._flatten_layers()]
    assert converted.name == model.name
    assert {layer.name for layer in stochastic_layers(converted)} <= {
        *names,
        *(f"{name}_cell" for name in names),
    }
    back = tfvn.to_deterministic(converted)
    assert classes(back) == classes(model)
    assert configs(back) == configs(model)
    assert_same_weights(back, model)
    np.testing.assert_array_equal(back.predict(x, verbose=0), expected)
    converted.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert type(loaded) is type(converted)
    assert_same_weights(loaded, converted)
    np.testing.assert_allclose(tfvn.mean_predict(loaded, x), expected, atol=1e-5)
    for now, then in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(now, then)


@pytest.mark.one_in(8)
@pytest.mark.parametrize(
    "make", [models.dense, models.attention, models.residual, models.written_model]
)
def test_converted_models_draw_train_and_are_exported(make, tmp_path):
    model = make()
    x = data(model)
    y = model.predict(x, verbose=0)
    model.compile("adam", "mse")
    converted = tfvn.from_deterministic(model, scale=0.5)
    answer = tfvn.ensemble_predict(converted, x, 10, seed=1, outputs="regression")
    assert answer.std.min() > 0
    history = converted.fit(x, y, verbose=0, epochs=2).history
    divergences = [float(q.kl_divergence()) for q in stochastic_layers(converted)]
    np.testing.assert_allclose(history["kl"][-1], sum(divergences), rtol=0.01)
    # Only a model with a graph knows the shape of its inputs.
    is_written = make is models.written_model
    signature = tf.TensorSpec((None, *x.shape[1:]), x.dtype) if is_written else None
    path = tfvn.export_ensemble(
        converted,
        tmp_path,
        num_samples=4,
        outputs="regression",
        input_signature=signature,
    )
    served = tf.saved_model.load(str(path)).signatures["seeded"]
    seeds = np.arange(2 * len(x)).reshape(-1, 2).astype("int32")
    by_row = tfvn.ensemble_predict(converted, x, 4, seed=seeds, outputs="regression")
    (name,) = [n for n in served.structured_input_signature[1] if "seed" not in n]
    (seed,) = [n for n in served.structured_input_signature[1] if "seed" in n]
    outputs = served(**{name: tf.constant(x), seed: tf.constant(seeds)})
    np.testing.assert_allclose(outputs["mean"], by_row.mean, atol=1e-4)


class TestScales:
    def kernel(self, posterior, **kwargs):
        model = models.dense()
        converted = tfvn.from_deterministic(model, posterior, scale=0.2, **kwargs)
        return model.layers[0].kernel.numpy(), converted.layers[0]

    def expected(self, kernel, scale=0.2):
        smallest = 0.1 * np.sqrt(np.mean(kernel**2))
        return scale * np.maximum(np.abs(kernel), smallest)

    def test_mean_field_scales_are_relative_with_a_floor(self):
        kernel, layer = self.kernel("mean_field")
        scales = layer.posterior_distribution().stddev()
        np.testing.assert_allclose(scales, self.expected(kernel), rtol=1e-5)

    def test_a_zero_weight_can_be_trained(self):
        model = models.dense()
        kernel = model.layers[0].kernel.numpy()
        kernel[0] = 0.0
        model.layers[0].kernel.assign(kernel)
        layer = tfvn.from_deterministic(model).layers[0]
        scales = layer.posterior_distribution().stddev().numpy()
        np.testing.assert_allclose(scales, self.expected(kernel, 0.1), rtol=1e-5)
        assert scales.min() > 0

    def test_additive_dropout_has_the_scales_of_mean_field(self):
        posterior = tfvn.posteriors.GaussianDropout(parameterization="additive")
        kernel, layer = self.kernel(posterior)
        scales = layer.posterior_distribution().stddev()
        np.testing.assert_allclose(scales, self.expected(kernel), rtol=1e-5)

    @pytest.mark.parametrize("alpha", ["layer", "neuron", "weight"])
    def test_multiplicative_dropout_has_alpha_of_the_square(self, alpha):
        kernel, layer = self.kernel(tfvn.posteriors.GaussianDropout(alpha=alpha))
        scales = layer.posterior_distribution().stddev()
        np.testing.assert_allclose(scales, 0.2 * np.abs(kernel), rtol=1e-5)

    @pytest.mark.parametrize("rank", [1, 3])
    def test_tied_scales_are_the_nearest_of_their_rank(self, rank):
        kernel, layer = self.kernel(tfvn.posteriors.KTied(rank=rank))
        scales = layer.posterior_distribution().stddev().numpy()
        expected = self.expected(kernel)
        values = np.linalg.svd(expected, compute_uv=False)
        bound = np.sum(values[rank:] ** 2)
        error = np.sum((scales - expected) ** 2)
        assert bound <= error * (1 + 1e-4)
        assert error < (1.01 * bound if rank == 1 else 0.5 * np.sum(values[1:] ** 2))

    def test_tied_scales_of_a_convolution_are_those_of_its_matrix(self):
        model = models.residual()
        kernel = model.get_layer("shared").kernel.numpy()
        converted = tfvn.from_deterministic(model, "k_tied", ["shared"])
        layer = converted.get_layer("shared")
        matrix = self.expected(kernel, 0.1).reshape(-1, kernel.shape[-1])
        found = layer.posterior_distribution().stddev().numpy().reshape(matrix.shape)
        values = np.linalg.svd(matrix, compute_uv=False)
        assert np.sum((found - matrix) ** 2) < np.sum(values[1:] ** 2)

    def test_zero_biases_get_the_scale_of_small_weights(self):
        model = models.dense()
        model.layers[0].bias.assign(np.zeros(5))
        converted = tfvn.from_deterministic(model, bias_posterior="mean_field")
        layer = converted.layers[0]
        np.testing.assert_array_equal(layer.bias_posterior.mean(), np.zeros(5))
        size = np.sqrt(np.mean(model.layers[0].kernel.numpy() ** 2))
        scales = layer.posterior_distribution("bias").stddev()
        np.testing.assert_allclose(scales, np.full(5, 0.01 * size), rtol=1e-5)
        back = tfvn.to_deterministic(converted)
        assert_same_weights(back, model)

    def test_a_kernel_of_zeros_has_scales_of_the_fan_in(self):
        model = models.dense()
        model.layers[0].kernel.assign(np.zeros((4, 5)))
        layer = tfvn.from_deterministic(model).layers[0]
        scales = layer.posterior_distribution().stddev()
        np.testing.assert_allclose(scales, np.full((4, 5), 0.1 * 0.1 * 0.5), rtol=1e-5)

    def test_noise_of_zeros_is_refused(self):
        model = models.dense()
        model.layers[0].kernel.assign(np.zeros((4, 5)))
        with pytest.raises(ValueError, match="all zero"):
            tfvn.from_deterministic(model, "gaussian_dropout")


class TestWhatIsKept:
    def test_arguments_flags_and_types(self):
        model = models.dense()
        model.layers[0].trainable = False
        layer = tfvn.from_deterministic(model, prior="laplace", kl_weight=0.5).layers[0]
        assert not layer.trainable
        assert layer.name == "first"
        assert isinstance(layer.kernel_regularizer, keras.regularizers.L2)
        assert isinstance(layer.kernel_constraint, keras.constraints.MaxNorm)
        assert layer.prior == "laplace"
        assert float(layer.kl_weight.numpy()) == 0.5

    def test_a_frozen_model_with_a_layer_that_is_not(self):
        model = models.dense()
        model.trainable = False
        model.layers[-2].trainable = True
        converted = tfvn.from_deterministic(model)
        assert converted.trainable_variables == []
        assert converted.get_layer("head").trainable

    def test_mixed_precision(self):
        keras.config.set_dtype_policy("mixed_bfloat16")
        model = models.dense()
        converted = tfvn.from_deterministic(model)
        assert converted.layers[0].compute_dtype == "bfloat16"
        assert_same_weights(tfvn.to_deterministic(converted), model)

    def test_how_it_is_compiled(self):
        model = models.dense()
        model.compile(keras.optimizers.SGD(0.25), "mse", metrics=["mae"])
        converted = tfvn.from_deterministic(model)
        assert converted.loss == "mse"
        assert float(converted.optimizer.learning_rate) == 0.25
        assert converted.optimizer is not model.optimizer
        converted.compile({"mean": keras.optimizers.SGD(0.5), "scale": "adam"}, "mse")
        back = tfvn.to_deterministic(converted)
        assert float(back.optimizer.learning_rate) == 0.5
        assert type(back.optimizer) is keras.optimizers.SGD

    def test_a_layer_used_twice_stays_one(self):
        converted = tfvn.from_deterministic(models.residual())
        assert len(stochastic_layers(converted)) == 3
        assert len(converted.get_layer("shared")._inbound_nodes) == 2

    def test_every_layer_has_a_seed_of_its_own(self):
        converted = [tfvn.from_deterministic(models.residual(), seed=7) for _ in "ab"]
        seeds = [[q.seed for q in stochastic_layers(model)] for model in converted]
        assert seeds[0] == seeds[1]
        assert len(set(seeds[0])) == 3

    def test_low_rank_adapters_are_merged(self):
        model = keras.Sequential([keras.Input((4,)), layers.Dense(5)])
        model.layers[0].enable_lora(2)
        model.layers[0].lora_kernel_b.assign(np.ones((2, 5)))
        x = data(model)
        converted = tfvn.from_deterministic(model)
        for plain in (tfvn.to_deterministic(converted), converted):
            answer = tfvn.mean_predict(plain, x)
            np.testing.assert_allclose(answer, model.predict(x, verbose=0), atol=1e-5)

    def test_heads_keep_their_likelihood(self):
        head = tfvn.layers.NormalHead(2, name="head")
        model = keras.Sequential([keras.Input((4,)), layers.Dense(3, "relu"), head])
        models.set_weights(model)
        x = data(model)
        converted = tfvn.from_deterministic(
            model, "k_tied", "last", bias_posterior="mean_field", estimator="weights"
        )
        assert type(converted.layers[-1]) is tfvn.layers.NormalHead
        assert converted.layers[-1].posterior.alias == "k_tied"
        expected = model.predict(x, verbose=0)
        np.testing.assert_allclose(tfvn.mean_predict(converted, x), expected, atol=1e-5)
        clone = type(head).from_config(converted.layers[-1].get_config())
        assert clone.dense.bias_posterior.alias == "mean_field"

    def test_noise_layers_stay(self):
        noise, noisy = tfvn.MultiplicativeNoise(), tfvn.NoisyDense(3)
        model = keras.Sequential(
            [keras.Input((4,)), layers.Dense(3), noise, noisy, tfvn.MeanFieldDense(2)]
        )
        x = data(model)
        back = tfvn.to_deterministic(model)
        assert [type(layer) for layer in back.layers[1:3]] == [type(noise), type(noisy)]
        expected = tfvn.mean_predict(model, x)
        np.testing.assert_allclose(back.predict(x, verbose=0), expected, atol=1e-6)

    def test_several_inputs_and_outputs_keep_their_names(self):
        first, second = (
            keras.Input((3,), name="first"),
            keras.Input((2,), name="second"),
        )
        shared = layers.Dense(4, name="shared")
        x = layers.Concatenate()([shared(first), layers.Dense(4)(second)])
        outputs = {"a": layers.Dense(1, name="a")(x), "b": layers.Dense(2, name="b")(x)}
        model = models.functional({"first": first, "second": second}, outputs)
        model.compile("adam", {"a": "mse", "b": "mae"})
        x = {"first": rows(3), "second": rows(2)}
        expected = model.predict(x, verbose=0)
        converted = tfvn.from_deterministic(model, layers="last")
        assert {q.name for q in stochastic_layers(converted)} == {"a", "b"}
        for name, answer in tfvn.mean_predict(converted, x).items():
            np.testing.assert_allclose(answer, expected[name], atol=1e-5)
        assert {"loss", "elbo"} <= set(converted.fit(x, expected, verbose=0).history)


class TestEvaluate:
    """Right after the conversion nobody knows how many examples the original has seen."""

    def compiled(self, **kwargs):
        model = keras.Sequential([keras.Input((4,)), layers.Dense(3)])
        model.compile("sgd", "mse", metrics=["mae"])
        return model, tfvn.from_deterministic(model, scale=1e-4, **kwargs)

    @pytest.mark.parametrize("method", ["evaluate", "test_on_batch", "train_on_batch"])
    def test_says_what_is_missing_in_one_sentence(self, method):
        _, converted = self.compiled()
        x, y = rows(4), rows(3)
        with pytest.raises(
            ValueError, match=r"from_deterministic\(.*train_size"
        ) as error:
            getattr(converted, method)(x, y)
        assert str(error.value).startswith("The KL must be divided by the number")
        assert "\n" not in str(error.value)

    def test_train_size_is_taken_and_saved(self, tmp_path):
        model, converted = self.compiled(train_size=50)
        x, y = rows(4), rows(3)
        converted.save(tmp_path / "model.keras")
        kl = float(converted.layers[0].kl_divergence())
        expected = model.evaluate(x, y, verbose=0)
        for each in (converted, keras.models.load_model(tmp_path / "model.keras")):
            found = each.evaluate(x, y, verbose=0)
            np.testing.assert_allclose(found[0], expected[0] + kl / 50, rtol=1e-3)
            np.testing.assert_allclose(found[1], expected[1], rtol=1e-2)
        converted.fit(x, y, verbose=0)
        assert converted.training_state.size.numpy() == len(x)

    def test_train_size_must_be_a_count(self):
        with pytest.raises(ValueError, match="Received: train_size=0"):
            self.compiled(train_size=0)


@pytest.mark.filterwarnings("ignore:.*tf.lite.Interpreter is deprecated")
def test_lite_model_predicts_with_the_means():
    model = models.residual()
    x = data(model)
    plain = tfvn.to_deterministic(tfvn.from_deterministic(model))
    content = tf.lite.TFLiteConverter.from_keras_model(plain).convert()
    interpreter = tf.lite.Interpreter(model_content=content)
    (inputs,), (outputs,) = (
        interpreter.get_input_details(),
        interpreter.get_output_details(),
    )
    interpreter.resize_tensor_input(inputs["index"], x.shape)
    interpreter.allocate_tensors()
    interpreter.set_tensor(inputs["index"], x)
    interpreter.invoke()
    found = interpreter.get_tensor(outputs["index"])
    np.testing.assert_allclose(found, model.predict(x, verbose=0), atol=1e-5)


def application(name, **arguments):
    """An architecture with random weights, an image, and its prediction for it."""
    shape = (32, 32, 3)
    make = getattr(keras.applications, name)
    model = make(weights=None, input_shape=shape, classes=10, **arguments)
    x = np.random.default_rng(0).uniform(0, 255, size=(2, *shape)).astype("float32")
    return model, x, model.predict(x, verbose=0)


APPLICATIONS = ["MobileNetV2", "ResNet50", "EfficientNetB0", "DenseNet121"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", APPLICATIONS)
def test_applications_there_and_back(name):
    model, x, expected = application(name)
    converted = tfvn.from_deterministic(model)
    np.testing.assert_allclose(tfvn.mean_predict(converted, x), expected, atol=1e-5)
    back = tfvn.to_deterministic(converted)
    assert classes(back) == classes(model)
    assert_same_weights(back, model)


# DenseNet121 alone would take minutes and more than 2 GB.
@pytest.mark.exhaustive
@pytest.mark.parametrize("name", APPLICATIONS[:3])
def test_applications_are_saved_and_exported(name, tmp_path):
    model, x, expected = application(name)
    converted = tfvn.from_deterministic(model)
    converted.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(tfvn.mean_predict(loaded, x), expected, atol=1e-5)
    path = tfvn.export_ensemble(converted, tmp_path / "export", num_samples=2)
    assert (path / "saved_model.pb").is_file()
