"""What recurrent layers draw: its law, how long it is held, and that it does not leak."""

import gc
import itertools
import threading

import harness
import keras
import numpy as np
import pytest
import tensorflow as tf
import ztests

import tfvn

UNITS = 2
DRAWS = 2000
# Of one sign, so that examples that share a kernel have correlated outputs.
INPUTS = np.random.default_rng(0).uniform(0.5, 1.5, (3, 4)).astype("float32")
STATES = np.random.default_rng(1).normal(size=(3, UNITS)).astype("float32")


@keras.saving.register_keras_serializable("test")
def open_gate(x):
    return keras.ops.ones_like(x)


@keras.saving.register_keras_serializable("test")
def half_open_gate(x):
    return 0.5 * keras.ops.ones_like(x)


def linear_cell(kind, **kwargs):
    """Returns a cell of constant gates, whose output is linear in its weights.

    An LSTM gives `c + x K_c + h R_c + b_c`, a GRU
    `h / 2 + (x K_h + b_h + (h R_h + b'_h) / 2) / 2`.
    """
    gate = open_gate if kind == "LSTM" else half_open_gate
    return getattr(tfvn.layers, f"{kind}Cell")(
        UNITS,
        activation=None,
        recurrent_activation=gate,
        kl_weight=1.0,
        seed=1,
        **kwargs,
    )


def candidates(kind, matrix):
    """Returns the columns of the gate that makes the candidate state."""
    gate = 2
    return np.asarray(matrix)[..., gate * UNITS : (gate + 1) * UNITS]


def expected_moments(kind, cell):
    """Returns the mean and the variance of the first output."""
    moments = []
    for moment in ("mean", "variance"):
        inputs, states = INPUTS.astype("float64"), STATES.astype("float64")
        half = 0.5
        if moment == "variance":
            inputs, states, half = inputs**2, states**2, 0.25
        kernel, recurrent = (
            candidates(kind, getattr(posterior, moment)())
            for posterior in (cell.posterior, cell.recurrent_posterior)
        )
        bias = candidates(kind, getattr(cell.bias_posterior, moment)())
        x, h = inputs @ kernel, states @ recurrent
        if kind == "LSTM":
            moments.append(x + h + bias)
        else:
            known = half * states if moment == "mean" else 0.0
            moments.append(known + half * (x + bias[0] + half * (h + bias[1])))
    return moments


def first_steps(kind, cell, draws=DRAWS):
    """Returns draws of the output of one step."""
    states = [STATES] if kind == "GRU" else [STATES, np.zeros_like(STATES)]
    cell.build(INPUTS.shape)

    @tf.function
    def draw():
        return cell(INPUTS, states)[0]

    return np.stack([draw() for _ in range(draws)])


@pytest.mark.parametrize("estimator", ["weights", "flipout"])
@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
class TestMoments:
    @pytest.mark.one_in(3)
    @pytest.mark.parametrize(
        "posterior",
        [
            tfvn.posteriors.MeanField(0.4),
            tfvn.posteriors.Variance("uniform"),
        ],
        ids=["mean_field", "uniform"],
    )
    def test_of_the_first_step(self, kind, estimator, posterior):
        cell = linear_cell(
            kind,
            posterior=posterior,
            estimator=estimator,
            bias_posterior=tfvn.posteriors.MeanField(0.3),
            bias_prior="normal",
        )
        outputs = first_steps(kind, cell)
        ztests.assert_moments(outputs, *expected_moments(kind, cell))

    def test_between_examples(self, kind, estimator):
        posterior = tfvn.posteriors.MeanField(0.4)
        cell = linear_cell(kind, posterior=posterior, estimator=estimator)
        outputs = first_steps(kind, cell, 1000)
        if estimator == "flipout":
            ztests.assert_uncorrelated(outputs[:, 0], outputs[:, 1])
        else:
            with pytest.raises(AssertionError, match="correlation"):
                ztests.assert_uncorrelated(outputs[:, 0], outputs[:, 1])


@pytest.mark.parametrize("estimator", ["weights", "flipout"])
class TestHeld:
    """A summing LSTM: each step adds the inputs times the kernel."""

    def cell(self, estimator):
        cell = linear_cell(
            "LSTM",
            posterior=tfvn.posteriors.MeanField(0.4),
            estimator=estimator,
            recurrent_initializer="zeros",
            use_bias=False,
        )
        cell.build(INPUTS.shape)
        _, log_variance = cell.recurrent_posterior.variable_groups.values()
        log_variance[0].assign(tf.fill((UNITS, 4 * UNITS), -60.0))
        return cell

    @pytest.mark.parametrize("unroll", [False, True])
    def test_along_a_sequence(self, estimator, unroll):
        layer = keras.layers.RNN(
            self.cell(estimator), return_sequences=True, unroll=unroll
        )
        inputs = np.repeat(INPUTS[:, None], 5, axis=1)
        draw = tf.function(layer)
        draws = np.stack([draw(inputs) for _ in range(20)])
        steps = np.diff(draws, axis=2, prepend=0.0)
        # The same inputs make the same of the same kernel.
        np.testing.assert_allclose(
            steps, np.repeat(steps[:, :, :1], 5, axis=2), atol=1e-4
        )
        assert np.all(np.std(steps[:, :, 0], axis=0) > 0.1)

    def test_not_between_calls_of_the_cell(self, estimator):
        cell = self.cell(estimator)

        @tf.function
        def steps():
            states = [tf.zeros((3, UNITS))] * 2
            first, states = cell(INPUTS, states)
            second, _ = cell(INPUTS, states)
            return first, second - first

        draws = [steps() for _ in range(1000)]
        ztests.assert_uncorrelated(*map(np.stack, zip(*draws, strict=True)))

    def test_not_between_sequences_in_a_model(self, estimator):
        inputs = keras.Input((5, 4))
        layer = keras.layers.RNN(self.cell(estimator))
        model = keras.Model(inputs, [layer(inputs), layer(inputs)])
        first, second = model(np.repeat(INPUTS[:, None], 5, axis=1))
        assert np.all(first.numpy() != second.numpy())


def test_signs_of_the_kernels_have_nothing_to_do_with_each_other():
    cell = tfvn.MeanFieldLSTMCell(4, estimator="flipout", kl_weight=1.0, seed=1)
    cell.build((None, 4))
    held = cell.estimator.hold(cell.posteriors, 5000, "float32", cell.seed_generator)
    rows = [held._row_signs[name].numpy() for name in ("kernel", "recurrent_kernel")]
    columns = held._column_signs.numpy()[:, :4]
    for one, other in itertools.combinations([*rows, columns], 2):
        ztests.assert_uncorrelated(one, other)


@pytest.mark.parametrize("name", ["MeanFieldLSTM", "VarianceGRU"])
@pytest.mark.parametrize("estimator", ["weights", "flipout"])
class TestSeed:
    INPUTS = np.random.default_rng(2).normal(size=(2, 6, 3)).astype("float32")

    def outputs(self, name, estimator, inputs, mask=None, **kwargs):
        keras.utils.set_random_seed(4)
        layer = getattr(tfvn, name)(
            3,
            estimator=estimator,
            kl_weight=1.0,
            seed=5,
            return_sequences=True,
            **kwargs,
        )
        return layer(inputs, mask=mask).numpy()

    def test_decides_whatever_the_length(self, name, estimator):
        long = self.outputs(name, estimator, self.INPUTS)
        short = self.outputs(name, estimator, self.INPUTS[:, :2])
        np.testing.assert_allclose(long[:, :2], short, rtol=1e-5, atol=1e-6)
        unrolled = self.outputs(name, estimator, self.INPUTS, unroll=True)
        np.testing.assert_allclose(long, unrolled, rtol=1e-5, atol=1e-6)

    def test_decides_whatever_the_mask(self, name, estimator):
        mask = np.array([[1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 0, 0]], "bool")
        plain = self.outputs(name, estimator, self.INPUTS)
        masked = self.outputs(name, estimator, self.INPUTS, mask=mask)
        np.testing.assert_allclose(plain[mask], masked[mask], rtol=1e-5, atol=1e-6)
        assert np.all(masked[~mask] != plain[~mask])


class Fragile(tfvn.layers.LSTMCell):
    """A cell that raises in a step, when told."""

    fails = False

    def call(self, inputs, states, training=False):
        outputs = super().call(inputs, states, training=training)
        if self.fails:
            raise OverflowError("in a step")
        return outputs


class TestLeaks:
    INPUTS = np.ones((2, 3, 4), "float32")

    @pytest.mark.parametrize(
        ("failing", "estimator"), [("eager", "flipout"), ("graph", "weights")]
    )
    def test_none_after_a_step_that_raises(self, failing, estimator):
        cell = Fragile(
            3, kl_weight=1.0, dropout=0.5, recurrent_dropout=0.5, estimator=estimator
        )
        layer = keras.layers.RNN(cell)
        layer.build(self.INPUTS.shape)
        cell.fails = True
        call = layer if failing == "eager" else tf.function(layer)
        with pytest.raises(Exception, match="in a step"):
            call(self.INPUTS, training=True)
        cell.fails = False
        drawn = [layer(self.INPUTS, training=True).numpy() for _ in "12"]
        drawn += [tf.function(layer)(self.INPUTS, training=True).numpy()]
        assert len({array.tobytes() for array in drawn}) == 3
        assert len(layer.losses) == 1
        gc.collect()
        assert len(cell._held_by_call) == 0

    @pytest.mark.parametrize("name", ["KTiedLSTM", "MeanFieldGRU"])
    def test_none_after_a_call(self, name):
        layer = getattr(tfvn, name)(3, kl_weight=1.0, dropout=0.5)
        for call in (layer, tf.function(layer), tf.function(layer, jit_compile=True)):
            call(self.INPUTS, training=True)
            assert layer.cell._held is None
            assert len(layer.cell._held_by_call) == 0
            assert len(layer.cell._dropout_mask_by_call) == 0

    def test_none_between_threads(self):
        # The second thread is in its loop while the first is.
        inside = threading.Barrier(2, timeout=60)
        seen = {}

        class Waiting(tfvn.layers.GRUCell):
            def call(self, inputs, states, training=False):
                inside.wait()
                seen.setdefault(threading.get_ident(), []).append(self.kernel)
                return super().call(inputs, states, training=training)

        layer = keras.layers.RNN(Waiting(3, kl_weight=1.0))
        layer.build(self.INPUTS.shape)
        threads = [
            threading.Thread(target=layer, args=(self.INPUTS,)) for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        # The same tensor in all steps of a thread, and another in the other thread.
        held = [{id(kernel) for kernel in kernels} for kernels in seen.values()]
        assert [len(kernels) for kernels in held] == [1, 1]
        assert held[0] != held[1]

    @pytest.mark.parametrize("dropout", [0.0, 0.4])
    def test_none_between_replicas(self, dropout):
        with harness.two_replicas().scope():
            cells = [
                tfvn.MeanFieldLSTMCell(
                    3, kl_weight=1.0, scale_initializer=0.5, dropout=dropout
                )
                for _ in range(2)
            ]
            layer = keras.layers.RNN(cells)
            layer.build(self.INPUTS.shape)
        call = tf.function(lambda inputs: layer(inputs, training=True))
        first, second = harness.two_replicas().run(call, args=(self.INPUTS,)).values
        assert np.all(first.numpy() != second.numpy())
        if dropout == 0.0:
            # Of the same inputs, the same kernels on each replica.
            for outputs in (first, second):
                np.testing.assert_array_equal(outputs[0], outputs[1])
