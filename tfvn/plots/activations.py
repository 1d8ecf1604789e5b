"""Plots of what a variance layer encodes: no means, only how far its outputs spread."""

from typing import Any

import numpy as np

from tfvn.plots import style
from tfvn.plots.inputs import described, numbers
from tfvn.plots.room import place_legend
from tfvn.utils.validation import check_count

Axes = Any


def energy_levels(std: Any, labels: Any, neuron: int = 0, ax: Axes = None) -> Axes:
    """Plots the distribution of a neuron's activation for each class of examples.

    The activation of a variance layer is Normal with mean zero for each example. A line is
    the average of these densities over the examples of a class, and the area around it is
    their standard deviation. A neuron has several "energy levels": classes with small and
    classes with large activations.

    Args:
        std: Standard deviation of each activation, `(num_examples, num_neurons)`, for
            instance `tfvn.ensemble_predict(keras.Model(model.inputs, layer.output), x,
            num_samples=100, outputs="regression").std`.
        labels: The class of each example.
        neuron: Which neuron, a column of `std`.
        ax: The matplotlib `Axes` to draw on; `None` makes one.

    Returns:
        The `Axes`.

    Example:

    >>> import tfvn
    >>> ax = tfvn.plots.energy_levels([[0.5], [0.6], [2.0]], ["small", "small", "large"])
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['large', 'small']

    Reference:

    - [Neklyudov et al., 2019](https://arxiv.org/abs/1803.03764), figure 9
    """
    scales = numbers("std", std, ndim=2)
    labels = _labels(labels, len(scales))
    neuron = check_count("neuron", neuron, least=0)
    if neuron >= scales.shape[1]:
        raise ValueError(
            f"Argument `neuron` must be below {scales.shape[1]}, the number of columns of "
            f"`std`. Received: neuron={neuron}"
        )
    if (scales[:, neuron] <= 0).any():
        raise ValueError(
            "Argument `std` must be positive, because an activation that is always zero "
            f"has no density. Received: a smallest value of {scales[:, neuron].min():g}"
        )
    classes = np.unique(labels)
    by_class = [scales[labels == one, neuron] for one in classes]
    limit = 3.0 * max(np.median(some) for some in by_class)
    grid = np.linspace(-limit, limit, 401)
    with style.drawing(ax) as ax:
        for index, (name, some) in enumerate(zip(classes, by_class, strict=True)):
            densities = np.exp(-0.5 * (grid / some[:, None]) ** 2)
            densities /= np.sqrt(2.0 * np.pi) * some[:, None]
            mean, spread = densities.mean(axis=0), densities.std(axis=0)
            look = style.line_style(index)
            ax.plot(grid, mean, label=str(name), **look)
            lower = np.maximum(mean - spread, 0.0)
            color = look["color"]
            ax.fill_between(grid, lower, mean + spread, color=color, alpha=0.25, lw=0)
        ax.set(xlabel=f"activation of neuron {neuron}", ylabel="density")
        ax.set(xlim=(-limit, limit), ylim=(0.0, None))
        place_legend(ax)
    return ax


def toy_scatter(x: Any, labels: Any, activations: Any = None, ax: Any = None) -> Any:
    """Plots points of several classes in a plane: data, and what a network makes of them.

    In the toy problem of variance networks, a bottleneck of two variance neurons encodes
    four classes. The activations of all classes have mean zero; the classes differ in how
    far the activations spread along each axis.

    Args:
        x: The data, `(num_examples, 2)`.
        labels: The class of each example.
        activations: One draw of the activations of two neurons, `(num_examples, 2)`. If
            given, a second panel shows them.
        ax: The matplotlib `Axes` to draw on, or two of them if there are activations; `None`
            makes them.

    Returns:
        The `Axes`; with activations, an array of two.

    Example:

    >>> import tfvn
    >>> left, right = tfvn.plots.toy_scatter(
    ...     [[3.0, 3.0], [3.0, 10.0]], [0, 1], activations=[[0.1, -0.2], [2.0, 0.3]]
    ... )
    >>> right.get_xlabel()
    'neuron 1'

    Reference:

    - [Neklyudov et al., 2019](https://arxiv.org/abs/1803.03764), figure 1
    """
    shown = {"x": _plane("x", x)}
    if activations is not None:
        shown["activations"] = _plane("activations", activations)
        if len(shown["activations"]) != len(shown["x"]):
            raise ValueError(
                "Argument `activations` must have one row for each row of `x`. Received: "
                f"{len(shown['activations'])} rows for {len(shown['x'])}"
            )
    labels = _labels(labels, len(shown["x"]))
    count = len(shown)
    options = {"ncols": count, "figsize": (4.2 * count, 3.8), "squeeze": False}
    with style.drawing(style.panels(ax, count), **options) as axes:
        axes = np.ravel(axes)
        names = (("input 1", "input 2"), ("neuron 1", "neuron 2"))
        pairs = zip(axes, shown.values(), names, strict=False)
        for panel, points, (across, up) in pairs:
            _scatter(panel, points, labels)
            panel.set(xlabel=across, ylabel=up)
        # The data leave more room for a legend than the activations around zero.
        place_legend(axes[0])
    return axes[0] if activations is None else axes


def _scatter(ax: Axes, points: np.ndarray, labels: np.ndarray) -> None:
    for index, name in enumerate(np.unique(labels)):
        chosen, look = points[labels == name], style.dot_style(index)
        label = f"class {name}" if isinstance(name, np.number) else str(name)
        # Points that are close together are drawn over those that spread.
        spread = chosen.std(axis=0).max() / (points.std(axis=0).max() or 1.0)
        layer = 2.0 - 0.5 * min(spread, 1.0)
        ax.scatter(
            *chosen.T, s=14, alpha=0.7, linewidths=0, label=label, zorder=layer, **look
        )


def _plane(name: str, values: Any) -> np.ndarray:
    points = numbers(name, values, ndim=2)
    if points.shape[1] != 2:
        raise ValueError(
            f"Argument `{name}` must have two columns. "
            f"Received: {name} of shape {points.shape}"
        )
    return points


def _labels(labels: Any, count: int) -> np.ndarray:
    array = np.ravel(labels)
    if len(array) != count:
        raise ValueError(
            "Argument `labels` must have one class for each of "
            f"{count} examples. Received: labels={described(labels)}"
        )
    return array
