"""The style that all plots share: colours, lines, and the axes that they are drawn on.

Plots never change matplotlib's global settings. A figure that a plot makes itself has the
settings below. Axes that the user passes keep the fonts, spines and sizes of the user's own
style. In both cases lines have the same colours and dashes, and the background and the text
have the user's colours, so that a dark style stays dark.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

Axes = Any

# These colours differ for colour-blind readers too, and have a contrast of at least 3 with
# white as well as with black.
PALETTE = ("#0077BB", "#D55E00", "#009E73", "#B5689B", "#8A6D3B")

# In grey print the dashes tell lines apart, and the shapes points.
DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
MARKERS = ("o", "^", "s", "D", "v", "P", "X", "<", "*", ">")

# Diagonals, limits and other lines that show no data.
REFERENCE = "#808080"

_SETTINGS = {
    "figure.figsize": (6.0, 3.8),
    "font.size": 10.0,
    "axes.labelsize": 10.0,
    "axes.titlesize": 10.0,
    "axes.linewidth": 0.8,
    "axes.grid": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.0,
    "xtick.labelsize": 9.0,
    "ytick.labelsize": 9.0,
    "legend.fontsize": 9.0,
    "legend.frameon": False,
}


@contextlib.contextmanager
def drawing(ax: Axes = None, **figure: Any) -> Iterator[Axes]:
    """Yields the axes to draw on: the user's, or new ones in the style of this library.

    Args:
        ax: The user's axes, or `None`.
        **figure: Arguments of `matplotlib.pyplot.subplots` for a new figure.
    """
    if ax is not None:
        yield ax
        return
    try:
        import matplotlib as mpl
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            'Plots need matplotlib; install it with `pip install "tfvn[plots]"`.'
        ) from error
    # Text and legends take their sizes from the settings at the time they are made, so the
    # settings hold until the plot is complete.
    with mpl.rc_context(_SETTINGS):
        _, ax = plt.subplots(layout="constrained", **figure)
        yield ax


def panels(ax: Any, count: int, name: str = "ax") -> Any:
    """Returns the user's axes for a plot of several panels, after a check of their number.

    Args:
        ax: A sequence of axes; for one panel also the axes themselves; or `None`.
        count: The number of panels.
        name: Name of the argument, for the error message.
    """
    if ax is None:
        return None
    axes = list(np.ravel(np.asarray(ax, dtype=object)))
    if len(axes) != count:
        raise ValueError(
            f"Argument `{name}` must have {count} matplotlib `Axes`, one for each panel. "
            f"Received: {name} with {len(axes)}"
        )
    return axes


def ink(ax: Axes) -> Any:
    """Returns the colour of text on these axes, which depends on the user's style."""
    return ax.xaxis.label.get_color()


def line_style(index: int) -> dict[str, Any]:
    """Returns the colour and the dashes of the line with this index.

    The first 25 lines of a plot all differ.
    """
    row, column = divmod(index, len(PALETTE))
    dashes = DASHES[(column + row) % len(DASHES)]
    return {"color": PALETTE[column], "linestyle": dashes}


def next_line_style(ax: Axes) -> dict[str, Any]:
    """Returns the style of the next line, so that a second plot on the same axes differs."""
    # Lines without a label of their own are parts of others.
    labelled = [line for line in ax.lines if not line.get_label().startswith("_")]
    return line_style(sum(line.get_color() in PALETTE for line in labelled))


def dot_style(index: int) -> dict[str, Any]:
    """Returns the colour and the shape of the points of the class with this index."""
    return {
        "color": PALETTE[index % len(PALETTE)],
        "marker": MARKERS[index % len(MARKERS)],
    }


def with_name(name: str | None, text: str) -> str:
    """Returns the label of a curve: the name that the user gave it, and a figure."""
    return text if name is None else f"{name}, {text}"


def diagonal(ax: Axes) -> None:
    """Draws, once, the line on which calibrated predictions are."""
    label = "calibrated"
    if all(line.get_label() != label for line in ax.lines):
        ax.plot([0, 1], [0, 1], color=REFERENCE, lw=1, linestyle="--", label=label)
