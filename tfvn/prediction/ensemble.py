"""Predictions with an ensemble of draws, with mean weights, and without means."""

import functools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfvn import estimators, passes
from tfvn.layers.base import stochastic_layers
from tfvn.likelihoods import Likelihood
from tfvn.posteriors import GaussianDropout
from tfvn.posteriors.pruned import unpruned
from tfvn.posteriors.without_mean import WithoutMean
from tfvn.prediction.batch_statistics import checked_pass
from tfvn.prediction.data import (
    at_least_one_row,
    check_model,
    checked_rows,
    length,
)
from tfvn.prediction.devices import devices_of, in_parallel
from tfvn.prediction.distribution import PredictiveDistribution
from tfvn.prediction.kinds import find_kinds
from tfvn.prediction.members import (
    check_members,
    combined,
    member_seed,
    repeatable,
)
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


def ensemble_predict(
    model: keras.Model | Sequence[keras.Model],
    x: Any,
    num_samples: int = 20,
    batch_size: int | None = 32,
    seed: Any = None,
    return_samples: bool = False,
    outputs: Any = "auto",
    verbose: Any = "auto",
    steps: int | None = None,
    batch_statistics: bool = False,
) -> Any:
    """Predicts with an ensemble of draws of a model's noise.

    All noise is active: that of random kernels, of this library's noise layers, and of
    Keras's (`Dropout` and similar layers, dropout in recurrent layers and attention), so
    that a model with dropout becomes an MC-dropout ensemble. Everything else is in
    inference mode. The draws have the same distribution as calls of the model, but in
    sequential and functional models, also in nested ones, the part before the first noise
    is computed only once. With the `local` estimator, the examples of a draw have
    independent noise; with `weights`, all rows of a draw share one kernel.

    The same seed gives the same draws for any batch size and kind of data, except for
    rounding before the noise, about 1e-5. The draws of the first rows of `x` do not
    depend on the rows after them; changing `num_samples` changes every draw. Memory is
    bounded by the batch, and by the draws of one row.

    For a model of a `tf.distribute.MirroredStrategy`, the batches are shared among its
    devices, with the same draws. With several workers, each predicts the rows that it is
    given, on its own devices.

    If `seed` has two integers for each row, the draws of a row, including random kernels,
    depend only on its seed, and equal those of the signature `seeded` of
    `tfvn.export_ensemble`. Each row then needs its own kernel. Dense layers with Gaussian
    weights sample their outputs instead, which gives the same distribution; other layers
    with `estimator="weights"` or `"flipout"` sample a kernel for each row and draw, which
    is slow.

    In a model with stateful recurrent layers, every draw starts from the current states
    of the model, carries its own states from batch to batch, and uses the same random
    weights in all batches. The states of the model do not change.

    A list of models is a deep ensemble, to which all models contribute equally. Each
    model with noise gives `num_samples` draws. If none has noise, as with networks of
    Keras that were trained from different initial weights, each gives one.

    Args:
        model: A model of this library or of Keras, or a list of models with outputs of the
            same kind and shape.
        x: Anything that `keras.Model.predict` takes for this model: an array, or a list
            or dictionary of arrays for several inputs, where an array may also be a
            tensor (dense, sparse or ragged), a pandas frame or a SciPy sparse matrix, of
            numbers or strings; or a `tf.data.Dataset`, a `keras.utils.PyDataset` or a
            generator of batches. For a list of models, batches are kept in memory until
            all models have read them.
        num_samples: Number of draws of each model.
        batch_size: Number of rows that the part of the model before the noise processes
            at a time, rounded up to whole blocks of at most 16 rows. Batches of data sets
            and generators are regrouped to this size. `None` is 32, as in Keras.
        seed: Integer that fits 64 bits, or an array of integers of shape `(rows, 2)` that
            fit 32 bits. `None` draws fresh noise in every call (which
            `keras.utils.set_random_seed` makes reproducible).
        return_samples: Whether to return the draws themselves.
        outputs: What the model's outputs are: `"logits"` or `"probabilities"` of classes;
            `"binary_logits"` or `"binary_probabilities"` of independent answers;
            `"normal"`, `"laplace"`, `"student_t"`, `"log_normal"` or `"poisson"` for the
            parameters of a distribution of the target, as `tfvn.losses` takes them, or an
            instance of `tfvn.likelihoods`; or `"regression"` for numbers. For several
            outputs a list, or a dictionary by the name of the output. `"auto"` infers it
            from the last layer and the compiled loss, and raises if they are ambiguous.
        verbose: `"auto"` shows a progress bar after a few seconds, 0 shows none, and 1
            shows one at once.
        steps: Number of batches to take from a data set or a generator, in its own batch
            size; from arrays, the first `steps * batch_size` rows are taken. `None` takes
            all; data without end need a number.
        batch_statistics: Whether `keras.layers.BatchNormalization` normalizes each draw
            with the mean and the variance of the batch, as in training, instead of its
            moving statistics, which do not change in either case. The predictions of a row
            then depend on the other rows of its batch, so `batch_size` matters: use that
            of the training. A layer with `trainable=False` keeps its moving statistics,
            as in training.

    Returns:
        An `EnsemblePrediction` with `mean`, `std`, `entropy`, `expected_entropy`,
        `mutual_information` and, with `return_samples=True`, `samples`, with the draws on
        axis 1; for a model with several outputs, a structure of them. For logits,
        `samples` and `mean` are probabilities. If the outputs are parameters of a
        distribution, the result is a `PredictiveDistribution`, with intervals and
        quantiles of the target.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> import tfvn
    >>> model = keras.Sequential(
    ...     [keras.Input((4,)), tfvn.VarianceDense(3, activation="softmax")]
    ... )
    >>> answer = tfvn.ensemble_predict(model, np.ones((5, 4)), num_samples=10, seed=1)
    >>> answer.mean.shape, answer.mutual_information.shape
    ((5, 3), (5,))

    Reference:

    - [Gal and Ghahramani, 2016](https://arxiv.org/abs/1506.02142), for MC dropout
    - [Depeweg et al., 2018](https://arxiv.org/abs/1710.07283), section 3, for what the
      entropies mean
    - [Lakshminarayanan et al., 2017](https://arxiv.org/abs/1612.01474), for deep ensembles
    """
    options: Any = {
        "batch_size": batch_size,
        "return_samples": return_samples,
        "outputs": outputs,
        "verbose": verbose,
        "batch_statistics": batch_statistics,
    }
    if not isinstance(model, list | tuple):
        return _predict(model, x, num_samples, steps, seed=seed, **options)
    check_members(model)
    x, steps = repeatable(x, steps)
    answers = [
        _predict(
            member,
            x,
            num_samples,
            steps,
            seed=member_seed(seed, index),
            needs_noise=False,
            **options,
        )
        for index, member in enumerate(model)
    ]
    return combined(answers)


def zero_mean_predict(
    model: keras.Model,
    x: Any,
    num_samples: int = 20,
    steps: int | None = None,
    **kwargs: Any,
) -> Any:
    """Predicts with an ensemble in which the means of Gaussian-dropout layers are zero.

    The variances of their weights do not change. A layer after its phase transition
    predicts as well as before; with a layer before it, accuracy falls to chance.

    Args:
        model: A model with Gaussian-dropout layers.
        x: As in `tfvn.ensemble_predict`.
        num_samples: Number of draws.
        steps: As in `tfvn.ensemble_predict`.
        **kwargs: Further arguments of `tfvn.ensemble_predict`.

    Returns:
        As `tfvn.ensemble_predict`.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.GaussianDropoutDense(3, activation="softmax")
    >>> model = keras.Sequential([keras.Input((4,)), layer])
    >>> tfvn.zero_mean_predict(model, np.ones((5, 4)), num_samples=2).mean.shape
    (5, 3)

    Reference:

    - [Neklyudov et al., 2019](https://arxiv.org/abs/1803.03764), section 4
    """
    check_model(model)
    layers: list[Any] = stochastic_layers(model)
    posteriors = [unpruned(layer.posterior) for layer in layers]
    if not any(isinstance(posterior, GaussianDropout) for posterior in posteriors):
        raise ValueError(
            "Argument `model` must have a Gaussian-dropout layer, because only in such "
            f"layers are the means set to zero. Received: model={model.name!r}, which "
            "has none"
        )
    return _predict(model, x, num_samples, steps, **kwargs, what=ZERO_MEANS)


def mean_predict(
    model: keras.Model,
    x: Any,
    batch_size: int | None = 32,
    steps: int | None = None,
    batch_statistics: bool = False,
) -> Any:
    """Predicts with every random weight replaced by its mean: the weight-scaling rule.

    This is one forward pass without noise. For a variance layer, whose mean weights are zero, it
    is a random guess. Stateful recurrent layers continue from their current states and
    keep the new ones, as in `keras.Model.predict`.

    Args:
        model: A model of this library or of Keras.
        x: As in `tfvn.ensemble_predict`.
        batch_size: Number of rows at a time; `None` is 32, as in Keras.
        steps: As in `tfvn.ensemble_predict`.
        batch_statistics: As in `tfvn.ensemble_predict`.

    Returns:
        The model's outputs, as `keras.Model.predict` gives them.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> import tfvn
    >>> model = keras.Sequential([keras.Input((4,)), tfvn.MeanFieldDense(3)])
    >>> first, second = (tfvn.mean_predict(model, np.ones((2, 4))) for _ in range(2))
    >>> bool((first == second).all())
    True

    Reference:

    - [Srivastava et al., 2014](https://jmlr.org/papers/v15/srivastava14a.html)
    """
    batch_size = _checked_batch_size(batch_size)
    rows = checked_rows(model, x, steps)
    sampler = sampler_of(model, checked_pass(model, MEAN_WEIGHTS, batch_statistics))
    size = sampler.fixed_rows or batch_size
    rows.limit(size)
    return join(
        [
            _to_numpy(sampler.call(_checked_batch(sampler, batch)), length(batch))
            for batch in rows.batches(size)
        ]
    )


def _without_mean(reading: Any) -> Any:
    is_dropout = isinstance(unpruned(reading), GaussianDropout)
    return WithoutMean(reading) if is_dropout else reading


# Made once, because samplers are stored by them.
MEAN_WEIGHTS = passes.Pass(estimator_of=lambda layer: estimators.MeanWeights())
ZERO_MEANS = passes.Pass(posterior_of=_without_mean)


def _predict(
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
    batch_size = _checked_batch_size(batch_size)
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
    batches = _progress(rows.batches(size), rows.number_of_batches(size), verbose)
    summaries = []
    states = sampler.states(num_samples)
    # A draw of a stateful model carries its states from batch to batch.
    devices = [None] if states else devices_of(model)

    def tasks() -> Iterator[Callable[[], Any]]:
        for index, batch in enumerate(batches):
            x, count = _checked_batch(sampler, batch), length(batch)
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
    return _to_numpy(summary, count), states


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


def _checked_batch(sampler: Sampler, batch: Any) -> Any:
    """Returns a batch with at least one row; raises if a stateful model cannot take it."""
    rows = length(batch)
    if sampler.fixed_rows not in (None, rows):
        raise ValueError(
            f"The number of rows in `x` must be a multiple of {sampler.fixed_rows}, "
            "the batch size for which this model with stateful recurrent layers was "
            f"built. Received: x with {rows} rows in its last batch"
        )
    return at_least_one_row(batch)


def _to_numpy(tensors: Any, rows: int) -> Any:
    """Returns the first rows of a structure of tensors."""
    return keras.tree.map_structure(lambda tensor: tensor.numpy()[:rows], tensors)


def _checked_batch_size(batch_size: int | None) -> int:
    return _BATCH_SIZE if batch_size is None else check_count("batch_size", batch_size)


def _progress(batches: Iterator[Any], total: int | None, verbose: Any) -> Iterator[Any]:
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
