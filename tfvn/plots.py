"""Plots of uncertainty. They need matplotlib: `pip install "tfvn[plots]"`."""

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = [
    "coverage",
    "entropy_histograms",
    "regression_band",
    "reliability_diagram",
    "risk_coverage",
]


def reliability_diagram(
    y_true: Any, y_pred: Any, num_bins: int = 15, ax: Any = None
) -> Any:
    """Plots accuracy against confidence: a calibrated classifier is on the diagonal.

    Args:
        y_true: Integer labels.
        y_pred: Probabilities `(num_examples, num_classes)`, or `(num_examples, 1)` of
            the second of two classes.
        num_bins: Number of bins of equal width.
        ax: The matplotlib `Axes` to draw on; `None` makes one.

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
    labels, probabilities = _checked(y_true, y_pred)
    confidence = probabilities.max(axis=1)
    right = probabilities.argmax(axis=1) == labels
    bins = np.clip(np.ceil(confidence * num_bins).astype(int) - 1, 0, num_bins - 1)
    counts = np.bincount(bins, minlength=num_bins)
    known = counts > 0
    accuracy = np.bincount(bins, right, num_bins)[known] / counts[known]
    mean = np.bincount(bins, confidence, num_bins)[known] / counts[known]
    error = np.sum(counts[known] * np.abs(accuracy - mean)) / len(labels)
    ax = _axes(ax)
    ax.plot([0, 1], [0, 1], color="0.6", linestyle="--", label="calibrated")
    # The area of a point shows the share of examples in its bin.
    ax.scatter(mean, accuracy, s=20 + 200 * counts[known] / len(labels), zorder=2)
    ax.plot(mean, accuracy, label=f"calibration error {error:.3f}")
    ax.set(xlabel="confidence", ylabel="accuracy", xlim=(0, 1), ylim=(0, 1))
    ax.legend()
    return ax


def entropy_histograms(
    entropies: dict[str, Any], num_bins: int = 30, ax: Any = None
) -> Any:
    """Plots histograms of a classifier's entropies on several data sets, with common bins.

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
    """
    values = {name: np.ravel(value) for name, value in entropies.items()}
    if not values or any(len(value) == 0 for value in values.values()):
        raise ValueError(
            "Argument `entropies` must have entropies for each name. "
            f"Received: entropies={ {n: len(v) for n, v in values.items()} }"
        )
    largest = max(float(value.max()) for value in values.values())
    edges = np.linspace(0.0, largest or 1.0, num_bins + 1)
    ax = _axes(ax)
    for name, value in values.items():
        ax.hist(value, bins=edges, density=True, alpha=0.6, label=name)
    ax.set(xlabel="entropy, nats", ylabel="density")
    ax.legend()
    return ax


def risk_coverage(y_true: Any, y_pred: Any, scores: Any = None, ax: Any = None) -> Any:
    """Plots the error rate among the examples of which a classifier is most certain.

    Args:
        y_true: Integer labels.
        y_pred: Probabilities `(num_examples, num_classes)`, or `(num_examples, 1)` of
            the second of two classes.
        scores: How uncertain the classifier is of each example, for instance an entropy.
            Defaults to 1 minus the largest probability.
        ax: The matplotlib `Axes` to draw on; `None` makes one.

    Returns:
        The `Axes`.

    Example:

    >>> import tfvn
    >>> ax = tfvn.plots.risk_coverage([0, 1], [[0.9, 0.1], [0.6, 0.4]])
    >>> ax.lines[0].get_ydata().tolist()
    [0.0, 0.5]
    """
    labels, probabilities = _checked(y_true, y_pred)
    if scores is None:
        scores = 1.0 - probabilities.max(axis=1)
    order = np.argsort(np.ravel(scores), kind="stable")
    wrong = (probabilities.argmax(axis=1) != labels)[order]
    answered = np.arange(1, len(labels) + 1)
    risk = np.cumsum(wrong) / answered
    ax = _axes(ax)
    ax.plot(answered / len(labels), risk, label=f"area {risk.mean():.4f}")
    ax.set(xlabel="coverage", ylabel="risk", xlim=(0, 1))
    ax.legend()
    return ax


def regression_band(
    x: Any,
    answer: Any,
    y: Any = None,
    ax: Any = None,
    levels: Sequence[float] = (0.5, 0.9),
) -> Any:
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
    """
    x, mean = np.ravel(x), np.asarray(answer.mean)
    if mean.size != len(x) or not len(x):
        raise ValueError(
            "Argument `x` must have one number for each row, and the prediction a single "
            f"target. Received: x of {len(x)} numbers, a mean of shape {mean.shape}"
        )
    order = np.argsort(x, kind="stable")
    ax = _axes(ax)
    (line,) = ax.plot(x[order], np.ravel(mean)[order], label="mean", zorder=2)
    # The widest band is drawn first, below the others, all in the colour of the line.
    for level in sorted(levels, reverse=True):
        lower, upper = (np.ravel(bound)[order] for bound in answer.interval(level))
        color, label = line.get_color(), f"{100 * level:g} %"
        ax.fill_between(
            x[order], lower, upper, color=color, alpha=0.2, lw=0, label=label
        )
    if y is not None:
        ax.plot(
            x, np.ravel(y), ".", color="0.3", markersize=3, label="targets", zorder=3
        )
    handles, labels = ax.get_legend_handles_labels()
    # The legend lists the bands first and the points last.
    bands = [index for index, label in enumerate(labels) if label.endswith("%")]
    others = [index for index in range(len(labels)) if index not in bands]
    shown = [*bands, *others]
    ax.legend([handles[i] for i in shown], [labels[i] for i in shown])
    ax.set(xlabel="input", ylabel="target")
    return ax


def coverage(answer: Any, y: Any, ax: Any = None, num_levels: int = 19) -> Any:
    """Plots the share of targets within intervals against the intervals' probabilities.

    A calibrated prediction is on the diagonal. Below it, intervals are too narrow.

    Args:
        answer: A `tfvn.PredictiveDistribution`.
        y: Targets.
        ax: The matplotlib `Axes` to draw on; `None` makes one.
        num_levels: Number of probabilities.

    Returns:
        The `Axes`.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> answer = tfvn.PredictiveDistribution.of_draws("normal", np.zeros((2, 5, 2)))
    >>> ax = tfvn.plots.coverage(answer, [0.0, 9.0], num_levels=1)
    >>> ax.lines[1].get_ydata().tolist()
    [0.5]
    """
    levels = np.arange(1, num_levels + 1) / (num_levels + 1)
    targets = answer.align(y)
    bounds = [answer.interval(level) for level in levels]
    covered = [np.mean((low <= targets) & (targets <= up)) for low, up in bounds]
    ax = _axes(ax)
    ax.plot([0, 1], [0, 1], color="0.6", linestyle="--", label="calibrated")
    error = np.mean(np.abs(covered - levels))
    ax.plot(levels, covered, marker=".", label=f"average error {error:.3f}")
    ax.set(
        xlabel="probability of the interval",
        ylabel="share of targets within",
        xlim=(0, 1),
        ylim=(0, 1),
    )
    ax.legend()
    return ax


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            'Plots need matplotlib; install it with `pip install "tfvn[plots]"`.'
        ) from error
    _, ax = plt.subplots(layout="constrained")
    return ax


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
