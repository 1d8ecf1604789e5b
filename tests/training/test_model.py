"""`tfvn.Model` and `tfvn.Sequential` in every style, and what they refuse to fit."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from training_models import (
    DATA,
    MODES,
    SIZE,
    STYLES,
    Subclassed,
    functional,
    kl_of,
    sequential,
    still,
)

import tfvn
from tfvn.training.model import FunctionalModel


def test_shuffles_whole_batches():
    """`shuffle="batch"` keeps the rows of a batch together, as in Keras."""
    losses = []
    for library in (keras, tfvn):
        keras.utils.set_random_seed(3)
        model = library.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
        model.compile(keras.optimizers.SGD(0.1), "mse")
        history = model.fit(*DATA, 8, 2, verbose=0, shuffle="batch").history
        losses.append(history["loss"])
    np.testing.assert_allclose(*losses, rtol=1e-6)


@pytest.mark.parametrize("style", STYLES)
class TestStyles:
    @pytest.mark.one_in(8)
    @pytest.mark.parametrize("mode", MODES)
    def test_history_adds_up(self, style, mode):
        model = STYLES[style]()
        model.compile("adam", "mse", metrics=["mae"], kl_schedule=0.25, **MODES[mode])
        x, y = DATA
        logs = model.fit(x, y, 16, 2, verbose=0, validation_data=(x, y)).history
        for prefix in ("", "val_"):
            nll, kl, loss, elbo, weight = (
                np.array(logs[prefix + name])
                for name in ("nll", "kl", "loss", "elbo", "kl_weight")
            )
            np.testing.assert_allclose(loss, nll + weight * kl / SIZE, rtol=1e-5)
            np.testing.assert_allclose(elbo, -(nll + kl / SIZE), rtol=1e-5)
            np.testing.assert_array_equal(weight, 0.25)
            assert prefix + "mae" in logs
        assert logs["val_kl"][-1] == pytest.approx(kl_of(model), rel=1e-5)

    def test_names_in_the_logs_and_no_advice_about_the_weight(self, style, recwarn):
        model = STYLES[style]()
        model.compile("adam", "mse", metrics=["mae"])
        history = model.fit(*DATA, verbose=0).history
        assert set(history) == {"loss", "nll", "kl", "kl_weight", "elbo", "mae"}
        assert not [w for w in recwarn if "kl_weight" in str(w.message)]

    def test_saved_and_loaded(self, style, tmp_path):
        if style == "subclassed":
            pytest.skip("Keras loads a subclassed model only where its class is known")
        model = STYLES[style]()
        model.compile(
            {"mean": "adam", "scale": keras.optimizers.SGD(0.01)},
            "mse",
            kl_schedule=tfvn.schedules.LinearAnnealing(steps=100),
        )
        model.fit(*DATA, batch_size=16, epochs=2, verbose=0)
        model.save(tmp_path / "model.keras")
        copy = keras.saving.load_model(tmp_path / "model.keras")
        assert isinstance(copy, type(model))
        assert isinstance(copy.optimizer.groups["scale"], keras.optimizers.SGD)
        expected = still(model).evaluate(*DATA, verbose=0, return_dict=True)
        found = still(copy).evaluate(*DATA, verbose=0, return_dict=True)
        assert found == pytest.approx(expected, rel=1e-6)
        for one, other in zip(
            model.optimizer.variables, copy.optimizer.variables, strict=True
        ):
            np.testing.assert_array_equal(one.numpy(), other.numpy())
        copy.fit(*DATA, batch_size=16, verbose=0)

    def test_weights_of_a_stock_model(self, style, tmp_path):
        if style == "subclassed":
            pytest.skip("has no stock twin here")
        ours = STYLES[style]()
        stock = keras.Sequential(
            [keras.Input((4,)), *(layer for layer in sequential().layers)]
        )
        assert [w.shape for w in ours.weights] == [w.shape for w in stock.weights]
        ours.set_weights(stock.get_weights())


@pytest.mark.parametrize(
    ("style", "optimizer"),
    [("sequential", "adam"), ("functional", {"mean": "adam", "scale": "sgd"})],
)
def test_cloned_by_keras(style, optimizer):
    model = STYLES[style]()
    model.compile(optimizer, "mse", kl_schedule=0.5)
    model.fit(*DATA, verbose=0)
    copy = keras.models.clone_model(model)
    copy.set_weights(model.get_weights())
    both = (tfvn.mean_predict(m, DATA[0]) for m in (copy, model))
    np.testing.assert_allclose(*both, rtol=1e-6)


def test_functional_class():
    assert isinstance(functional(), FunctionalModel)
    assert isinstance(functional(), tfvn.Model)


def test_subclass_that_is_functional():
    class Wrapped(tfvn.Model):
        def __init__(self, units):
            inputs = keras.Input((4,))
            super().__init__(inputs, tfvn.MeanFieldDense(units)(inputs))

    model = Wrapped(2)
    model.compile("adam", "mse")
    model.fit(*DATA, verbose=0)
    assert len(model.layers) == 2
    # And the next model is not made functional by it.
    assert Subclassed()(DATA[0]).shape == (SIZE, 2)
    # The class stays as it was, and has one functional class for all models.
    assert Wrapped.__bases__ == (tfvn.Model,)
    assert isinstance(model, Wrapped)
    assert type(Wrapped(2)) is type(model)


def test_functional_subclass_is_saved_under_its_name():
    @keras.saving.register_keras_serializable("tfvn_tests", name="Named")
    class Named(tfvn.Model):
        pass

    inputs = keras.Input((4,))
    model = Named(inputs, tfvn.MeanFieldDense(2)(inputs))
    config = keras.saving.serialize_keras_object(model)
    assert config["registered_name"] == "tfvn_tests>Named"
    loaded = keras.saving.deserialize_keras_object(config)
    assert type(loaded) is type(model)
    assert isinstance(loaded, Named)
    assert [type(layer) for layer in loaded.layers] == [
        type(layer) for layer in model.layers
    ]


class TestBadInput:
    @pytest.mark.filterwarnings("ignore:The loss is NaN")
    @pytest.mark.parametrize("which", [0, 1, 2], ids=["x", "y", "sample_weight"])
    def test_nan(self, which):
        x, y = DATA
        arrays = [x.copy(), y.copy(), np.ones((len(x), 1), "float32")]
        arrays[which][3, 0] = np.nan
        x, y, weight = arrays
        model = sequential()
        model.compile("adam", "mse")
        with pytest.warns(UserWarning, match=r"contain NaN.*Received: 1 NaN"):
            model.fit(x, y, sample_weight=weight, verbose=0)

    @pytest.mark.filterwarnings("ignore:The training data contain NaN")
    def test_nan_that_the_loss_leaves_out(self):
        def masked_mse(y_true, y_pred):
            known = tf.math.is_finite(y_true)
            error = tf.where(known, y_true, y_pred) - y_pred
            return tf.reduce_mean(tf.square(error), axis=-1)

        x, y = DATA
        y = y.copy()
        y[::3] = np.nan
        model = sequential()
        model.compile("adam", masked_mse)
        assert np.all(np.isfinite(model.fit(x, y, verbose=0).history["loss"]))

    @pytest.mark.filterwarnings("ignore::RuntimeWarning")
    def test_nan_in_a_data_set(self):
        x, y = DATA
        batches = tf.data.Dataset.from_tensor_slices((x * np.nan, y)).batch(16)
        model = sequential()
        model.compile("adam", "mse")
        with pytest.warns(UserWarning, match=r"The loss is NaN.*Received: loss=nan"):
            model.fit(batches, verbose=0)

    def test_no_data(self):
        model = sequential()
        model.compile("adam", "mse")
        with pytest.raises(ValueError, match=r"at least one example.*Received: none"):
            model.fit(np.zeros((0, 4)), np.zeros((0, 2)), verbose=0)

    def test_no_data_in_a_data_set(self):
        model = sequential()
        model.compile("adam", "mse")
        empty = tf.data.Dataset.from_tensor_slices(DATA).take(0).batch(4)
        with pytest.raises(ValueError, match=r"at least one example.*Received: none"):
            model.fit(empty, verbose=0)

    @pytest.mark.parametrize(
        "arguments",
        [
            {"num_samples": 0},
            {"num_samples": 1.5},
            {"train_size": 0},
            {"kl_gradient": "score"},
            {"sample_reduction": "sum"},
        ],
        ids=str,
    )
    def test_arguments_of_compile(self, arguments):
        with pytest.raises(ValueError, match=r"Argument `\w+` must be.*Received: \w+="):
            sequential().compile("adam", "mse", **arguments)

    def test_not_compiled(self):
        with pytest.raises(ValueError, match="must call `compile"):
            sequential().fit(*DATA)
