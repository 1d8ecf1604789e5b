"""Room on the axes for what is not data: legends, and a strip for a second quantity."""

from collections.abc import Iterator
from typing import Any

from tfvn.plots.style import ink

Axes = Any
Box = Any

# Where a legend may stand, the usual places first.
_PLACES = (
    "upper right",
    "upper left",
    "lower right",
    "lower left",
    "center right",
    "center left",
    "upper center",
    "lower center",
    "center",
)

# The distance, in pixels, that a legend keeps from data.
_DISTANCE = 4.0

_STRIP = "tfvn strip"


def place_legend(ax: Axes, handles: Any = None, below: float = 0.0) -> None:
    """Adds a legend where it covers no data.

    If every place is taken, the y-axis grows until the legend fits above the data.

    Args:
        ax: The axes, on which everything else is drawn.
        handles: The artists to list; `None` lists all that have labels.
        below: The share of the height that a strip takes.
    """
    if handles is None:
        handles, _ = ax.get_legend_handles_labels()
    old = ax.get_legend()
    # The colour comes from the axes, because the global style may have changed since.
    options = {"frameon": False, "labelcolor": ink(ax)}
    if old is not None and old.get_texts():
        options["fontsize"] = old.get_texts()[0].get_size()
    legend = ax.legend(handles=handles, **options)
    root = ax.figure.canvas.figure
    if root.get_layout_engine() is not None:
        # Labels and ticks may have made the axes smaller.
        root.get_layout_engine().execute(root)
    for place in _PLACES:
        legend.set_loc(place)
        if not covers_data(ax, legend.get_window_extent()):
            return
    # Nothing is free. Two columns take less height, where the axes are wide enough.
    for columns in (2, 1):
        legend = ax.legend(handles=handles, ncols=columns, loc="upper left", **options)
        if legend.get_window_extent().width < ax.get_window_extent().width:
            break
    needed = legend.get_window_extent().height + 4 * _DISTANCE
    above = min(needed / ax.get_window_extent().height, 0.5)
    low, high = _on_linear_scale(ax)
    _fit(ax, low + below * (high - low), high, below, above)


def covers_data(ax: Axes, box: Box) -> bool:
    """Whether something is drawn on the axes within a box, given in pixels."""
    box = box.padded(_DISTANCE)
    return any(
        path.intersects_bbox(box, filled) or box.count_contains(path.vertices)
        for path, filled in _outlines(ax)
    ) or any(box.overlaps(other) for other in _boxes(ax))


def _outlines(ax: Axes) -> Iterator[tuple[Any, bool]]:
    """Yields what is drawn as paths in pixels, and whether they are filled."""
    from matplotlib.collections import PathCollection
    from matplotlib.path import Path

    for line in ax.lines:
        # `cleaned` takes a transform too, but ignores that an axis is logarithmic.
        path = line.get_path().transformed(line.get_transform())
        path = path.cleaned(remove_nans=True)
        if line.get_linestyle() in ("None", "none", " ", ""):
            # Points are not connected: each is a path.
            path.codes[path.codes == Path.LINETO] = Path.MOVETO
        yield _without_end(path), False
    for patch in ax.patches:
        yield patch.get_path().transformed(patch.get_transform()), True
    for collection in ax.collections:
        if isinstance(collection, PathCollection):
            points = collection.get_offset_transform().transform(
                collection.get_offsets()
            )
            yield Path(points, [Path.MOVETO] * len(points)), False
        else:
            for path in collection.get_paths():
                yield path.transformed(collection.get_transform()), True


def _without_end(path: Any) -> Any:
    """Returns a cleaned path without the vertex at (0, 0) that marks its end."""
    from matplotlib.path import Path

    drawn = path.codes != Path.STOP
    return Path(path.vertices[drawn], path.codes[drawn])


def _boxes(ax: Axes) -> Iterator[Box]:
    """Yields the boxes, in pixels, of texts and of axes within the axes."""
    for artist in (*ax.texts, *ax.child_axes):
        yield artist.get_window_extent()


def strip(ax: Axes, share: float, label: str, low: float, high: float) -> Axes:
    """Returns axes in the lowest part of others, with the same x-axis.

    It is the same strip for a second plot on the same axes.

    Args:
        ax: The axes. Their y-axis is given limits so that all data are above the strip.
        share: The share of the height that the strip takes.
        label: Label of the y-axis of the strip.
        low: The lowest value on the y-axis of `ax`.
        high: The highest value on the y-axis of `ax`.
    """
    _fit(ax, low, high, share, 0.0)
    margin = 1e-9 * (high - low)
    ticks = ax.get_yticks()
    ax.set_yticks(ticks[(ticks >= low - margin) & (ticks <= high + margin)])
    ax.yaxis.label.set_y(0.5 * (1.0 + share))
    for child in ax.child_axes:
        if child.get_label() == _STRIP:
            return child
    # It ends below the data, so that the eye separates the two.
    child = ax.inset_axes([0.0, 0.0, 1.0, 0.8 * share], sharex=ax, label=_STRIP)
    child.patch.set_visible(False)
    child.spines[["top", "right", "bottom"]].set_visible(False)
    child.spines["left"].set_color(ax.spines["left"].get_edgecolor())
    child.tick_params(axis="x", which="both", bottom=False, labelbottom=False)
    child.tick_params(axis="y", colors=ink(ax))
    child.set_ylabel(label, color=ink(ax))
    return child


def _on_linear_scale(ax: Axes) -> tuple[float, float]:
    """Returns the limits of the y-axis, as logarithms if the axis is logarithmic."""
    low, high = ax.yaxis.get_transform().transform(ax.get_ylim())
    return float(low), float(high)


def _fit(ax: Axes, low: float, high: float, below: float, above: float) -> None:
    """Gives the y-axis limits that leave shares of the height free.

    Args:
        ax: The axes.
        low: The lowest value to show, as `_on_linear_scale` returns it.
        high: The highest value to show.
        below: The share of the height that stays free below `low`.
        above: The share of the height that stays free above `high`.
    """
    whole = (high - low) / (1.0 - below - above)
    limits = [low - below * whole, high + above * whole]
    ax.set_ylim(ax.yaxis.get_transform().inverted().transform(limits))
