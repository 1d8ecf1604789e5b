"""A plot of the KL between a weight with Gaussian dropout and several priors."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow_probability import distributions as tfd

from tfvn import kl
from tfvn.distributions import ARD, DiminishingStudentT, MultiplicativeNormal
from tfvn.plots import style
from tfvn.plots.inputs import numbers
from tfvn.plots.room import place_legend
from tfvn.utils.validation import check_choice, check_number

Axes = Any

# The labels of the priors whose KL depends on alpha alone.
_PRIORS = {
    "log_uniform": "log-uniform, exact",
    "molchanov": "log-uniform, Molchanov",
    "ard": "ARD",
    "student_t": "Student-t, df = 1e-16",
}

# Normal deviates beyond this value have no weight in the quadrature.
_END = 10.0


def kl_of_priors(
    priors: Any = tuple(_PRIORS),
    log_alpha: Any = None,
    mean: float = 1.0,
    ax: Axes = None,
) -> Axes:
    """Plots the KL from Gaussian dropout, `N(mean, alpha mean^2)`, to priors against alpha.

    It falls with alpha for the log-uniform prior, for ARD, and for a Student-t prior of next
    to no degrees of freedom. This is why alpha grows without limit where the data allow it.
    The first and the last of these leave out a constant, chosen so that they end at 0. Any
    other prior has its whole KL, in closed form where TFP knows one and else by quadrature.

    Args:
        priors: Aliases among `"log_uniform"` (exact), `"molchanov"` (an approximation of the
            former), `"ard"` and `"student_t"`; or a dictionary from labels to aliases and
            scalar `tfd.Distribution`s.
        log_alpha: Where to evaluate the KL; defaults to values from -8 to 8.
        mean: Mean of the weight, for priors whose KL depends on it.
        ax: The matplotlib `Axes` to draw on; `None` makes one.

    Returns:
        The `Axes`.

    Example:

    >>> import tfvn
    >>> ax = tfvn.plots.kl_of_priors(["ard"], log_alpha=[0.0, 100.0])
    >>> ax.lines[0].get_ydata().round(4).tolist()
    [0.3466, 0.0]

    Reference:

    - [Neklyudov et al., 2019](https://arxiv.org/abs/1803.03764), figure 2
    - [Molchanov et al., 2017](https://arxiv.org/abs/1701.05369), figure 1
    """
    where = np.linspace(-8.0, 8.0, 161) if log_alpha is None else log_alpha
    where = numbers("log_alpha", where)
    mean = check_number("mean", mean)
    if mean == 0:
        raise ValueError(
            "Argument `mean` must not be zero, because alpha compares the variance with "
            "the squared mean. Received: mean=0"
        )
    if not isinstance(priors, Mapping):
        priors = {_PRIORS[_alias(prior)]: prior for prior in priors}
    curves = {label: _kl(prior, where, mean) for label, prior in priors.items()}
    with style.drawing(ax) as ax:
        for label, values in curves.items():
            ax.plot(where, values, label=label, **style.next_line_style(ax))
        ax.set(xlabel="log alpha", ylabel="KL, nats per weight")
        place_legend(ax)
    return ax


def _alias(prior: Any) -> str:
    return check_choice("priors", prior, _PRIORS)


def _kl(prior: Any, log_alpha: np.ndarray, mean: float) -> np.ndarray:
    """Returns the KL to a prior for each log alpha."""
    if prior == "log_uniform":
        scale = abs(mean) * np.exp(0.5 * log_alpha)
        return np.asarray(kl.log_uniform_exact(np.full_like(scale, mean), scale))
    if prior == "molchanov":
        return np.asarray(kl.log_uniform_molchanov(log_alpha))
    if prior == "student_t":
        law = DiminishingStudentT(dtype=tf.float64)
        shift = _quadrature(tfd.Normal(np.float64(0.0), [1.0]), law)
        return _quadrature(_posterior(mean, log_alpha, law), law) - shift
    law = ARD(dtype=tf.float64) if prior == "ard" else prior
    if not isinstance(law, tfd.Distribution):
        raise ValueError(
            f"Argument `priors` must have aliases of {list(_PRIORS)}, or in a dictionary "
            f"also scalar distributions. Received: {prior!r}"
        )
    posterior = _posterior(mean, log_alpha, law)
    try:
        return np.asarray(tfd.kl_divergence(posterior, law))
    except NotImplementedError:
        return _quadrature(posterior, law)


def _posterior(
    mean: float, log_alpha: np.ndarray, law: tfd.Distribution
) -> MultiplicativeNormal:
    dtype = law.dtype.as_numpy_dtype
    return MultiplicativeNormal(
        np.full(log_alpha.shape, mean, dtype), log_alpha.astype(dtype)
    )


def _quadrature(posterior: tfd.Normal, prior: tfd.Distribution) -> np.ndarray:
    """Returns the KL of Normals to a prior whose density may have a pole at zero."""
    nodes, weights = np.polynomial.legendre.leggauss(200)
    nodes, weights = (nodes[:, None] + 1.0) / 2.0, weights[:, None] / 2.0
    # The deviate at which a weight is zero. The nodes on both sides of it crowd there.
    loc, scale = np.asarray(posterior.loc), np.asarray(posterior.scale)
    pole = np.clip(-loc / scale, -_END, _END)
    total = np.zeros(np.broadcast_shapes(loc.shape, scale.shape))
    for end in (-_END, _END):
        deviates = pole + (end - pole) * nodes**3
        drawn = tf.constant(loc + scale * deviates, prior.dtype)
        ratios = np.asarray(kl.monte_carlo(posterior, prior, drawn))
        density = np.exp(-0.5 * deviates**2) / np.sqrt(2.0 * np.pi)
        lengths = np.abs(end - pole) * 3.0 * nodes**2 * weights
        total = total + np.sum(lengths * density * ratios, axis=0)
    return total
