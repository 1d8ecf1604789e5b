"""Exports an ensemble as a SavedModel for TensorFlow Serving."""

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
from tfvn.serving import card, handover, versions, warmup
from tfvn.serving.endpoints import SEED, Endpoints
from tfvn.serving.labels import Labels, by_output, checked_labels
from tfvn.serving.saved_model import SavedModel, reason, to_array
from tfvn.utils import private
from tfvn.utils.model_copies import check_built
from tfvn.utils.models import all_layers
from tfvn.utils.validation import check_count

# Operations that call back into the Python process that made them.
_PYTHON_OPS = {"PyFunc", "PyFuncStateless", "EagerPyFunc"}

# The smallest number of rows to test an export with. With a single row, an answer without
# a batch axis could look right.
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
    """Exports a model as an ensemble for TensorFlow Serving.

    The export is a SavedModel of stock TensorFlow ops: a server needs neither this
    library nor Keras. It has these signatures, which answer with one row per example:

    - `serving_default`: `mean`, `std`, `entropy` and `mutual_information` of
      `num_samples` fresh draws, as in `tfvn.ensemble_predict`. Regression has only `mean`
      and `std`. Outputs that are parameters of a distribution of the target have `mean`,
      `std`, `aleatoric_std`, `epistemic_std` and, with `interval=0.9`, the bounds
      `lower` and `upper`: the target lies between them with probability 0.9.
    - `samples`: the draws themselves, on axis 1. For outputs that are parameters of a
      distribution, one target sampled from the distribution of each draw.
    - `seeded`: the same as `serving_default`, with two integers `seed` for each row. The
      same seed and inputs give the same answer, within 1e-5, whatever else is in the
      batch. `tfvn.ensemble_predict` with these seeds gives this answer too.
    - `mean`: `mean` and `entropy`, or `mean` and `aleatoric_std`, of one forward pass
      without noise, with the means of all weights. Models with a variance layer do not
      have it, because their mean weights are zero.

    If a model has only one input, it is called `inputs`; several inputs keep their names.
    If a model has several outputs, each answer begins with the name of its output:
    `age_mean`. Inputs of a wrong shape, and inputs and answers that are not finite, raise
    errors.

    Noise is fresh for each row of each call, on every thread and replica and after every
    reload. Layers with `estimator="weights"` or `"flipout"` sample whole kernels for each
    row and draw, except dense layers with Gaussian weights on vectors. That takes the
    memory of two kernels, and the time of all of them: use `local` for models that you
    serve.

    Before the version appears, this function loads it with `tf.saved_model.load`, calls
    each signature, and checks that the answer has as many rows as the request. A version
    is complete or absent, even if the process is killed, and this function never
    overwrites one. The version contains a page, `README.md`, for whoever serves it: inputs,
    outputs and labels, how to start a server, and a request for each signature.

    The function refuses models that call Python from their graph (`tf.py_function`,
    `tf.numpy_function`), because a server has no Python, and models with stateful recurrent
    layers, because a server keeps no states between requests. It also refuses to run after
    `tf.config.experimental.enable_op_determinism()`, which forbids random numbers without a
    seed: with a seed in the export, every replica of a server would draw the same noise.

    Args:
        model: A model of this library or of Keras that has been built.
        path: The directory of the model on this machine. Its last part is the name that
            the model is served under. For storage like `gs://`, from which a server could
            load a version before it is complete, export to a local directory and copy the
            finished version.
        num_samples: Number of draws in every answer.
        version: Number of the version, from 1 to 2**63 - 1; `None` is the next one.
        outputs: What the model's outputs are, as in `tfvn.ensemble_predict`.
        labels: Names of the classes, which are saved with the model: one name for each
            class, two for a binary output, one for each of several independent binary
            outputs. For a model with several outputs, a dictionary from their names to such
            lists.
        example: A few rows of inputs, for the check of the export, for the server's
            warm-up, and for the requests in `README.md`, which show the first row; `None`
            is a row of zeros, or of empty strings.
        input_signature: A `tf.TensorSpec`, or a structure of them with names, for models
            that are neither sequential nor functional.
        interval: The probability of the interval between `lower` and `upper`, for
            outputs that have a distribution; `None` serves no interval.

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
        results = by_output(kinds, endpoints.draws)
        card.write(
            extra, model, num_samples, kinds, requests, labels, interval, results
        )
        name = base.resolve().name
        warmup.write(extra, name, requests)
        served = SavedModel(folder)
        handover.write(folder, name, served.signatures, requests["serving_default"])
        _try(served, requests, num_samples)
        return versions.publish(folder, base, version)


def _check(model: Any) -> None:
    check_built(model)
    stateful = [
        layer.name for layer in all_layers(model) if getattr(layer, "stateful", False)
    ]
    if stateful:
        raise ValueError(
            "A model with stateful recurrent layers can't be exported, because a "
            "server keeps no states from one request to the next; build the model "
            "again with `stateful=False` and load its weights. Received: "
            f"model={model.name!r} with stateful layers {stateful}"
        )
    if tf.distribute.has_strategy():
        raise RuntimeError(
            "`export_ensemble` must be called outside of `strategy.scope()`, because "
            "an export can't be loaded and checked inside of it; leave the scope "
            f"first. Received: scope of {type(tf.distribute.get_strategy()).__name__}"
        )
    try:
        # The export uses this operation to draw a seed for each row.
        tf.raw_ops.RandomUniformInt(
            shape=[1], minval=np.int32(0), maxval=np.int32(2), seed=0, seed2=0
        )
    except tf.errors.InvalidArgumentError as error:
        raise RuntimeError(
            "An export must draw random numbers without a seed, so that no two "
            "replicas of a server draw the same noise, which "
            "`tf.config.experimental.enable_op_determinism()` forbids; export from a "
            f"process that has not called it. Received: {reason(error)}"
        ) from error


def _check_interval(interval: Any, kinds: list[Any]) -> None:
    if interval is None:
        return
    check_level("interval", interval)
    if not any(isinstance(kind, Likelihood) for kind in kinds):
        raise ValueError(
            "Argument `interval` must be `None` unless outputs are parameters of a "
            "distribution of the target; compile the model with "
            "`tfvn.losses.GaussianNLL` or pass `outputs='normal'`. "
            f"Received: interval={interval} for outputs "
            f"{[name_of(kind) for kind in kinds]}"
        )


def _requests(endpoints: Endpoints, example: Any) -> dict[str, dict[str, np.ndarray]]:
    """Returns inputs for each signature."""
    specs = endpoints.specs
    if example is None:
        values = [
            # Sizes that are not fixed become 1.
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
                "Argument `example` must have at least one row, and the same number of "
                "rows for every input. Received: example of shapes "
                f"{[value.shape for value in values]}"
            )
    inputs = dict(zip(specs, values, strict=True))
    seed = np.zeros([len(values[0]), 2], "int32")
    return {
        name: {key: seed if key == SEED else inputs[key] for key in wanted}
        for name, (_, wanted) in endpoints.functions.items()
    }


def _leaves(example: Any, names: list[str]) -> list[Any]:
    """Returns the array for each input from an example."""
    leaves = keras.tree.flatten(example)
    if len(names) == 1 and (len(leaves) != 1 or not np.ndim(leaves[0])):
        # Rows as lists of numbers or texts.
        return [example]
    is_flat = isinstance(example, Mapping) and len(example) == len(leaves)
    if is_flat and len(names) > 1:
        leaves = [example[name] for name in names if name in example]
    if len(leaves) != len(names):
        raise ValueError(
            f"Argument `example` must have an array for each of the inputs {names}. "
            f"Received: example with {list(example) if is_flat else len(leaves)}"
        )
    return leaves


def _write(folder: pathlib.Path, model: keras.Model, endpoints: Endpoints) -> None:
    archive = keras.export.ExportArchive()
    archive.track(model)
    for name, (function, specs) in endpoints.functions.items():
        archive.add_endpoint(name, function, input_signature=[specs])
    archive.write_out(folder, verbose=False)
    # Keras called the model to save it, and layers added losses. Nobody needs these.
    private.clear_losses(model)


def _try(
    served: SavedModel, requests: dict[str, dict[str, np.ndarray]], num_samples: int
) -> None:
    """Loads the export, calls each signature and checks the answers."""
    called_back = _PYTHON_OPS.intersection(served.ops())
    if called_back:
        raise ValueError(
            "The model must not call Python from its graph (as `tf.py_function` and "
            "`tf.numpy_function` do), because a server has no Python; use TensorFlow "
            f"operations. Received: operations {sorted(called_back)}"
        )
    for signature, inputs in requests.items():
        found = set(served.signatures[signature].inputs)
        if found != set(inputs):
            raise ValueError(
                "TensorFlow changed the names of the inputs; give the inputs other "
                f"names. Received: inputs named {sorted(inputs)}, saved as "
                f"{sorted(found)}"
            )
        repeats = -(-_ROWS // len(next(iter(inputs.values()))))
        rows = {key: np.concatenate([a] * repeats) for key, a in inputs.items()}
        try:
            answer = served(rows, signature)
        except tf.errors.OpError as error:
            why = reason(error)
            if why.startswith("Answer") and "std` must be finite" in why:
                raise ValueError(
                    "The results of an export must be finite in float32, but the "
                    "standard deviation of a log-normal target overflows if that of "
                    "its logarithm is above 9; train the model to the end, or limit "
                    f"the predicted scale. Received: {why} for signature {signature!r}"
                ) from error
            raise ValueError(
                "The export fails for the rows of `example`; pass rows that the model "
                f"can predict. Received: {why} for signature {signature!r}"
            ) from error
        count = len(next(iter(rows.values())))
        _check_shapes(
            answer, (count, num_samples) if signature == "samples" else (count,)
        )


def _check_shapes(answer: dict[str, np.ndarray], wanted: tuple[int, ...]) -> None:
    for name, value in answer.items():
        if value.shape[: len(wanted)] != wanted:
            raise ValueError(
                "The outputs of the model must have one row for each row of its inputs, "
                f"so that the shape of the result {name!r} begins with {wanted}. "
                f"Received: a shape of {value.shape}"
            )
