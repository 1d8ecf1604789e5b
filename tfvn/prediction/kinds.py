"""What the outputs of a model are: as the user says or, if there is no doubt, inferred."""

import functools
from typing import Any

import keras
import tensorflow as tf

from tfvn import likelihoods, passes
from tfvn.likelihoods import Likelihood, likelihood_of
from tfvn.prediction.outputs import (
    BINARY_LOGITS,
    BINARY_PROBABILITIES,
    KINDS,
    LOGITS,
    PROBABILITIES,
    REGRESSION,
)
from tfvn.utils import private, private_training
from tfvn.utils.models import (
    functional_graph,
    is_stock,
    last_layers,
    losses_of,
    output_names,
)

AUTO = "auto"

# A kind as a string, or the likelihood of outputs that are parameters of a distribution.
Kind = Any


def _with_functions(*classes: Any) -> tuple[Any, ...]:
    """Returns losses as classes and as functions."""
    return (*classes, *(loss().fn for loss in classes))


# Losses from which the kind of the outputs is inferred. No other loss is used for this.
_BINARY = _with_functions(
    keras.losses.BinaryCrossentropy, keras.losses.BinaryFocalCrossentropy
)
_CLASSES = _with_functions(
    keras.losses.CategoricalCrossentropy,
    keras.losses.CategoricalFocalCrossentropy,
    keras.losses.SparseCategoricalCrossentropy,
)
_NUMBERS = _with_functions(
    keras.losses.MeanSquaredError,
    keras.losses.MeanAbsoluteError,
    keras.losses.MeanAbsolutePercentageError,
    keras.losses.MeanSquaredLogarithmicError,
    keras.losses.LogCosh,
    keras.losses.Huber,
    keras.losses.Poisson,  # of rates, which are means
    keras.losses.CosineSimilarity,
)
# With the kinds of their outputs: without and with `from_logits`.
_LOSSES = (
    (_BINARY, BINARY_PROBABILITIES, BINARY_LOGITS),
    (_CLASSES, PROBABILITIES, LOGITS),
    (_with_functions(keras.losses.KLDivergence), PROBABILITIES, None),
    (_NUMBERS, REGRESSION, None),
)


def activations_named(*names: str) -> list[Any]:
    """Returns the functions with these names in Keras and in TensorFlow."""
    modules = (keras.activations, keras.ops, tf.nn)
    return [getattr(m, name) for m in modules for name in names if hasattr(m, name)]


# Activations from which the kind of the outputs is inferred.
_SOFTMAXES = activations_named("softmax", "sparsemax")
_SIGMOIDS = activations_named("sigmoid", "hard_sigmoid", "sparse_sigmoid")
# After these activations, a softmax gives the same result as of the logits themselves.
_LIKE_LOGITS = activations_named("linear", "log_softmax")
_KNOWN = activations_named(
    *(n for n in dir(keras.activations) if not n.startswith("_"))
)


def find_kinds(model: keras.Model, outputs: Any, inputs: Any = None) -> list[Kind]:
    """Returns the kind of each output: as the user says or, for `"auto"`, inferred.

    Args:
        model: The model.
        outputs: `"auto"` or a kind for all outputs, a list with one for each, or a
            dictionary from names of outputs to kinds. Outputs that are not in the
            dictionary are inferred.
        inputs: Arrays, or specs, that the model can be called with. They are needed for a
            model that is neither sequential nor functional, to find its outputs.

    Returns:
        A list of kinds in the order in which Keras flattens the outputs.
    """
    structure = _structure(model, inputs)
    losses = losses_of(model, structure)
    layers = last_layers(model, len(losses))
    given = [_checked(kind) for kind in _given_kinds(model, structure, outputs)]
    leaves = keras.tree.flatten_with_path(structure)
    kinds = []
    for kind, layer, loss, (path, leaf) in zip(
        given, layers, losses, leaves, strict=True
    ):
        name = f" {path[-1]!r}" if len(losses) > 1 else ""
        if kind in (AUTO, PROBABILITIES):
            axis, owner = _softmax_axis(layer), f"layer {getattr(layer, 'name', '')!r}"
            _check_axis(kind, axis, owner, leaf, name)
        if kind in (AUTO, PROBABILITIES, LOGITS):
            owner = f"loss {_name_of(loss)}"
            _check_axis(kind, _loss_axis(loss), owner, leaf, name)
        kinds.append(_kind(kind, layer, loss, name))
    return kinds


def name_of(kind: Kind) -> str:
    """Returns the name of a kind."""
    return kind.alias if isinstance(kind, Likelihood) else kind


def _structure(model: keras.Model, inputs: Any) -> Any:
    """Returns the model's outputs, symbolic ones or specs, in their structure."""
    graph = functional_graph(model)
    if graph is not None:
        return graph.output
    if inputs is None:
        return None

    def spec(value: Any) -> Any:
        is_spec = value is None or isinstance(value, tf.TypeSpec)
        return value if is_spec else tf.type_spec_from_value(value)

    def call(x: Any) -> Any:
        with passes.entered(passes.Pass(adds_kl=False)):
            return model(x, training=False)

    specs = keras.tree.map_structure(spec, inputs)
    traced = tf.function(call, autograph=False).get_concrete_function(specs)
    private.clear_losses(model)
    return traced.structured_outputs


def _given_kinds(model: keras.Model, structure: Any, outputs: Any) -> list[Any]:
    """Returns the part of the argument `outputs` for each output."""
    paths = [path for path, _ in keras.tree.flatten_with_path(structure)]
    if isinstance(outputs, dict):
        keys = [path[-1] if path else None for path in paths]
        if not isinstance(structure, dict):
            keys = output_names(model, len(paths))
        unknown = sorted(set(outputs) - set(keys), key=str)
        if unknown:
            raise ValueError(
                "The keys of `outputs` must be names of the model's outputs, some of "
                f"{keys}. Received: outputs={outputs!r}"
            )
        return [outputs.get(key, AUTO) for key in keys]
    if not isinstance(outputs, list | tuple):
        return [outputs] * len(paths)
    if isinstance(structure, dict) and len(paths) > 1:
        raise ValueError(
            "Argument `outputs` must be a dictionary with the keys "
            f"{[path[-1] for path in paths]}, because the model returns a dictionary, "
            f"whose outputs have no order. Received: outputs={outputs!r}"
        )
    if len(outputs) != len(paths):
        raise ValueError(
            f"Argument `outputs` must have one entry for each of {len(paths)} outputs. "
            f"Received: outputs={outputs!r}"
        )
    return list(outputs)


def _checked(kind: Any) -> Any:
    choices = [AUTO, *KINDS, *likelihoods.registry.aliases]
    if isinstance(kind, Likelihood) or (isinstance(kind, str) and kind in choices):
        return kind
    raise ValueError(
        f"Argument `outputs` must be one of {choices}, a "
        "`tfvn.likelihoods.Likelihood`, or a list or a dictionary with one of these for "
        f"each output. Received: outputs={kind!r}"
    )


def _kind(given: Any, layer: Any, loss: Any, name: str) -> Kind:
    """Returns the kind of one output."""
    if given == AUTO:
        return _infer(layer, loss, name)
    if isinstance(given, Likelihood) or given in KINDS:
        return given
    # The alias of a family: the loss or the layer may know its scale.
    own = (likelihood_of(loss), likelihood_of(layer))
    known = next((k for k in own if k is not None and k.alias == given), None)
    return known or likelihoods.get(given)


def _infer(layer: Any, loss: Any, name: str) -> Kind:
    if isinstance(loss, str | dict):
        loss = keras.losses.get(loss)
    activation = last_activation(layer)
    from_loss = likelihood_of(loss) or likelihood_of(layer) or _from_loss(loss)
    from_activation = None
    if activation in _SOFTMAXES:
        from_activation = PROBABILITIES
    elif activation in _SIGMOIDS:
        from_activation = BINARY_PROBABILITIES
    if from_loss is None and from_activation is None:
        raise _unclear(name, layer, loss, "Neither the last layer nor the loss tells")
    if from_loss is None or from_loss == from_activation:
        return from_activation
    # A softmax gives probabilities of classes, whatever the loss is. A sigmoid may also be
    # used to keep a number between 0 and 1.
    softmax_agrees = (BINARY_PROBABILITIES, REGRESSION)
    if from_activation == PROBABILITIES and from_loss in softmax_agrees:
        return PROBABILITIES
    agrees = from_activation is None
    if agrees and from_loss in (PROBABILITIES, BINARY_PROBABILITIES):
        agrees = activation not in _KNOWN
    elif agrees and from_loss in (LOGITS, BINARY_LOGITS):
        agrees = activation not in _KNOWN or activation in _LIKE_LOGITS
    if not agrees:
        raise _unclear(
            name, layer, loss, "The last activation and the loss disagree on"
        )
    return from_loss


def _unclear(name: str, layer: Any, loss: Any, why: str) -> ValueError:
    kinds = [*KINDS, *likelihoods.registry.aliases]
    activation = last_activation(layer)
    received = [f"outputs={AUTO!r}", f"loss={_name_of(loss)}"]
    if layer is not None:
        received.append(f"a last layer of type {type(layer).__name__}")
    if activation is not None:
        received.append(f"activation={_name_of(activation)}")
    return ValueError(
        f"{why} what the model's outputs are{f' (output{name})' if name else ''}; "
        f"pass `outputs=...`: one of {kinds}, a `tfvn.likelihoods.Likelihood`, or for "
        "several outputs a list or a dictionary of these. "
        f"Received: {', '.join(received)}"
    )


def _name_of(part: Any) -> str:
    if part is None:
        return "None"
    config = part.get_config() if hasattr(part, "get_config") else {}
    logits = config.get("from_logits")
    name = getattr(part, "__name__", type(part).__name__)
    return name if logits is None else f"{name}(from_logits={logits})"


def last_activation(layer: Any) -> Any:
    """Returns the function that a layer applies last, or `None` if that is not certain."""
    if isinstance(layer, keras.layers.Softmax):
        return keras.activations.softmax
    # In a user's layer, an attribute `activation` may mean anything.
    if not is_stock(getattr(type(layer), "call", None)):
        return None
    activation = getattr(layer, "activation", None)
    return activation.func if isinstance(activation, functools.partial) else activation


def _softmax_axis(layer: Any) -> Any:
    """Returns the axis of a layer's final softmax, or -1 if it has none."""
    if isinstance(layer, keras.layers.Softmax):
        return layer.axis
    activation = getattr(layer, "activation", None)
    if isinstance(activation, functools.partial):
        return activation.keywords.get("axis", -1)
    return -1


def _loss_axis(loss: Any) -> Any:
    """Returns the axis of the classes in a loss, or -1 if it is not a loss of classes."""
    if isinstance(loss, dict):
        loss = keras.losses.get(loss)
    if isinstance(loss, functools.partial):
        return loss.keywords.get("axis", -1) if loss.func in _CLASSES else -1
    if not any(part in _CLASSES for part in type(loss).__mro__):
        return -1
    return private_training.loss_arguments(loss).get("axis", -1)


def _check_axis(kind: str, axis: Any, owner: str, symbol: Any, name: str) -> None:
    """Raises an error if the classes are on another axis than the last."""
    axes = axis if isinstance(axis, list | tuple) else [axis]
    if [*axes] in ([-1], [len(symbol.shape) - 1] if symbol is not None else [-1]):
        return
    raise ValueError(
        f"The classes of the model's output{name} must be on its last axis, because "
        "entropies are computed along it; move the axis of the classes to the end with "
        "`keras.layers.Permute`, or pass `outputs='regression'` to get mean and standard "
        f"deviation only. Received: outputs={kind!r} for {owner} with axis={axis}"
    )


def _from_loss(loss: Any) -> Kind | None:
    """Returns the kind of outputs that a loss implies, or `None` if it implies none."""
    keywords: dict[str, Any] = {}
    if isinstance(loss, functools.partial):
        if loss.args:
            return None
        loss, keywords = loss.func, loss.keywords
    classes: tuple[Any, ...] = (loss,)
    config = {"from_logits": False, **keywords}
    if isinstance(loss, keras.losses.Loss):
        classes, config = type(loss).__mro__, loss.get_config()
    for known, kind, kind_of_logits in _LOSSES:
        base = next((part for part in classes if part in known), None)
        if base is None:
            continue
        if kind_of_logits is None:
            return None if _has_own_call(loss, base) else kind
        if config.get("from_logits") is None:
            return None
        return kind_of_logits if config["from_logits"] else kind
    return None


def _has_own_call(loss: Any, base: Any) -> bool:
    """Returns whether a subclass of a known loss overrides its computation.

    For instance, it may compute a softmax of the outputs first, which its config does not
    show.
    """
    return loss is not base and any(
        getattr(type(loss), name) is not getattr(base, name)
        for name in ("call", "__call__")
    )
