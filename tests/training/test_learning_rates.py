"""Learning rates against their closed forms."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfvn
from tfvn.training.learning_rates import Cyclical, WarmUp, require_settable

MODES = ("triangular", "triangular2", "exponential")
DECAY = keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.5)


def smith(step, low, high, stepsize, mode, gamma):
    """The formula of Smith's own code, in float64."""
    cycle = np.floor(1 + step / (2 * stepsize))
    x = np.abs(step / stepsize - 2 * cycle + 1)
    factor = {
        "triangular": 1.0,
        "triangular2": 1 / 2 ** (cycle - 1),
        "exponential": gamma**step,
    }[mode]
    return low + (high - low) * max(0.0, 1 - x) * factor


class TestCyclical:
    @pytest.mark.parametrize("mode", MODES)
    @pytest.mark.parametrize("step", [0, 1, 49, 50, 51, 99, 100, 137, 250, 100_025])
    def test_is_that_of_smith(self, mode, step):
        rate = Cyclical(1e-3, 6e-3, cycle_steps=100, mode=mode, gamma=0.9999)
        expected = smith(step, 1e-3, 6e-3, 50, mode, 0.9999)
        np.testing.assert_allclose(rate(step), expected, rtol=1e-5)

    def test_of_an_odd_length(self):
        rate = Cyclical(0.0, 1.0, cycle_steps=3)
        expected = [0, 2 / 3, 2 / 3, 0]
        np.testing.assert_allclose([rate(s) for s in range(4)], expected, atol=1e-6)

    def test_gamma_does_not_drift(self):
        rate = Cyclical(0.0, 1.0, cycle_steps=2, mode="exponential", gamma=0.99994)
        np.testing.assert_allclose(rate(200_001), 0.99994**200_001, rtol=2e-6)

    @pytest.mark.parametrize(
        ("kwargs", "message"),
        [
            ({"min_rate": -1.0}, "min_rate=-1.0"),
            ({"max_rate": 1e-4}, "max_rate=0.0001, min_rate=0.001"),
            ({"max_rate": np.nan}, "max_rate=nan"),
            ({"cycle_steps": 0}, "cycle_steps=0"),
            ({"cycle_steps": 2.5}, "cycle_steps=2.5"),
            ({"mode": "square"}, "mode='square'"),
            ({"gamma": 1.5}, "gamma=1.5"),
        ],
    )
    def test_refuses(self, kwargs, message):
        with pytest.raises(ValueError, match=f"Received: {message}"):
            Cyclical(**{"min_rate": 1e-3, "max_rate": 1.0, "cycle_steps": 4, **kwargs})


class TestWarmUp:
    def test_of_a_number(self):
        rate = WarmUp(0.5, warmup_steps=4, start=0.1)
        expected = [0.1, 0.2, 0.3, 0.4, 0.5, 0.5, 0.5]
        np.testing.assert_allclose([rate(s) for s in range(7)], expected, rtol=1e-6)

    def test_of_a_schedule_starts_it_when_it_is_over(self):
        rate = WarmUp(DECAY, warmup_steps=5)
        rising = [0.1 * step / 5 for step in range(5)]
        falling = [0.1 * 0.5 ** (step / 10) for step in range(20)]
        values = [float(rate(step)) for step in range(25)]
        np.testing.assert_allclose(values, rising + falling, rtol=1e-5)

    def test_can_come_down(self):
        rate = WarmUp(0.1, warmup_steps=2, start=0.3)
        np.testing.assert_allclose([rate(s) for s in (0, 1, 2)], [0.3, 0.2, 0.1], 1e-6)

    @pytest.mark.parametrize(
        ("kwargs", "message"),
        [
            ({"schedule": "fast"}, "schedule='fast'"),
            ({"schedule": -0.1}, "schedule=-0.1"),
            ({"warmup_steps": 0}, "warmup_steps=0"),
            ({"start": -1.0}, "start=-1.0"),
        ],
    )
    def test_refuses(self, kwargs, message):
        with pytest.raises(ValueError, match=f"Received: {message}"):
            WarmUp(**{"schedule": 0.1, "warmup_steps": 4, **kwargs})


SCHEDULES = [
    Cyclical(1e-3, 6e-3, 100, "exponential", 0.999),
    Cyclical(1e-3, 6e-3, 7, "triangular2"),
    WarmUp(0.5, 30),
    WarmUp(DECAY, 30, start=0.01),
    WarmUp(Cyclical(1e-3, 6e-3, 10), 30),
]


@pytest.mark.parametrize("schedule", SCHEDULES)
class TestEverySchedule:
    def test_survives_its_config(self, schedule):
        config = keras.optimizers.schedules.serialize(schedule)
        copy = keras.optimizers.schedules.deserialize(config)
        assert type(copy) is type(schedule)
        assert copy.get_config() == schedule.get_config()
        assert config["registered_name"].startswith("tfvn>")
        for step in (0, 13, 77):
            assert float(copy(step)) == float(schedule(step))

    @pytest.mark.parametrize("jit", [False, True])
    def test_is_the_same_in_a_graph(self, schedule, jit):
        step = tf.Variable(0, dtype=tf.int64)
        traced = tf.function(lambda: schedule(step), jit_compile=jit)
        for value in (0, 13, 29, 30, 77):
            step.assign(value)
            np.testing.assert_allclose(traced(), schedule(value), rtol=1e-6)
            assert traced().dtype == tf.float32


@pytest.mark.parametrize("jit", [False, True])
def test_sgd_follows_the_rate(jit):
    """A loss of slope 1: the sum of the rates is the way that was gone."""
    schedule = WarmUp(Cyclical(0.01, 0.05, 4), warmup_steps=3)
    layer = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")
    model = keras.Sequential([keras.Input((1,)), layer])
    optimizer = keras.optimizers.SGD(schedule)
    model.compile(optimizer, lambda y, y_pred: -y_pred, jit_compile=jit)
    model.fit(np.ones((9, 1)), np.ones((9, 1)), batch_size=1, verbose=0)
    expected = sum(float(schedule(step)) for step in range(9))
    np.testing.assert_allclose(layer.kernel.numpy(), expected, rtol=1e-5)


def test_a_saved_model_keeps_it(tmp_path):
    model = tfvn.Sequential([keras.Input((2,)), tfvn.MeanFieldDense(1)])
    rate = WarmUp(DECAY, 30)
    model.compile({"scale": keras.optimizers.SGD(rate)}, "mse", train_size=4)
    model.fit(np.ones((4, 2)), np.ones((4, 1)), epochs=3, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    rates = loaded.optimizer.learning_rates()
    assert rates["scale"] == model.optimizer.learning_rates()["scale"]
    assert rates["scale"] == pytest.approx(0.01)


def test_require_settable():
    require_settable(keras.optimizers.SGD(0.1), "Someone")
    with pytest.raises(ValueError, match=r"`Someone` sets .* optimizer='mine'"):
        require_settable(keras.optimizers.SGD(DECAY, name="mine"), "Someone")
