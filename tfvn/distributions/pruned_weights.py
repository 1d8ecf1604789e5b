"""The distribution of weights of which some are pruned."""

from typing import Any

import tensorflow as tf

from tfvn.distributions.scalar import ScalarDistribution

Tensor = Any


class PrunedWeights(ScalarDistribution):
    """Weights of which some are pruned, that is exactly zero.

    A pruned weight has no density but an atom: its `log_prob` is 0 at zero, the logarithm
    of a probability of 1, and minus infinity elsewhere. Its mean and its variance are zero.
    The KL to any prior is that of the weights that are kept; a pruned weight adds nothing.

    Args:
        distribution: The distribution of the weights before pruning.
        is_kept: For each weight whether it is kept, in the shape of the weights.
        name: Name of the distribution.

    Example:

    >>> import tensorflow as tf
    >>> import tfvn
    >>> weights = tfvn.distributions.ZeroMeanNormal(tf.constant([1.0, 2.0]))
    >>> pruned = tfvn.distributions.PrunedWeights(weights, [True, False])
    >>> pruned.stddev().numpy().tolist()
    [1.0, 0.0]
    """

    def __init__(self, distribution: Any, is_kept: Any, name: str = "PrunedWeights"):
        parameters = dict(locals())
        self.distribution = distribution
        self.is_kept = tf.convert_to_tensor(is_kept)
        super().__init__(
            parameters, distribution.dtype, distribution.reparameterization_type
        )

    def kept_or_zero(self, values: Tensor) -> Tensor:
        """Returns values of the weights, with zeros in place of those of pruned weights."""
        return tf.where(self.is_kept, values, tf.zeros((), values.dtype))

    @classmethod
    def _parameter_properties(cls, dtype: Any, num_classes: Any = None) -> dict:
        return {}

    def _batch_shape(self) -> tf.TensorShape:
        return self.distribution.batch_shape

    def _batch_shape_tensor(self) -> Tensor:
        return self.distribution.batch_shape_tensor()

    def _sample_n(self, n: Any, seed: Any = None) -> Tensor:
        return self.kept_or_zero(self.distribution.sample(n, seed=seed))

    def _log_prob(self, value: Tensor) -> Tensor:
        kept = self.distribution.log_prob(value)
        atom = tf.where(value == 0, 0.0, -float("inf"))
        return tf.where(self.is_kept, kept, tf.cast(atom, kept.dtype))

    def _cdf(self, value: Tensor) -> Tensor:
        kept = self.distribution.cdf(value)
        return tf.where(self.is_kept, kept, tf.cast(value >= 0, kept.dtype))

    def _mean(self) -> Tensor:
        return self.kept_or_zero(self.distribution.mean())

    def _variance(self) -> Tensor:
        return self.kept_or_zero(self.distribution.variance())

    def _stddev(self) -> Tensor:
        return self.kept_or_zero(self.distribution.stddev())

    def __getitem__(self, slices: Any) -> "PrunedWeights":
        return PrunedWeights(self.distribution[slices], self.is_kept[slices])
