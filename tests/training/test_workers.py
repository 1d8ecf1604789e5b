"""Two worker processes train as one device does, each with its part of the data."""

import importlib.util
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras.src.backend.tensorflow import trainer
from ztests import assert_moments, assert_uncorrelated

ROOT = pathlib.Path(__file__).parent.parent.parent
BENCHMARK = ROOT / "benchmarks" / "workers.py"


def benchmark():
    spec = importlib.util.spec_from_file_location("workers", BENCHMARK)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.exhaustive
def test_table_of_the_benchmark():
    run = subprocess.run(
        [sys.executable, str(BENCHMARK), "MeanField"],
        capture_output=True,
        text=True,
        check=True,
        timeout=benchmark().SECONDS + 300,
    )
    rows = [line.split("|")[1:-1] for line in run.stdout.splitlines()[-2:]]
    assert [row[1].strip() for row in rows] == ["even", "uneven"]
    assert all(float(cell) < 1e-5 for row in rows for cell in row[2:])


def test_difference_sees_nan():
    difference = benchmark().difference
    assert difference({"a": [1.0, 2.0]}, {"a": [1.0, 2.5]}, ["a"]) == 0.5
    assert difference({"a": [1.0]}, {"a": [float("nan")]}, ["a"]) > 1e5


@pytest.mark.exhaustive
class TestTwoWorkers:
    @pytest.fixture(scope="class")
    @classmethod
    def workers(cls):
        script = pathlib.Path(__file__).with_name("worker_checks.py")
        return benchmark().run_workers(script)

    def test_start_from_the_same_weights(self, workers):
        assert workers[0]["weights"] == workers[1]["weights"]

    @pytest.mark.parametrize("name", ["epochs", "epochs with a backup"])
    def test_see_every_example_once_in_every_epoch(self, workers, name):
        steps = self.steps(workers, name)
        epochs = [np.concatenate(steps[:5]), np.concatenate(steps[5:])]
        assert [sorted(epoch) for epoch in epochs] == [list(range(41))] * 2
        assert any(epochs[0] != epochs[1])

    def test_go_on_where_a_short_epoch_has_ended(self, workers):
        steps = self.steps(workers, "short epochs")
        assert len(steps) == 6
        assert sorted(np.concatenate(steps[:5])) == list(range(41))

    def steps(self, workers, name):
        """Returns the examples of every step, of all workers together."""
        parts = zip(*[worker[name] for worker in workers], strict=True)
        return [np.concatenate(part) for part in parts]

    def test_draw_different_noise_of_the_right_law(self, workers):
        first, second = (worker["noise"][0] for worker in workers)
        assert first["mean"] == second["mean"]
        assert_uncorrelated(first["outputs"], second["outputs"])
        outputs = np.concatenate([first["outputs"], second["outputs"]])
        assert_moments(outputs, first["mean"], first["variance"])

    def test_repeat_their_noise(self, workers):
        for worker in workers:
            # The weights are other random ones.
            noises = [
                np.subtract(noise["outputs"], noise["mean"])
                for noise in worker["noise"]
            ]
            np.testing.assert_allclose(*noises, atol=1e-5)

    def test_predict_and_evaluate_all_rows(self, workers):
        for worker in workers:
            np.testing.assert_allclose(*worker["predicted"], rtol=1e-5)

    def test_share_the_rows_of_an_ensemble(self, workers):
        (even, everything), (odd, _) = (worker["ensembles"] for worker in workers)
        np.testing.assert_allclose(even, everything[::2], atol=1e-5)
        np.testing.assert_allclose(odd, everything[1::2], atol=1e-5)

    def test_refuse_several_steps_at_once(self, workers):
        for worker in workers:
            assert "`steps_per_execution=1`" in worker["refused"]

    def test_stock_keras_still_fails(self, workers):
        """If this fails, the overrides of `tfvn.Model` for several workers can go."""
        for worker in workers:
            assert worker["stock fit"] is not None
            assert worker["stock reduction"] is not None


class TestCanaries:
    """If one of these fails, Keras can do it now, and an override can go."""

    def test_keras_builds_with_a_batch_that_does_not_divide(self, two_replicas):
        # `_maybe_symbolic_build` of `tfvn.Model` can go.
        with two_replicas.scope():
            model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
            model.compile("sgd", "mse")
        x = np.ones((3, 1))
        with pytest.raises((ValueError, tf.errors.InvalidArgumentError)):
            model.fit(x, x, batch_size=3, verbose=0)

    def test_keras_reduces_numbers_of_workers(self, monkeypatch):
        # `LogVector` can go.
        class Strategy:
            def reduce(self, operation, value, axis):
                asked.append((operation, axis, value.shape.rank))
                return value

        asked = []
        monkeypatch.setattr(
            trainer, "_collective_all_reduce_multi_worker", lambda strategy: True
        )
        trainer.reduce_per_replica(tf.ones(()), Strategy(), "mean")
        assert asked == [("MEAN", 0, 0)]
