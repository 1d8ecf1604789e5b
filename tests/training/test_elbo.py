"""`fit` minimises the negative ELBO, whatever the size of a batch."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_probability import distributions as tfd

import tfvn

COUNT, INPUTS, NOISE, PRIOR = 64, 3, 0.5, 0.8


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(COUNT, INPUTS))
    y = x @ rng.normal(size=(INPUTS, 1)) + NOISE * rng.normal(size=(COUNT, 1))
    return x.astype("float32"), y.astype("float32")


@pytest.fixture(scope="module")
def best(data):
    """Mean and scale of the factorised posterior with the largest ELBO."""
    x, y = data
    precision = x.T @ x / NOISE**2 + np.eye(INPUTS) / PRIOR**2
    mean = np.linalg.solve(precision, x.T @ y / NOISE**2)[:, 0]
    return mean, 1 / np.sqrt(np.diag(precision))


def negative_elbo(data, mean, scale):
    """Per example, in closed form."""
    x, y = data
    squares = np.sum((y[:, 0] - x @ mean) ** 2) + np.sum(x**2 @ scale**2)
    nll = 0.5 * squares / NOISE**2 + 0.5 * COUNT * np.log(2 * np.pi * NOISE**2)
    ratio = scale / PRIOR
    kl = np.sum(0.5 * (ratio**2 + (mean / PRIOR) ** 2 - 1) - np.log(ratio))
    return (nll + kl) / COUNT


@pytest.mark.parametrize("batch_size", [1, 32, COUNT])
def test_same_optimum_for_every_batch_size(data, best, batch_size):
    layer = tfvn.MeanFieldDense(
        1, use_bias=False, prior=tfd.Normal(0.0, PRIOR), scale_initializer=0.1, seed=1
    )
    model = tfvn.Sequential([keras.Input((INPUTS,)), layer])
    steps = 6_400 if batch_size == 1 else 3_200
    rate = {1: 0.01, 32: 0.03, COUNT: 0.03}[batch_size]
    model.compile(
        keras.optimizers.Adam(
            keras.optimizers.schedules.CosineDecay(rate, steps, alpha=1e-3)
        ),
        tfvn.losses.GaussianNLL(NOISE),
        train_size=COUNT,
        steps_per_execution=64,
    )
    # One long epoch: thousands of short ones are most of the time in Python.
    examples = tf.data.Dataset.from_tensor_slices(data).shuffle(COUNT, seed=1)
    batches = examples.batch(batch_size).repeat()
    model.fit(batches, steps_per_epoch=steps, verbose=0)
    q = layer.posterior_distribution()
    mean, scale = q.loc.numpy()[:, 0], q.scale.numpy()[:, 0]
    optimum = negative_elbo(data, *best)
    assert optimum <= negative_elbo(data, mean, scale) < optimum + 0.005
    np.testing.assert_allclose(mean, best[0], atol=0.5 * best[1].min())
    np.testing.assert_allclose(scale, best[1], rtol=0.15)


def test_a_kl_of_the_wrong_scale_has_another_optimum(data, best):
    # What a batch of 1 would reach if the KL were divided by the batches, not by N.
    mean, scale = best
    wrong = 1 / np.sqrt(1 / PRIOR**2 + (1 / scale**2 - 1 / PRIOR**2) / 32)
    assert negative_elbo(data, mean, wrong) > negative_elbo(data, *best) + 0.005


def test_elbo_that_is_shown_is_the_elbo(data):
    layer = tfvn.MeanFieldDense(
        1, use_bias=False, prior=tfd.Normal(0.0, PRIOR), scale_initializer=0.1, seed=1
    )
    model = tfvn.Sequential([keras.Input((INPUTS,)), layer])
    model.compile("adam", tfvn.losses.GaussianNLL(NOISE), train_size=COUNT)
    # Each example has noise of its own, also in one batch.
    shown = [model.test_on_batch(*data, return_dict=True)["elbo"] for _ in range(60)]
    q = layer.posterior_distribution()
    expected = -negative_elbo(data, q.loc.numpy()[:, 0], q.scale.numpy()[:, 0])
    error = np.std(shown) / np.sqrt(len(shown))
    assert abs(np.mean(shown) - expected) < 4 * error
