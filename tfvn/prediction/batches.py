"""Predicts with one model, batch by batch."""

import functools
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfvn import passes
from tfvn.likelihoods import Likelihood
from tfvn.prediction.batch_statistics import checked_pass
from tfvn.prediction.data import at_least_one_row, checked_rows, length
from tfvn.prediction.devices import devices_of, in_parallel
from tfvn.prediction.distribution import PredictiveDistribution
from tfvn.prediction.kinds import find_kinds
from tfvn.prediction.outputs import (
    BINARY_LOGITS,
    BINARY_PROBABILITIES,
    LOGITS,
    PROBABILITIES,
)
from tfvn.prediction.program import preserved_states
from tfvn.prediction.result import EnsemblePrediction
from tfvn.prediction.rows import as_tensor, join
from tfvn.prediction.sampler import AS_IT_IS, Sampler, sampler_of
from tfvn.prediction.seeds import RowSeeds, is_by_row, seed_pair
from tfvn.utils.validation import check_count, check_verbose

_PARTS = ("mean", "std", "entropy", "expected_entropy", "mutual_information", "outputs")

# Keras's batch size for `None`.
_BATCH_SIZE = 32

# How far probabilities may be outside of [0, 1], because of rounding in half precision.
_TOLERANCE = 0.01
_LOGITS_OF = {PROBABILITIES: LOGITS, BINARY_PROBABILITIES: BINARY_LOGITS}

# The progress bar appears after this many seconds.
_PATIENCE = 3.0


def predict_batches(
    model: keras.Model,
    x: Any,
    num_samples: int,
    steps: int | None,
    batch_size: int | None = 32,
    seed: Any = None,
    return_samples: bool = False,
    outputs: Any = "auto",
    verbose: Any = "auto",
    batch_statistics: bool = False,
    what: passes.Pass = AS_IT_IS,
    needs_noise: bool = True,
) -> Any:
    """Returns the result of `ensemble_predict`, for layers that `what` may change.

    A model without noise is refused, or, if it does not need any, gives one draw.
    """
    num_samples = check_count("num_samples", num_samples)
    check_verbose(verbose)
    rows = checked_rows(model, x, steps)
    by_row = is_by_row(seed)
    what = checked_pass(model, what, batch_statistics, by_row)
    sampler = sampler_of(model, what, by_row)
    _check_sampler(sampler, model, by_row, needs_noise)
    num_samples = num_samples if sampler.draws else 1
    batch_size = checked_batch_size(batch_size)
    rows.limit(sampler.fixed_rows or batch_size)
    seeds = RowSeeds(seed) if by_row else None
    pair = seed_pair(
        None if by_row else seed, ", or an array of two integers for each row"
    )
    if seeds is not None and rows.count is not None:
        seeds.check_count(rows.count)
    inputs = keras.tree.map_structure(as_tensor, at_least_one_row(rows.first))
    kinds = find_kinds(model, outputs, inputs)
    parts = (*_PARTS, "samples") if return_samples else _PARTS
    block = None if by_row else sampler.block_size(num_samples)
    blocks = math.ceil(batch_size / (block or batch_size))
    size = blocks * block if block else sampler.fixed_rows or batch_size
    batches = progress(rows.batches(size), rows.number_of_batches(size), verbose)
    summaries = []
    states = sampler.states(num_samples)
    # A draw of a stateful model carries its states from batch to batch.
    devices = [None] if states else devices_of(model)

    def tasks() -> Iterator[Callable[[], Any]]:
        for index, batch in enumerate(batches):
            x, count = checked_batch(sampler, batch), length(batch)
            device = devices[index % len(devices)]
            function = sampler.function(x, num_samples, kinds, parts, device)
            arguments = (
                keras.tree.map_structure(as_tensor, x),
                pair if seeds is None else seeds.take(count),
                tf.constant(index * blocks),
                states,
            )
            yield functools.partial(_run, function, arguments, count)

    with preserved_states(model):
        for summary, states in in_parallel(tasks(), len(devices)):  # noqa: B007
            summaries.append(summary)
    if seeds is not None:
        seeds.check_count()
    # The seeds of targets, which are sampled afterwards, one for each draw.
    root = pair.numpy().view("uint32")
    return sampler.pack(
        [
            _collect(
                [summary[index] for summary in summaries],
                kind,
                num_samples,
                [*root, index] if return_samples else None,
            )
            for index, kind in enumerate(kinds)
        ]
    )


def _run(function: Callable, arguments: tuple, count: int) -> Any:
    summary, states = function(*arguments)
    return to_numpy(summary, count), states


def _check_sampler(
    sampler: Sampler, model: keras.Model, by_row: bool, needs_noise: bool
) -> None:
    if needs_noise and not sampler.draws:
        raise ValueError(
            "Argument `model` must have a layer that draws noise: a stochastic layer, "
            "a noise layer, a layer with a `keras.random.SeedGenerator`, or one whose "
            "attribute `noise_per_example` is `True` or `False`. Received: "
            f"model={model.name!r}, which has none"
        )
    if by_row and sampler.fixed_rows is not None:
        raise ValueError(
            "Argument `seed` must be an integer or `None` for a model with stateful "
            "recurrent layers, in which each row depends on a row of the batch before. "
            f"Received: a seed for each row and model={model.name!r}"
        )


def _collect(
    batches: list[dict[str, np.ndarray]], kind: Any, num_samples: int, seed: Any
) -> EnsemblePrediction:
    arrays = join(batches)
    if kind in (PROBABILITIES, BINARY_PROBABILITIES):
        _check_probabilities(arrays["mean"], kind)
    if isinstance(kind, Likelihood):
        # With seeds of rows, the targets have been sampled already.
        samples = arrays.get("samples")
        seed = seed if samples is None else None
        answer = PredictiveDistribution.of_draws(kind, arrays["outputs"], seed)
        return answer if samples is None else replace(answer, samples=samples)
    return EnsemblePrediction(num_samples=num_samples, **arrays)


def _check_probabilities(mean: np.ndarray, kind: str) -> None:
    """Raises if outputs can't be probabilities; NaN is left to the user to see."""
    if np.any((mean < -_TOLERANCE) | (mean > 1.0 + _TOLERANCE)):
        raise ValueError(
            "The outputs of the model must be probabilities, from 0 to 1; for a model "
            f"without a last softmax or sigmoid, pass `outputs={_LOGITS_OF[kind]!r}`, and "
            "compile it with a loss of `from_logits=True`. Received: "
            f"outputs={kind!r} and averaged outputs from {np.nanmin(mean):.3g} to "
            f"{np.nanmax(mean):.3g}"
        )


def checked_batch(sampler: Sampler, batch: Any) -> Any:
    """Returns a batch with at least one row; raises if a stateful model cannot take it."""
    rows = length(batch)
    if sampler.fixed_rows not in (None, rows):
        raise ValueError(
            f"The number of rows in `x` must be a multiple of {sampler.fixed_rows}, "
            "the batch size for which this model with stateful recurrent layers was "
            f"built. Received: x with {rows} rows in its last batch"
        )
    return at_least_one_row(batch)


def to_numpy(tensors: Any, rows: int) -> Any:
    """Returns the first rows of a structure of tensors."""
    return keras.tree.map_structure(lambda tensor: tensor.numpy()[:rows], tensors)


def checked_batch_size(batch_size: int | None) -> int:
    """Returns the number of rows of a batch, as Keras counts them."""
    return _BATCH_SIZE if batch_size is None else check_count("batch_size", batch_size)


def progress(batches: Iterator[Any], total: int | None, verbose: Any) -> Iterator[Any]:
    """Yields the batches, and shows a progress bar if it takes long.

    The bar first appears after the second batch. The first takes longer, because the model
    is traced, so that an estimate from it would be far too long.
    """
    # Keras's bar leaves the first step out of its estimates if it is told of it. It is
    # told of every step, and stays hidden until `verbose` is 1.
    bar = keras.utils.Progbar(total, unit_name="batch", verbose=0)
    start = math.inf
    done = 0
    for batch in batches:
        yield batch
        done += 1
        is_last = done == total
        is_long = time.perf_counter() - start > _PATIENCE and not is_last
        if (verbose == 1 and (done > 1 or is_last)) or (verbose == "auto" and is_long):
            bar.verbose = 1
        bar.update(done, finalize=is_last)
        start = min(start, time.perf_counter())
    if bar.verbose and total is None:
        bar.update(done, finalize=True)
