"""The signal-to-noise ratio of gradients."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from callback_models import OPTIONS, X, Y, assert_same, make_model, state
from scipy import stats

import tfvn
from tfvn.training.callbacks.gradient_snr import (
    GradientSNR,
    _find,
    preserved_state,
    signal_to_noise,
)
from tfvn.training.callbacks.steps import GuardedSteps


class SlopeOfScale(tfvn.Sequential):
    """A model whose loss has the gradient `slope * x` in a layer's scales."""

    slope = 1.0

    def compute_loss(self, x=None, y=None, y_pred=None, *args, **kwargs):
        (scale,) = self.layers[0].variable_groups["scale"]
        loss = tf.reduce_sum(scale.value * tf.reduce_mean(x, axis=0)[:, None])
        return self.slope * loss + 0.0 * tf.cast(tf.reduce_sum(y_pred), tf.float32)


class Applies(SlopeOfScale):
    """A model whose step calls `apply`."""

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.optimizer.scale_loss(self.compute_loss(x, y, self(x)))
        variables = self.trainable_variables
        self.optimizer.apply(tape.gradient(loss, variables), variables)
        return {"loss": loss}


class TestSignalToNoise:
    def test_is_that_of_the_definitions(self):
        # First parameter: mean 2, variance 1; squares 1 and 9: mean 5, variance 16.
        gradients = np.array([[1.0, 4.0], [3.0, 8.0], [1.0, 4.0], [3.0, 8.0]])
        # Second: mean 6, variance 4; squares 16 and 64: mean 40, variance 576.
        ratios = signal_to_noise(gradients)
        assert ratios.mean == pytest.approx((4 / 1 + 36 / 4) / 2)
        assert ratios.pooled == pytest.approx((4 + 36) / (1 + 4))
        assert ratios.paper == pytest.approx((5 / 16 + 40 / 576) / 2)

    def test_inert_parameters_decide_the_mean_only(self):
        rng = np.random.default_rng(0)
        gradients = rng.normal(1.0, 1.0, size=(10, 99))
        inert = 1.0 + 1e-6 * rng.normal(size=(10, 1))
        before = signal_to_noise(gradients)
        after = signal_to_noise(np.append(gradients, inert, axis=1))
        assert after.mean > 1e6 * before.mean
        assert after.median == pytest.approx(before.median, rel=0.1)
        assert after.pooled == pytest.approx(before.pooled, rel=0.1)
        ratios = gradients.mean(0) ** 2 / gradients.var(0)
        assert before.median == pytest.approx(np.sort(ratios)[49])

    def test_units(self):
        gradients = np.random.default_rng(0).normal(1.0, 2.0, size=(10, 50))
        ratios, scaled = signal_to_noise(gradients), signal_to_noise(0.1 * gradients)
        for kind in ("mean", "median", "pooled"):
            assert getattr(scaled, kind) == pytest.approx(getattr(ratios, kind))
        assert scaled.paper == pytest.approx(100 * ratios.paper)

    def test_without_signal(self):
        gradients = np.random.default_rng(0).normal(size=(10, 100_000))
        ratios = signal_to_noise(gradients)
        # `mean^2 / var` is F(1, 9) / 9, of mean 1 / 7.
        assert ratios.mean == pytest.approx(1 / 7, rel=0.03)
        assert ratios.median == pytest.approx(stats.f.median(1, 9) / 9, rel=0.03)
        assert ratios.pooled == pytest.approx(1 / 9, rel=0.03)
        assert ratios.paper > 1 / 2  # of a standard normal, E = 1 and Var = 2

    def test_leaves_out_what_does_not_vary(self):
        gradients = np.array([[1.0, 0.0, 5.0], [3.0, 0.0, 5.0]])
        ratios = signal_to_noise(gradients)
        assert (ratios.mean, ratios.median) == pytest.approx((4.0, 4.0))
        assert ratios.paper == pytest.approx(5 / 16)
        assert ratios.pooled == pytest.approx(4 + 25)
        assert np.isnan(signal_to_noise(np.ones((3, 2)))).all()

    def test_of_gradients_whose_squares_leave_float32(self):
        gradients = np.float32(1e-30) * np.array([[1.0], [3.0]], "float32")
        ratios = signal_to_noise(gradients)
        assert (ratios.mean, ratios.median, ratios.pooled) == pytest.approx((4, 4, 4))


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
        median = np.median(mean**2 / gradients.var(0))
        np.testing.assert_allclose(history["snr_median_last"], [median], rtol=1e-4)
        pooled = np.sum(mean**2) / np.sum(gradients.var(0))
        np.testing.assert_allclose(history["snr_pooled_last"], [pooled], rtol=1e-4)

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
        assert "apply" not in vars(model.optimizer)
        assert "snr_last" not in model.fit(X, Y, **options).history

    def test_measuring_is_no_training(self):
        """Neither weights nor the schedule of the KL move while it measures."""
        logs = []
        for callbacks in ([], [GradientSNR("last", data=(X, Y), window=3)]):
            keras.utils.set_random_seed(1)
            last = tfvn.MeanFieldDense(1, estimator="mean", name="last")
            model = tfvn.Sequential([keras.Input((4,)), last])
            schedule = tfvn.schedules.LinearAnnealing(steps=20)
            model.compile("sgd", "mse", kl_schedule=schedule, **OPTIONS)
            options = {"batch_size": 8, "epochs": 2, "shuffle": False, "verbose": 0}
            logs.append(model.fit(X, Y, callbacks=callbacks, **options).history)
            assert int(model.training_state.batches.numpy()) == 2 * len(X) // 8
        without, measured = logs
        assert len(measured["snr_last"]) == 2
        for name, values in without.items():
            np.testing.assert_allclose(measured[name], values, rtol=1e-6)

    def test_in_mixed_precision_and_with_apply(self):
        """Loss scaling multiplies the paper's ratio by 2^-30 unless it is undone."""
        keras.config.set_dtype_policy("mixed_float16")
        model = Applies([keras.Input((4,)), tfvn.VarianceDense(1, name="last")])
        model.compile(keras.optimizers.SGD(0.0), "mse", **OPTIONS)
        options = {"batch_size": 4, "shuffle": False, "verbose": 0}
        callback = GradientSNR("last", window=np.int64(3))
        history = model.fit(X, Y, callbacks=[callback], **options).history
        square = X.reshape(8, 4, 4).mean(axis=1)[-3:].astype("float64") ** 2
        expected = np.mean(square.mean(0) / square.var(0))
        np.testing.assert_allclose(history["snr_paper_last"], [expected], rtol=1e-3)

    def test_interrupted_fit_leaves_nothing_behind(self):
        model = make_model()
        model.run_eagerly = True

        class Interrupt(keras.callbacks.Callback):
            def on_epoch_end(self, epoch, logs=None):
                raise KeyboardInterrupt

        callbacks = [GradientSNR("last", 3), tfvn.callbacks.AlternateGroups()]
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, Y, callbacks=[*callbacks, Interrupt()], verbose=0)
        assert "apply" not in vars(model.optimizer)
        (scale,) = model.layers[0].variable_groups["scale"]
        before = scale.numpy()
        assert "snr_last" not in model.fit(X, Y, verbose=0).history
        assert not isinstance(model.train_function, GuardedSteps)
        # The switch that was off when it was interrupted is on again.
        assert not np.array_equal(scale.numpy(), before)

    def test_step_that_raises_restores_at_once(self):
        model = make_model()
        model.run_eagerly = True
        model.fit(X, Y, verbose=0)
        before = state(model)
        bad = np.full((32, 4), "a")

        def batches():
            yield X, Y
            raise RuntimeError(f"the data end here: {bad[0, 0]}")

        data = tf.data.Dataset.from_generator(
            batches, output_signature=(tf.TensorSpec((32, 4)), tf.TensorSpec((32, 1)))
        ).apply(tf.data.experimental.assert_cardinality(3))
        test = tfvn.callbacks.LearningRateRange(0.1, 1.0, steps=3)
        with pytest.raises(tf.errors.OpError, match="the data end here"):
            model.fit(data, callbacks=[test], verbose=0)
        assert_same(before, state(model))

    def test_recurrent_layer_goes_by_its_own_name(self):
        layer = keras.layers.Bidirectional(tfvn.MeanFieldLSTM(2, name="lstm"))
        inner = keras.layers.TimeDistributed(
            tfvn.MeanFieldDense(2, name="in"), name="td"
        )
        model = tfvn.Sequential(
            [keras.Input((3, 4)), inner, layer, tfvn.MeanFieldDense(1)]
        )
        found = {name: _find(model, name) for name in ("td", "in", "forward_lstm")}
        assert found["td"][1] is found["in"][1] is inner.layer
        assert found["forward_lstm"] == ("forward_lstm", layer.forward_layer.cell)
        with pytest.raises(ValueError, match="forward_lstm_cell"):
            _find(model, layer)

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
            assert len(history) - len(logged) == 4 * is_watched
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
        with pytest.raises(ValueError, match="trainable scales"):
            GradientSNR("last", data=(X, Y)).set_model(model)

    def test_refuses_replicas(self, two_replicas):
        with two_replicas.scope():
            model = make_model()
        with pytest.raises(ValueError, match="Received: 2 replicas"):
            GradientSNR("last", data=(X, Y)).set_model(model)
