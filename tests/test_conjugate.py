"""Bayesian linear regression, where the best answer is known in closed form."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_probability import distributions as tfd
from ztests import assert_mean

import tfvn

COUNT, INPUTS = 100, 4
NOISE, PRIOR_SCALE = 0.5, 1.0


@keras.saving.register_keras_serializable("tests")
class GaussianNLL(keras.losses.Loss):
    """Minus the log-likelihood of an example under Normal noise of known scale."""

    def call(self, y_true, y_pred):
        squares = keras.ops.sum(keras.ops.square(y_true - y_pred), axis=-1)
        return 0.5 * squares / NOISE**2 + 0.5 * np.log(2 * np.pi * NOISE**2)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    # Correlated inputs, so that a factorised posterior is not the true one.
    x = rng.normal(size=(COUNT, INPUTS)) @ rng.normal(size=(INPUTS, INPUTS))
    y = x @ rng.normal(size=(INPUTS, 1)) + NOISE * rng.normal(size=(COUNT, 1))
    return x, y


@pytest.fixture(scope="module")
def precision(data):
    x, _ = data
    return x.T @ x / NOISE**2 + np.eye(INPUTS) / PRIOR_SCALE**2


@pytest.fixture(scope="module")
def best(data, precision):
    """Mean and scale of the factorised Normal with the largest ELBO."""
    x, y = data
    mean = np.linalg.solve(precision, x.T @ y / NOISE**2)[:, 0]
    return mean, 1 / np.sqrt(np.diag(precision))


def elbo(data, mean, scale):
    """E_q[log p(y | x, w)] - KL(q || p), of q = N(mean, scale^2), per weight."""
    x, y = data
    squares = np.sum((y[:, 0] - x @ mean) ** 2) + np.sum(x**2 @ scale**2)
    log_likelihood = -0.5 * squares / NOISE**2
    log_likelihood -= 0.5 * COUNT * np.log(2 * np.pi * NOISE**2)
    ratio = scale / PRIOR_SCALE
    kl = np.sum(0.5 * (ratio**2 + (mean / PRIOR_SCALE) ** 2 - 1) - np.log(ratio))
    return log_likelihood - kl


def make_model(estimator=None):
    layer = tfvn.MeanFieldDense(
        1,
        use_bias=False,
        estimator=estimator,
        prior=tfd.Normal(0.0, PRIOR_SCALE),
        kl_weight=1 / COUNT,
        scale_initializer=0.1,
        seed=1,
    )
    return keras.Sequential([keras.Input((INPUTS,)), layer]), layer


def learned(layer):
    q = layer.posterior_distribution()
    return q.loc.numpy()[:, 0], q.scale.numpy()[:, 0]


class TestClosedForm:
    def test_best_is_a_stationary_point(self, data, best):
        value = elbo(data, *best)
        mean, scale = best
        for step in (1e-3, -1e-3):
            for index in range(INPUTS):
                unit = np.eye(INPUTS)[index] * step
                assert elbo(data, mean + unit, scale) < value
                assert elbo(data, mean, scale + 0.1 * unit) < value

    def test_exact_posterior_is_better(self, data, precision, best):
        x, y = data
        covariance = NOISE**2 * np.eye(COUNT) + PRIOR_SCALE**2 * x @ x.T
        _, log_determinant = np.linalg.slogdet(2 * np.pi * covariance)
        evidence = -0.5 * (y.T @ np.linalg.solve(covariance, y) + log_determinant)
        assert elbo(data, *best) < evidence.item()

    def test_is_what_the_model_minimizes(self, data):
        model, layer = make_model()
        model.compile(loss=GaussianNLL())
        losses = [model.test_on_batch(*data) for _ in range(200)]
        assert_mean(losses, -elbo(data, *learned(layer)) / COUNT)


@pytest.mark.parametrize("estimator", ["local", "weights"])
def test_training_reaches_the_best_elbo(data, best, estimator):
    model, layer = make_model(estimator)
    # The gradients of one weight sample are noisier.
    steps = {"local": 3_000, "weights": 8_000}[estimator]
    model.compile(
        keras.optimizers.Adam(
            keras.optimizers.schedules.CosineDecay(0.03, steps, alpha=1e-3)
        ),
        loss=GaussianNLL(),
        steps_per_execution=100,
    )
    batches = tf.data.Dataset.from_tensors(data).repeat(steps)
    model.fit(batches, shuffle=False, verbose=0)
    mean, scale = learned(layer)
    reached, optimum = elbo(data, mean, scale), elbo(data, *best)
    assert reached <= optimum + 1e-3
    assert optimum - reached < 0.01 * abs(optimum)
    np.testing.assert_allclose(mean, best[0], atol=0.5 * best[1].min())
    np.testing.assert_allclose(scale, best[1], rtol=0.25)


def test_one_percent_is_a_demand(data, best):
    mean, scale = best
    optimum = elbo(data, *best)
    for wrong in (
        (mean, 2 * scale),
        (mean + 2 * scale, scale),
        (np.zeros(INPUTS), scale),
    ):
        assert optimum - elbo(data, *wrong) > 0.01 * abs(optimum)
