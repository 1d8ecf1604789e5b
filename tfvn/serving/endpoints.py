"""The signatures of an export: what a server can be asked."""

import functools
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfvn import estimators
from tfvn.layers.inside import replaced_estimators, stochastic_layers
from tfvn.prediction.outputs import summaries_of
from tfvn.prediction.program import functional_graph
from tfvn.serving.rows import RowSampler

Tensor = Any

# As far as an output has them.
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

# The name of the only input of a model; several have the names of their own.
INPUT = "inputs"
SEED = "seed"
_SEED_SPEC = tf.TensorSpec([None, 2], tf.int32, name=SEED)
_SMALLEST, _LARGEST = np.int32(tf.int32.min), np.int32(tf.int32.max)


class Endpoints:
    """The signatures of a model, as functions of tensors by name.

    They check in the graph what a server does not: the shapes of inputs, and that inputs
    and answers are finite.

    Args:
        model: A model that has been built.
        num_samples: Number of draws.
        kinds: What each output is, as `tfvn.prediction.kinds.find_kinds` says.
        input_signature: A structure of `tf.TensorSpec`, or `None` for a sequential or
            functional model, which says it itself.
        level: The probability of the interval that is served for outputs that have a
            distribution, or `None` for no interval.

    Attributes:
        specs: What the inputs are, by name.
        has_mean: Whether there is a signature `mean`. The mean weights of a variance
            layer are zero, and their prediction a guess.
    """

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
        self._sampler = RowSampler(model, num_samples, kinds, level)
        if not self._sampler.draws:
            raise ValueError(
                "Argument `model` must have a layer that draws noise: a stochastic layer, "
                f"a noise layer or dropout. Received: model={model.name!r} with none"
            )
        posteriors = [layer.posterior for layer in stochastic_layers(model)]
        self.has_mean = not any(posterior.zero_mean for posterior in posteriors)

    @functools.cached_property
    def functions(self) -> dict[str, tuple[Callable, dict[str, tf.TensorSpec]]]:
        """A function of a dictionary, and what is in it, for each signature."""
        with_seed = {**self.specs, SEED: _SEED_SPEC}
        # Traced here, once: what is saved as a signature is traced again and again.
        summary = _traced(lambda tensors: self._draw(tensors, SUMMARY), with_seed)
        samples = _traced(lambda tensors: self._draw(tensors, ("samples",)), with_seed)
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
        outputs, summaries = self._sampler(inputs, seeds, parts)
        return _named(self._model, outputs, summaries)

    def _mean(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        def without_noise(layer: Any) -> estimators.Estimator:
            return estimators.MeanWeights()

        with replaced_estimators(self._model, without_noise):
            outputs = self._model(self._checked(tensors), training=False)
        self._model._clear_losses()  # noqa: SLF001
        draws = [output[:, None] for output in keras.tree.flatten(outputs)]
        summaries = summaries_of(
            draws, self._kinds, ("mean", "aleatoric_std", "entropy")
        )
        return _named(self._model, outputs, summaries)

    def _checked(self, tensors: dict[str, Tensor]) -> Any:
        """Returns inputs that have been looked at, in the model's structure."""
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
        return keras.tree.pack_sequence_as(self._structure, flat)


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


def _traced(function: Callable, specs: dict[str, tf.TensorSpec]) -> Callable:
    return tf.function(
        function, input_signature=[specs], autograph=False
    ).get_concrete_function()


def _with_fresh_seeds(function: Callable) -> Callable:
    """Returns a function that gives each row a seed that nobody can repeat.

    With both of its own seeds zero, the op takes one from the system whenever it is
    loaded. `tf.random.uniform` would put that of `tf.random.set_seed` into the export,
    and every replica of a server would draw the same.
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
