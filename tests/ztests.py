"""Tests of samples against known moments.

Every assertion here is a z-test: the distance between what was measured and what was
expected, in standard errors, has to stay below a threshold that a right answer passes
with probability 1 - 1e-4, however many elements are looked at. With the fixed seeds of
the tests the outcome never changes; the threshold says how much a pass is worth.
"""

import numpy as np
from scipy import stats

FAILURE = 1e-4


def assert_moments(samples, mean, variance, rounding=1e-5):
    """Asserts the mean and the variance of each element of the samples.

    The mean is tested with the expected variance. The variance is tested with the
    fourth moment of the samples, so that nothing is assumed about their law.

    Args:
        samples: Array of independent draws along its first axis.
        mean: Expected mean of each element.
        variance: Expected variance of each element.
        rounding: Relative error that the arithmetic may add.
    """
    samples, mean, variance = _as_float64(samples, mean, variance)
    size = np.sqrt(variance) + np.abs(mean)
    _assert_close(
        "mean",
        samples.mean(0),
        mean,
        np.hypot(np.sqrt(variance / len(samples)), rounding * size),
    )
    squares = np.square(samples - mean)
    _assert_close(
        "variance",
        squares.mean(0),
        variance,
        np.hypot(squares.std(0) / np.sqrt(len(samples)), rounding * size**2),
    )


def assert_mean(samples, mean, rounding=1e-5):
    """Asserts the mean of each element, with the variance of the samples."""
    samples, mean = _as_float64(samples, mean)
    error = samples.std(0) / np.sqrt(len(samples))
    _assert_close("mean", samples.mean(0), mean, np.hypot(error, rounding * abs(mean)))


def assert_uncorrelated(first, second):
    """Asserts that draws of `first` and of `second`, element by element, don't move together."""
    first, second = _as_float64(first, second)
    count = len(first)
    correlation = np.mean(stats.zscore(first) * stats.zscore(second), axis=0)
    _assert_close(
        "correlation", correlation, 0.0, np.full_like(correlation, count**-0.5)
    )


def assert_follows(samples, law):
    """Asserts by a Kolmogorov-Smirnov test that samples follow a `scipy.stats` law."""
    probability = stats.kstest(np.ravel(samples).astype("float64"), law.cdf).pvalue
    assert probability > FAILURE, f"KS test: p = {probability:.1e}"


def threshold(count):
    """Returns what the largest of `count` absolute z-scores stays below."""
    return stats.norm.isf(FAILURE / (2 * count))


def _as_float64(*arrays):
    return [np.asarray(array, dtype="float64") for array in arrays]


def _assert_close(what, measured, expected, error):
    measured, expected, error = np.broadcast_arrays(measured, expected, error)
    assert np.all(np.isfinite(measured)), f"The {what} is not finite: {measured}"
    distance = np.abs(measured - expected)
    score = np.divide(
        distance, error, out=np.where(distance > 0, np.inf, 0.0), where=error > 0
    )
    worst = np.unravel_index(np.argmax(score), score.shape)
    limit = threshold(score.size)
    assert score[worst] < limit, (
        f"The {what} of element {tuple(map(int, worst))} is {measured[worst]:.6g}, "
        f"expected {expected[worst]:.6g}: {score[worst]:.1f} standard errors of "
        f"{error[worst]:.2g}, where the worst of {score.size} may be {limit:.1f} off"
    )
