"""What the outputs of a model mean, and how draws of them are summarised."""

import inspect
from typing import Any

import keras
import tensorflow as tf

from tfvn.prediction.program import functional_graph

Tensor = Any

AUTO = "auto"
LOGITS = "logits"
PROBABILITIES = "probabilities"
BINARY_LOGITS = "binary_logits"
BINARY_PROBABILITIES = "binary_probabilities"
REGRESSION = "regression"
KINDS = (LOGITS, PROBABILITIES, BINARY_LOGITS, BINARY_PROBABILITIES, REGRESSION)

# Infinite logits, as of a mask or an overflow of half precision, stand for these.
_LARGEST_LOGIT = 1e30

_BINARY_LOSSES = (
    keras.losses.BinaryCrossentropy,
    keras.losses.BinaryFocalCrossentropy,
    keras.losses.binary_crossentropy,
    keras.losses.binary_focal_crossentropy,
)


def find_kinds(model: keras.Model, outputs: Any) -> Any:
    """Returns the kind of each output: what was told or, for `"auto"`, inferred.

    Args:
        model: The model.
        outputs: `"auto"`, one of `KINDS` for all outputs, or a list with one for each.

    Returns:
        One kind for all outputs, or a list with one for each.
    """
    told = outputs if isinstance(outputs, list | tuple) else [outputs]
    for kind in told:
        if kind not in (AUTO, *KINDS):
            raise ValueError(
                f"Argument `outputs` must be one of {[AUTO, *KINDS]}, or a list with one "
                f"for each output. Received: outputs={outputs!r}"
            )
    graph = functional_graph(model)
    # How many outputs another model has is known once it is called.
    symbols = [None] * len(told) if graph is None else graph.outputs
    losses = _losses(getattr(model, "loss", None), graph)
    if len(told) == 1:
        told = list(told) * len(symbols)
    if len(told) != len(symbols):
        raise ValueError(
            f"Argument `outputs` must have one kind for each of {len(symbols)} outputs. "
            f"Received: outputs={outputs!r}"
        )
    if len(losses) == 1:
        losses = losses * len(symbols)
    if len(losses) != len(symbols):
        losses = [None] * len(symbols)
    return [
        _infer(symbol, loss) if kind == AUTO else kind
        for kind, symbol, loss in zip(told, symbols, losses, strict=True)
    ]


def summaries_of(
    flat: list[Tensor], kinds: list[str], parts: tuple[str, ...]
) -> list[dict[str, Tensor]]:
    """Returns parts of what draws of each output say.

    Args:
        flat: Draws of the outputs, as in `summarize`.
        kinds: What they are: one kind for all of them, or one for each.
        parts: Which parts to return, as far as there are any.
    """
    if len(kinds) not in (1, len(flat)):
        raise ValueError(
            f"Argument `outputs` must have one kind for each of {len(flat)} outputs. "
            f"Received: outputs={kinds!r}"
        )
    if len(kinds) == 1:
        kinds = kinds * len(flat)
    summaries = [
        summarize(draws, kind) for draws, kind in zip(flat, kinds, strict=True)
    ]
    return [{p: s[p] for p in parts if p in s} for s in summaries]


def summarize(draws: Tensor, kind: str) -> dict[str, Tensor]:
    """Returns what draws say, in float32 and nats.

    Args:
        draws: Outputs of shape `(batch_size, num_samples, ...)`.
        kind: What they are.

    Returns:
        A dictionary of `samples`, `mean` and `std` and, except for regression, of
        `entropy`, `expected_entropy` and `mutual_information`.
    """
    dtype = tf.float64 if draws.dtype == tf.float64 else tf.float32
    draws = tf.cast(draws, dtype)
    if kind == LOGITS and draws.shape[-1] == 1:
        kind = BINARY_LOGITS  # a softmax of one class would say nothing
    if kind == REGRESSION:
        return _moments(draws)
    # Entropies of the draws come from the logits, where they are exact.
    if kind == LOGITS:
        logits = _finite(draws)
        log_draws = tf.nn.log_softmax(logits)
        draws = tf.exp(log_draws)
        entropies = -tf.reduce_sum(tf.math.multiply_no_nan(log_draws, draws), -1)
    elif kind == PROBABILITIES:
        entropies = _entropy(draws)
    elif kind == BINARY_LOGITS:
        logits = _finite(draws)
        draws = tf.sigmoid(logits)
        # -p log p - (1 - p) log(1 - p), of logits x: softplus(x) - p x.
        entropies = tf.math.softplus(-tf.abs(logits)) + tf.math.multiply_no_nan(
            tf.abs(logits), tf.sigmoid(-tf.abs(logits))
        )
    else:
        entropies = _binary_entropy(draws)
    moments = _moments(draws)
    binary = kind in (BINARY_LOGITS, BINARY_PROBABILITIES)
    entropy = (_binary_entropy if binary else _entropy)(moments["mean"])
    expected = tf.reduce_mean(entropies, axis=1)
    if binary and draws.shape[-1] == 1:
        entropy, expected = entropy[..., 0], expected[..., 0]
    return {
        **moments,
        "entropy": entropy,
        "expected_entropy": expected,
        # Not negative but for rounding.
        "mutual_information": tf.maximum(entropy - expected, 0.0),
    }


def _moments(draws: Tensor) -> dict[str, Tensor]:
    return {
        "samples": draws,
        "mean": tf.reduce_mean(draws, axis=1),
        "std": tf.math.reduce_std(draws, axis=1),
    }


def _finite(logits: Tensor) -> Tensor:
    return tf.clip_by_value(logits, -_LARGEST_LOGIT, _LARGEST_LOGIT)


def _entropy(probabilities: Tensor) -> Tensor:
    return -tf.reduce_sum(tf.math.xlogy(probabilities, probabilities), axis=-1)


def _binary_entropy(probability: Tensor) -> Tensor:
    other = 1.0 - probability
    return -tf.math.xlogy(probability, probability) - tf.math.xlogy(other, other)


def _losses(loss: Any, graph: Any) -> list[Any]:
    """Returns the losses of the outputs, in their order, or one for all of them."""
    if not isinstance(loss, dict) or graph is None:
        return keras.tree.flatten(loss)
    # As Keras finds them: by the key of an output or else by the name of its layer.
    paths = keras.tree.flatten_with_path(graph._outputs_struct)  # noqa: SLF001
    keys = [path[-1] if path else None for path, _ in paths]
    return [
        loss.get(key, loss.get(name))
        for key, name in zip(keys, graph.output_names, strict=True)
    ]


def _infer(symbol: Any, loss: Any) -> str:
    activation = _last_activation(symbol)
    if activation is keras.activations.softmax:
        return PROBABILITIES
    if activation is keras.activations.sigmoid:
        return BINARY_PROBABILITIES
    if loss is None:
        raise ValueError(
            "Neither the last activation nor a compiled loss says what the model's "
            f"outputs are; expected `outputs` to be one of {list(KINDS)}. "
            f"Received: outputs={AUTO!r}"
        )
    from_logits = _from_logits(keras.losses.get(loss))
    if from_logits is None:
        return REGRESSION
    if _is_binary(keras.losses.get(loss)):
        return BINARY_LOGITS if from_logits else BINARY_PROBABILITIES
    return LOGITS if from_logits else PROBABILITIES


def _last_activation(symbol: Any) -> Any:
    """Returns the activation of the layer that an output comes from, if it has one."""
    if symbol is None:
        return None
    layer, _, index = symbol._keras_history  # noqa: SLF001
    graph = functional_graph(layer)
    if graph is not None:
        return _last_activation(graph.outputs[index])
    if isinstance(layer, keras.layers.Softmax):
        return keras.activations.softmax
    return getattr(layer, "activation", None)


def _from_logits(loss: Any) -> bool | None:
    """Returns whether a crossentropy takes logits, or `None` for another loss."""
    if isinstance(loss, keras.losses.Loss):
        return loss.get_config().get("from_logits")
    parameter = inspect.signature(loss).parameters.get("from_logits")
    return None if parameter is None else parameter.default


def _is_binary(loss: Any) -> bool:
    return loss in _BINARY_LOSSES or type(loss) in _BINARY_LOSSES
