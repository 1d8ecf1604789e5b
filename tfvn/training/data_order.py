"""Shuffles arrays in an order that a resumed run can repeat."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf


class DataOrder:
    """Shuffles arrays in an order that depends only on a seed and the epoch.

    Keras shuffles with a generator whose state is lost with the process.

    Args:
        seed: Seed of the order.
    """

    def __init__(self, seed: int):
        self.seed = seed
        self.epoch = tf.Variable(0, dtype=tf.int64, trainable=False)

    def batches(
        self, arrays: Any, batch_size: int | None, size: int
    ) -> tf.data.Dataset:
        """Returns the batches of an epoch, in a new order for every epoch.

        Args:
            arrays: Nested arrays of equal length; some may be `None`.
            batch_size: Number of examples in a batch; `None` is 32.
            size: How many of the rows are trained on, from the first one.
        """
        tensors = keras.tree.map_structure(
            lambda array: None if array is None else tf.convert_to_tensor(array),
            arrays,
            none_is_leaf=True,
        )

        def order(_: Any) -> tf.Tensor:
            seed = tf.stack([tf.cast(self.seed, tf.int64), self.epoch])
            return tf.random.experimental.stateless_shuffle(tf.range(size), seed)

        def take(indices: tf.Tensor) -> Any:
            return keras.tree.map_structure(
                lambda t: None if t is None else tf.gather(t, indices),
                tensors,
                none_is_leaf=True,
            )

        indices = tf.data.Dataset.range(1).map(order).unbatch()
        batches = indices.batch(batch_size or 32).map(take, tf.data.AUTOTUNE)
        count = int(np.ceil(size / (batch_size or 32)))
        cardinality = tf.data.experimental.assert_cardinality(count)
        return batches.apply(cardinality).prefetch(tf.data.AUTOTUNE)
