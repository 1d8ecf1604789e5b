"""The steps of each optimizer, against NumPy references written from the papers."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from noisy_quadratic import STEPS, simulate, train

from tfvn.training.optimizers import AdaBound, RAdam, YellowFin


def past_average(values, beta):
    """The average of all values so far, the last one with weight 1, then beta, ..."""
    weights = beta ** np.arange(len(values))[::-1]
    return np.tensordot(weights, np.array(values), 1) / weights.sum()


def ada_bound_reference(rates, final, beta_1, beta_2, gamma, amsbound, eps=1e-8):
    def step(gradients):
        t = len(gradients)
        rate = rates[t - 1]
        # Averages that start at 0 are past averages times 1 - beta^t.
        m = past_average(gradients, beta_1) * (1 - beta_1**t)
        squares = np.square(gradients)
        seconds = [
            past_average(squares[:k], beta_2) * (1 - beta_2**k) for k in range(1, t + 1)
        ]
        v = np.max(seconds, axis=0) if amsbound else seconds[-1]
        adam = rate * np.sqrt(1 - beta_2**t) / (1 - beta_1**t) / (np.sqrt(v) + eps)
        end = final * rate / rates[0]
        bounds = end * (1 - 1 / (gamma * t + 1)), end * (1 + 1 / (gamma * t))
        used.append((np.mean(adam < bounds[0]), np.mean(adam > bounds[1])))
        return -np.clip(adam, *bounds) * m

    used = []
    path = simulate(step)
    return path, np.array(used)


def radam_reference(rate, beta_1, beta_2, eps=1e-8):
    limit = 2 / (1 - beta_2) - 1

    def step(gradients):
        t = len(gradients)
        m = past_average(gradients, beta_1)
        length = limit - 2 * t * beta_2**t / (1 - beta_2**t)
        if length <= 4:
            return -rate * m
        v = past_average(np.square(gradients), beta_2)
        top = (length - 4) * (length - 2) * limit
        bottom = (limit - 4) * (limit - 2) * length
        # The epsilon is added before the bias correction.
        return (
            -rate
            * np.sqrt(top / bottom)
            * m
            / (np.sqrt(v) + eps / np.sqrt(1 - beta_2**t))
        )

    return simulate(step)


def yellow_fin_reference(factor, beta, window, least_momentum=0.0):
    last = [np.zeros(7)]
    distances, lows, highs, tuned = [], [], [], []

    def step(gradients):
        squared = np.sum(np.square(gradients), axis=1)
        t = len(squared)
        lows.append(np.log(squared[-window:].min()))
        highs.append(np.log(squared[-window:].max()))
        h_min = np.exp(past_average(lows, beta))
        h_max = np.exp(past_average(highs, beta))
        mean = past_average(gradients, beta)
        variance = np.sum(past_average(np.square(gradients), beta) - mean**2)
        distances.append(
            past_average(np.sqrt(squared), beta) / past_average(squared, beta)
        )
        distance = past_average(distances, beta)
        # d/dx of x^2 D^2 + (1 - x)^4 C / h_min^2, with x the root of the momentum.
        x = 0.0
        if variance > 1e-12:
            p = (distance * h_min) ** 2 / (2 * variance)
            roots = np.roots([-1, 3, -(3 + p), 1])
            x = roots[(abs(roots.imag) < 1e-9) & (roots.real < 1)].real.item()
        condition = np.sqrt(h_max / h_min)
        bound = (condition - 1) / (condition + 1)
        root = max(x, bound, np.sqrt(least_momentum))
        rate = (1 - root) ** 2 / h_min * min(1, t / (10 * window))
        tuned.append((rate, root**2, x > bound))
        last.append(root**2 * last[-1] - factor * rate * gradients[-1])
        return last[-1]

    return simulate(step), tuned


@pytest.mark.parametrize(
    "mode", [pytest.param("eager", marks=pytest.mark.exhaustive), "graph", "jit"]
)
class TestAgainstReference:
    @pytest.mark.parametrize("amsbound", [False, True])
    def test_ada_bound(self, mode, amsbound):
        config = {"beta_1": 0.8, "beta_2": 0.99, "gamma": 0.05, "amsbound": amsbound}
        schedule = keras.optimizers.schedules.ExponentialDecay(0.15, 100, 0.5)
        rates = 0.15 * 0.5 ** (np.arange(STEPS) / 100)
        expected, clipped = ada_bound_reference(rates, 0.1, **config)
        # Both bounds are at work somewhere, and so is Adam between them.
        assert np.all(clipped.mean(axis=0) > 0.2)
        assert clipped.mean(axis=0).sum() < 0.8
        actual = train(AdaBound(schedule, 0.1, **config), mode)
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)

    @pytest.mark.parametrize("betas", [(0.9, 0.999), (0.5, 0.8)])
    def test_radam(self, mode, betas):
        expected = radam_reference(0.1, *betas)
        actual = train(RAdam(0.1, *betas), mode)
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)

    @pytest.mark.parametrize(
        ("factor", "beta", "window", "momentum"),
        [(1.0, 0.999, 20, 0.0), (0.5, 0.95, 3, 0.0), (1.0, 0.99, 4, 0.6)],
    )
    def test_yellow_fin(self, mode, factor, beta, window, momentum):
        expected, tuned = yellow_fin_reference(factor, beta, window, momentum)
        optimizer = YellowFin(factor, momentum, beta, window)
        actual = train(optimizer, mode)
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)
        rate, last_momentum, _ = tuned[-1]
        assert float(optimizer._tuned_rate) == pytest.approx(rate, rel=1e-4)
        assert float(optimizer._tuned_momentum) == pytest.approx(
            last_momentum, rel=1e-4
        )


def test_yellow_fin_references_reach_both_cases():
    # Otherwise the cubic or the bound on the momentum would go untested.
    settings = [(1.0, 0.999, 20), (0.5, 0.95, 3), (1.0, 0.99, 4, 0.6)]
    from_cubic = [
        case for args in settings for *_, case in yellow_fin_reference(*args)[1]
    ]
    assert 0 < np.mean(from_cubic) < 1


def test_yellow_fin_cubic_over_all_magnitudes():
    from tfvn.training.optimizers.yellow_fin import _minimize

    for exponent in np.arange(-20, 11.0):
        p = 10.0**exponent
        y = float(_minimize(tf.constant(1.0), tf.constant(0.5 / p, tf.float32)))
        # The residual, relative to the slope at the root, is the error of the root.
        error = (y**3 + p * y - p) / (3 * y**2 + p)
        assert abs(error) <= 2e-6 * y
        assert 0 < y <= 1 + 1e-6


def test_ada_bound_after_a_warm_up_from_zero():
    schedule = keras.optimizers.schedules.CosineDecay(
        0.0, 100, warmup_target=0.1, warmup_steps=5
    )
    kwargs = {"gamma": 1e4, "beta_1": 0.0}
    for base, end in ((None, 0.1), (0.1, 0.1 * float(schedule(4)) / 0.1)):
        variable = keras.Variable([0.0])
        optimizer = AdaBound(schedule, 0.1, base_learning_rate=base, **kwargs)
        for _ in range(5):
            before = variable.numpy()
            optimizer.apply([tf.ones(1)], [variable])
        # So large a gamma makes it SGD at once, with the final rate.
        np.testing.assert_allclose(before - variable.numpy(), [end], rtol=1e-3)


def test_ada_bound_scales_its_bounds_from_where_it_started():
    optimizer = AdaBound(0.1, final_learning_rate=0.2, gamma=1e4, beta_1=0.0)
    optimizer.learning_rate = 0.05
    # A copy does not take the rate of the moment for that of the start.
    copy = AdaBound.from_config(optimizer.get_config())
    for each in (optimizer, copy):
        variable = keras.Variable([0.0])
        each.apply([tf.ones(1)], [variable])
        np.testing.assert_allclose(variable, [-0.1], rtol=1e-3)
