"""How many examples an epoch has, from what `fit` is given."""

import itertools
import math
import types
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

ADVICE = "pass the number of training examples to `compile(train_size=...)`"


class TrainingData(NamedTuple):
    """What `fit` trains on.

    Attributes:
        x: The data; a generator is replaced, because its first batch was looked at.
        size: Number of examples in an epoch, or `None` where it cannot be known.
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
) -> TrainingData:
    """Returns the size of the data that `fit` was given.

    Exact for arrays. A `tf.data.Dataset`, a `keras.utils.PyDataset` and a generator count
    in batches, so there it is right to within the last batch.

    Args:
        x: The `x` of `fit`.
        batch_size: The `batch_size` of `fit`.
        steps_per_epoch: The `steps_per_epoch` of `fit`.
    """
    if isinstance(x, types.GeneratorType):
        return _of_generator(x, steps_per_epoch)
    batches: int | None
    batch: int | None
    if isinstance(x, tf.data.Dataset):
        batches = int(x.cardinality())
        batch = _batch_size_of_spec(x.element_spec)
        if batch is None:
            batch = next((_length(element) for element in x.take(1)), 0)
    elif isinstance(x, keras.utils.PyDataset):
        batches = x.num_batches
        batch = _length(x[0]) if batches else 0
    elif hasattr(x, "element_spec") or not _is_array_like(x):
        # A distributed data set, or a data loader of another library.
        batches, batch = getattr(x, "__len__", lambda: None)(), None
    else:
        return _of_arrays(x, batch_size, steps_per_epoch)
    if batches is not None and batches < 0:
        batches = None  # infinite or unknown
    steps = steps_per_epoch or batches
    size = None if steps is None or batch is None else steps * batch
    return TrainingData(x, size, steps)


def check_no_nan(*arrays: Any) -> None:
    """Refuses training arrays with NaN in them.

    Args:
        *arrays: Arrays, nested ones, or `None`.
    """
    for array in tf.nest.flatten(arrays):
        values = np.asarray(array)
        # The sum is one pass without a copy; it is also NaN where infinities cancel.
        if values.dtype.kind != "f" or not np.isnan(values.sum()):
            continue
        if count := int(np.isnan(values).sum()):
            raise ValueError(
                "The training data must not contain NaN; remove or replace the examples "
                f"that do. Received: {count} NaN in an array of shape {values.shape}"
            )


def _of_arrays(x: Any, batch_size: int | None, steps: int | None) -> TrainingData:
    size = _length(x)
    steps = steps or math.ceil(size / (batch_size or 32))
    return TrainingData(x, size, steps, are_arrays=True)


def _of_generator(x: Any, steps: int | None) -> TrainingData:
    first = next(x, None)
    if first is None:
        return TrainingData(x, 0, 0)
    batches = (batch for batch in itertools.chain([first], x))
    size = None if steps is None else steps * _length(first)
    return TrainingData(batches, size, steps)


def _length(data: Any) -> int:
    return len(tf.nest.flatten(data)[0])


def _batch_size_of_spec(spec: Any) -> int | None:
    shape = tf.nest.flatten(spec)[0].shape
    return shape[0] if shape.rank else None


def _is_array_like(x: Any) -> bool:
    leaves = tf.nest.flatten(x)
    return bool(leaves) and all(hasattr(leaf, "shape") for leaf in leaves)
