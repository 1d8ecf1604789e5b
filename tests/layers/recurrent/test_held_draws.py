"""What cells hold: one draw per sequence, whoever calls, and nothing after a call."""

import gc
import threading

import harness
import keras
import numpy as np
import pytest
import tensorflow as tf

import tfvn

INPUTS = np.repeat(
    np.random.default_rng(0).uniform(0.5, 1.5, (4, 1, 3)), 5, axis=1
).astype("float32")
NOISE = tfvn.distributions.noise_law("gaussian", stddev=0.3)
with_each_cell = pytest.mark.parametrize(
    "make",
    [
        lambda **kwargs: tfvn.MeanFieldLSTMCell(
            2, scale_initializer=0.4, kl_weight=1.0, **kwargs
        ),
        lambda **kwargs: tfvn.MeanFieldLSTMCell(
            2, scale_initializer=0.4, kl_weight=1.0, estimator="flipout", **kwargs
        ),
        lambda **kwargs: tfvn.NoisyLSTMCell(2, noise=NOISE, **kwargs),
        lambda **kwargs: tfvn.NoisyLSTMCell(2, noise=NOISE, gates="untied", **kwargs),
    ],
    ids=["weights", "flipout", "tied", "untied"],
)


@keras.saving.register_keras_serializable("test")
def open_gate(x):
    return keras.ops.ones_like(x)


def summing(make):
    """Returns a cell that adds the inputs times the kernel in each step."""
    cell = make(
        activation=None,
        recurrent_activation=open_gate,
        recurrent_initializer="zeros",
        use_bias=False,
        seed=1,
    )
    cell.build((None, 3))
    if isinstance(cell, tfvn.layers.StochasticRNNCell):
        (variable,) = cell.recurrent_posterior.variable_groups["scale"]
        variable.assign(tf.fill(variable.shape, -60.0))
    return cell


def assert_held(call):
    """Checks that the steps of a sequence add the same, and those of another do not."""
    first, second = (call(INPUTS, training=True).numpy() for _ in range(2))
    steps = np.diff(first, axis=1, prepend=0.0)
    np.testing.assert_allclose(steps, steps[:, :1].repeat(5, axis=1), atol=1e-5)
    assert np.all(first != second)


class Wrapper(keras.Layer):
    """A cell that is another one, as `keras.layers.RNN` can't know."""

    def __init__(self, cell):
        super().__init__()
        self.cell = cell
        self.state_size, self.output_size = cell.state_size, cell.output_size

    def call(self, inputs, states, training=False):
        return self.cell(inputs, states, training=training)


class Loop(keras.Layer):
    """A layer that calls a cell in a loop of its own."""

    def __init__(self, cell, while_loop=None):
        super().__init__()
        self.cell, self.while_loop = cell, while_loop

    def call(self, inputs, training=False):
        states = [tf.zeros((tf.shape(inputs)[0], 2))] * 2
        if self.while_loop is not None:

            def step(i, *states):
                return i + 1, *self.cell(inputs[:, i], [*states], training=training)[1]

            return self.while_loop(lambda i, *_: i < 5, step, [0, *states])
        outputs = []
        for step in range(5):
            output, states = self.cell(inputs[:, step], states, training=training)
            outputs.append(output)
        return tf.stack(outputs, axis=1)


@with_each_cell
class TestWhoeverCalls:
    @pytest.mark.parametrize("how", ["eager", "graph", "unroll"])
    def test_cell_within_another(self, make, how):
        layer = keras.layers.RNN(
            Wrapper(summing(make)), return_sequences=True, unroll=how == "unroll"
        )
        assert_held(tf.function(layer) if how == "graph" else layer)

    @pytest.mark.parametrize("compiled", [False, True])
    def test_layer_with_a_loop(self, make, compiled):
        layer = Loop(summing(make))
        assert_held(tf.function(layer) if compiled else layer)

    def test_loop_of_a_graph(self, make):
        layer = Loop(summing(make), tf.while_loop)
        with pytest.raises(
            RuntimeError, match=r"pass the cell to `keras.layers.RNN`, alone or in a li"
        ):
            tf.function(layer)(INPUTS)

    def test_call_without_a_layer(self, make):
        layer = keras.layers.RNN(summing(make))
        with pytest.raises(
            RuntimeError, match="call the layer that contains this cell"
        ):
            layer.call(tf.constant(INPUTS), training=True)
        # Nor does it leave a call of a layer going on.
        assert_held(keras.layers.RNN(layer.cell, return_sequences=True))


def test_loop_around_all():
    # Steps of training in a graph are no steps of a sequence.
    layer = Loop(tfvn.MeanFieldLSTMCell(2, kl_weight=1.0))
    model = keras.Sequential([keras.Input((5, 3)), layer, keras.layers.Dense(1)])
    model.compile("sgd", "mse", steps_per_execution=2, jit_compile=False)
    model.fit(INPUTS[:2], np.ones((2, 5, 1)), batch_size=1, verbose=0)


class Fragile(tfvn.NoisyLSTMCell):
    """A cell that raises in a step, when told."""

    fails = False

    def call(self, inputs, states, training=False):
        outputs = super().call(inputs, states, training=training)
        if self.fails:
            raise OverflowError("in a step")
        return outputs


class TestLeaksOfNoise:
    @pytest.mark.parametrize("failing", ["eager", "graph"])
    @pytest.mark.parametrize("gates", ["tied", "untied"])
    def test_none_after_a_step_that_raises(self, failing, gates):
        cell = Fragile(
            3, noise=NOISE, gates=gates, dropout=0.5, prior_scale=1.0, kl_weight=1.0
        )
        layer = keras.layers.RNN(cell)
        layer.build(INPUTS.shape)
        cell.fails = True
        call = layer if failing == "eager" else tf.function(layer)
        with pytest.raises(Exception, match="in a step"):
            call(INPUTS, training=True)
        cell.fails = False
        drawn = [layer(INPUTS, training=True).numpy() for _ in "12"]
        drawn += [tf.function(layer)(INPUTS, training=True).numpy()]
        assert len({array.tobytes() for array in drawn}) == 3
        assert len(layer.losses) == 1
        gc.collect()
        assert len(cell._held_by_call) == 0

    def test_none_after_a_call(self):
        layer = tfvn.NoisyLSTM(3, noise=NOISE, dropout=0.5)
        for call in (layer, tf.function(layer), tf.function(layer, jit_compile=True)):
            call(INPUTS, training=True)
            assert layer.cell._held is None
            assert len(layer.cell._held_by_call) == 0
            assert len(layer.cell._dropout_mask_by_call) == 0

    def test_none_between_threads(self):
        # The second thread is in its loop while the first is.
        inside = threading.Barrier(2, timeout=60)
        seen = {}

        class Waiting(tfvn.NoisyLSTMCell):
            def call(self, inputs, states, training=False):
                inside.wait()
                seen.setdefault(threading.get_ident(), []).append(self._held)
                return super().call(inputs, states, training=training)

        layer = keras.layers.RNN(Waiting(3, noise=NOISE))
        layer.build(INPUTS.shape)
        threads = [
            threading.Thread(target=layer, args=(INPUTS,), kwargs={"training": True})
            for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        held = [{id(factors) for factors in each} for each in seen.values()]
        assert [len(factors) for factors in held] == [1, 1]
        assert held[0] != held[1]

    def test_none_between_replicas(self):
        with harness.two_replicas().scope():
            layer = keras.layers.RNN([tfvn.NoisyLSTMCell(3, noise=NOISE)] * 2)
            layer.build((4, 5, 3))
        call = tf.function(lambda inputs: layer(inputs, training=True))
        first, second = harness.two_replicas().run(call, args=(INPUTS,)).values
        assert np.all(first.numpy() != second.numpy())


class TestDirections:
    """The two directions of a `keras.layers.Bidirectional` of a layer with a seed."""

    @pytest.mark.parametrize("name", ["MeanFieldGRU", "NoisyLSTM"])
    def test_have_noise_of_their_own(self, name):
        options = {"seed": 5, "kl_weight": 1.0}
        layer = keras.layers.Bidirectional(getattr(tfvn, name)(3, **options))
        layer.build(INPUTS.shape)
        directions = [layer.forward_layer, layer.backward_layer]
        assert [each.get_config()["seed"] for each in directions] == [5, 5]
        directions[1].set_weights(directions[0].get_weights())
        same = np.ones((16, 5, 3), "float32")
        # Of the same weights and inputs that are the same in both directions.
        forward, backward = np.split(layer(same, training=True).numpy(), 2, axis=-1)
        assert np.mean(forward != backward) > 0.5
        again = type(layer).from_config(layer.get_config())
        again.build(INPUTS.shape)
        again_directions = [again.forward_layer, again.backward_layer]
        for ours, theirs in zip(directions, again_directions, strict=True):
            generators = (ours.cell.seed_generator, theirs.cell.seed_generator)
            seeds = {generator._initial_seed for generator in generators}
            assert len(seeds) == 1
            assert len(ours.cell._seed_generators) == 1


def test_dropout_masks_of_an_ensemble_are_the_examples_own():
    inputs = keras.Input((3, 2))
    model = tfvn.Model(inputs, tfvn.MeanFieldLSTM(3, dropout=0.5)(inputs))
    # More rows than the ensemble takes at a time.
    rows = np.ones((40, 3, 2), "float32")
    answer = tfvn.ensemble_predict(
        model, rows, num_samples=4, seed=1, outputs="regression", verbose=0
    )
    assert np.all(answer.mean[0] != answer.mean[16])


def test_dropout_of_everything():
    layer = tfvn.MeanFieldLSTM(3, dropout=1.0, kl_weight=1.0)
    assert np.all(np.isfinite(layer(INPUTS, training=True)))
