"""Finds the number of training examples from the arguments of `fit`."""

import itertools
import math
import types
import warnings
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfvn.utils import private_training

ADVICE = "pass the number of training examples to `compile(train_size=...)`"

# Data sets with at most this many batches are read completely, because a batch of
# another size matters more there.
_FEW_BATCHES = 16

# The names in `tf.data` of steps that put examples into batches, and of other steps
# that neither remove examples nor add new ones.
_BATCHING = frozenset(["Batch", "ParallelBatch", "PaddedBatch"])
_KEEPING = frozenset(
    ["Map", "ParallelMap", "Prefetch", "Shuffle", "Cache", "Options", "Repeat"]
)


class TrainingData(NamedTuple):
    """The data that `fit` trains on.

    Attributes:
        x: The data; a generator is replaced, because its first batch was read.
        size: Number of examples in the data, or `None` if it cannot be known.
        steps: Number of batches in an epoch, or `None`.
        are_arrays: Whether `x` is an array, or nested arrays.
    """

    x: Any
    size: int | None
    steps: int | None
    are_arrays: bool = False


def measure(
    x: Any,
    batch_size: int | None = None,
    steps_per_epoch: int | None = None,
    validation_split: float = 0.0,
) -> TrainingData:
    """Returns the size of the data of `fit`.

    The size is exact for arrays, for data sets that put a known number of examples into
    batches, and for data sets with few batches. For a `keras.utils.PyDataset` with many
    batches, it comes from the first and the last batch; for any other `tf.data.Dataset`
    with many batches, all batches count as large as the first. Examples that
    `tf.data.Dataset.repeat` repeats count once. Other data without an end, and
    generators, count as many examples as an epoch of `steps_per_epoch` batches has.

    Args:
        x: The `x` of `fit`.
        batch_size: The `batch_size` of `fit`.
        steps_per_epoch: The `steps_per_epoch` of `fit`.
        validation_split: The share of the rows of arrays that Keras does not train on.
    """
    _check_is_data(x)
    if isinstance(x, types.GeneratorType):
        return _of_generator(x, steps_per_epoch)
    if isinstance(x, tf.data.Dataset):
        return _of_dataset(x, steps_per_epoch)
    if isinstance(x, keras.utils.PyDataset):
        return _of_py_dataset(x, steps_per_epoch)
    if hasattr(x, "element_spec") or not _is_array_like(x):
        return _of_loader(x, steps_per_epoch)
    # As in Keras.
    size = math.floor(_length(x) * (1.0 - validation_split))
    steps = steps_per_epoch or math.ceil(size / (batch_size or 32))
    return TrainingData(x, size, steps, are_arrays=True)


def _check_is_data(x: Any) -> None:
    """Raises if `fit` can't train on something, whatever its size."""
    is_array = _is_array_like(x)
    is_structure = isinstance(x, list | tuple | dict | str | bytes)
    is_stream = isinstance(x, keras.utils.PyDataset) or any(
        hasattr(x, name) for name in ("__iter__", "element_spec")
    )
    leaves = (
        [leaf for leaf in tf.nest.flatten(x) if leaf is not None] if is_array else []
    )
    is_number = any(len(leaf.shape) == 0 for leaf in leaves)
    if is_number or not (is_array or (is_stream and not is_structure)):
        shown = f"a {type(x).__name__}" if isinstance(x, list | tuple | dict) else x
        raise ValueError(
            "Argument `x` must be the training data: arrays, a `tf.data.Dataset`, a "
            "`keras.utils.PyDataset`, a generator or a data loader; convert lists of "
            f"numbers with `numpy.asarray`. Received: x={shown}"
        )
    for leaf in leaves:
        if getattr(getattr(leaf, "dtype", None), "kind", "") in ("U", "S"):
            raise ValueError(
                "Arrays of strings can't be trained on; expected numbers in `x` or, for a "
                "model that takes strings, a tensor `tf.constant(x)`. Received: "
                f"x of type {leaf.dtype}"
            )


def is_sparse(x: Any) -> bool:
    """Whether any array is sparse or ragged, from TensorFlow or SciPy."""
    return any(
        isinstance(leaf, tf.SparseTensor | tf.RaggedTensor) or hasattr(leaf, "tocsr")
        for leaf in tf.nest.flatten(x)
    )


def warn_of_nan(size: int, *arrays: Any) -> None:
    """Warns if training arrays contain NaN.

    They are allowed, because a loss may ignore such targets, and a layer such inputs.

    Args:
        size: Number of rows that are trained on.
        *arrays: Arrays, nested ones, or `None`.
    """
    for array in tf.nest.flatten(arrays):
        if not isinstance(array, np.ndarray | tf.Tensor):
            continue
        values = np.asarray(array)[:size]
        # The sum takes one pass without a copy; it is also NaN if infinities cancel.
        if values.dtype.kind != "f" or not np.isnan(values.sum()):
            continue
        if count := int(np.isnan(values).sum()):
            warnings.warn(
                "The training data contain NaN, so the loss will be NaN unless the "
                "model or the loss ignores these values; remove or replace them if it "
                f"does not. Received: {count} NaN in an array of shape {values.shape}",
                stacklevel=3,
            )


def _of_generator(x: Any, steps: int | None) -> TrainingData:
    first = next(x, None)
    if first is None:
        return TrainingData(x, 0, 0)
    batches = (batch for batch in itertools.chain([first], x))
    size = None if steps is None else steps * _length(first)
    return TrainingData(batches, size, steps)


def _of_dataset(x: tf.data.Dataset, steps: int | None) -> TrainingData:
    cardinality = int(x.cardinality())
    steps = steps or (cardinality if cardinality >= 0 else None)
    if steps is None:
        return TrainingData(x, None, None)
    source, batchings, is_repeated = _source(x)
    count, repeats_within = int(source.cardinality()), _repeats(source)
    is_clear = not repeats_within and not (batchings and _batches(source))
    if is_clear and count >= 0 and batchings == 1:
        # The data set knows its size. Nothing is read, because a seeded shuffle changes
        # its order with every iteration, and training should get the first order.
        return TrainingData(x, count, steps)
    if is_clear and count >= 0 and batchings == 0 and is_repeated:
        return TrainingData(x, _read(source), steps)
    if cardinality == tf.data.INFINITE_CARDINALITY:
        return TrainingData(x, steps * _first_length(x), steps)
    if is_repeated or repeats_within:
        return TrainingData(x, None, steps)
    size = _read(x) if cardinality >= 0 else steps * _first_length(x)
    return TrainingData(x, size, steps)


def _read(x: tf.data.Dataset) -> int:
    """Returns the number of examples in the batches of a data set of known length."""
    batches = int(x.cardinality())
    if _batch_size_of_spec(x.element_spec) is None and batches <= _FEW_BATCHES:
        return sum(_length(element) for element in x)
    return batches * _first_length(x)


def _first_length(x: tf.data.Dataset) -> int:
    size = _batch_size_of_spec(x.element_spec)
    if size is not None:
        return size
    return next((_length(element) for element in x.take(1)), 0)


def _source(x: tf.data.Dataset) -> tuple[tf.data.Dataset, int, bool]:
    """Returns the data set from which steps that keep all examples make this one.

    Returns:
        The data set before these steps, how often they put its elements into batches, and
        whether they repeat it.
    """
    batchings, is_repeated = 0, False
    while (kind := _kind(x)) in _BATCHING | _KEEPING:
        (before,) = private_training.inputs_of_dataset(x)
        if _rank(x) != _rank(before) and kind not in _BATCHING and _batches(before):
            break  # it makes other rows of a batch, of windows say
        batchings += kind in _BATCHING
        is_repeated |= kind == "Repeat"
        x = before
    return x, batchings, is_repeated


def _rank(x: tf.data.Dataset) -> int | None:
    return tf.nest.flatten(x.element_spec)[0].shape.rank


def _repeats(x: tf.data.Dataset) -> bool:
    """Whether an example may occur more than once, because a step repeats it."""
    # A repeated data set that is zipped with one that is not repeated gives new pairs.
    among = all if _kind(x) == "Zip" else any
    return _kind(x) == "Repeat" or (
        bool(private_training.inputs_of_dataset(x))
        and among(map(_repeats, private_training.inputs_of_dataset(x)))
    )


def _batches(x: tf.data.Dataset) -> bool:
    """Whether a step of a data set puts elements into batches."""
    return _kind(x) in _BATCHING or any(
        map(_batches, private_training.inputs_of_dataset(x))
    )


def _kind(x: tf.data.Dataset) -> str:
    return type(x).__name__.lstrip("_").removesuffix("Dataset")


def _of_py_dataset(x: keras.utils.PyDataset, steps: int | None) -> TrainingData:
    batches = x.num_batches
    if batches == 0:
        return TrainingData(x, 0, 0)
    first = _length(x[0])
    if batches is None:
        return TrainingData(x, None if steps is None else steps * first, steps)
    if batches <= _FEW_BATCHES:
        size = first + sum(_length(x[index]) for index in range(1, batches))
    else:
        size = (batches - 1) * first + _length(x[batches - 1])
    return TrainingData(x, size, steps or batches)


def _of_loader(x: Any, steps: int | None) -> TrainingData:
    """Measures a distributed data set, or a data loader of another library."""
    batches = len(x) if hasattr(x, "__len__") else None
    # A loader of PyTorch has an attribute with its data.
    source: Any = getattr(x, "dataset", None)
    is_sized = batches is not None and hasattr(source, "__len__")
    return TrainingData(x, len(source) if is_sized else None, steps or batches)


def _length(data: Any) -> int:
    """Returns the number of rows of the first array of a structure."""
    first = next(leaf for leaf in tf.nest.flatten(data) if leaf is not None)
    if isinstance(first, tf.SparseTensor):
        return int(first.dense_shape[0])
    if isinstance(first, tf.RaggedTensor):
        return int(first.nrows())
    # Sparse matrices have a shape, but no length.
    return first.shape[0] if hasattr(first, "shape") else len(first)


def _batch_size_of_spec(spec: Any) -> int | None:
    shape = tf.nest.flatten(spec)[0].shape
    return shape[0] if shape.rank else None


def _is_array_like(x: Any) -> bool:
    leaves = [leaf for leaf in tf.nest.flatten(x) if leaf is not None]
    return bool(leaves) and all(hasattr(leaf, "shape") for leaf in leaves)
