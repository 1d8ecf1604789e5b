"""What the metrics share: sums in float64, weights of examples, and checks of inputs."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfvn.utils import private

Tensor = Any


class MeanOfExamples(keras.metrics.Metric):
    """The mean over examples of a value that a subclass computes for each of them.

    A subclass implements `value_of(y_true, y_pred)`. Sums are kept in float64, because
    float32 stops counting at 16,777,216 examples. The mean of no examples is 0, as in
    `keras.metrics.Mean`.

    Args:
        name: Name of the metric.
        dtype: Type of the result.
    """

    def __init__(self, name: str | None = None, dtype: Any = None):
        super().__init__(name=name, dtype=dtype)
        self.total, self.count = (
            self.add_variable((), initializer="zeros", dtype="float64", name=part)
            for part in ("total", "count")
        )

    def value_of(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        """Returns a value for each example."""
        raise NotImplementedError

    def update_state(
        self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None
    ) -> None:
        """Adds a batch."""
        mask = mask_of(y_pred)
        values = tf.convert_to_tensor(
            self.value_of(y_true, tf.cast(y_pred, tf.float32))
        )
        self.add(values, weights_of(sample_weight, mask, values))

    def add(self, values: Tensor, weights: Tensor) -> None:
        """Adds the values of examples.

        Args:
            values: The values.
            weights: Weights of the same shape, in float64. Examples with a weight of 0 do
                not count, even if their value is NaN.
        """
        values = tf.where(weights != 0.0, tf.cast(values, tf.float64), 0.0)
        self.total.assign_add(tf.reduce_sum(weights * values))
        self.count.assign_add(tf.reduce_sum(weights))

    def result(self) -> Tensor:
        mean = tf.math.divide_no_nan(self.total.value, self.count.value)
        return tf.cast(mean, self.dtype)


def mask_of(y_pred: Tensor) -> Tensor | None:
    """Returns Keras's mask of predictions, for instance of padded time steps, or `None`."""
    return private.get_keras_mask(y_pred)


def weights_of(
    sample_weight: Tensor | None, mask: Tensor | None, like: Tensor
) -> Tensor:
    """Returns the weight of each example, in float64.

    Args:
        sample_weight: Weights of the examples or of their first axes, or `None`.
        mask: A mask of the examples or of their first axes, or `None`.
        like: A tensor with one element for each example.
    """
    weights = tf.ones(tf.shape(like), tf.float64)
    for given in (sample_weight, mask):
        if given is not None:
            given = tf.cast(tf.convert_to_tensor(given), tf.float64)
            weights *= _spread(given, like)
    return weights


def _spread(given: Tensor, like: Tensor) -> Tensor:
    """Returns weights broadcast over the last axes of `like` that they do not have."""
    rank = like.shape.rank
    if given.shape.rank == rank + 1 and given.shape[-1] == 1:
        given = given[..., 0]
    missing = rank - given.shape.rank
    if missing < 0 or not given.shape.is_compatible_with(like.shape[: rank - missing]):
        raise ValueError(
            "Argument `sample_weight` must have a weight for each example, of shape "
            f"{_written(like.shape)}. Received: sample_weight of shape "
            f"{_written(given.shape)}"
        )
    checked = refuse_unless(
        tf.reduce_all(tf.shape(given) == tf.shape(like)[: rank - missing]),
        "Argument `sample_weight` must have a weight for each example.",
        tf.shape(given),
    )
    with tf.control_dependencies(checked):
        return tf.broadcast_to(given[(..., *[None] * missing)], tf.shape(like))


def refuse_unless(condition: Tensor, message: str, *received: Tensor) -> list[Any]:
    """Raises an error if a condition does not hold, in eager code and in graphs.

    XLA ignores assertions. There, the caller must make the result NaN.

    Args:
        condition: A boolean scalar.
        message: What is wrong, and what was expected.
        *received: Tensors to show at the end of the message.

    Returns:
        The operations that check the condition in a graph. Updates of the state must wait
        for them (`tf.control_dependencies`); otherwise a refused batch might be added.
    """
    if not tf.executing_eagerly():
        return [tf.debugging.Assert(condition, [f"{message} Received:", *received])]
    if not condition:
        shown = ", ".join(str(np.asarray(value)) for value in received)
        raise ValueError(f"{message} Received: {shown}")
    return []


def check_rank(y_pred: Tensor, rank: int, form: str) -> None:
    """Raises an error unless predictions have the given number of axes."""
    if y_pred.shape.rank != rank:
        raise ValueError(
            f"Predictions must be {form}. Received: y_pred of shape "
            f"{_written(y_pred.shape)}"
        )


def _written(shape: tf.TensorShape) -> str:
    return "unknown" if shape.rank is None else str(tuple(shape))


def entropy(probabilities: Tensor) -> Tensor:
    """Returns the entropy along the last axis, in nats."""
    return -tf.reduce_sum(tf.math.xlogy(probabilities, probabilities), axis=-1)
