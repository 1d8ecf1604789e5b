"""The accuracies that show a phase transition."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from callback_models import OPTIONS, X, Y, assert_same, make_model, state
from ztests import assert_moments

import tfvn
from tfvn.training.callbacks.phase_transition import PhaseTransition


def classes(size=400):
    """Four classes, told apart by which input is large."""
    rng = np.random.default_rng(3)
    labels = rng.integers(4, size=size)
    x = 3.0 * np.eye(4)[labels] + 0.1 * rng.normal(size=(size, 4))
    return x.astype("float32"), labels


def watch(layers, x, y, num_samples=20, **kwargs):
    """What is logged for a model as it is, with its weights unchanged."""
    model = tfvn.Sequential([keras.Input((4,)), *layers])
    before = [variable.numpy() for variable in model.variables]
    callback = PhaseTransition((x, y), num_samples, **kwargs)
    callback.set_model(model)
    logs = {}
    callback.on_epoch_end(0, logs)
    assert_same(before, [variable.numpy() for variable in model.variables])
    return logs


def dropout_layer(log_alpha, **kwargs):
    return tfvn.GaussianDropoutDense(
        4,
        initial_log_alpha=log_alpha,
        kernel_initializer="identity",
        name="last",
        **kwargs,
    )


def by_size():
    """Classes by which of the outputs is farthest from zero."""
    return keras.layers.Lambda(lambda x: tf.square(x))


class TestPhaseTransition:
    def test_a_variance_network_knows_nothing_by_its_means(self):
        x, y = classes()
        layer = tfvn.VarianceDense(4, kernel_initializer="identity")
        logs = watch([layer, by_size()], x, y, num_samples=50)
        # All outputs of the mean network are zero, so that it says 0 throughout.
        assert logs["accuracy_mean"] == pytest.approx(np.mean(y == 0))
        assert logs["accuracy_ensemble"] > 0.99
        assert 0.6 < logs["accuracy_one_sample"] < logs["accuracy_ensemble"]
        assert "accuracy_zero_mean" not in logs

    def test_before_the_transition_only_the_means_count(self):
        x, y = classes()
        # Class 2 is what the biases say when nothing else is to be heard.
        biases = keras.layers.Rescaling(1.0, [0.0, 0.0, 0.1, 0.0])
        logs = watch([dropout_layer(-15.0), biases], x, y)
        assert logs["accuracy_mean"] == logs["accuracy_ensemble"] == 1.0
        assert logs["accuracy_one_sample"] == 1.0
        assert logs["accuracy_zero_mean"] == pytest.approx(np.mean(y == 2))
        assert logs["log_alpha_last"] == pytest.approx(-15.0)

    def test_after_the_transition_only_the_variances_count(self):
        x, y = classes()
        logs = watch([dropout_layer(15.0), by_size()], x, y, num_samples=50)
        assert logs["accuracy_ensemble"] > 0.99
        assert logs["accuracy_zero_mean"] == pytest.approx(
            logs["accuracy_ensemble"], abs=0.01
        )
        assert logs["accuracy_one_sample"] > 0.9

    @pytest.mark.one_in(3)
    @pytest.mark.parametrize("estimator", ["local", "weights", "flipout"])
    @pytest.mark.parametrize("form", ["multiplicative", "additive"])
    def test_the_output_without_means(self, estimator, form):
        """Mean 0 (or the bias's) and the variance of the layer."""
        layer = dropout_layer(
            -1.0,
            estimator=estimator,
            parameterization=form,
            bias_posterior="mean_field",
            bias_initializer=keras.initializers.Constant(2.0),
        )
        model = tfvn.Sequential([keras.Input((4,)), layer])
        samples = tfvn.zero_mean_predict(
            model, X[:1], 4000, outputs="regression", return_samples=True, seed=1
        ).samples[0]
        variance = X[:1] ** 2 @ layer.posterior.variance().numpy() + 0.01**2
        assert_moments(samples, np.full(4, 2.0), variance[0])
        assert layer.estimator.alias == estimator
        assert not layer.posterior.zero_mean

    def test_labels_and_outputs_of_every_kind(self):
        x, y = classes(64)
        expected = None
        for activation in (None, "softmax"):
            layer = dropout_layer(1.0, activation=activation, seed=1)
            model = tfvn.Sequential([keras.Input((4,)), layer])
            callback = PhaseTransition((x, y), num_samples=5, batch_size=20)
            callback.set_model(model)
            for labels in (y, y[:, None], np.eye(4)[y]):
                callback.y = labels
                logs = {}
                # The noise of an epoch is the same every time.
                callback.on_epoch_end(0, logs)
                expected = expected or logs
                assert logs == expected
        assert 0.25 < expected["accuracy_one_sample"] < 1

    @pytest.mark.one_in(2)
    @pytest.mark.parametrize("data", [None, (X, Y)], ids=["training", "data"])
    def test_does_not_change_training(self, data):
        x, y = classes(64)
        runs = []
        for is_watched in (False, True):
            keras.utils.set_random_seed(5)
            model = tfvn.Sequential(
                [
                    keras.Input((4,)),
                    tfvn.GaussianDropoutDense(8),
                    keras.layers.BatchNormalization(),
                    tfvn.VarianceDense(8),
                    keras.layers.Dropout(0.5),
                    keras.layers.Dense(4, activation="softmax"),
                ]
            )
            model.compile("adam", "sparse_categorical_crossentropy", **OPTIONS)
            callbacks = [PhaseTransition((x, y), 2)] * is_watched
            history = model.fit(x, y, epochs=3, callbacks=callbacks, verbose=0).history
            assert len(history.get("accuracy_zero_mean", [])) == 3 * is_watched
            runs.append((history["loss"], state(model)))
        assert runs[0][0] == runs[1][0]
        assert_same(runs[0][1], runs[1][1])

    def test_follows_the_weights(self):
        """A pass is traced once, but reads the variables of the moment."""
        x, y = classes(64)
        layer = dropout_layer(-15.0)
        model = tfvn.Sequential([keras.Input((4,)), layer])
        model.compile("sgd", "mse")
        callback = PhaseTransition((x, y), 3)
        callback.set_model(model)
        logs = [{}, {}]
        callback.on_epoch_end(0, logs[0])
        layer.posterior.mean_variable.assign(-np.eye(4))
        layer.posterior.log_alpha_variable.assign(2.0)
        callback.on_epoch_end(1, logs[1])
        assert [log["accuracy_mean"] for log in logs] == [1.0, 0.0]
        assert [log["log_alpha_last"] for log in logs] == [-15.0, 2.0]

    def test_in_a_keras_model_with_several_inputs(self, capsys):
        x, y = classes(64)
        inputs = [keras.Input((4,)), keras.Input((4,))]
        layer = tfvn.VarianceDense(4, name="last")
        model = keras.Model(inputs, layer(keras.layers.add(inputs)))
        model.compile("sgd", "sparse_categorical_crossentropy", **OPTIONS)
        callback = PhaseTransition(([x, x], y), 2, verbose=1)
        model.fit([x, x], y, callbacks=[callback], verbose=0)
        assert "Epoch 1: accuracy_mean 0." in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("kwargs", "message"),
        [
            ({"validation_data": X}, "validation_data=ndarray"),
            ({"num_samples": 0}, "num_samples=0"),
            ({"batch_size": 0}, "batch_size=0"),
        ],
    )
    def test_refuses(self, kwargs, message):
        with pytest.raises(ValueError, match=f"Received: {message}"):
            PhaseTransition(**{"validation_data": (X, Y), **kwargs})

    def test_refuses_what_is_no_classifier(self):
        model = make_model()
        with pytest.raises(ValueError, match=r"outputs of shape \(32, 1\)"):
            model.fit(X, Y, callbacks=[PhaseTransition((X, Y))], verbose=0)
        with pytest.raises(ValueError, match=r"labels of shape \(32, 3\)"):
            watch([dropout_layer(0.0)], X, np.ones((32, 3)))
