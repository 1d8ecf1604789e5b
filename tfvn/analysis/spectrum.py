"""The singular values of a layer's standard deviations and means."""

from typing import Any

import numpy as np

from tfvn.analysis.selection import single_layer
from tfvn.posteriors import Posterior


def explained_variance(layer: Any, weight: str = "kernel") -> dict[str, np.ndarray]:
    """Returns how much of a layer's scales and means each singular value explains.

    The singular values `s` are those of the kernel's standard deviations, and of its means,
    as matrices of rows and columns, not centred. The k-th number is
    `s[k]^2 / (s[0]^2 + s[1]^2 + ...)`: not cumulative, in falling order, with sum 1. If the
    first two numbers of the scales add up to almost 1, `tfvn.tie` with rank 2 changes them
    little.

    Any layer with random weights has standard deviations. Those of a Gaussian-dropout layer
    with `alpha="layer"` are multiples of its means without their signs.

    Args:
        layer: A layer with a random kernel, which has been built; or a recurrent layer, a
            head or a wrapper with one such layer or cell inside.
        weight: Name of the random weight: `"kernel"`, `"bias"` or, in a recurrent layer,
            `"recurrent_kernel"`.

    Returns:
        A dictionary with an array `"scale"` and an array `"mean"`, of a number for each
        singular value. A variance layer, whose means are zero, has no `"mean"`. If all
        means of another layer happen to be zero, the numbers are NaN.

    Example:

    >>> import tfvn
    >>> layer = tfvn.KTiedDense(3, rank=1)
    >>> layer.build((None, 5))
    >>> print(tfvn.explained_variance(layer)["scale"].round(3))
    [1. 0. 0.]

    Reference:

    - [Swiatkowski et al., 2020](https://arxiv.org/abs/2002.02655), figure 1 and footnote 1
    """
    inside = single_layer(layer)
    inside.posterior_distribution(weight)  # raises for an unknown or missing weight
    posterior = inside.posteriors[weight]
    explained = {"scale": _explained(scale_matrix(posterior))}
    if not posterior.zero_mean:
        means = np.asarray(posterior.mean(), "float64")
        explained["mean"] = _explained(posterior.spec.to_matrix(means))
    return explained


def scale_matrix(posterior: Posterior) -> np.ndarray:
    """Returns the standard deviations of a kernel as a matrix, in float64."""
    scales = np.asarray(posterior.distribution().stddev(), "float64")
    return posterior.spec.to_matrix(scales)


def _explained(matrix: np.ndarray) -> np.ndarray:
    squares = np.linalg.svd(matrix, compute_uv=False) ** 2
    total = squares.sum()
    return squares / total if total > 0 else np.full_like(squares, np.nan)
