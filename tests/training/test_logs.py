"""What training and evaluation return, log and monitor, and what counts as a parameter."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf
from training_models import DATA, SIZE, functional, kl_of, sequential, still

import tfvn

X, Y = DATA


def test_double_precision():
    """Where Keras's default type is float64, the parts of the bound are there as well."""
    keras.config.set_floatx("float64")
    try:
        model = still(sequential())
        model.compile(keras.optimizers.SGD(0.0), "mse", metrics=["mae"])
        history = model.fit(*DATA, batch_size=SIZE, verbose=0).history
    finally:
        keras.config.set_floatx("float32")
    (nll, kl) = (history[name][0] for name in ("nll", "kl"))
    assert kl == pytest.approx(kl_of(model), rel=1e-5)
    assert history["loss"][0] == pytest.approx(nll + kl / SIZE, rel=1e-5)
    assert history["elbo"][0] == pytest.approx(-nll - kl / SIZE, rel=1e-5)


class TestReturns:
    """Without `return_dict`, what the Keras twin returns."""

    def twin(self, **kwargs):
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
        model.compile("sgd", "mse", **kwargs)
        return model

    @pytest.mark.parametrize("metrics", [None, ["mae"], ["mae", "mape"]], ids=str)
    def test_as_many_numbers(self, metrics):
        model = sequential()
        model.compile("sgd", "mse", metrics=metrics, train_size=SIZE)
        twin = self.twin(metrics=metrics)
        for name in ("evaluate", "test_on_batch", "train_on_batch"):
            kwargs = {"verbose": 0} if name == "evaluate" else {}
            found, expected = (getattr(m, name)(X, Y, **kwargs) for m in (model, twin))
            assert np.shape(found) == np.shape(expected)
        assert model.metrics_names == twin.metrics_names

    def test_loss_and_metric(self):
        model = still(sequential())
        model.compile("sgd", "mse", metrics=["mae"], train_size=SIZE)
        loss, mae = model.evaluate(X, Y, verbose=0)
        logs = model.evaluate(X, Y, verbose=0, return_dict=True)
        assert (loss, mae) == pytest.approx((logs["loss"], logs["mae"]))
        assert {"nll", "kl", "kl_weight", "elbo"} < set(logs)

    def test_several_outputs(self):
        inputs = keras.Input((4,))
        outputs = [tfvn.MeanFieldDense(2, name=name)(inputs) for name in ("a", "b")]
        model = tfvn.Model(inputs, outputs)
        model.compile("sgd", "mse", metrics=[["mae"], ["mape"]], train_size=SIZE)
        twin = keras.Model(
            inputs, [keras.layers.Dense(2, name=n)(inputs) for n in "ab"]
        )
        twin.compile("sgd", "mse", metrics=[["mae"], ["mape"]])
        found, expected = (m.evaluate(X, [Y, Y], verbose=0) for m in (model, twin))
        assert len(found) == len(expected)

    def test_a_metric_of_the_same_name(self):
        model = sequential()
        metric = keras.metrics.MeanAbsoluteError(name="kl")
        model.compile("sgd", "mse", metrics=[metric], train_size=SIZE)
        assert len(model.evaluate(X, Y, verbose=0)) == 2


@pytest.mark.one_in(3)
@pytest.mark.parametrize("monitor", ["val_elbo", "elbo", "val_nll", "nll", "kl"])
@pytest.mark.parametrize(
    "callback", [keras.callbacks.EarlyStopping, keras.callbacks.ReduceLROnPlateau]
)
def test_monitors_know_which_way_is_better(callback, monitor):
    stop = callback(monitor, patience=0)
    model = sequential()
    model.compile("sgd", "mse", run_eagerly=True)
    model.fit(X, Y, validation_data=DATA, verbose=0, callbacks=[stop])
    assert stop.mode == ("max" if monitor.endswith("elbo") else "min")
    assert stop.monitor_op is (
        keras.ops.greater if monitor.endswith("elbo") else keras.ops.less
    )


def test_best_checkpoint_by_elbo(tmp_path):
    model = sequential()
    model.compile("adam", "mse")
    path = tmp_path / "best.keras"
    best = keras.callbacks.ModelCheckpoint(path, "val_elbo", save_best_only=True)
    model.fit(X, Y, validation_data=DATA, verbose=0, callbacks=[best])
    assert path.exists()


class TestParameters:
    def test_the_weight_of_the_kl_is_none(self):
        layer = tfvn.KTiedDense(400, rank=2, use_bias=False)
        layer.build((None, 784))
        assert layer.count_params() == 315_968
        assert not any("kl_weight" in weight.path for weight in layer.weights)

    def test_of_a_trained_model(self):
        model = sequential()
        before = model.count_params(), len(model.variables)
        model.compile("sgd", "mse")
        model.fit(X, Y, verbose=0)
        assert (model.count_params(), len(model.variables)) == before

    def test_the_weight_can_still_be_assigned(self):
        model = still(sequential())
        model.compile("sgd", "mse", train_size=SIZE)
        before = model.evaluate(X, Y, verbose=0)
        layer = model.layers[0]
        layer.kl_weight.assign(3.0)
        expected = before + 2.0 * float(layer.kl_divergence()) / SIZE
        assert model.evaluate(X, Y, verbose=0) == pytest.approx(expected, rel=1e-5)

    def test_exported_by_keras(self, tmp_path):
        model = still(functional())
        model.export(tmp_path / "export", verbose=False)
        served = tf.saved_model.load(tmp_path / "export")
        np.testing.assert_allclose(served.serve(X), model(X), rtol=1e-5, atol=1e-6)


def test_a_layer_without_weight_is_in_the_log():
    model = still(
        tfvn.Sequential([keras.Input((4,)), tfvn.MeanFieldDense(2, kl_weight=0)])
    )
    model.compile("sgd", "mse", train_size=SIZE)
    logs = model.evaluate(X, Y, verbose=0, return_dict=True)
    assert logs["kl"] == pytest.approx(kl_of(model), rel=1e-5)
    assert logs["loss"] == pytest.approx(logs["nll"], rel=1e-6)
    assert logs["elbo"] == pytest.approx(-logs["nll"] - logs["kl"] / SIZE, rel=1e-5)


@pytest.mark.parametrize("size", [2, 5_000])
def test_advice_where_the_kl_outweighs_the_data(size, recwarn):
    model = tfvn.Sequential([keras.Input((4,)), tfvn.MeanFieldDense(20)])
    model.compile("sgd", "mse", train_size=size)
    model.fit(X, np.zeros((SIZE, 20)), epochs=2, verbose=0)
    advice = [w for w in recwarn if "LinearAnnealing" in str(w.message)]
    assert len(advice) == (1 if size == 2 else 0)


def test_numbers_of_numpy():
    model = sequential()
    model.compile(
        "sgd",
        "mse",
        train_size=np.int64(64),
        kl_schedule=np.float32(0.5),
        num_samples=np.int32(2),
    )
    logs = model.fit(X, Y, verbose=0).history
    assert logs["kl_weight"] == [0.5]
    assert model._elbo.size == 64


def test_a_summed_loss_is_warned_of():
    model = sequential()
    model.compile("sgd", keras.losses.MeanSquaredError(reduction="sum"))
    with pytest.warns(UserWarning, match=r"counts too little.*reduction='sum'"):
        model.fit(X, Y, verbose=0)


@pytest.mark.parametrize(("kl_weight", "count"), [(None, 1), (0.5, 1), (1e-3, 0)])
def test_a_large_kl_is_warned_of_as_the_layers_weigh_it(kl_weight, count):
    layer = tfvn.MeanFieldDense(300, kl_weight=kl_weight)
    model = tfvn.Sequential([keras.Input((4,)), layer, keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, Y, verbose=0)
    messages = [str(warning.message) for warning in caught]
    assert sum("The KL is much larger" in message for message in messages) == count


def test_monitors_know_our_metrics():
    model = tfvn.Sequential(
        [keras.Input((4,)), tfvn.MeanFieldDense(2, activation="softmax")]
    )
    metric = tfvn.metrics.BrierScore()
    model.compile(
        "sgd", "sparse_categorical_crossentropy", metrics=[metric], run_eagerly=True
    )
    stop = keras.callbacks.EarlyStopping("brier_score", patience=0)
    model.fit(X, (Y[:, 0] > 0).astype("int32"), verbose=0, callbacks=[stop])
    assert stop.monitor_op is keras.ops.less
