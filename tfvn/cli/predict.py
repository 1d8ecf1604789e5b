"""`tfvn predict`: calls an export without a server."""

import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from tfvn.cli.shared import check_output, load_arrays, mistakes
from tfvn.serving import versions
from tfvn.serving.endpoints import SEED
from tfvn.serving.saved_model import SavedModel
from tfvn.utils.tables import text_table

# The largest numbers of rows and of values per cell that are printed.
_MOST_ROWS = 10
_MOST_VALUES = 4


def run(
    path: pathlib.Path,
    input: pathlib.Path,
    signature: str | None = None,
    seed: int | None = None,
    output: pathlib.Path | None = None,
) -> None:
    """Prints or writes the answer of an export.

    Args:
        path: An export, or a directory of exports.
        input: A `.npy` file, or a `.npz` file of several inputs.
        signature: As in `ask`.
        seed: As in `ask`.
        output: A file for the answer; `None` prints its first rows.
    """
    with mistakes():
        check_output(output)
        answer = ask(path, load_arrays(input), signature, seed)
        if output is not None:
            # Opened here, because NumPy would add a suffix to the name.
            with output.open("wb") as file:
                # NumPy's stub mistakes every keyword for `allow_pickle`.
                np.savez(file, **answer)  # type: ignore[arg-type]
            return
        text = show(answer)
    print(text)


def ask(
    path: pathlib.Path,
    inputs: Mapping[str, Any],
    signature: str | None = None,
    seed: int | None = None,
) -> dict[str, np.ndarray]:
    """Returns the answer of an export.

    Args:
        path: An export, or a directory of exports.
        inputs: Arrays by name; a single one may be called `""`. Their values must fit
            the types of the signature.
        signature: Name of a signature. `None` is `seeded` if there is a seed, and
            `serving_default` otherwise.
        seed: An integer from 0 to 2**31 - 1, from which each row gets its own seed. Only
            the signature `seeded` takes it.

    Returns:
        Arrays by name.
    """
    signature = signature or ("serving_default" if seed is None else "seeded")
    model = SavedModel(versions.resolve(path))
    if signature not in model.signatures:
        raise ValueError(
            f"`--signature` must be one of {sorted(model.signatures)}. Received: "
            f"{signature!r}"
        )
    wanted = model.signatures[signature].inputs
    given = _by_name(inputs, wanted)
    if (SEED in wanted) != (seed is not None):
        advice = (
            "needs a seed; pass `--seed`"
            if seed is None
            else "takes no seed; leave `--seed` out, or pass `--signature seeded`"
        )
        raise ValueError(f"The signature {signature!r} {advice}. Received: seed={seed}")
    if seed is not None:
        rows = max((len(value) for value in given.values()), default=0)
        given[SEED] = np.stack([np.full(rows, seed), np.arange(rows)], axis=1)
    if set(given) != set(wanted):
        raise ValueError(
            "`--input` must contain an array for each input of the signature: "
            f"{sorted({*wanted} - {SEED})}. Received: arrays named "
            f"{sorted({*given} - {SEED})}"
        )
    return model(given, signature)


def _by_name(
    inputs: Mapping[str, Any], wanted: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """Returns the arrays under the names that the signature uses."""
    names = [name for name in wanted if name != SEED]
    if "" in inputs and len(names) != 1:
        raise ValueError(
            f"The signature takes the inputs {names}, so `--input` must be a .npz file "
            "with an array for each of these names. Received: one array without a name"
        )
    given = {name or names[0]: np.asarray(value) for name, value in inputs.items()}
    if not all(value.ndim for value in given.values()):
        raise ValueError(
            "`--input` must contain arrays with at least one axis, the rows. Received: "
            f"arrays of shapes {[value.shape for value in given.values()]}"
        )
    return given


def show(answer: Mapping[str, np.ndarray]) -> str:
    """Returns the first rows of an answer as a table."""
    # SavedModels of other programs may answer without rows, or with any number of them.
    columns = [np.atleast_1d(value) for value in answer.values()]
    count = max(map(len, columns), default=0)
    rows = [
        [str(row), *(_values(c[row]) if row < len(c) else "" for c in columns)]
        for row in range(min(count, _MOST_ROWS))
    ]
    lines = text_table(["row", *answer], rows)
    if count > _MOST_ROWS:
        lines.append(f"... and {count - _MOST_ROWS} more rows")
    return "\n".join(lines)


def _values(value: np.ndarray) -> str:
    flat = np.ravel(value)
    form = "{:.4g}" if flat.dtype.kind in "biuf" else "{}"
    shown = " ".join(map(form.format, flat[:_MOST_VALUES]))
    return f"{shown} ..." if flat.size > _MOST_VALUES else shown
