"""Processes the rows of tensors in blocks."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

Tensor = Any


def map_blocks(
    function: Callable, results: Any, tensors: list[Tensor], size: int
) -> Any:
    """Applies a function to one block of rows after the other.

    Args:
        function: Takes rows of all tensors, and the number of the block.
        results: A structure of tensors like its result, with known types and shapes.
        tensors: Tensors with the same number of rows.
        size: Number of rows of a block; the last block may have fewer.

    Returns:
        A structure as `results`, with the rows of all blocks.
    """
    known = tensors[0].shape[0]
    if known is not None and known <= size:
        # XLA does not know the sizes of the blocks of a loop.
        return function(tensors, tf.constant(0))
    rows = tf.shape(tensors[0])[0]
    count = (rows + size - 1) // size
    arrays = [
        tf.TensorArray(t.dtype, count, infer_shape=False, element_shape=t.shape)
        for t in tf.nest.flatten(results)
    ]

    def body(index: Tensor, arrays: Any) -> Any:
        block = [tensor[index * size : (index + 1) * size] for tensor in tensors]
        values = tf.nest.flatten(function(block, index))
        written = [
            array.write(index, value)
            for array, value in zip(arrays, values, strict=True)
        ]
        return index + 1, written

    # Two at a time, so that one block can use a core that an op of the other leaves
    # idle.
    _, arrays = tf.while_loop(
        lambda index, _: index < count, body, (0, arrays), parallel_iterations=2
    )
    return tf.nest.pack_sequence_as(results, [array.concat() for array in arrays])


def whole_blocks(tensors: list[Tensor], size: int) -> list[Tensor]:
    """Repeats the last row of all tensors until the number of rows is whole blocks."""
    rows = tf.shape(tensors[0])[0]
    count = (rows + size - 1) // size * size
    index = tf.minimum(tf.range(count), rows - 1)
    return [tf.gather(tensor, index) for tensor in tensors]


def split(tensor: Tensor, count: int) -> Tensor:
    """Splits the rows of a tensor, `count` draws of each example, into an axis of draws."""
    shape = tf.concat([[-1, count], tf.shape(tensor)[1:]], axis=0)
    return tf.ensure_shape(tf.reshape(tensor, shape), [None, count, *tensor.shape[1:]])
