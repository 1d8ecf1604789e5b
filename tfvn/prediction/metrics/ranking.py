"""Metrics that depend only on the order of scores."""

from typing import Any

import keras
import tensorflow as tf

from tfvn.prediction.metrics.base import ClassMetric
from tfvn.prediction.metrics.classes import numbers_of, refuse_unless

Tensor = Any

# A cell consists of the sign, the exponent and the first 11 bits of the mantissa of a
# score. So scores that differ by more than one part in 2,000 are in different cells.
_BITS = 20
NUM_CELLS = 2**_BITS


def cell_of(scores: Tensor) -> Tensor:
    """Returns integers in `[0, NUM_CELLS)` in the order of the scores."""
    bits = tf.bitcast(tf.cast(scores, tf.float32) + 0.0, tf.int32)  # no negative zero
    # Positive floats have the order of their bits, negative floats the reverse order.
    bits = tf.where(bits < 0, tf.bitwise.invert(bits), bits ^ -(2**31))
    return tf.cast(
        tf.bitwise.right_shift(tf.bitcast(bits, tf.uint32), 32 - _BITS), tf.int32
    )


class _Scores(keras.metrics.Metric):
    """Keeps the scores of examples from inside and from outside of the distribution.

    It keeps all scores, because the result depends on the order of scores that are close
    together. So the state grows with the data, which XLA does not allow. Scores may be
    infinite, but not NaN, which cannot be ordered.
    """

    def __init__(self, name: str | None = None, dtype: Any = None):
        super().__init__(name=name, dtype=dtype)
        # TensorFlow's variables, because the shape of a Keras variable is fixed.
        self._scores = [
            tf.Variable(tf.zeros([0], tf.float64), shape=[None], trainable=False)
            for _ in range(2)
        ]

    def update_state(
        self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None
    ) -> None:
        """Adds a batch."""
        _refuse_weights(sample_weight)
        scores = tf.cast(numbers_of("y_pred", y_pred), tf.float64)
        if scores.shape.rank == 2 and scores.shape[-1] == 1:
            scores = scores[:, 0]
        if scores.shape.rank != 1:
            raise ValueError(
                "Argument `y_pred` must be scores, one for each example. Received: "
                f"y_pred of shape {scores.shape}"
            )
        checks = refuse_unless(
            ~tf.reduce_any(tf.math.is_nan(scores)),
            "Argument `y_pred` must be numbers, but some are NaN. Received: the scores",
            scores,
        )
        with tf.control_dependencies(checks):
            scores = tf.identity(scores)
        is_outside = _is_outside(y_true, scores)
        for kept, mask in zip(self._scores, (~is_outside, is_outside), strict=True):
            kept.assign(tf.concat([kept, tf.boolean_mask(scores, mask)], axis=0))

    def sorted_scores(self) -> tuple[Tensor, Tensor]:
        """Returns the sorted scores from inside and from outside of the distribution."""
        inside, outside = (tf.sort(kept) for kept in self._scores)
        return inside, outside

    def reset_state(self) -> None:
        for kept in self._scores:
            kept.assign(tf.zeros([0], tf.float64))


@keras.saving.register_keras_serializable("tfvn")
class OODAUROC(_Scores):
    """The area under the ROC curve of a score that detects out-of-distribution examples.

    It is the probability that an example from outside of the training distribution has a
    larger score (for instance an entropy) than one from inside; ties count half. The metric
    keeps all scores. The result is NaN until it has seen examples of both kinds.

    Args:
        name: Name of the metric.
        dtype: As in every Keras metric.

    Call arguments:
        y_true: 1 for an example from outside of the distribution, 0 for one from inside.
        y_pred: The scores, of any size and sign.

    Example:

    >>> import tfvn
    >>> metric = tfvn.metrics.OODAUROC()
    >>> metric.update_state([0, 0, 1, 1], [0.1, 0.7, 0.6, 2.0])
    >>> float(metric.result())
    0.75
    """

    _direction = "up"  # is better, for callbacks that monitor it

    def result(self) -> Tensor:
        inside, outside = self.sorted_scores()
        below = tf.searchsorted(inside, outside, side="left")
        not_above = tf.searchsorted(inside, outside, side="right")
        larger = 0.5 * (tf.cast(below, tf.float64) + tf.cast(not_above, tf.float64))
        pairs = tf.cast(tf.size(inside), tf.float64) * tf.cast(
            tf.size(outside), tf.float64
        )
        # Without any pair this is 0 / 0, which is NaN.
        return tf.cast(tf.reduce_sum(larger) / pairs, self.dtype)


@keras.saving.register_keras_serializable("tfvn")
class FPR95(_Scores):
    """The false positive rate at which a score detects 95 % of outside examples.

    It is the share of examples from inside of the distribution that reach the largest
    threshold that 95 % of the examples from outside reach. The result is NaN until the
    metric has seen examples of both kinds.

    Args:
        name: Name of the metric.
        dtype: As in every Keras metric.

    Call arguments:
        y_true: 1 for an example from outside of the distribution, 0 for one from inside.
        y_pred: The scores, of any size and sign.

    Example:

    >>> import tfvn
    >>> metric = tfvn.metrics.FPR95()
    >>> metric.update_state([0, 0, 1, 1], [0.1, 0.7, 0.6, 2.0])
    >>> float(metric.result())
    0.5
    """

    _direction = "down"  # is better, for callbacks that monitor it

    def result(self) -> Tensor:
        inside, outside = self.sorted_scores()
        # The largest threshold that 95 % of the examples from outside reach.
        missed = tf.cast(
            tf.floor(0.05 * tf.cast(tf.size(outside), tf.float64) + 1e-9), tf.int32
        )
        nan = tf.constant([float("nan")], tf.float64)
        threshold = tf.concat([outside, nan], axis=0)[missed]
        taken = tf.reduce_sum(tf.cast(inside >= threshold, tf.float64))
        # Without examples from inside this is 0 / 0, which is NaN.
        rate = taken / tf.cast(tf.size(inside), tf.float64)
        return tf.cast(tf.where(tf.math.is_nan(threshold), nan[0], rate), self.dtype)


@keras.saving.register_keras_serializable("tfvn")
class AURC(ClassMetric):
    """The area under the risk-coverage curve.

    A classifier that may abstain answers the examples first of which it is most certain.
    The risk is its error rate among the answered examples, and the area is the mean risk
    over all coverages. Ties count as the average over all their orders. Examples are ties
    if their doubts (1 minus the largest probability) differ by less than one part in 2,000.

    Args:
        name: Name of the metric.
        dtype: As in every Keras metric.
        from_logits: Whether predictions are logits and not probabilities.

    Call arguments:
        y_true: Labels, integers or one-hot.
        y_pred: Probabilities `(batch_size, num_classes)`, or `(batch_size, 1)` for the
            second of two classes. The largest probability is the confidence of the
            classifier. With axes in between, such as time, every position counts as one
            example. Values that are not probabilities are refused.

    Example:

    >>> import tfvn
    >>> metric = tfvn.metrics.AURC()
    >>> metric.update_state([0, 1], [[0.9, 0.1], [0.6, 0.4]])
    >>> float(metric.result())  # risks 0 at one example, 1/2 at two
    0.25

    Reference:

    - [Geifman et al., 2019](https://arxiv.org/abs/1805.08206), section 3
    """

    _direction = "down"  # is better, for callbacks that monitor it

    def __init__(
        self, name: str | None = None, dtype: Any = None, from_logits: bool = False
    ):
        super().__init__(name, dtype, from_logits)
        # Numbers of right and wrong answers. Float32 would stop counting at 16,777,216,
        # and integers cannot be NaN, which marks invalid predictions under XLA.
        self.counts = self.add_variable(
            (2, NUM_CELLS), initializer="zeros", dtype="float64", name="counts"
        )

    def update_state(
        self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None
    ) -> None:
        """Adds a batch."""
        _refuse_weights(sample_weight)
        super().update_state(y_true, y_pred)

    def add(self, labels: Tensor, probabilities: Tensor, weights: Tensor) -> None:
        answers = tf.argmax(probabilities, axis=-1, output_type=tf.int32)
        # The doubt and not the probability, because there are too few cells near 1.
        doubt = 1.0 - tf.reduce_max(probabilities, axis=-1)
        wrong = tf.cast(answers != labels, tf.int32)
        counts = tf.math.unsorted_segment_sum(
            weights, wrong * NUM_CELLS + cell_of(doubt), 2 * NUM_CELLS
        )
        self.counts.assign_add(tf.reshape(counts, (2, NUM_CELLS)))

    def result(self) -> Tensor:
        right, wrong = tf.unstack(tf.convert_to_tensor(self.counts.value))
        size = right + wrong
        answered, errors = tf.cumsum(size) - size, tf.cumsum(wrong) - wrong
        # In a cell of n examples of error rate r, after N with E errors, the risks are
        # (E + j r) / (N + j) for j = 1 ... n; their sum has a closed form.
        rate = tf.math.divide_no_nan(wrong, size)
        harmonic = tf.math.digamma(answered + size + 1.0) - tf.math.digamma(
            answered + 1.0
        )
        risks = rate * size + (errors - rate * answered) * harmonic
        area = tf.math.divide_no_nan(tf.reduce_sum(risks), tf.reduce_sum(size))
        return tf.cast(area, self.dtype)


def _is_outside(y_true: Tensor, scores: Tensor) -> Tensor:
    """Returns for each score whether its example is from outside of the distribution."""
    given = tf.reshape(tf.cast(numbers_of("y_true", y_true), tf.float64), [-1])
    checks = refuse_unless(
        tf.reduce_all((given == 0.0) | (given == 1.0)),
        "Argument `y_true` must be 1 for examples from outside of the distribution, "
        "and 0 for all others. Received: the labels",
        given,
    )
    checks += refuse_unless(
        tf.size(given) == tf.size(scores),
        "Argument `y_true` must have a label for each score. Received: y_true of shape",
        tf.shape(given),
    )
    with tf.control_dependencies(checks):
        return given == 1.0


def _refuse_weights(sample_weight: Tensor | None) -> None:
    if sample_weight is not None:
        raise ValueError(
            "Argument `sample_weight` must be `None`, because this metric compares the "
            "order of scores and does not support weights. Received: "
            f"sample_weight={type(sample_weight).__name__}"
        )
