"""How certain random weights are."""

import math
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfvn.posteriors import GaussianDropout, Posterior
from tfvn.posteriors.pruned import unpruned

QUANTILES = (0.05, 0.5, 0.95)


class Spread(NamedTuple):
    """How certain the weights of a kernel are, each for itself.

    Attributes:
        measure: What the values are: `"log alpha"` for Gaussian dropout, `"scale"` (the
            standard deviation) for weights of mean zero, and otherwise `"SNR"`, the
            distance of the mean from zero in standard deviations.
        values: The value of each weight that is not exactly zero, on one axis.
        size: Number of all weights.
    """

    measure: str
    values: np.ndarray
    size: int

    @property
    def sparsity(self) -> float:
        """The share of weights that are exactly zero: mean zero and variance zero."""
        return 1.0 - len(self.values) / self.size if self.size else 0.0

    @property
    def quantiles(self) -> tuple[float, ...]:
        """The 5, 50 and 95 % quantiles of the values, NaN if there are none."""
        if not len(self.values):
            return (math.nan,) * len(QUANTILES)
        # An infinite ratio makes NaN of a quantile next to it, which the table shows.
        with np.errstate(invalid="ignore"):
            return tuple(np.quantile(self.values, QUANTILES).tolist())


def spread_of(posterior: Posterior) -> Spread:
    """Returns how certain the weights of a posterior are.

    Args:
        posterior: The posterior of a layer that has been built.
    """
    mean, variance = map(_numbers, (posterior.mean(), posterior.variance()))
    # The variance alone does not tell, because the square of a tiny scale is zero.
    drawn = _numbers(posterior.sample(tf.constant([0, 0])))
    kept = (mean != 0) | (variance != 0) | (drawn != 0)
    inside = unpruned(posterior)
    if isinstance(inside, GaussianDropout):
        log_alpha = np.broadcast_to(_numbers(inside.log_alpha()), mean.shape)
        return Spread("log alpha", log_alpha[kept], mean.size)
    scale = np.sqrt(variance[kept])
    if posterior.zero_mean:
        return Spread("scale", scale, mean.size)
    with np.errstate(divide="ignore"):
        return Spread("SNR", np.abs(mean[kept]) / scale, mean.size)


def _numbers(tensor: Any) -> np.ndarray:
    return keras.ops.convert_to_numpy(tensor).astype("float64")
