"""What a saved model holds, and what it answers, as text."""

import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from tfvn.serving import card, versions
from tfvn.serving.endpoints import INPUT, SEED
from tfvn.serving.loader import LoadedModel, Signature, Tensor

# Rows and values of an answer that are printed.
_MOST_ROWS = 10
_MOST_VALUES = 4


def describe(path: pathlib.Path) -> str:
    """Describes a model: an export, a directory of exports, or a `.keras` file.

    Args:
        path: Where it is.

    Returns:
        Several lines of text.
    """
    if path.is_file():
        model = keras.saving.load_model(path, compile=False)
        parameters = f"{model.count_params():,} parameters"
        lines = [f"{model.name}, a {type(model).__name__} with {parameters}"]
        return "\n".join([*lines, "", *_layers(card.describe_layers(model))])
    export = versions.resolve(path)
    facts = card.read(export)
    signatures = LoadedModel(export).signatures
    others = ", ".join(map(str, versions.find(export.parent))) or "none"
    lines = [f"{export.parent.name}, version {export.name} (there are: {others})"]
    if facts:
        made = ", ".join(f"{name} {v}" for name, v in facts["versions"].items())
        outputs = ", ".join(facts["outputs"])
        lines.append(
            f"{facts['num_samples']} draws; outputs: {outputs}; made by {made}"
        )
        if facts["labels"]:
            lines.append(f"labels: {', '.join(facts['labels'])}")
    lines += ["", *_signatures(signatures)]
    if facts:
        lines += ["", *_layers(facts["layers"])]
        if "mean" not in signatures:
            lines.append(
                "No signature `mean`: variance layers have weights of mean zero."
            )
    return "\n".join(lines)


def ask(
    path: pathlib.Path,
    inputs: Mapping[str, Any],
    signature: str | None = None,
    seed: int | None = None,
) -> dict[str, np.ndarray]:
    """Returns what an export answers.

    Args:
        path: An export, or a directory of exports.
        inputs: Arrays by name; an only one may be called `""`.
        signature: Name of a signature. `None` is `seeded` with a seed, and else
            `serving_default`.
        seed: An integer, from which each row gets a seed of its own; for `seeded`, and
            for it only.

    Returns:
        Arrays by name.
    """
    signature = signature or ("serving_default" if seed is None else "seeded")
    model = LoadedModel(versions.resolve(path))
    if signature not in model.signatures:
        raise ValueError(
            f"The signature must be one of {sorted(model.signatures)}. "
            f"Received: {signature!r}"
        )
    given = {name or INPUT: value for name, value in inputs.items()}
    wanted = model.signatures[signature].inputs
    if (SEED in wanted) != (seed is not None):
        needs = (
            "needs a seed" if seed is None else "takes no seed, and draws fresh noise"
        )
        raise ValueError(
            f"The signature {signature!r} {needs}; expected a seed for `seeded` and for "
            f"no other. Received: seed={seed}"
        )
    if seed is not None:
        rows = len(next(iter(given.values())))
        given[SEED] = np.stack([np.full(rows, seed), np.arange(rows)], axis=1)
    if set(given) != set(wanted):
        raise ValueError(
            f"The inputs must be {sorted(wanted)}. Received: {sorted(given)}"
        )
    return model(given, signature)


def show(answer: Mapping[str, np.ndarray]) -> str:
    """Returns the first rows of an answer as a table."""
    count = len(next(iter(answer.values())))
    rows = [
        [str(row), *(_values(value[row]) for value in answer.values())]
        for row in range(min(count, _MOST_ROWS))
    ]
    lines = _table(["row", *answer], rows)
    if count > _MOST_ROWS:
        lines.append(f"... and {count - _MOST_ROWS} more rows")
    return "\n".join(lines)


def _values(value: np.ndarray) -> str:
    flat = np.ravel(value)
    shown = " ".join(f"{number:.4g}" for number in flat[:_MOST_VALUES])
    return f"{shown} ..." if flat.size > _MOST_VALUES else shown


def _signatures(signatures: Mapping[str, Signature]) -> list[str]:
    rows = []
    for name, signature in signatures.items():
        inputs = [_tensor(key, value) for key, value in signature.inputs.items()]
        outputs = [_tensor(key, value) for key, value in signature.outputs.items()]
        for index in range(max(len(inputs), len(outputs))):
            row = [
                part[index] if index < len(part) else "" for part in (inputs, outputs)
            ]
            rows.append(["" if index else name, *row])
    return _table(["signature", "input", "output"], rows)


def _tensor(name: str, tensor: Tensor) -> str:
    shape = ", ".join("?" if size is None else str(size) for size in tensor.shape)
    return f"{name}: {tensor.dtype.name} ({shape})"


def _layers(layers: Sequence[Mapping[str, Any]]) -> list[str]:
    columns = ("name", "layer", "posterior", "law", "estimator", "parameters")
    return _table(columns, [[str(layer[key]) for key in columns] for layer in layers])


def _table(header: Iterable[str], rows: list[list[str]]) -> list[str]:
    columns = list(zip(header, *rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    lines = [list(line) for line in zip(*columns, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) for cell, width in zip(line, widths, strict=True)
        ).rstrip()
        for line in lines
    ]
