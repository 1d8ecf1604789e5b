"""Metrics of the order of scores, in a state of fixed size."""

from typing import Any

import keras
import tensorflow as tf

from tfvn.prediction.metrics.base import check_rank, class_labels, class_probabilities

Tensor = Any

# A score is known by its sign, its exponent and the first 11 bits of its mantissa:
# scores that differ by more than one part in 2,000 are told apart, of whatever size.
_BITS = 20
NUM_CELLS = 2**_BITS


def cell_of(scores: Tensor) -> Tensor:
    """Returns integers in `[0, NUM_CELLS)` in the order of the scores."""
    bits = tf.bitcast(tf.cast(scores, tf.float32) + 0.0, tf.int32)  # no negative zero
    # Floats are ordered as their bits are, negative ones the other way round.
    bits = tf.where(bits < 0, tf.bitwise.invert(bits), bits ^ -(2**31))
    return tf.cast(
        tf.bitwise.right_shift(tf.bitcast(bits, tf.uint32), 32 - _BITS), tf.int32
    )


class _Counts(keras.metrics.Metric):
    """Counts two sorts of examples by their scores.

    Scores are counted in cells of one part in 2,000, and those of a cell are ties: exact
    orders but for that, however many batches there are.
    """

    def __init__(self, name: str | None = None, dtype: Any = None):
        super().__init__(name=name, dtype=dtype)
        # Float32 would stop counting at 16 million.
        self.counts = self.add_variable(
            (2, NUM_CELLS), initializer="zeros", dtype="int32", name="counts"
        )

    def add_counts(self, is_second: Tensor, scores: Tensor) -> None:
        """Counts examples of the first and of the second sort."""
        scores = tf.convert_to_tensor(scores)
        if scores.shape.rank == 2 and scores.shape[-1] == 1:
            scores = scores[:, 0]
        check_rank(scores, 1, "scores, one for each example")
        is_second = tf.reshape(tf.cast(is_second, tf.int32), [-1])
        cells = is_second * NUM_CELLS + cell_of(scores)
        counts = tf.math.bincount(
            cells, minlength=2 * NUM_CELLS, maxlength=2 * NUM_CELLS
        )
        self.counts.assign_add(tf.reshape(counts, (2, NUM_CELLS)))

    def both(self) -> tuple[Tensor, Tensor]:
        """Returns the counts of the first and of the second sort, by falling score."""
        counts = tf.cast(self.counts.value[:, ::-1], tf.float64)
        return counts[0], counts[1]

    def get_config(self) -> dict[str, Any]:
        return {"name": self.name, "dtype": self.dtype}


@keras.saving.register_keras_serializable("tfvn")
class OODAUROC(_Counts):
    """The area under the ROC curve of a score that tells strange examples apart.

    The probability that an example from elsewhere has a larger score (an entropy, say)
    than one of the kind that was trained on; ties count half.

    Args:
        name: Name of the metric.
        dtype: As in every Keras metric.

    Call arguments:
        y_true: 1 for an example from out of the distribution, 0 for one from within.
        y_pred: The scores, of any size and sign.

    Example:

    >>> import tfvn
    >>> metric = tfvn.metrics.OODAUROC()
    >>> metric.update_state([0, 0, 1, 1], [0.1, 0.7, 0.6, 2.0])
    >>> float(metric.result())
    0.75
    """

    def update_state(
        self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None
    ) -> None:
        """Adds a batch."""
        _refuse_weights(sample_weight)
        self.add_counts(y_true, y_pred)

    def result(self) -> Tensor:
        inside, outside = self.both()
        # Of the pairs of one inside and one outside, those with the larger outside.
        above = tf.cumsum(outside) - 0.5 * outside
        pairs = tf.reduce_sum(inside) * tf.reduce_sum(outside)
        area = tf.math.divide_no_nan(tf.reduce_sum(inside * above), pairs)
        return tf.cast(area, self.dtype)


@keras.saving.register_keras_serializable("tfvn")
class FPR95(OODAUROC):
    """How many ordinary examples a score takes for strange, if it finds 95 % of those.

    Args:
        name: Name of the metric.
        dtype: As in every Keras metric.

    Call arguments:
        y_true: 1 for an example from out of the distribution, 0 for one from within.
        y_pred: The scores, of any size and sign.

    Example:

    >>> import tfvn
    >>> metric = tfvn.metrics.FPR95()
    >>> metric.update_state([0, 0, 1, 1], [0.1, 0.7, 0.6, 2.0])
    >>> float(metric.result())
    0.5
    """

    def result(self) -> Tensor:
        inside, outside = self.both()
        found = tf.cumsum(outside)
        enough = found >= 0.95 * found[-1]
        first = tf.argmax(enough)
        total = tf.reduce_sum(inside)
        rate = tf.math.divide_no_nan(tf.cumsum(inside)[first], total)
        return tf.cast(rate, self.dtype)


@keras.saving.register_keras_serializable("tfvn")
class AURC(_Counts):
    """The area under the risk-coverage curve.

    A classifier that may abstain answers its surest examples first; the risk is its
    error rate among those that it answers, the area its mean over all coverages. Ties
    are in random order, on average.

    Args:
        name: Name of the metric.
        dtype: As in every Keras metric.

    Call arguments:
        y_true: Labels, integers or one-hot.
        y_pred: Probabilities `(batch_size, num_classes)`; the largest is how sure the
            classifier is.

    Example:

    >>> import tfvn
    >>> metric = tfvn.metrics.AURC()
    >>> metric.update_state([0, 1], [[0.9, 0.1], [0.6, 0.4]])
    >>> float(metric.result())  # risks 0 at one example, 1/2 at two
    0.25

    Reference:

    - [Geifman et al., 2019](https://arxiv.org/abs/1805.08206), section 3
    """

    def update_state(
        self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None
    ) -> None:
        """Adds a batch."""
        _refuse_weights(sample_weight)
        probabilities = class_probabilities(tf.cast(y_pred, tf.float32))
        check_rank(probabilities, 2, "probabilities of shape (batch_size, num_classes)")
        labels = class_labels(y_true, probabilities.shape[-1])
        answers = tf.argmax(probabilities, axis=-1, output_type=tf.int32)
        # Minus the doubt: near 1 the probability itself has no cells to spare.
        doubt = 1.0 - tf.reduce_max(probabilities, axis=-1)
        self.add_counts(answers != labels, -doubt)

    def result(self) -> Tensor:
        right, wrong = self.both()
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


def _refuse_weights(sample_weight: Tensor | None) -> None:
    if sample_weight is not None:
        raise ValueError(
            "A metric of the order of scores counts examples; expected "
            "`sample_weight=None`. Received: weights"
        )
