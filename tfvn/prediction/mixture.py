"""The mixture over the draws of an ensemble: its prediction for the targets."""

import math
from typing import Any

import tensorflow as tf

from tfvn.likelihoods import Likelihood

Tensor = Any

# So many steps of bisection reach the precision of float64, even if the interval is at
# first 40 orders of magnitude wider than the result is large.
_MOST_STEPS = 200


class Mixture:
    """The mixture, with equal weights, of the distributions of the draws.

    With several targets, each target has its own mixture.

    Args:
        likelihood: The family of distributions.
        outputs: Draws of outputs, a tensor of shape `(rows, draws, ...)`.

    Attributes:
        means: The means of the draws.
        moments: The mean and the standard deviations of the mixture, by name.
    """

    def __init__(self, likelihood: Likelihood, outputs: Tensor):
        self._likelihood, self._outputs = likelihood, outputs
        parts = likelihood.distribution(outputs)
        self.means, self._variances = parts.mean(), parts.variance()
        aleatoric = tf.reduce_mean(self._variances, axis=1)
        epistemic = tf.math.reduce_variance(self.means, axis=1)
        self.moments = {
            "mean": tf.reduce_mean(self.means, axis=1),
            # The law of total variance.
            "std": tf.sqrt(aleatoric + epistemic),
            "aleatoric_std": tf.sqrt(aleatoric),
            "epistemic_std": tf.sqrt(epistemic),
        }

    def log_prob(self, y: Tensor) -> Tensor:
        """Returns the logarithm of the density at targets of the shape of the mean."""
        each = self._likelihood.log_prob(self._outputs, y[:, None])
        count = tf.cast(tf.shape(each)[1], each.dtype)
        return tf.reduce_logsumexp(each, axis=1) - tf.math.log(count)

    def cdf(self, y: Tensor) -> Tensor:
        """Returns the probability that a target is not larger than `y`."""
        return tf.reduce_mean(self._likelihood.cdf(self._outputs, y[:, None]), axis=1)

    def quantile(self, q: Tensor) -> Tensor:
        """Returns the quantile: a target is not larger than this with probability `q`.

        Args:
            q: A number, or a tensor of the shape of the mean.
        """
        scale = tf.reduce_min(tf.sqrt(self._variances), axis=1)
        mean, std = self.moments["mean"], self.moments["std"]
        return self._inverse(self.cdf, mean, std, scale, q)

    def outcomes(self, uniform: Tensor) -> Tensor:
        """Returns a target sampled from the distribution of each draw.

        Args:
            uniform: Uniform numbers in (0, 1), of the shape of the draws' means.
        """

        def cdf(y: Tensor) -> Tensor:
            return self._likelihood.cdf(self._outputs, y)

        stds = tf.sqrt(self._variances)
        uniform = tf.ensure_shape(uniform, self.means.shape)
        return self._inverse(cdf, self.means, stds, stds, uniform)

    def _inverse(
        self, cdf: Any, mean: Tensor, std: Tensor, scale: Tensor, q: Tensor
    ) -> Tensor:
        """Returns the smallest `y` with `cdf(y) >= q`, by bisection.

        Args:
            cdf: A distribution function, elementwise.
            mean: Its mean.
            std: Its standard deviation.
            scale: Standard deviation of the narrowest distribution in the mixture.
            q: Probabilities in (0, 1).
        """
        is_discrete = self._likelihood.discrete
        q = tf.cast(q, mean.dtype) * tf.ones_like(mean)
        # By Cantelli's inequality, the quantile of every distribution is within this
        # interval, which is made a little wider to allow for rounding.
        odds = q / (1.0 - q)
        largest = mean.dtype.max / 4
        low = mean - std * (1.001 * tf.math.rsqrt(odds)) - 1e-6 * tf.abs(mean)
        high = mean + std * (1.001 * tf.sqrt(odds)) + 1e-6 * tf.abs(mean)
        low, high = (tf.clip_by_value(edge, -largest, largest) for edge in (low, high))
        # The precision is relative to the result or, if that may be zero, to the scale.
        small = 1e-10 * scale * (1.0 if self._likelihood.above == -math.inf else 0.0)
        if is_discrete:
            low, high = tf.floor(low) - 1.0, tf.math.ceil(high)

        def middle_of(low: Tensor, high: Tensor) -> Tensor:
            middle = low + 0.5 * (high - low)
            return tf.floor(middle) if is_discrete else middle

        def is_wide(step: Tensor, low: Tensor, high: Tensor) -> Tensor:
            middle = middle_of(low, high)
            is_open = (low < middle) & (middle < high)
            if not is_discrete:
                size = tf.maximum(tf.abs(low), tf.abs(high))
                is_open &= high - low > tf.maximum(1e-10 * size, small)
            return tf.reduce_any(is_open)

        def halve(step: Tensor, low: Tensor, high: Tensor) -> Any:
            middle = middle_of(low, high)
            is_above = cdf(middle) >= q
            low = tf.where(is_above, low, middle)
            return step + 1, low, tf.where(is_above, middle, high)

        _, _, high = tf.while_loop(
            is_wide, halve, (0, low, high), maximum_iterations=_MOST_STEPS
        )
        return high
