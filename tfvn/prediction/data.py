"""Rows to predict, from arrays, data sets and generators, in batches of a given size."""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import keras
import tensorflow as tf

from tfvn.prediction.program import inputs_by_name
from tfvn.prediction.rows import as_rows, as_tensor, join, row_of_zeros
from tfvn.utils import private_training
from tfvn.utils.models import all_layers, functional_graph
from tfvn.utils.validation import check_count


class Rows:
    """The rows of some data.

    Args:
        x: Anything that `keras.Model.predict` takes: an array, or a structure of arrays
            with the same number of rows, where arrays may be tensors, frames of pandas,
            sparse or ragged; or a `tf.data.Dataset`, a `keras.utils.PyDataset`, a
            generator or another iterable of batches. If a batch is a tuple or a list, its
            first part is used.
        steps: Number of batches to take from `x`; `None` is all. For arrays, `limit` sets
            the number of rows.

    Attributes:
        first: The first batch, or all rows of arrays.
    """

    def __init__(self, x: Any, steps: int | None = None):
        self.count: int | None = None
        self._steps = check_count("steps", steps, or_none=True)
        if is_stream(x):
            if self._steps is None:
                _check_end(x)
            stream = itertools.islice(_stream(x), self._steps)
            # The first batch is inspected here, and put back below.
            self.first = next(stream, None)
            if self.first is None:
                raise ValueError(
                    "Argument `x` must contain at least one batch. Received: "
                    f"x={type(x).__name__}, which is empty"
                )
            self._batches: Iterable[Any] = itertools.chain([self.first], stream)
        else:
            self.first = keras.tree.map_structure(as_rows, x)
            self.count = length(self.first)
            self._batches = [self.first]

    def arrange(self, function: Callable[[Any], Any]) -> None:
        """Applies a function to every batch that puts its parts in another order."""
        self.first = function(self.first)
        self._batches = map(function, self._batches)

    def limit(self, batch_size: int) -> None:
        """Limits arrays to the rows of `steps` batches of a size."""
        if self.count is not None and self._steps is not None:
            self.first = _slice(self.first, 0, self._steps * batch_size)
            self.count = length(self.first)
            self._batches = [self.first]

    def batches(self, size: int) -> Iterator[Any]:
        """Yields `size` rows at a time, and the remaining rows at the end.

        Rows with another shape than those before them start a new batch. Data without
        rows are one batch without rows, which still has a shape.
        """
        waiting: list[Any] = []
        count = taken = 0
        for batch in self._batches:
            if waiting and _shapes_of_rows(waiting[-1]) != _shapes_of_rows(batch):
                if count:
                    yield join(waiting)
                waiting, taken, count = [], taken + count, 0
            waiting.append(batch)
            count += length(batch)
            if count < size:
                continue
            rows, full = join(waiting), count - count % size
            for start in range(0, full, size):
                yield _slice(rows, start, start + size)
            # A rest without rows must not decide the shape of the next batch.
            waiting = [_slice(rows, full, count)] if count > full else []
            taken, count = taken + full, count - full
        if count or not taken:
            yield join(waiting)

    def number_of_batches(self, size: int) -> int | None:
        """Returns the number of batches, or `None` if it is not known."""
        return None if self.count is None else math.ceil(self.count / size)


def labelled_rows(
    model: keras.Model, x: Any, y: Any, sample_weight: Any, steps: int | None
) -> Rows:
    """Returns rows `(x, y, sample_weight)` of data that `keras.Model.fit` takes.

    A batch has `None` in place of weights if there are none. The inputs are checked, and
    the model is built, as in `checked_rows`.
    """
    if not is_stream(x):
        if y is None:
            raise ValueError(
                "Argument `y` must be the targets of `x`, unless `x` is a data set with "
                f"batches `(inputs, targets)`. Received: x={type(x).__name__} and y=None"
            )
        return checked_rows(model, (x, y, sample_weight), steps, labelled=True)
    if y is not None or sample_weight is not None:
        raise ValueError(
            "Arguments `y` and `sample_weight` must be `None` if `x` is a data set, "
            "which has batches `(inputs, targets)` or `(inputs, targets, weights)`. "
            f"Received: x={type(x).__name__}, y={type(y).__name__}, "
            f"sample_weight={type(sample_weight).__name__}"
        )
    if steps is None:
        _check_end(x)
    return checked_rows(model, _labelled_batches(x), steps, labelled=True)


def _labelled_batches(source: Any) -> Iterator[Any]:
    if isinstance(source, keras.utils.PyDataset):
        source = private_training.batches_of(source)
    for batch in source:
        if not isinstance(batch, tuple | list) or len(batch) not in (2, 3):
            raise ValueError(
                "The batches of `x` must be tuples `(inputs, targets)` or `(inputs, "
                f"targets, weights)`. Received: a batch of type {type(batch).__name__}"
            )
        parts = (*batch, None)[:3]
        # Of a batch that is a tuple, `Rows` uses the first part.
        yield (parts,)


def checked_rows(
    model: keras.Model, x: Any, steps: int | None, labelled: bool = False
) -> Rows:
    """Returns the rows of the data, checks that they fit, and builds the model.

    Args:
        model: The model.
        x: The data, as in `Rows`.
        steps: As in `Rows`.
        labelled: Whether rows are tuples, the first part of which is the model's input.
    """
    check_model(model)
    rows = Rows(x, steps)

    def inputs_of(batch: Any) -> Any:
        return batch[0] if labelled else batch

    def by_name(batch: Any) -> Any:
        x = inputs_by_name(model, inputs_of(batch))
        return (x, *batch[1:]) if labelled else x

    if not model.built:
        _build(model, at_least_one_row(inputs_of(rows.first)))
    rows.arrange(by_name)
    graph = functional_graph(model)
    if graph is None:
        return rows
    expected = [tuple(symbol.shape[1:]) for symbol in graph.inputs]
    received = [
        None if part is None else tuple(part.shape[1:])
        for part in keras.tree.flatten(inputs_of(rows.first))
    ]
    _check_types(graph.inputs, keras.tree.flatten(inputs_of(rows.first)))
    if len(expected) != len(received) or not all(map(_fits, received, expected)):
        raise ValueError(
            "Argument `x` must have an array for each input of the model, in which one "
            f"example has these shapes: {expected}. Received: x with examples of "
            f"shapes {received}"
        )
    return rows


def check_model(model: Any) -> None:
    """Raises unless something is a Keras model."""
    if not isinstance(model, keras.Model):
        raise ValueError(
            "Argument `model` must be a `keras.Model`. "
            f"Received: model={type(model).__name__}"
        )


def _check_types(symbols: list[Any], parts: list[Any]) -> None:
    """Raises if strings are given where a model takes numbers."""
    for symbol, part in zip(symbols, parts, strict=False):
        if part is None or symbol.dtype == "string":
            continue
        dtype: Any = getattr(part, "dtype", None)
        is_text = getattr(dtype, "kind", "") in ("U", "S")
        if getattr(dtype, "kind", "") == "O":
            is_text = any(isinstance(value, str | bytes) for value in part.flat)
        if is_text or getattr(dtype, "name", "") == "string":
            raise ValueError(
                f"Argument `x` must have numbers for the input {symbol.name!r} of the "
                f"model, whose type is {symbol.dtype}. Received: x of type {dtype}"
            )


def _build(model: keras.Model, first: Any) -> None:
    """Calls a model for the first time, which creates its variables."""
    if any(getattr(layer, "stateful", False) for layer in all_layers(model)):
        raise ValueError(
            "A model with stateful recurrent layers must be built with a fixed batch "
            "size; give it a `keras.Input` with a `batch_size`. Received: "
            f"model={model.name!r}, which is not built"
        )
    model(keras.tree.map_structure(as_tensor, _slice(first, 0, 1)), training=False)


def _fits(shape: tuple[int, ...] | None, expected: tuple[int | None, ...]) -> bool:
    if shape is None:
        return True  # left out; Keras says whether it may be
    # As in Keras, a last axis of size 1 is optional.
    shape = shape[:-1] if len(shape) > len(expected) and shape[-1] == 1 else shape
    if len(shape) < len(expected) and expected[-1] == 1:
        expected = expected[:-1]
    return len(shape) == len(expected) and all(
        size in (known, None) or known is None
        for size, known in zip(shape, expected, strict=True)
    )


def length(x: Any) -> int:
    """Returns the number of rows, which all arrays of a structure must share."""
    shapes = [rows.shape for rows in keras.tree.flatten(x) if rows is not None]
    if not shapes or any(s == () or s[0] != shapes[0][0] for s in shapes):
        raise ValueError(
            "Argument `x` must be arrays with one row for each example, and the same "
            "number of rows in each; convert lists of numbers with `numpy.asarray`. "
            f"Received: x of shapes {_first_few([tuple(shape) for shape in shapes])}"
        )
    return shapes[0][0]


def _first_few(shapes: list[Any]) -> str:
    # A nested list of numbers has a shape for each.
    more = f", and {len(shapes) - 5:,} more" if len(shapes) > 5 else ""
    return f"{shapes[:5]}{more}"


def at_least_one_row(x: Any) -> Any:
    """Returns rows, or a row of zeros if there are none."""
    return x if length(x) else _map(row_of_zeros, x)


def is_stream(x: Any) -> bool:
    """Whether data come in batches, one after the other."""
    if isinstance(x, tf.data.Dataset | keras.utils.PyDataset) or hasattr(x, "__next__"):
        return True
    # Another source of batches, such as a loader of PyTorch.
    is_array = hasattr(x, "shape") or hasattr(x, "__array__")
    is_structure = keras.tree.is_nested(x) or isinstance(x, str | bytes)
    return hasattr(x, "__iter__") and not is_array and not is_structure


def _check_end(source: Any) -> None:
    if isinstance(source, keras.utils.PyDataset):
        is_infinite = source.num_batches is None
    else:
        is_infinite = isinstance(source, tf.data.Dataset) and (
            source.cardinality() == tf.data.INFINITE_CARDINALITY
        )
    if is_infinite:
        raise ValueError(
            "Argument `x` never ends; pass `steps`, the number of batches to predict. "
            f"Received: x={type(source).__name__} and steps=None"
        )


def _stream(source: Any) -> Iterator[Any]:
    if isinstance(source, keras.utils.PyDataset):
        source = private_training.batches_of(source)
    for batch in source:
        x = batch[0] if isinstance(batch, tuple | list) else batch
        yield keras.tree.map_structure(as_rows, x)


def _map(function: Callable[[Any], Any], x: Any) -> Any:
    """Applies a function to inputs, except missing ones."""
    return keras.tree.map_structure(
        lambda rows: None if rows is None else function(rows), x
    )


def _shapes_of_rows(x: Any) -> list[Any]:
    flat = keras.tree.flatten(x)
    return [None if rows is None else tuple(rows.shape[1:]) for rows in flat]


def _slice(x: Any, start: int, stop: int) -> Any:
    return _map(lambda rows: rows[start:stop], x)
