"""Figures inside of a page: drawn by matplotlib, and embedded as data."""

import base64
import io
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tfvn.analysis.spread import Spread

# Text and lines on a light and on a dark page.
INKS = {"light": "#33373d", "dark": "#d3d7de"}

# Colours that can be told apart on both.
_COLORS = ("#3f7fbf", "#e08a3c", "#4fa37c")

_DPI = 160

# What the horizontal axis of a layer's histogram says, by the measure.
_AXES = {
    "log alpha": "log alpha",
    "SNR": "|mean| / scale",
    "scale": "standard deviation",
}


class Figure(NamedTuple):
    """A figure of a page.

    Attributes:
        title: Its heading.
        alt: What it shows, for those who cannot see it.
        caption: What to read from it.
        draw: Draws it on a matplotlib `Axes`.
    """

    title: str
    alt: str
    caption: str
    draw: Callable[[Any], Any]


def require_matplotlib() -> None:
    """Raises an error that says how to install matplotlib, unless it is installed."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "A report needs matplotlib for its figures; install it with "
            '`pip install "tfvn[plots]"`.'
        ) from error


def render(figure: Figure, size: tuple[float, float] = (5.0, 3.4)) -> dict[str, str]:
    """Returns a figure as data URIs, for a light and for a dark page.

    Args:
        figure: The figure.
        size: Width and height, in inches.
    """
    from matplotlib import figure as mpl_figure
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    # Not by pyplot, which would keep the figure, and show it in a notebook.
    drawing = mpl_figure.Figure(size, dpi=_DPI, layout="constrained", facecolor="none")
    canvas = FigureCanvasAgg(drawing)
    ax = drawing.subplots()
    ax.set_prop_cycle(color=_COLORS)
    figure.draw(ax)
    ax.spines[["top", "right"]].set_visible(False)
    uris = {}
    for page, ink in INKS.items():
        _write_in(ax, ink)
        buffer = io.BytesIO()
        # `savefig` would draw everything twice.
        canvas.print_png(buffer)
        # The layout stays that of the first, and takes as long as the drawing.
        drawing.set_layout_engine("none")
        uris[page] = data_uri(buffer.getvalue())
    return uris


def histogram_of(name: str, spread: Spread) -> Figure:
    """Returns the histogram of how certain the weights of a kernel are.

    Args:
        name: The names of the layer and of the weight.
        spread: The values.
    """
    values = spread.values[np.isfinite(spread.values)]

    def draw(ax: Any) -> None:
        # One value, such as the log alpha of a layer, has a bin of its own.
        ax.hist(values, bins=40 if np.ptp(values) > 0 else 1, color=_COLORS[0])
        ax.set(xlabel=_AXES[spread.measure], ylabel="weights")
        ax.locator_params(nbins=4)
        ax.ticklabel_format(useOffset=False)

    zero = f"; {spread.sparsity:.1%} are exactly zero" if spread.sparsity else ""
    middle = np.median(values)
    return Figure(
        name,
        f"Histogram of {spread.measure} over the weights of {name}.",
        f"{spread.size:,} weights, median {spread.measure} {middle:.3g}{zero}.",
        draw,
    )


def picture(pixels: np.ndarray) -> str:
    """Returns an image as a data URI.

    Args:
        pixels: Numbers from 0 to 1, of shape `(height, width)` or with 3 or 4 colours on
            a last axis.
    """
    from matplotlib.image import imsave

    buffer = io.BytesIO()
    imsave(buffer, pixels, cmap="gray", vmin=0.0, vmax=1.0, format="png")
    return data_uri(buffer.getvalue())


def data_uri(png: bytes) -> str:
    """Returns a PNG file as an address that contains it."""
    return f"data:image/png;base64,{base64.b64encode(png).decode('ascii')}"


def _write_in(ax: Any, ink: str) -> None:
    """Gives the text and the lines around a plot a colour."""
    ax.set_facecolor("none")
    ax.tick_params(colors=ink)
    for spine in ax.spines.values():
        spine.set_color(ink)
    for text in (ax.xaxis.label, ax.yaxis.label, ax.title):
        text.set_color(ink)
    legend = ax.get_legend()
    if legend is not None:
        legend.get_frame().set_visible(False)
        for text in legend.get_texts():
            text.set_color(ink)
