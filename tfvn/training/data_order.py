"""Shuffles arrays in an order that a resumed run can repeat."""

import math
from typing import Any

import keras
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
        epoch = tf.data.Dataset.range(1).map(lambda _: self.epoch.read_value())
        count = tf.data.experimental.assert_cardinality(
            number_of_batches(batch_size, size)
        )
        batches = self._batches(arrays, batch_size, size, epoch).apply(count)
        return batches.prefetch(tf.data.AUTOTUNE)

    def endless_batches(
        self, arrays: Any, batch_size: int | None, size: int
    ) -> tf.data.Dataset:
        """Returns the batches of one epoch after the other, each in a new order.

        Nothing but the seed decides the order, so that all workers that train on the same
        arrays agree on it.

        Args:
            arrays: As in `batches`.
            batch_size: As in `batches`.
            size: As in `batches`.
        """
        epochs = tf.data.Dataset.counter()
        batches = self._batches(arrays, batch_size, size, epochs)
        return batches.prefetch(tf.data.AUTOTUNE)

    def _batches(
        self, arrays: Any, batch_size: int | None, size: int, epochs: tf.data.Dataset
    ) -> tf.data.Dataset:
        tensors = keras.tree.map_structure(
            lambda array: None if array is None else tf.convert_to_tensor(array),
            arrays,
            none_is_leaf=True,
        )

        def order(epoch: tf.Tensor) -> tf.data.Dataset:
            seed = tf.stack([tf.cast(self.seed, tf.int64), epoch])
            rows = tf.random.experimental.stateless_shuffle(tf.range(size), seed)
            return tf.data.Dataset.from_tensor_slices(rows).batch(batch_size or 32)

        def take(indices: tf.Tensor) -> Any:
            return keras.tree.map_structure(
                lambda t: None if t is None else tf.gather(t, indices),
                tensors,
                none_is_leaf=True,
            )

        options = tf.data.Options()
        # Each worker takes its part of every batch.
        options.experimental_distribute.auto_shard_policy = (
            tf.data.experimental.AutoShardPolicy.DATA
        )
        batches = epochs.flat_map(order).map(take, tf.data.AUTOTUNE)
        return batches.with_options(options)


def number_of_batches(batch_size: int | None, size: int) -> int:
    """Returns the number of batches of an epoch; `batch_size=None` is 32."""
    return math.ceil(size / (batch_size or 32))
