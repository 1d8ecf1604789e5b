"""The rows for `tfvn predict`, from files of several kinds."""

import dataclasses
import pathlib
from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf

from tfvn.cli.predict_csv import read_csv
from tfvn.cli.predict_images import SUFFIXES, read_images
from tfvn.cli.shared import load_arrays
from tfvn.serving.saved_model import to_array


@dataclasses.dataclass(frozen=True)
class Rows:
    """Rows by the names of the inputs, in the types of the export.

    Attributes:
        arrays: The values of each input.
        heading: What the rows are: `"row"` or `"file"`.
        names: The name of each row: its number, from 0, or its file.
    """

    arrays: dict[str, np.ndarray]
    heading: str
    names: list[str]


def read_rows(
    path: pathlib.Path,
    specs: Mapping[str, tf.TensorSpec],
    key: str | None = None,
    pixels: str | None = None,
    finite: bool = True,
) -> Rows:
    """Reads the user's rows; raises errors that name the file as the user typed it.

    Args:
        path: A .csv, .npy, .npz, .png or .jpg file, or a folder of images.
        specs: The inputs of the signature, without its seed.
        key: The array of a .npz file, for an export with one input.
        pixels: What the pixels of images are scaled to.
        finite: Whether values that are not finite raise an error.
    """
    if not path.exists():
        raise FileNotFoundError(
            "`--input` must be a file or a folder that exists. "
            f"Received: --input {path}"
        )
    suffix = path.suffix.lower()
    is_image = path.is_dir() or suffix in SUFFIXES
    if pixels is not None and not is_image:
        raise ValueError(
            "`--pixels` is for images, and must be left out for other files. Received: "
            f"--pixels {pixels} with --input {path}"
        )
    if key is not None and (is_image or suffix in (".csv", ".npy")):
        raise ValueError(
            "`--key` names an array of a .npz file, and must be left out for other "
            f"files. Received: --key {key} with --input {path}"
        )
    names: list[str] = []
    place: Callable[[int], str] = "row {}".format
    if is_image:
        name = _only(path, specs)
        array, names = read_images(path, specs[name], pixels)
        arrays = {name: array}
        place = names.__getitem__
    elif suffix == ".csv":
        arrays, lines = read_csv(path, specs)
        place = [f"line {line}" for line in lines].__getitem__
    else:
        arrays = _by_name(path, load_arrays("--input", path), specs, key)
        _check_shapes(path, arrays, specs)
    converted = {
        name: to_array(array, specs[name], f"Input `{name}` of --input {path}")
        for name, array in arrays.items()
    }
    if finite:
        _check_finite(path, converted, place)
    count = len(next(iter(converted.values()), ()))
    return Rows(
        converted,
        "file" if names else "row",
        names or [str(row) for row in range(count)],
    )


def _only(path: pathlib.Path, specs: Mapping[str, tf.TensorSpec]) -> str:
    if len(specs) != 1:
        raise ValueError(
            f"The signature takes the inputs {list(specs)}, so `--input` must be a .npz "
            "file with an array for each of these names. Received: images, "
            f"--input {path}"
        )
    return next(iter(specs))


def _by_name(
    path: pathlib.Path,
    arrays: Mapping[str, np.ndarray],
    specs: Mapping[str, tf.TensorSpec],
    key: str | None,
) -> dict[str, np.ndarray]:
    """Returns the arrays of a file under the names of the inputs."""
    names = list(specs)
    if key is not None:
        if len(names) != 1 or key not in arrays:
            found = ", ".join(filter(None, arrays)) or "one array without a name"
            wanted = (
                f"be an array of the file: {found}"
                if len(names) == 1
                else f"be left out for a signature with the inputs {names}"
            )
            raise ValueError(
                f"`--key` must {wanted}. Received: --key {key} with --input {path}"
            )
        return {names[0]: arrays[key]}
    if len(names) == 1 and len(arrays) == 1:
        return {names[0]: next(iter(arrays.values()))}
    if "" in arrays:
        raise ValueError(
            f"The signature takes the inputs {names}, so `--input` must be a .npz file "
            "with an array for each of these names. Received: one array without a name "
            f"in --input {path}"
        )
    if set(arrays) != set(names):
        advice = ", or choose one of its arrays with `--key`" if len(names) == 1 else ""
        raise ValueError(
            "`--input` must contain an array for each input of the signature: "
            f"{sorted(names)}{advice}. Received: arrays named {sorted(arrays)} in "
            f"--input {path}"
        )
    return {name: arrays[name] for name in names}


def _check_shapes(
    path: pathlib.Path,
    arrays: Mapping[str, np.ndarray],
    specs: Mapping[str, tf.TensorSpec],
) -> None:
    for name, array in arrays.items():
        if not array.ndim:
            raise ValueError(
                "`--input` must contain arrays with at least one axis, the rows. "
                f"Received: a single value for input `{name}` in --input {path}"
            )
        if not specs[name].shape.is_compatible_with([None, *array.shape[1:]]):
            raise ValueError(
                f"The rows of input `{name}` must have the shape "
                f"{tuple(specs[name].shape[1:])}. Received: rows of shape "
                f"{array.shape[1:]} in --input {path}"
            )
    counts = {name: len(array) for name, array in arrays.items()}
    if len(set(counts.values())) > 1:
        raise ValueError(
            "All inputs must have the same number of rows. Received: "
            f"{', '.join(f'{n} for `{name}`' for name, n in counts.items())} in "
            f"--input {path}"
        )


def _check_finite(
    path: pathlib.Path, arrays: Mapping[str, np.ndarray], place: Callable[[int], str]
) -> None:
    for name, array in arrays.items():
        if array.dtype == object or not array.size:  # texts, or no rows
            continue
        is_finite = np.isfinite(array.astype("float64")).reshape(len(array), -1)
        wrong = np.flatnonzero(~is_finite.all(axis=1))
        if wrong.size:
            row = array[wrong[0]].reshape(-1)
            value = row[~is_finite[wrong[0]]][0]
            raise ValueError(
                f"The values of input `{name}` must be finite. Received: {value} in "
                f"{place(int(wrong[0]))} of --input {path}"
            )
