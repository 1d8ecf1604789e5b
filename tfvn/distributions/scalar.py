"""What all distributions of single numbers have in common."""

from typing import Any

import tensorflow as tf


class Scalar:
    """The shape of one draw, for a `tfd.Distribution` of single numbers.

    It comes before `tfd.Distribution` among the bases.
    """

    def _event_shape_tensor(self) -> Any:
        return tf.constant([], dtype=tf.int32)

    def _event_shape(self) -> tf.TensorShape:
        return tf.TensorShape([])
