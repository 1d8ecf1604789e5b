"""Metrics of the draws of an ensemble."""

from typing import Any

import keras
import tensorflow as tf

from tfvn.prediction.metrics.base import MeanOfExamples
from tfvn.prediction.outputs import entropy_of

Tensor = Any

# Stands in for a probability that was rounded to zero, whose logarithm would be infinite.
_SMALLEST = 1e-30


class _DrawsMetric(MeanOfExamples):
    """A metric of probabilities of shape `(batch_size, num_samples, num_classes)`.

    If there are axes between the draws and the classes, such as time, every position counts
    as one example. The metric refuses values that are not probabilities, and invalid labels.
    """

    takes_draws = True


@keras.saving.register_keras_serializable("tfvn")
class EnsembleNLL(_DrawsMetric):
    """The negative log-likelihood of the averaged probabilities, in nats.

    Args:
        name: Name of the metric.
        dtype: As in every Keras metric.
        from_logits: Whether draws are logits and not probabilities.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> metric = tfvn.metrics.EnsembleNLL()
    >>> draws = np.array([[[0.2, 0.8], [0.8, 0.2]]])  # one example, two draws
    >>> metric.update_state([0], draws)
    >>> round(float(metric.result()), 4)
    0.6931
    """

    _direction = "down"  # is better, for callbacks that monitor it

    def values_of(self, labels: Tensor, probabilities: Tensor) -> Tensor:
        mean = tf.reduce_mean(probabilities, axis=1)
        likelihood = tf.gather(mean, labels, batch_dims=1)
        return -tf.math.log(tf.maximum(likelihood, _SMALLEST))


@keras.saving.register_keras_serializable("tfvn")
class EnsembleAccuracy(_DrawsMetric):
    """How often the class with the largest averaged probability is right.

    Args:
        name: Name of the metric.
        dtype: As in every Keras metric.
        from_logits: Whether draws are logits and not probabilities.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> metric = tfvn.metrics.EnsembleAccuracy()
    >>> metric.update_state([1], np.array([[[0.2, 0.8], [0.6, 0.4]]]))
    >>> float(metric.result())
    1.0
    """

    _direction = "up"  # is better, for callbacks that monitor it

    def values_of(self, labels: Tensor, probabilities: Tensor) -> Tensor:
        mean = tf.reduce_mean(probabilities, axis=1)
        return tf.argmax(mean, axis=-1, output_type=tf.int32) == labels


@keras.saving.register_keras_serializable("tfvn")
class PredictiveEntropy(_DrawsMetric):
    """The entropy of the averaged probabilities, in nats: the total uncertainty.

    The metric ignores labels.

    Args:
        name: Name of the metric.
        dtype: As in every Keras metric.
        from_logits: Whether draws are logits and not probabilities.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> metric = tfvn.metrics.PredictiveEntropy()
    >>> metric.update_state(None, np.array([[[0.0, 1.0], [1.0, 0.0]]]))
    >>> round(float(metric.result()), 4)
    0.6931
    """

    reads_labels = False

    def values_of(self, labels: Tensor, probabilities: Tensor) -> Tensor:
        return entropy_of(tf.reduce_mean(probabilities, axis=1))


@keras.saving.register_keras_serializable("tfvn")
class MutualInformation(_DrawsMetric):
    """How far the draws disagree, in nats: the uncertainty that more data can reduce.

    It is the entropy of the averaged probabilities minus the averaged entropy. The metric
    ignores labels.

    Args:
        name: Name of the metric.
        dtype: As in every Keras metric.
        from_logits: Whether draws are logits and not probabilities.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> metric = tfvn.metrics.MutualInformation()
    >>> metric.update_state(None, np.array([[[0.5, 0.5], [0.5, 0.5]]]))
    >>> float(metric.result())
    0.0

    Reference:

    - [Houlsby et al., 2011](https://arxiv.org/abs/1112.5745), equation 2
    """

    reads_labels = False

    def values_of(self, labels: Tensor, probabilities: Tensor) -> Tensor:
        expected = tf.reduce_mean(entropy_of(probabilities), axis=1)
        return tf.maximum(
            entropy_of(tf.reduce_mean(probabilities, axis=1)) - expected, 0.0
        )
