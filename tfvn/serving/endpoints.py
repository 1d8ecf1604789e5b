"""The signatures of an export: what a server can be asked."""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tfvn import estimators
from tfvn.layers.inside import replaced_estimators, stochastic_layers
from tfvn.prediction.outputs import summarize
from tfvn.prediction.program import functional_graph
from tfvn.serving.rows import RowSampler

Tensor = Any

SUMMARY = ("mean", "std", "entropy", "mutual_information")

# The name of the only input of a model; several have the names of their own.
INPUT = "inputs"
SEED = "seed"
_SEED_SPEC = tf.TensorSpec([None, 2], tf.int32, name=SEED)
_SMALLEST, _LARGEST = tf.int32.min, tf.int32.max


class Endpoints:
    """The signatures of a model, as functions of tensors by name.

    They check in the graph what a server does not: the shapes of inputs, and that inputs
    and answers are finite.

    Args:
        model: A model that has been built.
        num_samples: Number of draws.
        kinds: What each output is, as `tfvn.prediction.outputs.find_kinds` says.
        input_signature: A structure of `tf.TensorSpec`, or `None` for a sequential or
            functional model, which says it itself.

    Attributes:
        specs: What the inputs are, by name.
        has_mean: Whether there is a signature `mean`. The mean weights of a variance
            layer are zero, and their prediction a guess.
    """

    def __init__(
        self,
        model: keras.Model,
        num_samples: int,
        kinds: list[str],
        input_signature: Any = None,
    ):
        self._model, self._kinds = model, kinds
        self._structure, self.specs = _inputs(model, input_signature)
        self._sampler = RowSampler(model, num_samples, kinds)
        if not self._sampler.draws:
            raise ValueError(
                "Argument `model` must have a layer that draws noise: a stochastic layer, "
                f"a noise layer or dropout. Received: model={model.name!r} with none"
            )
        posteriors = [layer.posterior for layer in stochastic_layers(model)]
        self.has_mean = not any(posterior.zero_mean for posterior in posteriors)

    def functions(self) -> dict[str, tuple[Callable, dict[str, tf.TensorSpec]]]:
        """Returns a function of a dictionary, and what is in it, for each signature."""
        with_seed = {**self.specs, SEED: _SEED_SPEC}
        functions: dict[str, Any] = {
            "serving_default": (self.serving_default, self.specs),
            "samples": (self.samples, self.specs),
            "seeded": (self.seeded, with_seed),
        }
        if self.has_mean:
            functions["mean"] = (self.mean, self.specs)
        return functions

    def serving_default(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Summarises fresh draws."""
        return self._draw(tensors, SUMMARY)

    def samples(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Returns fresh draws, on axis 1."""
        return self._draw(tensors, ("samples",))

    def seeded(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Summarises the draws that a seed for each row determines."""
        return self._draw(tensors, SUMMARY)

    def mean(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Predicts with the means of all weights, without noise."""
        inputs, _ = self._checked(tensors)

        def without_noise(layer: Any) -> estimators.Estimator:
            return estimators.MeanWeights()

        with replaced_estimators(self._model, without_noise):
            outputs = self._model(inputs, training=False)
        self._model._clear_losses()  # noqa: SLF001
        summaries = [
            summarize(output[:, None], kind)
            for output, kind in zip(
                keras.tree.flatten(outputs), self._kinds, strict=True
            )
        ]
        parts = ("mean", "entropy")
        summaries = [{p: s[p] for p in parts if p in s} for s in summaries]
        return _named(self._model, outputs, summaries)

    def _draw(
        self, tensors: dict[str, Tensor], parts: tuple[str, ...]
    ) -> dict[str, Tensor]:
        inputs, rows = self._checked(tensors)
        seeds = tensors.get(SEED)
        if seeds is None:
            seeds = _fresh_seeds(rows)
        outputs, summaries = self._sampler(inputs, seeds, parts)
        return _named(self._model, outputs, summaries)

    def _checked(self, tensors: dict[str, Tensor]) -> tuple[Any, Tensor]:
        """Returns inputs in the model's structure, and their number of rows."""
        # A server does not look at shapes.
        tensors = {
            name: tf.ensure_shape(
                tensor, (_SEED_SPEC if name == SEED else self.specs[name]).shape
            )
            for name, tensor in tensors.items()
        }
        counts = [tf.shape(tensor)[0] for tensor in tensors.values()]
        checks = [
            tf.debugging.assert_equal(
                count, counts[0], "All inputs must have as many rows."
            )
            for count in counts[1:]
        ]
        with tf.control_dependencies(checks):
            flat = [_finite(tensors[name], f"Input `{name}`") for name in self.specs]
        return keras.tree.pack_sequence_as(self._structure, flat), counts[0]


def _inputs(
    model: keras.Model, input_signature: Any
) -> tuple[Any, dict[str, tf.TensorSpec]]:
    """Returns the structure of a model's inputs, and the specs of them by name."""
    graph = functional_graph(model)
    if input_signature is None and graph is None:
        raise ValueError(
            "Argument `input_signature` must be a structure of `tf.TensorSpec` for a "
            "model that is not sequential or functional. "
            f"Received: input_signature=None for a {type(model).__name__}"
        )
    # What the model itself says of its inputs has no public name for sequential ones.
    structure = input_signature
    if structure is None:
        structure = graph._inputs_struct  # type: ignore[union-attr] # noqa: SLF001
    leaves = keras.tree.flatten(structure)
    if len(leaves) == 1:
        names = [INPUT]
    elif isinstance(structure, dict) and len(structure) == len(leaves):
        # In the order in which Keras flattens a dictionary.
        packed = keras.tree.pack_sequence_as(structure, list(range(len(leaves))))
        names = sorted(packed, key=packed.__getitem__)
    else:
        names = [leaf.name for leaf in leaves]
    if len(set(names)) < len(names) or None in names or SEED in names:
        raise ValueError(
            "The inputs of the model must have names, all of them different and none "
            f"of them {SEED!r}. Received: inputs named {names}"
        )
    specs = {
        name: tf.TensorSpec([None, *leaf.shape[1:]], leaf.dtype, name=name)
        for name, leaf in zip(names, leaves, strict=True)
    }
    return structure, specs


def _fresh_seeds(rows: Tensor) -> Tensor:
    """Returns a seed for each row that nobody can repeat.

    With both of its own seeds zero, the op takes one from the system whenever it is
    loaded. `tf.random.uniform` would put the seed of `tf.random.set_seed` into the
    export, and every replica of a server would draw the same.
    """
    return tf.raw_ops.RandomUniformInt(
        shape=[rows, 2],
        minval=tf.constant(_SMALLEST, tf.int32),
        maxval=tf.constant(_LARGEST, tf.int32),
        seed=0,
        seed2=0,
    )


def _named(
    model: keras.Model, outputs: Any, summaries: list[dict[str, Tensor]]
) -> dict[str, Tensor]:
    """Returns parts of the summaries by name, behind the output's if there are several."""
    prefixes = [""] if len(summaries) == 1 else _output_names(model, outputs)
    return {
        f"{prefix}{part}": _finite(value, f"Answer `{prefix}{part}`")
        for prefix, summary in zip(prefixes, summaries, strict=True)
        for part, value in summary.items()
    }


def _output_names(model: keras.Model, outputs: Any) -> list[str]:
    paths = [path for path, _ in keras.tree.flatten_with_path(outputs)]
    names = ["_".join(map(str, path)) for path in paths]
    graph = functional_graph(model)
    if graph is not None and all(isinstance(path[0], int) for path in paths):
        own = list(graph.output_names)
        names = own if len(set(own)) == len(names) else names
    return [f"{name}_" if name[0].isalpha() else f"output_{name}_" for name in names]


def _finite(tensor: Tensor, what: str) -> Tensor:
    if not tensor.dtype.is_floating:
        return tensor
    return tf.debugging.check_numerics(tensor, f"{what} must be finite")
