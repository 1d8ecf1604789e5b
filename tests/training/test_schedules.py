"""The weight of the KL, step by step."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tfvn import schedules

ALL = {
    "constant": schedules.Constant(0.3),
    "steps": schedules.LinearAnnealing(0.1, 0.9, steps=20),
    "epochs": schedules.LinearAnnealing(epochs=2),
    "per_batch": schedules.LinearAnnealing(per_batch=0.01, every=5),
    "cyclical": schedules.CyclicalAnnealing(8, rising=0.25, cycles=3),
    "reweighting": schedules.MinibatchReweighting(0.9),
}


def weights(schedule, steps, steps_per_epoch):
    return np.array(
        [float(schedule(tf.constant(float(s)), steps_per_epoch)) for s in steps]
    )


def reweighting(ratio, batches):
    """M pi_i in log space, in float64."""
    logs = np.arange(1, batches + 1) * np.log(ratio)
    return batches * np.exp(logs - np.logaddexp.reduce(logs))


@pytest.mark.parametrize("name", ALL)
class TestEvery:
    def test_config_is_plain_data(self, name):
        config = keras.saving.serialize_keras_object(ALL[name])
        copy = schedules.get(json.loads(json.dumps(config)))
        steps = range(40)
        np.testing.assert_array_equal(
            weights(copy, steps, 10.0), weights(ALL[name], steps, 10.0)
        )

    @pytest.mark.parametrize("jit", [False, True])
    def test_in_a_graph(self, name, jit):
        step, per_epoch = tf.Variable(0.0), tf.Variable(10.0)
        weight = tf.function(
            lambda: tf.cast(ALL[name](step, per_epoch.read_value()), tf.float32),
            jit_compile=jit,
        )
        expected = weights(ALL[name], range(30), 10.0)
        for index in range(30):
            step.assign(index)
            assert float(weight()) == pytest.approx(expected[index], rel=1e-5, abs=1e-6)
        assert weight.experimental_get_tracing_count() == 1

    def test_is_never_negative(self, name):
        assert np.all(weights(ALL[name], range(100), 10.0) >= 0)


class TestLinear:
    def test_by_steps(self):
        found = weights(ALL["steps"], [0, 5, 20, 21, 1000], 10.0)
        np.testing.assert_allclose(found, [0.1, 0.3, 0.9, 0.9, 0.9], rtol=1e-6)

    def test_by_epochs(self):
        found = weights(ALL["epochs"], [0, 5, 20, 30], 10.0)
        np.testing.assert_allclose(found, [0, 0.25, 1, 1], rtol=1e-6)

    def test_by_what_a_batch_adds(self):
        found = weights(ALL["per_batch"], [0, 4, 5, 9, 10, 99, 100, 500], 10.0)
        expected = [0, 0, 0.05, 0.05, 0.1, 0.95, 1, 1]
        np.testing.assert_allclose(found, expected, rtol=1e-5)

    def test_falling(self):
        falling = schedules.LinearAnnealing(1.0, 0.5, per_batch=0.1)
        np.testing.assert_allclose(
            weights(falling, [0, 1, 5, 9], 10.0), [1, 0.9, 0.5, 0.5], rtol=1e-6
        )

    @pytest.mark.parametrize("lengths", [{}, {"steps": 5, "epochs": 1}])
    def test_needs_one_length(self, lengths):
        with pytest.raises(ValueError, match=r"exactly one of.*Received"):
            schedules.LinearAnnealing(**lengths)


class TestCyclical:
    def test_rises_in_each_cycle(self):
        found = weights(ALL["cyclical"], range(26), 10.0)
        cycle = [0, 0.5, 1, 1, 1, 1, 1, 1]
        np.testing.assert_allclose(found, [*cycle * 3, 1, 1], rtol=1e-6)


class TestReweighting:
    @given(
        ratio=st.floats(0.01, 4).filter(lambda r: abs(r - 1) > 1e-2),
        batches=st.integers(1, 2_000),
    )
    @settings(max_examples=50, deadline=None)
    def test_against_numpy(self, ratio, batches):
        steps = np.unique(np.linspace(0, batches - 1, 7).astype(int))
        found = weights(schedules.MinibatchReweighting(ratio), steps, float(batches))
        expected = reweighting(ratio, batches)[steps]
        np.testing.assert_allclose(found, expected, rtol=2e-3, atol=1e-30)

    @pytest.mark.parametrize("ratio", [0.9, 1.0, 1.1, 2.0])
    def test_averages_one_over_an_epoch(self, ratio):
        found = weights(schedules.MinibatchReweighting(ratio), range(200), 200.0)
        assert found.mean() == pytest.approx(1.0, rel=1e-4)

    def test_where_the_naive_form_is_nan(self):
        found = weights(schedules.MinibatchReweighting(2.0), range(1_200), 1_200.0)
        assert np.all(np.isfinite(found))
        assert found[-1] == pytest.approx(600.0, rel=1e-4)

    def test_zero_is_no_kl_and_one_is_weight_one(self):
        np.testing.assert_array_equal(
            weights(schedules.MinibatchReweighting(0.0), range(5), 5.0), np.zeros(5)
        )
        np.testing.assert_array_equal(
            weights(schedules.MinibatchReweighting(1), range(5), 5.0), np.ones(5)
        )


class TestArguments:
    def test_number_stands_for_a_constant(self):
        assert schedules.get(0.25).weight == 0.25
        assert schedules.get(None).weight == 1.0

    @pytest.mark.parametrize("wrong", ["linear", True, [1.0]])
    def test_anything_else_is_refused(self, wrong):
        with pytest.raises(ValueError, match=r"`kl_schedule` must be.*Received"):
            schedules.get(wrong)

    @pytest.mark.parametrize(
        "make",
        [
            lambda: schedules.Constant(-1),
            lambda: schedules.Constant(float("nan")),
            lambda: schedules.LinearAnnealing(start=-0.1, steps=3),
            lambda: schedules.LinearAnnealing(steps=0),
            lambda: schedules.LinearAnnealing(steps=3, every=0),
            lambda: schedules.CyclicalAnnealing(0),
            lambda: schedules.CyclicalAnnealing(5, rising=0.0),
            lambda: schedules.CyclicalAnnealing(5, cycles=0),
            lambda: schedules.MinibatchReweighting(-1),
        ],
    )
    def test_bad_numbers(self, make):
        with pytest.raises(ValueError, match=r"Argument `\w+` must be.*Received: \w+="):
            make()
