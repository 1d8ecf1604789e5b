"""Posteriors as objects: copies, variables, and where these start."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy import stats
from ztests import assert_follows, assert_moments

import tfvn
from tfvn import posteriors
from tfvn.kernel import KernelSpec, LinearOp
from tfvn.posteriors import GaussianDropout, KTied, MeanField, Variance

POSTERIORS = {
    "variance-gaussian": Variance("gaussian"),
    "variance-bernoulli": Variance("bernoulli"),
    "variance-uniform": Variance("uniform"),
    "mean_field": MeanField(),
    "mean_field-0.2": MeanField(scale_initializer=0.2),
    "gaussian_dropout": GaussianDropout(),
    "gaussian_dropout-neuron": GaussianDropout("neuron", initial_log_alpha=-1.0),
    "gaussian_dropout-weight": GaussianDropout("weight"),
    "gaussian_dropout-additive": GaussianDropout(parameterization="additive"),
    "k_tied": KTied(),
    "k_tied-1": KTied(rank=1),
}

# Those whose scales start at one given value.
STARTS_EQUAL = {
    "mean_field-0.2",
    "gaussian_dropout",
    "gaussian_dropout-neuron",
    "gaussian_dropout-weight",
}

# The variables of a kernel of shape (3, 2): the name and the shape of each.
MEAN = ("kernel_mean", (3, 2))
VARIABLES = {
    "variance": [("kernel_scale", (3, 2))],
    "mean_field": [MEAN, ("kernel_log_variance", (3, 2))],
    "gaussian_dropout": [MEAN, ("kernel_log_alpha", ())],
    "gaussian_dropout-neuron": [MEAN, ("kernel_log_alpha", (2,))],
    "gaussian_dropout-weight": [MEAN, ("kernel_log_alpha", (3, 2))],
    "gaussian_dropout-additive": [MEAN, ("kernel_log_variance", (3, 2))],
    "k_tied": [
        MEAN,
        ("kernel_log_left_scale", (3, 2)),
        ("kernel_log_right_scale", (2, 2)),
    ],
    "k_tied-1": [
        MEAN,
        ("kernel_log_left_scale", (3, 1)),
        ("kernel_log_right_scale", (2, 1)),
    ],
}


@pytest.mark.parametrize("name", POSTERIORS)
class TestContract:
    def build(self, name, shape=(3, 2)):
        layer = tfvn.layers.Dense(shape[1], posterior=POSTERIORS[name], prior=None)
        layer.build((None, shape[0]))
        return layer

    def test_clone_has_no_variables_and_the_same_config(self, name):
        original = self.build(name).posterior
        copy = original.clone()
        assert type(copy) is type(original)
        assert copy.get_config() == original.get_config()
        assert copy.law == original.law
        assert original.variable_groups
        assert copy.variable_groups == {}
        assert copy.spec is None

    def test_config_round_trip(self, name):
        posterior = POSTERIORS[name]
        again = posteriors.get(posteriors.serialize(posterior))
        assert type(again) is type(posterior)
        assert again.get_config() == posterior.get_config()

    def test_one_posterior_in_two_layers_shares_nothing(self, name):
        first, second = self.build(name), self.build(name)
        assert first.posterior is not second.posterior
        assert POSTERIORS[name].variable_groups == {}
        ours = {id(variable) for variable in first.variables}
        assert ours.isdisjoint(id(variable) for variable in second.variables)

    def test_two_layers_start_differently(self, name):
        first, second = self.build(name), self.build(name)
        for group, variables in first.posterior.variable_groups.items():
            if group == "scale" and name in STARTS_EQUAL:
                continue
            for one, other in zip(
                variables, second.posterior.variable_groups[group], strict=True
            ):
                assert np.all(one.numpy() != other.numpy())

    def test_weights_of_a_layer_start_differently_from_each_other(self, name):
        (start, *_) = self.build(name, (30, 20)).posterior.variable_groups.values()
        assert len(np.unique(start[0].numpy())) > 590

    def test_variable_groups(self, name):
        groups = self.build(name).posterior.variable_groups
        expected = {"scale"} if "variance" in name else {"mean", "scale"}
        assert set(groups) == expected
        found = [variable for group in groups.values() for variable in group]
        wanted = VARIABLES.get(name) or VARIABLES[name.split("-")[0]]
        assert [(v.name, tuple(v.shape)) for v in found] == wanted
        assert all(variable.trainable for variable in found)

    @pytest.mark.one_in(3)
    def test_samples_have_the_moments_of_the_distribution(self, name):
        posterior = self.build(name).posterior

        @tf.function(jit_compile=True)
        def draw():
            return tf.map_fn(
                lambda i: posterior.sample(tf.stack([5, i])),
                tf.range(20_000),
                fn_output_signature=tf.float32,
            )

        distribution = posterior.distribution()
        mean, variance = distribution.mean().numpy(), distribution.variance().numpy()
        assert_moments(draw().numpy(), mean, variance)
        np.testing.assert_allclose(posterior.mean(), mean, rtol=1e-6)
        np.testing.assert_allclose(posterior.variance(), variance, rtol=1e-5)

    def test_samples_are_a_function_of_the_seed(self, name):
        posterior = self.build(name).posterior
        first, again, other = (posterior.sample((1, n)).numpy() for n in (0, 0, 1))
        np.testing.assert_array_equal(first, again)
        assert np.any(first != other)

    def test_variance_is_pushed_through_a_linear_op(self, name):
        posterior = self.build(name).posterior
        x = np.random.default_rng(1).normal(size=(4, 3)).astype("float32")
        op = LinearOp(tf.matmul, lambda inputs, left, right: inputs @ left @ right)
        pushed = posterior.push_variance(op, tf.constant(x**2))
        expected = x**2 @ posterior.distribution().variance().numpy()
        np.testing.assert_allclose(pushed, expected, rtol=1e-5)


class TestVariance:
    @pytest.mark.parametrize(
        ("make", "shape", "fan_in"),
        [
            (lambda: tfvn.VarianceDense(200), (None, 50), 50),
            (lambda: tfvn.VarianceConv2D(100, (3, 2)), (None, 8, 8, 20), 3 * 2 * 20),
            (
                lambda: tfvn.VarianceConv2D(100, (3, 2), groups=5),
                (None, 8, 8, 20),
                3 * 2 * 4,
            ),
        ],
    )
    def test_starts_uniform_by_fan_in(self, make, shape, fan_in):
        layer = make()
        layer.build(shape)
        bound = fan_in**-0.5
        start = layer.posterior.scale.numpy()
        assert np.abs(start).max() <= bound
        assert_follows(start, stats.uniform(-bound, 2 * bound))

    def test_only_the_square_of_the_scale_counts(self):
        layer = tfvn.VarianceDense(4, kernel_initializer="ones")
        layer.build((None, 3))
        variance = layer.posterior.variance().numpy()
        layer.posterior.scale.assign(-np.ones((3, 4)))
        np.testing.assert_array_equal(layer.posterior.variance(), variance)
        np.testing.assert_array_equal(layer.posterior_distribution().scale, 1.0)

    @pytest.mark.parametrize("noise", ["gaussian", "uniform"])
    def test_scale_of_zero_has_a_finite_divergence(self, noise):
        layer = tfvn.VarianceDense(
            4, noise=noise, prior="normal", kernel_initializer="zeros"
        )
        layer.build((None, 3))
        with tf.GradientTape() as tape:
            divergence = layer.kl_divergence()
        gradient = tape.gradient(divergence, layer.posterior.scale.value)
        assert np.isfinite(divergence)
        assert np.all(np.isfinite(gradient))

    def test_laws(self):
        assert [Variance(n).law for n in ("gaussian", "bernoulli", "uniform")] == [
            "gaussian",
            "bernoulli",
            "uniform",
        ]

    def test_unknown_noise(self):
        with pytest.raises(
            ValueError,
            match=r"one of \['gaussian', 'bernoulli', 'uniform'\]. "
            r"Received: noise='cauchy'",
        ):
            Variance(noise="cauchy")


class TestMeanField:
    def build(self, posterior, **kwargs):
        layer = tfvn.layers.Dense(200, posterior=posterior, **kwargs)
        layer.build((None, 50))
        return layer.posterior

    def test_scales_start_around_a_hundredth(self):
        scale = self.build(MeanField()).scale().numpy()
        assert scale.min() > 0.008 - 1e-6
        assert scale.max() < 0.012 + 1e-6
        assert_follows(scale, stats.truncnorm(-2, 2, loc=0.01, scale=0.001))

    def test_means_start_as_a_kernel_would(self):
        bound = np.sqrt(6 / (50 + 200))
        assert_follows(
            self.build(MeanField()).mean().numpy(), stats.uniform(-bound, 2 * bound)
        )

    def test_mean_initializer(self):
        posterior = self.build(MeanField(), kernel_initializer="zeros")
        np.testing.assert_array_equal(posterior.mean(), 0.0)

    @pytest.mark.parametrize("scale", [1e-6, 0.2, 1, 30.0])
    def test_scale_initializer_is_the_standard_deviation(self, scale):
        posterior = self.build(MeanField(scale_initializer=scale))
        np.testing.assert_allclose(posterior.scale(), scale, rtol=1e-5)

    def test_scale_initializer_may_be_a_keras_one(self):
        posterior = self.build(
            MeanField(keras.initializers.RandomUniform(0.1, 0.2, seed=1))
        )
        assert_follows(posterior.scale().numpy(), stats.uniform(0.1, 0.1))

    @pytest.mark.parametrize("scale", [0, 0.0, -1.0, float("nan")])
    def test_scale_must_be_positive(self, scale):
        with pytest.raises(
            ValueError, match="`scale_initializer` must be a finite number greater"
        ):
            MeanField(scale_initializer=scale)

    def test_initial_scales_must_be_positive(self):
        with pytest.raises(
            ValueError, match="must return positive standard deviations"
        ):
            self.build(MeanField(scale_initializer="zeros"))

    def test_scale_stays_positive(self):
        posterior = self.build(MeanField())
        posterior.log_variance_variable.assign(np.full((50, 200), -400.0))
        scale = posterior.distribution().stddev().numpy()
        assert np.all(scale > 0)
        assert np.all(np.isfinite(np.log(scale)))
        assert np.all(np.isfinite(1 / np.square(scale)))


class TestGaussianDropout:
    def build(self, posterior, layer=tfvn.layers.Dense, shape=(None, 3), **kwargs):
        layer = layer(posterior=posterior, prior=None, **kwargs)
        layer.build(shape)
        return layer

    @pytest.mark.parametrize("alpha", ["layer", "neuron", "weight"])
    def test_initial_log_alpha(self, alpha):
        posterior = self.build(GaussianDropout(alpha, initial_log_alpha=-1.5), units=2)
        np.testing.assert_array_equal(posterior.posterior.log_alpha(), -1.5)

    def test_additive_variances_start_from_the_mean_square(self):
        layer = self.build(
            GaussianDropout(parameterization="additive", initial_log_alpha=-1.5),
            units=2,
            kernel_initializer=keras.initializers.RandomNormal(0.3, 2.0, seed=1),
        )
        square = np.mean(np.square(layer.posterior.mean()))
        expected = np.exp(-1.5) * square
        np.testing.assert_allclose(layer.posterior.variance(), expected, rtol=1e-5)

    def test_additive_log_alpha_of_small_means(self):
        posterior = GaussianDropout(parameterization="additive")
        posterior = self.build(posterior, units=2).posterior
        posterior.mean_variable.assign([[1.0, -2.0], [1e-4, 3e-8], [-1e-10, 0.0]])
        posterior.log_variance_variable.assign(np.full((3, 2), -41.0))
        mean = posterior.mean().numpy().astype("float64")[:2]
        limit = np.log(1e8)
        expected = np.clip(-41.0 - 2 * np.log(np.abs(mean)), -limit, limit)
        found = posterior.log_alpha().numpy()
        np.testing.assert_allclose(found[:2], expected, rtol=1e-5)
        # The largest where the mean is practically zero.
        expected = [-41.0 - 2 * np.log(1e-10), -41.0 - 2 * np.log(1e-12)]
        np.testing.assert_allclose(found[2], expected, rtol=1e-5)

    @pytest.mark.parametrize("gradient", [1e3, -1e3, 2.0, -9.0])
    @pytest.mark.parametrize("alpha", ["layer", "neuron", "weight"])
    def test_an_update_keeps_alpha_within_its_limits(self, alpha, gradient):
        posterior = self.build(GaussianDropout(alpha), units=2).posterior
        variable = posterior.log_alpha_variable
        optimizer = keras.optimizers.SGD(1.0)
        optimizer.apply([tf.fill(variable.shape, gradient)], [variable])
        limit = np.log(1e8)
        expected = np.clip(-5.0 - gradient, -limit, limit)
        np.testing.assert_allclose(variable.numpy(), expected, rtol=1e-6)

    @pytest.mark.parametrize("alpha", ["layer", "neuron", "weight"])
    @pytest.mark.parametrize(
        ("layer", "arguments", "shape"),
        [
            (
                tfvn.layers.EinsumDense,
                {"equation": "bmd,dn->bnm", "output_shape": (2, 2)},
                (1, 2, 3),
            ),
            (
                tfvn.layers.Conv2DTranspose,
                {"filters": 3, "kernel_size": 2},
                (1, 3, 3, 2),
            ),
            (
                tfvn.layers.DepthwiseConv2D,
                {"kernel_size": 2, "depth_multiplier": 2},
                (1, 3, 3, 3),
            ),
        ],
        ids=["einsum", "transpose", "depthwise"],
    )
    def test_variance_is_pushed_by_column(self, layer, arguments, shape, alpha):
        layer = self.build(GaussianDropout(alpha), layer, shape, **arguments)
        posterior = layer.posterior
        variable = posterior.log_alpha_variable
        variable.assign(np.random.default_rng(0).normal(size=variable.shape))
        x = np.random.default_rng(1).normal(size=shape).astype("float32")
        op = LinearOp(layer.linear_op, layer.factored_op)
        pushed = posterior.push_variance(op, tf.constant(x**2))
        expected = layer.linear_op(x**2, posterior.distribution().variance())
        np.testing.assert_allclose(pushed, expected, rtol=1e-5)


class TestGet:
    def test_alias(self):
        assert isinstance(posteriors.get("variance"), Variance)
        assert isinstance(posteriors.get("mean_field"), MeanField)
        assert isinstance(posteriors.get("gaussian_dropout"), GaussianDropout)
        assert isinstance(posteriors.get("k_tied"), KTied)

    @pytest.mark.parametrize("identifier", ["unknown", 3, None, MeanField])
    def test_unknown(self, identifier):
        with pytest.raises(
            ValueError,
            match=r"Unknown posterior: expected one of "
            r"\['diagonal_normal', 'full_normal', 'gaussian_dropout', 'k_tied', "
            r"'matrix_normal', 'mean_field', 'variance'\]",
        ):
            posteriors.get(identifier)


class TestKernelSpec:
    def test_dense(self):
        spec = KernelSpec((5, 3), output_axes=(1,))
        assert (spec.rows, spec.columns) == (5, 3)

    def test_convolution(self):
        spec = KernelSpec((3, 2, 4, 6), output_axes=(3,))
        assert (spec.rows, spec.columns) == (24, 6)

    def test_to_matrix_reverses_from_matrix(self):
        spec = KernelSpec((2, 3, 4), output_axes=(0, 2))
        kernel = np.random.default_rng(0).normal(size=spec.shape)
        matrix = spec.to_matrix(kernel)
        np.testing.assert_array_equal(matrix[1, 1 * 4 + 2], kernel[1, 1, 2])
        np.testing.assert_array_equal(spec.from_matrix(matrix), kernel)
