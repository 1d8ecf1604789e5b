"""Exports: an ensemble as a SavedModel that TensorFlow Serving answers from."""

import os
import pathlib
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfvn.likelihoods import Likelihood
from tfvn.prediction.distribution import check_level
from tfvn.prediction.kinds import find_kinds, name_of
from tfvn.serving import card, versions, warmup
from tfvn.serving.endpoints import SEED, Endpoints
from tfvn.serving.labels import Labels, checked_labels
from tfvn.serving.saved_model import SavedModel, reason, to_array
from tfvn.utils import private
from tfvn.utils.models import all_layers
from tfvn.utils.validation import check_count

# Operations that call back into the Python process that made them.
_PYTHON_OPS = {"PyFunc", "PyFuncStateless", "EagerPyFunc"}

# Rows that an export is tried with, at least: with one alone, an answer that has lost
# its rows could look as if it had them.
_ROWS = 3


def export_ensemble(
    model: keras.Model,
    path: str | os.PathLike,
    num_samples: int = 20,
    version: int | None = None,
    outputs: Any = "auto",
    labels: Labels | None = None,
    example: Any = None,
    input_signature: Any = None,
    interval: float | None = None,
) -> pathlib.Path:
    """Exports a model as an ensemble that TensorFlow Serving answers from.

    The export is a SavedModel of stock TensorFlow ops: a server needs neither this
    library nor Keras. It has these signatures, all with one row for each example:

    - `serving_default`: `mean`, `std`, `entropy` and `mutual_information` of
      `num_samples` fresh draws, as `tfvn.ensemble_predict` gives them; for regression
      `mean` and `std`; for outputs that are parameters of a distribution of the target
      `mean`, `std`, `aleatoric_std`, `epistemic_std` and, with `interval=0.9`, the bounds
      `lower` and `upper` between which the target lies with probability 0.9.
    - `samples`: the draws themselves, on axis 1. For outputs that are parameters of a
      distribution, a target drawn from the distribution of each draw.
    - `seeded`: as `serving_default`, for two integers `seed` in each row. The same seed
      and inputs get the same answer, within 1e-5, whatever else is in the batch, and so
      does `tfvn.ensemble_predict` with these seeds.
    - `mean`: `mean` and `entropy`, or `mean` and `aleatoric_std`, of a pass without
      noise, by the means of all weights. Left out for models with a variance layer, which would guess.

    The only input of a model is called `inputs`; several have their own names. The
    outputs of a model with several begin with the name of one: `age_mean`. Inputs that
    are not of the model's shape, and inputs and answers that are not finite, are errors.

    Noise is fresh for each row of each call, on every thread and replica and after every
    reload. Where layers draw whole kernels (`estimator="weights"` or `"flipout"`, but for
    dense layers with Gaussian weights on vectors), each row and draw gets kernels of its
    own: the memory of two at a time, and the time of all. `local` is the estimator to
    serve.

    Before the version appears, it is loaded with `tf.saved_model.load` and asked by each
    signature: it must answer, with as many rows as it was asked for. It appears whole or
    not at all, even if the process is killed, and no version is ever overwritten.
    Models that call Python from their graph (`tf.py_function`, `tf.numpy_function`) are
    refused, because a server has no Python, and so are models with stateful recurrent
    layers, because a server keeps no states between requests. So is a process in which
    `tf.config.experimental.enable_op_determinism()` has been called: it forbids random
    numbers without a seed, and a seed in the export would make every replica of a server
    draw the same.

    Args:
        model: A model of this library or of Keras that has been built.
        path: The directory of the model on this machine, whose name is the one it is
            served under. For storage like `gs://`, where a version cannot appear at once,
            export to a local directory and copy the finished version.
        num_samples: Number of draws in every answer.
        version: Number of the version, from 1 to 2**63 - 1; `None` is the next one.
        outputs: What the model's outputs are, as in `tfvn.ensemble_predict`.
        labels: Names of the classes, kept beside the model: as many as there are, two
            for a binary answer, one for each of several independent binary answers. For a
            model with several outputs, a dictionary of such lists by the outputs' names.
        example: A few rows of inputs, with which the export is tried and the server warms
            up; `None` is a row of zeros, or of empty strings.
        input_signature: A `tf.TensorSpec`, or a structure of them with names, for models
            that are neither sequential nor functional.
        interval: The probability of the interval between `lower` and `upper`, for
            outputs that have a distribution; `None` serves none.

    Returns:
        The directory of the version.

    Example:

    >>> import tempfile
    >>> import keras
    >>> import tfvn
    >>> model = keras.Sequential(
    ...     [keras.Input((4,)), tfvn.VarianceDense(3, activation="softmax")]
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     export = tfvn.export_ensemble(model, f"{folder}/irises", num_samples=10)
    ...     export.parent.name, export.name
    ('irises', '1')
    """
    num_samples = check_count("num_samples", num_samples)
    _check(model)
    base = versions.place(path)
    versions.check(base, version)
    kinds = find_kinds(model, outputs, input_signature)
    _check_interval(interval, kinds)
    endpoints = Endpoints(model, num_samples, kinds, input_signature, interval)
    requests = _requests(endpoints, example)
    labels = checked_labels(labels, kinds, endpoints.draws)
    with versions.draft(base) as folder:
        _write(folder, model, endpoints)
        extra = folder / card.FOLDER
        extra.mkdir()
        card.write(extra, model, num_samples, kinds, requests, labels, interval)
        warmup.write(extra, base.resolve().name, requests)
        _try(folder, requests, num_samples)
        return versions.publish(folder, base, version)


def _check(model: Any) -> None:
    if not isinstance(model, keras.Model) or not model.built:
        raise ValueError(
            "Argument `model` must be a `keras.Model` that has been built. "
            f"Received: model={model!r}"
        )
    stateful = [
        layer.name for layer in all_layers(model) if getattr(layer, "stateful", False)
    ]
    if stateful:
        raise ValueError(
            "A model with stateful recurrent layers cannot be exported, because a server "
            "keeps no states from one request to the next; build the model again with "
            "`stateful=False` and load its weights. "
            f"Received: model={model.name!r} with stateful layers {stateful}"
        )
    if tf.distribute.has_strategy():
        raise RuntimeError(
            "A model must be exported outside of `strategy.scope()`, in which it could not "
            "be loaded and tried; leave the scope first. "
            f"Received: scope of {type(tf.distribute.get_strategy()).__name__}"
        )
    try:
        # The operation from which each row of an answer gets its seed.
        tf.raw_ops.RandomUniformInt(
            shape=[1], minval=np.int32(0), maxval=np.int32(2), seed=0, seed2=0
        )
    except tf.errors.InvalidArgumentError as error:
        raise RuntimeError(
            "An export draws random numbers without a seed, so that no two replicas of a "
            "server draw the same, and this process forbids that; export from a process "
            "that has not called `tf.config.experimental.enable_op_determinism()`. "
            f"Received: {reason(error)}"
        ) from error


def _check_interval(interval: Any, kinds: list[Any]) -> None:
    if interval is None:
        return
    check_level("interval", interval)
    if not any(isinstance(kind, Likelihood) for kind in kinds):
        raise ValueError(
            "Argument `interval` must be `None` for outputs without a distribution of "
            "the target, which `tfvn.losses.GaussianNLL` or `outputs='normal'` gives "
            f"them. Received: interval={interval} for outputs "
            f"{[name_of(kind) for kind in kinds]}"
        )


def _requests(endpoints: Endpoints, example: Any) -> dict[str, dict[str, np.ndarray]]:
    """Returns inputs for each signature."""
    specs = endpoints.specs
    if example is None:
        values = [
            # Of sizes that are not fixed, the smallest.
            np.full(
                [size or 1 for size in spec.shape],
                b"" if spec.dtype == tf.string else 0,
                spec.dtype.as_numpy_dtype,
            )
            for spec in specs.values()
        ]
    else:
        values = [
            to_array(value, spec, f"Argument `example` for input `{name}`")
            for value, (name, spec) in zip(
                _leaves(example, list(specs)), specs.items(), strict=True
            )
        ]
        if len({value.shape[:1] for value in values}) > 1 or not all(
            value.ndim and value.size for value in values
        ):
            raise ValueError(
                "Argument `example` must have rows, as many in all inputs. Received: "
                f"example of shapes {[value.shape for value in values]}"
            )
    inputs = dict(zip(specs, values, strict=True))
    seed = np.zeros([len(values[0]), 2], "int32")
    return {
        name: {key: seed if key == SEED else inputs[key] for key in wanted}
        for name, (_, wanted) in endpoints.functions.items()
    }


def _leaves(example: Any, names: list[str]) -> list[Any]:
    """Returns what an example has for each input."""
    leaves = keras.tree.flatten(example)
    if len(names) == 1 and (len(leaves) != 1 or not np.ndim(leaves[0])):
        # Rows as lists of numbers or texts.
        return [example]
    is_flat = isinstance(example, Mapping) and len(example) == len(leaves)
    if is_flat and len(names) > 1:
        leaves = [example[name] for name in names if name in example]
    if len(leaves) != len(names):
        raise ValueError(
            f"Argument `example` must have an array for each of {names}. "
            f"Received: example with {list(example) if is_flat else len(leaves)}"
        )
    return leaves


def _write(folder: pathlib.Path, model: keras.Model, endpoints: Endpoints) -> None:
    archive = keras.export.ExportArchive()
    archive.track(model)
    for name, (function, specs) in endpoints.functions.items():
        archive.add_endpoint(name, function, input_signature=[specs])
    archive.write_out(folder, verbose=False)
    # Keras has called the model to save it, and losses of a prediction are none.
    private.clear_losses(model)


def _try(
    folder: pathlib.Path, requests: dict[str, dict[str, np.ndarray]], num_samples: int
) -> None:
    """Loads the export and asks it by each signature, and looks at the answers."""
    served = SavedModel(folder)
    called_back = _PYTHON_OPS.intersection(served.ops())
    if called_back:
        raise ValueError(
            "The model must not call Python from its graph (as `tf.py_function`, "
            "`tf.numpy_function` and layers that use them do): a server has no Python; "
            f"use TensorFlow operations. Received: operations {sorted(called_back)}"
        )
    for signature, inputs in requests.items():
        found = set(served.signatures[signature].inputs)
        if found != set(inputs):
            raise ValueError(
                "TensorFlow did not keep the names of the inputs; give them other names. "
                f"Received: inputs named {sorted(inputs)}, saved as {sorted(found)}"
            )
        repeats = -(-_ROWS // len(next(iter(inputs.values()))))
        rows = {key: np.concatenate([a] * repeats) for key, a in inputs.items()}
        try:
            answer = served(rows, signature)
        except tf.errors.OpError as error:
            why = reason(error)
            if why.startswith("Answer") and "std` must be finite" in why:
                raise ValueError(
                    "The answers of an export must be finite in float32. The spread of a "
                    "log-normal target is not where that of its logarithm is above 9: "
                    "train the model to the end, or predict a scale of less range. "
                    f"Received: {why} for signature {signature!r}"
                ) from error
            raise ValueError(
                "The export does not answer for the rows that it is tried with; expected "
                "`example` to be rows that the model can take. Received: "
                f"{why} for signature {signature!r}"
            ) from error
        count = len(next(iter(rows.values())))
        _check_shapes(
            answer, (count, num_samples) if signature == "samples" else (count,)
        )


def _check_shapes(answer: dict[str, np.ndarray], wanted: tuple[int, ...]) -> None:
    for name, value in answer.items():
        if value.shape[: len(wanted)] != wanted:
            raise ValueError(
                "The answers of a model must have the rows of its inputs on axis 0, and "
                f"draws on axis 1; expected {name!r} to have a shape that begins with "
                f"{wanted}. Received: {value.shape}"
            )
