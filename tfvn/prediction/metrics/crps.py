"""The continuous ranked probability score of draws and of mixtures."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow_probability import distributions as tfd

from tfvn.likelihoods import Laplace, Normal
from tfvn.prediction.distribution import PredictiveDistribution

# The largest number of pairs of draws, or of quantiles, in memory at a time.
_NUMBERS_AT_A_TIME = 4_000_000

# Of the double-exponential rule: nodes on each side of the target, and how far they go.
_NODES = 40
_REACH = 3.2


def crps_of_draws(draws: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Returns the score of the empirical distribution of draws.

    Args:
        draws: Draws of the target, the draws on axis 1.
        y: Targets.

    Returns:
        An array of the shape of `y`.
    """
    count = draws.shape[1]
    error = np.abs(draws - y[:, None]).mean(axis=1)
    # Half of the mean distance of two draws, computed from the sorted draws.
    order = 2 * np.arange(1, count + 1) - count - 1
    order = order.reshape(-1, *[1] * (draws.ndim - 2))
    return error - np.sum(order * np.sort(draws, axis=1), axis=1) / count**2


def crps_of_mixture(answer: PredictiveDistribution, y: np.ndarray) -> np.ndarray:
    """Returns the score of a predictive distribution.

    Args:
        answer: The prediction.
        y: Targets, of the shape of its mean.
    """
    likelihood: Any = answer.likelihood
    if isinstance(likelihood, Normal):
        return _by_distances(answer, y, _normal_distance)
    if isinstance(likelihood, Laplace):
        return _by_distances(answer, y, _laplace_distance)
    if likelihood.discrete:
        return _of_counts(answer, y)
    return _by_integration(answer, y)


def _by_distances(
    answer: PredictiveDistribution, y: np.ndarray, distance: Callable
) -> np.ndarray:
    """Returns the score from mean distances: of draws to targets, and of pairs of draws.

    Args:
        answer: The prediction.
        y: Targets.
        distance: Returns the mean of `|location + scale X + other_scale X'|`, where `X` and
            `X'` have the standard distribution of the family. `other_scale` defaults to
            zero.
    """
    outputs: Any = answer.outputs
    likelihood: Any = answer.likelihood
    draws = outputs.shape[1]
    size = max(1, _NUMBERS_AT_A_TIME // max(1, draws**2 * int(np.prod(y.shape[1:]))))
    scores = [np.zeros_like(y[:0])]
    for start in range(0, len(y), size):
        rows = slice(start, start + size)
        laws = likelihood.distribution(tf.constant(outputs[rows], tf.float64))
        location, scale = (
            np.broadcast_to(part.numpy(), (len(y[rows]), draws, *y.shape[1:]))
            for part in (laws.loc, laws.scale)
        )
        error = distance(y[rows, None] - location, scale).mean(axis=1)
        pairs = distance(
            location[:, :, None] - location[:, None],
            scale[:, :, None],
            scale[:, None],
        )
        scores.append(error - 0.5 * pairs.mean(axis=(1, 2)))
    return np.concatenate(scores)


def _normal_distance(
    location: np.ndarray, scale: np.ndarray, other_scale: Any = 0.0
) -> np.ndarray:
    scale = np.hypot(scale, other_scale)
    z = location / scale
    standard = tfd.Normal(tf.zeros((), tf.float64), tf.ones((), tf.float64))
    return location * (2.0 * standard.cdf(z).numpy() - 1.0) + 2.0 * scale * (
        standard.prob(z).numpy()
    )


def _laplace_distance(
    location: np.ndarray, scale: np.ndarray, other_scale: Any = None
) -> np.ndarray:
    distance = np.abs(location)
    if other_scale is None:
        return distance + scale * np.exp(-distance / scale)
    # By partial fractions of the characteristic function, with a and b for the scales,
    # |location| + (g(a) - g(b)) / (a^2 - b^2), where g(a) = a^3 exp(-|location| / a). The
    # quotient is rewritten so that nothing cancels if the scales are close.
    a, b = np.maximum(scale, other_scale), np.minimum(scale, other_scale)
    gap = a - b
    ratio = -np.expm1(-3.0 * np.log1p(gap / b) - distance * gap / (a * b))
    tail = np.exp(-distance / a)
    with np.errstate(invalid="ignore"):
        apart = a**3 * ratio / (gap * (a + b))
    same = 0.5 * (3.0 * a + distance)  # the limit of equal scales
    return distance + tail * np.where(gap > 0.0, apart, same)


def _of_counts(answer: PredictiveDistribution, y: np.ndarray) -> np.ndarray:
    """Returns the sum of `(F(k) - 1[k >= y])**2` over all counts `k`."""
    if not y.size:
        return np.zeros_like(y)
    # Each target has its own range of counts, outside of which `F` is 0 or 1. Every count
    # between the target and that range adds 1.
    first, last = answer.quantile(1e-12), answer.quantile(1.0 - 1e-12)
    start = np.ceil(y)
    total = np.maximum(first - start, 0.0) + np.maximum(start - 1.0 - last, 0.0)
    outputs: Any = answer.outputs
    size = max(1, _NUMBERS_AT_A_TIME // outputs.size)
    width = int(np.max(last - first)) + 1
    for offset in range(0, width, size):
        steps = np.arange(offset, min(offset + size, width), dtype="float64")
        counts = first + steps.reshape(-1, *[1] * y.ndim)
        squares = (answer.cdf_of_each(counts) - (counts >= y)) ** 2
        total += np.where(counts <= last, squares, 0.0).sum(axis=0)
    return total


def _by_integration(answer: PredictiveDistribution, y: np.ndarray) -> np.ndarray:
    """Returns the score by its quantiles `Q`.

    It is the integral of `2 q (y - Q(q))` from 0 to `F(y)`, and of
    `2 (1 - q) (Q(q) - y)` from there to 1. Both integrands have no end at 0 and at 1, which
    the double-exponential rule does not mind.
    """
    # Nodes in (0, 1), of which those next to 0 have all their digits.
    t = np.linspace(-_REACH, _REACH, _NODES)
    step = t[1] - t[0]
    argument = 0.5 * np.pi * np.sinh(t)
    nodes = 1.0 / (1.0 + np.exp(-2.0 * argument))
    weights = step * 0.5 * np.pi * np.cosh(t) / (2.0 * np.cosh(argument) ** 2)
    nodes, weights = (part.reshape(-1, *[1] * y.ndim) for part in (nodes, weights))
    below = answer.cdf(y)
    left, right = below * nodes, (1.0 - below) * nodes
    levels = np.clip(np.concatenate([left, 1.0 - right]), 1e-300, 1.0 - 1e-16)
    first, second = np.split(answer.quantile_of_each(levels), 2)
    total = below * left * (y - first) + (1.0 - below) * right * (second - y)
    return np.sum(2.0 * weights * total, axis=0)
