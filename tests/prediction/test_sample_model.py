"""A held draw: plain, deterministic, and drawn from the posterior."""

import keras
import models
import numpy as np
import pytest
import ztests
from keras import layers
from models import FEATURES, X

import tfvn


def is_plain(model):
    return not any(
        type(layer).__module__.startswith("tfvn") for layer in model._flatten_layers()
    )


def twice_nested():
    inner = models.sequential(models.mean_field("local"))
    middle_inputs = keras.Input((FEATURES,))
    middle = tfvn.Model(middle_inputs, inner(middle_inputs))
    inputs = keras.Input((FEATURES,))
    return tfvn.Model(inputs, layers.Dense(2)(middle(inputs) + middle(2 * inputs)))


@pytest.mark.parametrize(
    "make",
    [
        models.local,
        models.weights,
        models.random_bias,
        models.shared_stochastic,
        twice_nested,
    ],
    ids=lambda make: make.__name__,
)
def test_is_a_plain_model_with_one_draw(make, tmp_path):
    model = make()
    before = [weight.copy() for weight in model.get_weights()]
    held = tfvn.sample_model(model, seed=1)
    assert is_plain(held)
    np.testing.assert_array_equal(held(X), held(X))
    np.testing.assert_array_equal(held(X), tfvn.sample_model(model, seed=1)(X))
    assert np.abs(held(X) - tfvn.sample_model(model, seed=2)(X)).max() > 1e-4
    assert (
        np.abs(tfvn.sample_model(model)(X) - tfvn.sample_model(model)(X)).max() > 1e-4
    )
    held.save(tmp_path / "held.keras")
    loaded = keras.models.load_model(tmp_path / "held.keras")
    np.testing.assert_allclose(loaded(X), held(X), atol=1e-6)
    for now, then in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(now, then)


def test_kernels_are_drawn_from_the_posterior():
    layer = tfvn.MeanFieldDense(2, bias_posterior="mean_field", **models.SPREAD)
    model = tfvn.Sequential([keras.Input((FEATURES,)), layer])
    model.compile({"mean": "adam", "scale": "adam"}, "mse")
    drawn = [tfvn.sample_model(model, seed).get_weights() for seed in range(60)]
    q = layer.posterior_distribution()
    ztests.assert_moments(np.stack([d[0] for d in drawn]), q.mean(), q.variance())
    q = layer.bias_posterior.distribution()
    ztests.assert_moments(np.stack([d[1] for d in drawn]), q.mean(), q.variance())


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (tfvn.MeanFieldConv1D(3, 2), (5, 2)),
        (tfvn.KTiedConv2D(4, 2, groups=2, padding="same"), (5, 5, 2)),
        (tfvn.VarianceConv3D(3, 2), (3, 3, 3, 2)),
        (tfvn.MeanFieldConv2DTranspose(3, 2), (4, 4, 2)),
        (tfvn.GaussianDropoutDepthwiseConv2D(2, depth_multiplier=2), (4, 4, 3)),
        (tfvn.MeanFieldEinsumDense("abc,cd->abd", (None, 4), bias_axes="d"), (3, 2)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_twin_computes_the_layer_with_the_held_kernel(layer, shape):
    model = keras.Sequential([keras.Input(shape), layer])
    if layer.bias is not None:
        layer.bias.assign(np.arange(layer.bias.shape[-1], dtype="float32"))
    held = tfvn.sample_model(model, seed=3)
    x = np.random.default_rng(0).normal(size=(2, *shape)).astype("float32")
    expected = layer.linear_op(x, held.layers[0].kernel.value)
    if layer.bias is not None:
        expected += layer.expand_bias(layer.bias.value)
    np.testing.assert_allclose(held(x), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (models.subclassed, "must be a sequential or functional model"),
        (models.mc_dropout, "expected no other noise"),
    ],
)
def test_refuses_what_it_cannot_hold(make, words):
    with pytest.raises(ValueError, match=words):
        tfvn.sample_model(make())


def test_batch_normalization_is_copied():
    model = models.sequential(models.mean_field("local"), layers.BatchNormalization())
    model.layers[2].moving_mean.assign(np.full(5, 3.0))
    held = tfvn.sample_model(model, seed=0)
    np.testing.assert_array_equal(held.layers[2].moving_mean, np.full(5, 3.0))
