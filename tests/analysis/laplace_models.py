"""Models and data for tests of the Laplace approximation, and how to compare."""

import keras
import numpy as np
from laplace_reference import with_bias

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


def assert_predicts_alike(fitted, model, x=X, tolerance=1e-5):
    expected = model.predict(x, verbose=0)
    found = tfvn.mean_predict(fitted, x)
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
