"""The range test of learning rates."""

import keras
import numpy as np
import pytest
from callback_models import OPTIONS, X, Y, assert_same, make_model, state

import tfvn
from tfvn.training.callbacks.learning_rate_range import LearningRateRange


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

    @pytest.mark.parametrize(
        ("optimizer", "is_trained"),
        [("adam", False), ({"mean": "adam", "scale": "sgd"}, True)],
    )
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
        with pytest.raises(ValueError, match=r"groups \['scales'\].*Received"):
            LearningRateRange(group="scales").set_model(make_model())
        decay = keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.5)
        with pytest.raises(ValueError, match=r"sets the learning rate.*a schedule"):
            LearningRateRange().set_model(make_model(decay))
        LearningRateRange(group="mean").set_model(make_model(decay))
        model = tfvn.Sequential([tfvn.MeanFieldDense(1)])
        model.compile("sgd", "mse")
        with pytest.raises(ValueError, match=r"build it first.*not built"):
            self.fit(model, LearningRateRange())
