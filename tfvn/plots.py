"""Pictures of uncertainty. They need matplotlib: `pip install "tfvn[plots]"`."""

from typing import Any

import numpy as np


def reliability_diagram(
    y_true: Any, y_pred: Any, num_bins: int = 15, ax: Any = None
) -> Any:
    """Draws accuracy over confidence: a calibrated classifier is on the diagonal.

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
    # The area of a point is how much it counts.
    ax.scatter(mean, accuracy, s=20 + 200 * counts[known] / len(labels), zorder=2)
    ax.plot(mean, accuracy, label=f"calibration error {error:.3f}")
    ax.set(xlabel="confidence", ylabel="accuracy", xlim=(0, 1), ylim=(0, 1))
    ax.legend()
    return ax


def entropy_histograms(
    entropies: dict[str, Any], num_bins: int = 30, ax: Any = None
) -> Any:
    """Draws how unsure a classifier is on several data, in bins that they share.

    Args:
        entropies: Entropies in nats by the name of the data.
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
    """Draws the error rate among the examples that a classifier is surest of.

    Args:
        y_true: Integer labels.
        y_pred: Probabilities `(num_examples, num_classes)`, or `(num_examples, 1)` of
            the second of two classes.
        scores: How unsure it is of each example, an entropy say; `None` is 1 minus the
            largest probability.
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
            "Labels must be integers, one for each row of probabilities, of which there "
            f"is at least one. Received: y_true of shape {np.shape(y_true)} and y_pred "
            f"of shape {probabilities.shape}"
        )
    if probabilities.shape[1] == 1:
        # Of the second of two classes, as in the metrics.
        probabilities = np.concatenate([1.0 - probabilities, probabilities], axis=1)
    return labels, probabilities
