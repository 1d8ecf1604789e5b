"""The answers of `tfvn predict`: a table, CSV or JSON."""

import csv
import dataclasses
import io
import itertools
import json
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tfvn.serving.endpoints import order_of
from tfvn.serving.labels import WITH_CLASSES
from tfvn.serving.saved_model import own_digits
from tfvn.utils.tables import text_table

# The largest numbers of rows and of values per cell that are printed.
_MOST_ROWS = 10
_MOST_VALUES = 4


@dataclasses.dataclass(frozen=True)
class Answer:
    """The answer of an export, with what is needed to show it.

    Attributes:
        arrays: The results by name.
        heading: What the rows are: `"row"` or `"file"`.
        names: The name of each row.
        facts: What `tfvn.serving.card.read` returns; nothing for other SavedModels.
        top: How many classes to show.
    """

    arrays: dict[str, np.ndarray]
    heading: str
    names: Sequence[str]
    facts: Mapping[str, Any]
    top: int = 3

    def outputs(self) -> dict[str, "Classes | None"]:
        """Returns the classes of each output, or `None` if it has none, by its name."""
        kinds: Mapping[str, str] = self.facts.get("results", {})
        return {name: self._classes(name, kind) for name, kind in kinds.items()}

    def _classes(self, output: str, kind: str) -> "Classes | None":
        prefix = f"{output}_" if output else ""
        mean = self.arrays.get(f"{prefix}mean")
        if kind not in WITH_CLASSES or mean is None or mean.ndim > 2:
            return None
        std = self.arrays.get(f"{prefix}std")
        if mean.ndim == 1 or mean.shape[1] == 1:
            # The probability of the second of two classes.
            mean = mean.reshape(-1, 1)
            mean = np.concatenate([1 - mean, mean], axis=1)
            if std is not None:
                std = np.repeat(std.reshape(-1, 1), 2, axis=1)
        return Classes(
            mean, std, self.labels(output) or list(map(str, range(mean.shape[1])))
        )

    def labels(self, output: str) -> list[str] | None:
        """Returns the labels of an output, if the export has them."""
        labels = self.facts.get("labels")
        return labels.get(output) if isinstance(labels, Mapping) else labels


@dataclasses.dataclass(frozen=True)
class Classes:
    """Probabilities of classes, of shape `(rows, classes)`, and their names."""

    mean: np.ndarray
    std: np.ndarray | None
    labels: list[str]

    def top(self, row: int, count: int) -> list[tuple[str, float, float | None]]:
        """Returns the most likely classes with probability and standard deviation."""
        order = np.argsort(-self.mean[row], kind="stable")[:count]
        std: Any = [None] * len(self.labels) if self.std is None else self.std[row]
        return [(self.labels[i], self.mean[row, i], std[i]) for i in order]


def table(answer: Answer) -> str:
    """Returns the first rows of an answer as a table."""
    # SavedModels of other programs may answer without rows, or with any number of them.
    columns = {name: np.atleast_1d(value) for name, value in answer.arrays.items()}
    count = max(map(len, columns.values()), default=0)
    shown = range(min(count, _MOST_ROWS))
    names = list(answer.names) if len(answer.names) == count else list(map(str, shown))
    header, cells, align = [answer.heading], [[names[row] for row in shown]], "l"
    for output, classes in answer.outputs().items():
        if classes is None:
            continue
        prefix = f"{output}_" if output else ""
        columns = {
            name: value
            for name, value in columns.items()
            if name not in (f"{prefix}mean", f"{prefix}std")
        }
        ranked = [classes.top(row, answer.top) for row in shown]
        for rank in range(min(answer.top, len(classes.labels))):
            start = f"{output}: " if output else ""
            header += [f"{start}class {rank + 1}", "probability"]
            cells += [
                [row[rank][0] for row in ranked],
                [_probability(*row[rank][1:]) for row in ranked],
            ]
            align += "lr"
    for name in sorted(columns, key=order_of):
        value = columns[name]
        header.append(name.replace("_", " ") if answer.facts else name)
        cells.append([_values(value[r]) if r < len(value) else "" for r in shown])
        align += "r" if value.ndim == 1 and answer.facts else "l"
    lines = text_table(header, zip(*cells, strict=True), align)
    if count > _MOST_ROWS:
        lines.append(
            f"... and {count - _MOST_ROWS} more rows; `--output FILE.csv` writes all"
        )
    return "\n".join(lines)


def csv_text(answer: Answer) -> str:
    """Returns all rows as CSV, with the most likely class first, then all results."""
    header, columns = [answer.heading], [list(answer.names)]
    for output, classes in answer.outputs().items():
        if classes is None:
            continue
        prefix = f"{output}_" if output else ""
        best = [classes.top(row, 1)[0] for row in range(len(answer.names))]
        header += [f"{prefix}class", f"{prefix}probability"]
        columns += [[label for label, *_ in best], _numbers([p for _, p, _ in best])]
        if classes.std is not None:
            header.append(f"{prefix}probability_std")
            columns.append(_numbers([std for *_, std in best]))
    for name, value in _with_rows(answer):
        for place, column in _flat(answer, name, value):
            header.append(place)
            columns.append(_numbers(column))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(zip(*columns, strict=True))
    return text.getvalue()


def json_text(answer: Answer, about: Mapping[str, Any]) -> str:
    """Returns all rows as JSON.

    Args:
        answer: The answer.
        about: What to write before the rows.
    """
    columns = {name: _numbers(value) for name, value in _with_rows(answer)}
    outputs = {name: x for name, x in answer.outputs().items() if x is not None}
    rows = []
    for index, name in enumerate(answer.names):
        row: dict[str, Any] = {
            answer.heading: index if answer.heading == "row" else name
        }
        for output, classes in outputs.items():
            row[f"{output}_top" if output else "top"] = [
                {
                    "class": label,
                    "probability": _numbers(probability),
                    **({} if std is None else {"std": _numbers(std)}),
                }
                for label, probability, std in classes.top(index, answer.top)
            ]
        row.update({name: column[index] for name, column in columns.items()})
        rows.append(row)
    return json.dumps({**about, "rows": rows}, indent=1) + "\n"


def write(path: pathlib.Path, answer: Answer, about: Mapping[str, Any]) -> None:
    """Writes an answer to a file, the kind of which its suffix tells."""
    suffix = path.suffix.lower()
    if suffix == ".csv":
        path.write_text(csv_text(answer), "utf-8")
    elif suffix == ".json":
        path.write_text(json_text(answer, about), "utf-8")
    else:
        # Opened here, because NumPy would add a suffix to the name.
        with path.open("wb") as file:
            # NumPy's stub mistakes every keyword for `allow_pickle`.
            np.savez(file, **answer.arrays)  # type: ignore[arg-type]


def _with_rows(answer: Answer) -> Iterator[tuple[str, np.ndarray]]:
    """Yields the results in order; raises unless each has a value for each row."""
    for name in sorted(answer.arrays, key=order_of):
        value = answer.arrays[name]
        if value.shape[:1] != (len(answer.names),):
            raise ValueError(
                "Every result must have a value for each row to be written as CSV or "
                f"JSON; write a .npz file. Received: result {name!r} of shape "
                f"{value.shape} for {len(answer.names)} rows"
            )
        yield name, value


def _flat(
    answer: Answer, name: str, value: np.ndarray
) -> Iterator[tuple[str, np.ndarray]]:
    """Yields columns of one number for each row, with their names."""
    kinds: Mapping[str, str] = answer.facts.get("results", {})
    outputs = [x for x in kinds if not x or name.startswith(f"{x}_")]
    labels = answer.labels(max(outputs, key=len)) if outputs else None
    for index in itertools.product(*map(range, value.shape[1:])):
        places = list(map(str, index))
        if labels and value.shape[-1] == len(labels) and value.ndim > 1:
            places[-1] = labels[index[-1]]
        column: Any = (slice(None), *index)
        yield "_".join([name, *places]), value[column]


def _probability(mean: float, std: float | None) -> str:
    return f"{mean:.3f}" if std is None else f"{mean:.3f} +- {std:.3f}"


def _values(value: np.ndarray) -> str:
    flat = np.ravel(value)
    form = "{:.4g}" if flat.dtype.kind in "biuf" else "{}"
    shown = " ".join(map(form.format, flat[:_MOST_VALUES]))
    return f"{shown} ..." if flat.size > _MOST_VALUES else shown


def _numbers(values: Any) -> Any:
    """Returns an array as lists of Python's numbers, with the digits of its own type."""
    array = np.asarray(values)
    if array.dtype.kind in "OS":
        flat = [_text(value) for value in array.reshape(-1).tolist()]
        return np.array(flat, dtype=object).reshape(array.shape).tolist()
    return own_digits(array).tolist()


def _text(value: Any) -> str:
    return (
        value.decode("utf-8", "backslashreplace")
        if isinstance(value, bytes)
        else str(value)
    )
