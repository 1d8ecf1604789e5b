"""Plots of predicted distributions of numbers."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tfvn.plots import style
from tfvn.plots.room import place_legend
from tfvn.utils.validation import check_count, check_number

Axes = Any

# The opacity of a band.
_SHADE = 0.25


def regression_band(
    x: Any,
    answer: Any,
    y: Any = None,
    ax: Axes = None,
    levels: Sequence[float] = (0.5, 0.9),
) -> Axes:
    """Plots the predicted mean and intervals of the target against an input.

    Args:
        x: One number for each row: an input, or the time.
        answer: A `tfvn.PredictiveDistribution` with one target.
        y: Targets, drawn as points if given.
        ax: The matplotlib `Axes` to draw on; `None` makes one.
        levels: The probabilities of the intervals, drawn as bands.

    Returns:
        The `Axes`.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> answer = tfvn.PredictiveDistribution.of_draws("normal", np.zeros((3, 5, 2)))
    >>> ax = tfvn.plots.regression_band([0.0, 1.0, 2.0], answer, y=[0.1, -0.2, 0.3])
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['90 %', '50 %', 'mean', 'targets']

    Reference:

    - [Lakshminarayanan et al., 2017](https://arxiv.org/abs/1612.01474), figure 1
    """
    x, mean = np.ravel(x), np.asarray(answer.mean)
    if mean.size != len(x) or not len(x):
        raise ValueError(
            "Argument `x` must have one number for each row, and the prediction a single "
            f"target. Received: x of {len(x)} numbers, a mean of shape {mean.shape}"
        )
    if y is not None and np.size(y) != len(x):
        raise ValueError(
            "Argument `y` must have one target for each row. "
            f"Received: y of shape {np.shape(y)} for {len(x)} rows"
        )
    levels = [check_number("levels", level, above=0, below=1) for level in levels]
    order = np.argsort(x, kind="stable")
    with style.drawing(ax) as ax:
        from matplotlib.patches import Patch

        look = style.next_line_style(ax)
        (line,) = ax.plot(x[order], np.ravel(mean)[order], label="mean", **look)
        handles: list[Any] = []
        looks: dict[str, Any] = {"color": look["color"], "lw": 0}
        # The widest band comes first, and the others lie upon it, which makes them darker.
        for number, level in enumerate(sorted(levels, reverse=True), start=1):
            lower, upper = (np.ravel(bound)[order] for bound in answer.interval(level))
            looks["label"] = f"{100 * level:g} %"
            ax.fill_between(x[order], lower, upper, alpha=_SHADE, zorder=1, **looks)
            handles.append(Patch(alpha=1 - (1 - _SHADE) ** number, **looks))
        handles.append(line)
        if y is not None:
            handles += ax.plot(
                x,
                np.ravel(y),
                ".",
                color=style.ink(ax),
                alpha=0.6,
                markersize=3,
                label="targets",
                zorder=3,
            )
        ax.set(xlabel="input", ylabel="target")
        place_legend(ax, handles)
    return ax


def coverage(
    answer: Any,
    y: Any,
    ax: Axes = None,
    num_levels: int = 19,
    name: str | None = None,
) -> Axes:
    """Plots the share of targets within intervals against the intervals' probabilities.

    A calibrated prediction is on the diagonal. Below it, intervals are too narrow.

    Args:
        answer: A `tfvn.PredictiveDistribution`.
        y: Targets.
        ax: The matplotlib `Axes` to draw on; `None` makes one. A second curve on the same
            axes has the next colour.
        num_levels: Number of probabilities.
        name: Name of the model in the legend.

    Returns:
        The `Axes`.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> answer = tfvn.PredictiveDistribution.of_draws("normal", np.zeros((2, 5, 2)))
    >>> ax = tfvn.plots.coverage(answer, [0.0, 9.0], num_levels=1)
    >>> ax.lines[1].get_ydata().tolist()
    [0.5]

    Reference:

    - [Kuleshov et al., 2018](https://arxiv.org/abs/1807.00263), figure 1
    """
    num_levels = check_count("num_levels", num_levels)
    levels = np.arange(1, num_levels + 1) / (num_levels + 1)
    targets = answer.align(y)
    bounds = [answer.interval(level) for level in levels]
    covered = [np.mean((low <= targets) & (targets <= up)) for low, up in bounds]
    error = np.mean(np.abs(covered - levels))
    with style.drawing(ax) as ax:
        style.diagonal(ax)
        look = style.next_line_style(ax)
        label = style.with_name(name, f"average error {error:.3f}")
        ax.plot(levels, covered, marker=".", label=label, **look)
        ax.set(
            xlabel="probability of the interval",
            ylabel="share of targets within",
            xlim=(0, 1),
            ylim=(0, 1),
        )
        place_legend(ax)
    return ax
