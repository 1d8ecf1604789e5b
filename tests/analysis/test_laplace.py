"""The Laplace approximation of the last layer: against NumPy, and in models of all kinds."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from laplace_reference import (
    KINDS,
    covariance_of,
    curvature,
    log_likelihood,
    log_marginal_likelihood,
    maximum,
    with_bias,
)
from scipy import stats

import tfvn

STRUCTURES = ("kron", "diag", "full")
RNG = np.random.default_rng(3)
X = RNG.normal(size=(40, 4)).astype("float32")
TARGETS = {
    "softmax": RNG.integers(0, 3, 40),
    "binary": RNG.integers(0, 2, (40, 3)).astype("float32"),
    "regression": RNG.normal(size=(40, 3)).astype("float32"),
}
ACTIVATIONS = {"softmax": "softmax", "binary": "sigmoid", "regression": None}
LOSSES = {
    "softmax": "sparse_categorical_crossentropy",
    "binary": "binary_crossentropy",
    "regression": "mse",
}
WEIGHTS = RNG.uniform(0.5, 2.0, 40)


def set_weights(model, seed=1):
    """Gives a model weights as if it were trained."""
    rng = np.random.default_rng(seed)
    for variable in model.trainable_variables:
        variable.assign(rng.normal(size=variable.shape, scale=0.6))
    return model


def make(kind="softmax", units=3, use_bias=True, hidden=5):
    layers = [keras.layers.Dense(hidden, activation="tanh")] if hidden else []
    last = keras.layers.Dense(
        units, activation=ACTIVATIONS[kind], use_bias=use_bias, name="last"
    )
    model = keras.Sequential([keras.Input((4,)), *layers, last])
    model.compile("sgd", LOSSES[kind])
    return set_weights(model)


def features_and_outputs(model):
    """Returns features with a 1 for the bias, weights, and outputs, all in float64."""
    *hidden, kernel, bias = (w.astype("float64") for w in model.get_weights())
    features = X.astype("float64")
    if hidden:
        features = np.tanh(features @ hidden[0] + hidden[1])
    phi, weights = with_bias(features), np.vstack([kernel, bias])
    return phi, weights, phi @ weights


def assert_close(found, expected):
    expected = np.asarray(expected)
    np.testing.assert_allclose(
        found, expected, rtol=1e-5, atol=1e-5 * abs(expected).max()
    )


@pytest.mark.parametrize("hessian", STRUCTURES)
@pytest.mark.parametrize("kind", KINDS)
class TestAgainstNumPy:
    def reference(self, kind, hessian, model, noise_scale=1.0, weights=None):
        phi, kernel, outputs = features_and_outputs(model)
        matrix = curvature(kind, hessian, phi, outputs, noise_scale, weights)
        return matrix, kernel, log_likelihood(kind, outputs, TARGETS[kind], noise_scale)

    def test_covariance_and_marginal_likelihood(self, kind, hessian):
        model = make(kind)
        arguments = {"noise_scale": 0.7} if kind == "regression" else {}
        fitted = tfvn.last_layer_laplace(
            model, X, TARGETS[kind], hessian, prior_precision=2.5, **arguments
        )
        matrix, kernel, likelihood = self.reference(kind, hessian, model, 0.7)
        posterior = fitted.layers[-1].posterior
        assert posterior.prior_precision == 2.5
        assert posterior.noise_scale == (0.7 if kind == "regression" else None)
        expected = np.linalg.inv(matrix + 2.5 * np.eye(len(matrix)))
        assert_close(covariance_of(posterior), expected)
        assert_close(posterior.mean(), kernel)
        assert_close(posterior.variance(), np.diag(expected).reshape(kernel.shape))
        assert_close(
            posterior.log_marginal_likelihood,
            log_marginal_likelihood(matrix, kernel, likelihood, 2.5),
        )
        # The KL to the prior, in the closed form of two Normals.
        _, log_det = np.linalg.slogdet(expected)
        second = np.trace(expected) + np.sum(np.square(kernel))
        size = len(matrix)
        kl = 0.5 * (2.5 * second - size - log_det - size * np.log(2.5))
        assert_close(fitted.layers[-1].kl_divergence(), kl)

    def test_precisions_maximise_the_marginal_likelihood(self, kind, hessian):
        model = make(kind)
        fitted = tfvn.last_layer_laplace(model, X, TARGETS[kind], hessian)
        posterior = fitted.layers[-1].posterior

        def value(log_prior, log_noise=0.0):
            matrix, kernel, likelihood = self.reference(
                kind, hessian, model, np.exp(log_noise)
            )
            return log_marginal_likelihood(
                matrix, kernel, likelihood, np.exp(log_prior)
            )

        best = maximum(value, 2 if kind == "regression" else 1)
        assert_close(posterior.prior_precision, np.exp(best[0]))
        if kind == "regression":
            assert_close(posterior.noise_scale, np.exp(best[1]))
        assert_close(posterior.log_marginal_likelihood, value(*best))

    def test_sample_weights(self, kind, hessian):
        model = make(kind)
        arguments = {"noise_scale": 1.0} if kind == "regression" else {}
        fitted = tfvn.last_layer_laplace(
            model,
            X,
            TARGETS[kind],
            hessian,
            prior_precision=1.0,
            sample_weight=WEIGHTS,
            **arguments,
        )
        matrix, *_ = self.reference(kind, hessian, model, weights=WEIGHTS)
        expected = np.linalg.inv(matrix + np.eye(len(matrix)))
        assert_close(covariance_of(fitted.layers[-1].posterior), expected)


class TestStructures:
    def fit(self, model, x, y, hessian, **kwargs):
        fitted = tfvn.last_layer_laplace(
            model, x, y, hessian, prior_precision=0.5, **kwargs
        )
        return covariance_of(fitted.layers[-1].posterior)

    def test_kron_is_exact_for_one_example(self):
        model, x, y = make(), X[:1], TARGETS["softmax"][:1]
        assert_close(self.fit(model, x, y, "kron"), self.fit(model, x, y, "full"))

    def test_kron_is_exact_for_equal_hessians(self):
        model, y = make("regression"), TARGETS["regression"]
        kron, full = (
            self.fit(model, X, y, hessian, noise_scale=0.4)
            for hessian in ("kron", "full")
        )
        assert_close(kron, full)

    def test_kron_is_no_more_than_an_approximation_else(self):
        model, y = make(), TARGETS["softmax"]
        kron, full = (self.fit(model, X, y, h) for h in ("kron", "full"))
        assert np.abs(kron - full).max() > 1e-3

    def test_a_layer_without_bias(self):
        model = make(use_bias=False)
        fitted = tfvn.last_layer_laplace(model, X, TARGETS["softmax"])
        assert fitted.layers[-1].posterior.mean().shape == (5, 3)
        assert_predicts_alike(fitted, model)


def test_full_laplace_of_a_linear_regression_is_the_conjugate_posterior():
    precision, noise = 1.7, 0.3
    y = X @ [1.0, -2.0, 0.5, 0.0] + 0.3 * RNG.normal(size=40)
    phi = with_bias(X.astype("float64"))
    covariance = np.linalg.inv(phi.T @ phi / noise**2 + precision * np.eye(5))
    mean = covariance @ phi.T @ y / noise**2
    model = make("regression", units=1, hidden=0)
    model.set_weights([mean[:4, None], mean[4:]])
    fitted = tfvn.last_layer_laplace(
        model, X, y, "full", prior_precision=precision, noise_scale=noise
    )
    posterior = fitted.layers[-1].posterior
    assert_close(covariance_of(posterior), covariance)
    # At the maximum of the posterior the marginal likelihood is exact too.
    exact = stats.multivariate_normal(
        np.zeros(40), noise**2 * np.eye(40) + phi @ phi.T / precision
    )
    assert_close(posterior.log_marginal_likelihood, exact.logpdf(y))


def assert_predicts_alike(fitted, model, x=X, tolerance=1e-5):
    expected = model.predict(x, verbose=0)
    found = tfvn.mean_predict(fitted, x)
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


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


class TestLikelihoods:
    def test_logits_one_hot_targets_and_an_explicit_kind(self):
        y = TARGETS["softmax"]
        expected = tfvn.last_layer_laplace(make(), X, y).layers[-1].posterior
        model = make()
        model.layers[-1].activation = keras.activations.linear
        logits = keras.Sequential(model.layers)
        one_hot = np.eye(3)[y]
        logits.compile("sgd", keras.losses.CategoricalCrossentropy(from_logits=True))
        plain = keras.Sequential(model.layers)  # not compiled
        for found in (
            tfvn.last_layer_laplace(logits, X, one_hot),
            tfvn.last_layer_laplace(plain, X, y, outputs="logits"),
        ):
            posterior = found.layers[-1].posterior
            assert_close(posterior.prior_precision, expected.prior_precision)
            assert_close(
                posterior.log_marginal_likelihood, expected.log_marginal_likelihood
            )

    def test_known_noise(self):
        y = TARGETS["regression"]
        model = make("regression")
        given = tfvn.last_layer_laplace(model, X, y, noise_scale=0.6)
        expected = given.layers[-1].posterior
        model.compile("sgd", tfvn.losses.GaussianNLL(scale=0.6))
        found = tfvn.last_layer_laplace(model, X, y).layers[-1].posterior
        assert found.get_config() == expected.get_config()
        learned = keras.Sequential([*model.layers, tfvn.layers.LearnedScale(0.6)])
        learned.compile("sgd", tfvn.losses.GaussianNLL())
        fitted = tfvn.last_layer_laplace(learned, X, y)
        assert_close(
            fitted.layers[-2].posterior.log_marginal_likelihood,
            expected.log_marginal_likelihood,
        )
        answer = tfvn.ensemble_predict(fitted, X, num_samples=3)
        assert answer.std.shape == (40, 3)

    def test_noise_that_depends_on_the_example(self):
        model = make("regression", units=2)
        model.compile("sgd", tfvn.losses.GaussianNLL())
        y = TARGETS["regression"][:, 0]
        fitted = tfvn.last_layer_laplace(model, X, y, "full", prior_precision=1.0)
        phi, kernel, outputs = features_and_outputs(model)
        mean, scale = outputs[:, 0], np.exp(outputs[:, 1])
        # The Fisher information of mean and log scale.
        matrix = sum(
            np.kron(np.outer(f, f), np.diag([s**-2, 2.0]))
            for f, s in zip(phi, scale, strict=True)
        )
        posterior = fitted.layers[-1].posterior
        expected = np.linalg.inv(matrix + np.eye(len(matrix)))
        assert_close(covariance_of(posterior), expected)
        value = log_marginal_likelihood(
            matrix, kernel, stats.norm(mean, scale).logpdf(y).sum(), 1.0
        )
        assert_close(posterior.log_marginal_likelihood, value)


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
    "rows": (lambda: (make(), X, Y[:30]), {}, "as many in each"),
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
    "head": (
        lambda: (ending_with(tfvn.layers.NormalHead(1)), X, Y),
        {},
        "instead of this head",
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
        "has no end",
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
