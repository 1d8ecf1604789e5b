"""Outputs of layers against the moments that follow from their posteriors."""

import harness
import keras
import numpy as np
import pytest
import tensorflow as tf
from ztests import assert_mean, assert_moments, assert_uncorrelated

import tfvn
from tfvn import support
from tfvn.estimators import Estimate

DRAWS = 20_000

POSTERIORS = {
    "variance-gaussian": tfvn.posteriors.Variance("gaussian"),
    "variance-bernoulli": tfvn.posteriors.Variance("bernoulli"),
    "variance-uniform": tfvn.posteriors.Variance("uniform"),
    "mean_field": tfvn.posteriors.MeanField(),
    "gaussian_dropout-layer": tfvn.posteriors.GaussianDropout("layer"),
    "gaussian_dropout-neuron": tfvn.posteriors.GaussianDropout("neuron"),
    "gaussian_dropout-weight": tfvn.posteriors.GaussianDropout("weight"),
    "gaussian_dropout-additive": tfvn.posteriors.GaussianDropout(
        parameterization="additive"
    ),
    "k_tied-1": tfvn.posteriors.KTied(rank=1),
    "k_tied-2": tfvn.posteriors.KTied(rank=2),
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
    mean = posterior.mean_variable.numpy().astype("float64")
    free = [v.numpy().astype("float64") for v in posterior.variable_groups["scale"]]
    if isinstance(posterior, tfvn.posteriors.KTied):
        left, right = (np.exp(factor) for factor in free)
        return mean, as_kernel(left @ right.T, posterior.spec) ** 2
    (free,) = free
    if isinstance(posterior, tfvn.posteriors.MeanField):
        return mean, np.exp(free)
    if posterior.parameterization == "additive":
        return mean, np.exp(free)
    if posterior.alpha == "neuron":
        free = as_kernel(np.tile(free, (posterior.spec.rows, 1)), posterior.spec)
    return mean, np.exp(free) * mean**2


def as_kernel(matrix, spec):
    """Returns a matrix of rows and columns in the shape of a kernel."""
    kernel = np.zeros(spec.shape)
    rows = [a for a in range(kernel.ndim) if a not in spec.output_axes]
    order = [*rows, *spec.output_axes]
    moved = np.moveaxis(kernel, order, range(kernel.ndim))
    moved[...] = matrix.reshape(moved.shape)
    return kernel


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


# Every linear op: what makes the layer, and the shape of its inputs.
EVERY_OP = {
    "Dense": ({"units": 3}, (2, 4)),
    "EinsumDense": (
        {"equation": "btd,ndh->bhtn", "output_shape": (2, 3, 2), "bias_axes": "hn"},
        (3, 4),
    ),
    "EinsumDense-ellipsis": (
        {"equation": "...td,hdt->...h", "output_shape": (3,), "bias_axes": "h"},
        (2, 3, 2),
    ),
    "EinsumDense-shared-axis": (
        {"equation": "btd,tdh->bht", "output_shape": (2, 3), "bias_axes": "ht"},
        (3, 4),
    ),
    "Conv1D": (
        {"filters": 4, "kernel_size": 3, "padding": "causal", "groups": 2},
        (4, 2),
    ),
    "Conv2D": (
        {"filters": 3, "kernel_size": (2, 3), "dilation_rate": (1, 2)},
        (3, 6, 2),
    ),
    "Conv3D": (
        {"filters": 2, "kernel_size": 2, "strides": (1, 2, 1), "padding": "same"},
        (2, 3, 2, 2),
    ),
    "Conv2DTranspose": (
        {"filters": 2, "kernel_size": 3, "strides": 2, "padding": "same"},
        (2, 2, 3),
    ),
    "DepthwiseConv2D": (
        {"kernel_size": 2, "depth_multiplier": 2, "strides": 2, "padding": "same"},
        (3, 4, 2),
    ),
}
FAMILIES = ["variance-gaussian", "gaussian_dropout-neuron", "mean_field", "k_tied-2"]


def make_any(op, posterior, estimator):
    """Returns a layer of any linear op, its variables far from where they start."""
    arguments, shape = EVERY_OP[op]
    layer = getattr(tfvn.layers, op.split("-")[0])(
        **arguments,
        posterior=POSTERIORS[posterior],
        estimator=estimator,
        prior=None,
        seed=11,
    )
    layer.build((None, *shape))
    rng = np.random.default_rng(5)
    for variable in layer.trainable_variables:
        variable.assign(rng.uniform(-1.5, 1.5, variable.shape))
    return layer


def twin_moments(layer, x):
    """Returns means and variances of the outputs, computed by the Keras twin."""
    mean, variance = weight_moments(layer.posterior)
    x = x.astype("float64")
    bias = layer.bias.numpy()
    twins = (
        harness.make_twin(layer, x.shape, kernel, bias, dtype="float64")
        for kernel, bias in ((mean, bias), (variance, np.zeros_like(bias)))
    )
    return [twin(part).numpy() for twin, part in zip(twins, (x, x**2), strict=True)]


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


class TestFlipout:
    @pytest.mark.parametrize("op", EVERY_OP)
    def test_is_uncorrelated_between_examples(self, op):
        layer = make_any(op, "mean_field", "flipout")
        x = np.random.default_rng(7).normal(size=(1, *EVERY_OP[op][1]))
        x = x.astype("float32").repeat(2, axis=0)
        assert_mean(self.products(layer, x, count=4_000), 0.0)
        # Not so where they share their weights.
        layer.estimator = tfvn.estimators.get("weights")
        with pytest.raises(AssertionError, match="The mean of element"):
            assert_mean(self.products(layer, x, count=400), 0.0)

    def products(self, layer, x, count):
        """Returns the noise of two examples, multiplied.

        The examples are not independent, so the error of a correlation is not that
        of independent ones: it is taken from the products.
        """
        samples = draw(layer, x, count=count, jit_compile=False)
        mean, _ = twin_moments(layer, x)
        return np.prod(samples - mean, axis=1)

    @pytest.mark.parametrize("posterior", POSTERIORS)
    def test_examples_share_one_perturbation_up_to_signs(self, posterior):
        layer = make_layer("dense", posterior, "flipout")
        layer.bias.assign(np.zeros(3))
        # Each example sees one row of the kernel.
        x = np.eye(5, dtype="float32").repeat(50, axis=0)
        mean, _ = weight_moments(layer.posterior)
        noise = (layer(x).numpy() - x @ mean).reshape(5, 50, 3)
        np.testing.assert_allclose(
            np.abs(noise), np.abs(noise[:, :1]).repeat(50, axis=1), rtol=1e-3, atol=1e-5
        )
        signs = np.sign(noise)
        assert np.all(np.abs(signs.mean(axis=1)) < 0.75)

    @pytest.mark.parametrize(
        ("make", "shape"),
        [
            (lambda **k: tfvn.layers.Dense(3, **k), (6, 4)),
            (lambda **k: tfvn.layers.EinsumDense("...d,dh->...h", 3, **k), (2, 3, 4)),
            (lambda **k: tfvn.layers.Conv1D(3, 2, **k), (7, 4)),
            (lambda **k: tfvn.layers.Conv2D(4, 2, groups=2, **k), (4, 5, 4)),
            (lambda **k: tfvn.layers.Conv3D(3, 2, **k), (3, 4, 3, 2)),
            # As wide as its strides: each pixel gives one pixel, of any phase.
            (lambda **k: tfvn.layers.Conv2DTranspose(3, 1, **k), (3, 4, 4)),
            (lambda **k: tfvn.layers.DepthwiseConv2D(2, **k), (4, 5, 3)),
        ],
    )
    def test_one_example_has_one_kernel_at_all_positions(self, make, shape):
        options = {"posterior": "mean_field", "prior": None}
        # The same at all positions, so that only the kernel can differ.
        x = np.random.default_rng(1).normal(size=(5, shape[-1])).astype("float32")
        x = np.broadcast_to(x.reshape(5, *[1] * (len(shape) - 1), -1), (5, *shape))
        outputs = make(estimator="flipout", **options)(x).numpy()
        outputs = outputs.reshape(5, -1, outputs.shape[-1])
        np.testing.assert_allclose(
            outputs, outputs[:, :1].repeat(outputs.shape[1], axis=1), atol=1e-5
        )
        independent = make(estimator="local", **options)(x).numpy()
        independent = independent.reshape(outputs.shape)
        assert np.abs(independent - independent[:, :1]).max() > 1e-3

    def test_a_term_sees_its_own_signs_on_every_call(self):
        layer = make_layer("dense", "mean_field", "flipout")
        x = make_inputs("dense")
        assert np.all(layer(x) != layer(x))


@pytest.mark.parametrize("posterior", POSTERIORS)
def test_posterior_distribution_has_the_moments_of_the_variables(posterior):
    layer = make_layer("dense", posterior, estimator=None)
    mean, variance = weight_moments(layer.posterior)
    distribution = layer.posterior_distribution()
    np.testing.assert_allclose(distribution.mean(), mean, rtol=1e-5)
    np.testing.assert_allclose(distribution.variance(), variance, rtol=1e-5)


# Above, `local` runs eagerly and the others in a graph; here they are compiled.
@pytest.mark.parametrize(("posterior", "estimator"), NOISY_CELLS)
def test_moments_are_right_in_compiled_graphs(posterior, estimator):
    layer, x = make_layer("dense", posterior, estimator), make_inputs("dense")
    samples = draw(layer, x, count=2_000)
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
