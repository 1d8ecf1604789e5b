"""The devices of a strategy share the rows of a prediction, and draw what one draws."""

import threading

import keras
import numpy as np
import pytest

import tfvn
from tfvn.prediction.devices import devices_of, in_parallel

X = np.random.default_rng(0).normal(size=(50, 3)).astype("float32")


def make(**options):
    return keras.Sequential(
        [
            keras.Input((3,)),
            tfvn.MeanFieldDense(4, activation="relu"),
            keras.layers.Dropout(0.5),
            tfvn.KTiedDense(2, **options),
        ]
    )


class TestEnsemble:
    @pytest.mark.parametrize("seed", ["of blocks", "of rows"])
    def test_draws_what_one_device_draws(self, seed, two_replicas):
        with two_replicas.scope():
            two = make()
        one = make()
        one.set_weights(two.get_weights())
        seeds = 3 if seed == "of blocks" else np.arange(100).reshape(50, 2)
        # Four batches, of which the last is smaller.
        options = {"num_samples": 5, "batch_size": 16, "outputs": "regression"}
        first, second = (
            tfvn.ensemble_predict(
                model, X, seed=seeds, return_samples=True, verbose=0, **options
            )
            for model in (one, two)
        )
        np.testing.assert_allclose(second.samples, first.samples, atol=1e-5)
        np.testing.assert_allclose(second.std, first.std, atol=1e-5)

    @pytest.mark.exhaustive
    def test_of_a_state_stays_on_one_device(self, two_replicas):
        with two_replicas.scope():
            model = keras.Sequential(
                [
                    keras.Input((4, 3), batch_size=2),
                    tfvn.VarianceLSTM(2, stateful=True),
                ]
            )
        x = X[:16].reshape(4, 4, 3)
        answers = [
            tfvn.ensemble_predict(model, x, num_samples=3, seed=1, outputs="regression")
            for _ in range(2)
        ]
        np.testing.assert_array_equal(answers[0].mean, answers[1].mean)


def test_devices_of_models(two_replicas):
    with two_replicas.scope():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    assert [name[-5:] for name in devices_of(model)] == ["CPU:0", "CPU:1"]
    assert devices_of(make()) == [None]


class TestInParallel:
    def test_runs_some_at_a_time_in_order(self):
        # Each task waits for another one, so that they must run at the same time.
        meeting = threading.Barrier(2, timeout=60)

        def task(number):
            meeting.wait()
            return number

        tasks = (lambda number=number: task(number) for number in range(4))
        assert list(in_parallel(tasks, 2)) == [0, 1, 2, 3]

    def test_alone_each_runs_when_it_is_asked_for(self):
        done = []
        results = in_parallel((lambda n=n: done.append(n) for n in range(3)), 1)
        next(results)
        assert done == [0]

    @pytest.mark.parametrize("count", [1, 2])
    def test_raises_what_a_task_raises(self, count):
        def fail():
            raise ValueError("broken")

        with pytest.raises(ValueError, match="broken"):
            list(in_parallel([fail, fail, fail], count))
