"""Gradients of outputs and of divergences, against differences and at the edges."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_probability import distributions as tfd

import tfvn
from tfvn import kl, support
from tfvn.estimators.local import safe_sqrt

POSTERIORS = {
    "variance-gaussian": tfvn.posteriors.Variance("gaussian"),
    "variance-bernoulli": tfvn.posteriors.Variance("bernoulli"),
    "variance-uniform": tfvn.posteriors.Variance("uniform"),
    "mean_field": tfvn.posteriors.MeanField(scale_initializer=0.3),
    **{
        f"gaussian_dropout-{alpha}": tfvn.posteriors.GaussianDropout(
            alpha, initial_log_alpha=-1.0
        )
        for alpha in ("layer", "neuron", "weight")
    },
    "gaussian_dropout-additive": tfvn.posteriors.GaussianDropout(
        parameterization="additive", initial_log_alpha=-1.0
    ),
    "k_tied-1": tfvn.posteriors.KTied(rank=1),
    "k_tied-2": tfvn.posteriors.KTied(rank=2),
}
LINEAR_OPS = {
    "dense": (lambda **kwargs: tfvn.layers.Dense(2, **kwargs), (3,)),
    "conv2d": (
        lambda **kwargs: tfvn.layers.Conv2D(
            2, 2, strides=2, padding="same", groups=2, **kwargs
        ),
        (3, 2, 2),
    ),
}
CELLS = [
    pytest.param(name, estimator, id=f"{name}-{estimator}")
    for name, posterior in POSTERIORS.items()
    for estimator in support.ESTIMATORS
    if support.lookup(support.ESTIMATORS, estimator, posterior.law).supported
]


def make_layer(op, posterior, estimator=None, prior=None, dtype="float64", **kwargs):
    make, shape = LINEAR_OPS[op]
    layer = make(
        posterior=POSTERIORS[posterior],
        estimator=estimator,
        prior=prior,
        dtype=dtype,
        kl_weight=1.0,
        **kwargs,
    )
    layer.build((None, *shape))
    return layer


def same_noise(layer):
    """Makes the next call draw what the first one drew."""
    layer.seed_generator.state.assign([17, 0])


def differences(function, variable, step=1e-6):
    """Returns the gradient of a scalar by central differences."""
    start = np.array(variable.numpy())
    gradient = np.zeros_like(start)
    for index in np.ndindex(start.shape):
        values = []
        for sign in (1, -1):
            moved = np.array(start)
            moved[index] += sign * step
            variable.assign(moved)
            values.append(float(function()))
        gradient[index] = (values[0] - values[1]) / (2 * step)
    variable.assign(start)
    return gradient


def gradients(function, variables):
    """Returns the value of a scalar, and its gradient by each variable."""
    sources = [v if isinstance(v, tf.Variable) else v.value for v in variables]
    with tf.GradientTape() as tape:
        value = function()
    # A mean pass through a variance layer knows nothing of its scales.
    zero = tf.UnconnectedGradients.ZERO
    return value, tape.gradient(value, sources, unconnected_gradients=zero)


def in_full(value):
    """Returns a parameter that only `make test-all` takes."""
    return pytest.param(value, marks=pytest.mark.exhaustive)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("bias_posterior", [None, in_full("mean_field")])
@pytest.mark.parametrize(("posterior", "estimator"), CELLS)
@pytest.mark.parametrize("op", LINEAR_OPS)
def test_outputs_against_differences(op, posterior, estimator, bias_posterior):
    layer = make_layer(op, posterior, estimator, bias_posterior=bias_posterior)
    rng = np.random.default_rng(1)
    x = tf.Variable(rng.normal(size=(2, *LINEAR_OPS[op][1])))
    factors = rng.normal(size=layer.compute_output_shape(x.shape))

    @tf.function
    def function():
        same_noise(layer)
        return tf.reduce_sum(factors * tf.tanh(layer(x)))

    variables = [x, *layer.trainable_variables]
    _, computed = gradients(function, variables)
    assert any(np.any(gradient != 0) for gradient in computed)
    for variable, gradient in zip(variables, computed, strict=True):
        expected = differences(function, variable)
        np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-7)


DOUBLE = np.float64
PRIORS = {
    "normal": tfd.Normal(DOUBLE(0.1), DOUBLE(0.6)),
    "log_uniform": tfvn.distributions.LogUniform(dtype=tf.float64),
    "molchanov": tfvn.distributions.LogUniform("molchanov", dtype=tf.float64),
    "ard": tfvn.distributions.ARD(dtype=tf.float64),
    "laplace": tfd.Laplace(DOUBLE(0.1), DOUBLE(0.6)),
    "student_t": tfd.StudentT(DOUBLE(3.0), DOUBLE(0.1), DOUBLE(0.4)),
}
ESTIMATED = {
    ("gaussian", "student_t"),
    ("uniform", "student_t"),
    ("uniform", "laplace"),
}
PAIRS = [
    pytest.param(name, prior, id=f"{name}-{prior}")
    for name, posterior in POSTERIORS.items()
    for prior in PRIORS
    if posterior.law != "bernoulli"
    if (posterior.law, prior) != ("uniform", "ard")
]


@pytest.mark.one_in(5)
@pytest.mark.parametrize(("posterior", "prior"), PAIRS)
def test_divergence_against_differences(posterior, prior):
    layer = make_layer("dense", posterior, prior=PRIORS[prior])
    rng = np.random.default_rng(1)
    for variable in layer.posterior.variable_groups["scale"]:
        variable.assign(rng.uniform(-1.5, 1.5, variable.shape))

    def in_double_precision():
        q, p = layer.posterior.distribution(), PRIORS[prior]
        if (layer.posterior.law, prior) not in ESTIMATED:
            return tf.reduce_sum(tfd.kl_divergence(q, p))
        same_noise(layer)
        weights = layer.posterior.sample(layer.seed_generator.next())
        return tf.reduce_sum(kl.monte_carlo(q, p, weights))

    same_noise(layer)
    groups = layer.posterior.variable_groups.values()
    variables = [variable for group in groups for variable in group]
    divergence, computed = gradients(layer.kl_divergence, variables)
    assert float(divergence) == pytest.approx(float(in_double_precision()), rel=1e-6)
    for variable, gradient in zip(variables, computed, strict=True):
        expected = differences(in_double_precision, variable)
        np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-6)


def assert_finite(layer, x):
    """Asserts that outputs, the loss and all gradients are finite."""
    x = tf.Variable(tf.cast(x, layer.compute_dtype))

    def function():
        outputs = layer(x)
        assert np.all(np.isfinite(outputs)), outputs
        return tf.reduce_sum(tf.cast(outputs, tf.float32)) + sum(layer.losses)

    loss, computed = gradients(function, [x, *layer.trainable_variables])
    assert np.isfinite(loss)
    for gradient in computed:
        assert np.all(np.isfinite(gradient)), gradient


class TestEdges:
    @pytest.mark.one_in(5)
    @pytest.mark.parametrize("dtype", ["float32", in_full("mixed_float16")])
    @pytest.mark.parametrize(("posterior", "estimator"), CELLS)
    @pytest.mark.parametrize("op", LINEAR_OPS)
    def test_zero_inputs(self, op, posterior, estimator, dtype):
        # TFP's DenseLocalReparameterization gives NaN gradients here.
        layer = make_layer(op, posterior, estimator, dtype=dtype)
        x = np.random.default_rng(1).normal(size=(2, *LINEAR_OPS[op][1]))
        x[0] = 0.0
        assert_finite(layer, x)

    @pytest.mark.one_in(5)
    @pytest.mark.parametrize("dtype", [in_full("float32"), "mixed_float16"])
    @pytest.mark.parametrize("prior", ["auto", tfd.Laplace(0.0, 1.0)], ids=str)
    @pytest.mark.parametrize(("posterior", "estimator"), CELLS)
    def test_no_scale(self, posterior, estimator, prior, dtype):
        prior = None if posterior == "variance-bernoulli" else prior
        layer = make_layer("dense", posterior, estimator, prior, dtype)
        for scale in (0.0, 1e-30, 1e-12, -1e-12):
            # What an exponential takes to such a scale, or to zero by rounding.
            free = np.log(scale) if scale > 0 else -200.0
            for variable in layer.posterior.variable_groups["scale"]:
                value = scale if "variance" in posterior else free
                variable.assign(np.full(variable.shape, value))
            assert_finite(layer, np.ones((2, 3)))

    @pytest.mark.parametrize("posterior", ["variance-gaussian", "variance-uniform"])
    @pytest.mark.parametrize("estimator", ["local", "weights"])
    def test_no_scale_gives_no_noise(self, posterior, estimator):
        layer = make_layer("dense", posterior, estimator, dtype="float32")
        layer.posterior.scale.assign(np.zeros((3, 2)))
        np.testing.assert_array_equal(layer(np.ones((2, 3), "float32")), 0.0)

    @pytest.mark.one_in(4)
    @pytest.mark.parametrize(
        ("dtype", "sizes"),
        [
            ("float32", (1e30, 1e-30, 1e-42)),
            ("mixed_float16", (3e4, 1e-7)),
            ("mixed_bfloat16", (1e30, 1e-30)),
        ],
    )
    @pytest.mark.parametrize(("posterior", "estimator"), CELLS)
    def test_inputs_of_extreme_size(self, posterior, estimator, dtype, sizes):
        layer = make_layer("dense", posterior, estimator, dtype=dtype)
        for variable in layer.posterior.variable_groups.get("mean", []):
            variable.assign(np.full((3, 2), 0.01))
        for variable in layer.posterior.variable_groups["scale"]:
            value = 0.01 if "variance" in posterior else -4.6
            variable.assign(np.full(variable.shape, value))
        for size in sizes:
            assert_finite(layer, size * np.array([[1.0, -1.0, 1.0], [0.0, 1.0, 0.0]]))


class TestSafeSqrt:
    X = np.float32([0.0, 1e-12, 0.3, 4.0])

    def test_value(self):
        np.testing.assert_allclose(safe_sqrt(self.X), np.sqrt(self.X), rtol=1e-6)
        assert float(safe_sqrt(-1e-9)) == 0.0

    @pytest.mark.parametrize("jit_compile", [False, True])
    def test_derivatives(self, jit_compile):
        @tf.function(jit_compile=jit_compile)
        def derivatives(x):
            with tf.GradientTape() as outer:
                outer.watch(x)
                with tf.GradientTape() as inner:
                    inner.watch(x)
                    root = safe_sqrt(x)
                first = inner.gradient(root, x)
            return first, outer.gradient(first, x)

        first, second = derivatives(tf.constant(self.X))
        positive = self.X[1:].astype("float64")
        np.testing.assert_allclose(first[1:], 0.5 * positive**-0.5, rtol=1e-5)
        np.testing.assert_allclose(second[1:], -0.25 * positive**-1.5, rtol=1e-5)
        assert first[0] == 0.0
        assert second[0] == 0.0
