"""`tfvn predict`: calls an export without a server."""

import pathlib

import numpy as np

from tfvn.cli import predict_answers as answers
from tfvn.cli.predict_inputs import Rows, read_rows
from tfvn.cli.shared import check_output, mistakes
from tfvn.serving import card, versions
from tfvn.serving.endpoints import SEED
from tfvn.serving.saved_model import SavedModel

# What `--output` may end in. A name without a suffix is a .npz file.
_SUFFIXES = (".csv", ".json", ".npz", "")

# The rows that are predicted at once.
_BATCH_SIZE = 256


def run(
    path: pathlib.Path,
    input: pathlib.Path,
    key: str | None = None,
    pixels: str | None = None,
    signature: str | None = None,
    seed: int | None = None,
    top: int = 3,
    format: str = "table",
    output: pathlib.Path | None = None,
) -> None:
    """Prints or writes the answer of an export.

    Args:
        path: An export, or a directory of exports.
        input: A .csv, .npy, .npz, .png or .jpg file, or a folder of images.
        key: The array of a .npz file.
        pixels: What the pixels of images are scaled to.
        signature: Name of a signature. `None` is `seeded` if there is a seed, and
            `serving_default` otherwise.
        seed: An integer from 0 to 2**31 - 1, from which each row gets its own seed. Only
            the signature `seeded` takes it.
        top: How many classes to show.
        format: How to print the answer: `"table"`, `"csv"` or `"json"`.
        output: A file for the answer; `None` prints it.
    """
    with mistakes():
        _check_output(output)
        export = versions.resolve(path)
        model, facts = SavedModel(export), card.read(export)
        signature = signature or ("serving_default" if seed is None else "seeded")
        _check_signature(model, signature, seed)
        specs = dict(model.signatures[signature].inputs)
        specs.pop(SEED, None)
        rows = read_rows(input, specs, key, pixels, finite=bool(facts))
        # Only our exports are known to answer each row by itself.
        size = _BATCH_SIZE if facts else None
        arrays = ask(model, rows, signature, seed, size)
        answer = answers.Answer(arrays, rows.heading, rows.names, facts, top)
        about = {
            "model": export.parent.name,
            "version": export.name,
            "signature": signature,
            "seed": seed,
            "input": str(input),
            "labels": facts.get("labels"),
        }
        if output is not None:
            answers.write(output, answer, about)
            return
        if format == "csv":
            text = answers.csv_text(answer)
        elif format == "json":
            text = answers.json_text(answer, about)
        else:
            text = answers.table(answer) + "\n"
    print(text, end="")


def ask(
    model: SavedModel,
    rows: Rows,
    signature: str,
    seed: int | None = None,
    batch_size: int | None = None,
) -> dict[str, np.ndarray]:
    """Returns the answer of a signature, by the names of its results.

    Args:
        model: The model.
        rows: The inputs of the signature, except for its seed.
        signature: Name of the signature.
        seed: As in `run`.
        batch_size: The largest number of rows in a call; `None` is all of them.
    """
    inputs = dict(rows.arrays)
    count = len(rows.names)
    if seed is not None:
        inputs[SEED] = np.stack([np.full(count, seed), np.arange(count)], axis=1)
    size = batch_size or max(count, 1)
    batches = [
        model({name: x[start : start + size] for name, x in inputs.items()}, signature)
        for start in range(0, max(count, 1), size)
    ]
    if len(batches) == 1:
        return batches[0]
    return {name: np.concatenate([b[name] for b in batches]) for name in batches[0]}


def _check_output(output: pathlib.Path | None) -> None:
    check_output(output)
    if output is not None and output.suffix.lower() not in _SUFFIXES:
        raise ValueError(
            "`--output` must be a file that ends in .csv, .json or .npz. Received: "
            f"--output {output}"
        )


def _check_signature(model: SavedModel, signature: str, seed: int | None) -> None:
    if signature not in model.signatures:
        raise ValueError(
            f"`--signature` must be one of {sorted(model.signatures)}. Received: "
            f"{signature!r}"
        )
    if (SEED in model.signatures[signature].inputs) != (seed is not None):
        advice = (
            "needs a seed; pass `--seed`"
            if seed is None
            else "takes no seed; leave `--seed` out, or pass `--signature seeded`"
        )
        raise ValueError(f"The signature {signature!r} {advice}. Received: seed={seed}")
