"""KL divergences from a posterior to a prior, in nats.

Closed forms are registered with TFP, so that `tfd.kl_divergence(q, p)` finds them. To add a
pair of distributions, register one function. Constants that have no gradient are left out;
the docstring of `LogUniform` names them.
"""

from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from tensorflow_probability import distributions as tfd

from tfvn.distributions import (
    ARD,
    KTiedNormal,
    LogUniform,
    LogVarianceNormal,
    MultiplicativeNormal,
    PrunedWeights,
    RotatedNormal,
    ZeroMeanNormal,
    ZeroMeanUniform,
)
from tfvn.distributions.sums_over_weights import (
    quick_sum_of_squares,
    sum_of_logs,
    sum_of_squares,
)

__all__ = ["log_uniform_exact", "log_uniform_molchanov", "monte_carlo", "total"]

Tensor = Any

# Molchanov et al. (2017), equation 14.
_MOLCHANOV = (0.63576, 1.87320, 1.48695)

# Stands in for a weight of zero, where some priors have a pole.
_SMALLEST_WEIGHT = 1e-12

# The largest ratio of mean to scale whose square fits in float32.
_LARGEST_RATIO = 1e18

# r(u) = (exp(2 KL(u)) - 1) / (2 u) rises smoothly from 1 at u = 0 to 2 exp(gamma) at
# infinity. These are the coefficients, lowest power first, of the polynomial in
# x = (u - 5) / (u + 5), which maps [0, inf) onto [-1, 1), through 15 Chebyshev nodes.
# In float32 the resulting KL has a relative error of at most 6e-7.
_MIDPOINT = 5.0
_RATIO_COEFFICIENTS = (
    3.04461228,
    1.18772811,
    -1.34501757,
    0.74523123,
    0.75221878,
    -1.37537546,
    -0.13190839,
    1.24906536,
    -0.05712686,
    -0.77851581,
    -0.01425557,
    0.31221997,
    0.05153470,
    -0.05928222,
    -0.01898625,
)

# The constants that the closed forms to the log-uniform prior with C = 1 leave out: for a
# Normal the KL in the limit of an infinite alpha, (digamma(1/2) - log(pi e)) / 2, and for a
# symmetric uniform distribution -(1 + log 2).
_LEFT_OUT = {tfd.Normal: -2.0541199559, ZeroMeanUniform: -1.6931471806}


def log_uniform_exact(mean: Tensor, scale: Tensor) -> Tensor:
    """Returns the exact KL from a Gaussian to the log-uniform prior, per weight.

    With `u = mean^2 / (2 scale^2)` this is `u 2F2(1, 1; 3/2, 2; -u)`, whose
    derivative is `D(sqrt(u)) / sqrt(u)`, where `D` is the Dawson integral. The additive
    constant is chosen so that the KL goes to 0 as `alpha = scale^2 / mean^2` goes to
    infinity; the true KL to the improper prior `C / |w|` is smaller by
    2.0541200 + log C.

    Args:
        mean: Means of the weights.
        scale: Standard deviations of the weights, positive.

    Returns:
        The KL of each weight, in nats.

    Example:

    >>> import tfvn
    >>> round(float(tfvn.kl.log_uniform_exact(1.0, 1.0)), 4)
    0.4267

    Reference:

    - [Hron et al., 2017](https://arxiv.org/abs/1711.02989), remark 1, which gives `u` as
      `1 / alpha`; the correct value is `1 / (2 alpha)`
    """
    mean = tf.convert_to_tensor(mean)
    ratio = mean / tf.convert_to_tensor(scale, dtype=mean.dtype)
    ratio = tf.clip_by_value(ratio, -_LARGEST_RATIO, _LARGEST_RATIO)
    return _log_uniform_of_u(0.5 * tf.square(ratio))


@tf.custom_gradient
def _log_uniform_of_u(u: Tensor) -> Any:
    x = (u - _MIDPOINT) / (u + _MIDPOINT)
    ratio = tf.zeros_like(u)
    for coefficient in reversed(_RATIO_COEFFICIENTS):
        ratio = ratio * x + coefficient
    value = 0.5 * tf.math.log1p(2.0 * u * ratio)

    def gradient(upstream: Tensor) -> Tensor:
        # D(s) / s is 1 - 2 u / 3 near zero, where the quotient would be 0 / 0.
        is_small = u < 1e-4
        root = tf.sqrt(tf.where(is_small, tf.ones_like(u), u))
        slope = tf.where(is_small, 1.0 - u * (2.0 / 3.0), tfp.math.dawsn(root) / root)
        return upstream * slope

    return value, gradient


def log_uniform_molchanov(log_alpha: Tensor) -> Tensor:
    """Returns Molchanov's approximation of the KL to the log-uniform prior, per weight.

    It is `k1 sigmoid(-(k2 + k3 log_alpha)) + 0.5 softplus(-log_alpha)`: never
    negative, and 0 as `alpha` goes to infinity, where the true KL to the improper
    prior differs by a constant. Its largest error against `log_uniform_exact` is
    0.0094, at `log_alpha` = -3.5.

    Args:
        log_alpha: `log(scale^2 / mean^2)` of the weights.

    Returns:
        The KL of each weight, in nats.

    Example:

    >>> import tfvn
    >>> round(float(tfvn.kl.log_uniform_molchanov(0.0)), 4)
    0.4312

    Reference:

    - [Molchanov et al., 2017](https://arxiv.org/abs/1701.05369), equation 14
    """
    log_alpha = tf.convert_to_tensor(log_alpha)
    k1, k2, k3 = _MOLCHANOV
    falling = k1 * tf.sigmoid(-(k2 + k3 * log_alpha))
    return falling + 0.5 * tf.math.softplus(-log_alpha)


def monte_carlo(
    posterior: tfd.Distribution, prior: tfd.Distribution, weights: Tensor
) -> Tensor:
    """Estimates the KL from a sample of the posterior, per weight if they are independent.

    The estimate and its gradient are unbiased, but a single estimate can be negative. It
    leaves out the same constants as the closed forms.

    Args:
        posterior: The distribution of the weights.
        prior: The prior of the weights.
        weights: A reparameterized sample of `posterior`.

    Returns:
        `log q(weights) - log p(weights)`, and 0 for weights that are pruned.
    """
    if isinstance(posterior, PrunedWeights):
        return posterior.kept_or_zero(
            monte_carlo(posterior.distribution, prior, weights)
        )
    # Some priors have a pole at zero, and a sampled weight may be exactly zero.
    is_zero = tf.abs(weights) < _SMALLEST_WEIGHT
    off_zero = tf.where(is_zero, tf.cast(_SMALLEST_WEIGHT, weights.dtype), weights)
    log_prior = prior.log_prob(off_zero)
    if posterior.event_shape.rank:
        # Correlated weights have one density, that of all of them.
        log_prior = tf.reduce_sum(log_prior)
    divergence = posterior.log_prob(weights) - log_prior
    if isinstance(prior, LogUniform):
        for law, constant in _LEFT_OUT.items():
            if isinstance(posterior, law):
                divergence -= constant
    return divergence


def total(posterior: tfd.Distribution, prior: tfd.Distribution) -> Tensor:
    """Returns the closed-form KL, summed over all weights.

    Args:
        posterior: The distribution of the weights.
        prior: The prior of the weights.

    Returns:
        `sum(tfd.kl_divergence(posterior, prior))`, computed in the cheapest way.
    """
    # If all weights have the same Normal prior, the KL needs only sums over the weights.
    is_same_normal = type(prior) is tfd.Normal and prior.batch_shape.rank == 0
    if isinstance(posterior, tfd.Normal) and is_same_normal:
        return _total_normal(posterior, prior)
    if isinstance(posterior, MultiplicativeNormal) and isinstance(
        prior, LogUniform | ARD
    ):
        # Weights that share an alpha share the KL.
        divergence = _multiplicative(posterior.log_alpha, prior)
        size = tf.size(posterior.loc) / tf.size(divergence)
        return tf.reduce_sum(divergence) * tf.cast(size, divergence.dtype)
    return tf.reduce_sum(tfd.kl_divergence(posterior, prior))


def _total_normal(q: tfd.Normal, p: tfd.Normal) -> Tensor:
    # The sum of log(p.scale / q.scale) + (q.scale^2 + (q.loc - p.loc)^2) / (2 p.scale^2)
    # - 1 / 2 over the weights, from sums that cost few passes over them. The sums are
    # float64, because near the prior they cancel.
    # `tf.custom_gradient` does not accept the variables of a strategy, only tensors.
    q_loc, q_scale = tf.convert_to_tensor(q.loc), tf.convert_to_tensor(q.scale)
    if isinstance(q, KTiedNormal):
        squares, logs = q.sum_of_variances(), q.sum_of_log_scales()
    elif isinstance(q, LogVarianceNormal):
        squares, log_squares = q.sums()
        logs = 0.5 * log_squares
    else:
        squares, logs = sum_of_squares(q_scale), sum_of_logs(q_scale)
    size = tf.cast(tf.size(q_scale), tf.float64)
    loc, scale = tf.cast(p.loc, tf.float64), tf.cast(p.scale, tf.float64)
    if isinstance(q, ZeroMeanNormal):
        squares += size * tf.square(loc)
    else:
        squares += quick_sum_of_squares(_minus(q_loc, p.loc))
    divergence = 0.5 * (squares / tf.square(scale) - size)
    divergence += size * tf.math.log(scale) - logs
    return tf.cast(divergence, q.dtype)


def _minus(x: Tensor, y: Tensor) -> Tensor:
    # Most priors have a mean of zero; then no pass over the weights is needed. This is
    # checked in graphs only: in eager code the mean may be trained and zero by chance.
    known = None if tf.executing_eagerly() else tf.get_static_value(y)
    return x if known is not None and not np.any(known) else x - y


def _multiplicative(log_alpha: Tensor, p: LogUniform | ARD) -> Tensor:
    if isinstance(p, ARD):
        return 0.5 * tf.math.softplus(-log_alpha)
    if p.kl == "exact":
        return _log_uniform_of_u(0.5 * tf.exp(-log_alpha))
    return log_uniform_molchanov(log_alpha)


@tfd.RegisterKL(MultiplicativeNormal, LogUniform)
@tfd.RegisterKL(MultiplicativeNormal, ARD)
def _multiplicative_normal(q: Any, p: Any, name: str | None = None) -> Tensor:
    with tf.name_scope(name or "kl_multiplicative_normal"):
        return tf.broadcast_to(_multiplicative(q.log_alpha, p), tf.shape(q.loc))


@tfd.RegisterKL(RotatedNormal, tfd.Normal)
def _rotated_normal(q: Any, p: Any, name: str | None = None) -> Tensor:
    with tf.name_scope(name or "kl_rotated_normal"):
        # In float64, because the sums are long and cancel. A rotation changes no volume.
        moments = tf.cast(q.variance() + tf.square(q.loc - p.loc), tf.float64)
        scale, along = (tf.cast(d.scale, tf.float64) for d in (p, q))
        terms = 0.5 * (moments / tf.square(scale) - 1.0) + tf.math.log(scale)
        divergence = tf.reduce_sum(terms) - tf.reduce_sum(tf.math.log(along))
        return tf.cast(divergence, q.dtype)


@tfd.RegisterKL(tfd.Normal, tfd.Laplace)
def _normal_laplace(q: Any, p: Any, name: str | None = None) -> Tensor:
    with tf.name_scope(name or "kl_normal_laplace"):
        # The mean of a folded normal, in units of its scale.
        ratio = tf.clip_by_value(
            (q.loc - p.loc) / q.scale, -_LARGEST_RATIO, _LARGEST_RATIO
        )
        folded = np.sqrt(2.0 / np.pi) * tf.exp(-0.5 * tf.square(ratio))
        folded += ratio * tf.math.erf(ratio * np.sqrt(0.5))
        entropy = 0.5 * np.log(2.0 * np.pi * np.e) + tf.math.log(q.scale)
        return tf.math.log(2.0 * p.scale) + q.scale * folded / p.scale - entropy


@tfd.RegisterKL(tfd.Normal, LogUniform)
def _normal_log_uniform(
    q: tfd.Normal, p: LogUniform, name: str | None = None
) -> Tensor:
    with tf.name_scope(name or "kl_normal_log_uniform"):
        if p.kl == "exact":
            return log_uniform_exact(q.loc, q.scale)
        # The mean is kept above zero, where alpha would be infinite; the KL is 0 there.
        mean = tf.maximum(tf.abs(q.loc), np.finfo(np.float32).tiny)
        return log_uniform_molchanov(2.0 * (tf.math.log(q.scale) - tf.math.log(mean)))


@tfd.RegisterKL(ZeroMeanNormal, LogUniform)
@tfd.RegisterKL(ZeroMeanUniform, LogUniform)
@tfd.RegisterKL(ZeroMeanNormal, ARD)
def _zero_mean_constant(q: Any, p: Any, name: str | None = None) -> Tensor:
    with tf.name_scope(name or "kl_zero_mean_constant"):
        return tf.zeros(q.batch_shape_tensor(), q.dtype)


@tfd.RegisterKL(tfd.Normal, ARD)
def _normal_ard(q: tfd.Normal, p: ARD, name: str | None = None) -> Tensor:
    with tf.name_scope(name or "kl_normal_ard"):
        ratio = tf.clip_by_value(q.loc / q.scale, -_LARGEST_RATIO, _LARGEST_RATIO)
        return 0.5 * tf.math.log1p(tf.square(ratio))


@tfd.RegisterKL(tfd.Uniform, tfd.Normal)
def _uniform_normal(q: tfd.Uniform, p: tfd.Normal, name: str | None = None) -> Tensor:
    with tf.name_scope(name or "kl_uniform_normal"):
        second_moment = q.variance() + tf.square(q.mean() - p.loc)
        entropy = tf.math.log(q.range())
        log_normalizer = 0.5 * np.log(2.0 * np.pi) + tf.math.log(p.scale)
        return log_normalizer + second_moment / (2.0 * tf.square(p.scale)) - entropy


@tfd.RegisterKL(PrunedWeights, tfd.Distribution)
def _of_kept_weights(q: PrunedWeights, p: Any, name: str | None = None) -> Tensor:
    with tf.name_scope(name or "kl_of_kept_weights"):
        return q.kept_or_zero(tfd.kl_divergence(q.distribution, p))
