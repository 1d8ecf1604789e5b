"""The rows of one input, as arrays, sparse rows or ragged tensors."""

import itertools
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfvn.utils.models import functional_graph

Tensor = Any


class SparseRows:
    """The rows of a sparse matrix or tensor, which can be sliced at low cost.

    Args:
        indices: The positions of the values, an array `(count, rank)` sorted by rows.
        values: The values.
        shape: The shape of all rows together.
    """

    def __init__(self, indices: np.ndarray, values: np.ndarray, shape: Sequence[int]):
        self.indices, self.values = indices, values
        self.shape = tuple(int(size) for size in shape)

    @classmethod
    def from_tensor(cls, tensor: tf.SparseTensor) -> "SparseRows":
        """Returns the rows of a `tf.SparseTensor`."""
        tensor = tf.sparse.reorder(tensor)
        shape = tensor.dense_shape.numpy()
        return cls(tensor.indices.numpy(), tensor.values.numpy(), shape)

    @classmethod
    def from_scipy(cls, matrix: Any) -> "SparseRows":
        """Returns the rows of a sparse matrix or array of SciPy."""
        # The compressed format sorts by rows, and the next line merges duplicates, in a
        # copy, because a compressed matrix may be the caller's own.
        matrix = matrix.tocsr().copy()
        matrix.sum_duplicates()
        matrix = matrix.tocoo()
        indices = np.stack([matrix.row, matrix.col], axis=1).astype("int64")
        return cls(indices, matrix.data, matrix.shape)

    @property
    def dtype(self) -> np.dtype:
        """The type of the values."""
        return self.values.dtype

    def __getitem__(self, rows: slice) -> "SparseRows":
        start, stop, _ = rows.indices(self.shape[0])
        first, last = np.searchsorted(self.indices[:, 0], [start, stop])
        indices = self.indices[first:last].copy()
        indices[:, 0] -= start
        shape = (max(stop - start, 0), *self.shape[1:])
        return SparseRows(indices, self.values[first:last], shape)

    def tensor(self, dtype: tf.DType) -> tf.SparseTensor:
        """Returns the rows as a tensor."""
        return tf.SparseTensor(
            self.indices, tf.convert_to_tensor(self.values, dtype), self.shape
        )


def as_rows(value: Any) -> Any:
    """Returns one input in a form that can be sliced by rows.

    Args:
        value: Anything that `keras.Model.predict` takes for an input: an array or a
            tensor, a frame or a series of pandas, a sparse matrix of SciPy, a sparse or
            ragged tensor; `None` stands for an input that is left out.

    Returns:
        A NumPy array, `SparseRows`, a `tf.RaggedTensor` or `None`.
    """
    if value is None or isinstance(value, tf.RaggedTensor):
        return value
    if isinstance(value, tf.SparseTensor):
        return SparseRows.from_tensor(value)
    if hasattr(value, "tocsr"):
        return SparseRows.from_scipy(value)
    if hasattr(value, "iloc") and hasattr(value, "to_numpy"):
        array = value.to_numpy()
        # As in Keras, a series is a column.
        return array[:, None] if array.ndim == 1 else array
    return np.asarray(keras.ops.convert_to_numpy(value))


def dtype_of(rows: Any) -> tf.DType:
    """Returns the type of tensor that rows become, as in `keras.Model.predict`."""
    dtype = tf.as_dtype(rows.dtype)
    # NumPy's default differs from the type that Keras computes in.
    return tf.as_dtype(keras.config.floatx()) if dtype.is_floating else dtype


def as_tensor(rows: Any) -> Any:
    """Returns rows as a tensor; `None` remains `None`."""
    if rows is None:
        return None
    if isinstance(rows, SparseRows):
        return rows.tensor(dtype_of(rows))
    if isinstance(rows, tf.RaggedTensor):
        return tf.cast(rows, dtype_of(rows))
    return tf.convert_to_tensor(rows, dtype_of(rows))


def row_of_zeros(rows: Any) -> Any:
    """Returns one row of zeros, in the form of an input without rows."""
    shape = (1, *rows.shape[1:])
    if isinstance(rows, SparseRows):
        return SparseRows(rows.indices, rows.values, shape)
    if isinstance(rows, tf.RaggedTensor):
        # A row without entries.
        return tf.concat([rows, tf.zeros([1, 0, *shape[2:]], rows.dtype)], axis=0)
    return np.zeros(shape, rows.dtype)


def join(batches: Sequence[Any]) -> Any:
    """Joins batches, structures of rows, into one."""
    return keras.tree.map_structure(lambda *parts: concatenate(parts), *batches)


def concatenate(parts: Sequence[Any]) -> Any:
    """Joins several parts, whose rows must have the same shape."""
    if len(parts) == 1 or parts[0] is None:
        return parts[0]
    if isinstance(parts[0], tf.RaggedTensor):
        return tf.concat(parts, axis=0)
    _check_shapes([part.shape[1:] for part in parts])
    if not isinstance(parts[0], SparseRows):
        return np.concatenate(parts)
    starts = itertools.accumulate((part.shape[0] for part in parts), initial=0)
    indices = [part.indices.copy() for part in parts]
    for index, start in zip(indices, starts, strict=False):
        index[:, 0] += start
    count = sum(part.shape[0] for part in parts)
    return SparseRows(
        np.concatenate(indices),
        np.concatenate([part.values for part in parts]),
        (count, *parts[0].shape[1:]),
    )


def _check_shapes(shapes: list[tuple[int, ...]]) -> None:
    first = shapes[0]
    for other in shapes:
        if other != first:
            axes = [
                axis + 1
                for axis, sizes in enumerate(itertools.zip_longest(first, other))
                if sizes[0] != sizes[1]
            ]
            raise ValueError(
                "The outputs of all batches must have the same shape, so that they can "
                f"be joined; pad the rows of `x` so that axis {axes[0]} of the outputs "
                "always has the same size, or predict each batch by itself. Received: "
                f"outputs for one row of shapes {first} and {other}"
            )


def specs_of(model: Any, x: Any, count: int | None) -> Any:
    """Returns the specs of batches like `x`, in the structure of `x`.

    Args:
        model: The model that gets the batches.
        x: A structure of results of `as_rows`.
        count: Number of rows of a batch, or `None` for any.
    """
    graph = functional_graph(model)
    flat = keras.tree.flatten(x)
    symbols = [None] * len(flat)
    if graph is not None and len(graph.inputs) == len(flat):
        symbols = graph.inputs
    specs = [_spec(rows, count, s) for rows, s in zip(flat, symbols, strict=True)]
    return keras.tree.pack_sequence_as(x, specs)


def _spec(rows: Any, count: int | None, symbol: Any) -> Any:
    if rows is None:
        return None
    dtype, shape = dtype_of(rows), [count, *rows.shape[1:]]
    if isinstance(rows, tf.RaggedTensor):
        splits = rows.row_splits.dtype
        return tf.RaggedTensorSpec(shape, dtype, rows.ragged_rank, splits)
    if symbol is not None and len(symbol.shape) == len(shape):
        # An axis for which the model takes any length, such as time, stays so in the trace.
        known = zip(symbol.shape[1:], shape[1:], strict=True)
        shape[1:] = [size if fixed is not None else None for fixed, size in known]
    is_sparse = isinstance(rows, SparseRows)
    return (tf.SparseTensorSpec if is_sparse else tf.TensorSpec)(shape, dtype)
