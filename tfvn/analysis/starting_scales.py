"""The means and scales with which the posterior of a trained weight starts."""

import functools
from typing import Any

import keras
import numpy as np

from tfvn.analysis.factors import nearest_factors
from tfvn.posteriors import GaussianDropout, KTied, MeanField, Posterior
from tfvn.posteriors.gaussian_dropout import LARGEST_LOG_ALPHA

# A weight that is smaller than this fraction of a typical one gets the scale of a weight of
# that size; a scale of zero would have no gradient.
_SMALLEST_WEIGHT = 0.1


def start(posterior: Posterior, means: Any, scale: float, typical: float) -> None:
    """Sets the means of a posterior, and standard deviations relative to them.

    Args:
        posterior: A posterior that has been built, with means.
        means: The trained weights.
        scale: The standard deviation of a weight, divided by its absolute value.
        typical: The size of a typical weight, for weights that are near zero.
    """
    variable: Any = posterior.mean_variable  # type: ignore[attr-defined]
    variable.assign(means)
    means = np.asarray(keras.ops.convert_to_numpy(means), "float64")
    _start_scales(posterior, means, scale, typical)


def relative_scales(means: np.ndarray, scale: float, typical: float) -> np.ndarray:
    """Returns `scale * |means|`, but no less than that of a tenth of a typical weight."""
    return scale * np.maximum(np.abs(means), _SMALLEST_WEIGHT * typical)


def typical_weight(weights: dict[str, np.ndarray], name: str, rows: int) -> float:
    """Returns the size of a typical weight among some.

    It is the root mean square of the weights; of a bias, whose values are often zero, at
    least that of the kernel; and, if all are zero, one over the root of the fan-in.

    Args:
        weights: All weights of a layer, by name.
        name: Which of them.
        rows: The fan-in.
    """
    sizes = [_root_mean_square(weights[name])]
    if name == "bias":
        sizes.append(_root_mean_square(weights["kernel"]))
    return max(sizes) or rows**-0.5


def check_posterior(name: str, posterior: Any) -> None:
    """Raises unless a posterior can start from trained weights.

    Args:
        name: Name of the argument.
        posterior: An instance.
    """
    if posterior.zero_mean:
        raise ValueError(
            f"Argument `{name}` must have means, to keep the trained weights; a variance "
            "layer has none and has to be trained from the start. Received: "
            f"{name}={posterior.alias!r}"
        )
    if _start_scales.dispatch(type(posterior)) is _start_scales.dispatch(object):
        known = ["mean_field", "k_tied", "gaussian_dropout"]
        raise ValueError(
            f"Argument `{name}` must be a posterior whose scales can start relative to "
            f"trained weights, one of {known}. Received: {name}={posterior.alias!r}"
        )


@functools.singledispatch
def _start_scales(
    posterior: Any, means: np.ndarray, scale: float, typical: float
) -> None:
    raise NotImplementedError


@_start_scales.register
def _(posterior: MeanField, means: np.ndarray, scale: float, typical: float) -> None:
    scales = relative_scales(means, scale, typical)
    posterior.log_variance_variable.assign(2.0 * np.log(scales))


@_start_scales.register
def _(posterior: KTied, means: np.ndarray, scale: float, typical: float) -> None:
    matrix = posterior.spec.to_matrix(relative_scales(means, scale, typical))
    variables = posterior.log_factors
    factors = nearest_factors(matrix, variables[0].shape[1])
    for variable, factor in zip(variables, factors, strict=True):
        variable.assign(np.log(factor))


@_start_scales.register
def _(
    posterior: GaussianDropout, means: np.ndarray, scale: float, typical: float
) -> None:
    if posterior.is_additive:
        scales = relative_scales(means, scale, typical)
        posterior.log_variance_variable.assign(2.0 * np.log(scales))
        return
    if not np.any(means):
        raise ValueError(
            "Gaussian dropout multiplies weights by noise, and weights that are all zero "
            "would stay without any; use `'mean_field'` for them. Received: "
            f"posterior='gaussian_dropout' for weights of shape {means.shape}, all zero"
        )
    log_alpha = np.clip(2.0 * np.log(scale), -LARGEST_LOG_ALPHA, LARGEST_LOG_ALPHA)
    variable = posterior.log_alpha_variable
    variable.assign(np.full(variable.shape, log_alpha))


def _root_mean_square(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(values, dtype="float64"))))
