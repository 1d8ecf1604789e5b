"""Deep ensembles: the predictions of several models, combined into one."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfvn.prediction.data import Rows, check_model, is_stream
from tfvn.prediction.distribution import PredictiveDistribution
from tfvn.prediction.outputs import binary_entropy_of, entropy_of
from tfvn.prediction.result import EnsemblePrediction
from tfvn.prediction.seeds import RowSeeds, is_by_row, seed_pair

# How many rows of a stream are in a batch that is kept for the next model.
_KEPT_ROWS = 256


def check_members(models: Sequence[Any]) -> None:
    """Raises unless a list has at least one model, and nothing else."""
    if not models:
        raise ValueError(
            "Argument `model` must be a model or a list of at least one. "
            "Received: an empty list"
        )
    for model in models:
        check_model(model)


def repeatable(x: Any, steps: int | None) -> tuple[Any, int | None]:
    """Returns data that every model can read, and the steps that remain to be taken.

    Streams are read once and kept in memory: another pass may give other rows, or the same
    ones in another order.

    Args:
        x: The data, as `tfvn.ensemble_predict` takes them.
        steps: How many batches to take.
    """
    if not is_stream(x):
        return x, steps
    # A batch that is a tuple counts as `(inputs, ...)`.
    return _Kept([(batch,) for batch in Rows(x, steps).batches(_KEPT_ROWS)]), None


class _Kept:
    """Batches that can be read again."""

    def __init__(self, batches: list[Any]):
        self._batches = batches

    def __iter__(self) -> Any:
        return iter(self._batches)


def member_seed(seed: Any, index: int) -> Any:
    """Returns the seed of a model, with which its draws are independent of the others'.

    Args:
        seed: The seed of the ensemble: an integer, `None`, or integers for each row.
        index: The number of the model. The first keeps the seed.
    """
    if seed is None or index == 0:
        return seed
    if is_by_row(seed):
        return _hashed(RowSeeds(seed).all, index)
    pair = seed_pair(seed, ", or an array of two integers for each row").numpy()
    return int(_hashed(pair[None], index).view("int64")[0, 0])


def _hashed(seeds: np.ndarray, index: int) -> np.ndarray:
    """Returns other pairs of integers, one for each pair and index."""
    rows = (seed.tobytes() + index.to_bytes(4, "little") for seed in seeds)
    digests = [hashlib.blake2b(row, digest_size=8).digest() for row in rows]
    return np.frombuffer(b"".join(digests), "int32").reshape(-1, 2)


def combined(answers: list[Any]) -> Any:
    """Returns the prediction of an ensemble, given those of its models.

    Args:
        answers: What `tfvn.ensemble_predict` returns for each model: predictions, or
            structures of them. Each has the same number of draws, or one.
    """
    structures = {str(keras.tree.map_structure(lambda _: 0, a)) for a in answers}
    parts = [keras.tree.flatten(answer) for answer in answers]
    descriptions = [[_describe(part) for part in flat] for flat in parts]
    if len(structures) > 1 or any(d != descriptions[0] for d in descriptions):
        raise ValueError(
            "The models of an ensemble must have outputs of the same kind and shape. "
            f"Received: models with the outputs {descriptions}"
        )
    merged = [_merged(list(members)) for members in zip(*parts, strict=True)]
    return keras.tree.pack_sequence_as(answers[0], merged)


def _describe(answer: EnsemblePrediction) -> str:
    if isinstance(answer, PredictiveDistribution):
        kind = type(answer.likelihood).__name__
    else:
        kind = "numbers" if answer.entropy is None else "classes"
    return f"{kind} of shape {answer.mean.shape[1:]}"


def _merged(answers: list[Any]) -> EnsemblePrediction:
    draws = max(answer.num_samples for answer in answers)
    answers = [_repeated(answer, draws) for answer in answers]
    first = answers[0]
    samples = None
    if first.samples is not None:
        samples = np.concatenate([a.samples for a in answers], axis=1)
    if isinstance(first, PredictiveDistribution):
        outputs = np.concatenate([a.outputs for a in answers], axis=1)
        likelihood: Any = first.likelihood
        merged = PredictiveDistribution.of_draws(likelihood, outputs)
        return replace(merged, samples=samples)
    means = np.stack([a.mean for a in answers])
    mean = means.mean(axis=0)
    # The law of total variance.
    within = np.mean([np.square(a.std) for a in answers], axis=0)
    std = np.sqrt(within + means.var(axis=0))
    entropies: dict[str, np.ndarray] = {}
    if first.entropy is not None:
        total = _entropy(mean, first.entropy.shape)
        expected = np.mean([a.expected_entropy for a in answers], axis=0)
        entropies = {
            "entropy": total,
            "expected_entropy": expected,
            "mutual_information": np.maximum(total - expected, 0.0),
        }
    return EnsemblePrediction(
        mean=mean,
        std=std,
        num_samples=sum(a.num_samples for a in answers),
        samples=samples,
        **entropies,
    )


def _entropy(mean: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Returns the entropy of a mean, in the shape that a model's own entropy has."""
    is_binary = shape == mean.shape or mean.shape[-1] == 1
    entropy: Callable = binary_entropy_of if is_binary else entropy_of
    return entropy(tf.constant(mean)).numpy().reshape(shape)


def _repeated(answer: EnsemblePrediction, draws: int) -> EnsemblePrediction:
    """Returns the answer of a model without noise as that of several equal draws."""
    if answer.num_samples == draws:
        return answer
    changes: dict[str, Any] = {"num_samples": draws}
    for name in ("samples", "outputs"):
        value = getattr(answer, name, None)
        if value is not None:
            changes[name] = np.repeat(value, draws, axis=1)
    return replace(answer, **changes)
