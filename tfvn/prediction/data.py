"""Rows to predict: from arrays, data sets and generators, in batches of one's own size."""

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf


class Rows:
    """The rows of some data.

    Args:
        x: An array, or a structure of arrays with as many rows each; or a
            `tf.data.Dataset`, a `keras.utils.PyDataset` or a generator of batches. Of
            batches that are tuples, the first part is taken, as in
            `keras.Model.predict`.

    Attributes:
        first: The first rows that there are.
    """

    def __init__(self, x: Any):
        self.count: int | None = None
        if _is_stream(x):
            stream = _stream(x)
            # Looked at, and put back.
            self.first = next(stream, None)
            if self.first is None:
                raise ValueError(
                    "Argument `x` must give at least one batch. "
                    f"Received: x={type(x).__name__} without any"
                )
            self._stream = itertools.chain([self.first], stream)
        else:
            self._x = self.first = keras.tree.map_structure(_as_array, x)
            self.count = _length(self._x)

    def batches(self, size: int) -> Iterator[Any]:
        """Yields `size` rows at a time, and in the end what is left.

        Data without rows are one batch without rows: they still have a shape.
        """
        if self.count is None:
            yield from self._batched_anew(size)
            return
        for start in range(0, max(self.count, 1), size):
            yield _slice(self._x, start, start + size)

    def number_of_batches(self, size: int) -> int | None:
        """Returns how many batches there are, or `None` if it is not known."""
        return None if self.count is None else math.ceil(self.count / size)

    def _batched_anew(self, size: int) -> Iterator[Any]:
        waiting: list[Any] = []
        count = taken = 0
        for batch in self._stream:
            waiting.append(batch)
            count += _length(batch)
            if count < size:
                continue
            rows, full = _join(waiting), count - count % size
            for start in range(0, full, size):
                yield _slice(rows, start, start + size)
            # What has no rows has no say in how long the next ones are.
            waiting = [_slice(rows, full, count)] if count > full else []
            taken, count = taken + full, count - full
        if count or not taken:
            yield _join(waiting)


def with_a_row(x: Any) -> Any:
    """Returns rows, with a row of zeros in place of none."""
    if _length(x):
        return x
    return keras.tree.map_structure(
        lambda array: np.zeros((1, *array.shape[1:]), array.dtype), x
    )


def concatenate(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Returns the rows of several arrays, which must be of one shape."""
    first = parts[0].shape[1:]
    for other in (part.shape[1:] for part in parts):
        if other != first:
            axes = [
                axis + 1
                for axis, sizes in enumerate(itertools.zip_longest(first, other))
                if sizes[0] != sizes[1]
            ]
            raise ValueError(
                "Argument `x` must have rows of one shape in all batches; pad them to "
                f"the same size on axis {axes[0]}, or predict each batch by itself. "
                f"Received: rows of shapes {first} and {other}"
            )
    return np.concatenate(parts)


def _is_stream(x: Any) -> bool:
    is_dataset = isinstance(x, tf.data.Dataset | keras.utils.PyDataset)
    return is_dataset or hasattr(x, "__next__")


def _stream(source: Any) -> Iterator[Any]:
    if isinstance(source, keras.utils.PyDataset):
        source = (source[index] for index in range(len(source)))
    for batch in source:
        x = batch[0] if isinstance(batch, tuple) else batch
        yield keras.tree.map_structure(_as_array, x)


def _as_array(value: Any) -> np.ndarray:
    return np.asarray(keras.ops.convert_to_numpy(value))


def _length(x: Any) -> int:
    shapes = [array.shape for array in keras.tree.flatten(x)]
    if not shapes or any(s == () or s[0] != shapes[0][0] for s in shapes):
        raise ValueError(
            "Argument `x` must be arrays with one row for each example, as many in each. "
            f"Received: x of shapes {shapes}"
        )
    return shapes[0][0]


def _slice(x: Any, start: int, stop: int) -> Any:
    return keras.tree.map_structure(lambda array: array[start:stop], x)


def _join(batches: list[Any]) -> Any:
    if len(batches) == 1:
        return batches[0]
    return keras.tree.map_structure(lambda *parts: concatenate(parts), *batches)
