"""CSV files as rows for `tfvn predict`."""

import contextlib
import csv
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

Line = tuple[int, list[str]]


def read_csv(
    path: pathlib.Path, specs: Mapping[str, tf.TensorSpec]
) -> tuple[dict[str, np.ndarray], list[int]]:
    """Returns the values of each input by name, and the numbers of the lines in the file.

    If there is one input of numbers, the columns are its values in order, and the first line
    is a header if no cell of it is a number. Several inputs, and inputs of text, take one
    column each, with their name in the header.

    Args:
        path: The file.
        specs: The inputs of the export.
    """
    lines = _lines(path)
    if len(specs) > 1 or any(spec.dtype == tf.string for spec in specs.values()):
        header, rest = _named_header(path, lines, specs)
        table = _Table(path, header, rest)
        arrays = {
            name: table.column(header.index(name), spec).reshape(
                [-1, *([1] * (spec.shape.rank - 1))]
            )
            for name, spec in specs.items()
        }
    else:
        ((name, spec),) = specs.items()
        shape = _shape(path, spec, len(lines[0][1])) if lines else []
        header, rest = _header(lines)
        table = _Table(path, header, rest)
        columns = [table.column(index, spec) for index in range(table.width)]
        arrays = {name: np.stack(columns, axis=1).reshape([-1, *shape])}
    return arrays, [number for number, _ in rest]


def _lines(path: pathlib.Path) -> list[Line]:
    """Returns the cells of each line that has any, with the number of the line."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, skipinitialspace=True)
            return [(reader.line_num, cells) for cells in reader if cells]
    except (csv.Error, UnicodeDecodeError) as error:
        raise ValueError(
            "A .csv file must be text in UTF-8 with commas between its columns. "
            f"Received: --input {path}: {error}"
        ) from error


def _header(lines: list[Line]) -> tuple[list[str], list[Line]]:
    """Returns the names of the columns, if there are, and the other lines."""
    if lines and all(_number(cell) is None for cell in lines[0][1]):
        return lines[0][1], lines[1:]
    return [], lines


def _named_header(
    path: pathlib.Path, lines: list[Line], specs: Mapping[str, tf.TensorSpec]
) -> tuple[list[str], list[Line]]:
    wide = [name for name, spec in specs.items() if _size(spec) != 1]
    if wide:
        raise ValueError(
            "A .csv file can only have inputs of one number or text for each row if there "
            "are several inputs, or text; pass a .npz file with an array for each input. "
            f"Received: --input {path} for inputs {wide} with more than one"
        )
    header = [cell.strip() for cell in lines[0][1]] if lines else []
    if sorted(header) != sorted(specs):
        raise ValueError(
            "The first line of this .csv file must have the names of the inputs: "
            f"{', '.join(specs)}. Received: {', '.join(header)} in line 1 of "
            f"--input {path}"
        )
    return header, lines[1:]


def _size(spec: tf.TensorSpec) -> int | None:
    """Returns the number of values of each row, or `None` if it is not fixed."""
    return None if spec.shape.rank is None else spec.shape[1:].num_elements()


def _shape(path: pathlib.Path, spec: tf.TensorSpec, width: int) -> list[int]:
    """Returns the shape of a row."""
    size = _size(spec)
    if size is None and spec.shape.rank == 2:
        return [width]
    if size != width:
        wanted = "a fixed number of columns" if size is None else f"{size} columns"
        hint = "" if width > 1 else "; columns are separated by commas"
        raise ValueError(
            f"A .csv file for an input of shape {spec.shape[1:]} must have {wanted}, one "
            f"for each value{hint}. Received: --input {path} with {width}"
        )
    return list(spec.shape[1:])


class _Table:
    """The cells of a file, with the places that errors name."""

    def __init__(self, path: pathlib.Path, header: list[str], lines: list[Line]):
        if not lines:
            raise ValueError(
                "A .csv file must have at least one line of values. Received: "
                f"--input {path} with none"
            )
        self._path, self._header, self._lines = path, header, lines
        self.width = len(header or lines[0][1])
        for number, cells in lines:
            if len(cells) != self.width:
                raise ValueError(
                    "All lines of a .csv file must have as many columns as the first, "
                    f"{self.width}. Received: {len(cells)} in line {number} of "
                    f"--input {path}"
                )

    def column(self, index: int, spec: tf.TensorSpec) -> np.ndarray:
        """Returns a column as numbers, or as strings if the input takes strings."""
        cells = [line[index] for _, line in self._lines]
        if spec.dtype == tf.string:
            return np.array(cells, dtype=np.str_)
        values = [_number(cell) for cell in cells]
        for value, cell, (number, _) in zip(values, cells, self._lines, strict=True):
            if value is None:
                name = f" ({self._header[index]})" if self._header else ""
                found = repr(cell) if cell.strip() else "an empty cell"
                raise ValueError(
                    f"The cells of a .csv file must be numbers. Received: {found} in line "
                    f"{number}, column {index + 1}{name}, of --input {self._path}"
                )
        return np.array(values)


def _number(cell: str) -> Any:
    """Returns a cell as a number, or `None`; integers remain exact."""
    # Python alone reads "1_000" as a number.
    if "_" in cell:
        return None
    for convert in (int, float):
        with contextlib.suppress(ValueError):
            return convert(cell)
    return None
