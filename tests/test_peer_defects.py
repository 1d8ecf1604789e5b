"""Defects that other libraries ship, each as a test of what is right.

What needs statistics or many cases is elsewhere in full: moments in `test_moments`,
divergences in `kl`, zero inputs in `test_gradients`, saving and mixed precision
of every layer in `layers/test_layers`, KL counted once in `layers/test_kl_counting`.
"""

import inspect

import harness
import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_probability import distributions as tfd
from ztests import assert_moments

import tfvn

OPS = {
    "Dense": ({"units": 4}, (2, 3)),
    "EinsumDense": (
        {"equation": "abc,cd->abd", "output_shape": (3, 4), "bias_axes": "d"},
        (2, 3, 2),
    ),
    "Conv1D": ({"filters": 4, "kernel_size": 2}, (2, 5, 2)),
    "Conv2D": ({"filters": 4, "kernel_size": 2}, (2, 4, 4, 2)),
    "Conv3D": ({"filters": 2, "kernel_size": 2}, (2, 3, 3, 3, 1)),
    "Conv2DTranspose": ({"filters": 3, "kernel_size": 2}, (2, 3, 3, 2)),
    "DepthwiseConv2D": ({"kernel_size": 2}, (2, 4, 4, 2)),
}
FAMILIES = ("Variance", "GaussianDropout", "MeanField", "KTied")


def make_layer(family, op, **kwargs):
    arguments, shape = OPS[op]
    layer = getattr(tfvn, family + op)(**{"kl_weight": 1.0, **arguments, **kwargs})
    layer.build(shape)
    return layer, np.random.default_rng(1).normal(size=shape).astype("float32")


def test_edward2_log_uniform_divergence_is_negated():
    for family in ("GaussianDropout", "MeanField"):
        layer, _ = make_layer(family, "Dense", prior="log_uniform")
        assert float(layer.kl_divergence()) > 0
    # More noise is closer to the prior, so that alpha is pulled up, not down.
    layer, _ = make_layer("GaussianDropout", "Dense")
    with tf.GradientTape() as tape:
        divergence = layer.kl_divergence()
    (log_alpha,) = layer.variable_groups["scale"]
    assert float(tape.gradient(divergence, log_alpha.value)) < 0


def test_edward2_flipout_signs_are_not_signs():
    # They are uniform on [-1, 3] there, which makes the variance 2.38 times as large.
    layer = tfvn.MeanFieldDense(
        2, estimator="flipout", prior=None, scale_initializer=0.5, use_bias=False
    )
    x = np.eye(3, dtype="float32")
    layer(x)
    draws = tf.function(
        lambda: tf.map_fn(
            lambda _: layer(x), tf.range(4_000), fn_output_signature=tf.float32
        )
    )
    assert_moments(draws(), layer.posterior.mean(), np.full((3, 2), 0.25))


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("family", FAMILIES)
def test_tfp_local_reparameterization_has_nan_gradients_for_zero_inputs(family, op):
    layer, x = make_layer(family, op, estimator="local")
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(np.zeros_like(x))) + sum(layer.losses)
    variables = [v.value for v in layer.trainable_variables]
    gradients = tape.gradient(loss, variables, unconnected_gradients="zero")
    assert all(np.all(np.isfinite(gradient)) for gradient in gradients)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("family", FAMILIES)
def test_tfp_flipout_cannot_be_reloaded(family, op):
    layer, x = make_layer(family, op, estimator="flipout")
    config = keras.saving.serialize_keras_object(layer)
    again = keras.saving.deserialize_keras_object(config)
    assert again.built
    again.set_weights(layer.get_weights())
    assert again.estimator.alias == "flipout"
    assert again(x).shape == layer(x).shape
    assert again.get_config() == layer.get_config()


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("family", FAMILIES)
def test_tfp_mixed_precision_raises(family, policy):
    for op in OPS:
        layer, x = make_layer(family, op, dtype=policy)
        assert layer(x).dtype == policy.removeprefix("mixed_")
        assert layer.kl_divergence().dtype == tf.float32


@pytest.mark.parametrize("family", FAMILIES)
def test_bayesian_torch_divergence_is_a_mean(family):
    def divergence(size):
        # The same for every weight, whatever the fan-in.
        start = keras.initializers.Constant(0.1)
        layer = getattr(tfvn, family + "Dense")(
            size, use_bias=False, prior=prior, kernel_initializer=start
        )
        layer.build((None, size))
        return float(layer.kl_divergence())

    prior = tfd.Normal(0.0, 1.0)
    assert divergence(64) == pytest.approx(256 * divergence(4), rel=0.25)


def test_torch_uncertainty_divergence_is_averaged_over_layers():
    layers = [tfvn.MeanFieldDense(3, kl_weight=1.0) for _ in range(3)]
    model = keras.Sequential([keras.Input((3,)), *layers])
    model(np.ones((2, 3), "float32"))
    expected = sum(float(layer.kl_divergence()) for layer in layers)
    assert float(sum(model.losses)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("family", ["MeanField", "KTied"])
def test_torch_uncertainty_log_posterior_has_a_stray_half_per_weight(family):
    # The estimate of a divergence from a law to itself is zero, whatever the sample.
    layer, _ = make_layer(family, "Dense")
    q = layer.posterior_distribution()
    p = tfd.Normal(q.mean(), q.stddev())
    sample = layer.posterior.sample((1, 2))
    np.testing.assert_allclose(tfvn.kl.monte_carlo(q, p, sample), 0.0, atol=1e-4)


@pytest.mark.parametrize("op", OPS)
def test_blitz_flipout_adds_noise_where_there_is_none(op):
    layer, x = make_layer("MeanField", op, estimator="flipout", scale_initializer=1e-10)
    expected = harness.make_twin(layer, x.shape)(x)
    np.testing.assert_allclose(layer(x), expected, atol=1e-5)


@pytest.mark.parametrize("estimator", ["mean", "local", "flipout", "weights"])
@pytest.mark.parametrize("op", OPS)
def test_keras_uncertainty_bias_doubles_the_activations(op, estimator):
    layer, x = make_layer(
        "MeanField",
        op,
        estimator=estimator,
        scale_initializer=1e-10,
        bias_initializer=keras.initializers.Constant(2.0),
    )
    expected = harness.make_twin(layer, x.shape)(x)
    np.testing.assert_allclose(layer(x), expected, atol=1e-5)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("family", FAMILIES)
def test_keras_uncertainty_convolutions_omit_the_prior(family, op):
    near, far = (
        float(make_layer(family, op, prior=prior)[0].kl_divergence())
        for prior in (tfd.Normal(0.0, 0.5), tfd.Normal(0.0, 50.0))
    )
    assert far > near + 1.0


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("family", FAMILIES)
def test_keras_uncertainty_drops_kl_weight(family, op):
    layer, x = make_layer(family, op, prior=tfd.Normal(0.0, 1.0), kl_weight=0.25)
    layer(x)
    expected = 0.25 * float(layer.kl_divergence())
    assert float(sum(layer.losses)) == pytest.approx(expected, rel=1e-5)
    # By name only, so that no argument of the twin can take its place.
    parameter = inspect.signature(type(layer)).parameters["kl_weight"]
    assert parameter.kind is parameter.KEYWORD_ONLY


@pytest.mark.parametrize("op", [op for op in OPS if "Conv" in op])
def test_variance_networks_convolutions_ignore_the_ard_prior(op):
    layer, _ = make_layer("GaussianDropout", op, prior="ard")
    size = int(np.prod(layer.posterior.spec.shape))
    # 0.5 log(1 + 1 / alpha) for each weight, at the start log alpha = -5.
    expected = 0.5 * size * np.log1p(np.exp(5.0))
    assert float(layer.kl_divergence()) == pytest.approx(expected, rel=1e-5)
    other, _ = make_layer("GaussianDropout", op)
    assert float(other.kl_divergence()) != pytest.approx(expected, rel=1e-2)
