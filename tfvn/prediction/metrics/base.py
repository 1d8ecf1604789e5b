"""What the metrics of classes share."""

from typing import Any

import keras
import tensorflow as tf

from tfvn.prediction.metrics.classes import examples_of

Tensor = Any


class ClassMetric(keras.metrics.Metric):
    """A metric of labels and of probabilities of classes, which it checks.

    A subclass implements `add(labels, probabilities, weights)`.

    Args:
        name: Name of the metric.
        dtype: Type of the result.
        from_logits: Whether predictions are logits and not probabilities.
    """

    takes_draws = False
    reads_labels = True

    def __init__(
        self, name: str | None = None, dtype: Any = None, from_logits: bool = False
    ):
        super().__init__(name=name, dtype=dtype)
        self.from_logits = from_logits

    def add(self, labels: Tensor, probabilities: Tensor, weights: Tensor) -> None:
        """Adds examples, with the attributes of `tfvn.prediction.metrics.classes.Examples`."""
        raise NotImplementedError

    def update_state(
        self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None
    ) -> None:
        """Adds a batch."""
        y_true = y_true if self.reads_labels else None
        self.add(
            *examples_of(
                y_true, y_pred, sample_weight, self.from_logits, self.takes_draws
            )
        )

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "from_logits": self.from_logits}


class MeanOfExamples(ClassMetric):
    """The mean over examples of a value that a subclass computes for each of them.

    A subclass implements `values_of(labels, probabilities)`. Sums are kept in float64,
    because float32 stops counting at 16,777,216 examples. The mean of no examples is 0, as
    in `keras.metrics.Mean`.
    """

    def __init__(
        self, name: str | None = None, dtype: Any = None, from_logits: bool = False
    ):
        super().__init__(name, dtype, from_logits)
        self.total, self.count = (
            self.add_variable((), initializer="zeros", dtype="float64", name=part)
            for part in ("total", "count")
        )

    def values_of(self, labels: Tensor, probabilities: Tensor) -> Tensor:
        """Returns a value for each example."""
        raise NotImplementedError

    def add(self, labels: Tensor, probabilities: Tensor, weights: Tensor) -> None:
        values = tf.cast(self.values_of(labels, probabilities), tf.float64)
        # Examples with a weight of 0 do not count, even if their value is NaN.
        values = tf.where(weights != 0.0, values, 0.0)
        self.total.assign_add(tf.reduce_sum(weights * values))
        self.count.assign_add(tf.reduce_sum(weights))

    def result(self) -> Tensor:
        mean = tf.math.divide_no_nan(self.total.value, self.count.value)
        return tf.cast(mean, self.dtype)
