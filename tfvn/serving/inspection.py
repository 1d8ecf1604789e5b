"""What a saved model holds, and what it answers, as text."""

import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfvn.serving import card, versions
from tfvn.serving.endpoints import SEED
from tfvn.serving.saved_model import SavedModel, Signature

# Rows and values of an answer that are printed.
_MOST_ROWS = 10
_MOST_VALUES = 4

_CAUSE = "Exception encountered:"


def describe(path: pathlib.Path) -> str:
    """Describes a model: an export, a directory of exports, or a `.keras` file.

    Args:
        path: Where it is.

    Returns:
        Several lines of text.
    """
    if path.is_file():
        model = _keras_model(path)
        parameters = f"{model.count_params():,} parameters"
        lines = [f"{model.name}, a {type(model).__name__} with {parameters}"]
        return "\n".join([*lines, "", *_layers(card.describe_layers(model))])
    export = versions.resolve(path)
    facts = card.read(export)
    signatures = SavedModel(export).signatures
    others = ", ".join(map(str, versions.find(export.parent))) or "none"
    lines = [f"{export.parent.name}, version {export.name} (there are: {others})"]
    if facts:
        made = ", ".join(f"{name} {v}" for name, v in facts["versions"].items())
        outputs = ", ".join(facts["outputs"])
        lines.append(
            f"{facts['num_samples']} draws; outputs: {outputs}; made by {made}"
        )
        lines += _labels(facts["labels"])
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
        inputs: Arrays by name; an only one may be called `""`. Their values must fit
            the types that the signature wants.
        signature: Name of a signature. `None` is `seeded` with a seed, and else
            `serving_default`.
        seed: An integer from 0 to 2**31 - 1, from which each row gets a seed of its own;
            for `seeded`, and for it only.

    Returns:
        Arrays by name.
    """
    signature = signature or ("serving_default" if seed is None else "seeded")
    model = SavedModel(versions.resolve(path))
    if signature not in model.signatures:
        raise ValueError(
            f"The signature must be one of {sorted(model.signatures)}. "
            f"Received: {signature!r}"
        )
    wanted = model.signatures[signature].inputs
    given = _by_name(inputs, wanted)
    if (SEED in wanted) != (seed is not None):
        needs = "needs a seed" if seed is None else "takes no seed"
        raise ValueError(
            f"The signature {signature!r} {needs}; expected a seed for `seeded` and for "
            f"no other. Received: seed={seed}"
        )
    if seed is not None:
        rows = max((len(value) for value in given.values()), default=0)
        given[SEED] = np.stack([np.full(rows, seed), np.arange(rows)], axis=1)
    if set(given) != set(wanted):
        raise ValueError(
            f"The inputs must be {sorted(wanted)}. Received: {sorted(given)}"
        )
    return model(given, signature)


def _by_name(
    inputs: Mapping[str, Any], wanted: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """Returns arrays by the names that a signature has for them."""
    names = [name for name in wanted if name != SEED]
    if "" in inputs and len(names) != 1:
        raise ValueError(
            f"The signature takes several inputs, {names}; expected a .npz file that has "
            "them by name. Received: one array without a name"
        )
    given = {name or names[0]: np.asarray(value) for name, value in inputs.items()}
    if not all(value.ndim for value in given.values()):
        raise ValueError(
            "The inputs must be arrays of rows, at least one axis each. Received: shapes "
            f"{[value.shape for value in given.values()]}"
        )
    return given


def show(answer: Mapping[str, np.ndarray]) -> str:
    """Returns the first rows of an answer as a table."""
    # Other SavedModels may answer without rows, or with as many as they like.
    columns = [np.atleast_1d(value) for value in answer.values()]
    count = max(map(len, columns), default=0)
    rows = [
        [str(row), *(_values(c[row]) if row < len(c) else "" for c in columns)]
        for row in range(min(count, _MOST_ROWS))
    ]
    lines = _table(["row", *answer], rows)
    if count > _MOST_ROWS:
        lines.append(f"... and {count - _MOST_ROWS} more rows")
    return "\n".join(lines)


def _keras_model(path: pathlib.Path) -> keras.Model:
    try:
        return keras.saving.load_model(path, compile=False)
    # Whatever the file makes Keras raise, the file is what is wrong.
    except Exception as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        # Keras puts what went wrong behind the configuration that it happened in.
        causes = [line for line in lines if line.startswith(_CAUSE)]
        cause = (causes[-1:] or lines)[0].removeprefix(_CAUSE).strip()
        raise ValueError(
            "The file must be a model that Keras saved, of layers that this library or "
            f"Keras has. Received: {str(path)!r}: {cause}"
        ) from error


def _labels(labels: Any) -> list[str]:
    if not labels:
        return []
    if isinstance(labels, Mapping):
        return [f"labels of {name}: {', '.join(x)}" for name, x in labels.items()]
    return [f"labels: {', '.join(labels)}"]


def _values(value: np.ndarray) -> str:
    flat = np.ravel(value)
    form = "{:.4g}" if flat.dtype.kind in "biuf" else "{}"
    shown = " ".join(map(form.format, flat[:_MOST_VALUES]))
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


def _tensor(name: str, tensor: tf.TensorSpec) -> str:
    if tensor.shape.rank is None:
        return f"{name}: {tensor.dtype.name} of any shape"
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
