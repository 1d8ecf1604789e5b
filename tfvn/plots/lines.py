"""A plot of any curves in the style of this library."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tfvn.plots import style
from tfvn.plots.inputs import described, epochs_of
from tfvn.plots.room import place_legend
from tfvn.utils.validation import check_choice

Axes = Any

_SCALES = ("linear", "log", "symlog")


def curves(
    curves: Any,
    xlabel: str = "epoch",
    ylabel: str = "",
    xscale: str = "linear",
    yscale: str = "linear",
    ax: Axes = None,
) -> Axes:
    """Plots several curves by name, for instance one log of several runs.

    Args:
        curves: A dictionary from names to curves: an array of values, one for each epoch, or
            a pair `(x, y)` of arrays. Points that are not finite are left out.
        xlabel: Label of the x-axis.
        ylabel: Label of the y-axis.
        xscale: `"linear"`, `"log"` or `"symlog"`.
        yscale: The same for the y-axis.
        ax: The matplotlib `Axes` to draw on; `None` makes one.

    Returns:
        The `Axes`.

    Example:

    >>> import tfvn
    >>> runs = {"Adam": [0.9, 0.5, 0.4], "SGD": [1.1, 0.9, 0.8]}
    >>> ax = tfvn.plots.curves(runs, ylabel="loss")
    >>> ax.lines[1].get_xdata().tolist()
    [1, 2, 3]
    """
    check_choice("xscale", xscale, _SCALES)
    check_choice("yscale", yscale, _SCALES)
    if not isinstance(curves, Mapping) or not curves:
        raise ValueError(
            "Argument `curves` must be a dictionary with at least one curve. "
            f"Received: curves={described(curves)}"
        )
    points = {str(name): _points(name, curve) for name, curve in curves.items()}
    are_epochs = not any(_is_pair(curve) for curve in curves.values())
    with style.drawing(ax) as ax:
        for name, (x, y) in points.items():
            marker = "." if len(x) < 2 else ""
            ax.plot(x, y, label=name, marker=marker, **style.next_line_style(ax))
        ax.set(xlabel=xlabel, ylabel=ylabel, xscale=xscale, yscale=yscale)
        if are_epochs and xscale == "linear":
            from matplotlib.ticker import MaxNLocator

            ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        place_legend(ax)
    return ax


def _is_pair(curve: Any) -> bool:
    return isinstance(curve, tuple) and len(curve) == 2


def _points(name: Any, curve: Any) -> tuple[np.ndarray, np.ndarray]:
    """Returns the finite points of a curve."""
    is_pair = _is_pair(curve)
    try:
        y = np.asarray(curve[1] if is_pair else curve, "float64")
        x = np.asarray(curve[0], "float64") if is_pair else epochs_of(y)
    except (TypeError, ValueError):
        x = y = np.zeros(0)
    finite = np.isfinite(x) & np.isfinite(y) if x.shape == y.shape else None
    if y.ndim != 1 or finite is None or not finite.any():
        raise ValueError(
            "A curve must be an array of numbers, or a pair `(x, y)` of arrays of the same "
            f"length, with at least one finite point. Received: {described(curve)} as the "
            f"curve {name!r}"
        )
    return x[finite], y[finite]
