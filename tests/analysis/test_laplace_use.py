"""The Laplace approximation in models of all kinds, with all kinds of data, and errors."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from laplace_models import (
    STRUCTURES,
    TARGETS,
    WEIGHTS,
    X,
    assert_close,
    assert_predicts_alike,
    make,
    set_weights,
)
from laplace_reference import covariance_of, curvature, with_bias

import tfvn


def functional():
    first, second = keras.Input((2,), name="first"), keras.Input((2,), name="second")
    both = keras.layers.Concatenate()([first, second])
    hidden = keras.layers.Dense(4, activation="relu")(both)
    hidden = keras.layers.Dropout(0.5)(keras.layers.BatchNormalization()(hidden))
    outputs = keras.layers.Dense(3)(hidden)
    outputs = keras.layers.Activation("softmax", dtype="float32")(outputs)
    return keras.Model([first, second], outputs), [X[:, :2], X[:, 2:]]


def nested():
    inner = keras.Sequential(
        [keras.Input((4,)), keras.layers.Dense(5, activation="relu")]
    )
    head = keras.Sequential(
        [keras.Input((5,)), keras.layers.Dense(3), keras.layers.Softmax()]
    )
    inputs = keras.Input((4,))
    return keras.Model(inputs, head(inner(inputs))), X


def mixed_precision():
    policy = "mixed_float16"
    layers = [
        keras.layers.Dense(5, activation="relu", dtype=policy),
        keras.layers.Dense(3, dtype=policy),
        keras.layers.Activation("softmax", dtype="float32"),
    ]
    return keras.Sequential([keras.Input((4,)), *layers]), X


@pytest.mark.parametrize("make_model", [functional, nested, mixed_precision])
def test_models(make_model):
    model, x = make_model()
    set_weights(model)
    model.compile("sgd", "sparse_categorical_crossentropy", metrics=["accuracy"])
    before = [w.copy() for w in model.get_weights()]
    fitted = tfvn.last_layer_laplace(model, x, TARGETS["softmax"])
    assert isinstance(fitted, tfvn.Model | tfvn.Sequential)
    for old, new in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)
    tolerance = 5e-3 if make_model is mixed_precision else 1e-5
    assert_predicts_alike(fitted, model, x, tolerance)
    answer = tfvn.ensemble_predict(fitted, x, num_samples=3, seed=1)
    assert answer.mutual_information.max() > 1e-3


def test_positions_of_a_sequence_are_examples():
    words = np.array([[1, 2, 3, 0], [4, 1, 0, 0]])
    labels = np.array([[0, 1, 1, 0], [1, 0, 0, 0]])

    def sequences(head):
        layers = [keras.layers.Embedding(5, 3, mask_zero=True), head]
        model = keras.Sequential([keras.Input((4,), dtype="int32"), *layers])
        model.compile("sgd", "sparse_categorical_crossentropy")
        return set_weights(model)

    dense = keras.layers.Dense(2, activation="softmax")
    model = sequences(dense)
    fitted = tfvn.last_layer_laplace(model, words, labels, "full", prior_precision=1.0)
    table, kernel, bias = model.get_weights()
    real = words.ravel() > 0  # words, and no padding
    phi = with_bias(table[words.ravel()][real].astype("float64"))
    outputs = phi @ np.vstack([kernel, bias])
    matrix = curvature("softmax", "full", phi, outputs)
    expected = np.linalg.inv(matrix + np.eye(len(matrix)))
    assert_close(covariance_of(fitted.layers[-1].posterior), expected)
    wrapped = sequences(keras.layers.TimeDistributed(dense.__class__(2, "softmax")))
    wrapped.set_weights(model.get_weights())
    again = tfvn.last_layer_laplace(wrapped, words, labels, "full", prior_precision=1.0)
    assert_close(covariance_of(again.layers[-1].layer.posterior), expected)


class Batches(keras.utils.PyDataset):
    def __len__(self):
        return 3

    def __getitem__(self, index):
        rows = slice(14 * index, 14 * (index + 1))
        return X[rows], TARGETS["softmax"][rows], WEIGHTS[rows]


class TestData:
    def test_forms_of_data_give_the_same(self):
        model, y = make(), TARGETS["softmax"]
        expected = tfvn.last_layer_laplace(model, X, y, sample_weight=WEIGHTS)
        expected = expected.layers[-1].posterior
        dataset = tf.data.Dataset.from_tensor_slices((X, y, WEIGHTS)).batch(7)
        for found in (
            tfvn.last_layer_laplace(model, dataset),
            tfvn.last_layer_laplace(model, dataset.repeat(), steps=6),
            tfvn.last_layer_laplace(model, Batches()),
            tfvn.last_layer_laplace(
                model, X, y[:, None], sample_weight=list(WEIGHTS), batch_size=11
            ),
        ):
            posterior = found.layers[-1].posterior
            assert_close(posterior.prior_precision, expected.prior_precision)
            assert_close(
                posterior.log_marginal_likelihood, expected.log_marginal_likelihood
            )
            assert int(found.training_state.size.numpy()) == 40

    def test_an_example_of_weight_two_counts_twice(self):
        model, y = make("regression"), TARGETS["regression"]
        twice = np.repeat(np.arange(40), 1 + (np.arange(40) < 5))
        weights = 1.0 + (np.arange(40) < 5)
        expected = tfvn.last_layer_laplace(model, X[twice], y[twice])
        found = tfvn.last_layer_laplace(model, X, y, sample_weight=weights)
        expected, found = (m.layers[-1].posterior for m in (expected, found))
        for name, value in expected.get_config().items():
            assert_close(getattr(found, name), value)


class TestUse:
    def test_is_not_trained_and_leaves_the_loss(self):
        model = make()
        fitted = tfvn.last_layer_laplace(model, X, TARGETS["softmax"])
        layer = fitted.layers[-1]
        assert layer.trainable_variables == []
        assert not any(tfvn.variable_groups(fitted)[name] for name in ("mean", "scale"))
        kernel = layer.posterior.mean().numpy()
        history = fitted.fit(X, TARGETS["softmax"], verbose=0).history
        np.testing.assert_array_equal(layer.posterior.mean(), kernel)
        np.testing.assert_allclose(history["loss"], history["nll"], rtol=1e-6)
        kl = float(layer.kl_divergence())
        np.testing.assert_allclose(history["kl"], kl, rtol=1e-5)
        again = tfvn.last_layer_laplace(fitted, X, TARGETS["softmax"])
        assert_close(again.layers[-1].posterior.mean(), kernel)

    @pytest.mark.parametrize("hessian", STRUCTURES)
    def test_saved(self, hessian, tmp_path):
        model = make()
        model.compiled = False
        fitted = tfvn.last_layer_laplace(
            model, X, TARGETS["softmax"], hessian, outputs="probabilities"
        )
        fitted.save(tmp_path / "model.keras")
        again = keras.models.load_model(tmp_path / "model.keras")
        old, new = fitted.layers[-1].posterior, again.layers[-1].posterior
        assert new.get_config() == old.get_config()
        assert new.log_marginal_likelihood < 0
        seeds = np.arange(8).reshape(4, 2)
        expected, found = (
            tfvn.ensemble_predict(m, X[:4], num_samples=3, seed=seeds).mean
            for m in (fitted, again)
        )
        np.testing.assert_allclose(found, expected, rtol=1e-6)

    def test_exported(self, tmp_path):
        fitted = tfvn.last_layer_laplace(make(), X, TARGETS["softmax"])
        path = tfvn.export_ensemble(fitted, tmp_path / "model", num_samples=4)
        served = tf.saved_model.load(path).signatures["seeded"]
        seeds = np.arange(8, dtype="int32").reshape(4, 2)
        found = served(inputs=tf.constant(X[:4]), seed=tf.constant(seeds))
        expected = tfvn.ensemble_predict(fitted, X[:4], num_samples=4, seed=seeds)
        np.testing.assert_allclose(found["mean"], expected.mean, atol=1e-5)

    def test_sampled(self):
        fitted = tfvn.last_layer_laplace(make(), X, TARGETS["softmax"])
        draw = tfvn.sample_model(fitted, seed=1)
        last = draw.layers[-1]
        assert type(last) is keras.layers.Dense
        kernel, bias = last.get_weights()
        mean = fitted.layers[-1].posterior.mean().numpy()
        assert np.abs(np.vstack([kernel, bias]) - mean).min() > 0


def two_outputs():
    inputs = keras.Input((4,))
    outputs = [keras.layers.Dense(1)(inputs), keras.layers.Dense(1)(inputs)]
    return keras.Model(inputs, outputs)


def shared():
    dense, inputs = keras.layers.Dense(4), keras.Input((4,))
    return keras.Model(inputs, dense(dense(inputs)))


def untrained():
    model = make("regression")
    model.layers[-1].kernel.assign(np.zeros((5, 3)))
    model.layers[-1].bias.assign(np.zeros(3))
    return model


def quantized():
    model = make()
    model.layers[-1].quantize("int8")
    return model


def ending_with(*layers, shape=(4,), loss="mse"):
    model = keras.Sequential([keras.Input(shape), *layers])
    model.compile("sgd", loss)
    return model


Y = TARGETS["softmax"]
REFUSED = {
    "structure": (lambda: (make(), X, Y, "kfac"), {}, "`hessian` must be one of"),
    "precision": (
        lambda: (make(), X, Y),
        {"prior_precision": 0},
        "`prior_precision` must be `None` or a finite number greater than 0",
    ),
    "targets missing": (lambda: (make(), X), {}, "`y` must be the targets of `x`"),
    "shape": (lambda: (make(), X, Y[:, None] * [1, 1]), {}, r"y of shape \(32, 2\)"),
    "labels": (lambda: (make(), X, Y + 1), {}, "labels from 0 to 2"),
    "negative weights": (
        lambda: (make(), X, Y),
        {"sample_weight": -WEIGHTS},
        "`sample_weight` must have a number of at least 0",
    ),
    "rows": (lambda: (make(), X, Y[:30]), {}, "same number of rows in each"),
    "words": (lambda: (make(), X, np.array(["a"] * 40)), {}, "have finite numbers"),
    "noise of classes": (
        lambda: (make(), X, Y),
        {"noise_scale": 1.0},
        "`noise_scale` is the standard deviation",
    ),
    "outputs": (lambda: (two_outputs(), X, Y), {}, "must have one output"),
    "shared": (
        lambda: (shared(), X, X),
        {"outputs": "regression"},
        "must be used once",
    ),
    "no dense": (
        lambda: (ending_with(keras.layers.Dense(3), keras.layers.ReLU()), X, Y),
        {},
        "must end with a `keras.layers.Dense`.*of type ReLU",
    ),
    "quantized": (lambda: (quantized(), X, Y), {}, r"float kernel.*quantized \(int8\)"),
    "head": (
        lambda: (ending_with(tfvn.layers.NormalHead(1)), X, Y),
        {},
        "instead of this head",
    ),
    "random last layer": (
        lambda: (tfvn.from_deterministic(make()), X, Y),
        {},
        "original with plain weights.*which has random weights",
    ),
    "random layer": (
        lambda: (
            ending_with(tfvn.MeanFieldDense(3, prior=None), keras.layers.Dense(1)),
            X,
            Y,
        ),
        {},
        "may have random weights",
    ),
    "loss": (
        lambda: (ending_with(keras.layers.Dense(1), loss="mae"), X, Y),
        {},
        "pass `outputs='regression'`",
    ),
    "focal": (
        lambda: (
            ending_with(
                keras.layers.Dense(1, "sigmoid"), loss="binary_focal_crossentropy"
            ),
            X,
            Y,
        ),
        {},
        "would be a guess",
    ),
    "activation": (
        lambda: (ending_with(keras.layers.Dense(1, "relu")), X, Y),
        {},
        r"activations \['relu'\]",
    ),
    "likelihood": (
        lambda: (
            ending_with(keras.layers.Dense(1), loss=tfvn.losses.PoissonNLL()),
            X,
            Y,
        ),
        {},
        "expected `outputs` to be one of",
    ),
    "too many weights": (
        lambda: (ending_with(keras.layers.Dense(2_001)), X, Y, "full"),
        {},
        "up to 10,000 weights.*for 10,005 weights",
    ),
    "not functional": (lambda: (Subclassed(), X, Y), {}, "sequential or functional"),
    "no weight": (
        lambda: (make(), X, Y),
        {"sample_weight": 0 * WEIGHTS},
        "say nothing about the last layer",
    ),
    "no weights": (
        lambda: (untrained(), X, 0 * TARGETS["regression"]),
        {},
        "train the model first or pass `prior_precision`",
    ),
    "exact": (
        lambda: (untrained(), X, 0 * TARGETS["regression"]),
        {"prior_precision": 1.0},
        "predicts every target exactly.*pass `noise_scale`",
    ),
    "features": (
        lambda: (make(), np.full_like(X, np.inf), Y),
        {},
        "inputs of the last layer must be finite",
    ),
    "data set and targets": (
        lambda: (make(), tf.data.Dataset.from_tensors((X, Y)), Y),
        {},
        "must be `None` if `x` is a data set",
    ),
    "data set without targets": (
        lambda: (make(), tf.data.Dataset.from_tensors(X)),
        {},
        "batches of `x` must be tuples",
    ),
    "data without end": (
        lambda: (make(), tf.data.Dataset.from_tensors((X, Y)).repeat()),
        {},
        "never ends",
    ),
}


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.last = keras.layers.Dense(3, "softmax")

    def call(self, inputs):
        return self.last(inputs)


@pytest.mark.parametrize("name", REFUSED)
def test_refuses(name):
    arguments, options, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        tfvn.last_layer_laplace(*arguments(), **options)
