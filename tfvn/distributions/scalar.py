"""The event shape that all distributions of single numbers share."""

from typing import Any

import tensorflow as tf


class Scalar:
    """Gives a `tfd.Distribution` of single numbers the event shape of a scalar.

    List it before `tfd.Distribution` among the base classes.
    """

    def _event_shape_tensor(self) -> Any:
        return tf.constant([], dtype=tf.int32)

    def _event_shape(self) -> tf.TensorShape:
        return tf.TensorShape([])
