"""Plots of the scales that a layer has learned."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tfvn.analysis.spectrum import scale_matrix
from tfvn.plots import style
from tfvn.plots.inputs import numbers
from tfvn.plots.room import place_legend
from tfvn.utils.validation import check_count

Axes = Any


def explained_variance(
    fractions: Mapping[str, Any], num_components: int = 20, ax: Axes = None
) -> Axes:
    """Plots the share of variance that each singular value of a kernel explains.

    The scales of a trained mean-field layer are close to a matrix of rank one or two: their
    first values explain nearly everything. Its means are not.

    Args:
        fractions: A dictionary with the shares of the scales, `"scale"`, and of the means,
            `"mean"`, the largest first, for instance of one layer; for several layers, a
            dictionary from their names to such dictionaries.
        num_components: How many singular values are shown.
        ax: The matplotlib `Axes` to draw on; `None` makes one.

    Returns:
        The `Axes`.

    Example:

    >>> import tfvn
    >>> shares = {"scale": [0.95, 0.04, 0.01], "mean": [0.4, 0.35, 0.25]}
    >>> ax = tfvn.plots.explained_variance(shares)
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['scale', 'mean']

    Reference:

    - [Swiatkowski et al., 2020](https://arxiv.org/abs/2002.02655), figures 1 and 5
    """
    num_components = check_count("num_components", num_components)
    if not isinstance(fractions, Mapping) or not fractions:
        raise ValueError(
            'Argument `fractions` must be a dictionary with `"scale"` and `"mean"`, or '
            "one of such dictionaries by name. "
            f"Received: fractions={type(fractions).__name__}"
        )
    curves = _by_label(fractions)
    for label, shares in curves.items():
        if shares.min() < 0 or shares.max() > 1:
            raise ValueError(
                "Argument `fractions` must have shares from 0 to 1. Received: "
                f"shares from {shares.min():g} to {shares.max():g} for {label!r}"
            )
    with style.drawing(ax) as ax:
        for index, (label, shares) in enumerate(curves.items()):
            shown = shares[:num_components]
            look = style.line_style(index)
            numbered = np.arange(1, len(shown) + 1)
            ax.plot(numbered, shown, marker=".", label=label, **look)
        longest = max(len(shares[:num_components]) for shares in curves.values())
        ax.set_xticks(_round_ticks(longest))
        ax.set(xlabel="singular value", ylabel="share of variance", ylim=(0, None))
        place_legend(ax)
    return ax


def _by_label(fractions: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Returns the shares of each layer's scales and means."""
    curves = {}
    for name, value in fractions.items():
        parts = value if isinstance(value, Mapping) else {None: value}
        for part, shares in parts.items():
            label = str(name) if part is None else f"{name}, {part}"
            curves[label] = numbers("fractions", shares)
    return curves


def _round_ticks(count: int) -> np.ndarray:
    """Returns at most ten whole numbers from 1 to a count."""
    step = int(np.ceil(count / 10))
    return np.unique(np.append(np.arange(step, count + 1, step), 1))


def scale_heat_map(layer: Any, weight: str = "kernel", ax: Axes = None) -> Axes:
    """Plots the standard deviations of a layer's weights as a matrix of colours.

    A row belongs to an input and a column to an output: the kernel of a convolution has
    `height * width * channels` rows, and a column for each filter. Rows or columns that look
    alike show that the scales have a low rank.

    Args:
        layer: A built layer with random weights, or a matrix of standard deviations.
        weight: Which of the layer's random weights: `"kernel"`, `"recurrent_kernel"`.
        ax: The matplotlib `Axes` to draw on; `None` makes one.

    Returns:
        The `Axes`.

    Example:

    >>> import tfvn
    >>> layer = tfvn.KTiedDense(3)
    >>> layer.build((None, 4))
    >>> ax = tfvn.plots.scale_heat_map(layer)
    >>> ax.images[0].get_array().shape
    (4, 3)

    Reference:

    - [Swiatkowski et al., 2020](https://arxiv.org/abs/2002.02655), figure 4
    """
    matrix = _scales(layer, weight)
    with style.drawing(ax) as ax:
        image = ax.imshow(matrix, cmap="viridis", aspect="auto")
        ax.set(xlabel="output (column)", ylabel="input (row)")
        ax.spines[:].set_visible(False)
        bar = ax.figure.colorbar(image, ax=ax)
        bar.outline.set_visible(False)
        bar.set_label("standard deviation", color=style.ink(ax))
        bar.ax.tick_params(colors=style.ink(ax))
    return ax


def _scales(layer: Any, weight: str) -> np.ndarray:
    """Returns the standard deviations of a layer's kernel as a matrix."""
    layer = getattr(layer, "cell", layer)
    if not hasattr(layer, "posteriors"):
        return numbers("layer", layer, ndim=2)
    # This raises if the layer is not built or has no such weight.
    layer.posterior_distribution(weight)
    return scale_matrix(layer.posteriors[weight])
