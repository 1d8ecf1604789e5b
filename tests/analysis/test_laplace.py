"""The Laplace approximation of the last layer, against NumPy."""

import keras
import numpy as np
import pytest
from laplace_models import (
    STRUCTURES,
    TARGETS,
    WEIGHTS,
    X,
    assert_close,
    assert_predicts_alike,
    features_and_outputs,
    make,
)
from laplace_reference import (
    KINDS,
    covariance_of,
    curvature,
    log_likelihood,
    log_marginal_likelihood,
    maximum,
    with_bias,
)
from scipy import stats

import tfvn

RNG = np.random.default_rng(6)


@pytest.mark.parametrize("hessian", STRUCTURES)
@pytest.mark.parametrize("kind", KINDS)
class TestAgainstNumPy:
    def reference(self, kind, hessian, model, noise_scale=1.0, weights=None):
        phi, kernel, outputs = features_and_outputs(model)
        matrix = curvature(kind, hessian, phi, outputs, noise_scale, weights)
        return matrix, kernel, log_likelihood(kind, outputs, TARGETS[kind], noise_scale)

    def test_covariance_and_marginal_likelihood(self, kind, hessian):
        model = make(kind)
        arguments = {"noise_scale": 0.7} if kind == "regression" else {}
        fitted = tfvn.last_layer_laplace(
            model, X, TARGETS[kind], hessian, prior_precision=2.5, **arguments
        )
        matrix, kernel, likelihood = self.reference(kind, hessian, model, 0.7)
        posterior = fitted.layers[-1].posterior
        assert posterior.prior_precision == 2.5
        assert posterior.noise_scale == (0.7 if kind == "regression" else None)
        expected = np.linalg.inv(matrix + 2.5 * np.eye(len(matrix)))
        assert_close(covariance_of(posterior), expected)
        assert_close(posterior.mean(), kernel)
        assert_close(posterior.variance(), np.diag(expected).reshape(kernel.shape))
        assert_close(
            posterior.log_marginal_likelihood,
            log_marginal_likelihood(matrix, kernel, likelihood, 2.5),
        )
        # The KL to the prior, in the closed form of two Normals.
        _, log_det = np.linalg.slogdet(expected)
        second = np.trace(expected) + np.sum(np.square(kernel))
        size = len(matrix)
        kl = 0.5 * (2.5 * second - size - log_det - size * np.log(2.5))
        assert_close(fitted.layers[-1].kl_divergence(), kl)

    def test_precisions_maximise_the_marginal_likelihood(self, kind, hessian):
        model = make(kind)
        fitted = tfvn.last_layer_laplace(model, X, TARGETS[kind], hessian)
        posterior = fitted.layers[-1].posterior

        def value(log_prior, log_noise=0.0):
            matrix, kernel, likelihood = self.reference(
                kind, hessian, model, np.exp(log_noise)
            )
            return log_marginal_likelihood(
                matrix, kernel, likelihood, np.exp(log_prior)
            )

        best = maximum(value, 2 if kind == "regression" else 1)
        assert_close(posterior.prior_precision, np.exp(best[0]))
        if kind == "regression":
            assert_close(posterior.noise_scale, np.exp(best[1]))
        assert_close(posterior.log_marginal_likelihood, value(*best))

    def test_sample_weights(self, kind, hessian):
        model = make(kind)
        arguments = {"noise_scale": 1.0} if kind == "regression" else {}
        fitted = tfvn.last_layer_laplace(
            model,
            X,
            TARGETS[kind],
            hessian,
            prior_precision=1.0,
            sample_weight=WEIGHTS,
            **arguments,
        )
        matrix, *_ = self.reference(kind, hessian, model, weights=WEIGHTS)
        expected = np.linalg.inv(matrix + np.eye(len(matrix)))
        assert_close(covariance_of(fitted.layers[-1].posterior), expected)


class TestStructures:
    def fit(self, model, x, y, hessian, **kwargs):
        fitted = tfvn.last_layer_laplace(
            model, x, y, hessian, prior_precision=0.5, **kwargs
        )
        return covariance_of(fitted.layers[-1].posterior)

    def test_kron_is_exact_for_one_example(self):
        model, x, y = make(), X[:1], TARGETS["softmax"][:1]
        assert_close(self.fit(model, x, y, "kron"), self.fit(model, x, y, "full"))

    def test_kron_is_exact_for_equal_hessians(self):
        model, y = make("regression"), TARGETS["regression"]
        kron, full = (
            self.fit(model, X, y, hessian, noise_scale=0.4)
            for hessian in ("kron", "full")
        )
        assert_close(kron, full)

    def test_kron_is_no_more_than_an_approximation_else(self):
        model, y = make(), TARGETS["softmax"]
        kron, full = (self.fit(model, X, y, h) for h in ("kron", "full"))
        assert np.abs(kron - full).max() > 1e-3

    def test_a_layer_without_bias(self):
        model = make(use_bias=False)
        fitted = tfvn.last_layer_laplace(model, X, TARGETS["softmax"])
        assert fitted.layers[-1].posterior.mean().shape == (5, 3)
        assert_predicts_alike(fitted, model)


def test_full_laplace_of_a_linear_regression_is_the_conjugate_posterior():
    precision, noise = 1.7, 0.3
    y = X @ [1.0, -2.0, 0.5, 0.0] + 0.3 * RNG.normal(size=40)
    phi = with_bias(X.astype("float64"))
    covariance = np.linalg.inv(phi.T @ phi / noise**2 + precision * np.eye(5))
    mean = covariance @ phi.T @ y / noise**2
    model = make("regression", units=1, hidden=0)
    model.set_weights([mean[:4, None], mean[4:]])
    fitted = tfvn.last_layer_laplace(
        model, X, y, "full", prior_precision=precision, noise_scale=noise
    )
    posterior = fitted.layers[-1].posterior
    assert_close(covariance_of(posterior), covariance)
    # At the maximum of the posterior the marginal likelihood is exact too.
    exact = stats.multivariate_normal(
        np.zeros(40), noise**2 * np.eye(40) + phi @ phi.T / precision
    )
    assert_close(posterior.log_marginal_likelihood, exact.logpdf(y))


class TestLikelihoods:
    def test_logits_one_hot_targets_and_an_explicit_kind(self):
        y = TARGETS["softmax"]
        expected = tfvn.last_layer_laplace(make(), X, y).layers[-1].posterior
        model = make()
        model.layers[-1].activation = keras.activations.linear
        logits = keras.Sequential(model.layers)
        one_hot = np.eye(3)[y]
        logits.compile("sgd", keras.losses.CategoricalCrossentropy(from_logits=True))
        plain = keras.Sequential(model.layers)  # not compiled
        for found in (
            tfvn.last_layer_laplace(logits, X, one_hot),
            tfvn.last_layer_laplace(plain, X, y, outputs="logits"),
        ):
            posterior = found.layers[-1].posterior
            assert_close(posterior.prior_precision, expected.prior_precision)
            assert_close(
                posterior.log_marginal_likelihood, expected.log_marginal_likelihood
            )

    def test_known_noise(self):
        y = TARGETS["regression"]
        model = make("regression")
        given = tfvn.last_layer_laplace(model, X, y, noise_scale=0.6)
        expected = given.layers[-1].posterior
        model.compile("sgd", tfvn.losses.GaussianNLL(scale=0.6))
        found = tfvn.last_layer_laplace(model, X, y).layers[-1].posterior
        assert found.get_config() == expected.get_config()
        learned = keras.Sequential([*model.layers, tfvn.layers.LearnedScale(0.6)])
        learned.compile("sgd", tfvn.losses.GaussianNLL())
        fitted = tfvn.last_layer_laplace(learned, X, y)
        assert_close(
            fitted.layers[-2].posterior.log_marginal_likelihood,
            expected.log_marginal_likelihood,
        )
        answer = tfvn.ensemble_predict(fitted, X, num_samples=3)
        assert answer.std.shape == (40, 3)

    def test_noise_that_depends_on_the_example(self):
        model = make("regression", units=2)
        model.compile("sgd", tfvn.losses.GaussianNLL())
        y = TARGETS["regression"][:, 0]
        fitted = tfvn.last_layer_laplace(model, X, y, "full", prior_precision=1.0)
        phi, kernel, outputs = features_and_outputs(model)
        mean, scale = outputs[:, 0], np.exp(outputs[:, 1])
        # The Fisher information of mean and log scale.
        matrix = sum(
            np.kron(np.outer(f, f), np.diag([s**-2, 2.0]))
            for f, s in zip(phi, scale, strict=True)
        )
        posterior = fitted.layers[-1].posterior
        expected = np.linalg.inv(matrix + np.eye(len(matrix)))
        assert_close(covariance_of(posterior), expected)
        value = log_marginal_likelihood(
            matrix, kernel, stats.norm(mean, scale).logpdf(y).sum(), 1.0
        )
        assert_close(posterior.log_marginal_likelihood, value)
