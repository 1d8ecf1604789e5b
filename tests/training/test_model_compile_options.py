"""Options of `tfvn.Model.compile`: the KL's schedule, samples, and the KL's gradient."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_probability import distributions as tfd
from training_models import DATA, MODES, SIZE, kl_of, sequential, still

import tfvn
from tfvn import passes


class TestSchedule:
    @pytest.mark.parametrize("mode", MODES)
    def test_acts_at_the_very_next_step(self, mode):
        x, y = DATA
        model = still(sequential())
        model.compile(
            keras.optimizers.SGD(0.0),
            "mse",
            kl_schedule=tfvn.schedules.LinearAnnealing(steps=4),
            train_size=SIZE,
            **MODES[mode],
        )
        losses = [model.train_on_batch(x, y) for _ in range(6)]
        nll = np.mean((model(x).numpy() - y) ** 2)
        expected = nll + np.array([0, 0.25, 0.5, 0.75, 1, 1]) * kl_of(model) / SIZE
        np.testing.assert_allclose(losses, expected, rtol=1e-5)

    @pytest.mark.parametrize("mode", ["graph", "jit"])
    def test_is_traced_once(self, mode):
        model = sequential()
        model.compile(
            "adam",
            "mse",
            kl_schedule=tfvn.schedules.CyclicalAnnealing(5),
            **MODES[mode],
        )
        traces = []
        train_step = model.train_step
        model.train_step = lambda batch: traces.append(1) or train_step(batch)
        model.fit(*DATA, batch_size=16, epochs=1, verbose=0)
        # One trace, in which TensorFlow runs the Python code twice to make variables.
        first = len(traces)
        model.fit(*DATA, batch_size=16, epochs=3, verbose=0)
        model.fit(*(part[:32] for part in DATA), batch_size=16, epochs=1, verbose=0)
        assert len(traces) == first <= 2

    def test_inside_of_steps_per_execution(self):
        histories = []
        for steps in (1, 3):
            keras.utils.set_random_seed(0)
            model = still(sequential())
            model.compile(
                "adam",
                "mse",
                kl_schedule=tfvn.schedules.LinearAnnealing(steps=6),
                steps_per_execution=steps,
            )
            histories.append(
                model.fit(*DATA, 16, 3, verbose=0, shuffle=False).history["kl_weight"]
            )
        np.testing.assert_allclose(histories[0], histories[1], rtol=1e-6)
        np.testing.assert_allclose(histories[0], [1 / 6, 4 / 6, 1], rtol=1e-5)

    def test_negative_weight(self):
        class Falling(tfvn.schedules.KLSchedule):
            def __call__(self, step, steps_per_epoch):
                return 1.0 - step

        model = sequential()
        model.compile("sgd", "mse", kl_schedule=Falling())
        with pytest.raises(ValueError, match=r"at least 0. Received: weight=-\d"):
            model.fit(*DATA, batch_size=16, verbose=0)


class TestSamples:
    @pytest.mark.parametrize("estimator", ["local", "weights"])
    def test_average_the_loss(self, estimator):
        x, y = DATA
        layer = tfvn.MeanFieldDense(
            2, estimator=estimator, scale_initializer=0.5, use_bias=False, seed=1
        )
        model = tfvn.Sequential([keras.Input((4,)), layer])
        spreads = []
        for num_samples in (1, 16):
            model.compile(
                keras.optimizers.SGD(0.0),
                "mse",
                num_samples=num_samples,
                train_size=SIZE,
            )
            losses = []
            for _ in range(60):
                model.reset_metrics()
                losses.append(model.train_on_batch(x[:4], y[:4]))
            spreads.append(np.std(losses))
        # The standard deviation falls by the root of the number of samples.
        assert spreads[1] == pytest.approx(spreads[0] / 4, rel=0.5)

    def test_log_mean_exp_is_a_tighter_bound(self):
        x, y = DATA
        losses = {}
        for reduction in ("mean", "log_mean_exp"):
            keras.utils.set_random_seed(0)
            layer = tfvn.MeanFieldDense(2, scale_initializer=0.3, seed=1)
            model = tfvn.Sequential([keras.Input((4,)), layer])
            model.compile(
                keras.optimizers.SGD(0.0),
                tfvn.losses.GaussianNLL(0.5),
                num_samples=8,
                sample_reduction=reduction,
                train_size=SIZE,
            )
            losses[reduction] = model.train_on_batch(x, y)
        assert losses["log_mean_exp"] < losses["mean"]

    def test_train(self):
        for estimator in ("local", "flipout", "weights"):
            model = tfvn.Sequential(
                [keras.Input((4,)), tfvn.MeanFieldDense(2, estimator=estimator)]
            )
            model.compile("adam", "mse", num_samples=3)
            losses = model.fit(*DATA, epochs=5, verbose=0).history["nll"]
            assert losses[-1] < losses[0]


class TestPathGradient:
    def make(self, size=400):
        """A posterior that is the prior, so that the best gradient is zero."""
        layer = tfvn.MeanFieldDense(
            size,
            estimator="weights",
            kl_method="monte_carlo",
            use_bias=False,
            kernel_initializer="zeros",
            scale_initializer=0.5,
            prior=tfd.Normal(0.0, 0.5),
            seed=2,
        )
        layer.build((None, 1))
        return layer

    def gradients(self, layer, kl_gradient):
        step = passes.Pass(kl_gradient=kl_gradient)
        with passes.entered(step), tf.GradientTape() as tape:
            layer(tf.ones((1, 1)))
            loss = sum(layer.losses)
        return [g.numpy() for g in tape.gradient(loss, layer.trainable_variables)]

    @pytest.mark.filterwarnings("ignore")
    def test_has_no_noise_at_the_optimum(self):
        total = self.gradients(self.make(), "total")
        path = self.gradients(self.make(), "path")
        assert all(np.std(g) > 0.1 for g in total)
        for gradient in path:
            np.testing.assert_allclose(gradient, 0.0, atol=1e-5)

    @pytest.mark.filterwarnings("ignore")
    def test_is_right_on_average(self):
        means = []
        for kind in ("total", "path"):
            layer = self.make(20_000)
            layer.posterior.mean_variable.assign(np.full((1, 20_000), 0.3))
            means.append([g.mean() for g in self.gradients(layer, kind)])
        np.testing.assert_allclose(means[0], means[1], atol=0.05)
        assert means[1][0] == pytest.approx(0.3 / 0.25, rel=0.02)

    @pytest.mark.parametrize("overridden", [False, True])
    def test_through_compile(self, overridden):
        """At the prior, the path derivative moves nothing; the total one does."""

        class Overriding(tfvn.Model):
            def train_step(self, data):
                x, y = data[:2]
                with tf.GradientTape() as tape:
                    y_pred = self(x, training=True)
                    loss = self.compute_loss(x, y, y_pred)
                gradients = tape.gradient(loss, self.trainable_variables)
                self.optimizer.apply(gradients, self.trainable_variables)
                return {"loss": loss}

        moved = {}
        for kl_gradient in ("total", "path"):
            layer = self.make(50)
            inputs = keras.Input((1,))
            cls = Overriding if overridden else tfvn.Model
            model = cls(inputs, layer(inputs))
            model.compile(
                keras.optimizers.SGD(1.0),
                lambda y, y_pred: 0.0 * y_pred,
                kl_gradient=kl_gradient,
                train_size=1,
                run_eagerly=True,
            )
            model.train_on_batch(np.ones((1, 1)), np.ones((1, 50)))
            moved[kl_gradient] = np.abs(layer.posterior.mean().numpy()).max()
        assert moved["path"] < 1e-5
        assert moved["total"] > 0.1

    def test_needs_a_shared_sample(self):
        model = sequential()
        model.compile("adam", "mse", kl_gradient="path")
        with pytest.raises(
            ValueError, match=r"`kl_gradient='path'` the.*Received: kl_gradient"
        ):
            model.fit(*DATA, verbose=0)
