"""The divergence that a layer adds to the loss."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from kl_references import (
    gaussian,
    quadrature,
    uniform,
)
from tensorflow_probability import distributions as tfd

import tfvn
from tfvn.distributions import (
    ZeroMeanNormal,
    ZeroMeanUniform,
)


def numpy_normal_kl(mean, scale, prior_scale):
    """Sum over weights, without a mean and without stray constants."""
    ratio = scale / prior_scale
    return np.sum(-np.log(ratio) + 0.5 * (ratio**2 + (mean / prior_scale) ** 2) - 0.5)


@pytest.mark.parametrize(
    ("alias", "expected"),
    [
        ("normal", lambda s: tfd.Normal(0.0, s)),
        # All of the variance of a Kaiming initializer, 2 / fan-in.
        ("laplace", lambda s: tfd.Laplace(0.0, s / np.sqrt(2.0))),
        ("horseshoe", lambda s: tfd.Horseshoe(s)),
        (
            "spike_and_slab",
            lambda s: tfd.MixtureSameFamily(
                tfd.Categorical(probs=[0.5, 0.5]), tfd.Normal(0.0, [s, 0.01 * s])
            ),
        ),
    ],
)
@pytest.mark.parametrize("bias_posterior", [None, "mean_field"])
def test_scale_of_a_prior_is_that_of_kaiming(alias, expected, bias_posterior):
    layer = tfvn.MeanFieldConv2D(
        6, 3, groups=2, prior=alias, bias_posterior=bias_posterior
    )
    layer.build((None, 5, 5, 4))
    weights = np.float32([0.02, -0.5, 3.0])
    wanted = expected(np.float32(np.sqrt(2 / (3 * 3 * 2)))).log_prob(weights)
    for weight in layer._random_weights:
        found = weight.prior_distribution.log_prob(weights)
        # TFP's density of a horseshoe is an approximation.
        atol = 0.1 if alias == "horseshoe" else 1e-5
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=atol)


class TestLayers:
    def scatter(self, layer):
        rng = np.random.default_rng(2)
        for variable in layer.trainable_variables:
            variable.assign(rng.uniform(-1.5, 1.5, variable.shape))

    @pytest.mark.parametrize("kind", ["dense", "conv2d"])
    @pytest.mark.parametrize("bias_posterior", [None, "mean_field"])
    def test_normal_prior_is_a_sum_over_the_weights(self, kind, bias_posterior):
        layer, shape, fan_in = {
            "dense": (tfvn.MeanFieldDense, (None, 6), 6),
            "conv2d": (tfvn.MeanFieldConv2D, (None, 5, 5, 4), 3 * 3 * 2),
        }[kind]
        arguments = {"conv2d": {"kernel_size": 3, "groups": 2}, "dense": {}}[kind]
        layer = layer(8, bias_posterior=bias_posterior, **arguments)
        layer.build(shape)
        self.scatter(layer)
        parts = [layer.posterior]
        if bias_posterior:
            parts.append(layer.bias_posterior)
        expected = sum(
            numpy_normal_kl(
                part.mean_variable.numpy(),
                np.exp(0.5 * part.log_variance_variable.numpy()),
                np.sqrt(2 / fan_in),
            )
            for part in parts
        )
        assert float(layer.kl_divergence()) == pytest.approx(expected, rel=1e-5)

    @pytest.mark.parametrize("prior", ["normal", "log_uniform", "ard"])
    def test_twice_as_wide_is_twice_as_much(self, prior):
        # bayesian-torch takes the mean, so that width does not matter.
        narrow, wide = (
            tfvn.MeanFieldDense(units, prior=prior, kernel_initializer="random_normal")
            for units in (200, 400)
        )
        narrow.build((None, 30))
        wide.build((None, 30))
        ratio = float(wide.kl_divergence() / narrow.kl_divergence())
        assert ratio == pytest.approx(2.0, rel=0.05)

    def test_posterior_that_is_the_prior_has_no_divergence(self):
        # torch-uncertainty adds 0.5 a weight here.
        layer = tfvn.MeanFieldDense(
            30,
            kernel_initializer="zeros",
            scale_initializer=0.2,
            use_bias=False,
            prior=tfd.Normal(0.0, 0.2),
        )
        layer.build((None, 30))
        assert float(layer.kl_divergence()) == pytest.approx(0.0, abs=1e-3)

    def test_prior_may_have_a_scale_per_weight(self):
        scales = np.linspace(0.1, 2.0, 12).reshape(4, 3).astype("float32")
        layer = tfvn.MeanFieldDense(3, prior=tfd.Normal(0.0, scales))
        layer.build((None, 4))
        self.scatter(layer)
        expected = numpy_normal_kl(
            layer.posterior.mean_variable.numpy(),
            np.exp(0.5 * layer.posterior.log_variance_variable.numpy()),
            scales,
        )
        assert float(layer.kl_divergence()) == pytest.approx(expected, rel=1e-5)

    @pytest.mark.parametrize(
        ("noise", "prior"),
        [
            ("gaussian", "log_uniform"),
            ("gaussian", "ard"),
            ("uniform", "log_uniform"),
            ("gaussian", None),
            ("uniform", None),
            ("bernoulli", None),
        ],
    )
    def test_zero_mean_layers_add_nothing(self, noise, prior):
        layer = tfvn.VarianceDense(3, noise=noise, prior=prior)
        layer(np.ones((2, 4), "float32"))
        assert layer.losses == []
        assert float(layer.kl_divergence()) == 0.0

    @pytest.mark.parametrize("noise", ["gaussian", "uniform"])
    def test_zero_mean_layers_against_a_normal(self, noise):
        layer = tfvn.VarianceDense(3, noise=noise, prior=tfd.Normal(0.0, 0.5))
        layer.build((None, 4))
        q = layer.posterior_distribution()
        assert isinstance(q, ZeroMeanNormal if noise == "gaussian" else ZeroMeanUniform)
        scales = np.abs(layer.posterior.scale.numpy()).ravel()
        p = tfd.Normal(np.float64(0.0), np.float64(0.5))
        make = {"gaussian": lambda s: gaussian(0.0, s), "uniform": uniform}[noise]
        expected = 0.0
        for scale in scales:
            q, bounds = make(float(scale))
            expected += quadrature(q, p, bounds)
        assert float(layer.kl_divergence()) == pytest.approx(expected, rel=1e-5)

    @pytest.mark.parametrize(
        "dtype", ["float64", "mixed_float16", "mixed_bfloat16", "float16", "bfloat16"]
    )
    @pytest.mark.parametrize(
        "prior",
        ["normal", "log_uniform", "ard", tfd.StudentT(3.0, 0.0, 0.5)],
        ids=lambda p: p if isinstance(p, str) else p.name,
    )
    def test_is_computed_in_single_precision_whatever_the_layers(self, prior, dtype):
        layer, reference = (
            tfvn.MeanFieldDense(5, prior=prior, kl_weight=1.0, dtype=d, seed=1)
            for d in (dtype, "float32")
        )
        for each in (layer, reference):
            each.build((None, 6))
            self.scatter(each)
        x = np.ones((2, 6), "float32")
        for each in (layer, reference):
            each(x)
        (loss,) = layer.losses
        assert loss.dtype == tf.float32
        # Half precision loses digits of the variables, not of the sum; an estimate
        # from other random numbers is another one.
        tolerance = 0.05 if dtype in ("float16", "bfloat16") else 1e-5
        if not isinstance(prior, str):
            tolerance = 0.5
        expected = float(reference.losses[0])
        assert float(loss) == pytest.approx(expected, rel=tolerance)

    @pytest.mark.parametrize("noise", ["gaussian", "uniform"])
    def test_is_computed_in_single_precision_for_zero_means(self, noise):
        layer, reference = (
            tfvn.VarianceDense(5, noise=noise, prior="normal", dtype=dtype)
            for dtype in ("float64", "float32")
        )
        for each in (layer, reference):
            each.build((None, 6))
            self.scatter(each)
        assert float(layer.kl_divergence()) == pytest.approx(
            float(reference.kl_divergence()), rel=1e-5
        )

    @pytest.mark.parametrize("jit_compile", [False, True])
    @pytest.mark.parametrize("prior", ["normal", "log_uniform", "ard"])
    def test_same_in_graphs(self, prior, jit_compile):
        layer = tfvn.MeanFieldDense(5, prior=prior)
        layer.build((None, 6))
        self.scatter(layer)
        graph = tf.function(layer.kl_divergence, jit_compile=jit_compile)
        assert float(graph()) == pytest.approx(float(layer.kl_divergence()), rel=1e-5)


class TestMethod:
    @pytest.mark.parametrize("part", ["prior", "bias_prior"])
    @pytest.mark.parametrize(
        ("prior", "kl_method", "message"),
        [
            (tfd.Cauchy(0.0, 1.0), "analytic", "has no closed form; pass"),
            (
                "ard",
                "monte_carlo",
                "has no density, so its KL can't be estimated from samples; pass",
            ),
        ],
        ids=["analytic", "monte_carlo"],
    )
    def test_that_does_not_fit_the_prior(self, part, prior, kl_method, message):
        with pytest.raises(ValueError, match=message):
            tfvn.MeanFieldDense(
                3,
                kl_method=kl_method,
                bias_posterior="mean_field",
                **{"prior": "normal", part: prior},
            )

    def test_unknown(self):
        with pytest.raises(ValueError, match="Received: kl_method='exact'"):
            tfvn.MeanFieldDense(3, kl_method="exact")

    def test_monte_carlo_uses_the_weights_of_the_forward_pass(self):
        layer = tfvn.MeanFieldDense(
            3,
            estimator="weights",
            kl_method="monte_carlo",
            prior=tfd.Normal(0.0, 0.5),
            kl_weight=1.0,
            use_bias=False,
            scale_initializer=0.4,
        )
        # The identity shows the kernel.
        kernel = layer(np.eye(4, dtype="float32"))
        q = layer.posterior_distribution()
        expected = q.log_prob(kernel) - tfd.Normal(0.0, 0.5).log_prob(kernel)
        (loss,) = layer.losses
        assert float(loss) == pytest.approx(float(tf.reduce_sum(expected)), rel=1e-4)

    @pytest.mark.parametrize(
        "posterior", ["mean_field", "k_tied", "gaussian_dropout", "variance"]
    )
    @pytest.mark.parametrize(("estimator", "seeds"), [("weights", 1), ("local", 2)])
    def test_monte_carlo_draws_no_second_sample(self, posterior, estimator, seeds):
        layer = tfvn.layers.Dense(
            3,
            posterior=posterior,
            estimator=estimator,
            kl_method="monte_carlo",
            prior="laplace",
            kl_weight=1.0,
        )
        layer.build((None, 4))
        before = layer.seed_generator.state.numpy()
        layer(np.ones((2, 4), "float32"))
        after = layer.seed_generator.state.numpy()
        assert np.sum(after - before) == seeds
        assert len(layer.losses) == 1


class TestCountedOnce:
    @pytest.fixture
    def layer(self):
        return tfvn.MeanFieldDense(4, kl_weight=0.5)

    def check(self, model, layer):
        model(np.ones((2, 4), "float32"))
        total = [float(sum(model.losses)) for _ in range(3)]
        assert total == pytest.approx([0.5 * float(layer.kl_divergence())] * 3)

    def test_however_often_losses_are_read(self, layer):
        self.check(keras.Sequential([layer]), layer)

    def test_in_nested_models(self, layer):
        inner = keras.Sequential([keras.Input((4,)), layer])
        self.check(keras.Sequential([keras.Sequential([inner])]), layer)

    def test_in_a_shared_layer(self, layer):
        inputs = keras.Input((4,))
        model = keras.Model(inputs, layer(layer(inputs)))
        self.check(model, layer)
        self.check(model, layer)
