"""Scores that say which weights a layer can do without."""

from typing import Any

import numpy as np

from tfvn.posteriors import GaussianDropout
from tfvn.posteriors.pruned import unpruned

AUTO = "auto"
SCALE, ALPHA, SNR = "scale", "alpha", "snr"
SCORES = (SCALE, ALPHA, SNR)

_TIED = (
    "all weights of a {shared} share one alpha, and with it the signal-to-noise ratio "
    "alpha^-0.5, and where alpha is large the weights with a low ratio carry the information"
)
_ZERO_MEAN = (
    "all means are zero, so that every weight has an infinite alpha and a "
    "signal-to-noise ratio of zero, though the weights carry the information"
)


def chosen_score(posterior: Any, by: str, layer: str) -> str:
    """Returns the score for the weights of a posterior, or raises if it can't rank them.

    Args:
        posterior: A posterior.
        by: The user's choice: a score, or `"auto"`.
        layer: The name of the layer, for the error message.
    """
    posterior = unpruned(posterior)
    reason = _only_by_scale(posterior)
    if by == AUTO:
        if reason is not None:
            return SCALE
        return ALPHA if isinstance(posterior, GaussianDropout) else SNR
    if reason is not None and by != SCALE:
        raise ValueError(
            f"The weights of layer {layer!r} can't be ranked by {by!r}: {reason}; expected "
            f"`by='scale'` or `by='auto'`. Received: by={by!r}"
        )
    return by


def _only_by_scale(posterior: Any) -> str | None:
    """Returns why only scales rank the weights of a posterior, or `None` if others do."""
    if posterior.zero_mean:
        return _ZERO_MEAN
    if not isinstance(posterior, GaussianDropout) or posterior.is_additive:
        return None
    shared = posterior.alpha or "layer"
    return None if shared == "weight" else _TIED.format(shared=shared)


def scores(posterior: Any, score: str) -> np.ndarray:
    """Returns a score for each weight, in float64.

    Args:
        posterior: A posterior with variables. If it is pruned, this returns scores for the
            pruned weights too, those that they would have without the mask.
        score: `"scale"` for the standard deviation, `"alpha"` for the logarithm of
            alpha, or `"snr"` for the ratio of the absolute mean to the standard deviation.
    """
    posterior = unpruned(posterior)
    mean, variance = (
        np.asarray(values, "float64")
        for values in (posterior.mean(), posterior.variance())
    )
    size, scale = np.abs(mean), np.sqrt(variance)
    if score == SCALE:
        return scale
    if score == SNR:
        # A weight that is certainly zero has no signal, and any other without noise an
        # infinite ratio.
        certain = np.where(size > 0, np.inf, size)
        return np.divide(size, scale, out=certain, where=scale > 0)
    if isinstance(posterior, GaussianDropout) and not posterior.is_additive:
        return np.broadcast_to(np.asarray(posterior.log_alpha(), "float64"), mean.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_alpha = np.log(variance) - 2.0 * np.log(size)
    # The mean of a weight that is certainly zero is zero; NaN means remain NaN.
    return np.where((size == 0) & (variance == 0), np.inf, log_alpha)


def importance(score: str, values: Any) -> Any:
    """Returns scores so that the weights to be pruned first have the smallest."""
    return -values if score == ALPHA else values
