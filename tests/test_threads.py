"""What a call is for belongs to the call: no thread, replica or trace sees another's."""

import concurrent.futures
import json
import threading

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfvn
from tfvn import estimators, passes

THREADS = 8
DRAWS = 64
X = np.random.default_rng(0).normal(size=(6, 4)).astype("float32")
Y = np.random.default_rng(1).normal(size=(6, 3)).astype("float32")


class Gate(keras.Layer):
    """Passes its inputs on, and lets one thread wait while it calls or traces."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.waits = None
        self.is_there, self.may_go = threading.Event(), threading.Event()

    def call(self, inputs):
        if threading.current_thread() is self.waits:
            self.is_there.set()
            assert self.may_go.wait(60)
        return inputs


def dense(**kwargs):
    return tfvn.MeanFieldDense(
        3,
        scale_initializer=0.5,
        kernel_initializer=keras.initializers.GlorotUniform(seed=1),
        **kwargs,
    )


def config_of(model):
    return json.dumps(model.get_config(), default=str)


@pytest.mark.parametrize("estimator", ["local", "weights"])
def test_a_trace_of_mean_weights_changes_nothing_for_others(estimator):
    """While it goes on, the first `predict` of another thread is traced."""
    gate, layer = Gate(), dense(estimator=estimator)
    model = keras.Sequential([keras.Input((4,)), gate, layer])
    config = config_of(model)
    means = []
    gate.waits = threading.Thread(
        target=lambda: means.append(tfvn.mean_predict(model, X))
    )
    gate.waits.start()
    try:
        assert gate.is_there.wait(60)
        meanwhile = config_of(model)
        first = model.predict(X, verbose=0)
    finally:
        gate.may_go.set()
        gate.waits.join()
    second = model.predict(X, verbose=0)
    assert (first != second).all()
    assert meanwhile == config
    np.testing.assert_array_equal(tfvn.mean_predict(model, X), means[0])
    assert (first != means[0]).all()


def test_a_trace_of_an_ensemble_changes_nothing_for_others():
    """While it goes on, dropout of another thread is quiet."""
    gate = Gate()
    model = keras.Sequential(
        [keras.Input((4,)), keras.layers.Dropout(0.5, seed=1), gate]
    )
    answers = []
    gate.waits = threading.Thread(
        target=lambda: answers.append(
            tfvn.ensemble_predict(model, X, seed=1, outputs="regression")
        )
    )
    gate.waits.start()
    try:
        assert gate.is_there.wait(60)
        np.testing.assert_array_equal(model(X, training=False), X)
        np.testing.assert_array_equal(model.predict(X, verbose=0), X)
    finally:
        gate.may_go.set()
        gate.waits.join()
    assert (answers[0].std > 0).all()


def shared_model():
    """Noise of this library and of Keras, with the same weights every time."""
    inputs = keras.Input((4,), name="inputs")
    outputs = dense(name="first", activation="tanh")(inputs)
    outputs = keras.layers.Dropout(0.3, name="dropout")(outputs)
    outputs = dense(name="last", estimator="weights")(outputs)
    return keras.Model(inputs, outputs, name="shared")


def seeded(model):
    answer = tfvn.ensemble_predict(model, X, 5, seed=1, outputs="regression")
    return np.stack([answer.mean, answer.std])


def mean(model):
    return tfvn.mean_predict(model, X)


def config(model):
    return config_of(model)


def trained(number):
    """Weights of a model of one's own after some steps."""
    model = tfvn.Sequential([keras.Input((4,)), dense(seed=number)])
    is_traced = number < 2  # the others are cheaper, and as much at risk
    model.compile(keras.optimizers.SGD(0.1), "mse", run_eagerly=not is_traced)
    history = model.fit(X, Y, 3, shuffle=False, verbose=0).history
    return [history["kl"], *[w.tolist() for w in model.get_weights()]]


def drawn(model):
    """Outputs of plain calls, in eager code and in two kinds of traces."""
    x = np.tile(X, (DRAWS, 1))
    traced = tf.function(lambda x: model(x, training=False), autograph=False)
    calls = [model(x, training=False), traced(x), model.predict(x, verbose=0)]
    return np.stack(calls).reshape(3, DRAWS, *Y.shape)


def test_eight_threads_with_one_model(tmp_path):
    alone = shared_model()
    expected = {task: task(alone) for task in (seeded, mean, config)}
    expected_training = [trained(number) for number in range(THREADS)]
    model = shared_model()
    start = threading.Barrier(THREADS)

    def work(number):
        def save(model):
            path = tmp_path / f"{number}.keras"
            model.save(path)
            loaded = keras.saving.load_model(path)
            assert config_of(loaded) == expected[config]
            np.testing.assert_array_equal(seeded(loaded), expected[seeded])

        tasks = [seeded, drawn, mean, config, lambda model: trained(number)]
        if number % 4 == 0:
            tasks.append(save)
        order = np.roll(np.arange(len(tasks)), number)
        start.wait(60)
        answers = {index: tasks[index](model) for index in order}
        return [answers[index] for index in range(len(tasks))]

    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        answers = list(pool.map(work, range(THREADS)))
    for number, answer in enumerate(answers):
        np.testing.assert_array_equal(answer[0], expected[seeded])
        np.testing.assert_array_equal(answer[2], expected[mean])
        assert answer[3] == expected[config]
        assert answer[4] == expected_training[number]
    # By thread and kind of call; what the last layer draws is shared by a batch.
    draws = np.stack([answer[1] for answer in answers]).astype("float64")
    kinds = draws.reshape(THREADS * 3, DRAWS * Y.size)
    assert len(np.unique(kinds, axis=0)) == len(kinds)
    batches = draws.mean(axis=2).reshape(THREADS * 3, -1)
    alone_draws = np.stack([drawn(alone) for _ in range(THREADS)]).astype("float64")
    alone_batches = alone_draws.mean(axis=2).reshape(THREADS * 3, -1)
    error = np.sqrt((batches.var(0) + alone_batches.var(0)) / len(batches))
    assert (np.abs(batches.mean(0) - alone_batches.mean(0)) < 5 * error).all()
    ratio = draws.std(axis=2).mean() / alone_draws.std(axis=2).mean()
    assert 0.8 < ratio < 1.25


def without_noise(layer):
    return estimators.MeanWeights()


class TestPasses:
    """Where a pass is entered, and who sees it."""

    def setup_method(self):
        self.layer = dense(prior=None)
        self.model = keras.Sequential([keras.Input((4,)), self.layer])
        self.mean = tfvn.mean_predict(self.model, X)

    def call(self, x, weights):
        estimator_of = without_noise if weights == "mean" else None
        with passes.entered(passes.Pass(estimator_of=estimator_of)):
            return self.model(x)

    def test_is_seen_in_the_replicas_that_enter_it(self):
        strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
        with strategy.scope():
            layer = dense(prior=None)
            self.model = keras.Sequential([keras.Input((4,)), layer])

        @tf.function(autograph=False)
        def run(weights):
            replicas = strategy.run(self.call, args=(tf.constant(X), weights))
            return strategy.experimental_local_results(replicas)

        for outputs in run("mean"):
            np.testing.assert_allclose(outputs, self.mean, rtol=1e-6)
        first, second = (outputs.numpy() for outputs in run("own"))
        assert (first != second).all()
        assert (first != self.mean).all()

    def test_is_that_of_each_trace(self):
        """A function of the user's, called in two passes and for two shapes."""
        call = tf.function(self.call, autograph=False)
        for rows in (6, 3):
            x = tf.constant(X[:rows])
            np.testing.assert_allclose(call(x, "mean"), self.mean[:rows], rtol=1e-6)
            assert (call(x, "own").numpy() != call(x, "own").numpy()).all()
            np.testing.assert_allclose(call(x, "mean"), self.mean[:rows], rtol=1e-6)

    def test_predictions_leave_the_traces_of_users_alone(self):
        call = tf.function(lambda x: self.model(x), autograph=False)
        call(X)
        tfvn.ensemble_predict(self.model, X, 2, seed=1, outputs="regression")
        tfvn.mean_predict(self.model, X)
        for x in (X, X[:2]):
            assert (call(x).numpy() != call(x).numpy()).all()

    def test_of_a_step_is_there_in_a_retrace(self):
        """Batches of 4, 4 and 2 examples: all have the KL, with its weight."""
        model = tfvn.Sequential([keras.Input((4,)), dense()])
        model.compile(keras.optimizers.SGD(0.0), "mse", kl_schedule=0.5)
        x, y = np.tile(X, (2, 1))[:10], np.tile(Y, (2, 1))[:10]
        history = model.fit(x, y, 4, verbose=0).history
        kl = float(model.layers[0].kl_divergence())
        assert history["kl"][0] == pytest.approx(kl, rel=1e-5)
        total = history["nll"][0] + 0.5 * kl / 10
        assert history["loss"][0] == pytest.approx(total, rel=1e-5)

    def test_is_there_when_activations_are_computed_again(self):
        def gradient(function):
            with passes.entered(passes.Pass(estimator_of=without_noise)):
                with tf.GradientTape() as tape:
                    loss = tf.reduce_sum(tf.square(function(tf.constant(X))))
                return tape.gradient(loss, self.layer.trainable_variables)[0]

        plain = gradient(self.layer)
        again = gradient(keras.remat(lambda x: self.layer(x)))
        np.testing.assert_allclose(again, plain, rtol=1e-5)

    def test_of_an_outer_model_is_kept_by_an_inner_one(self):
        inner = tfvn.Sequential([keras.Input((4,)), dense(prior=None)])
        inner.compile("sgd", "mse")
        outer = keras.Sequential([keras.Input((4,)), inner])
        mean = tfvn.mean_predict(outer, X)
        np.testing.assert_allclose(mean, self.mean, rtol=1e-6)
        np.testing.assert_allclose(tfvn.mean_predict(outer, X), mean)
