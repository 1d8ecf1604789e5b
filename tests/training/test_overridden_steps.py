"""Steps, losses, loops and `compile` methods of a user's own."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from training_models import still

import tfvn

ROWS = 4
POINTS = np.random.default_rng(1).normal(size=(2, ROWS, 3)).astype("float32")


class TestOverriddenStep:
    def compiled(self, step, **options):
        class Model(tfvn.Model):
            train_step = step

        inputs = keras.Input((3,))
        model = Model(inputs, tfvn.MeanFieldDense(3)(inputs))
        model.compile("sgd", "mse", run_eagerly=True, train_size=ROWS, **options)
        return model

    def own_step(self, data):
        x, y = data[:2]
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            loss = self.compute_loss(x, y, y_pred)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply(gradients, self.trainable_variables)
        return self.compute_metrics(x, y, y_pred)

    def test_cannot_draw_more_than_once(self):
        model = self.compiled(TestOverriddenStep.own_step, num_samples=2)
        with pytest.raises(ValueError, match=r"`super\(\).train_step.*num_samples=2"):
            model.fit(*POINTS, verbose=0)

    def test_that_calls_ours_can(self):
        class Model(tfvn.Model):
            def train_step(self, data):
                return super().train_step(data)

        inputs = keras.Input((3,))
        model = Model(inputs, tfvn.MeanFieldDense(3)(inputs))
        model.compile("sgd", "mse", num_samples=2, train_size=500)
        assert "elbo" in model.fit(*POINTS, verbose=0).history

    @pytest.mark.parametrize("reads", ["compute_loss", "losses"])
    def test_gets_the_weighted_kl(self, reads, recwarn):
        seen = []

        def step(model, data):
            x, y = data[:2]
            y_pred = model(x, training=True)
            if reads == "compute_loss":
                loss = model.compute_loss(x, y, y_pred)
            else:
                nll = tf.reduce_mean((y - y_pred) ** 2)
                loss = nll + sum(model.losses)
            seen.append(float(loss) - float(tf.reduce_mean((y - y_pred) ** 2)))
            return {"loss": loss}

        model = self.compiled(step, kl_schedule=0.5)
        kl = float(model.layers[-1].kl_divergence())
        model.fit(*POINTS, verbose=0)
        assert seen[-1] == pytest.approx(0.5 * kl / ROWS, rel=1e-3)
        assert not [w for w in recwarn if "kl_weight" in str(w.message)]

    def test_as_in_the_guide_of_keras(self):
        """The loop over `self.metrics` that Keras's documentation has."""

        def step(model, data):
            x, y = data[:2]
            with tf.GradientTape() as tape:
                y_pred = model(x, training=True)
                loss = model.compute_loss(y=y, y_pred=y_pred)
            gradients = tape.gradient(loss, model.trainable_variables)
            model.optimizer.apply(gradients, model.trainable_variables)
            for metric in model.metrics:
                if metric.name == "loss":
                    metric.update_state(loss)
                else:
                    metric.update_state(y, y_pred)
            return {m.name: m.result() for m in model.metrics}

        model = self.compiled(step, metrics=["mae"])
        history = model.fit(*POINTS, verbose=0).history
        assert np.isfinite(history["loss"][0])

    def test_in_a_loop_of_ones_own(self, recwarn):
        model = self.compiled(tfvn.Model.train_step, kl_schedule=0.5)
        layer = still(model).layers[-1]
        x, y = POINTS
        y_pred = model(x, training=True)
        kl = 0.5 * layer.kl_divergence() / ROWS
        assert [float(loss) for loss in model.losses] == pytest.approx([float(kl)])
        expected = np.mean((y_pred - y) ** 2) + kl
        loss = model.compute_loss(x, y, y_pred)
        assert float(loss) == pytest.approx(float(expected), rel=1e-5)
        assert not [w for w in recwarn if "kl_weight" in str(w.message)]

    def test_unknown_size_in_a_loop_of_ones_own(self):
        model = self.compiled(tfvn.Model.train_step)
        model.compile("sgd", "mse")
        model.training_state.size.assign(0)
        x, y = POINTS
        y_pred = model(x)
        with pytest.raises(
            ValueError, match=r"number of training examples.*train_size"
        ):
            model.compute_loss(x, y, y_pred)

    def test_inside_of_a_plain_model_that_is_called(self):
        inner = still(self.compiled(tfvn.Model.train_step))
        outer = keras.Sequential([keras.Input((3,)), inner])
        outer(POINTS[0])
        kl = float(inner.layers[-1].kl_divergence())
        assert [float(loss) for loss in outer.losses] == pytest.approx([kl])

    def test_schedule_in_a_loop_of_ones_own(self):
        schedule = tfvn.schedules.LinearAnnealing(steps=4)
        model = self.compiled(tfvn.Model.train_step, kl_schedule=schedule)
        x, y = (tf.constant(part) for part in POINTS)
        weights = [float(model.run_train_step((x, y))["kl_weight"]) for _ in range(2)]
        weights += [float(model.train_step((x, y))["kl_weight"])]
        # The mean over all batches so far, as nothing resets it.
        np.testing.assert_allclose(weights, [0.0, 0.125, 0.25], rtol=1e-5)
        y_pred = model(x, training=True)
        with pytest.raises(ValueError, match=r"run_train_step.*LinearAnnealing"):
            model.compute_loss(x, y, y_pred)

    def test_loss_of_an_inner_model(self):
        inner = still(self.compiled(tfvn.Model.train_step))
        kl = float(inner.layers[-1].kl_divergence())
        seen = []

        class Outer(tfvn.Model):
            def __init__(self):
                super().__init__()
                self.inner = inner

            def call(self, inputs):
                return self.inner(inputs)

            def train_step(self, data):
                x, y = data[:2]
                y_pred = self.inner(x, training=True)
                loss = self.inner.compute_loss(x, y, y_pred)
                seen.append(float(loss) - float(tf.reduce_mean((y_pred - y) ** 2)))
                return {"loss": loss}

        outer = Outer()
        outer.compile("sgd", "mse", run_eagerly=True, train_size=10 * ROWS)
        outer.fit(*POINTS, verbose=0)
        assert seen[0] == pytest.approx(kl / (10 * ROWS), rel=1e-3)

    def test_two_passes_in_a_step(self):
        def step(model, data):
            x, y = data[:2]
            losses = [
                model.compute_loss(x, y, model(x, training=True)) for _ in range(2)
            ]
            return model.compute_metrics(x, y, model(x)) | {"loss": sum(losses) / 2}

        model = still(self.compiled(step))
        logs = model.fit(*POINTS, verbose=0).history
        kl = float(model.layers[-1].kl_divergence())
        assert logs["kl"] == pytest.approx([kl], rel=1e-5)

    def test_loss_of_ones_own_has_no_parts(self):
        class Model(tfvn.Model):
            def compute_loss(self, x=None, y=None, y_pred=None, *args, **kwargs):
                return tf.reduce_mean((y - y_pred) ** 2) + sum(self.losses)

        inputs = keras.Input((3,))
        model = still(Model(inputs, tfvn.MeanFieldDense(3)(inputs)))
        model.compile("sgd", "mse", train_size=ROWS)
        logs = model.fit(*POINTS, verbose=0, validation_data=tuple(POINTS)).history
        assert set(logs) == {"loss", "val_loss"}

    def test_draws_need_the_inputs(self):
        class Model(tfvn.Model):
            def compute_loss(self, x=None, y=None, y_pred=None, *args, **kwargs):
                return super().compute_loss(y=y, y_pred=y_pred)

        inputs = keras.Input((3,))
        model = Model(inputs, tfvn.MeanFieldDense(3)(inputs))
        model.compile("sgd", "mse", num_samples=2, run_eagerly=True)
        with pytest.raises(ValueError, match=r"needs the inputs.*x=None"):
            model.fit(*POINTS, verbose=0)


def test_attributes_of_a_subclass_stay():
    class Model(tfvn.Model):
        def __init__(self):
            super().__init__()
            self.num_samples = 10

        def call(self, inputs):
            return inputs

    model = Model()
    model.compile("sgd", "mse")
    assert model.num_samples == 10


@keras.saving.register_keras_serializable("tfvn_tests")
class OwnCompile(tfvn.Model):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.head = tfvn.MeanFieldDense(3)

    def call(self, inputs):
        return self.head(inputs)

    def compile(self, my_optimizer="sgd", **kwargs):
        super().compile(optimizer=my_optimizer, **kwargs)


def test_loading_a_model_with_a_compile_of_its_own(tmp_path):
    model = OwnCompile()
    model.compile("sgd", loss="mse")
    model.fit(*POINTS, verbose=0)
    model.save(tmp_path / "model.keras")
    with pytest.warns(UserWarning, match="`compile.*` was not called"):
        loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(
        loaded.head.posterior.mean(), model.head.posterior.mean()
    )


def test_a_later_base_class_may_change_predictions():
    class Doubled(keras.Model):
        def predict(self, *args, **kwargs):
            return 2 * super().predict(*args, **kwargs)

        def evaluate(self, *args, **kwargs):
            return -1.0

    class Model(tfvn.Model, Doubled):
        def call(self, inputs):
            return inputs

    model = Model()
    model.compile("sgd", "mse")
    x = np.ones((2, 1), "float32")
    np.testing.assert_array_equal(model.predict(x, verbose=0), 2 * x)
    assert model.evaluate(x, x) == -1.0
