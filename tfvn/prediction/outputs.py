"""Summaries of draws of outputs, depending on the kind of the outputs."""

from typing import Any

import tensorflow as tf

from tfvn import random
from tfvn.likelihoods import Likelihood
from tfvn.prediction.mixture import Mixture

Tensor = Any

LOGITS = "logits"
PROBABILITIES = "probabilities"
BINARY_LOGITS = "binary_logits"
BINARY_PROBABILITIES = "binary_probabilities"
REGRESSION = "regression"
KINDS = (LOGITS, PROBABILITIES, BINARY_LOGITS, BINARY_PROBABILITIES, REGRESSION)

# Replaces infinite logits, which come from masks or from an overflow of half precision.
_LARGEST_LOGIT = 1e30


def summaries_of(
    flat: list[Tensor],
    kinds: list[Any],
    parts: tuple[str, ...],
    level: float | None = None,
    seeds: Tensor | None = None,
) -> list[dict[str, Tensor]]:
    """Returns a summary of the draws of each output.

    Args:
        flat: Draws of the outputs, as in `summarize`.
        kinds: The kind of each output.
        parts: The parts of the summary to return, if the kind has them.
        level: The probability of the interval between `lower` and `upper`, for outputs
            that parameterize a distribution.
        seeds: Integers of shape `(batch_size, 2)`, the seeds of `samples` of such outputs.
    """
    summaries = [
        _of_distribution(kind, draws, parts, level, seeds, index)
        if isinstance(kind, Likelihood)
        else summarize(draws, kind)
        for index, (draws, kind) in enumerate(zip(flat, kinds, strict=True))
    ]
    return [{p: s[p] for p in parts if p in s} for s in summaries]


def _of_distribution(
    likelihood: Likelihood,
    draws: Tensor,
    parts: tuple[str, ...],
    level: float | None,
    seeds: Tensor | None,
    index: int,
) -> dict[str, Tensor]:
    """Returns a summary of draws of the parameters of a distribution.

    Args:
        likelihood: The family of distributions.
        draws: As in `summarize`.
        parts: The parts that the caller needs; the others may be missing.
        level: As in `summaries_of`.
        seeds: As in `summaries_of`.
        index: The number of the output, so that different outputs get different samples.
    """
    draws = _as_float(draws)
    mixture = Mixture(likelihood, draws)
    summary = {**mixture.moments, "outputs": draws}
    if level is not None and "lower" in parts:
        tail = 0.5 * (1.0 - level)
        summary["lower"] = mixture.quantile(tail)
        summary["upper"] = mixture.quantile(1.0 - tail)
    if seeds is not None and "samples" in parts:
        shape = tf.shape(mixture.means)[1:]
        # These seeds differ from those of the layers.
        uniform = tf.map_fn(
            lambda seed: tf.random.stateless_uniform(
                shape,
                random.fold_in(seed, -2 - index),
                dtype=draws.dtype,
                alg="philox",
            ),
            seeds,
            fn_output_signature=draws.dtype,
        )
        smallest = 1e-7  # large enough that 1 minus it is not 1 in float32
        uniform = tf.clip_by_value(uniform, smallest, 1.0 - smallest)
        summary["samples"] = mixture.outcomes(uniform)
    return summary


def summarize(draws: Tensor, kind: str) -> dict[str, Tensor]:
    """Returns a summary of draws, in float32 and nats.

    Args:
        draws: Outputs of shape `(batch_size, num_samples, ...)`.
        kind: The kind of the outputs, one of `KINDS`.

    Returns:
        A dictionary of `samples`, `mean` and `std` and, except for regression, of
        `entropy`, `expected_entropy` and `mutual_information`.
    """
    draws = _as_float(draws)
    if kind == REGRESSION:
        return _moments(draws)
    # If the output is one number for each example, the last axis is the axis of draws.
    is_scalar = draws.shape.rank == 2
    # A single number is the probability or logit of the second of two classes.
    is_single = is_scalar or draws.shape[-1] == 1
    is_binary = is_single or kind in (BINARY_LOGITS, BINARY_PROBABILITIES)
    entropy = binary_entropy_of if is_binary else entropy_of
    if kind in (PROBABILITIES, BINARY_PROBABILITIES):
        entropies = entropy(draws)
    else:
        # If there are logits, the entropies are computed from them, because that is exact.
        logits = tf.clip_by_value(draws, -_LARGEST_LOGIT, _LARGEST_LOGIT)
        if is_binary:
            # For logits x, -p log p - (1 - p) log(1 - p) = softplus(x) - p x.
            draws, size = tf.sigmoid(logits), tf.abs(logits)
            rest = tf.math.multiply_no_nan(size, tf.sigmoid(-size))
            entropies = tf.math.softplus(-size) + rest
        else:
            log_draws = tf.nn.log_softmax(logits)
            draws = tf.exp(log_draws)
            entropies = tf.reduce_sum(tf.math.multiply_no_nan(log_draws, draws), -1)
            entropies = tf.abs(entropies)  # as in `entropy_of`
    moments = _moments(draws)
    total, expected = entropy(moments["mean"]), tf.reduce_mean(entropies, axis=1)
    if is_single and not is_scalar:
        total, expected = total[..., 0], expected[..., 0]
    return {
        **moments,
        "entropy": total,
        "expected_entropy": expected,
        # Only rounding can make it negative.
        "mutual_information": tf.maximum(total - expected, 0.0),
    }


def _as_float(draws: Tensor) -> Tensor:
    return tf.cast(draws, tf.float64 if draws.dtype == tf.float64 else tf.float32)


def _moments(draws: Tensor) -> dict[str, Tensor]:
    return {
        "samples": draws,
        "mean": tf.reduce_mean(draws, axis=1),
        "std": tf.math.reduce_std(draws, axis=1),
    }


def entropy_of(probabilities: Tensor) -> Tensor:
    """Returns the entropy along the last axis, in nats."""
    # Not by a minus, because the entropy of a certain prediction would be -0.
    terms = tf.math.xlogy(probabilities, probabilities)
    return tf.abs(tf.reduce_sum(terms, axis=-1))


def binary_entropy_of(probability: Tensor) -> Tensor:
    """Returns the entropy of two classes, given the probability of one, in nats."""
    other = 1.0 - probability
    terms = tf.math.xlogy(probability, probability) + tf.math.xlogy(other, other)
    return tf.abs(terms)  # as in `entropy_of`
