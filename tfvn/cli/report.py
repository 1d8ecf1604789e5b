"""`tfvn report`: writes a page on how good and how certain a saved model is."""

import pathlib
import shlex
from typing import Any

import keras
import numpy as np

from _tfvn_command import CommandError
from tfvn import datasets
from tfvn.cli.shared import check_output, first_line, keras_model, load_arrays, mistakes
from tfvn.prediction.data import checked_rows
from tfvn.reports import report
from tfvn.reports.figures import require_matplotlib

# The names that a file may have for inputs and for targets.
_INPUTS, _TARGETS = ("x", "x_test"), ("y", "y_test")


def run(
    path: pathlib.Path,
    data: str,
    ood: str | None = None,
    output: pathlib.Path = pathlib.Path("report.html"),
    num_samples: int = 20,
    limit: int = 2000,
    seed: int = 0,
    outputs: str = "auto",
) -> None:
    """Writes a page about a model.

    Args:
        path: A `.keras` file.
        data: The name of a data set, or a `.npz` file with `x` and `y`.
        ood: The same for data from outside of the distribution, where `y` is not needed.
        output: The page.
        num_samples: Number of draws.
        limit: The largest number of examples.
        seed: Fixes the draws and the choice of examples.
        outputs: What the model's outputs are, as in `tfvn.ensemble_predict`.
    """
    try:
        require_matplotlib()
    except ImportError as error:
        raise CommandError(str(error)) from error
    with mistakes():
        check_output(output)
        model = _load_model(path, outputs)
        x, y = _load("--data", data)
        _check_fit("--data", data, model, x)
        outside = None
        if ood is not None:
            outside, _ = _load("--ood", ood, needs_targets=False)
            _check_fit("--ood", ood, model, outside)
        report(
            model,
            x,
            y,
            ood=outside,
            path=output,
            num_samples=num_samples,
            limit=limit,
            seed=seed,
            outputs=outputs,
            names=(_name(data), _name(ood or "")),
            command=_command(path, data, ood, num_samples, limit, seed, outputs),
        )


def _load_model(path: pathlib.Path, outputs: str) -> keras.Model:
    if not path.is_file():
        what = "a directory" if path.is_dir() else "no such file"
        raise CommandError(f"the model must be a .keras file. Received: {path}, {what}")
    model = keras_model(path)
    if outputs != "auto":
        return model
    try:
        # The loss tells what the outputs are.
        return keras_model(path, compile=True)
    except ValueError as error:
        raise CommandError(
            "the loss of the model, which tells what its outputs are, can't be loaded; "
            f"say what they are with --outputs. {first_line(error)}"
        ) from error


def _load(option: str, value: str, needs_targets: bool = True) -> tuple[Any, Any]:
    """Returns inputs and targets of the user's data.

    Args:
        option: The option, for the error message.
        value: Its value: the name of a data set, or a file.
        needs_targets: Whether a file without targets is refused.
    """
    if value in datasets.names():
        return _load_data_set(option, value)
    path = pathlib.Path(value)
    if not path.is_file():
        raise CommandError(
            f"the data must be one of {', '.join(datasets.names())}, or a .npz file. "
            f"Received: {option} {value}, which is no such name and no file"
        )
    arrays = load_arrays(option, path)
    x: Any = next((arrays[name] for name in _INPUTS if name in arrays), None)
    y: Any = next((arrays[name] for name in _TARGETS if name in arrays), None)
    if x is None or (y is None and needs_targets):
        wanted = "`x` and `y` (or `x_test` and `y_test`)" if needs_targets else "`x`"
        found = sorted(filter(None, arrays)) or "one array without a name"
        raise CommandError(
            f"the file must be a .npz file with arrays {wanted}. "
            f"Received: {option} {value} with {found}"
        )
    return x, y


def _load_data_set(option: str, name: str) -> tuple[Any, Any]:
    try:
        pair: Any = datasets.load(name, split="test")
    except (ImportError, ValueError, OSError) as error:
        raise CommandError(f"{option} {name}: {first_line(error)}") from error
    if pair[0].dtype == object:
        raise CommandError(
            f"the examples of {name} have several lengths; pad them as in training, save "
            "them with `numpy.savez` as `x` and `y`, and pass the file. "
            f"Received: {option} {name}"
        )
    return pair


def _check_fit(option: str, value: str, model: keras.Model, x: np.ndarray) -> None:
    """Raises an error that names the option, if the model does not take such inputs."""
    try:
        checked_rows(model, x[:1], None)
    except ValueError as error:
        raise CommandError(f"{option} {value}: {first_line(error)}") from error


def _name(data: str) -> str:
    return data if data in datasets.names() else pathlib.Path(data).stem


def _command(
    path: pathlib.Path,
    data: str,
    ood: str | None,
    num_samples: int,
    limit: int,
    seed: int,
    outputs: str,
) -> str:
    """Returns the command that makes the page again, without the folders of the files."""
    parts = ["tfvn", "report", path.name, "--data", pathlib.Path(data).name]
    if ood is not None:
        parts += ["--ood", pathlib.Path(ood).name]
    options: dict[str, Any] = {
        "--num-samples": num_samples,
        "--limit": limit,
        "--seed": seed,
    }
    if outputs != "auto":
        options["--outputs"] = outputs
    parts += [str(part) for option in options.items() for part in option]
    return shlex.join(parts)
