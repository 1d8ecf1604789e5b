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
    symbols = [None] if graph is None else graph.outputs
    losses = keras.tree.flatten(getattr(model, "loss", None))
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
