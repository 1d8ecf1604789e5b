"""Checks of the targets and weights that metrics of regression get."""

from typing import Any

import numpy as np


def weights_of_targets(given: Any, y: np.ndarray) -> np.ndarray:
    """Returns the weight of each target, or raises an error if a weight is invalid.

    Args:
        given: Weights of the rows or of the first axes of the targets, or `None`.
        y: The targets.
    """
    if given is None:
        return np.ones(y.shape)
    weight = np.asarray(given, "float64")
    shape = weight.shape
    # A last axis of size 1 may be left out.
    if shape != y.shape[: len(shape)] and shape[-1:] == (1,):
        weight = weight[..., 0]
    if weight.shape != y.shape[: weight.ndim]:
        raise ValueError(
            "Argument `sample_weight` must have a weight for each row, with shape "
            f"{y.shape[:1]}, or for each element of the first axes of the targets, "
            f"which have shape {y.shape}. Received: sample_weight of shape {shape}"
        )
    is_valid = np.isfinite(weight) & (weight >= 0.0)
    if not is_valid.all():
        raise ValueError(
            "Argument `sample_weight` must have finite numbers of at least 0. "
            f"Received: a weight of {weight[~is_valid][0]}"
        )
    missing = range(weight.ndim, y.ndim)
    return np.broadcast_to(np.expand_dims(weight, tuple(missing)), y.shape)


def refuse_missing(y: np.ndarray, counted: np.ndarray) -> None:
    """Raises an error if a target with a positive weight is NaN.

    Args:
        y: The targets.
        counted: Which targets have a positive weight.
    """
    bad = np.argwhere(np.isnan(y) & counted)
    if len(bad):
        raise ValueError(
            "Argument `y_true` must not contain NaN; give missing targets a weight of 0 "
            "in `sample_weight`. Received: "
            f"{len(bad)} targets that are NaN, the first of them in row {bad[0][0]}"
        )
