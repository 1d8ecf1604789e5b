"""Outputs of layers against the moments that follow from their posteriors."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from layer_moments import (
    DRAWS,
    EVERY_OP,
    NOISY_CELLS,
    POSTERIORS,
    draw,
    draw_by_tiling,
    make_any,
    make_inputs,
    make_layer,
    output_moments,
    twin_moments,
    weight_moments,
)
from ztests import assert_moments, assert_uncorrelated

import tfvn
from tfvn.estimators import Estimate

FAMILIES = ["variance-gaussian", "gaussian_dropout-neuron", "mean_field", "k_tied-2"]


@pytest.mark.one_in(10)
@pytest.mark.parametrize(
    ("op", "bias_posterior"),
    [("dense", None), ("conv2d", "mean_field")],
)
@pytest.mark.parametrize(("posterior", "estimator"), NOISY_CELLS)
def test_outputs_have_the_moments_of_the_posterior(
    op, posterior, estimator, bias_posterior
):
    check_outputs(op, posterior, estimator, bias_posterior)


def check_outputs(op, posterior, estimator, bias_posterior):
    layer, x = make_layer(op, posterior, estimator, bias_posterior), make_inputs(op)
    # Examples of one call share their noise unless it is drawn per output.
    if estimator == "local":
        samples = draw_by_tiling(layer, x, count=5 * DRAWS)
    else:
        samples = draw(layer, x, count=5_000, jit_compile=False)
    assert_moments(samples, *output_moments(op, layer, x))


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("op", "bias_posterior"),
    [
        ("dense", "mean_field"),
        ("dense", "k_tied"),
        ("dense", "gaussian_dropout"),
        ("dense-3d", "mean_field"),
        ("conv2d", None),
    ],
)
@pytest.mark.parametrize("estimator", ["local", "flipout", "weights"])
@pytest.mark.parametrize("posterior", ["variance-gaussian", "mean_field"])
def test_outputs_with_and_without_a_random_bias(
    op, posterior, estimator, bias_posterior
):
    check_outputs(op, posterior, estimator, bias_posterior)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("estimator", ["local", "flipout", "weights"])
@pytest.mark.parametrize("posterior", FAMILIES)
@pytest.mark.parametrize("op", EVERY_OP)
def test_every_linear_op_has_the_moments_of_the_posterior(op, posterior, estimator):
    layer = make_any(op, posterior, estimator)
    rng = np.random.default_rng(7)
    x = rng.normal(size=(2, *EVERY_OP[op][1])).astype("float32")
    if estimator == "local":
        samples = draw_by_tiling(layer, x)
    else:
        samples = draw(layer, x, count=4_000, jit_compile=False)
    assert_moments(samples, *twin_moments(layer, x))


@pytest.mark.parametrize("posterior", POSTERIORS)
def test_posterior_distribution_has_the_moments_of_the_variables(posterior):
    layer = make_layer("dense", posterior, estimator=None)
    mean, variance = weight_moments(layer.posterior)
    distribution = layer.posterior_distribution()
    np.testing.assert_allclose(distribution.mean(), mean, rtol=1e-5)
    np.testing.assert_allclose(distribution.variance(), variance, rtol=1e-5)


@pytest.mark.one_in(5)
# Above, `local` runs eagerly and the others in a graph; here they are compiled.
@pytest.mark.parametrize(("posterior", "estimator"), NOISY_CELLS)
def test_moments_are_right_in_compiled_graphs(posterior, estimator):
    layer, x = make_layer("dense", posterior, estimator), make_inputs("dense")
    samples = draw(layer, x, count=2_000)
    assert_moments(samples, *output_moments("dense", layer, x))


@pytest.mark.parametrize("posterior", POSTERIORS)
def test_local_survives_half_precision(posterior):
    # The squares of these inputs and of these scales are not in the range of float16.
    layer = make_layer("dense", posterior, "local", dtype="mixed_float16")
    layer.bias.assign(np.zeros(3))
    multiplicative = "gaussian_dropout" in posterior and "additive" not in posterior
    # A scale of 1e-4, whatever it is made from.
    free = {"variance": 1e-4, "mean_field": np.log(1e-4), "k_tied": np.log(1e-2)}
    free = free.get(posterior.split("-")[0], 0.0 if multiplicative else np.log(1e-8))
    for variable in layer.posterior.variable_groups["scale"]:
        variable.assign(np.full(variable.shape, free))
    for variable in layer.posterior.variable_groups.get("mean", []):
        variable.assign(np.full(variable.shape, 1e-4 if multiplicative else 0.0))
    x = np.full((2, 5), 300.0, "float32")
    samples = draw_by_tiling(layer, x)
    assert samples.dtype == np.float16
    assert_moments(samples, *output_moments("dense", layer, x), rounding=1e-3)


@pytest.mark.one_in(10)
@pytest.mark.parametrize(
    ("dtype", "rounding"), [("mixed_float16", 5e-4), ("mixed_bfloat16", 4e-3)]
)
@pytest.mark.parametrize("estimator", ["local", "weights"])
def test_moments_are_right_in_half_precision(estimator, dtype, rounding):
    layer = make_layer("dense", "mean_field", estimator, dtype=dtype)
    x = make_inputs("dense")
    samples = draw(layer, x)
    assert samples.dtype == layer.compute_dtype
    assert_moments(samples, *output_moments("dense", layer, x), rounding=rounding)


class Flipout:
    """Flipout with signs from a given function, right or wrong."""

    def __init__(self, draw_signs):
        self.draw_signs = draw_signs

    def __call__(self, terms, seed_generator):
        (term,) = terms
        mean = term.posterior.mean()
        kernel = term.posterior.sample(seed_generator.next()) - mean
        shape, seed = tf.shape(term.inputs), seed_generator.next()
        signs = tfvn.random.rademacher(shape, seed)
        flipped = term.linear_op(term.inputs * signs, kernel)
        shape, seed = tf.shape(flipped), seed_generator.next()
        outputs = flipped * self.draw_signs(shape, seed)
        return Estimate(term.linear_op(term.inputs, mean) + outputs, (None,))


class TestThatTheseTestsCanFail:
    @pytest.fixture
    def layer(self):
        return make_layer("dense", "mean_field", "weights")

    def check(self, layer):
        x = make_inputs("dense")
        assert_moments(draw(layer, x), *output_moments("dense", layer, x))

    def test_random_signs_pass(self, layer):
        layer.estimator = Flipout(tfvn.random.rademacher)
        self.check(layer)

    def test_edward2s_signs_fail(self, layer):
        layer.estimator = Flipout(
            lambda shape, seed: 1.0 + 2.0 * tfvn.random.uniform(shape, seed)
        )
        with pytest.raises(AssertionError, match="The variance of element"):
            self.check(layer)

    def test_a_scale_that_is_off_by_three_percent_fails(self, layer):
        free = layer.posterior.log_variance_variable
        x = make_inputs("dense")
        expected = output_moments("dense", layer, x)
        free.assign(free.numpy() + 2 * np.log(1.03))
        with pytest.raises(AssertionError, match="The variance of element"):
            assert_moments(draw(layer, x), *expected)

    def test_a_biased_mean_fails(self, layer):
        x = make_inputs("dense")
        mean, variance = output_moments("dense", layer, x)
        with pytest.raises(AssertionError, match="The mean of element"):
            assert_moments(draw(layer, x), mean + 0.05 * np.sqrt(variance), variance)

    def test_shared_noise_is_not_uncorrelated(self, layer):
        samples = draw(layer, keras.ops.ones((2, 5)))
        with pytest.raises(AssertionError, match="The correlation of element"):
            assert_uncorrelated(samples[:, 0], samples[:, 1])
