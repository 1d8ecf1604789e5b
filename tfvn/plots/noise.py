"""A plot of distributions of multiplicative noise, and of the priors that they imply."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow_probability import distributions as tfd

from tfvn.distributions import marginal_prior, noise_law
from tfvn.plots import style
from tfvn.plots.room import place_legend
from tfvn.utils.validation import check_choice, check_number

Axes = Any

_NOISES = ("bernoulli", "gaussian", "rayleigh", "inverse_nakagami", "half_cauchy")

# The labels of the axes of each panel.
_PANELS = {
    "noise": ("noise ξ", "density"),
    "variance": ("variance ξ²", "density"),
    "prior": ("weight", "density"),
}

# An even number, so that no point of a symmetric grid is zero, where densities have poles.
_POINTS = 600


class Curve(NamedTuple):
    """A density, and the values that have a positive probability."""

    x: np.ndarray
    density: np.ndarray
    atoms: dict[float, float]


def noise_variances(
    noises: Any = _NOISES,
    scale: float = 1.0,
    show: Sequence[str] = ("noise", "variance", "prior"),
    limit: float = 3.0,
    ax: Any = None,
) -> Any:
    """Plots distributions of multiplicative noise and the priors that they imply.

    One panel shows the density of the noise `xi`, one that of `xi^2`, by which the noise
    multiplies the variance of a weight, and one that of the weight, `xi N(0, scale^2)`, on a
    logarithmic axis. Values with a positive probability are drawn as points, whose height is
    that probability.

    Args:
        noises: Aliases or distributions, as in `tfvn.distributions.noise_law`, or a
            dictionary from labels to these.
        scale: Standard deviation of the Normal factor of a weight.
        show: The panels: `"noise"`, `"variance"` and `"prior"`, or some of them.
        limit: The largest noise that is shown.
        ax: One matplotlib `Axes` for each panel; `None` makes them.

    Returns:
        An array with the `Axes` of each panel.

    Example:

    >>> import tfvn
    >>> noise, prior = tfvn.plots.noise_variances(["rayleigh"], show=["noise", "prior"])
    >>> prior.get_title()
    'prior'

    Reference:

    - [Nalisnick and Smyth, 2018](https://arxiv.org/abs/1810.04045), table 1
    """
    show = [check_choice("show", panel, _PANELS) for panel in show]
    limit = check_number("limit", limit, above=0)
    if isinstance(noises, str | tfd.Distribution):
        noises = [noises]
    if not isinstance(noises, Mapping):
        noises = {_label(noise): noise for noise in noises}
    laws = {label: noise_law(noise) for label, noise in noises.items()}
    if not laws or not show:
        raise ValueError(
            "Arguments `noises` and `show` must name at least one noise and one panel. "
            f"Received: {len(laws)} noises and {len(show)} panels"
        )
    options: dict[str, Any] = {"ncols": len(show), "squeeze": False}
    options["figsize"] = (0.8 + 3.2 * len(show), 3.4)
    with style.drawing(style.panels(ax, len(show)), **options) as axes:
        axes = np.ravel(axes)
        for panel, kind in zip(axes, show, strict=True):
            curves = {
                label: _curve(kind, law, scale, limit) for label, law in laws.items()
            }
            _draw(panel, kind, curves)
        # Where densities fall to zero there is room for a legend.
        place_legend(axes[show.index("variance") if "variance" in show else -1])
    return axes


def _label(noise: Any) -> str:
    name = noise if isinstance(noise, str) else noise.name
    return name.replace("_", " ")


def _curve(kind: str, law: tfd.Distribution, scale: float, limit: float) -> Curve:
    """Returns what a panel shows of one noise."""
    atoms = {}
    if isinstance(law, tfd.Bernoulli):
        keep = float(law.probs_parameter())
        atoms = {0.0: 1.0 - keep, 1.0: keep}
    if kind == "prior":
        x = np.linspace(-limit * scale, limit * scale, _POINTS)
        atoms = {0.0: atoms[0.0]} if atoms else {}
        return Curve(x, _density(marginal_prior(law, scale), x), atoms)
    if kind == "noise":
        x = np.linspace(-limit, limit, _POINTS)
        density = np.zeros(0) if atoms else _density(law, x)
        return Curve(x[: len(density)], density, atoms)
    x = limit**2 * np.linspace(0.0, 1.0, _POINTS + 1)[1:]
    if atoms:
        return Curve(x[:0], x[:0], atoms)
    # The density of the square of the noise, by a change of variables.
    root = np.sqrt(x)
    density = (_density(law, root) + _density(law, -root)) / (2.0 * root)
    return Curve(x, density, atoms)


def _density(law: tfd.Distribution, x: np.ndarray) -> np.ndarray:
    density = np.exp(np.asarray(law.log_prob(tf.constant(x, law.dtype)), "float64"))
    # Outside of their support some distributions of TFP return NaN.
    return np.nan_to_num(density, nan=0.0)


def _draw(ax: Axes, kind: str, curves: Mapping[str, Curve]) -> None:
    for index, (label, curve) in enumerate(curves.items()):
        look = style.line_style(index)
        ax.plot(curve.x, curve.density, label=label, **look)
        for value, probability in curve.atoms.items():
            ax.plot(
                [value, value], [0.0, probability], marker="o", markevery=[1], **look
            )
    across, up = _PANELS[kind]
    ax.set(xlabel=across, ylabel=up, title=kind)
    shown = [curve for curve in curves.values() if len(curve.x)]
    if kind == "prior":
        ax.set_yscale("log", nonpositive="clip")
        ax.set_ylim(0.5 * min(curve.density.min() for curve in shown), None)
        return
    tops = [1.0, *(_top(curve) for curve in shown)]
    ax.set_ylim(0.0, 1.1 * max(tops))
    if kind == "noise":
        start = min([0.0, *(_start(curve) for curve in shown)])
        ax.set_xlim(start - 0.1, None)


def _top(curve: Curve) -> float:
    """Returns the largest density, leaving out a pole at zero."""
    return float(curve.density[np.abs(curve.x) > 0.02 * curve.x.max()].max())


def _start(curve: Curve) -> float:
    """Returns where a noise begins: half a percent is below."""
    below = np.cumsum(curve.density) * (curve.x[1] - curve.x[0])
    return float(curve.x[np.argmax(below >= 0.005)]) if below[-1] >= 0.005 else 0.0
