"""Runs an experiment piece by piece, and writes its figures.

The folder of a run contains:

- `settings.json` and `versions.json`, the settings and the versions of the libraries,
  written when the run starts;
- `pieces/`, a file for each piece that has ended, so that a resumed run skips it;
- `models/`, the trained networks;
- `backups/`, the state of the training of the current piece, after its last epoch;
- `result.json` and images, written when all pieces have ended.
"""

import contextlib
import json
import math
import os
import pathlib
import platform
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

import tfvn
from tfvn.experiments.experiment import NOT_RUN, Experiment, Piece, Results, overall
from tfvn.utils.tables import text_table

RESULT = "result.json"

# The widths of the columns of the closing table, where the terminal is wide enough. The
# last column has the verdicts, which are not broken.
_WIDTHS = (34, 30, 34, 12)
_SPACES = 2 * (len(_WIDTHS) - 1)


def prepare(
    experiment: Experiment,
    form: str = "default",
    seeds: int | None = None,
    resume: bool = False,
    output: pathlib.Path = pathlib.Path("results"),
) -> pathlib.Path:
    """Makes the folder of a run ready, or raises if this would destroy another run.

    Args:
        experiment: The experiment.
        form: `"quick"`, `"default"` or `"full"`.
        seeds: Number of seeds; `None` is that of the settings.
        resume: Whether to continue a run instead of starting anew.
        output: The directory of all results.

    Returns:
        The folder.
    """
    settings = experiment.settings_of(form)
    folder = folder_of(output, experiment.name, form)
    path = folder / "settings.json"
    is_started = path.is_file()
    if resume and is_started:
        known = read_json(path)
        # More seeds may be added to a run.
        settings["seeds"] = known["seeds"] if seeds is None else seeds
        if {**known, "seeds": 0} != {**_plain(settings), "seeds": 0}:
            raise ValueError(
                "A run can be resumed only with the settings it was started with; leave "
                f"out --resume and choose another --output. Received: {folder}, which "
                f"was started with {known}"
            )
        _check_versions(folder)
        for piece in sorted((folder / "pieces").glob("*.json")):
            read_json(piece, "remove it, and --resume runs this part again")
    elif is_started and not _is_finished(folder):
        raise ValueError(
            "An interrupted run must be continued with --resume, or its folder removed "
            f"to start anew. Received: {folder}, which has an interrupted run"
        )
    else:
        settings["seeds"] = settings["seeds"] if seeds is None else seeds
        _clear(folder)
    write_json(folder / "versions.json", versions())
    write_json(path, settings)
    return folder


@contextlib.contextmanager
def locked(folder: pathlib.Path) -> Iterator[None]:
    """Makes sure that no other process runs in a folder, or raises.

    The lock ends with the process, also if it is killed.

    Args:
        folder: The folder of a run; it is made if it is not there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if sys.platform == "win32":
        yield  # it has no locks of folders
        return
    import fcntl

    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(handle)
        raise ValueError(
            "A folder can have one run at a time; wait for the other one, or choose "
            f"another --output. Received: {folder}; another process is running in it"
        ) from error
    try:
        yield
    finally:
        os.close(handle)


def versions() -> dict[str, str]:
    """Returns the versions of the libraries that figures depend on."""
    return {
        "tfvn": tfvn.__version__,
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
        "tensorflow-probability": tfp.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def run(
    experiment: Experiment,
    form: str,
    folder: pathlib.Path,
    report: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Runs the pieces of an experiment that have not ended, and writes the result.

    Args:
        experiment: The experiment.
        form: The form of the run.
        folder: The folder that `prepare` has made.
        report: What prints a line of progress.

    Returns:
        The result.
    """
    settings = read_json(folder / "settings.json")
    pieces = [
        (configuration, seed)
        for seed in range(settings["seeds"])
        for configuration in settings.get("configurations", experiment.configurations)
    ]
    stored = []
    for index, (configuration, seed) in enumerate(pieces, start=1):
        report(f"[{index}/{len(pieces)}] {configuration}, seed {seed}")
        path = folder / "pieces" / f"{_file_name(configuration)}-seed{seed}.json"
        if path.is_file():
            report("  has been run before")
        else:
            write_json(path, _run_piece(experiment, configuration, seed, folder))
        stored.append(read_json(path))
    result = _result(experiment, form, settings, stored)
    result["images"] = _draw(experiment, results_of(result), folder)
    write_json(folder / RESULT, result)
    shutil.rmtree(folder / "backups", ignore_errors=True)
    for line in closing_lines(result):
        report(line)
    report(f"\nWrote {folder / RESULT}")
    return result


def folder_of(output: pathlib.Path, name: str, form: str) -> pathlib.Path:
    """Returns the folder of a run.

    Args:
        output: The directory of all results.
        name: The name of the experiment.
        form: The form of the run.
    """
    return output / name if form == "default" else output / name / form


def results_of(result: Mapping[str, Any]) -> Results:
    """Returns the figures in a result, by configuration and seed."""
    pieces: dict[str, dict[int, Any]] = {}
    for piece in result["pieces"]:
        pieces.setdefault(piece["configuration"], {})[piece["seed"]] = piece["figures"]
    return Results(pieces)


def closing_lines(result: Mapping[str, Any]) -> list[str]:
    """Returns the lines of the tables that a run ends with."""
    table = result["table"]
    align = "l" + "r" * (len(table["header"]) - 1)
    lines = ["", *text_table(table["header"], table["rows"], align), ""]
    header = ("claim", "paper", "ours", "verdict")
    rows = [[claim[key] for key in header] for claim in result["claims"]]
    lines += text_table(header, _wrapped(rows, _widths()))
    if result["form"] == "quick":
        lines += ["", "A quick run only checks that the experiment runs."]
    return lines


def write_json(path: pathlib.Path, value: Any) -> None:
    """Writes a file in one step, so that it is never incomplete.

    Args:
        path: The file.
        value: Numbers, strings, lists and dictionaries; numbers that are not finite
            become `null`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    with partial.open("w", encoding="utf-8") as file:
        json.dump(_plain(value), file, indent=1, allow_nan=False)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def read_json(
    path: pathlib.Path, remedy: str = "remove its folder to start anew"
) -> Any:
    """Reads a file that `write_json` wrote, or raises if it is damaged.

    Args:
        path: The file.
        remedy: What to do if it is damaged.
    """
    try:
        return json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise ValueError(f"The file {path} is damaged; {remedy}. {error}") from error


def _is_finished(folder: pathlib.Path) -> bool:
    """Whether the last run in a folder has ended, and not only one with fewer seeds."""
    result = folder / RESULT
    settings = folder / "settings.json"
    return result.is_file() and read_json(result)["settings"] == read_json(settings)


def _check_versions(folder: pathlib.Path) -> None:
    """Raises if a run was started with other versions of the libraries."""
    path = folder / "versions.json"
    now = versions()
    before = read_json(path) if path.is_file() else now
    changed = [
        f"{name} {version} instead of {now.get(name)}"
        for name, version in before.items()
        if version != now.get(name)
    ]
    if changed:
        raise ValueError(
            "A run can be resumed only with the versions it was started with; install "
            "them, or leave out --resume and choose another --output. Received: "
            f"{folder}, which was started with {', '.join(changed)}"
        )


def _clear(folder: pathlib.Path) -> None:
    """Removes what a run has written, and nothing else."""
    result = folder / RESULT
    images = read_json(result)["images"] if result.is_file() else []
    for name in (RESULT, "settings.json", "versions.json", *images):
        (folder / name).unlink(missing_ok=True)
    for name in ("pieces", "models", "backups"):
        shutil.rmtree(folder / name, ignore_errors=True)


def _run_piece(
    experiment: Experiment, configuration: str, seed: int, folder: pathlib.Path
) -> dict[str, Any]:
    settings = read_json(folder / "settings.json")
    name = f"{_file_name(configuration)}-seed{seed}"
    piece = Piece(
        configuration,
        seed,
        settings,
        folder=folder / "backups" / name,
        model=folder / "models" / f"{name}.keras",
    )
    # Models of earlier pieces are not needed any more.
    keras.utils.clear_session()
    keras.utils.set_random_seed(seed)
    start = time.perf_counter()
    figures = experiment.run(piece)
    seconds = time.perf_counter() - start + piece.earlier_seconds
    return {
        "configuration": configuration,
        "seed": seed,
        "seconds": round(seconds, 1),
        "figures": figures,
    }


def _result(
    experiment: Experiment,
    form: str,
    settings: dict[str, Any],
    pieces: list[dict[str, Any]],
) -> dict[str, Any]:
    result: dict[str, Any] = {
        "experiment": experiment.name,
        "paper": experiment.paper,
        "claim": experiment.claim,
        "notes": experiment.notes,
        "form": form,
        "settings": settings,
        "seeds": list(range(settings["seeds"])),
        "versions": versions(),
        "machine": f"{os.cpu_count()} CPU cores, {platform.machine()}",
        "seconds": round(sum(piece["seconds"] for piece in pieces), 1),
        "pieces": pieces,
    }
    found = results_of(result)
    claims = [claim._asdict() for claim in experiment.judge(found)]
    if form == "quick":
        # So short a run decides nothing.
        claims = [{**claim, "verdict": NOT_RUN} for claim in claims]
    result["table"] = experiment.table(found)._asdict()
    result["claims"] = claims
    result["verdict"] = overall(claim["verdict"] for claim in claims)
    return result


def _draw(experiment: Experiment, results: Results, folder: pathlib.Path) -> list[str]:
    """Draws the figures, and returns the names of the files."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    names: list[str] = []

    def save(name: str, axes: Any) -> None:
        figure = np.ravel(np.asarray(axes, dtype=object))[0].figure
        figure.savefig(folder / f"{name}.png", dpi=100)
        plt.close(figure)
        names.append(f"{name}.png")

    experiment.draw(results, save)
    return names


def _widths() -> list[int]:
    """Returns the widths of the columns of the closing table, for this terminal."""
    *texts, verdict = _WIDTHS
    columns = shutil.get_terminal_size((sum(_WIDTHS) + _SPACES, 24)).columns
    room = min(sum(texts), columns - _SPACES - verdict)
    return [*(max(10, width * room // sum(texts)) for width in texts), verdict]


def _wrapped(rows: Iterable[Sequence[str]], widths: Sequence[int]) -> list[list[str]]:
    """Returns rows whose cells are broken into several lines, with an empty line between.

    Args:
        rows: The cells, row by row.
        widths: The width of each column.
    """
    lines: list[list[str]] = []
    for row in rows:
        cells = [
            textwrap.wrap(cell, width) or [""]
            for cell, width in zip(row, widths, strict=True)
        ]
        height = max(map(len, cells))
        padded = [cell + [""] * (height - len(cell)) for cell in cells]
        lines += [list(line) for line in zip(*padded, strict=True)] + [[""] * len(row)]
    return lines[:-1]


def _file_name(configuration: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in configuration)


def _plain(value: Any) -> Any:
    """Returns a value as JSON has it."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
