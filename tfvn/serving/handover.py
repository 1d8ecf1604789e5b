"""The page for whoever serves an export: what it answers, and how to ask it.

It is `README.md` in the directory of a version. Its commands and programs run as they are
printed, against a server on this machine.
"""

import json
import pathlib
import shlex
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tfvn.prediction import outputs
from tfvn.serving import card
from tfvn.serving.endpoints import SEED, order_of
from tfvn.serving.request_examples import EXAMPLE, MOST_VALUES, Requests, to_json
from tfvn.serving.saved_model import Signature

PAGE = "README.md"

# More labels than this are only in `labels.txt`.
_MOST_LABELS = 50

# How, only the one who trained the model can tell.
_INPUT = "prepared as in training"
_SEED = "two integers of your choice, which fix the noise of the row"

_MEANINGS = {
    "mean": "{mean}",
    "std": "{std}",
    "aleatoric_std": "the noise of the target itself, as a standard deviation",
    "epistemic_std": "how much the draws disagree about the target's mean, as a standard "
    "deviation",
    "lower": "the lower bound of the interval in which the target is with probability "
    "{interval}",
    "upper": "the upper bound of the same interval",
    "entropy": "how uncertain the prediction is in total, in nats; 0 is certain",
    "mutual_information": "the part of the entropy that comes from the disagreement of the "
    "draws, in nats; usually, but not always, larger for inputs unlike the training data",
    "samples": "{samples}",
}

_CLASSES = {
    "mean": "the probability of each class",
    "std": "how much the draws disagree about it, as a standard deviation",
    "samples": "the probabilities of each draw",
}
_BINARY = {
    "mean": "the probability of the second of two classes; several numbers belong to "
    "several such questions",
    "std": "how much the draws disagree about it, as a standard deviation",
    "samples": "the probability of each draw",
}
_NUMBERS = {
    "mean": "the predicted number",
    "std": "how much the draws disagree about it, as a standard deviation",
    "samples": "the predicted number of each draw",
}
_TARGETS = {
    "mean": "the expected target",
    "std": "the standard deviation of the target, with all of its uncertainty",
    "samples": "a target sampled for each draw",
}

_PAGE = """\
# {name}

This folder is a version of the model `{name}` for TensorFlow Serving. Every answer is a summary
of {num_samples} random draws of the model, and tells how certain it is. The server needs neither
Python nor the library that made the export (tfvn {tfvn}, with TensorFlow {tensorflow}).

## Start a server

In this folder:

```sh
docker run --rm -p 8500:8500 -p 8501:8501 \\
    -v "$PWD":{target} -e MODEL_NAME={quoted} tensorflow/serving
```

REST is at port 8501, gRPC at port 8500. The last part of the path, 1, is the number of the
version; any number will do. To serve new versions as they appear, mount the folder that
contains the numbered versions as {base} instead.

## What it answers

N is the number of rows in a request, at least 1. Every input and output has the rows as its first
axis. Types are strict: a server refuses integers for floats in gRPC.

{signatures}
{labels}
## Ask by REST, from a shell

The requests on this page have one row, which shows the form. Send your own rows, as many as you
like.

{folder}```sh
{curl}
```

## Ask by REST, in Python

{folder}```python
{rest}
```

## Ask by gRPC, in Python

gRPC is faster for large inputs. `pip install tensorflow-serving-api` installs what this needs.

{folder}```python
{grpc}
```

## Fix the noise

Each call draws new noise, on every thread and replica and after every reload. To get the same
answer again, ask the signature `seeded` with two integers `seed` for each row, each from
-2147483648 to 2147483647, and ask the same version. The answers are then equal within 1e-5,
whatever else the server computes in the same batch. Give each row of a request its own seed:
rows with the same seed have the same noise.

## Errors

A request gets an error (HTTP 400, `INVALID_ARGUMENT`) if its inputs have another shape or type, if
values are missing or not finite, or if the numbers of rows differ. If the server merges the
requests of several clients (`--enable_batching`), all requests of the batch get the error.

## More

- [assets.extra/README.md](assets.extra/README.md) is the card of the model: the kinds of its
  outputs, and what the signatures are.
- `assets.extra/ensemble.json` has the same for programs, with the labels, the layers, and the
  versions of the libraries.
- `assets.extra/tf_serving_warmup_requests` are requests that the server sends itself before the
  first client.
"""


def write(
    folder: pathlib.Path,
    name: str,
    signatures: Mapping[str, Signature],
    example: Mapping[str, np.ndarray],
) -> None:
    """Writes the page.

    Args:
        folder: The directory of the export, with its card.
        name: The name that the model is served under.
        signatures: What the export takes and answers.
        example: Rows of the inputs, by name; the requests of the page have the first.
    """
    facts = card.read(folder)
    row = {key: to_json(value[:1])[0] for key, value in example.items()}
    is_long = sum(np.size(value[:1]) for value in example.values()) > MOST_VALUES
    if is_long:
        path = folder / card.FOLDER / EXAMPLE
        path.write_text(json.dumps(row) + "\n", "utf-8")
    requests = Requests(name, row, is_long, facts["signatures"])
    first = signatures["samples"].inputs
    text = _PAGE.format(
        name=name,
        quoted=shlex.quote(name),
        target=shlex.quote(f"/models/{name}/1"),
        base=f"`/models/{name}`",
        num_samples=facts["num_samples"],
        tfvn=facts["versions"]["tfvn"],
        tensorflow=facts["versions"]["tensorflow"],
        signatures=_signatures(signatures, facts),
        labels=_labels(facts["labels"]),
        folder="In this folder:\n\n" if is_long else "",
        curl=requests.curl(),
        rest=requests.rest(),
        grpc=requests.grpc({key: spec.dtype.name for key, spec in first.items()}),
    )
    (folder / PAGE).write_text(text, "utf-8")


def _signatures(signatures: Mapping[str, Signature], facts: Mapping[str, Any]) -> str:
    parts = []
    for name in facts["signatures"]:
        told = card.SIGNATURES[name].format(num_samples=facts["num_samples"])
        signature = signatures[name]
        rows = [
            *(
                f"| input | {_tensor(key, spec)} | {_SEED if key == SEED else _INPUT} |"
                for key, spec in signature.inputs.items()
            ),
            *(
                f"| output | {_tensor(key, signature.outputs[key])} | "
                f"{_meaning(key, facts)} |"
                for key in sorted(signature.outputs, key=order_of)
            ),
        ]
        head = "| | name | type | shape | meaning |\n| --- | --- | --- | --- | --- |"
        default = ", if a request names none" if name == "serving_default" else ""
        parts.append(f"### `{name}`{default}\n\nIt answers with {told}.\n\n{head}\n")
        parts[-1] += "\n".join(rows) + "\n"
    return "\n".join(parts)


def _tensor(name: str, spec: tf.TensorSpec) -> str:
    sizes = ["any" if size is None else str(size) for size in spec.shape[1:]]
    return f"`{name}` | {spec.dtype.name} | ({', '.join(['N', *sizes])})"


def _meaning(name: str, facts: Mapping[str, Any]) -> str:
    """Returns what a result means, which depends on the kind of its output."""
    results: Mapping[str, str] = facts["results"]
    output = max((x for x in results if not x or name.startswith(f"{x}_")), key=len)
    part = name.removeprefix(f"{output}_") if output else name
    told = _words(results[output])
    return _MEANINGS[part].format(interval=facts["interval"], **told)


def _words(kind: str) -> dict[str, str]:
    if kind in (outputs.LOGITS, outputs.PROBABILITIES):
        return _CLASSES
    if kind in outputs.KINDS:
        return _NUMBERS if kind == outputs.REGRESSION else _BINARY
    return _TARGETS


def _labels(labels: Any) -> str:
    if not labels:
        return ""
    if not isinstance(labels, Mapping):
        labels = {"": labels}
    lines = ["## Labels\n"]
    for output, names in labels.items():
        of = f" of `{output}`" if output else ""
        lines.append(f"The classes{of}, in the order of the numbers:\n")
        shown = names[:_MOST_LABELS]
        lines += [f"{index}. {label}" for index, label in enumerate(shown)]
        if len(names) > len(shown):
            lines.append(
                f"\n... and {len(names) - len(shown)} more, in "
                f"`{card.FOLDER}/{card.FACTS}`."
            )
        lines.append("")
    return "\n".join(lines)
