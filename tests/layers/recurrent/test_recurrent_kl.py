"""The KL of recurrent layers counts once, whatever the length of the sequences."""

import harness
import keras
import numpy as np
import pytest
import tensorflow as tf
import ztests
from tensorflow_probability import distributions as tfd

import tfvn

PRIOR = tfd.Normal(0.0, 1.0)
INPUTS = np.random.default_rng(0).normal(size=(4, 5, 3)).astype("float32")
TARGETS = np.random.default_rng(1).normal(size=(4, 1)).astype("float32")


def make_cell(kind="LSTM", **kwargs):
    options = {"prior": PRIOR, "scale_initializer": 0.5, "kl_weight": 1.0, **kwargs}
    return getattr(tfvn, f"MeanField{kind}Cell")(3, **options)


def closed_form(cell):
    """The KL to a standard normal, written out anew."""
    total = 0.0
    for posterior, _ in harness.random_parts(cell):
        mean = posterior.mean().numpy().astype("float64")
        scale = posterior.scale().numpy().astype("float64")
        total += np.sum(0.5 * (scale**2 + mean**2 - 1.0) - np.log(scale))
    return total


def assert_losses(layer, *cells):
    """Checks that the losses are the KL of each cell, once."""
    found = sorted(float(loss) for loss in layer.losses)
    expected = sorted(closed_form(cell) for cell in cells)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


class TestValue:
    @pytest.mark.parametrize("kind", ["LSTM", "GRU"])
    @pytest.mark.parametrize("estimator", ["weights", "flipout", "mean"])
    def test_whatever_the_length(self, kind, estimator):
        cell = make_cell(kind, estimator=estimator, bias_posterior="mean_field")
        for unroll in (False, True):
            layer = keras.layers.RNN(cell, unroll=unroll)
            for length in (1, 5, 20):
                layer(np.ones((2, length, 3), "float32"))
                assert_losses(layer, cell)

    @pytest.mark.parametrize("compiled", ["graph", "jit"])
    def test_compiled(self, compiled):
        cells = [make_cell("LSTM"), make_cell("GRU", estimator="flipout")]
        for length, unroll in ((1, True), (5, False)):
            layer = keras.layers.RNN(cells, unroll=unroll)

            def loss(inputs, layer=layer):
                layer(inputs)
                return tf.add_n(layer.losses), len(layer.losses)

            loss = tf.function(loss, jit_compile=compiled == "jit")
            value, count = loss(np.ones((2, length, 3), "float32"))
            assert count == 2
            np.testing.assert_allclose(value, sum(map(closed_form, cells)), rtol=1e-6)

    def test_of_a_single_step(self):
        cell = make_cell("GRU")
        cell(INPUTS[:, 0], [np.zeros((4, 3), "float32")])
        assert_losses(cell, cell)


class TestOnce:
    def test_for_a_cell_that_two_layers_share(self):
        cell = make_cell()
        inputs = keras.Input((5, 3))
        first, second = (keras.layers.RNN(cell) for _ in "12")
        outputs = keras.layers.Add()([first(inputs), second(inputs)])
        model = tfvn.Model(inputs, keras.layers.Dense(1)(outputs))
        model(INPUTS)
        assert_losses(model, cell)
        model.compile(keras.optimizers.SGD(0.0), harness.no_likelihood)
        history = model.fit(INPUTS, TARGETS, verbose=0).history
        np.testing.assert_allclose(history["kl"], closed_form(cell), rtol=1e-6)
        np.testing.assert_allclose(history["loss"], closed_form(cell) / 4, rtol=1e-6)

    def test_for_each_cell_of_a_stack(self):
        cells = [make_cell(), make_cell("GRU")]
        layer = keras.layers.RNN(keras.layers.StackedRNNCells(cells))
        layer(INPUTS)
        assert_losses(layer, *cells)

    def test_for_a_cell_that_is_stacked_on_itself(self):
        cell = make_cell(kl_method="monte_carlo")
        layer = keras.layers.RNN([cell, cell])
        layer(INPUTS)
        assert len(layer.losses) == 1

    def test_for_each_direction(self):
        layer = keras.layers.Bidirectional(
            tfvn.MeanFieldGRU(3, prior=PRIOR, kl_weight=1.0)
        )
        layer(INPUTS)
        assert_losses(layer, layer.forward_layer.cell, layer.backward_layer.cell)

    def test_in_two_calls(self):
        layer = keras.layers.RNN(make_cell())
        for _ in range(2):
            layer(INPUTS)
            assert_losses(layer, layer.cell)


class TestMonteCarlo:
    def test_takes_the_weights_of_the_sequence(self):
        seen = []

        class Watched(tfvn.layers.LSTMCell):
            def call(self, inputs, states, training=False):
                seen.append((self.kernel, self.recurrent_kernel))
                return super().call(inputs, states, training=training)

        cell = Watched(3, prior=PRIOR, kl_method="monte_carlo", kl_weight=1.0)
        keras.layers.RNN(cell, unroll=True)(INPUTS)
        assert len(seen) == 5
        parts = (cell.posterior, cell.recurrent_posterior)
        expected = sum(
            np.sum(part.distribution().log_prob(drawn) - PRIOR.log_prob(drawn))
            for part, drawn in zip(parts, seen[0], strict=True)
        )
        np.testing.assert_allclose(cell.losses[0], expected, rtol=1e-5)

    @pytest.mark.parametrize("estimator", ["mean", "flipout"])
    def test_of_weights_that_no_example_shares_takes_a_fresh_sample(self, estimator):
        cell = make_cell(estimator=estimator, kl_method="monte_carlo")
        layer = keras.layers.RNN(cell)
        layer.build(INPUTS.shape)

        @tf.function
        def loss():
            layer(INPUTS)
            return layer.losses[0]

        ztests.assert_mean(np.array([loss() for _ in range(100)]), closed_form(cell))

    def test_path_gradient(self):
        # Without a likelihood the path derivative of the means of q = p is exactly zero.
        layer = tfvn.MeanFieldLSTM(
            3,
            prior=tfd.Normal(0.0, 0.5),
            kl_method="monte_carlo",
            scale_initializer=0.5,
            kernel_initializer="zeros",
            recurrent_initializer="zeros",
        )
        moved = {}
        for kl_gradient in ("total", "path"):
            model = tfvn.Sequential([keras.Input((5, 3)), layer, keras.layers.Dense(1)])
            model.compile(
                keras.optimizers.SGD(1.0),
                harness.no_likelihood,
                kl_gradient=kl_gradient,
                jit_compile=False,
            )
            before = layer.posterior.mean().numpy()
            model.fit(INPUTS, TARGETS, verbose=0)
            moved[kl_gradient] = np.abs(layer.posterior.mean().numpy() - before).max()
            layer.posterior.mean_variable.assign(before)
            layer.recurrent_posterior.mean_variable.assign(np.zeros((3, 12)))
            for variable in layer.variable_groups["scale"]:
                variable.assign(tf.fill(variable.shape, 2 * np.log(0.5)))
        assert moved["total"] > 1e-2
        assert moved["path"] < 1e-5


class TestModel:
    def test_gives_cells_their_weight(self):
        # No warning, which would be an error: the model supplies the weight.
        layer = tfvn.KTiedLSTM(3, rank=1, prior=PRIOR)
        model = tfvn.Sequential([keras.Input((5, 3)), layer, keras.layers.Dense(1)])
        model.compile({"mean": "sgd", "scale": "sgd"}, "mse", jit_compile=False)
        kl = float(tf.reduce_sum(0.0 * INPUTS) + layer.kl_divergence())
        history = model.fit(INPUTS, TARGETS, verbose=0).history
        np.testing.assert_allclose(history["kl"], [kl], rtol=1e-5)
        expected = history["nll"][0] + kl / 4
        np.testing.assert_allclose(history["loss"], [expected], rtol=1e-5)

    def test_advice_without_one(self):
        layer = tfvn.MeanFieldGRU(3)
        with pytest.warns(UserWarning, match="kl_weight=1 / number_of.*gru_cell"):
            layer(INPUTS, training=True)
        layer(INPUTS, training=True)
        tfvn.MeanFieldGRU(3)(INPUTS)

    # The model is also called outside of `fit`, where nobody supplies a weight.
    @pytest.mark.filterwarnings("ignore:A stochastic layer without")
    @pytest.mark.parametrize("estimator", ["weights", "mean"])
    def test_several_samples(self, estimator):
        layer = tfvn.MeanFieldLSTM(
            3, scale_initializer=0.5, estimator=estimator, seed=1, prior=PRIOR
        )
        model = tfvn.Sequential([keras.Input((5, 3)), layer, keras.layers.Dense(1)])
        model.compile(keras.optimizers.SGD(0.0), "mse", num_samples=3, run_eagerly=True)
        state = layer.cell.seed_generator.state.numpy()
        history = model.fit(INPUTS, TARGETS, verbose=0).history
        layer.cell.seed_generator.state.assign(state)
        errors = [
            np.mean(np.square(model(INPUTS, training=True) - TARGETS)) for _ in range(3)
        ]
        # Each draw has kernels of its own.
        assert len(set(errors)) == (3 if estimator == "weights" else 1)
        np.testing.assert_allclose(history["nll"], [np.mean(errors)], rtol=1e-5)
        np.testing.assert_allclose(history["kl"], [closed_form(layer.cell)], rtol=1e-5)

    def test_gradient_snr(self):
        layer = tfvn.KTiedGRU(3, rank=1)
        model = tfvn.Sequential([keras.Input((5, 3)), layer, keras.layers.Dense(1)])
        model.compile("sgd", "mse", jit_compile=False)
        callback = tfvn.callbacks.GradientSNR(layer, window=2)
        logs = model.fit(
            INPUTS, TARGETS, batch_size=2, callbacks=[callback], verbose=0
        ).history
        assert np.all(np.isfinite([v for k, v in logs.items() if "snr" in k]))
        assert any("snr" in name for name in logs)

    def test_phase_transition(self):
        labels = np.array([0, 1, 0, 1])
        callback = tfvn.callbacks.PhaseTransition((INPUTS, labels), num_samples=2)
        layer = tfvn.GaussianDropoutLSTM(3)
        head = keras.layers.Dense(2, activation="softmax")
        model = tfvn.Sequential([keras.Input((5, 3)), layer, head])
        model.compile("sgd", "sparse_categorical_crossentropy", jit_compile=False)
        logs = model.fit(INPUTS, labels, callbacks=[callback], verbose=0).history
        assert logs[f"log_alpha_{layer.cell.name}"] == pytest.approx([-5.0], abs=0.1)
        assert 0 <= logs["accuracy_zero_mean"][0] <= 1
