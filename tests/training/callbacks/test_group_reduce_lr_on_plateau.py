"""A learning rate per group that falls on a plateau."""

import keras
import numpy as np
import pytest
from callback_models import Script, X, Y, make_model

import tfvn
from tfvn.training.callbacks.group_reduce_lr_on_plateau import GroupReduceLROnPlateau


class TestGroupReduceLROnPlateau:
    def rates(self, callback, **values):
        """The rates after each epoch, of a run that logs the values."""
        model = make_model()
        epochs = len(next(iter(values.values())))
        after = []
        last = keras.callbacks.LambdaCallback(
            on_epoch_end=lambda *_: after.append(model.optimizer.learning_rates())
        )
        callbacks = [Script(**values), callback, last]
        model.fit(X, Y, epochs=epochs, callbacks=callbacks, verbose=0)
        return {
            group: [round(rates[group], 7) for rates in after]
            for group in ("mean", "scale")
        }

    def test_logs_the_rates_that_an_epoch_was_trained_with(self):
        """As `keras.callbacks.ReduceLROnPlateau` does, whose twin is run here."""
        values = {"a_nll": [1.0, 1.0, 0.5, 0.5, 0.5]}
        twin = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
        twin.compile(keras.optimizers.SGD(0.1), "mse")
        model = make_model()
        options = {"factor": 0.5, "patience": 1, "mode": "min"}
        histories = [
            run.fit(X, Y, epochs=5, callbacks=[Script(**values), cuts], verbose=0)
            for run, cuts in (
                (twin, keras.callbacks.ReduceLROnPlateau("a_nll", **options)),
                (model, GroupReduceLROnPlateau({"mean": "a_nll"}, **options)),
            )
        ]
        expected = histories[0].history["learning_rate"]
        assert len(set(expected)) > 2
        rates = histories[1].history["learning_rate_mean"]
        np.testing.assert_allclose(rates, expected, rtol=1e-6)

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

    @pytest.mark.one_in(3)
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
        with pytest.warns(UserWarning, match=r"`val_nll` which is not .*,kl,"):
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
        with pytest.raises(ValueError, match=r"Received.*\['mean', 'default'\]"):
            callback.set_model(model)
        decay = keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.5)
        with pytest.raises(ValueError, match=r"sets the learning rate.*a schedule"):
            callback.set_model(make_model(decay))
