"""Metrics of calibration: whether predicted probabilities agree with frequencies."""

from typing import Any

import keras
import tensorflow as tf

from tfvn.prediction.metrics.base import ClassMetric, MeanOfExamples
from tfvn.prediction.metrics.ranking import NUM_CELLS, cell_of
from tfvn.utils.validation import check_choice, check_count

Tensor = Any

BINNINGS = ("uniform", "adaptive")


@keras.saving.register_keras_serializable("tfvn")
class ExpectedCalibrationError(ClassMetric):
    """How far the confidence of a classifier is from its accuracy, on average.

    Examples are sorted into bins by their confidence, the largest probability. The error is
    the mean over examples of the distance between the accuracy and the mean confidence of
    their bin.

    Args:
        num_bins: Number of bins.
        binning: `"uniform"` for bins of equal width, or `"adaptive"` for bins of equal
            weight, between which an example may be divided. Adaptive bins treat confidences
            as equal if 1 minus the confidence differs by less than one part in 2,000.
        name: Name of the metric.
        dtype: As in every Keras metric.
        from_logits: Whether predictions are logits and not probabilities.

    Call arguments:
        y_true: Labels, integers or one-hot.
        y_pred: Probabilities `(batch_size, num_classes)`, such as the `mean` of an
            ensemble, or `(batch_size, 1)` for the second of two classes. With axes in
            between, such as time, every position counts as one example. Values that are
            not probabilities are refused.
        sample_weight: A weight for each example.

    Example:

    >>> import tfvn
    >>> metric = tfvn.metrics.ExpectedCalibrationError(num_bins=10)
    >>> metric.update_state([0, 1], [[0.75, 0.25], [0.75, 0.25]])
    >>> float(metric.result())
    0.25

    Reference:

    - [Guo et al., 2017](https://arxiv.org/abs/1706.04599), section 2
    - [Nguyen and O'Connor, 2015](https://arxiv.org/abs/1508.05154), for adaptive bins
    """

    _direction = "down"  # is better, for callbacks that monitor it

    def __init__(
        self,
        num_bins: int = 15,
        binning: str = "uniform",
        name: str = "expected_calibration_error",
        dtype: Any = None,
        from_logits: bool = False,
    ):
        super().__init__(name, dtype, from_logits)
        self.num_bins = check_count("num_bins", num_bins)
        self.binning = check_choice("binning", binning, BINNINGS)
        cells = self.num_bins if binning == "uniform" else NUM_CELLS
        # For each cell: the weight of its examples, the weight of the right ones, and the
        # weighted confidence. In float64, because float32 stops counting at 16,777,216.
        self.sums = self.add_variable(
            (3, cells), initializer="zeros", dtype="float64", name="sums"
        )

    def add(self, labels: Tensor, probabilities: Tensor, weights: Tensor) -> None:
        confidence = tf.reduce_max(probabilities, axis=-1)
        answers = tf.argmax(probabilities, axis=-1, output_type=tf.int32)
        right = tf.cast(answers == labels, tf.float64)
        if self.binning == "uniform":
            # Bins are open on the left, as in the paper.
            cells = tf.cast(tf.math.ceil(confidence * self.num_bins), tf.int32) - 1
            cells = tf.clip_by_value(cells, 0, self.num_bins - 1)
        else:
            cells = cell_of(confidence - 1.0)
        confidence = tf.cast(confidence, tf.float64)
        values = tf.stack([weights, weights * right, weights * confidence], axis=1)
        sums = tf.math.unsorted_segment_sum(values, cells, self.sums.shape[1])
        self.sums.assign_add(tf.transpose(sums))

    def result(self) -> Tensor:
        sums = tf.convert_to_tensor(self.sums.value)
        if self.binning == "adaptive":
            sums = _in_equal_parts(sums, self.num_bins)
        weight, right, confidence = tf.unstack(sums)
        error = tf.reduce_sum(tf.abs(right - confidence))
        return tf.cast(tf.math.divide_no_nan(error, tf.reduce_sum(weight)), self.dtype)

    def get_config(self) -> dict[str, Any]:
        own = {"num_bins": self.num_bins, "binning": self.binning}
        return {**super().get_config(), **own}


@keras.saving.register_keras_serializable("tfvn")
class BrierScore(MeanOfExamples):
    """The squared distance of probabilities from the one-hot label, summed over classes.

    It ranges from 0 if the classifier is certain and right to 2 if it is certain and wrong.
    With two classes it is twice the score of the second one alone.

    Args:
        name: Name of the metric.
        dtype: As in every Keras metric.
        from_logits: Whether predictions are logits and not probabilities.

    Call arguments:
        y_true: Labels, integers or one-hot.
        y_pred: Probabilities `(batch_size, num_classes)`, or `(batch_size, 1)` for the
            second of two classes. With axes in between, such as time, every position
            counts as one example. Values that are not probabilities are refused.
        sample_weight: A weight for each example.

    Example:

    >>> import tfvn
    >>> metric = tfvn.metrics.BrierScore()
    >>> metric.update_state([0], [[0.5, 0.5]])
    >>> float(metric.result())
    0.5

    Reference:

    - Brier, 1950, Verification of forecasts expressed in terms of probability
    """

    _direction = "down"  # is better, for callbacks that monitor it

    def __init__(
        self, name: str = "brier_score", dtype: Any = None, from_logits: bool = False
    ):
        super().__init__(name, dtype, from_logits)

    def values_of(self, labels: Tensor, probabilities: Tensor) -> Tensor:
        targets = tf.one_hot(labels, probabilities.shape[-1], dtype=probabilities.dtype)
        return tf.reduce_sum(tf.square(probabilities - targets), axis=-1)


def _in_equal_parts(sums: Tensor, count: int) -> Tensor:
    """Turns sums of cells into sums of bins of equal weight, dividing cells if needed."""
    cumulated = tf.concat(
        [tf.zeros((3, 1), sums.dtype), tf.cumsum(sums, axis=1)], axis=1
    )
    weight = cumulated[0]
    # The last end is exactly the total weight, without rounding.
    ends = weight[-1] * (tf.range(1, count + 1, dtype=sums.dtype) / count)
    cell = tf.searchsorted(weight, ends)
    cell = tf.clip_by_value(cell, 1, weight.shape[0] - 1)
    before = tf.gather(weight, cell - 1)
    share = tf.math.divide_no_nan(ends - before, tf.gather(weight, cell) - before)
    low, high = (
        tf.gather(cumulated, cell - 1, axis=1),
        tf.gather(cumulated, cell, axis=1),
    )
    at_ends = low + share * (high - low)
    return at_ends - tf.concat([tf.zeros((3, 1), sums.dtype), at_ends[:, :-1]], axis=1)
