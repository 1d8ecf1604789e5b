"""Layers, draws of their outputs, and the moments that follow from the posteriors."""

import harness
import numpy as np
import pytest
import tensorflow as tf

import tfvn
from tfvn import support

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
