"""Outputs of layers against the moments that follow from their posteriors."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from ztests import assert_moments, assert_uncorrelated

import tfvn
from tfvn import support
from tfvn.estimators import Estimate

DRAWS = 20_000

POSTERIORS = {
    "variance-gaussian": tfvn.posteriors.Variance("gaussian"),
    "variance-bernoulli": tfvn.posteriors.Variance("bernoulli"),
    "variance-uniform": tfvn.posteriors.Variance("uniform"),
    "mean_field": tfvn.posteriors.MeanField(),
}
UNIT_VARIANCE = {"gaussian": 1.0, "bernoulli": 1.0, "uniform": 1.0 / 3.0}

# Per linear op: what makes the layer, the shape of its inputs, and the op in NumPy.
CONVOLUTION = {"strides": (2, 1), "padding": "same", "groups": 2}
LINEAR_OPS = {
    "dense": (
        lambda **kwargs: tfvn.layers.Dense(3, **kwargs),
        (5,),
        np.matmul,
    ),
    "dense-3d": (
        lambda **kwargs: tfvn.layers.Dense(2, **kwargs),
        (2, 3),
        np.matmul,
    ),
    "conv2d": (
        lambda **kwargs: tfvn.layers.Conv2D(4, (3, 2), **CONVOLUTION, **kwargs),
        (4, 3, 4),
        lambda x, kernel: convolve(x, kernel, **CONVOLUTION),
    ),
}

CELLS = [
    pytest.param(name, estimator, id=f"{name}-{estimator}")
    for name, posterior in POSTERIORS.items()
    for estimator in support.ESTIMATORS
    if support.lookup(support.ESTIMATORS, estimator, posterior.law).supported
]
NOISY_CELLS = [cell for cell in CELLS if cell.values[1] != "mean"]


def convolve(x, kernel, strides, padding, groups):
    """A 2D convolution, one output element at a time."""
    assert padding == "same"
    height, width, in_group, filters = kernel.shape
    out_shape = [-(-x.shape[1 + axis] // strides[axis]) for axis in (0, 1)]
    pads = [
        max((out_shape[axis] - 1) * strides[axis] + size - x.shape[1 + axis], 0)
        for axis, size in enumerate((height, width))
    ]
    x = np.pad(x, [(0, 0), *((pad // 2, pad - pad // 2) for pad in pads), (0, 0)])
    out = np.zeros((len(x), *out_shape, filters))
    for row, column, channel in np.ndindex(*out_shape, filters):
        top, left = row * strides[0], column * strides[1]
        first = channel // (filters // groups) * in_group
        window = x[:, top : top + height, left : left + width, first : first + in_group]
        out[:, row, column, channel] = np.sum(window * kernel[..., channel], (1, 2, 3))
    return out


def make_layer(op, posterior, estimator, bias_posterior=None, **kwargs):
    """Returns a built layer, its variables far from where they start."""
    make, shape, _ = LINEAR_OPS[op]
    layer = make(
        posterior=POSTERIORS[posterior],
        estimator=estimator,
        bias_posterior=bias_posterior,
        prior=None,
        seed=11,
        **kwargs,
    )
    layer.build((None, *shape))
    rng = np.random.default_rng(5)
    for variable in layer.trainable_variables:
        variable.assign(rng.uniform(-1.5, 1.5, variable.shape))
    return layer


def make_inputs(op, count=2):
    _, shape, _ = LINEAR_OPS[op]
    return np.random.default_rng(7).normal(size=(count, *shape)).astype("float32")


def weight_moments(posterior):
    """Returns means and variances of the weights, from the variables alone."""
    if isinstance(posterior, tfvn.posteriors.Variance):
        scale = posterior.scale.numpy().astype("float64")
        return np.zeros_like(scale), UNIT_VARIANCE[posterior.noise] * scale**2
    mean, free = posterior.mean_variable.numpy(), posterior.scale_variable.numpy()
    return mean.astype("float64"), np.log1p(np.exp(free.astype("float64"))) ** 2


def output_moments(op, layer, x):
    """Returns means and variances of the outputs, computed in NumPy."""
    linear_op = LINEAR_OPS[op][2]
    mean, variance = weight_moments(layer.posterior)
    x = x.astype("float64")
    output_mean, output_variance = linear_op(x, mean), linear_op(x**2, variance)
    if layer.bias_posterior is None:
        return output_mean + layer.bias.numpy(), output_variance
    bias_mean, bias_variance = weight_moments(layer.bias_posterior)
    return output_mean + bias_mean, output_variance + bias_variance


def draw(layer, x, count=DRAWS, jit_compile=True):
    """Returns many outputs of a layer, one call for each."""

    @tf.function(jit_compile=jit_compile)
    def call_often():
        return tf.map_fn(
            lambda _: layer(x), tf.range(count), fn_output_signature=layer.compute_dtype
        )

    return call_often().numpy()


def draw_by_tiling(layer, x, count=DRAWS):
    """Returns many outputs of a layer from one call on copies of the inputs."""
    outputs = layer(np.tile(x, (count, *[1] * (x.ndim - 1)))).numpy()
    return outputs.reshape(count, *x.shape[:1], *outputs.shape[1:])


@pytest.mark.parametrize(
    ("op", "bias_posterior"),
    [
        ("dense", None),
        ("dense", "mean_field"),
        ("dense-3d", "mean_field"),
        ("conv2d", None),
        ("conv2d", "mean_field"),
    ],
)
@pytest.mark.parametrize(("posterior", "estimator"), NOISY_CELLS)
def test_outputs_have_the_moments_of_the_posterior(
    op, posterior, estimator, bias_posterior
):
    layer, x = make_layer(op, posterior, estimator, bias_posterior), make_inputs(op)
    # Examples of one call share their noise unless it is drawn per output.
    if estimator == "local":
        samples = draw_by_tiling(layer, x, count=5 * DRAWS)
    else:
        samples = draw(layer, x)
    assert_moments(samples, *output_moments(op, layer, x))


@pytest.mark.parametrize("posterior", POSTERIORS)
def test_posterior_distribution_has_the_moments_of_the_variables(posterior):
    layer = make_layer("dense", posterior, estimator=None)
    mean, variance = weight_moments(layer.posterior)
    distribution = layer.posterior_distribution()
    np.testing.assert_allclose(distribution.mean(), mean, rtol=1e-5)
    np.testing.assert_allclose(distribution.variance(), variance, rtol=1e-5)


# Above, `local` runs eagerly and `weights` compiled; here it is the other way round.
@pytest.mark.parametrize(("posterior", "estimator"), NOISY_CELLS)
def test_moments_are_right_in_graphs_compiled_or_not(posterior, estimator):
    layer, x = make_layer("dense", posterior, estimator), make_inputs("dense")
    samples = draw(layer, x, count=4_000, jit_compile=estimator == "local")
    assert_moments(samples, *output_moments("dense", layer, x))


@pytest.mark.parametrize("posterior", POSTERIORS)
@pytest.mark.parametrize("op", LINEAR_OPS)
def test_mean_estimator_has_no_noise(op, posterior):
    layer = make_layer(op, posterior, "mean", bias_posterior="mean_field")
    x = make_inputs(op)
    mean, _ = output_moments(op, layer, x)
    np.testing.assert_allclose(layer(x), mean, atol=1e-5)
    np.testing.assert_array_equal(layer(x), layer(x))


@pytest.mark.parametrize("posterior", POSTERIORS)
@pytest.mark.parametrize("op", LINEAR_OPS)
def test_local_noise_is_independent_between_examples(op, posterior):
    layer = make_layer(op, posterior, "local", bias_posterior="mean_field")
    x = make_inputs(op, count=1).repeat(2, axis=0)
    samples = draw_by_tiling(layer, x)
    assert_uncorrelated(samples[:, 0], samples[:, 1])
    # Also between the first and the second half of a batch.
    assert_uncorrelated(samples[: DRAWS // 2], samples[DRAWS // 2 :])


@pytest.mark.parametrize("posterior", POSTERIORS)
@pytest.mark.parametrize("op", LINEAR_OPS)
def test_sampled_weights_are_shared_between_examples(op, posterior):
    layer = make_layer(op, posterior, "weights", bias_posterior="mean_field")
    x = make_inputs(op, count=1).repeat(3, axis=0)
    first, again = layer(x).numpy(), layer(x).numpy()
    np.testing.assert_allclose(first, first[:1].repeat(3, axis=0), rtol=1e-6)
    assert np.all(first != again)


@pytest.mark.parametrize("posterior", POSTERIORS)
def test_sampled_weights_make_a_linear_function(posterior):
    layer = make_layer("dense", posterior, "weights", bias_posterior="mean_field")
    a, b = make_inputs("dense")
    outputs = layer(np.stack([a, b, a + b, np.zeros_like(a)])).numpy()
    np.testing.assert_allclose(
        outputs[0] + outputs[1], outputs[2] + outputs[3], atol=1e-5
    )


@pytest.mark.parametrize("posterior", POSTERIORS)
def test_consecutive_draws_are_independent(posterior):
    layer, x = make_layer("dense", posterior, "weights"), make_inputs("dense")
    samples = draw(layer, x)
    assert_uncorrelated(samples[:-1], samples[1:])


@pytest.mark.parametrize("posterior", POSTERIORS)
def test_local_survives_half_precision(posterior):
    # The squares of these inputs and of these scales are not in the range of float16.
    layer = make_layer("dense", posterior, "local", dtype="mixed_float16")
    layer.bias.assign(np.zeros(3))
    if posterior == "mean_field":
        layer.posterior.mean_variable.assign(np.zeros((5, 3)))
        layer.posterior.scale_variable.assign(np.full((5, 3), np.log(np.expm1(1e-4))))
    else:
        layer.posterior.scale.assign(np.full((5, 3), 1e-4))
    x = np.full((2, 5), 300.0, "float32")
    samples = draw_by_tiling(layer, x)
    assert samples.dtype == np.float16
    assert_moments(samples, *output_moments("dense", layer, x), rounding=1e-3)


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
        free = layer.posterior.scale_variable
        x = make_inputs("dense")
        expected = output_moments("dense", layer, x)
        scale = 1.03 * np.log1p(np.exp(free.numpy()))
        free.assign(np.log(np.expm1(scale)))
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
