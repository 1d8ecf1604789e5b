"""The description inside an export: one file for programs, and one for people."""

import json
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from typing import Any

import keras
import tensorflow as tf
import tensorflow_probability as tfp

from tfvn.layers.base import stochastic_layers
from tfvn.likelihoods import Likelihood
from tfvn.prediction.draws_by_row import with_a_kernel_per_row
from tfvn.prediction.kinds import name_of

# The directory of a SavedModel for files that are not part of its graph.
FOLDER = "assets.extra"
FACTS = "ensemble.json"
CARD = "README.md"
LABELS = "labels.txt"

# The versions with which an export, or a report, is made.
VERSIONS = {
    "tfvn": version("tfvn"),
    "tensorflow": tf.__version__,
    "keras": keras.__version__,
    "tensorflow-probability": tfp.__version__,
}

SIGNATURES = {
    "serving_default": "mean, spread and entropies of {num_samples} fresh draws",
    "samples": "the {num_samples} draws themselves, on axis 1",
    "seeded": "the same as `serving_default`, but repeatable: two integers `seed` for each row",
    "mean": "one forward pass with the means of all weights, without noise",
}

_CARD = """\
# {name}

{num_samples} draws of a Keras model with {parameters:,} parameters, exported by tfvn {tfvn}.
Outputs: {outputs}; entropies are in nats. Every call draws new noise, on every thread and
replica, and after every reload.

| signature | gives |
| --- | --- |
{signatures}
"""

_NO_MEAN = """
There is no signature `mean`, because the weights of a variance layer have mean zero, so
that a prediction with mean weights would be a random guess.
"""

_DISTRIBUTION = """
`std` is the standard deviation of targets. It combines their own noise, `aleatoric_std`, and
the disagreement of the draws, `epistemic_std`. `samples` are targets, one for each draw of the
weights.
"""

_DRAWN_BY = """
Each row has its own weights. Layers {layers} sample their outputs (`local`) instead of a
kernel for each row (`weights` or `flipout`), which gives the same distribution.
"""

_INTERVAL = """
A target lies between `lower` and `upper` with probability {interval}.
"""


def write(
    folder: pathlib.Path,
    model: keras.Model,
    num_samples: int,
    kinds: Sequence[Any],
    signatures: Iterable[str],
    labels: Sequence[str] | Mapping[str, Sequence[str]] | None,
    interval: float | None = None,
    results: Mapping[str, Any] | None = None,
) -> None:
    """Writes the description of an export.

    Args:
        folder: The directory `assets.extra` of the export.
        model: The model.
        num_samples: Number of draws.
        kinds: What each output is.
        signatures: Names of the signatures.
        labels: Names of the classes, or a dictionary from the names of outputs to such
            lists, or `None`.
        interval: The probability of the served interval, or `None`.
        results: What each output is, by the name that its results begin with.
    """
    signatures = list(signatures)
    layers = _served_layers(model)
    names = [name_of(kind) for kind in kinds]
    facts = {
        "model": model.name,
        "num_samples": num_samples,
        "outputs": names,
        "results": {name: name_of(kind) for name, kind in (results or {}).items()},
        "interval": interval,
        "signatures": signatures,
        "labels": labels,
        "parameters": model.count_params(),
        "layers": layers,
        "versions": VERSIONS,
    }
    (folder / FACTS).write_text(json.dumps(facts, indent=2) + "\n", "utf-8")
    rows = [
        f"| `{name}` | {SIGNATURES[name].format(num_samples=num_samples)} |"
        for name in signatures
    ]
    text = _CARD.format(
        name=model.name,
        num_samples=num_samples,
        parameters=model.count_params(),
        tfvn=VERSIONS["tfvn"],
        outputs=", ".join(names),
        signatures="\n".join(rows),
    )
    if any(isinstance(kind, Likelihood) for kind in kinds):
        text += _DISTRIBUTION
    if interval is not None:
        text += _INTERVAL.format(interval=interval)
    if "mean" not in signatures:
        text += _NO_MEAN
    swapped = [x["name"] for x in layers if x["drawn_by"] != x["estimator"]]
    if swapped:
        text += _DRAWN_BY.format(layers=", ".join(f"`{name}`" for name in swapped))
    (folder / CARD).write_text(text, "utf-8")
    # The labels of several outputs are in the facts only, by name.
    if labels is not None and not isinstance(labels, Mapping):
        (folder / LABELS).write_text("".join(f"{x}\n" for x in labels), "utf-8")


def read(export: pathlib.Path) -> dict[str, Any]:
    """Returns the facts of an export; an empty dictionary for other SavedModels."""
    path = export / FOLDER / FACTS
    return json.loads(path.read_text("utf-8")) if path.is_file() else {}


def _served_layers(model: keras.Model) -> list[dict[str, Any]]:
    """Returns the parts of each layer, and the estimator that the export uses for it."""
    return [
        {**row, "drawn_by": with_a_kernel_per_row(layer, layer.estimator).alias}
        for row, layer in zip(
            describe_layers(model), stochastic_layers(model), strict=True
        )
    ]


def describe_layers(model: keras.Model) -> list[dict[str, Any]]:
    """Returns the parts of each layer with a random kernel in a model."""
    return [
        {
            "name": layer.name,
            "layer": type(layer).__name__,
            "posterior": layer.posterior.alias,
            "law": layer.posterior.law,
            "estimator": layer.estimator.alias,
            "parameters": layer.count_params(),
        }
        for layer in stochastic_layers(model)
    ]
