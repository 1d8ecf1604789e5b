"""Labels and probabilities of classes: their checks, and their form for the metrics."""

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfvn.utils import private

Tensor = Any

# How far probabilities may be outside of [0, 1], and their sum away from 1. The sum of
# TensorFlow's softmax over 1,000 classes is wrong by up to 0.002 in float16, and by up to
# 0.022 in bfloat16.
_TOLERANCE = 0.01
_TOLERANCE_OF_SUM = 0.03


class Examples(NamedTuple):
    """Examples on one axis, whatever axes the inputs of the metric had.

    Attributes:
        labels: Integers `(count,)`, or `None` if there are no labels.
        probabilities: `(count, num_classes)`, or `(count, num_samples, num_classes)`.
        weights: `(count,)`, in float64. Under XLA, which cannot raise errors, the weights
            of invalid examples are NaN.
    """

    labels: Tensor
    probabilities: Tensor
    weights: Tensor


def examples_of(
    y_true: Tensor,
    y_pred: Tensor,
    sample_weight: Tensor | None,
    from_logits: bool,
    of_draws: bool = False,
) -> Examples:
    """Checks the inputs of a metric, and returns its examples.

    If there are axes between the batch and the classes, such as time, every position counts
    as one example. Examples that are masked or have a weight of 0 are not checked.

    Args:
        y_true: Labels, integers or one-hot; `None` for a metric that needs none.
        y_pred: Predictions `(batch_size, ..., num_classes)`. The last axis may have size 1,
            for the probability of the second of two classes.
        sample_weight: Weights, or `None`.
        from_logits: Whether predictions are logits.
        of_draws: Whether axis 1 of the predictions is the axis of draws.
    """
    mask = private.get_keras_mask(y_pred)
    y_pred = numbers_of("y_pred", y_pred)
    if y_pred.dtype != tf.float64:
        y_pred = tf.cast(y_pred, tf.float32)
    _check_shape(y_pred, of_draws)
    if of_draws:
        # Moves the axis of draws next to the classes, behind the axes of examples.
        rank = y_pred.shape.rank
        y_pred = tf.transpose(y_pred, [0, *range(2, rank - 1), 1, rank - 1])
    probabilities = _probabilities(y_pred, from_logits)
    is_right = _are_probabilities(probabilities)
    if of_draws:
        is_right = tf.reduce_all(is_right, axis=-1)
    weights = weights_of(sample_weight, mask, is_right)
    is_ignored = weights == 0.0
    checks = refuse_unless(
        tf.reduce_all(is_right | is_ignored),
        "Argument `y_pred` must be probabilities, from 0 to 1 and with a sum of 1, or "
        "logits with `from_logits=True`; some values are outside of [0, 1] or NaN, or "
        "their sum is not 1. Received: as smallest and largest value",
        tf.reduce_min(probabilities),
        tf.reduce_max(probabilities),
    )
    labels = None
    if y_true is not None:
        num_classes = probabilities.shape[-1]
        labels, is_label = _labels(y_true, is_right, num_classes)
        checks += refuse_unless(
            tf.reduce_all(is_label | is_ignored),
            f"Argument `y_true` must be integers from 0 to {num_classes - 1}, or "
            "one-hot. Received: the labels",
            y_true,
        )
        labels = tf.reshape(labels, [-1])
        is_right &= is_label
    # The values of ignored examples must not be NaN.
    shape = tf.shape(probabilities)
    is_shown = tf.reshape(is_right, [-1, *[1] * (2 if of_draws else 1)])
    flat = tf.reshape(probabilities, [-1, *tf.unstack(shape[-2 if of_draws else -1 :])])
    flat = tf.ensure_shape(flat, [None, *probabilities.shape[-2 if of_draws else -1 :]])
    flat = tf.where(is_shown, tf.clip_by_value(flat, 0.0, 1.0), 1.0 / flat.shape[-1])
    nan = tf.constant(float("nan"), tf.float64)
    with tf.control_dependencies(checks):
        weights = tf.where(is_right | is_ignored, weights, nan)
    return Examples(labels, flat, tf.reshape(weights, [-1]))


def numbers_of(name: str, values: Any) -> Tensor:
    """Returns an argument of a metric as a tensor, or raises if it has no numbers.

    Args:
        name: Name of the argument, for the error message.
        values: The argument.
    """
    tensor = tf.convert_to_tensor(values)
    dtype = tensor.dtype
    if not (dtype.is_floating or dtype.is_integer or dtype.is_bool):
        raise ValueError(
            f"Argument `{name}` must be numbers. Received: {name} of type {dtype.name}"
        )
    return tensor


def _check_shape(y_pred: Tensor, of_draws: bool) -> None:
    rank = y_pred.shape.rank
    if rank is None or rank < 2 + of_draws or y_pred.shape[-1] is None:
        form = (
            "draws of shape (batch_size, num_samples, num_classes)"
            if of_draws
            else "probabilities of shape (batch_size, num_classes), or (batch_size, 1) "
            "for the second of two classes"
        )
        raise ValueError(
            f"Argument `y_pred` must be {form}. Received: y_pred of shape {y_pred.shape}"
        )


def _probabilities(y_pred: Tensor, from_logits: bool) -> Tensor:
    """Returns the probability of each class, also for binary predictions."""
    if y_pred.shape[-1] > 1:
        return tf.nn.softmax(y_pred) if from_logits else y_pred
    second = tf.sigmoid(y_pred) if from_logits else y_pred
    return tf.concat([1.0 - second, second], axis=-1)


def _are_probabilities(values: Tensor) -> Tensor:
    """Returns whether the values along the last axis are probabilities; NaN is not."""
    is_inside = (values >= -_TOLERANCE) & (values <= 1.0 + _TOLERANCE)
    is_one = tf.abs(tf.reduce_sum(values, axis=-1) - 1.0) <= _TOLERANCE_OF_SUM
    return tf.reduce_all(is_inside, axis=-1) & is_one


def _labels(y_true: Tensor, like: Tensor, num_classes: int) -> tuple[Tensor, Tensor]:
    """Returns labels as integers, and which of them are valid labels."""
    y_true = numbers_of("y_true", y_true)
    rank = like.shape.rank
    # Integers that are too large for float64 are no valid labels anyway.
    y_true = tf.cast(y_true, tf.float64)
    is_hot = y_true.shape.rank == rank + 1 and y_true.shape[-1] == num_classes
    if y_true.shape.rank == rank + 1 and y_true.shape[-1] == 1:
        y_true = y_true[..., 0]
    examples = y_true[..., 0] if is_hot else y_true
    if not examples.shape.is_compatible_with(like.shape):
        raise ValueError(
            "Argument `y_true` must be integers, one for each example, or one-hot for "
            f"{num_classes} classes. Received: y_true of shape {tuple(y_true.shape)} "
            f"for examples of shape {tuple(like.shape)}"
        )
    checks = refuse_unless(
        tf.reduce_all(tf.shape(examples) == tf.shape(like)),
        "Argument `y_true` must have a label for each example. Received: y_true of "
        "shape",
        tf.shape(examples),
    )
    with tf.control_dependencies(checks):
        y_true = tf.identity(y_true)
    if is_hot:
        is_label = tf.reduce_all((y_true == 0.0) | (y_true == 1.0), axis=-1)
        is_label &= tf.reduce_sum(y_true, axis=-1) == 1.0
        return tf.argmax(y_true, axis=-1, output_type=tf.int32), is_label
    is_label = (y_true >= 0.0) & (y_true < num_classes) & (y_true == tf.floor(y_true))
    return tf.cast(tf.where(is_label, y_true, 0.0), tf.int32), is_label


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
            f"{like.shape}. Received: sample_weight of shape {given.shape}"
        )
    checked = refuse_unless(
        tf.reduce_all(tf.shape(given) == tf.shape(like)[: rank - missing]),
        "Argument `sample_weight` must have a weight for each example. Received: "
        "sample_weight of shape",
        tf.shape(given),
    )
    with tf.control_dependencies(checked):
        return tf.broadcast_to(given[(..., *[None] * missing)], tf.shape(like))


def refuse_unless(condition: Tensor, message: str, *received: Tensor) -> list[Any]:
    """Raises an error if a condition does not hold, in eager code and in graphs.

    XLA ignores assertions. There, the caller must make the result NaN.

    Args:
        condition: A boolean scalar.
        message: What is wrong, what was expected, and what `received` is.
        *received: Tensors to show after the message.

    Returns:
        The operations that check the condition in a graph. Updates of the state must wait
        for them (`tf.control_dependencies`); otherwise a refused batch might be added.
    """
    if not tf.executing_eagerly():
        return [tf.debugging.Assert(condition, [message, *received])]
    if not condition:
        shown = ", ".join(str(np.asarray(value)) for value in received)
        raise ValueError(f"{message} {shown}")
    return []
