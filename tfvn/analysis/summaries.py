"""The summary of a model: what its layers are made of, and what training made of them."""

import dataclasses
import math
from collections.abc import Iterator
from typing import NamedTuple

import keras

from tfvn.analysis.layer_rows import (
    NOISE,
    PLAIN,
    RANDOM,
    LayerRow,
    count_by_group,
    rows_of,
)
from tfvn.analysis.spread import QUANTILES
from tfvn.utils import private
from tfvn.utils.models import is_stock
from tfvn.utils.tables import html_table, text_table

_PARTS = (
    *("layer", "class", "posterior", "prior", "estimator"),
    *("mean", "scale", "other", "KL, nats"),
)
_WEIGHTS = (
    "layer",
    "weight",
    "measure",
    *(f"{100 * q:g} %" for q in QUANTILES),
    "zero",
)


class Table(NamedTuple):
    """A part of a summary: a title, the names of the columns, and the cells."""

    title: str
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]
    align: str


@dataclasses.dataclass(frozen=True, repr=False)
class Summary:
    """The result of `tfvn.summary`, which prints as tables.

    Attributes:
        name: The name of the model.
        model: The class of the model.
        rows: A `LayerRow` for each layer with random weights, noise or weights.
        parameters: The number of parameters in each group: `"mean"`, `"scale"`,
            `"other"`.
        not_trained: How many of the parameters training does not change.
    """

    name: str
    model: str
    rows: tuple[LayerRow, ...]
    parameters: dict[str, int]
    not_trained: int

    @property
    def total_kl(self) -> float:
        """The sum of the KL of all layers, in nats: what `fit` logs as `kl`."""
        return sum(row.kl for row in self.rows if row.kl is not None)

    def tables(self) -> list[Table]:
        """Returns the tables that the text shows, without those that are empty."""
        tables = [
            Table(
                "Layers with random weights",
                _PARTS,
                [cells for row in self._of(RANDOM) for cells in _random_cells(row)],
                "lllllrrrr",
            ),
            Table(
                "Random weights: quantiles over the weights that are not exactly zero",
                _WEIGHTS,
                [cells for row in self._of(RANDOM) for cells in _weight_cells(row)],
                "lllrrrr",
            ),
            Table(
                "Layers with noise",
                ("layer", "class", "noise", "parameters", "KL, nats"),
                [
                    (row.name, row.layer, row.remark, _size(row), _kl(row))
                    for row in self._of(NOISE)
                ],
                "lllrr",
            ),
            Table(
                "Plain layers",
                ("layer", "class", "parameters", "the same with random weights"),
                [
                    (row.name, row.layer, _size(row), row.remark)
                    for row in self._of(PLAIN)
                ],
                "llrl",
            ),
        ]
        return [table for table in tables if table.rows]

    def totals(self) -> list[str]:
        """Returns the last lines of the text: the parameters and the KL."""
        groups = ", ".join(f"{n:,} {name}" for name, n in self.parameters.items())
        count = f"{sum(self.parameters.values()):,} parameters: {groups}"
        if self.not_trained:
            count += f"; {self.not_trained:,} of them are not trained"
        if not self._of(RANDOM):
            return [count, "No layer has random weights, so there is no posterior."]
        estimated = any(row.is_estimated for row in self.rows)
        remark = " (~: estimated from one sample)" if estimated else ""
        return [count, f"KL: {'~' * estimated}{self.total_kl:,.1f} nats{remark}"]

    def __str__(self) -> str:
        blocks = [
            [table.title, *text_table(table.header, table.rows, table.align)]
            for table in self.tables()
        ]
        title = f"{self.name}, a {self.model}"
        return "\n\n".join(map("\n".join, [[title], *blocks, self.totals()]))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        tables = "".join(
            f"<p>{table.title}</p>{html_table(table.header, table.rows, table.align)}"
            for table in self.tables()
        )
        return f"{tables}<p>{'<br>'.join(self.totals())}</p>"

    def _of(self, kind: str) -> list[LayerRow]:
        return [row for row in self.rows if row.kind == kind]


def summary(model: keras.Model) -> Summary:
    """Summarizes the layers of a model: their random weights, their KL, their noise.

    The tables list, for each layer with random weights, its posterior, its prior, its
    estimator, its parameters and its KL, and for each of its weights

    - quantiles of log alpha, for Gaussian dropout: how large the noise is beside the mean;
    - quantiles of the signal-to-noise ratio `|mean| / scale`, for other weights with a
      mean;
    - quantiles of the scale, the standard deviation, for weights of mean zero;
    - how many of them are exactly zero, with a mean and a variance of zero.

    Then they list the layers that draw noise without a learned posterior, and the plain
    layers that have weights. The model does not change, and neither does its noise.

    Args:
        model: A model of this library or of Keras that has been built. It may contain
            other models and wrappers.

    Returns:
        A `Summary`, which prints as tables: in a notebook or at the prompt it shows
        itself, and in a script `print(tfvn.summary(model))` does. It has `rows` and
        `total_kl`.

    Raises:
        ValueError: If the model has not been built.

    Example:

    >>> import keras
    >>> import tfvn
    >>> model = keras.Sequential(
    ...     [
    ...         keras.Input((4,)),
    ...         tfvn.VarianceDense(3, name="first"),
    ...         keras.layers.Dropout(0.5, name="dropout"),
    ...         keras.layers.Dense(2, name="last"),
    ...     ],
    ...     name="small",
    ... )
    >>> summary = tfvn.summary(model)
    >>> summary.parameters
    {'mean': 0, 'scale': 12, 'other': 11}
    >>> [(row.name, row.kind, row.remark) for row in summary.rows][1]
    ('dropout', 'noise', 'rate=0.5')
    """
    if not isinstance(model, keras.Layer) or not model.built:
        name = getattr(model, "name", model)
        raise ValueError(
            "Argument `model` must be a Keras model that has been built; call it on data, "
            "or start it with a `keras.Input`. "
            f"Received: model={name!r} of type {type(model).__name__}"
        )
    frozen = sum(math.prod(v.shape) for v in model.non_trainable_weights)
    return Summary(
        name=model.name,
        model=_class_of(model),
        rows=tuple(rows_of(model)),
        parameters=count_by_group(model.weights),
        not_trained=frozen,
    )


def _class_of(model: keras.Layer) -> str:
    """Returns the class of a model; that of a functional one has no public name."""
    is_functional = isinstance(model, private.Functional)
    is_unnamed = is_functional and is_stock(type(model))
    return "Model" if is_unnamed else type(model).__name__


# How the tables show a row.


def _random_cells(row: LayerRow) -> Iterator[tuple[str, ...]]:
    """Yields a line for the layer, and one more for each other posterior or prior."""
    counts = (*(f"{n:,}" for n in row.parameters.values()), _kl(row))
    first = (row.name, row.layer)
    parts = dict.fromkeys((w.posterior, w.prior) for w in row.weights)
    for index, part in enumerate(parts):
        if index == 0:
            yield (*first, *part, row.estimator or "", *counts)
        else:
            yield ("", "", *part, "", *[""] * len(counts))


def _weight_cells(row: LayerRow) -> Iterator[tuple[str, ...]]:
    for weight in row.weights:
        numbers = (f"{value:.3g}" for value in weight.quantiles)
        zero = f"{100 * weight.sparsity:.3g} %"
        yield (row.name, weight.name, weight.measure, *numbers, zero)


def _size(row: LayerRow) -> str:
    return f"{sum(row.parameters.values()):,}"


def _kl(row: LayerRow) -> str:
    return "" if row.kl is None else f"{'~' * row.is_estimated}{row.kl:,.1f}"
