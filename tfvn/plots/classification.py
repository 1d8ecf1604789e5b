"""Plots of a classifier's probabilities, errors and entropies."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tfvn.plots import style
from tfvn.plots.inputs import numbers
from tfvn.plots.room import place_legend, strip
from tfvn.utils.validation import check_count, check_number

Axes = Any

# The share of a reliability diagram's height that the numbers of examples take.
_STRIP = 0.22


def reliability_diagram(
    y_true: Any,
    y_pred: Any,
    num_bins: int = 15,
    ax: Axes = None,
    name: str | None = None,
    min_count: int = 10,
) -> Axes:
    """Plots accuracy against confidence: a calibrated classifier is on the diagonal.

    Each point is a bin of confidences. The accuracy of a few examples means little, so the
    line connects only bins with at least `min_count` examples, and the points of all other
    bins are faint circles. A strip below shows the number of examples in each bin, on a logarithmic
    axis because most examples are often in the last bin.

    Args:
        y_true: Integer labels.
        y_pred: Probabilities `(num_examples, num_classes)`, or `(num_examples, 1)` of
            the second of two classes.
        num_bins: Number of bins of equal width.
        ax: The matplotlib `Axes` to draw on; `None` makes one. A second diagram on the same
            axes has the next colour.
        name: Name of the classifier in the legend.
        min_count: Number of examples from which on a bin is connected.

    Returns:
        The `Axes`.

    Example:

    >>> import tfvn
    >>> ax = tfvn.plots.reliability_diagram([0, 1], [[0.9, 0.1], [0.6, 0.4]])
    >>> ax.get_xlabel()
    'confidence'

    Reference:

    - [Guo et al., 2017](https://arxiv.org/abs/1706.04599), figure 1
    """
    num_bins = check_count("num_bins", num_bins)
    min_count = check_count("min_count", min_count)
    labels, probabilities = _checked(y_true, y_pred)
    confidence = probabilities.max(axis=1)
    right = probabilities.argmax(axis=1) == labels
    bins = np.clip(np.ceil(confidence * num_bins).astype(int) - 1, 0, num_bins - 1)
    counts = np.bincount(bins, minlength=num_bins)
    known = counts > 0
    accuracy = np.bincount(bins, right, num_bins)[known] / counts[known]
    mean = np.bincount(bins, confidence, num_bins)[known] / counts[known]
    error = np.sum(counts[known] * np.abs(accuracy - mean)) / len(labels)
    is_sure = counts[known] >= min_count
    with style.drawing(ax) as ax:
        style.diagonal(ax)
        look = style.next_line_style(ax)
        label = style.with_name(name, f"calibration error {error:.3f}")
        ax.plot(mean[is_sure], accuracy[is_sure], label=label, **look)
        _draw_points(ax, mean[is_sure], accuracy[is_sure], look["color"], "full")
        _draw_points(ax, mean[~is_sure], accuracy[~is_sure], look["color"], "none")
        ax.set(xlabel="confidence", ylabel="accuracy", xlim=(0, 1))
        below = strip(ax, _STRIP, "count", 0.0, 1.0)
        _draw_counts(below, counts, look)
        place_legend(ax, below=_STRIP)
    return ax


def _draw_points(
    ax: Axes, x: np.ndarray, y: np.ndarray, color: str, fillstyle: str
) -> None:
    """Draws the points of bins, faint ones if they are not filled."""
    if not len(x):
        # Matplotlib takes points that are not there, and not clipped, for one in a corner
        # of the figure, and leaves room for it.
        return
    alpha = 1.0 if fillstyle == "full" else 0.7
    marker = {"marker": "o", "fillstyle": fillstyle, "markersize": 4}
    ax.plot(x, y, ls="", color=color, alpha=alpha, clip_on=False, zorder=3, **marker)


def _draw_counts(below: Axes, counts: np.ndarray, look: dict[str, Any]) -> None:
    """Draws the number of examples in each bin, over those of other classifiers."""
    edges = np.linspace(0.0, 1.0, len(counts) + 1)
    below.set_yscale("log")
    color = look["color"]
    below.stairs(counts, edges, baseline=0.5, fill=True, alpha=0.3, color=color)
    below.stairs(counts, edges, baseline=0.5, lw=1, **look)
    largest = max(patch.get_data().values.max() for patch in below.patches)
    powers = 10.0 ** np.arange(np.ceil(np.log10(max(largest, 10))) + 1)
    below.set(ylim=(0.5, 1.5 * largest), yticks=powers[powers <= max(largest, 1)][::2])
    below.minorticks_off()


def entropy_histograms(
    entropies: Mapping[str, Any], num_bins: int = 30, ax: Axes = None
) -> Axes:
    """Plots histograms of a classifier's entropies on several data sets, with common bins.

    The height of a bar is the share of the data set's examples in the bin. The axis of the
    shares is logarithmic: on most data that a classifier was trained for, nearly all
    entropies are in the first bin, and with a linear axis that bar would hide the others.

    Args:
        entropies: A dictionary from names of data sets to entropies in nats.
        num_bins: Number of bins.
        ax: The matplotlib `Axes` to draw on; `None` makes one.

    Returns:
        The `Axes`.

    Example:

    >>> import tfvn
    >>> ax = tfvn.plots.entropy_histograms({"digits": [0.1, 0.2], "clothes": [1.5]})
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['digits', 'clothes']

    Reference:

    - [Lakshminarayanan et al., 2017](https://arxiv.org/abs/1612.01474), figure 3
    """
    num_bins = check_count("num_bins", num_bins)
    values = {name: np.ravel(value) for name, value in entropies.items()}
    if not values or any(len(value) == 0 for value in values.values()):
        raise ValueError(
            "Argument `entropies` must have entropies for each name. "
            f"Received: entropies={ {n: len(v) for n, v in values.items()} }"
        )
    values = {name: numbers("entropies", value) for name, value in values.items()}
    largest = max(float(value.max()) for value in values.values())
    edges = np.linspace(0.0, largest if largest > 0 else 1.0, num_bins + 1)
    # Rounding can make an entropy of zero slightly negative.
    shares = {
        name: np.histogram(np.maximum(value, 0.0), edges)[0] / len(value)
        for name, value in values.items()
    }
    # Half of one example: an empty bin shows no bar.
    floor = 0.5 / max(len(value) for value in values.values())
    with style.drawing(ax) as ax:
        handles = []
        for index, (name, share) in enumerate(shares.items()):
            look = style.line_style(index)
            color = look["color"]
            ax.stairs(share, edges, baseline=floor, fill=True, color=color, alpha=0.25)
            outline = ax.stairs(
                share, edges, baseline=floor, label=name, lw=1.4, **look
            )
            handles.append(outline)
        ax.set_yscale("log", nonpositive="clip")
        ax.set(xlabel="entropy, nats", ylabel="share of examples")
        ax.set(xlim=(edges[0], edges[-1]), ylim=(floor, 1.5))
        place_legend(ax, handles)
    return ax


def risk_coverage(
    y_true: Any,
    y_pred: Any,
    scores: Any = None,
    ax: Axes = None,
    name: str | None = None,
) -> Axes:
    """Plots the error rate among the examples of which a classifier is most certain.

    Args:
        y_true: Integer labels.
        y_pred: Probabilities `(num_examples, num_classes)`, or `(num_examples, 1)` of
            the second of two classes.
        scores: How uncertain the classifier is of each example, for instance an entropy.
            Defaults to 1 minus the largest probability.
        ax: The matplotlib `Axes` to draw on; `None` makes one. A second curve on the same
            axes has the next colour.
        name: Name of the classifier in the legend.

    Returns:
        The `Axes`.

    Example:

    >>> import tfvn
    >>> ax = tfvn.plots.risk_coverage([0, 1], [[0.9, 0.1], [0.6, 0.4]])
    >>> ax.lines[0].get_ydata().tolist()
    [0.0, 0.5]

    Reference:

    - [Geifman and El-Yaniv, 2017](https://arxiv.org/abs/1705.08500), figure 1
    """
    labels, probabilities = _checked(y_true, y_pred)
    if scores is None:
        scores = 1.0 - probabilities.max(axis=1)
    scores = np.ravel(scores)
    if len(scores) != len(labels):
        raise ValueError(
            "Argument `scores` must have one number for each example. "
            f"Received: {len(scores)} scores for {len(labels)} examples"
        )
    order = np.argsort(scores, kind="stable")
    wrong = (probabilities.argmax(axis=1) != labels)[order]
    answered = np.arange(1, len(labels) + 1)
    risk = np.cumsum(wrong) / answered
    with style.drawing(ax) as ax:
        label = style.with_name(name, f"area {risk.mean():.4f}")
        look = style.next_line_style(ax)
        ax.plot(answered / len(labels), risk, label=label, **look)
        ax.set(xlabel="coverage", ylabel="risk", xlim=(0, 1))
        place_legend(ax)
    return ax


def one_draw_accuracies(
    accuracies: Any,
    ensemble: float | None = None,
    mean_weights: float | None = None,
    num_bins: int = 20,
    ax: Axes = None,
) -> Axes:
    """Plots a histogram of the accuracies that single draws of the weights have.

    Lines mark the accuracy of the ensemble of all draws and that of the mean weights. A
    line that would be far from the histogram, as the mean weights of a variance network
    are, is not drawn: an arrow with its value points there.

    Args:
        accuracies: The accuracy of each draw, from 0 to 1. For
            `answer = tfvn.ensemble_predict(model, x, return_samples=True)` these are
            `(answer.samples.argmax(-1) == y[:, None]).mean(axis=0)`.
        ensemble: Accuracy of the ensemble.
        mean_weights: Accuracy of the mean weights (`tfvn.mean_predict`).
        num_bins: Number of bins.
        ax: The matplotlib `Axes` to draw on; `None` makes one.

    Returns:
        The `Axes`.

    Example:

    >>> import tfvn
    >>> ax = tfvn.plots.one_draw_accuracies([0.97, 0.98, 0.98], ensemble=0.99)
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['single draws', 'ensemble 0.9900']

    Reference:

    - [Neklyudov et al., 2019](https://arxiv.org/abs/1803.03764), figure 4
    """
    num_bins = check_count("num_bins", num_bins)
    values = numbers("accuracies", accuracies)
    if values.min() < 0 or values.max() > 1:
        raise ValueError(
            "Argument `accuracies` must have values from 0 to 1. "
            f"Received: accuracies from {values.min():g} to {values.max():g}"
        )
    marks = {
        "ensemble": check_number("ensemble", ensemble, least=0, most=1, or_none=True),
        "mean weights": check_number(
            "mean_weights", mean_weights, least=0, most=1, or_none=True
        ),
    }
    low, high = float(values.min()), float(values.max())
    width = max(high - low, 1e-3)
    given = {name: mark for name, mark in marks.items() if mark is not None}
    near = {n: m for n, m in given.items() if low - 3 * width <= m <= high + 3 * width}
    with style.drawing(ax) as ax:
        look = style.line_style(0)
        counts, edges = np.histogram(values, num_bins)
        ax.stairs(counts, edges, fill=True, alpha=0.3, color=look["color"])
        handles = [ax.stairs(counts, edges, label="single draws", lw=1.2, **look)]
        # Not `axvline`, which would leave no room for a legend above.
        top = 1.08 * counts.max()
        for index, (name, mark) in enumerate(near.items(), start=1):
            label, look = f"{name} {mark:.4f}", style.line_style(index)
            handles += ax.plot([mark, mark], [0.0, top], label=label, **look)
        shown = [low, high, *near.values()]
        margin = 0.08 * max(max(shown) - min(shown), 1e-3)
        ax.set(xlim=(min(shown) - margin, max(shown) + margin), ylim=(0.0, top))
        ax.set(xlabel="accuracy", ylabel="draws")
        ax.locator_params(axis="x", nbins=5)
        for name, mark in given.items():
            if name not in near:
                ax.set_ylim(0.0, 1.25 * counts.max())
                _point_to(ax, mark < low, 1.16 * counts.max(), f"{name} {mark:.4f}")
        place_legend(ax, handles)
    return ax


def _point_to(ax: Axes, is_left: bool, height: float, text: str) -> None:
    """Draws an arrow to a value outside of the x-axis."""
    end, start = (0.01, 0.12) if is_left else (0.99, 0.88)
    ax.annotate(
        text,
        xy=(end, height),
        xytext=(start, height),
        xycoords=("axes fraction", "data"),
        textcoords=("axes fraction", "data"),
        color=style.ink(ax),
        ha="left" if is_left else "right",
        va="center",
        arrowprops={"arrowstyle": "->", "color": style.ink(ax)},
    )


def _checked(y_true: Any, y_pred: Any) -> tuple[np.ndarray, np.ndarray]:
    labels, probabilities = np.ravel(y_true), np.asarray(y_pred)
    if probabilities.ndim != 2 or len(probabilities) != len(labels) or not len(labels):
        raise ValueError(
            "There must be at least one row of probabilities, and one integer label for "
            f"each row. Received: y_true of shape {np.shape(y_true)} and y_pred of shape "
            f"{probabilities.shape}"
        )
    if probabilities.shape[1] == 1:
        # A single column is the probability of the second of two classes.
        probabilities = np.concatenate([1.0 - probabilities, probabilities], axis=1)
    return labels, probabilities
