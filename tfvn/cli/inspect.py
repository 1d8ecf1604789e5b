"""`tfvn inspect`: shows what is in a saved model."""

import itertools
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from tfvn.analysis.summaries import summary
from tfvn.cli.shared import keras_model, mistakes
from tfvn.serving import card, versions
from tfvn.serving.saved_model import SavedModel, Signature
from tfvn.utils.tables import text_table


def run(path: pathlib.Path) -> None:
    """Prints what is in a model.

    Args:
        path: An export, a directory of exports, or a `.keras` file.
    """
    with mistakes():
        text = describe(path)
    print(text)


def describe(path: pathlib.Path) -> str:
    """Describes a model: an export, a directory of exports, or a `.keras` file.

    Args:
        path: The path of the model.

    Returns:
        Several lines of text.
    """
    if path.is_file():
        return str(summary(keras_model(path)))
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
                "No signature `mean`: weights of variance layers have mean zero."
            )
    return "\n".join(lines)


def _labels(labels: Any) -> list[str]:
    if not labels:
        return []
    if isinstance(labels, Mapping):
        return [f"labels of {name}: {', '.join(x)}" for name, x in labels.items()]
    return [f"labels: {', '.join(labels)}"]


def _signatures(signatures: Mapping[str, Signature]) -> list[str]:
    rows: list[list[str]] = []
    for name, signature in signatures.items():
        inputs = [_tensor(key, value) for key, value in signature.inputs.items()]
        outputs = [_tensor(key, value) for key, value in signature.outputs.items()]
        both = itertools.zip_longest(inputs, outputs, fillvalue="")
        rows += [["" if index else name, *pair] for index, pair in enumerate(both)]
    return text_table(["signature", "input", "output"], rows)


def _tensor(name: str, tensor: tf.TensorSpec) -> str:
    if tensor.shape.rank is None:
        return f"{name}: {tensor.dtype.name} of any shape"
    shape = ", ".join("?" if size is None else str(size) for size in tensor.shape)
    return f"{name}: {tensor.dtype.name} ({shape})"


def _layers(layers: Sequence[Mapping[str, Any]]) -> list[str]:
    columns = ("name", "layer", "posterior", "law", "estimator", "parameters")
    return text_table(
        columns, [[str(layer[key]) for key in columns] for layer in layers]
    )
