"""The k-tied posterior: divergence, thin products, start, gradients and counts."""

import harness
import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy import stats
from tensorflow_probability import distributions as tfd
from ztests import assert_follows

import tfvn
from tfvn.distributions import KTiedNormal

# Layers of every linear op, and the shape of their inputs.
LAYERS = {
    "dense": (lambda **k: tfvn.KTiedDense(7, **k), (5, 9)),
    "dense-3d": (lambda **k: tfvn.KTiedDense(7, **k), (3, 4, 9)),
    "einsum-heads": (
        lambda **k: tfvn.KTiedEinsumDense("btd,dnh->btnh", (5, 2, 3), **k),
        (4, 5, 6),
    ),
    "einsum-mixed-axes": (
        lambda **k: tfvn.KTiedEinsumDense("btd,ndht->bhn", (3, 4), **k),
        (4, 5, 6),
    ),
    "einsum-ellipsis": (
        lambda **k: tfvn.KTiedEinsumDense("...x,xy->...y", 5, **k),
        (2, 3, 4, 6),
    ),
    "einsum-shared-axis": (
        lambda **k: tfvn.KTiedEinsumDense("btd,tdh->bht", (3, 5), **k),
        (4, 5, 6),
    ),
    "conv1d-causal": (
        lambda **k: tfvn.KTiedConv1D(
            4, 3, padding="causal", dilation_rate=2, groups=2, **k
        ),
        (2, 9, 6),
    ),
    "conv2d": (lambda **k: tfvn.KTiedConv2D(5, (3, 2), **k), (2, 6, 5, 4)),
    "conv2d-groups": (
        lambda **k: tfvn.KTiedConv2D(6, (3, 2), groups=3, **k),
        (2, 6, 5, 6),
    ),
    "conv2d-strides": (
        lambda **k: tfvn.KTiedConv2D(5, 3, strides=(2, 1), padding="same", **k),
        (2, 6, 5, 4),
    ),
    "conv2d-dilation": (
        lambda **k: tfvn.KTiedConv2D(6, 2, dilation_rate=(1, 2), groups=2, **k),
        (2, 6, 5, 4),
    ),
    "conv3d": (
        lambda **k: tfvn.KTiedConv3D(4, 2, strides=(1, 2, 1), groups=2, **k),
        (2, 4, 5, 3, 4),
    ),
    "transposed": (
        lambda **k: tfvn.KTiedConv2DTranspose(
            4, 3, strides=2, padding="same", output_padding=1, **k
        ),
        (2, 3, 4, 5),
    ),
    "depthwise": (
        lambda **k: tfvn.KTiedDepthwiseConv2D(
            3, depth_multiplier=2, strides=2, padding="same", **k
        ),
        (2, 6, 5, 4),
    ),
    "depthwise-dilation": (
        lambda **k: tfvn.KTiedDepthwiseConv2D((2, 3), dilation_rate=2, **k),
        (2, 6, 7, 4),
    ),
}


def make_layer(name, rank=2, **kwargs):
    """Returns a layer with factors of different sizes, and its inputs."""
    make, shape = LAYERS[name]
    layer = make(rank=rank, **{"prior": None, **kwargs})
    layer.build((None, *shape[1:]))
    rng = np.random.default_rng(3)
    for variable in layer.posterior.log_factors:
        variable.assign(rng.uniform(-1.5, 1.5, variable.shape))
    return layer, rng.normal(size=shape).astype("float32")


def full_scale(layer):
    """Returns the product of the factors in the shape of the kernel, by NumPy."""
    left, right = (np.exp(v.numpy()) for v in layer.posterior.log_factors)
    spec = layer.posterior.spec
    kernel = np.zeros(spec.shape, "float32")
    rows = [axis for axis in range(kernel.ndim) if axis not in spec.output_axes]
    view = np.moveaxis(kernel, [*rows, *spec.output_axes], range(kernel.ndim))
    view[...] = (left @ right.T).reshape(view.shape)
    return kernel


class TestThinProducts:
    @pytest.mark.one_in(3)
    @pytest.mark.parametrize("rank", [1, 2, 3])
    @pytest.mark.parametrize("name", LAYERS)
    def test_give_the_variance_of_the_full_product(self, name, rank):
        layer, x = make_layer(name, rank)
        scale = full_scale(layer)
        np.testing.assert_allclose(layer.posterior.scale(), scale, rtol=1e-6)
        op = tfvn.kernel.LinearOp(layer.linear_op, layer.factored_op)
        pushed = layer.posterior.push_variance(op, tf.constant(x**2)).numpy()
        bias = {"bias": np.zeros(layer.bias.shape)} if layer.has_bias else {}
        twin = harness.make_twin(
            layer, x.shape, kernel=scale.astype("float64") ** 2, dtype="float64", **bias
        )
        expected = twin(x.astype("float64") ** 2).numpy()
        assert pushed.shape == expected.shape
        np.testing.assert_allclose(pushed, expected, rtol=1e-5, atol=1e-6)

    @pytest.mark.parametrize("name", LAYERS)
    def test_are_what_the_local_estimator_uses(self, name):
        layer, x = make_layer(name)
        outputs = layer(x)
        factored = []
        layer.factored_op = lambda *a: (
            factored.append(a) or type(layer).factored_op(layer, *a)
        )
        assert layer(x).shape == outputs.shape
        assert len(factored) == 1

    @staticmethod
    def sizes(function, *arguments):
        """Returns how many elements each tensor of a traced function has."""
        graph = tf.function(function).get_concrete_function(*arguments).graph
        return [
            (operation.type, output.shape.num_elements())
            for operation in graph.get_operations()
            for output in operation.outputs
        ]

    # One thin kernel per channel is as large as a depthwise kernel without multiplier.
    @pytest.mark.parametrize("name", [n for n in LAYERS if n != "depthwise-dilation"])
    def test_never_form_the_full_kernel(self, name):
        # Of rank 1 and for any batch, so that only a kernel has as many elements.
        layer, x = make_layer(name, rank=1, estimator="local")
        size = int(np.prod(layer.posterior.spec.shape))

        def kernels(estimator):
            layer.estimator = tfvn.estimators.get(estimator)
            found = self.sizes(layer, tf.TensorSpec((None, *x.shape[1:])))
            # What the mean needs.
            reading = {
                "ReadVariableOp",
                "Identity",
                "Reshape",
                "Transpose",
                "ExpandDims",
            }
            return [
                kind for kind, count in found if count == size if kind not in reading
            ]

        assert kernels("local") == []
        # That this can find one.
        assert kernels("weights")

    def test_rank_one_is_one_outer_product(self):
        layer, _ = make_layer("dense", rank=1)
        assert np.linalg.matrix_rank(layer.posterior.scale().numpy(), tol=1e-4) == 1
        layer, _ = make_layer("dense", rank=3)
        assert np.linalg.matrix_rank(layer.posterior.scale().numpy(), tol=1e-4) == 3


class TestDivergence:
    @pytest.mark.parametrize("name", LAYERS)
    @pytest.mark.parametrize("prior", [tfd.Normal(0.1, 0.6), "normal"], ids=str)
    def test_to_a_normal_is_that_of_tfp(self, name, prior):
        layer, _ = make_layer(name, prior=prior)
        q = tfd.Normal(
            layer.posterior.mean_variable.numpy().astype("float64"),
            full_scale(layer).astype("float64"),
        )
        loc, scale = 0.1, 0.6
        if prior == "normal":
            loc, scale = 0.0, np.sqrt(2 / layer.posterior.spec.rows)
        p = tfd.Normal(np.float64(loc), np.float64(scale))
        expected = float(tf.reduce_sum(tfd.kl_divergence(q, p)))
        assert float(layer.kl_divergence()) == pytest.approx(expected, rel=1e-5)

    def test_is_registered_with_tfp(self):
        q = KTiedNormal([[0.0, 1.0, 2.0]], left=[[2.0]], right=[[1.0], [2.0], [3.0]])
        p = tfd.Normal(0.5, 2.0)
        expected = tfd.kl_divergence(
            tfd.Normal([[0.0, 1.0, 2.0]], [[2.0, 4.0, 6.0]]), p
        )
        np.testing.assert_allclose(tfd.kl_divergence(q, p), expected, rtol=1e-6)

    def test_distribution_refuses_factors_of_another_size(self):
        with pytest.raises(ValueError, match=r"must have 1 and 3 rows.*Received: left"):
            KTiedNormal([[0.0, 1.0, 2.0]], left=[[2.0]], right=[[1.0], [2.0]])


class TestStart:
    @pytest.mark.parametrize("rank", [1, 2, 3])
    def test_scales_are_about_one_hundredth(self, rank):
        layer = tfvn.KTiedDense(500, rank=rank)
        layer.build((None, 600))
        scale = layer.posterior.scale().numpy()
        # The mean of a product of two log-normals of spread 0.1 is exp(0.01) larger.
        assert scale.mean() == pytest.approx(0.0100 * np.exp(0.01), rel=0.03)
        assert round(float(scale.mean()), 3) == 0.010
        start = 0.5 * (np.log(0.01) - np.log(rank))
        for factor in layer.posterior.log_factors:
            assert_follows(factor.numpy(), stats.norm(start, 0.1))

    def test_means_start_as_a_kernel_would(self):
        layer = tfvn.KTiedDense(200)
        layer.build((None, 50))
        bound = np.sqrt(6 / (50 + 200))
        assert_follows(layer.posterior.mean(), stats.uniform(-bound, 2 * bound))

    @pytest.mark.parametrize(
        ("shape", "rank"), [((5, 3), 2), ((5, 1), 1), ((1, 4), 1), ((2, 2), 2)]
    )
    def test_default_rank(self, shape, rank):
        layer = tfvn.KTiedDense(shape[1])
        layer.build((None, shape[0]))
        left, right = layer.variable_groups["scale"]
        assert (left.shape, right.shape) == ((shape[0], rank), (shape[1], rank))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("estimator", ["local", "flipout", "weights"])
@pytest.mark.parametrize("name", ["dense", "einsum-mixed-axes", "conv2d-groups"])
def test_gradients_of_the_factors_against_differences(name, estimator):
    layer, x = make_layer(
        name, prior=tfd.Normal(np.float64(0.0), np.float64(0.5)),
        dtype="float64", estimator=estimator, kl_weight=1.0,
    )  # fmt: skip
    x = tf.constant(x, "float64")

    @tf.function
    def loss():
        layer.seed_generator.state.assign([17, 0])
        outputs = tf.reduce_sum(tf.tanh(layer(x)))
        return outputs + tf.cast(
            tf.reduce_sum(
                tfd.kl_divergence(layer.posterior_distribution(), layer.prior)
            ),
            "float64",
        )

    factors = layer.posterior.log_factors
    with tf.GradientTape() as tape:
        value = loss()
    computed = tape.gradient(value, [factor.value for factor in factors])
    step = 1e-6
    for factor, gradient in zip(factors, computed, strict=True):
        start = factor.numpy()
        for index in np.ndindex(start.shape):
            values = []
            for sign in (1, -1):
                moved = start.copy()
                moved[index] += sign * step
                factor.assign(moved)
                values.append(float(loss()))
            expected = (values[0] - values[1]) / (2 * step)
            assert float(gradient[index]) == pytest.approx(expected, rel=1e-5, abs=1e-6)
        factor.assign(start)


class TestParameterCounts:
    """As in the tables of the k-tied paper, trainable parameters."""

    def count(self, input_shape, layers):
        model = keras.Sequential([keras.Input(input_shape), *layers])
        return sum(int(np.prod(v.shape)) for v in model.trainable_variables)

    def dense(self, units, rank):
        kwargs = {"bias_posterior": "mean_field", "kl_weight": 1.0}
        if rank is None:
            return tfvn.MeanFieldDense(units, **kwargs)
        return tfvn.KTiedDense(units, rank=rank, **kwargs)

    @pytest.mark.parametrize(
        ("rank", "expected"),
        [(None, 956_820), (1, 481_614), (2, 484_008), (3, 486_402)],
    )
    def test_mlp(self, rank, expected):
        layers = [self.dense(units, rank) for units in (400, 400, 10)]
        assert self.count((784,), layers) == expected

    @pytest.mark.parametrize(
        ("rank", "expected"),
        [(None, 4_405_320), (1, 2_262_188), (2, 2_267_408), (3, 2_272_628)],
    )
    def test_lenet(self, rank, expected):
        convolution = {
            "padding": "same",
            "bias_posterior": "mean_field",
            "kl_weight": 1.0,
        }
        layers = [
            tfvn.MeanFieldConv2D(32, 5, **convolution),
            keras.layers.MaxPooling2D(),
            tfvn.MeanFieldConv2D(64, 5, **convolution),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            self.dense(512, rank),
            self.dense(100, rank),
        ]
        assert self.count((32, 32, 3), layers) == expected
