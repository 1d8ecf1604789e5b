"""What the metrics share: what labels, probabilities and draws look like."""

from typing import Any

import keras
import tensorflow as tf

Tensor = Any


class MeanOfExamples(keras.metrics.Mean):
    """The mean of a figure that each example has.

    A subclass says what it is: `value_of(y_true, y_pred)`.
    """

    def value_of(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        """Returns a figure for each example."""
        raise NotImplementedError

    def update_state(
        self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None
    ) -> None:
        """Adds a batch."""
        y_pred = tf.cast(y_pred, tf.float32)
        super().update_state(self.value_of(y_true, y_pred), sample_weight)


def class_probabilities(y_pred: Tensor) -> Tensor:
    """Returns the probability of each class, also for binary predictions.

    Args:
        y_pred: Probabilities of classes, `(..., num_classes)`, or of the second of two,
            `(..., 1)`.
    """
    if (
        y_pred.shape.rank is not None
        and y_pred.shape.rank > 0
        and y_pred.shape[-1] == 1
    ):
        return tf.concat([1.0 - y_pred, y_pred], axis=-1)
    return y_pred


def class_labels(y_true: Tensor, num_classes: int) -> Tensor:
    """Returns labels as integers, also of one-hot ones.

    Args:
        y_true: Integers `(batch_size,)` or `(batch_size, 1)`, or one-hot
            `(batch_size, num_classes)`.
        num_classes: Number of classes.
    """
    y_true = tf.convert_to_tensor(y_true)
    if y_true.shape.rank == 1:
        return tf.cast(y_true, tf.int32)
    if y_true.shape.rank == 2 and y_true.shape[-1] == 1:
        return tf.cast(y_true[:, 0], tf.int32)
    if y_true.shape.rank == 2 and y_true.shape[-1] == num_classes:
        return tf.argmax(y_true, axis=-1, output_type=tf.int32)
    raise ValueError(
        "Labels must be integers, one for each example, or one-hot for "
        f"{num_classes} classes. Received: y_true of shape {tuple(y_true.shape)}"
    )


def check_rank(y_pred: Tensor, rank: int, form: str) -> None:
    """Raises unless predictions have a number of axes."""
    if y_pred.shape.rank != rank:
        raise ValueError(
            f"Predictions must be {form}. Received: y_pred of shape {tuple(y_pred.shape)}"
        )


def entropy(probabilities: Tensor) -> Tensor:
    """Returns the entropy along the last axis, in nats."""
    return -tf.reduce_sum(tf.math.xlogy(probabilities, probabilities), axis=-1)
