"""What the outputs of a model are: as the user says or, if there is no doubt, inferred."""

import functools
from typing import Any

import keras
import tensorflow as tf

from tfvn import likelihoods
from tfvn.likelihoods import Likelihood, likelihood_of
from tfvn.prediction.outputs import (
    BINARY_LOGITS,
    BINARY_PROBABILITIES,
    KINDS,
    LOGITS,
    PROBABILITIES,
    REGRESSION,
)
from tfvn.utils import private
from tfvn.utils.models import functional_graph, last_layers, losses_of, output_names

AUTO = "auto"

# A kind as a string, or the likelihood of outputs that are parameters of a distribution.
Kind = Any

# Losses from which the kind of the outputs is inferred. No other loss is used for this.
_BINARY = (
    keras.losses.BinaryCrossentropy,
    keras.losses.BinaryFocalCrossentropy,
    keras.losses.binary_crossentropy,
    keras.losses.binary_focal_crossentropy,
)
_CLASSES = (
    keras.losses.CategoricalCrossentropy,
    keras.losses.CategoricalFocalCrossentropy,
    keras.losses.SparseCategoricalCrossentropy,
    keras.losses.categorical_crossentropy,
    keras.losses.categorical_focal_crossentropy,
    keras.losses.sparse_categorical_crossentropy,
)
_DISTRIBUTIONS_OVER_CLASSES = (keras.losses.KLDivergence, keras.losses.kl_divergence)
_NUMBERS = (
    keras.losses.MeanSquaredError,
    keras.losses.MeanAbsoluteError,
    keras.losses.MeanAbsolutePercentageError,
    keras.losses.MeanSquaredLogarithmicError,
    keras.losses.LogCosh,
    keras.losses.Huber,
    keras.losses.Poisson,  # of rates, which are means
    keras.losses.CosineSimilarity,
    keras.losses.mean_squared_error,
    keras.losses.mean_absolute_error,
    keras.losses.mean_absolute_percentage_error,
    keras.losses.mean_squared_logarithmic_error,
    keras.losses.log_cosh,
    keras.losses.huber,
    keras.losses.poisson,
    keras.losses.cosine_similarity,
)

# Activations from which the kind of the outputs is inferred.
_SOFTMAXES = (keras.activations.softmax, keras.ops.softmax, tf.nn.softmax)
_SIGMOIDS = (
    keras.activations.sigmoid,
    keras.activations.hard_sigmoid,
    keras.ops.sigmoid,
    keras.ops.hard_sigmoid,
    tf.nn.sigmoid,
)
# After these activations, a softmax gives the same result as of the logits themselves.
_LIKE_LOGITS = (keras.activations.linear, keras.activations.log_softmax)
_OTHERS = (
    keras.activations.relu,
    keras.activations.relu6,
    keras.activations.leaky_relu,
    keras.activations.elu,
    keras.activations.selu,
    keras.activations.celu,
    keras.activations.gelu,
    keras.activations.silu,
    keras.activations.mish,
    keras.activations.softplus,
    keras.activations.softsign,
    keras.activations.exponential,
    keras.activations.tanh,
    keras.activations.hard_tanh,
    keras.activations.hard_silu,
    keras.activations.log_sigmoid,
    tf.nn.relu,
    tf.nn.tanh,
)

_HELP = (
    "pass `outputs=...`: one of {kinds}, a `tfvn.likelihoods.Likelihood`, or for several "
    "outputs a list or a dictionary of these"
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
    told = [_checked(kind) for kind in _told(model, structure, outputs)]
    kinds = []
    for kind, layer, loss, (path, leaf) in zip(
        told, layers, losses, _paths(structure), strict=True
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
    graph = functional_graph(model)
    if graph is not None:
        return graph.output
    if inputs is None:
        return None

    ragged = (tf.RaggedTensor, tf.RaggedTensorSpec)
    if any(isinstance(value, ragged) for value in keras.tree.flatten(inputs)):
        structure = _traced_structure(model, inputs)
    else:
        symbols = keras.tree.map_structure(_symbol, inputs)
        structure = model.compute_output_spec(symbols)
    private.clear_losses(model)
    return structure


def _symbol(value: Any) -> keras.KerasTensor | None:
    if value is None:
        return None  # an optional input
    dtype = keras.backend.standardize_dtype(value.dtype)
    sparse = isinstance(value, tf.SparseTensor | tf.SparseTensorSpec)
    return keras.KerasTensor((None, *value.shape[1:]), dtype, sparse=sparse)


def _traced_structure(model: keras.Model, inputs: Any) -> Any:
    """Returns the outputs for ragged inputs, which Keras's symbolic tensors do not support."""

    def spec(value: Any) -> Any:
        is_spec = value is None or isinstance(value, tf.TypeSpec)
        return value if is_spec else tf.type_spec_from_value(value)

    call = tf.function(lambda x: model(x, training=False), autograph=False)
    return keras.tree.map_structure(
        lambda t: keras.KerasTensor((None, *t.shape[1:]), t.dtype.name),
        call.get_concrete_function(
            keras.tree.map_structure(spec, inputs)
        ).structured_outputs,
    )


def _paths(structure: Any) -> list[Any]:
    return keras.tree.flatten_with_path(structure)


def _told(model: keras.Model, structure: Any, outputs: Any) -> list[Any]:
    """Returns what the argument `outputs` says about each output."""
    paths = [path for path, _ in _paths(structure)]
    if isinstance(outputs, dict):
        keys = [path[-1] if path else None for path in paths]
        if not isinstance(structure, dict):
            keys = output_names(model, len(paths))
        unknown = sorted(set(outputs) - set(keys), key=str)
        if unknown:
            raise ValueError(
                "The keys of argument `outputs` must be names of the model's outputs, "
                f"some of {keys}. Received: outputs={outputs!r}"
            )
        return [outputs.get(key, AUTO) for key in keys]
    if not isinstance(outputs, list | tuple):
        return [outputs] * len(paths)
    if isinstance(structure, dict) and len(paths) > 1:
        raise ValueError(
            "Argument `outputs` must be a dictionary if the model returns a dictionary, "
            f"because {[path[-1] for path in paths]} have no order; pass a dictionary "
            f"with these keys. Received: outputs={outputs!r}"
        )
    if len(outputs) != len(paths):
        raise ValueError(
            f"Argument `outputs` must have one kind for each of {len(paths)} outputs. "
            f"Received: outputs={outputs!r}"
        )
    return list(outputs)


def _checked(kind: Any) -> Any:
    if isinstance(kind, Likelihood) or (
        isinstance(kind, str) and kind in (AUTO, *KINDS, *likelihoods.registry.aliases)
    ):
        return kind
    raise ValueError(
        f"Argument `outputs` must be one of {_choices()}, a "
        "`tfvn.likelihoods.Likelihood`, or a list or a dictionary with one of these for "
        f"each output. Received: outputs={kind!r}"
    )


def _choices() -> list[str]:
    return [AUTO, *KINDS, *likelihoods.registry.aliases]


def _kind(told: Any, layer: Any, loss: Any, name: str) -> Kind:
    """Returns the kind of one output."""
    if told == AUTO:
        return _infer(layer, loss, name)
    if isinstance(told, Likelihood) or told in KINDS:
        return told
    # The alias of a family: the loss or the layer may know its scale.
    own = (likelihood_of(loss), likelihood_of(layer))
    known = next((k for k in own if k is not None and k.alias == told), None)
    return known or likelihoods.get(told)


def _infer(layer: Any, loss: Any, name: str) -> Kind:
    if isinstance(loss, str | dict):
        loss = keras.losses.get(loss)
    likelihood = likelihood_of(loss) or likelihood_of(layer)
    activation = _activation(layer)
    from_loss = likelihood or _from_loss(loss)
    from_activation = None
    if activation in _SOFTMAXES:
        from_activation = PROBABILITIES
    elif activation in _SIGMOIDS:
        from_activation = BINARY_PROBABILITIES
    if from_loss is None and from_activation is None:
        raise _unclear(name, layer, loss, "Neither the last layer nor the loss tells")
    if from_loss is None or (from_activation == PROBABILITIES == from_loss):
        return from_activation
    if from_activation is not None:
        # A softmax gives probabilities of classes, whatever the loss is. A sigmoid may
        # also be used to keep a number between 0 and 1.
        softmax_agrees = (BINARY_PROBABILITIES, REGRESSION)
        if from_activation == PROBABILITIES and from_loss in softmax_agrees:
            return PROBABILITIES
        if from_activation == from_loss:
            return from_activation
        raise _unclear(name, layer, loss, "The last activation and the loss differ on")
    is_of_classes = not isinstance(from_loss, Likelihood) and from_loss != REGRESSION
    is_contradicted = activation in _OTHERS or (
        activation in _LIKE_LOGITS and from_loss not in (LOGITS, BINARY_LOGITS)
    )
    if is_of_classes and is_contradicted:
        raise _unclear(name, layer, loss, "The last activation and the loss differ on")
    return from_loss


def _unclear(name: str, layer: Any, loss: Any, why: str) -> ValueError:
    help_text = _HELP.format(kinds=[*KINDS, *likelihoods.registry.aliases])
    activation = _activation(layer)
    received = [f"outputs={AUTO!r}", f"loss={_name_of(loss)}"]
    if layer is not None:
        received.append(f"a last layer of type {type(layer).__name__}")
    if activation is not None:
        received.append(f"activation={_name_of(activation)}")
    return ValueError(
        f"{why} what the model's outputs are{f' (output{name})' if name else ''}; "
        f"{help_text}. Received: {', '.join(received)}"
    )


def _name_of(part: Any) -> str:
    if part is None:
        return "None"
    config = part.get_config() if hasattr(part, "get_config") else {}
    logits = config.get("from_logits")
    name = getattr(part, "__name__", type(part).__name__)
    return name if logits is None else f"{name}(from_logits={logits})"


def _activation(layer: Any) -> Any:
    """Returns the function that a layer applies last, or `None` if that is not certain."""
    if isinstance(layer, keras.layers.Softmax):
        return keras.activations.softmax
    # In a user's layer, an attribute `activation` may mean anything.
    call = getattr(type(layer), "call", None)
    module = getattr(call, "__module__", "") or ""
    if not module.startswith(("keras.", "tfvn.")):
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
    if not _is_any(type(loss).__mro__, _CLASSES):
        return -1
    return private.loss_arguments(loss).get("axis", -1)


def _check_axis(told: str, axis: Any, owner: str, symbol: Any, name: str) -> None:
    """Raises an error if the classes are on another axis than the last."""
    axes = axis if isinstance(axis, list | tuple) else [axis]
    if [*axes] in ([-1], [len(symbol.shape) - 1] if symbol is not None else [-1]):
        return
    raise ValueError(
        f"The classes of the model's output{name} must be on its last axis, because "
        "entropies are computed along it; move the axis of the classes to the end with "
        "`keras.layers.Permute`, or pass `outputs='regression'` to get mean and standard "
        f"deviation only. Received: outputs={told!r} for {owner} with axis={axis}"
    )


def _from_loss(loss: Any) -> Kind | None:
    """Returns the kind of outputs that a loss implies, or `None` if it implies none."""
    if loss is None:
        return None
    keywords: dict[str, Any] = {}
    if isinstance(loss, functools.partial):
        if loss.args:
            return None
        loss, keywords = loss.func, loss.keywords
    if isinstance(loss, keras.losses.Loss):
        config = loss.get_config()
        classes = type(loss).__mro__
    else:
        config, classes = keywords, (loss,)
    for known, kind in (
        (_NUMBERS, REGRESSION),
        (_DISTRIBUTIONS_OVER_CLASSES, PROBABILITIES),
    ):
        if _is_any(classes, known):
            return None if _has_own_call(classes, known) else kind
    is_binary = _is_any(classes, _BINARY)
    if not is_binary and not _is_any(classes, _CLASSES):
        return None
    from_logits = config.get("from_logits", None if len(classes) > 1 else False)
    if from_logits is None:
        return None
    if is_binary:
        return BINARY_LOGITS if from_logits else BINARY_PROBABILITIES
    return LOGITS if from_logits else PROBABILITIES


def _has_own_call(classes: Any, known: tuple[Any, ...]) -> bool:
    """Returns whether a subclass of a known loss overrides its computation.

    For instance, it may compute a softmax of the outputs first, which its config does not
    show.
    """
    if len(classes) == 1:
        return False  # a function
    base = next(part for part in classes if _is_any([part], known))
    return any(
        getattr(classes[0], name) is not getattr(base, name)
        for name in ("call", "__call__")
    )


def _is_any(parts: Any, known: tuple[Any, ...]) -> bool:
    return any(part is one for part in parts for one in known)
