"""Posteriors that are fitted: correlated weights, in layers and alone."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from layer_moments import draw, draw_by_tiling
from scipy import stats
from tensorflow_probability import distributions as tfd
from ztests import assert_mean, assert_moments

import tfvn
from tfvn import kl
from tfvn.distributions import RotatedNormal
from tfvn.layers.core.joint_dense import JointDense
from tfvn.posteriors import DiagonalNormal, FullNormal, MatrixNormal

POSTERIORS = {"diag": DiagonalNormal, "kron": MatrixNormal, "full": FullNormal}
ESTIMATORS = [
    ("diag", "local"),
    ("diag", "flipout"),
    ("diag", "weights"),
    ("kron", "weights"),
    ("full", "weights"),
]
RNG = np.random.default_rng(8)
X = RNG.normal(size=(2, 3)).astype("float32")


def rotation(size):
    # No reflection: one of two axes is its own transpose, so both ways would look alike.
    if size == 1:
        return np.ones((1, 1))
    return stats.special_ortho_group(size, seed=size).rvs()


def fill(posterior):
    """Gives a posterior variables far from where they start; returns its moments."""
    rng = np.random.default_rng(4)
    mean = rng.normal(size=posterior.spec.shape)
    scale = rng.uniform(0.2, 1.5, posterior.scale_variable.shape)
    posterior.mean_variable.assign(mean)
    posterior.scale_variable.assign(scale)
    if isinstance(posterior, DiagonalNormal):
        return mean, np.diag(np.square(scale).ravel())
    left, right = map(rotation, scale.shape)
    posterior.left_variable.assign(left)
    posterior.right_variable.assign(right)
    factor = np.kron(left, right) * scale.ravel()
    return mean, factor @ factor.T


def make(name, estimator=None, layer_class=JointDense, **kwargs):
    layer = layer_class(
        2, posterior=POSTERIORS[name](), estimator=estimator, prior=None, **kwargs
    )
    layer.build((None, 3))
    return layer, *fill(layer.posterior)


def kernels_of(posterior, count):
    """Returns samples of a kernel."""

    @tf.function
    def sample_often():
        return tf.map_fn(
            lambda i: posterior.sample(tf.stack([5, i])),
            tf.range(count),
            fn_output_signature=tf.float32,
        )

    return sample_often().numpy()


@pytest.mark.parametrize(("name", "estimator"), ESTIMATORS)
def test_outputs_have_the_moments_of_the_posterior(name, estimator):
    layer, mean, covariance = make(name, estimator, seed=3)
    if estimator == "local":
        samples = draw_by_tiling(layer, X)
    else:
        samples = draw(layer, X, count=2_000, jit_compile=False)
    phi = np.concatenate([X, np.ones((2, 1))], axis=1)
    expected = phi @ mean
    # Of each example: the covariance of its outputs, which the bias is a part of.
    outputs = [np.kron(f, np.eye(2)) for f in phi]
    covariances = np.stack([o @ covariance @ o.T for o in outputs])
    variances = np.diagonal(covariances, axis1=1, axis2=2)
    assert_moments(samples, expected, variances)
    # A sum of outputs has a variance that their correlation decides.
    for direction in ([1.0, 1.0], [1.0, -2.0]):
        along = np.einsum("i,nij,j->n", direction, covariances, direction)
        assert_moments(samples @ direction, expected @ direction, along)


@pytest.mark.parametrize("name", POSTERIORS)
class TestPosterior:
    def test_samples(self, name):
        layer, mean, covariance = make(name)
        posterior = layer.posterior
        samples = kernels_of(posterior, 4_000)
        flat = samples.reshape(len(samples), -1)
        assert_moments(flat, mean.ravel(), np.diag(covariance))
        direction = np.random.default_rng(2).normal(size=mean.size)
        variance = direction @ covariance @ direction
        assert_moments(flat @ direction, mean.ravel() @ direction, variance)

    def test_variance_and_distribution(self, name):
        layer, mean, covariance = make(name)
        variance = np.diag(covariance).reshape(mean.shape)
        distribution = layer.posterior_distribution()
        np.testing.assert_allclose(layer.posterior.variance(), variance, rtol=1e-5)
        np.testing.assert_allclose(distribution.mean(), mean, rtol=1e-6)
        np.testing.assert_allclose(distribution.stddev(), variance**0.5, rtol=1e-5)

    def test_is_not_trained(self, name):
        layer, *_ = make(name)
        assert layer.trainable_variables == []
        assert layer.variable_groups == {"mean": [], "scale": [], "default": []}

    def test_config(self, name):
        facts = {
            "prior_precision": 2.0,
            "log_marginal_likelihood": -3.5,
            "noise_scale": 0.25,
        }
        posterior = POSTERIORS[name](**facts)
        again = tfvn.posteriors.get(tfvn.posteriors.serialize(posterior))
        assert type(again) is type(posterior)
        assert again.get_config() == facts
        with pytest.raises(ValueError, match="`prior_precision` must be"):
            POSTERIORS[name](prior_precision=-1.0)

    def test_kl_to_a_normal_prior(self, name):
        prior = tfd.Normal(0.1, 0.7)
        layer, mean, covariance = make(name)
        q, size = layer.posterior_distribution(), mean.size
        moments = np.trace(covariance) + np.sum(np.square(mean - 0.1))
        _, log_det = np.linalg.slogdet(covariance)
        expected = 0.5 * (moments / 0.49 - size - log_det) + size * np.log(0.7)
        np.testing.assert_allclose(kl.total(q, prior), expected, rtol=1e-5)
        samples = kernels_of(layer.posterior, 60)
        estimates = [tf.reduce_sum(kl.monte_carlo(q, prior, w)) for w in samples]
        assert_mean(np.stack(estimates), expected)


@pytest.mark.parametrize("name", ["kron", "full"])
@pytest.mark.parametrize("estimator", ["local", "flipout"])
def test_estimators_for_independent_weights_are_refused(name, estimator):
    with pytest.raises(ValueError, match="does not combine with a correlated gaussian"):
        make(name, estimator)


@pytest.mark.parametrize("name", ["kron", "full"])
def test_kernels_of_more_axes(name):
    layer = tfvn.layers.Conv2DTranspose(3, 2, posterior=POSTERIORS[name]())
    layer.build((None, 4, 4, 2))
    # The columns are not the last axis of this kernel.
    assert layer.posterior.spec.output_axes == (2,)
    mean, covariance = fill(layer.posterior)
    variance = np.diag(covariance).reshape(2, 2, 2, 3).transpose(0, 1, 3, 2)
    np.testing.assert_allclose(layer.posterior.variance(), variance, rtol=1e-5)
    q = layer.posterior_distribution()
    value = np.random.default_rng(1).normal(size=(5, *mean.shape))
    centered = (value - mean).transpose(0, 1, 2, 4, 3).reshape(5, -1)
    expected = stats.multivariate_normal(np.zeros(24), covariance).logpdf(centered)
    np.testing.assert_allclose(q.log_prob(value.astype("float32")), expected, rtol=1e-4)


class TestJointDense:
    def test_any_posterior_covers_the_bias(self):
        layer = JointDense(2, posterior="k_tied", kl_weight=1.0)
        layer.build((None, 3))
        assert layer.posterior.mean().shape == (4, 2)
        assert layer.bias is None
        kernel, bias = np.split(layer.posterior.mean().numpy(), [3])
        with tfvn.passes.entered(
            tfvn.passes.Pass(estimator_of=lambda _: tfvn.estimators.MeanWeights())
        ):
            np.testing.assert_allclose(layer(X), X @ kernel + bias, rtol=1e-5)

    def test_refuses_a_second_bias(self):
        with pytest.raises(
            ValueError, match="must be `None` for a layer without a bias"
        ):
            JointDense(2, bias_posterior="mean_field")

    def test_without_a_bias_it_is_a_dense_layer(self):
        layer = JointDense(2, use_bias=False, prior=None)
        layer.build((None, 3))
        assert layer.posterior.mean().shape == (3, 2)

    def test_saved(self):
        layer = JointDense(2, posterior="matrix_normal", prior=None, name="head")
        again = JointDense.from_config(layer.get_config())
        assert again.get_config() == layer.get_config()
        assert keras.saving.get_registered_name(JointDense) == "tfvn>JointDense"


def test_rotated_normal_has_its_moments():
    layer, mean, covariance = make("kron")
    q = layer.posterior_distribution()
    assert isinstance(q, RotatedNormal)
    samples = tf.function(lambda: q.sample(3_000, seed=(1, 2)))()
    samples = samples.numpy().reshape(3_000, -1)
    assert_moments(samples, mean.ravel(), np.diag(covariance))
