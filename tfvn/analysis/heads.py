"""The dense layer that a model ends with, what follows it, and what its outputs mean."""

import dataclasses
from typing import Any

import keras
import numpy as np

from tfvn.analysis.head_likelihoods import (
    Bernoulli,
    Categorical,
    Gaussian,
    GaussianWithScale,
    HeadLikelihood,
)
from tfvn.layers.base import RandomWeightsLayer
from tfvn.layers.core.joint_dense import JointDense
from tfvn.layers.heads import LearnedScale, LikelihoodHead
from tfvn.likelihoods import Normal
from tfvn.prediction.kinds import (
    AUTO,
    activations_named,
    find_kinds,
    last_activation,
    name_of,
)
from tfvn.prediction.outputs import (
    BINARY_LOGITS,
    BINARY_PROBABILITIES,
    LOGITS,
    PROBABILITIES,
    REGRESSION,
)
from tfvn.utils import private
from tfvn.utils.models import all_layers, functional_graph, losses_of
from tfvn.utils.validation import check_number

# Layers without a kernel that may follow the last dense layer.
_AFTER = (keras.layers.Activation, keras.layers.Softmax, LearnedScale)

_LINEAR = keras.activations.linear
# For each kind of outputs: the names of the activations that make them from the outputs
# of a kernel.
_ACTIVATIONS = {
    LOGITS: ("linear", "log_softmax"),
    PROBABILITIES: ("softmax",),
    BINARY_LOGITS: ("linear",),
    BINARY_PROBABILITIES: ("sigmoid",),
    REGRESSION: ("linear",),
    "normal": ("linear",),
}


@dataclasses.dataclass(frozen=True)
class Head:
    """The last dense layer of a model.

    Attributes:
        dense: The layer: a `keras.layers.Dense`, or one with a fitted posterior.
        after: The layers after it, which have no kernel.
    """

    dense: Any
    after: tuple[Any, ...]

    def weights(self) -> np.ndarray:
        """Returns kernel and, as the last row, bias, in float64."""
        dense = self.dense
        if isinstance(dense, JointDense):
            parts = [dense.posterior.mean()]
        else:
            parts = [dense.kernel, *([dense.bias[None]] if dense.use_bias else [])]
        arrays = [keras.ops.convert_to_numpy(part).astype("float64") for part in parts]
        return np.concatenate(arrays)


def find_head(model: keras.Model) -> Head:
    """Returns the head of a model with one output, or raises an error."""
    graph: Any = functional_graph(model)
    if len(graph.outputs) != 1:
        raise ValueError(
            "Argument `model` must have one output; make a model with one of them, as in "
            "`keras.Model(model.inputs, model.outputs[0])`. "
            f"Received: model={model.name!r} with {len(graph.outputs)} outputs"
        )
    symbol, after = graph.outputs[0], []
    while True:
        node = next(n for n in private.nodes(graph) if _makes(n, symbol))
        layer = node.operation
        while isinstance(layer, keras.layers.TimeDistributed):
            layer = layer.layer
        inner = functional_graph(layer)
        if inner is not None:
            graph, symbol = inner, inner.outputs[private.history(symbol)[1]]
        elif isinstance(layer, _AFTER):
            after.append(layer)
            symbol = node.input_tensors[0]
        else:
            break
    _check_dense(layer)
    _check_is_used_once(model, layer)
    _check_has_no_noise(model, layer)
    return Head(layer, tuple(after))


def find_likelihood(
    model: keras.Model, head: Head, outputs: Any, noise_scale: float | None
) -> HeadLikelihood:
    """Returns the likelihood of the targets, given the outputs of the head's kernel.

    Args:
        model: The model.
        head: Its head.
        outputs: What the outputs are, as in `tfvn.ensemble_predict`.
        noise_scale: The user's argument.
    """
    noise_scale = check_number("noise_scale", noise_scale, above=0, or_none=True)
    (kind,) = find_kinds(model, outputs)
    if outputs == AUTO:
        _check_loss(model, kind)
    allowed = _ACTIVATIONS.get(name_of(kind))
    if allowed is None:
        raise ValueError(
            "The curvature is known for classes, binary answers and Normal targets; "
            f"expected `outputs` to be one of {[*_ACTIVATIONS]}. "
            f"Received: outputs={name_of(kind)!r}"
        )
    _check_activations(head, kind, allowed)
    if noise_scale is not None and kind != REGRESSION:
        raise ValueError(
            "Argument `noise_scale` is the standard deviation of the targets of a "
            f"regression with a squared error; expected `None` for outputs of kind "
            f"{name_of(kind)!r}. Received: noise_scale={noise_scale}"
        )
    if kind in (LOGITS, PROBABILITIES):
        return Categorical()
    if kind in (BINARY_LOGITS, BINARY_PROBABILITIES):
        return Bernoulli()
    if isinstance(kind, Normal):
        learned = [layer for layer in head.after if isinstance(layer, LearnedScale)]
        if learned:
            log_scale = keras.ops.convert_to_numpy(learned[0].log_scale)
            return Gaussian(np.exp(log_scale.astype("float64")))
        return GaussianWithScale() if kind.scale is None else Gaussian(kind.scale)
    return Gaussian(noise_scale)


def _makes(node: Any, symbol: Any) -> bool:
    return any(output is symbol for output in node.outputs)


def _check_dense(layer: Any) -> None:
    # A subclass with its own call may compute anything.
    is_dense = getattr(type(layer), "call", None) is keras.layers.Dense.call
    is_fitted = isinstance(layer, JointDense) and layer.posterior.is_fitted
    mode = getattr(layer, "quantization_mode", None)
    if is_dense and mode is not None:
        raise ValueError(
            "The curvature is that of a float kernel; expected a last layer that is not "
            f"quantized. Received: layer {layer.name!r}, which is quantized ({mode})"
        )
    if is_dense or is_fitted:
        return
    if isinstance(layer, RandomWeightsLayer):
        raise ValueError(
            "The posterior of the last layer is found around trained weights; expected the "
            f"original with plain weights. Received: a last layer {layer.name!r} of type "
            f"{type(layer).__name__}, which has random weights"
        )
    advice = ""
    if isinstance(layer, LikelihoodHead):
        advice = (
            "; instead of this head, end it with `keras.layers.Dense` and compile it with "
            "the loss of the same likelihood"
        )
    raise ValueError(
        "Argument `model` must end with a `keras.layers.Dense`, and after it at most "
        f"layers of type {[cls.__name__ for cls in _AFTER]}{advice}. Received: a last "
        f"layer {getattr(layer, 'name', layer)!r} of type {type(layer).__name__}"
    )


def _check_is_used_once(model: keras.Model, dense: keras.Layer) -> None:
    graphs = [functional_graph(layer) for layer in all_layers(model)]
    for graph in graphs:
        if graph is None:
            continue
        uses = [
            node
            for node in private.nodes(graph)
            if isinstance(node.operation, keras.Layer)
            and any(layer is dense for layer in all_layers(node.operation))
        ]
        if len(uses) > 1:
            raise ValueError(
                "The last dense layer must be used once, because its curvature is that "
                f"of one call. Received: layer {dense.name!r}, used {len(uses)} times"
            )


def _check_has_no_noise(model: keras.Model, dense: keras.Layer) -> None:
    for layer in all_layers(model):
        if isinstance(layer, RandomWeightsLayer) and layer is not dense:
            raise ValueError(
                "Only the last layer of the model may have random weights, because the "
                "features before it must be fixed. "
                f"Received: layer {layer.name!r} of type {type(layer).__name__}"
            )


def _check_loss(model: keras.Model, kind: Any) -> None:
    """Raises if the model's loss is not the negative log-likelihood of its kind."""
    (loss,) = losses_of(model, functional_graph(model).output)
    if isinstance(loss, str | dict):
        loss = keras.losses.get(loss)
    focal = (
        keras.losses.BinaryFocalCrossentropy,
        keras.losses.CategoricalFocalCrossentropy,
    )
    squared = keras.losses.MeanSquaredError
    is_squared = isinstance(loss, squared) or loss is keras.losses.mean_squared_error
    is_focal = isinstance(loss, focal) or loss in [cls().fn for cls in focal]
    if is_focal or (kind == REGRESSION and not is_squared):
        raise ValueError(
            "The loss is not the negative log-likelihood of the outputs, so that the "
            "likelihood would be a guess; if you mean that of the outputs, pass "
            f"`outputs={kind!r}`. Received: outputs='auto' and loss="
            f"{getattr(loss, '__name__', type(loss).__name__)}"
        )


def _check_activations(head: Head, kind: Any, allowed: tuple[str, ...]) -> None:
    layers = [head.dense, *reversed(head.after)]
    found = [last_activation(x) for x in layers if not isinstance(x, LearnedScale)]
    applied = [f for f in found if f is not None and f is not _LINEAR] or [_LINEAR]
    if len(applied) > 1 or applied[0] not in activations_named(*allowed):
        names = [getattr(function, "__name__", str(function)) for function in applied]
        raise ValueError(
            f"Outputs of kind {name_of(kind)!r} must come from the last dense layer by one "
            f"activation out of {list(allowed)}, whose curvature is known. "
            f"Received: activations {names}"
        )
