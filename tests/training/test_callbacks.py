"""Callbacks that watch a training run, and those that set its learning rates."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfvn
from tfvn.training.callbacks.gradient_snr import (
    GradientSNR,
    preserved_state,
    signal_to_noise,
)
from tfvn.training.callbacks.group_reduce_lr_on_plateau import GroupReduceLROnPlateau
from tfvn.training.callbacks.learning_rate_range import LearningRateRange
from tfvn.training.callbacks.phase_transition import PhaseTransition

# XLA takes seconds to compile what these tests run a few times.
OPTIONS = {"jit_compile": False}

X = np.random.default_rng(0).normal(size=(32, 4)).astype("float32")
Y = np.random.default_rng(1).normal(size=(32, 1)).astype("float32")


def make_model(scale_rate=0.1, **kwargs):
    model = tfvn.Sequential([keras.Input((4,)), tfvn.MeanFieldDense(1, name="last")])
    sgd = keras.optimizers.SGD
    model.compile(
        {"mean": sgd(0.1), "scale": sgd(scale_rate)}, "mse", **OPTIONS, **kwargs
    )
    return model


def state(model):
    variables = [*model.variables, *model.optimizer.variables]
    return [keras.ops.convert_to_numpy(variable) for variable in variables]


def assert_same(before, after):
    assert len(before) == len(after)
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)


class Script(keras.callbacks.Callback):
    """Puts prepared values into the logs, epoch by epoch."""

    def __init__(self, **values):
        super().__init__()
        self.values = values

    def on_epoch_end(self, epoch, logs=None):
        logs.update({name: values[epoch] for name, values in self.values.items()})


class TestGroupReduceLROnPlateau:
    def rates(self, callback, **values):
        """The rates after each epoch, of a run that logs the values."""
        model = make_model()
        epochs = len(next(iter(values.values())))
        callbacks = [Script(**values), callback]
        history = model.fit(X, Y, epochs=epochs, callbacks=callbacks, verbose=0).history
        return {
            group: np.round(history[f"learning_rate_{group}"], 7).tolist()
            for group in ("mean", "scale")
        }

    def test_each_group_has_its_own_monitor(self):
        rates = self.rates(
            GroupReduceLROnPlateau({"mean": "a_nll", "scale": "a_kl"}, 0.5, patience=2),
            #     best  best  wait  cut   best  wait  cut
            a_nll=[5.0, 4.0, 4.0, 4.5, 3.0, 3.0, 3.0],
            #     best  wait  cut   wait  cut   wait  best
            a_kl=[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.5],
        )
        assert rates["mean"] == [0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.025]
        assert rates["scale"] == [0.1, 0.1, 0.05, 0.05, 0.025, 0.025, 0.025]

    def test_a_group_without_a_monitor_keeps_its_rate(self):
        rates = self.rates(
            GroupReduceLROnPlateau({"scale": "a_kl"}, patience=1), a_kl=[1.0] * 4
        )
        assert rates["mean"] == [0.1] * 4
        assert rates["scale"] == [0.1, 0.01, 0.001, 0.0001]

    def test_cooldown_and_min_lr(self):
        rates = self.rates(
            GroupReduceLROnPlateau(
                {"mean": "a_nll"}, 0.1, patience=1, cooldown=2, min_lr=0.005
            ),
            a_nll=[1.0] * 7,
        )
        assert rates["mean"] == [0.1, 0.01, 0.01, 0.005, 0.005, 0.005, 0.005]

    def test_agrees_with_keras(self):
        values = np.random.default_rng(2).normal(size=25).round(1).tolist()
        options = {"factor": 0.9, "patience": 3, "cooldown": 2, "min_delta": 0.15}
        ours = self.rates(
            GroupReduceLROnPlateau({"mean": "a_nll"}, mode="max", **options),
            a_nll=values,
        )
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
        model.compile(keras.optimizers.SGD(0.1), "mse")
        theirs = keras.callbacks.ReduceLROnPlateau("a_nll", mode="max", **options)
        theirs.set_model(model)
        theirs.on_train_begin()
        expected = []
        for epoch, value in enumerate(values):
            theirs.on_epoch_end(epoch, {"a_nll": value})
            expected.append(float(model.optimizer.learning_rate.numpy()))
        assert len(set(expected)) > 3
        np.testing.assert_allclose(ours["mean"], expected, atol=1e-7)

    @pytest.mark.parametrize(
        ("name", "mode", "rises"),
        [
            ("val_elbo", "auto", True),
            ("val_sparse_categorical_accuracy", "auto", True),
            ("val_nll", "auto", False),
            ("val_kl", "auto", False),
            ("last_loss", "auto", False),
            ("val_kl", "max", True),
            ("val_elbo", {"mean": "min"}, False),
        ],
    )
    def test_mode(self, name, mode, rises):
        callback = GroupReduceLROnPlateau({"mean": name}, 0.5, 1, mode)
        rates = self.rates(callback, **{name: [1.0, 2.0, 3.0]})
        assert rates["mean"] == ([0.1] * 3 if rises else [0.1, 0.05, 0.025])

    def test_nan_is_no_improvement(self):
        callback = GroupReduceLROnPlateau({"mean": "a_nll"}, 0.5, 2)
        rates = self.rates(callback, a_nll=[np.nan, 3.0, np.nan, np.nan, 2.0])
        assert rates["mean"] == [0.1, 0.1, 0.1, 0.05, 0.05]

    def test_starts_anew_with_every_fit(self):
        model = make_model()
        callback = GroupReduceLROnPlateau({"mean": "a_nll"}, 0.5, patience=2)
        for _ in range(3):
            callbacks = [Script(a_nll=[1.0, 1.0]), callback]
            model.fit(X, Y, epochs=2, callbacks=callbacks, verbose=0)
        assert model.optimizer.learning_rates()["mean"] == pytest.approx(0.1)

    def test_prints(self, capsys):
        callback = GroupReduceLROnPlateau({"mean": "a_nll"}, 0.5, 1, verbose=1)
        self.rates(callback, a_nll=[1.0, 1.0])
        printed = capsys.readouterr().out.strip()
        assert printed.startswith("Epoch 2: GroupReduceLROnPlateau")
        assert printed.endswith("of group `mean` to 0.05.")

    def test_a_missing_metric_warns(self):
        model = make_model()
        callback = GroupReduceLROnPlateau({"mean": "val_nll"})
        with pytest.warns(UserWarning, match=r"`val_nll`, which is not .*'kl'"):
            model.fit(X, Y, callbacks=[callback], verbose=0)

    def test_in_mixed_precision(self):
        keras.config.set_dtype_policy("mixed_float16")
        model = make_model()
        callback = GroupReduceLROnPlateau({"scale": "a_kl"}, 0.5, 1)
        callbacks = [Script(a_kl=[1.0, 1.0]), callback]
        model.fit(X, Y, epochs=2, callbacks=callbacks, verbose=0)
        assert "inner_optimizer" in dir(model.optimizer)
        rates = model.optimizer.inner_optimizer.learning_rates()
        assert rates["scale"] == pytest.approx(0.05)

    @pytest.mark.parametrize(
        ("kwargs", "message"),
        [
            ({"monitors": {}}, r"monitors=\{\}"),
            ({"monitors": "val_loss"}, "monitors='val_loss'"),
            ({"factor": 1.0}, "factor=1.0"),
            ({"factor": 0.0}, "factor=0.0"),
            ({"patience": 0}, "patience=0"),
            ({"mode": "up"}, "mode='up'"),
            ({"mode": {"scale": "min"}}, r"mode=\{'scale': 'min'\}"),
            ({"monitors": {"mean": "beauty"}}, "monitor='beauty', mode='auto'"),
        ],
    )
    def test_refuses(self, kwargs, message):
        with pytest.raises(ValueError, match=f"Received: {message}"):
            GroupReduceLROnPlateau(**{"monitors": {"mean": "nll"}, **kwargs})

    def test_refuses_models_that_it_cannot_serve(self):
        callback = GroupReduceLROnPlateau({"scale": "kl"})
        model = tfvn.Sequential([keras.Input((4,)), tfvn.MeanFieldDense(1)])
        model.compile("sgd", "mse")
        with pytest.raises(ValueError, match="Received: optimizer=SGD"):
            callback.set_model(model)
        model.compile({"mean": "sgd"}, "mse")
        with pytest.raises(ValueError, match=r"\['mean', 'default'\].*Received"):
            callback.set_model(model)
        decay = keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.5)
        with pytest.raises(ValueError, match=r"sets the learning rate.*a schedule"):
            callback.set_model(make_model(decay))


class SlopeOfScale(tfvn.Sequential):
    """A model whose loss has the gradient `slope * x` in a layer's scales."""

    slope = 1.0

    def compute_loss(self, x=None, y=None, y_pred=None, *args, **kwargs):
        (scale,) = self.layers[0].variable_groups["scale"]
        loss = tf.reduce_sum(scale.value * tf.reduce_mean(x, axis=0)[:, None])
        return self.slope * loss + 0.0 * tf.reduce_sum(y_pred)


class TestSignalToNoise:
    def test_is_that_of_the_definitions(self):
        # First parameter: mean 2, variance 1; squares 1 and 9: mean 5, variance 16.
        gradients = np.array([[1.0, 4.0], [3.0, 8.0], [1.0, 4.0], [3.0, 8.0]])
        # Second: mean 6, variance 4; squares 16 and 64: mean 40, variance 576.
        snr, paper = signal_to_noise(gradients)
        assert snr == pytest.approx((4 / 1 + 36 / 4) / 2)
        assert paper == pytest.approx((5 / 16 + 40 / 576) / 2)

    def test_units(self):
        gradients = np.random.default_rng(0).normal(1.0, 2.0, size=(10, 50))
        snr, paper = signal_to_noise(gradients)
        scaled_snr, scaled_paper = signal_to_noise(0.1 * gradients)
        assert scaled_snr == pytest.approx(snr)
        assert scaled_paper == pytest.approx(100 * paper)

    def test_without_signal(self):
        gradients = np.random.default_rng(0).normal(size=(10, 100_000))
        snr, paper = signal_to_noise(gradients)
        # `mean^2 / var` is F(1, 9) / 9, of mean 1 / 7.
        assert snr == pytest.approx(1 / 7, rel=0.03)
        assert paper > 1 / 2  # of a standard normal, E = 1 and Var = 2

    def test_leaves_out_what_does_not_vary(self):
        gradients = np.array([[1.0, 0.0, 5.0], [3.0, 0.0, 5.0]])
        assert signal_to_noise(gradients) == pytest.approx((4.0, 5 / 16))
        assert np.isnan(signal_to_noise(np.zeros((3, 2)))).all()

    def test_of_gradients_whose_squares_leave_float32(self):
        gradients = np.float32(1e-30) * np.array([[1.0], [3.0]], "float32")
        assert signal_to_noise(gradients)[0] == pytest.approx(4.0)


class TestGradientSNR:
    @pytest.mark.parametrize("slope", [1.0, 0.1])
    def test_against_numpy(self, slope):
        model = SlopeOfScale([keras.Input((4,)), tfvn.VarianceDense(1, name="last")])
        model.slope = slope
        model.compile(keras.optimizers.SGD(0.0), "mse", **OPTIONS)
        data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(4)
        callback = GradientSNR("last", data=data, window=8)
        history = model.fit(X, Y, callbacks=[callback], verbose=0).history
        # The gradients are known: the mean input of each batch.
        gradients = slope * X.reshape(8, 4, 4).mean(axis=1).astype("float64")
        mean, square = gradients.mean(0), gradients**2
        snr = np.mean(mean**2 / gradients.var(0))
        paper = np.mean(square.mean(0) / square.var(0))
        np.testing.assert_allclose(history["snr_last"], [snr], rtol=1e-4)
        np.testing.assert_allclose(history["snr_paper_last"], [paper], rtol=1e-4)

    @pytest.mark.parametrize("jit", [False, True])
    def test_last_batches_of_training_against_numpy(self, jit):
        model = SlopeOfScale([keras.Input((4,)), tfvn.VarianceDense(1, name="last")])
        model.slope = 1.0
        model.compile(keras.optimizers.SGD(0.0), "mse", jit_compile=jit)
        callback = GradientSNR("last", window=3)
        options = {"batch_size": 4, "shuffle": False, "verbose": 0}
        history = model.fit(X, Y, callbacks=[callback], **options).history
        gradients = X.reshape(8, 4, 4).mean(axis=1)[-3:].astype("float64")
        expected = np.mean(gradients.mean(0) ** 2 / gradients.var(0))
        np.testing.assert_allclose(history["snr_last"], [expected], rtol=1e-4)
        # It leaves the optimizer as it was.
        assert "apply_gradients" not in vars(model.optimizer)
        assert "snr_last" not in model.fit(X, Y, **options).history

    @pytest.mark.parametrize("num_samples", [1, 3])
    def test_gradients_are_those_of_training(self, num_samples):
        """SGD of rate 1 moves the scales by minus the gradient."""
        model = make_model(1.0, num_samples=num_samples)
        model.fit(X, Y, epochs=1, verbose=0)
        callback = GradientSNR("last", data=(X, Y), batch_size=32)
        callback.set_model(model)
        (scale,) = model.layers[0].variable_groups["scale"]
        before = scale.numpy()
        with preserved_state(model):
            gradient = callback._gradients((tf.constant(X), tf.constant(Y))).numpy()
        np.testing.assert_array_equal(scale.numpy(), before)
        model.fit(X, Y, batch_size=32, shuffle=False, verbose=0)
        moved = (before - scale.numpy()).ravel()
        assert np.abs(moved).max() > 1e-5
        np.testing.assert_allclose(gradient, moved, rtol=1e-3, atol=2e-6)

    def test_each_batch_has_its_own_noise(self):
        model = make_model()
        callback = GradientSNR(model.layers[0], data=(X[:4], Y[:4]), batch_size=4)
        # The same four examples in all batches: without noise nothing would vary.
        history = model.fit(X, Y, epochs=2, callbacks=[callback], verbose=0).history
        first, second = history["snr_last"]
        assert np.isfinite([first, second]).all()
        assert first != second

    @pytest.mark.parametrize("data", [None, (X, Y)], ids=["training", "data"])
    def test_does_not_change_training(self, data):
        runs = []
        for is_watched in (False, True):
            keras.utils.set_random_seed(5)
            model = tfvn.Sequential(
                [
                    keras.Input((4,)),
                    tfvn.GaussianDropoutDense(3, name="first"),
                    keras.layers.BatchNormalization(),
                    keras.layers.Dropout(0.5),
                    keras.layers.Dense(1),
                ]
            )
            model.compile("adam", "mse", metrics=["mae"], **OPTIONS)
            callbacks = [GradientSNR("first", 3, data, 8)] * is_watched
            history = model.fit(X, Y, epochs=3, callbacks=callbacks, verbose=0).history
            logged = {k: v for k, v in history.items() if not k.startswith("snr")}
            assert len(history) - len(logged) == 2 * is_watched
            runs.append((logged, state(model)))
        assert runs[0][0] == runs[1][0]
        assert_same(runs[0][1], runs[1][1])

    def test_in_a_keras_model(self):
        layer = tfvn.MeanFieldDense(1, kl_weight=0.1, name="last")
        model = keras.Sequential([keras.Input((4,)), layer])
        model.compile("adam", "mse", **OPTIONS)
        optimizer = model.optimizer
        callback = GradientSNR(layer, 3, (X, Y, np.ones(32)))
        history = model.fit(X, Y, callbacks=[callback], verbose=0).history
        assert history["snr_last"][0] > 0
        assert model.optimizer is optimizer

    @pytest.mark.parametrize(
        ("kwargs", "message"),
        [
            ({"window": 1}, "window=1"),
            ({"batch_size": 0}, "batch_size=0"),
            ({"data": X}, "data=ndarray"),
        ],
    )
    def test_refuses(self, kwargs, message):
        with pytest.raises(ValueError, match=f"Received: {message}"):
            GradientSNR(**{"layer": "last", "data": (X, Y), **kwargs})

    def test_refuses_layers_that_it_cannot_measure(self):
        model = make_model()
        with pytest.raises(ValueError, match=r"\['last'\].*Received: layer='first'"):
            GradientSNR("first", data=(X, Y)).set_model(model)
        model.layers[0].trainable = False
        model.compile("sgd", "mse")
        with pytest.raises(ValueError, match="scales that are trained"):
            GradientSNR("last", data=(X, Y)).set_model(model)

    def test_refuses_replicas(self, two_replicas):
        with two_replicas.scope():
            model = make_model()
        with pytest.raises(ValueError, match="Received: 2 replicas"):
            GradientSNR("last", data=(X, Y)).set_model(model)


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
        x = np.tile(X[:1], (40_000, 1))
        callback = PhaseTransition((x, np.zeros(len(x))))
        callback.set_model(model)
        outputs = callback._zero_mean(tf.constant(x)).numpy()
        variance = X[:1] ** 2 @ layer.posterior.variance().numpy() + 0.01**2
        error = 5 * np.sqrt(variance / len(x))
        assert (np.abs(outputs.mean(0) - 2.0) < error).all()
        np.testing.assert_allclose(outputs.var(0), variance[0], rtol=0.05, atol=1e-5)
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
                # The noise is put back, and so is the same every time.
                callback.on_epoch_end(0, logs)
                expected = expected or logs
                assert logs == expected
        assert 0.25 < expected["accuracy_one_sample"] < 1

    def test_ensembles_average_probabilities_not_logits(self):
        callback = PhaseTransition((X, np.zeros(1)), num_samples=3)
        # Two draws are for class 0; the third is for class 1, by a large logit.
        draws = iter([[0.2, 0.1]] * 2 + [[0.0, 50.0]])
        callback.x, callback.y = X[:1], np.zeros(1)

        def forward(x):
            return np.array([next(draws)])

        assert callback._ensemble(forward, callback._draw(forward)) == 0.0
        draws = iter([[1.5, 0.0]] * 2 + [[0.0, 50.0]])
        assert callback._ensemble(forward, callback._draw(forward)) == 1.0

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


class TestLearningRateRange:
    def fit(self, model, callback, epochs=1):
        fit = {"batch_size": 4, "epochs": epochs, "verbose": 0, "callbacks": [callback]}
        return model.fit(X, Y, **fit)

    def test_rates_are_geometric(self):
        callback = LearningRateRange(1e-5, 1e-1, 5, stop_factor=1e9, smoothing=0.0)
        self.fit(make_model(), callback)
        expected = [1e-5, 1e-4, 1e-3, 1e-2, 1e-1]
        np.testing.assert_allclose(callback.history["learning_rate"], expected)
        assert callback.history["loss"] == callback.history["smoothed_loss"]
        assert len(callback.history["loss"]) == 5

    def test_losses_are_those_of_single_batches(self):
        """A weight that SGD moves by its rate: the loss is minus their sum."""
        layer = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")
        model = keras.Sequential([keras.Input((1,)), layer])
        model.compile(
            keras.optimizers.SGD(0.3), lambda y, y_pred: 10 - y_pred, **OPTIONS
        )
        callback = LearningRateRange(0.1, 3.2, steps=6, smoothing=0.5)
        ones = np.ones((4, 1))
        # Over the border of an epoch, where the metrics are reset anyway.
        model.fit(ones, ones, batch_size=1, epochs=2, verbose=0, callbacks=[callback])
        rates = 0.1 * 2.0 ** np.arange(6)
        losses = 10 - np.concatenate([[0], np.cumsum(rates)[:-1]])
        np.testing.assert_allclose(callback.history["loss"], losses, rtol=1e-6)
        smoothed = [
            np.average(losses[: i + 1], weights=0.5 ** np.arange(i, -1, -1))
            for i in range(6)
        ]
        np.testing.assert_allclose(callback.history["smoothed_loss"], smoothed, 1e-6)
        assert layer.kernel.numpy().item() == 0.0
        assert float(model.optimizer.learning_rate.numpy()) == pytest.approx(0.3)

    @pytest.mark.parametrize("is_trained", [False, True])
    @pytest.mark.parametrize("optimizer", ["adam", {"mean": "adam", "scale": "sgd"}])
    def test_restores_everything(self, optimizer, is_trained):
        model = tfvn.Sequential(
            [
                keras.Input((4,)),
                tfvn.MeanFieldDense(3),
                keras.layers.BatchNormalization(),
                tfvn.VarianceDense(1),
            ]
        )
        model.compile(optimizer, "mse", **OPTIONS)
        if is_trained:
            model.fit(X, Y, verbose=0)
        before = state(model)
        weights = model.get_weights()
        callback = LearningRateRange(1e-3, 1e-1, steps=8)
        spy = keras.callbacks.LambdaCallback(
            on_train_batch_end=lambda batch, logs: seen.append(model.get_weights())
        )
        seen = []
        model.fit(X, Y, batch_size=4, callbacks=[callback, spy], verbose=0)
        assert any((a != b).any() for a, b in zip(weights, seen[-1], strict=True))
        assert_same(weights, model.get_weights())
        if is_trained:
            assert_same(before, state(model))
        assert int(model.optimizer.iterations.numpy()) == is_trained

    def test_training_goes_on_as_if_nothing_had_been(self):
        results = []
        for is_tested in (False, True):
            keras.utils.set_random_seed(5)
            model = make_model()
            if is_tested:
                self.fit(model, LearningRateRange(steps=5))
            model.fit(X, Y, epochs=2, shuffle=False, verbose=0)
            results.append(state(model))
        assert_same(*results)

    def test_of_one_group(self):
        model = make_model()
        callback = LearningRateRange(1e-3, 1e-1, steps=3, group="scale")
        seen = []
        spy = keras.callbacks.LambdaCallback(
            on_train_batch_end=lambda batch, logs: seen.append(
                model.optimizer.learning_rates()
            )
        )
        model.fit(X, Y, batch_size=4, callbacks=[callback, spy], verbose=0)
        scales = [rates["scale"] for rates in seen]
        np.testing.assert_allclose(scales, [1e-3, 1e-2, 1e-1], rtol=1e-6)
        assert {round(rates["mean"], 6) for rates in seen} == {0.1}

    @pytest.mark.parametrize(
        ("losses", "count"),
        [
            ([2.0, 1.0, 3.9, 4.1, 1.0], 4),
            ([2.0, 1.0, np.inf, 1.0], 3),
            ([2.0, 1.0, np.nan, 1.0], 3),
            ([np.inf, 1.0], 1),
            ([-1.0, -2.0, 3.9, 4.1, 1.0], 4),  # three times 2 above -2
            ([1.0] * 20, 10),  # all the steps
        ],
    )
    def test_stops(self, losses, count):
        model = make_model()
        callback = LearningRateRange(steps=10, smoothing=0.0)
        callback.set_model(model)
        callback.on_train_begin()
        model.stop_training = False
        taken = 0
        for batch, loss in enumerate(losses):
            callback.on_train_batch_begin(batch)
            callback.on_train_batch_end(batch, {"loss": loss})
            taken += 1
            if model.stop_training:
                break
        assert taken == count

    def test_stops_fit_where_it_diverges(self):
        model = make_model()
        callback = LearningRateRange(1e-3, 1e3, steps=100)
        history = self.fit(model, callback, epochs=20).history
        assert 5 < len(callback.history["loss"]) < 100
        assert len(history["loss"]) < 13
        assert callback.suggestion() < callback.history["learning_rate"][-1]

    def test_suggests_the_steepest_descent(self):
        callback = LearningRateRange()
        rates = np.geomspace(1e-4, 1, 41)
        position = np.log10(rates)
        # Steepest at 1e-2, lowest at 0.1, with a steep fall after the explosion.
        losses = -1 / (1 + np.exp(-4 * (position + 2))) + 5 * np.maximum(
            position + 1, 0
        )
        losses[-1] = 0.0
        callback.history = {"learning_rate": list(rates), "smoothed_loss": list(losses)}
        assert callback.suggestion() == pytest.approx(1e-2)
        # However many losses are no numbers.
        callback.history["smoothed_loss"][-1] = np.nan
        assert callback.suggestion() == pytest.approx(1e-2)

    def test_suggests_nothing_without_a_descent(self):
        callback = LearningRateRange()
        with pytest.raises(ValueError, match="Received: 0 losses"):
            callback.suggestion()
        callback.history = {"learning_rate": [1.0, 2.0], "smoothed_loss": [1.0, 2.0]}
        with pytest.raises(ValueError, match="Received: 1 losses"):
            callback.suggestion()

    def test_plots(self, tmp_path):
        pytest.importorskip("matplotlib")
        callback = LearningRateRange(1e-3, 1e-1, steps=5)
        self.fit(make_model(), callback)
        figure = callback.plot(tmp_path / "range.png")
        (line,) = figure.axes[0].lines
        np.testing.assert_array_equal(
            line.get_xydata().T,
            [callback.history["learning_rate"], callback.history["smoothed_loss"]],
        )
        assert figure.axes[0].get_xscale() == "log"
        assert (tmp_path / "range.png").stat().st_size > 1000

    @pytest.mark.parametrize(
        ("kwargs", "message"),
        [
            ({"start": 0.0}, "start=0.0, end=1.0"),
            ({"start": 2.0}, "start=2.0, end=1.0"),
            ({"steps": 1}, "steps=1"),
            ({"stop_factor": 1.0}, "stop_factor=1.0"),
            ({"smoothing": 1.0}, "smoothing=1.0"),
        ],
    )
    def test_refuses(self, kwargs, message):
        with pytest.raises(ValueError, match=f"Received: {message}"):
            LearningRateRange(**kwargs)

    def test_refuses_models_that_it_cannot_serve(self):
        with pytest.raises(ValueError, match="Received: group='scales'"):
            LearningRateRange(group="scales").set_model(make_model())
        decay = keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.5)
        with pytest.raises(ValueError, match=r"sets the learning rate.*a schedule"):
            LearningRateRange().set_model(make_model(decay))
        LearningRateRange(group="mean").set_model(make_model(decay))
        model = tfvn.Sequential([tfvn.MeanFieldDense(1)])
        model.compile("sgd", "mse")
        with pytest.raises(ValueError, match=r"build the model first.*not built"):
            self.fit(model, LearningRateRange())
