"""What schedules count: training batches, whatever the optimizer and the data do."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from training_models import DATA, SIZE, sequential

import tfvn
from tfvn.training.schedules import LinearAnnealing, MinibatchReweighting

X, Y = DATA


def unknown_length(batch_size=16):
    """A data set of SIZE examples whose length TensorFlow does not know."""
    batches = tf.data.Dataset.from_tensor_slices(DATA).batch(batch_size)
    return batches.filter(lambda x, y: True)


def weights(model, *args, epochs=1, **kwargs):
    """The weight of the KL in every batch of a run."""
    seen = []

    class Notes(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            seen.append(float(model._elbo.weight(training=True)))

    model.fit(*args, epochs=epochs, verbose=0, callbacks=[Notes()], **kwargs)
    return seen


def compiled(schedule, optimizer="sgd", **kwargs):
    model = sequential()
    model.compile(optimizer, "mse", kl_schedule=schedule, run_eagerly=True, **kwargs)
    return model


class TestUnknownLength:
    @pytest.mark.parametrize(
        "schedule",
        [LinearAnnealing(epochs=2), MinibatchReweighting(0.5)],
        ids=["annealing", "reweighting"],
    )
    def test_raises_where_epochs_count(self, schedule):
        model = compiled(schedule, train_size=SIZE)
        with pytest.raises(ValueError, match=r"\(steps=\.\.\.\).*Received: x="):
            model.fit(unknown_length(), verbose=0)
        with pytest.raises(ValueError, match=r"\(steps=\.\.\.\).*Received: no number"):
            model.train_on_batch(X, Y)

    @pytest.mark.filterwarnings("ignore:Your input ran out of data")
    def test_steps_do_not_need_it(self):
        model = compiled(LinearAnnealing(steps=6), train_size=SIZE)
        logs = model.fit(unknown_length(), epochs=2, verbose=0).history
        np.testing.assert_allclose(logs["kl_weight"], [1 / 6, 4 / 6], rtol=1e-5)

    def test_steps_of_a_reweighting(self):
        known, given = MinibatchReweighting(0.5), MinibatchReweighting(0.5, steps=3)
        model = compiled(given, train_size=SIZE)
        for step in range(7):
            expected = float(known(tf.constant(float(step)), 3.0))
            assert float(model._elbo.weight(training=True)) == pytest.approx(expected)
            model.train_on_batch(X, Y)

    def test_of_known_steps(self):
        model = compiled(LinearAnnealing(epochs=2), train_size=SIZE)
        endless = unknown_length().repeat()
        found = weights(model, endless, epochs=2, steps_per_epoch=3)
        np.testing.assert_allclose(found, np.arange(6) / 6, rtol=1e-5)


class TestCounting:
    def test_under_gradient_accumulation(self):
        optimizer = keras.optimizers.SGD(0.01, gradient_accumulation_steps=3)
        model = compiled(LinearAnnealing(steps=6), optimizer)
        found = weights(model, X, Y, batch_size=16, epochs=2)
        np.testing.assert_allclose(found, np.arange(6) / 6, rtol=1e-5)

    def test_in_a_second_run_of_another_batch_size(self):
        model = compiled(LinearAnnealing(epochs=4))
        first = weights(model, X, Y, batch_size=16, epochs=2)
        second = weights(model, X, Y, batch_size=8, epochs=2)
        np.testing.assert_allclose(first, np.arange(6) / 12, rtol=1e-5)
        np.testing.assert_allclose(second, 0.5 + np.arange(12) / 24, rtol=1e-5)

    def test_interrupted_epoch_counts_as_one(self):
        class Interrupt(keras.callbacks.Callback):
            def on_train_batch_end(self, batch, logs=None):
                raise KeyboardInterrupt

        model = compiled(LinearAnnealing(epochs=4))
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, Y, batch_size=16, callbacks=[Interrupt()], verbose=0)
        found = weights(model, X, Y, batch_size=16)
        np.testing.assert_allclose(found, 0.25 + np.arange(3) / 12, rtol=1e-5)

    def test_reweighting_in_a_second_run(self):
        model = compiled(MinibatchReweighting(0.5))
        first = weights(model, X, Y, batch_size=16, epochs=1)
        second = weights(model, X, Y, batch_size=12, epochs=1)
        np.testing.assert_allclose(np.mean(first), 1.0, rtol=1e-5)
        np.testing.assert_allclose(np.mean(second), 1.0, rtol=1e-5)

    def test_of_steps_that_loss_scaling_skips(self):
        scaled = keras.optimizers.LossScaleOptimizer(
            keras.optimizers.SGD(0.0), initial_scale=1e38
        )
        model = compiled(LinearAnnealing(steps=6), scaled)
        found = weights(model, X, Y, batch_size=16, epochs=2)
        np.testing.assert_allclose(found, np.arange(6) / 6, rtol=1e-5)
        assert int(scaled.iterations.numpy()) < 6

    def test_is_untouched_by_evaluation(self):
        model = compiled(LinearAnnealing(steps=6))
        model.fit(X, Y, validation_data=DATA, verbose=0)
        before = int(model.training_state.batches.numpy())
        model.evaluate(X, Y, verbose=0)
        assert int(model.training_state.batches.numpy()) == before == 2

    def test_with_an_overridden_step(self):
        class Model(tfvn.Model):
            def train_step(self, data):
                return {"loss": tf.reduce_mean(self(data[0], training=True))}

        inputs = keras.Input((4,))
        model = Model(inputs, tfvn.MeanFieldDense(2)(inputs))
        model.compile("sgd", "mse", kl_schedule=LinearAnnealing(steps=6))
        model.fit(X, Y, batch_size=16, verbose=0)
        assert int(model.training_state.batches.numpy()) == 3

    def test_on_two_replicas(self, two_replicas):
        with two_replicas.scope():
            model = sequential()
            model.compile("sgd", "mse", kl_schedule=LinearAnnealing(steps=6))
        logs = model.fit(X, Y, batch_size=16, epochs=2, verbose=0).history
        np.testing.assert_allclose(logs["kl_weight"], [1 / 6, 4 / 6], rtol=1e-4)


class TestSaved:
    def trained(self):
        model = compiled(LinearAnnealing(epochs=4))
        model.fit(X, Y, batch_size=16, verbose=0)
        return model

    def test_goes_on_where_it_was(self, tmp_path):
        model = self.trained()
        model.save(tmp_path / "model.keras")
        copy = keras.saving.load_model(tmp_path / "model.keras")
        found = weights(copy, X, Y, batch_size=16)
        np.testing.assert_allclose(found, (3 + np.arange(3)) / 12, rtol=1e-5)

    def test_in_a_file_of_weights(self, tmp_path):
        self.trained().save_weights(tmp_path / "model.weights.h5")
        copy = compiled(LinearAnnealing(epochs=4))
        copy.load_weights(tmp_path / "model.weights.h5")
        found = weights(copy, X, Y, batch_size=16)
        assert found[0] == pytest.approx(3 / 12)

    def test_size_outlives_compile(self, tmp_path):
        model = self.trained()
        model.save(tmp_path / "model.keras")
        loaded = keras.saving.load_model(tmp_path / "model.keras", compile=False)
        for again in (model, loaded):
            again.compile("adam", "mse")
            logs = again.evaluate(X, Y, verbose=0, return_dict=True)
            assert logs["elbo"] == pytest.approx(-logs["nll"] - logs["kl"] / SIZE)

    def test_weights_of_a_stock_model(self, tmp_path):
        stock = keras.Sequential([keras.Input((4,)), *sequential().layers])
        stock.save_weights(tmp_path / "stock.weights.h5")
        weights = stock.get_weights()
        model = sequential()
        model.load_weights(tmp_path / "stock.weights.h5")
        for one, other in zip(weights, model.get_weights(), strict=True):
            np.testing.assert_array_equal(one, other)
        model.save_weights(tmp_path / "ours.weights.h5")
        stock.set_weights([np.zeros_like(weight) for weight in weights])
        stock.load_weights(tmp_path / "ours.weights.h5")
        for one, other in zip(weights, stock.get_weights(), strict=True):
            np.testing.assert_array_equal(one, other)

    @pytest.mark.parametrize("fitted", [True, False])
    def test_the_data_at_hand_win(self, tmp_path, fitted):
        """The size that was given or found is not that of a file of weights."""
        other = compiled(1.0)
        if fitted:
            other.fit(X, Y, verbose=0)
        other.save_weights(tmp_path / "other.weights.h5")
        model = compiled(1.0, train_size=500)
        model.load_weights(tmp_path / "other.weights.h5")
        assert model._elbo.size == 500
        assert np.isfinite(model.train_on_batch(X, Y))
