"""A pruned posterior: zero where its mask says so, and the posterior inside elsewhere."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from layer_moments import (
    LINEAR_OPS,
    NOISY_CELLS,
    POSTERIORS,
    draw,
    draw_by_tiling,
    make_inputs,
    weight_moments,
)
from tensorflow_probability import distributions as tfd
from ztests import assert_mean, assert_moments

import tfvn
from tfvn.posteriors import Pruned

# Posteriors with variables for each weight.
PER_WEIGHT = ["variance-uniform", "mean_field", "gaussian_dropout-additive"]
GAUSSIAN = [name for name, p in POSTERIORS.items() if p.law == "gaussian"]


def make_layer(posterior, op="dense", prior=None, **kwargs):
    """Returns a layer with a random mask, its variables far from where they start."""
    make, shape, _ = LINEAR_OPS[op]
    layer = make(posterior=Pruned(POSTERIORS[posterior]), prior=prior, seed=3, **kwargs)
    layer.build((None, *shape))
    rng = np.random.default_rng(5)
    for variable in layer.trainable_variables:
        variable.assign(rng.uniform(-1.5, 1.5, variable.shape))
    mask = rng.uniform(size=layer.posterior.spec.shape) < 0.4
    layer.posterior.mask.assign(mask)
    return layer, mask


@pytest.mark.one_in(8)
@pytest.mark.parametrize("op", ["dense", "conv2d"])
@pytest.mark.parametrize(("posterior", "estimator"), NOISY_CELLS)
def test_outputs_have_the_moments_of_the_kept_weights(posterior, estimator, op):
    layer, mask = make_layer(posterior, op, estimator=estimator)
    x = make_inputs(op)
    if estimator == "local":
        samples = draw_by_tiling(layer, x, count=50_000)
    else:
        samples = draw(layer, x, count=3_000, jit_compile=False)
    mean, variance = weight_moments(layer.posterior.posterior)
    linear_op = LINEAR_OPS[op][2]
    assert_moments(
        samples,
        linear_op(x.astype("float64"), mask * mean) + layer.bias.numpy(),
        linear_op(x.astype("float64") ** 2, mask * variance),
    )


@pytest.mark.parametrize("posterior", POSTERIORS)
class TestMoments:
    def test_are_zero_where_pruned_and_those_of_the_posterior_elsewhere(
        self, posterior
    ):
        layer, mask = make_layer(posterior)
        pruned = layer.posterior
        mean, variance = weight_moments(pruned.posterior)
        for q in (pruned, pruned.read(), pruned.distribution()):
            np.testing.assert_allclose(q.mean(), mask * mean, rtol=1e-5)
            np.testing.assert_allclose(q.variance(), mask * variance, rtol=1e-5)
        seed = [1, 2]
        drawn = pruned.sample(seed).numpy()
        np.testing.assert_array_equal(drawn[~mask], 0.0)
        np.testing.assert_array_equal(drawn, mask * pruned.posterior.sample(seed))

    def test_distribution_is_finite_at_its_samples(self, posterior):
        layer, mask = make_layer(posterior)
        q = layer.posterior_distribution()
        drawn = q.sample(seed=[1, 2])
        assert (q.batch_shape, drawn.shape) == (mask.shape, mask.shape)
        np.testing.assert_array_equal(drawn.numpy()[~mask], 0.0)
        log_prob = q.log_prob(drawn).numpy()
        assert np.isfinite(log_prob).all()
        np.testing.assert_array_equal(log_prob[~mask], 0.0)
        np.testing.assert_allclose(
            log_prob[mask],
            layer.posterior.posterior.distribution().log_prob(drawn)[mask],
        )
        assert np.all(q.log_prob(drawn + 1.0).numpy()[~mask] == -np.inf)
        np.testing.assert_allclose(q[1:].mean(), q.mean()[1:])

    def test_properties_and_config_are_those_of_the_posterior(self, posterior):
        inside = POSTERIORS[posterior]
        pruned = Pruned(inside)
        for name in ("law", "default_prior", "zero_mean"):
            assert getattr(pruned, name) == getattr(inside, name)
        assert pruned.alias == f"pruned {inside.alias}"
        config = tfvn.posteriors.serialize(pruned)
        for copy in (pruned.clone(), tfvn.posteriors.get(config), Pruned(pruned)):
            assert type(copy) is Pruned
            assert type(copy.posterior) is type(inside)
            assert copy.posterior.get_config() == inside.get_config()
            assert copy.posterior is not inside


def test_cdf_jumps_at_zero_where_pruned():
    q = tfvn.distributions.PrunedWeights(tfd.Normal([1.0, 1.0], 1.0), [True, False])
    np.testing.assert_allclose(q.cdf([1.0, 0.0]), [0.5, 1.0])
    np.testing.assert_allclose(q.cdf([1.0, -0.1]), [0.5, 0.0])


class TestDivergence:
    @pytest.mark.one_in(3)
    @pytest.mark.parametrize(
        "prior",
        ["normal", "log_uniform", "ard", "laplace", tfd.Normal(0.3, 0.5)],
        ids=str,
    )
    @pytest.mark.parametrize("posterior", GAUSSIAN)
    def test_is_the_sum_over_the_kept_weights(self, posterior, prior):
        layer, mask = make_layer(posterior, prior=prior)
        each = tfd.kl_divergence(
            layer.posterior.posterior.distribution(),
            layer._random_weights[0].prior_distribution,
        )
        expected = np.sum(each.numpy().astype("float64")[mask])
        assert float(layer.kl_divergence()) == pytest.approx(expected, rel=1e-5)
        layer.posterior.mask.assign(np.zeros_like(mask))
        assert float(layer.kl_divergence()) == 0.0

    @pytest.mark.parametrize("posterior", GAUSSIAN)
    def test_to_a_normal_against_numpy(self, posterior):
        layer, mask = make_layer(posterior, prior=tfd.Normal(0.3, 0.5))
        expected = kl_to_normal(layer, mask, 0.3, 0.5)
        assert float(layer.kl_divergence()) == pytest.approx(expected, rel=1e-5)

    @pytest.mark.parametrize(
        ("posterior", "estimator"), [("mean_field", "weights"), ("k_tied-2", "local")]
    )
    def test_estimates_average_to_it(self, posterior, estimator):
        layer, mask = make_layer(
            posterior,
            prior=tfd.Normal(0.3, 0.5),
            kl_method="monte_carlo",
            kl_weight=1.0,
            estimator=estimator,
        )
        assert_mean(estimates_of(layer), [kl_to_normal(layer, mask, 0.3, 0.5)])

    @pytest.mark.parametrize("prior", ["student_t", "horseshoe", "spike_and_slab"])
    def test_estimates_are_finite_though_priors_have_poles(self, prior):
        layer, mask = make_layer("mean_field", prior=prior)
        assert np.isfinite(layer.kl_divergence())
        layer.posterior.mask.assign(np.zeros_like(mask))
        assert float(layer.kl_divergence()) == 0.0

    def test_estimate_leaves_out_the_constant_of_kept_weights_only(self):
        layer, mask = make_layer(
            "mean_field", prior="log_uniform", kl_method="monte_carlo", kl_weight=1.0
        )
        estimates = estimates_of(layer)
        closed = tfvn.kl.log_uniform_exact(
            layer.posterior.posterior.mean(), layer.posterior.posterior.scale()
        )
        expected = np.sum(closed.numpy()[mask])
        assert_mean(estimates, [expected])

    @pytest.mark.parametrize("dtype", ["float64", "mixed_float16"])
    @pytest.mark.parametrize("kl_method", ["analytic", "monte_carlo"])
    def test_in_other_precisions(self, dtype, kl_method):
        layer, mask = make_layer(
            "mean_field", prior="normal", dtype=dtype, kl_method=kl_method
        )
        divergence = layer.kl_divergence()
        assert np.isfinite(divergence)
        if kl_method == "analytic":
            expected = kl_to_normal(layer, mask, 0.0, np.sqrt(2 / 5))
            assert float(divergence) == pytest.approx(expected, rel=1e-4)


def estimates_of(layer):
    """Returns many estimates of the KL, from the weights that calls draw."""

    @tf.function
    def call_often():
        def estimate(_):
            layer(tf.ones((1, 5)))
            return layer.losses[0]

        return tf.map_fn(estimate, tf.range(4_000), fn_output_signature="float32")

    return call_often().numpy()[:, None]


def kl_to_normal(layer, mask, loc, scale):
    """The KL of the kept weights, written out anew."""
    mean, variance = weight_moments(layer.posterior.posterior)
    each = (variance + (mean - loc) ** 2) / (2 * scale**2) - 0.5
    each += np.log(scale) - 0.5 * np.log(variance)
    return each[mask].sum()


@pytest.mark.one_in(4)
@pytest.mark.parametrize("posterior", PER_WEIGHT)
@pytest.mark.parametrize("prior", ["normal", "student_t"])
@pytest.mark.parametrize("estimator", ["local", "flipout", "weights"])
def test_no_gradient_reaches_what_is_pruned(posterior, prior, estimator):
    layer, mask = make_layer(posterior, prior=prior, estimator=estimator, kl_weight=0.1)
    x = tf.constant(make_inputs("dense"))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.square(layer(x) - 5.0)) + layer.losses[0]
    kernels = [v for v in layer.trainable_variables if v.shape == mask.shape]
    assert kernels
    for gradient in tape.gradient(loss, kernels):
        np.testing.assert_array_equal(gradient.numpy()[~mask], 0.0)
        assert np.all(gradient.numpy()[mask] != 0.0)


def test_a_variable_that_is_not_finite_is_pruned_too():
    layer, mask = make_layer("mean_field", prior="normal", kl_weight=0.1)
    broken = np.where(mask, 0.5, np.nan)
    layer.posterior.posterior.mean_variable.assign(broken)
    assert np.isfinite(layer(make_inputs("dense"))).all()
    assert np.isfinite(layer.kl_divergence())


@pytest.mark.parametrize(
    ("kl_gradient", "jit_compile"), [("total", True), ("path", False)]
)
def test_trains(kl_gradient, jit_compile):
    layer = tfvn.MeanFieldDense(
        3, posterior=Pruned("mean_field"), kl_method="monte_carlo", estimator="weights"
    )
    model = tfvn.Sequential([keras.Input((5,)), layer])
    mask = np.arange(15).reshape(5, 3) % 2 == 0
    layer.posterior.mask.assign(mask)
    optimizer = keras.optimizers.AdamW(0.1, weight_decay=0.5)
    model.compile(optimizer, "mse", kl_gradient=kl_gradient, jit_compile=jit_compile)
    history = model.fit(np.ones((8, 5)), np.ones((8, 3)), epochs=2, verbose=0).history
    assert np.isfinite(history["loss"]).all()
    np.testing.assert_array_equal(layer.posterior.mask.value, mask)
    np.testing.assert_array_equal(layer.posterior.sample([1, 2]).numpy()[~mask], 0.0)


class TestInLayers:
    def test_the_mask_is_a_weight_that_is_not_trained(self):
        layer, _ = make_layer("k_tied-2")
        (weight,) = layer.non_trainable_weights
        assert weight is layer.posterior.mask
        groups = layer.variable_groups
        assert [len(groups[name]) for name in ("mean", "scale", "default")] == [1, 2, 1]
        fresh = tfvn.layers.Dense(3, posterior=Pruned("k_tied"))
        fresh.build((None, 5))
        assert np.all(fresh.posterior.mask.value)

    def test_a_preset_keeps_its_class_and_its_arguments(self):
        inside = tfvn.posteriors.Variance("uniform")
        layer = tfvn.VarianceDense(3, posterior=Pruned(inside))
        again = tfvn.VarianceDense.from_config(layer.get_config())
        assert type(again.posterior) is Pruned
        assert again.posterior.posterior.noise == "uniform"
        assert again.get_config() == layer.get_config()

    @pytest.mark.parametrize(
        "arguments",
        [
            {"posterior": Pruned("mean_field")},
            {"posterior": "variance"},
            {"posterior": Pruned("variance"), "noise": "uniform"},
        ],
        ids=str,
    )
    def test_a_preset_refuses_other_posteriors(self, arguments):
        with pytest.raises(
            ValueError, match=r"does not take `posterior`.*Received: post"
        ):
            tfvn.VarianceDense(3, **arguments)

    def test_is_no_alias(self):
        with pytest.raises(ValueError, match="Unknown posterior"):
            tfvn.layers.Dense(3, posterior="pruned")
