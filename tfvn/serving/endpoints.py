"""The signatures of an export."""

import collections
import functools
import keyword
import re
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfvn.layers.base import stochastic_layers
from tfvn.prediction.ensemble import MEAN_WEIGHTS
from tfvn.prediction.outputs import summaries_of
from tfvn.prediction.sampler import Sampler
from tfvn.utils.models import functional_graph

Tensor = Any

# Each output gets those of them that it has.
SUMMARY = (
    "mean",
    "std",
    "aleatoric_std",
    "epistemic_std",
    "lower",
    "upper",
    "entropy",
    "mutual_information",
)

# The name of the input if a model has only one; several inputs keep their own names.
INPUT = "inputs"
SEED = "seed"
# Names that TensorFlow does not change when it turns them into arguments of a signature.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_RESERVED = {"self", *keyword.kwlist}
_SEED_SPEC = tf.TensorSpec([None, 2], tf.int32, name=SEED)
_SMALLEST, _LARGEST = np.int32(tf.int32.min), np.int32(tf.int32.max)


class Endpoints:
    """The signatures of a model, as functions of tensors by name.

    A server does not check the shapes of inputs, nor whether inputs and answers are finite.
    The graph of these functions does.

    Args:
        model: A model that has been built.
        num_samples: Number of draws.
        kinds: What each output is, from `tfvn.prediction.kinds.find_kinds`.
        input_signature: A structure of `tf.TensorSpec`. `None` uses the inputs of a
            sequential or functional model.
        level: The probability of the served interval, for outputs that have a
            distribution, or `None` for no interval.

    Attributes:
        specs: The specs of the inputs, by name.
        has_mean: Whether there is a signature `mean`. The mean weights of a variance
            layer are zero, so that a prediction with them is a guess.
        draws: The specs of the outputs of the signature `samples`, in the order of the
            model's outputs. It exists once `functions` has been read.
    """

    draws: dict[str, tf.TensorSpec]

    def __init__(
        self,
        model: keras.Model,
        num_samples: int,
        kinds: list[Any],
        input_signature: Any = None,
        level: float | None = None,
    ):
        self._model, self._kinds = model, kinds
        self._structure, self.specs = _inputs(model, input_signature)
        self._num_samples, self._level = num_samples, level
        self._sampler = Sampler(model, by_row=True)
        if not self._sampler.draws:
            raise ValueError(
                "Argument `model` must have a layer that draws noise: a stochastic "
                f"layer, a noise layer or dropout. Received: model={model.name!r}, "
                "which has none"
            )
        posteriors = [layer.posterior for layer in stochastic_layers(model)]
        self.has_mean = not any(posterior.zero_mean for posterior in posteriors)

    @functools.cached_property
    def functions(self) -> dict[str, tuple[Callable, dict[str, tf.TensorSpec]]]:
        """For each signature a function of a dictionary, and the specs of the dictionary."""
        with_seed = {**self.specs, SEED: _SEED_SPEC}
        # Traced once here, because saving traces a signature several times.
        summary = _traced(lambda tensors: self._draw(tensors, SUMMARY), with_seed)
        samples = _traced(lambda tensors: self._draw(tensors, ("samples",)), with_seed)
        self.draws = samples.structured_outputs  # type: ignore[attr-defined]
        functions: dict[str, Any] = {
            "serving_default": (_with_fresh_seeds(summary), self.specs),
            "samples": (_with_fresh_seeds(samples), self.specs),
            "seeded": (summary, with_seed),
        }
        if self.has_mean:
            functions["mean"] = (_traced(self._mean, self.specs), self.specs)
        return functions

    def _draw(
        self, tensors: dict[str, Tensor], parts: tuple[str, ...]
    ) -> dict[str, Tensor]:
        inputs, seeds = self._checked(tensors), tensors[SEED]
        summaries, _ = self._sampler.summarize(
            inputs, seeds, 0, [], self._num_samples, self._kinds, parts, self._level
        )
        return _named(self._model, self._sampler.outputs, summaries)

    def _mean(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        sampler = Sampler(self._model, MEAN_WEIGHTS)
        outputs = sampler.call_model(self._checked(tensors))
        draws = [output[:, None] for output in keras.tree.flatten(outputs)]
        summaries = summaries_of(
            draws, self._kinds, ("mean", "aleatoric_std", "entropy")
        )
        return _named(self._model, outputs, summaries)

    def _checked(self, tensors: dict[str, Tensor]) -> Any:
        """Returns the inputs in the model's structure, with checks of them in the graph."""
        # A server does not check shapes.
        tensors = {
            name: tf.ensure_shape(
                tensor, (_SEED_SPEC if name == SEED else self.specs[name]).shape
            )
            for name, tensor in tensors.items()
        }
        counts = [tf.shape(tensor)[0] for tensor in tensors.values()]
        checks = [
            tf.debugging.assert_equal(
                count, counts[0], "All inputs must have the same number of rows."
            )
            for count in counts[1:]
        ]
        with tf.control_dependencies(checks):
            flat = [_finite(tensors[name], f"Input `{name}`") for name in self.specs]
        return keras.tree.pack_sequence_as(self._structure, flat)


def order_of(name: str) -> tuple[Any, ...]:
    """Returns a key that sorts the names of results: by output, then as in `SUMMARY`."""
    for rank, part in enumerate(SUMMARY):
        if name == part or name.endswith(f"_{part}"):
            # The longest part: `aleatoric_std` also ends in `_std`.
            longer = [p for p in SUMMARY[rank + 1 :] if name.endswith(p)]
            if not longer:
                return (name.removesuffix(part), rank)
    return (name, -1)


def _inputs(
    model: keras.Model, input_signature: Any
) -> tuple[Any, dict[str, tf.TensorSpec]]:
    """Returns the structure of a model's inputs, and their specs by name."""
    graph = functional_graph(model)
    if input_signature is None and graph is None:
        raise ValueError(
            "Argument `input_signature` must have a `tf.TensorSpec` for each input if "
            "the model is neither sequential nor functional. Received: "
            f"input_signature=None for a {type(model).__name__}"
        )
    structure = graph.input if input_signature is None else input_signature
    leaves = keras.tree.flatten(structure)
    for leaf in leaves:
        _check_dense(leaf)
    if len(leaves) == 1:
        names = [INPUT]
    elif isinstance(structure, dict) and len(structure) == len(leaves):
        # In the order in which Keras flattens a dictionary.
        packed = keras.tree.pack_sequence_as(structure, list(range(len(leaves))))
        names = sorted(packed, key=packed.__getitem__)
    else:
        names = [leaf.name for leaf in leaves]
    _check_names(names)
    specs = {
        name: tf.TensorSpec([None, *leaf.shape[1:]], leaf.dtype, name=name)
        for name, leaf in zip(names, leaves, strict=True)
    }
    return structure, specs


def _check_dense(leaf: Any) -> None:
    """Raises unless an input is a tensor with rows."""
    is_spec = isinstance(leaf, tf.TensorSpec | keras.KerasTensor)
    if not is_spec or getattr(leaf, "sparse", False) or getattr(leaf, "ragged", False):
        raise ValueError(
            "The inputs of an exported model must be dense tensors, because a server "
            "accepts no others; build the model with dense inputs, or convert them "
            f"before the model. Received: {leaf!r}"
        )
    if leaf.shape is None or tf.TensorShape(leaf.shape).rank in (None, 0):
        raise ValueError(
            "The inputs of an exported model must have a known number of axes, and the "
            f"first axis must be the batch. Received: {leaf!r}"
        )


def _check_names(names: list[Any]) -> None:
    """Raises unless the inputs of a signature can have these names.

    TensorFlow turns them into arguments and nodes, and confuses `Age` with `age`, and
    `a.b` with `a_b`.
    """
    texts = [name if isinstance(name, str) else "" for name in names]
    alike = [re.sub(r"\W", "_", text).casefold() for text in (*texts, SEED)]
    if (
        len(set(alike)) < len(alike)
        or not all(map(_NAME.fullmatch, texts))
        or not _RESERVED.isdisjoint(texts)
    ):
        raise ValueError(
            "The names of the model's inputs must consist of letters, digits, '_', '.' "
            "and '-', differ in more than upper case and punctuation, and be none of "
            f"{SEED!r}, 'self' and the keywords of Python; rename them in "
            "`keras.Input(..., name=...)`, in the keys of a dictionary, or in "
            f"`input_signature`. Received: inputs named {names}"
        )


def _traced(function: Callable, specs: dict[str, tf.TensorSpec]) -> Callable:
    return tf.function(
        function, input_signature=[specs], autograph=False
    ).get_concrete_function()


def _with_fresh_seeds(function: Callable) -> Callable:
    """Returns a function that draws a fresh seed for each row.

    If both of its seeds are zero, the op takes a seed from the system whenever it is
    loaded. `tf.random.uniform` would store the seed of `tf.random.set_seed` in the export,
    and every replica of a server would draw the same noise.
    """

    def draw(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        rows = tf.shape(next(iter(tensors.values())))[0]
        seeds = tf.raw_ops.RandomUniformInt(
            shape=[rows, 2], minval=_SMALLEST, maxval=_LARGEST, seed=0, seed2=0
        )
        return function({**tensors, SEED: seeds})

    return draw


def _named(
    model: keras.Model, outputs: Any, summaries: list[dict[str, Tensor]]
) -> dict[str, Tensor]:
    """Returns parts of the summaries by name, behind the output's if there are several."""
    prefixes = [""] if len(summaries) == 1 else _output_names(model, outputs)
    named = [
        (f"{prefix}{part}", value)
        for prefix, summary in zip(prefixes, summaries, strict=True)
        for part, value in summary.items()
    ]
    counts = collections.Counter(name for name, _ in named)
    if len(counts) < len(named):
        raise ValueError(
            "Every result of the export must have its own name, which begins with the "
            "name of the output; rename the outputs of the model. Received: "
            f"{[name for name, count in counts.items() if count > 1]} more than once"
        )
    return {name: _finite(value, f"Answer `{name}`") for name, value in named}


def _output_names(model: keras.Model, outputs: Any) -> list[str]:
    paths = [path for path, _ in keras.tree.flatten_with_path(outputs)]
    names = ["_".join(map(str, path)) for path in paths]
    graph = functional_graph(model)
    if graph is not None and all(isinstance(path[0], int) for path in paths):
        own = list(graph.output_names)
        names = own if len(set(own)) == len(names) else names
    return [f"{name}_" if name[:1].isalpha() else f"output_{name}_" for name in names]


def _finite(tensor: Tensor, what: str) -> Tensor:
    if not tensor.dtype.is_floating:
        return tensor
    return tf.debugging.check_numerics(tensor, f"{what} must be finite")
