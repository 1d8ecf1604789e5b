"""The Laplace approximation of a last layer in NumPy, weight by weight and example by example."""

import numpy as np
from scipy import optimize, special

KINDS = ("softmax", "binary", "regression")


def with_bias(features):
    return np.concatenate([features, np.ones((len(features), 1))], axis=1)


def hessian_of(kind, output, noise_scale=1.0):
    """Returns the Hessian of an example's negative log-likelihood."""
    if kind == "softmax":
        p = special.softmax(output)
        return np.diag(p) - np.outer(p, p)
    if kind == "binary":
        p = special.expit(output)
        return np.diag(p * (1 - p))
    return np.eye(len(output)) / noise_scale**2


def log_likelihood(kind, outputs, y, noise_scale=1.0):
    if kind == "softmax":
        return special.log_softmax(outputs, axis=1)[np.arange(len(y)), y].sum()
    if kind == "binary":
        p = special.expit(outputs)
        return np.sum(y * np.log(p) + (1 - y) * np.log(1 - p))
    squares = np.square((y - outputs) / noise_scale)
    return np.sum(-0.5 * squares - np.log(noise_scale * np.sqrt(2 * np.pi)))


def curvature(kind, hessian, phi, outputs, noise_scale=1.0, weights=None):
    """Returns the Gauss-Newton matrix, in the order of the kernel's rows."""
    weights = np.ones(len(phi)) if weights is None else weights
    pairs = [
        (w * np.outer(f, f), hessian_of(kind, output, noise_scale))
        for w, f, output in zip(weights, phi, outputs, strict=True)
    ]
    if hessian == "kron":
        mean = sum(w * h for w, (_, h) in zip(weights, pairs, strict=True))
        return np.kron(sum(a for a, _ in pairs), mean / weights.sum())
    full = sum(np.kron(a, h) for a, h in pairs)
    return full if hessian == "full" else np.diag(np.diag(full))


def log_marginal_likelihood(matrix, weights, log_likelihood, prior_precision):
    size = len(matrix)
    _, log_det = np.linalg.slogdet(matrix + prior_precision * np.eye(size))
    norm = prior_precision * np.sum(np.square(weights))
    return log_likelihood - 0.5 * (norm + log_det - size * np.log(prior_precision))


def maximum(function, size):
    """Returns the logarithms that maximise a function of them."""
    found = optimize.minimize(
        lambda logs: -function(*logs),
        np.zeros(size),
        method="Nelder-Mead",
        options={"xatol": 1e-8, "fatol": 1e-11, "maxiter": 4_000},
    )
    assert found.success
    return found.x


def covariance_of(posterior):
    """Returns the covariance of the weights that a fitted posterior has."""
    scale = posterior.scale_variable.numpy().astype("float64")
    if posterior.alias == "diagonal_normal":
        return np.diag(np.square(scale).ravel())
    left, right = (
        v.numpy().astype("float64")
        for v in (posterior.left_variable, posterior.right_variable)
    )
    factor = np.kron(left, right) * scale.ravel()
    return factor @ factor.T
