"""The scales alone are fitted, towards values that are known, and all else is kept."""

import re
import warnings

import conversion_models as models
import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers
from tensorflow_probability import distributions as tfd

import tfvn

ROWS, FEATURES, NOISE = 256, 3, 0.5
RNG = np.random.default_rng(0)
X = RNG.normal(size=(ROWS, FEATURES)).astype("float32")
Y = (X @ [1.0, -2.0, 0.5] + NOISE * RNG.normal(size=ROWS)).astype("float32")[:, None]


def gaussian(y_true, y_pred):
    """The negative log-likelihood of a Normal with a known scale, up to a constant."""
    return keras.ops.sum(keras.ops.square(y_true - y_pred), -1) / (2 * NOISE**2)


def regression(**kwargs):
    model = keras.Sequential(
        [keras.Input((FEATURES,)), layers.Dense(1, use_bias=False)]
    )
    model.layers[0].kernel.assign(np.linalg.lstsq(X, Y, rcond=None)[0])
    model.compile(keras.optimizers.Adam(0.125), gaussian, metrics=["mae"])
    return tfvn.from_deterministic(model, **kwargs)


def with_normalization():
    model = keras.Sequential(
        [
            keras.Input((FEATURES,)),
            layers.Dense(4),
            layers.BatchNormalization(),
            layers.SpectralNormalization(layers.Dense(4, "relu")),
            layers.Dense(1),
        ]
    )
    models.set_weights(model)
    model.compile("adam", "mse")
    return tfvn.from_deterministic(model)


def others(model):
    """The values of all variables but scales and seeds."""
    scales = set(map(id, tfvn.variable_groups(model)["scale"]))
    return {v.path: v.numpy() for v in model.weights if id(v) not in scales}


# Large scales make the gradients noisy, until they are small.
@pytest.mark.one_in(2)
@pytest.mark.parametrize(("scale", "tolerance"), [(0.001, 0.1), (0.2, 0.35)])
def test_finds_the_scales_of_the_best_bound(scale, tolerance):
    # For a linear model the expected loss is quadratic, so that the bound is greatest at
    # 1 / s^2 = 1 / prior^2 + sum(x^2) / noise^2, for each weight.
    model = regression(scale=scale)
    tfvn.fit_scales(model, X, Y, epochs=60, learning_rate=0.1, verbose=0)
    precision = FEATURES / 2 + np.sum(X**2, axis=0) / NOISE**2
    found = model.layers[0].posterior_distribution().stddev().numpy()[:, 0]
    np.testing.assert_allclose(found, precision**-0.5, rtol=tolerance)


def test_changes_nothing_but_scales():
    model = with_normalization()
    model.layers[0].trainable = False
    model.fit(X, Y, verbose=0)
    before, optimizer = others(model), model.optimizer
    flags = [layer.trainable for layer in model._flatten_layers()]
    states = [v.numpy() for v in optimizer.variables]
    counts = [v.numpy() for v in model.training_state.variables]
    frozen = model.layers[0].posterior_distribution().stddev().numpy()
    scales = model.layers[-1].posterior_distribution().stddev().numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of scales that still move
        tfvn.fit_scales(model, X, Y, epochs=1, verbose=0)
    for path, value in others(model).items():
        np.testing.assert_array_equal(value, before[path], err_msg=path)
    assert [layer.trainable for layer in model._flatten_layers()] == flags
    assert model.optimizer is optimizer
    for now, then in zip(optimizer.variables, states, strict=True):
        np.testing.assert_array_equal(now.numpy(), then)
    for now, then in zip(model.training_state.variables, counts, strict=True):
        np.testing.assert_array_equal(now.numpy(), then)
    now = model.layers[0].posterior_distribution().stddev().numpy()
    np.testing.assert_array_equal(now, frozen)
    now = model.layers[-1].posterior_distribution().stddev().numpy()
    assert np.abs(now / scales - 1).min() > 0.01
    # The model trains on, with its own optimizer.
    model.fit(X, Y, verbose=0)
    assert np.abs(
        model.layers[-1].bias.numpy() - before[model.layers[-1].bias.path]
    ).max()
    assert int(optimizer.iterations) == 16


def test_evaluate_knows_the_number_of_examples():
    model = regression()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of scales that still move
        tfvn.fit_scales(model, X, Y, epochs=1, verbose=0)
    logs = model.evaluate(X, Y, verbose=0, return_dict=True)
    assert logs["loss"] == pytest.approx(logs["nll"] + logs["kl"] / ROWS, rel=1e-4)


def test_restores_all_after_an_error():
    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            raise RuntimeError("stop")

    model = with_normalization()
    before, optimizer = others(model), model.optimizer
    count = len(model.trainable_variables)
    with pytest.raises(RuntimeError, match="stop"):
        tfvn.fit_scales(model, X, Y, verbose=0, callbacks=[Stop()])
    assert len(model.trainable_variables) == count
    assert model.optimizer is optimizer
    for path, value in others(model).items():
        np.testing.assert_array_equal(value, before[path], err_msg=path)


@pytest.mark.parametrize("kind", ["data_set", "generator", "validation"])
def test_takes_what_fit_takes(kind):
    model = regression(scale=0.03)
    batches = tf.data.Dataset.from_tensor_slices((X, Y)).batch(32)
    if kind == "data_set":
        history = tfvn.fit_scales(model, batches, epochs=2, verbose=0)
    elif kind == "generator":
        model.compile("adam", gaussian, train_size=ROWS)
        generator = (batch for _ in range(3) for batch in list(batches))
        history = tfvn.fit_scales(
            model, generator, epochs=2, steps_per_epoch=8, verbose=0
        )
    else:
        history = tfvn.fit_scales(
            model, X, Y, epochs=3, verbose=0, validation_split=0.5, batch_size=16
        )
        assert "val_elbo" in history.history
    assert np.isfinite(history.history["elbo"]).all()


@pytest.mark.exhaustive
def test_a_model_with_a_call_of_its_own():
    model = models.written_model()
    model.compile("adam", "mse")
    converted = tfvn.from_deterministic(model)
    x = models.rows((4, 6), 32)
    before = others(converted)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tfvn.fit_scales(converted, x, model.predict(x, verbose=0), epochs=1, verbose=0)
    for path, value in others(converted).items():
        np.testing.assert_array_equal(value, before[path], err_msg=path)


class TestWarnings:
    def test_of_scales_that_still_move(self):
        model = regression(scale=1.0)
        with pytest.warns(UserWarning, match="still changing when the training ended"):
            tfvn.fit_scales(model, X, Y, epochs=1, learning_rate=0.2, verbose=0)

    def test_of_a_spread_that_says_nothing(self):
        model = regression(scale=1e-5)
        with pytest.warns(UserWarning, match="hardly vary between draws"):
            tfvn.fit_scales(model, X, Y, epochs=1, learning_rate=1e-4, verbose=0)

    @pytest.mark.one_in(2)
    @pytest.mark.parametrize("kind", ["data_set", "arrays"])
    def test_of_a_kl_that_outweighs_the_data(self, kind):
        x, y = X[:8], Y[:8]
        data = (X[8:], Y[8:])
        options = {"epochs": 30, "learning_rate": 0.1, "verbose": 0, "batch_size": 1}
        if kind == "data_set":
            data = tf.data.Dataset.from_tensor_slices(data).shuffle(99).batch(32)
        else:
            options["validation_batch_size"] = 32
        model = regression(scale=0.01, prior=tfd.Normal(0.0, 2.0))
        model.compile("adam", gaussian, kl_schedule=30.0)
        with pytest.warns(
            UserWarning, match="validation data are predicted worse"
        ) as w:
            tfvn.fit_scales(model, x, y, validation_data=data, **options)
        (text,) = [
            str(one.message) for one in w if "predicted worse" in str(one.message)
        ]
        before, after = map(
            float, re.findall(r"[\d.]+", text.split("Received:")[1])[:2]
        )
        errors = np.mean((X[8:] @ model.layers[0].posterior.mean() - Y[8:]) ** 2)
        assert before == pytest.approx(errors / (2 * NOISE**2), rel=0.1)
        assert after > 1.5 * before
        model.compile("adam", gaussian, kl_schedule=1e-3)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            tfvn.fit_scales(model, x, y, validation_data=data, **options)
        assert not [one for one in found if "predicted worse" in str(one.message)]


class TestRefusals:
    def test_models(self):
        with pytest.raises(
            ValueError, match="must be a Keras model with random weights"
        ):
            tfvn.fit_scales(models.dense(), X, Y)
        with pytest.raises(
            ValueError, match="must be a Keras model with random weights"
        ):
            tfvn.fit_scales("model", X, Y)
        with pytest.raises(ValueError, match="call `compile` first"):
            tfvn.fit_scales(tfvn.from_deterministic(models.dense()), X, Y)

    def test_no_kl_and_no_scales(self):
        with pytest.raises(ValueError, match="shrink every scale to nothing"):
            tfvn.fit_scales(regression(prior=None), X, Y)
        model = regression()
        model.layers[0].trainable = False
        with pytest.raises(ValueError, match="all such layers are frozen"):
            tfvn.fit_scales(model, X, Y)

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            ({"epochs": 0}, "`epochs` must be an integer of at least 1"),
            ({"learning_rate": 0}, "`learning_rate` must be a finite number greater"),
        ],
    )
    def test_arguments(self, arguments, words):
        with pytest.raises(ValueError, match=words):
            tfvn.fit_scales(regression(), X, Y, **arguments)


@pytest.mark.filterwarnings("ignore:The training data contain NaN")
@pytest.mark.filterwarnings("ignore:The loss is NaN")
def test_data_that_are_nan():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    converted = tfvn.from_deterministic(model)
    before = converted.get_weights()
    with pytest.raises(ValueError, match="The scales became NaN or infinite"):
        tfvn.fit_scales(converted, np.full((8, 2), np.nan), np.ones(8), verbose=0)
    for old, new in zip(before, converted.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)
