"""Negative log-likelihoods for regression."""

import keras
import numpy as np
import pytest
from scipy import stats

import tfvn

RNG = np.random.default_rng(0)
Y, MEAN = RNG.normal(size=(2, 6, 3)).astype("float32")
LOG_SCALE = RNG.normal(size=(6, 3)).astype("float32")


def test_fixed_noise_against_scipy():
    loss = tfvn.losses.GaussianNLL(scale=0.7)
    expected = -stats.norm(MEAN, 0.7).logpdf(Y).sum(axis=-1).mean()
    assert float(loss(Y, MEAN)) == pytest.approx(expected, rel=1e-5)


def test_noise_per_example_against_scipy():
    loss = tfvn.losses.GaussianNLL()
    expected = -stats.norm(MEAN, np.exp(LOG_SCALE)).logpdf(Y).sum(axis=-1).mean()
    outputs = np.concatenate([MEAN, LOG_SCALE], axis=-1)
    assert float(loss(Y, outputs)) == pytest.approx(expected, rel=1e-5)


def test_learned_noise_is_learned():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(512, 2)).astype("float32")
    y = (x[:, :1] + 0.3 * rng.normal(size=(512, 1))).astype("float32")
    model = tfvn.Sequential(
        [keras.Input((2,)), tfvn.MeanFieldDense(1), tfvn.layers.LearnedScale()]
    )
    model.compile(keras.optimizers.Adam(0.03), tfvn.losses.GaussianNLL())
    model.fit(x, y, batch_size=64, epochs=60, verbose=0)
    assert np.exp(model.layers[-1].log_scale.numpy()) == pytest.approx(0.3, rel=0.15)


def test_extreme_scales_stay_finite():
    loss = tfvn.losses.GaussianNLL()
    outputs = np.array([[0.0, 1e4], [0.0, -1e4]], "float32")
    assert np.isfinite(float(loss(np.ones((2, 1), "float32"), outputs)))


def test_config():
    loss = tfvn.losses.GaussianNLL(0.2, name="nll")
    copy = keras.losses.deserialize(keras.losses.serialize(loss))
    assert copy.scale == 0.2
    layer = tfvn.layers.LearnedScale(0.5)
    assert tfvn.layers.LearnedScale.from_config(layer.get_config()).initial_scale == 0.5


@pytest.mark.parametrize("scale", [0, -1.0, float("inf")])
def test_bad_scale(scale):
    with pytest.raises(
        ValueError, match=r"positive standard deviation.*Received: scale"
    ):
        tfvn.losses.GaussianNLL(scale)
    with pytest.raises(ValueError, match=r"positive standard.*Received: initial_scale"):
        tfvn.layers.LearnedScale(scale)


def test_outputs_of_the_wrong_size():
    with pytest.raises(
        ValueError, match=r"last axis of size 6.*Received: y_pred.shape"
    ):
        tfvn.losses.GaussianNLL()(Y, MEAN)
