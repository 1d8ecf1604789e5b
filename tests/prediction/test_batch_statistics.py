"""Batch normalization with the statistics of the batch, in an ensemble."""

import keras
import models
import numpy as np
import pytest
from keras import layers

import tfvn

ROWS = 14
X = np.random.default_rng(3).normal(1.0, 2.0, (ROWS, models.FEATURES)).astype("float32")
EPSILON = 0.01


def normalization(**kwargs):
    """A layer whose moving statistics are far from those of any batch here."""
    return layers.BatchNormalization(
        epsilon=EPSILON,
        moving_mean_initializer=keras.initializers.Constant(50.0),
        moving_variance_initializer=keras.initializers.Constant(9.0),
        gamma_initializer=keras.initializers.RandomUniform(0.5, 2.0),
        beta_initializer=keras.initializers.RandomUniform(-1.0, 1.0),
        **kwargs,
    )


def before_and_after(noisy, **kwargs):
    """A model that returns what a normalization after noise gets, and what it returns."""
    inputs = keras.Input((models.FEATURES,))
    before = noisy(layers.Dense(6, "tanh")(inputs))
    after = normalization(**kwargs)
    return keras.Model(inputs, [before, after(before)]), after


def by_hand(before, layer, batch_size):
    """The normalization of each batch of each draw, in float64."""
    gamma, beta = (np.asarray(v, "float64") for v in (layer.gamma, layer.beta))
    batches = []
    for start in range(0, len(before), batch_size):
        batch = before[start : start + batch_size].astype("float64")
        mean, variance = batch.mean(0, keepdims=True), batch.var(0, keepdims=True)
        batches.append(gamma * (batch - mean) / np.sqrt(variance + EPSILON) + beta)
    return np.concatenate(batches)


NOISY = {
    "local": lambda: tfvn.VarianceDense(5),
    "weights": lambda: tfvn.VarianceDense(5, estimator="weights"),
    "flipout": lambda: models.mean_field("flipout"),
    "dropout": lambda: layers.Dropout(0.5),
}


def draw(model, batch_size=ROWS, **kwargs):
    options = {"batch_size": batch_size, "outputs": "regression", "seed": 1}
    return tfvn.ensemble_predict(
        model, X, 3, return_samples=True, batch_statistics=True, **options, **kwargs
    )


@pytest.mark.parametrize("batch_size", [ROWS, 4])
@pytest.mark.parametrize("name", NOISY)
def test_each_draw_of_each_batch_is_normalized(name, batch_size):
    model, layer = before_and_after(NOISY[name]())
    weights = [v.numpy() for v in model.variables]
    before, after = (answer.samples for answer in draw(model, batch_size))
    assert before.std(axis=1).max() > 0.01  # draws differ
    np.testing.assert_allclose(after, by_hand(before, layer, batch_size), atol=2e-4)
    for variable, value in zip(model.variables, weights, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value)


def test_a_layer_before_the_noise_is_normalized_too():
    inputs = keras.Input((models.FEATURES,))
    layer = normalization()
    after = layer(inputs)
    model = keras.Model(inputs, [after, tfvn.VarianceDense(3)(after)])
    samples = draw(model, batch_size=7)[0].samples
    expected = by_hand(X[:, None], layer, 7)
    np.testing.assert_allclose(samples, np.repeat(expected, 3, axis=1), atol=2e-4)


def test_a_layer_of_a_nested_model():
    inside, layer = before_and_after(tfvn.VarianceDense(5))
    inputs = keras.Input((models.FEATURES,))
    model = keras.Model(inputs, inside(inputs))
    before, after = (answer.samples for answer in draw(model))
    np.testing.assert_allclose(after, by_hand(before, layer, ROWS), atol=2e-4)


def test_mean_weights():
    model, layer = before_and_after(models.mean_field("local"))
    options = {"batch_size": 7, "batch_statistics": True}
    before, after = tfvn.mean_predict(model, X, **options)
    np.testing.assert_allclose(after, by_hand(before, layer, 7), atol=2e-4)


def test_zero_means():
    model, layer = before_and_after(tfvn.GaussianDropoutDense(5))
    answers = tfvn.zero_mean_predict(
        model,
        X,
        3,
        batch_size=7,
        outputs="regression",
        return_samples=True,
        batch_statistics=True,
    )
    before, after = (answer.samples for answer in answers)
    np.testing.assert_allclose(after, by_hand(before, layer, 7), atol=2e-4)


def test_other_predictions_keep_the_moving_statistics():
    model, layer = before_and_after(tfvn.VarianceDense(5))
    draw(model)
    before, after = tfvn.ensemble_predict(
        model, X, 3, outputs="regression", seed=1, return_samples=True
    )
    gamma, beta = (np.asarray(v) for v in (layer.gamma, layer.beta))
    moved = gamma * (before.samples - 50.0) / np.sqrt(9.0 + EPSILON) + beta
    np.testing.assert_allclose(after.samples, moved, rtol=1e-3)
    # So does a plain call.
    np.testing.assert_allclose(
        model(X)[1], gamma * (model(X)[0] * 0 - 50.0) / 3.002 + beta, atol=3.0
    )


def test_a_frozen_layer_keeps_its_moving_statistics():
    model, layer = before_and_after(tfvn.VarianceDense(5), trainable=False)
    before, after = (answer.samples for answer in draw(model))
    gamma, beta = (np.asarray(v) for v in (layer.gamma, layer.beta))
    expected = gamma * (before - 50.0) / np.sqrt(9.0 + EPSILON) + beta
    np.testing.assert_allclose(after, expected, rtol=1e-3)


def test_training_still_moves_the_statistics():
    model = tfvn.Sequential(
        [keras.Input((4,)), tfvn.VarianceDense(5), normalization(), layers.Dense(3)]
    )
    draw(model)
    model.compile("adam", "mse", jit_compile=False)
    model.fit(X, np.zeros((ROWS, 3)), batch_size=7, verbose=0)
    assert model.layers[1].moving_mean.numpy().max() < 50.0


def test_the_seed_fixes_the_draws():
    model, _ = before_and_after(tfvn.VarianceDense(5))
    first, second = (draw(model)[1].samples for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_refuses_models_without_batch_normalization():
    model = models.sequential(tfvn.VarianceDense(5))
    with pytest.raises(ValueError, match="only for a model with a `keras"):
        tfvn.ensemble_predict(model, X, batch_statistics=True)
    with pytest.raises(ValueError, match="only for a model with a `keras"):
        tfvn.mean_predict(model, X, batch_statistics=True)


def test_refuses_seeds_of_rows():
    model, _ = before_and_after(tfvn.VarianceDense(5))
    seeds = np.arange(2 * ROWS).reshape(ROWS, 2)
    with pytest.raises(ValueError, match="depends on the other rows of its batch"):
        tfvn.ensemble_predict(
            model, X, outputs="regression", seed=seeds, batch_statistics=True
        )
