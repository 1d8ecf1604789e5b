"""Predictions with an ensemble of draws, with mean weights, and without means."""

from collections.abc import Sequence
from typing import Any

import keras

from tfvn import estimators, passes
from tfvn.layers.base import stochastic_layers
from tfvn.posteriors import GaussianDropout
from tfvn.posteriors.pruned import unpruned
from tfvn.posteriors.without_mean import WithoutMean
from tfvn.prediction.batch_statistics import checked_pass
from tfvn.prediction.batches import (
    checked_batch,
    checked_batch_size,
    predict_batches,
    to_numpy,
)
from tfvn.prediction.data import check_model, checked_rows, length
from tfvn.prediction.members import check_members, combined, member_seed, repeatable
from tfvn.prediction.rows import join
from tfvn.prediction.sampler import sampler_of


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
        return predict_batches(model, x, num_samples, steps, seed=seed, **options)
    check_members(model)
    x, steps = repeatable(x, steps)
    answers = [
        predict_batches(
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
    return predict_batches(model, x, num_samples, steps, **kwargs, what=ZERO_MEANS)


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
    batch_size = checked_batch_size(batch_size)
    rows = checked_rows(model, x, steps)
    sampler = sampler_of(model, checked_pass(model, MEAN_WEIGHTS, batch_statistics))
    size = sampler.fixed_rows or batch_size
    rows.limit(size)
    return join(
        [
            to_numpy(sampler.call(checked_batch(sampler, batch)), length(batch))
            for batch in rows.batches(size)
        ]
    )


def _without_mean(reading: Any) -> Any:
    is_dropout = isinstance(unpruned(reading), GaussianDropout)
    return WithoutMean(reading) if is_dropout else reading


# Made once, because samplers are stored by them.
MEAN_WEIGHTS = passes.Pass(estimator_of=lambda layer: estimators.MeanWeights())
ZERO_MEANS = passes.Pass(posterior_of=_without_mean)
