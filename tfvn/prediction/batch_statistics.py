"""Predictions in which batch normalization uses the statistics of the batch."""

import dataclasses
import functools

import keras

from tfvn import passes
from tfvn.utils.models import all_layers


def checked_pass(
    model: keras.Model, what: passes.Pass, batch_statistics: bool, by_row: bool = False
) -> passes.Pass:
    """Returns the pass of a prediction, or raises if it can't use statistics of batches.

    Args:
        model: The model.
        what: The pass, apart from batch normalization.
        batch_statistics: The user's argument.
        by_row: Whether each row has a seed.
    """
    if not batch_statistics:
        return what
    layers = all_layers(model)
    if not any(isinstance(x, keras.layers.BatchNormalization) for x in layers):
        raise ValueError(
            "Argument `batch_statistics` can be `True` only for a model with a "
            "`keras.layers.BatchNormalization`. Received: batch_statistics=True and "
            f"model={model.name!r}, which has none"
        )
    if by_row:
        raise ValueError(
            "Argument `seed` must be an integer or `None` with `batch_statistics=True`, "
            "because each row then depends on the other rows of its batch. Received: a "
            "seed for each row"
        )
    return _with_batch_statistics(what)


# Made once for each pass, because samplers are stored by them.
@functools.cache
def _with_batch_statistics(what: passes.Pass) -> passes.Pass:
    return dataclasses.replace(what, batch_statistics=True)
