"""What divergences are compared with: quadrature and mpmath."""

import mpmath
import numpy as np
import tensorflow as tf
from scipy import special
from tensorflow_probability import distributions as tfd

from tfvn.distributions import (
    ZeroMeanUniform,
)


def two_normals(slab, spike):
    """A spike and slab of equal weights, in double precision."""
    scales = np.array([slab, spike])
    halves = tfd.Categorical(probs=np.array([0.5, 0.5]))
    return tfd.MixtureSameFamily(halves, tfd.Normal(np.zeros(2), scales))


def quadrature(q, p, bounds):
    """KL(q || p) of scalar distributions, by Gauss-Legendre in double precision."""
    # Panels shrink towards zero, where densities may have a kink or a pole.
    shrinking = np.max(np.abs(bounds)) * 2.0 ** -np.arange(60)
    edges = np.concatenate([np.linspace(*bounds, 50), shrinking, -shrinking, [0.0]])
    edges = np.unique(np.clip(edges, *bounds))
    nodes, factors = np.polynomial.legendre.leggauss(20)
    half = np.diff(edges)[:, np.newaxis] / 2
    w = edges[:-1, np.newaxis] + half * (1 + nodes)
    log_q, log_p = q.log_prob(w).numpy(), p.log_prob(w).numpy()
    return np.sum(half * factors * np.exp(log_q) * (log_q - log_p))


def gaussian(mean, scale):
    q = tfd.Normal(np.float64(mean), np.float64(scale))
    return q, (mean - 12 * scale, mean + 12 * scale)


def uniform(scale):
    return ZeroMeanUniform(np.float64(scale)), (-scale, scale)


def exact_reference(u):
    """u 2F2(1, 1; 3/2, 2; -u) in many digits."""
    if u > 100:
        # 0.5 log(4 u) + gamma / 2 - sum_k (2k - 1)!! / (2^(k+1) k u^k).
        terms = [
            float(special.factorial2(2 * k - 1)) / (2 ** (k + 1) * k * u**k)
            for k in range(1, 12)
        ]
        return 0.5 * (np.log(4 * u) + np.euler_gamma) - sum(terms)
    with mpmath.workdps(80):
        return float(u * mpmath.hyper([1, 1], [1.5, 2], -mpmath.mpf(u)))


def slope_reference(u):
    """The derivative of the above: D(sqrt(u)) / sqrt(u)."""
    root = np.sqrt(np.maximum(u, 1e-300))
    return special.dawsn(root) / root


def value_and_gradients(function, *arguments, jit_compile=None):
    def compute(*tensors):
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            value = function(*tensors)
        return value, tape.gradient(value, tensors)

    if jit_compile is not None:
        compute = tf.function(compute, jit_compile=jit_compile)
    value, gradients = compute(*(tf.constant(a, tf.float32) for a in arguments))
    return value.numpy(), [gradient.numpy() for gradient in gradients]
