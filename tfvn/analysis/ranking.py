"""The order in which the weights of layers are pruned."""

from typing import Any

import keras
import numpy as np

from tfvn.analysis.selection import (
    is_weight,
    kernel_mask,
    kernel_posteriors,
    random_part,
)
from tfvn.analysis.weight_scores import (
    ALPHA,
    AUTO,
    SCORES,
    chosen_score,
    importance,
    scores,
)
from tfvn.layers.base import RandomWeightsLayer
from tfvn.utils.validation import check_choice, check_number

LAYER, GLOBAL = "layer", "global"

# Which weights of a layer are kept: a mask for each of its kernels, by name.
Masks = dict[str, np.ndarray]


class Ranking:
    """The order in which the weights of layers are pruned.

    Args:
        layers: The layers to prune, with the names that users know.
        by: A score, or `"auto"`.
        scope: `"layer"` or `"global"`.
    """

    def __init__(self, layers: list[keras.Layer], by: str, scope: str):
        check_choice("by", by, (AUTO, *SCORES))
        check_choice("scope", scope, (LAYER, GLOBAL))
        self._scores = [
            (layer.name, chosen_score(random_part(layer).posterior, by, layer.name))
            for layer in layers
        ]
        parts = [
            (random_part(layer), score)
            for layer, (_, score) in zip(layers, self._scores, strict=True)
        ]
        if scope == GLOBAL:
            self._the_score(
                "scope='global'", "Ranking the weights of all layers together"
            )
            groups = [parts]
        else:
            groups = [[part] for part in parts]
        self._groups = [_Group(group) for group in groups]

    def undoes_pruning(self, fraction: float) -> bool:
        """Whether a share is smaller than what is pruned already, in any group."""
        return any(
            round(fraction * group.size) < group.pruned.sum() for group in self._groups
        )

    def masks_of(self, fraction: float) -> dict[int, Masks]:
        """Returns, by the identity of each layer, what is kept after pruning a share."""
        masks: dict[int, Masks] = {}
        for group in self._groups:
            count = max(round(fraction * group.size), int(group.pruned.sum()))
            is_kept = np.ones(len(group.pruned), bool)
            is_kept[group.order[:count]] = False
            masks |= group.split(is_kept)
        return masks

    def masks_above(self, threshold: Any) -> dict[int, Masks]:
        """Returns, by the identity of each layer, what is kept by a threshold."""
        score = self._the_score(
            f"threshold={threshold!r}", "A threshold for all layers"
        )
        least = None if score == ALPHA else 0
        threshold = check_number("threshold", threshold, least=least)
        lowest = importance(score, threshold)
        masks: dict[int, Masks] = {}
        for group in self._groups:
            is_less = (group.importance < lowest) & group.can_be_pruned
            masks |= group.split(~group.pruned & ~is_less)
        return masks

    def _the_score(self, argument: str, what: str) -> str:
        different = sorted({score for _, score in self._scores})
        if len(different) > 1:
            raise ValueError(
                f"{what} needs scores that can be compared, but these layers have different "
                "ones; choose layers of one kind with `layers`, or pass a score that suits "
                f"all of them as `by`. Received: {argument} and scores {self._scores}"
            )
        return different[0]


class _Group:
    """Weights that are ranked together.

    Args:
        parts: The layers, each with its score.

    Attributes:
        importance: A number for each weight; weights with the smallest are pruned first.
        pruned: Which weights are pruned already.
        can_be_pruned: Which are no biases.
        size: Number of those.
        order: The indices of the weights, in the order in which they are pruned.
    """

    def __init__(self, parts: list[tuple[RandomWeightsLayer, str]]):
        self._kernels = [
            (layer, name, posterior, score)
            for layer, score in parts
            for name, posterior in kernel_posteriors(layer).items()
        ]
        self.importance = np.concatenate(
            [_importance(*kernel).ravel() for kernel in self._kernels]
        )
        masks = [kernel_mask(posterior).ravel() for _, _, posterior, _ in self._kernels]
        self.pruned = ~np.concatenate(masks)
        self.can_be_pruned = np.concatenate(
            [is_weight(layer, kernel).ravel() for layer, _, kernel, _ in self._kernels]
        )
        self.size = int(self.can_be_pruned.sum())
        # What is pruned comes first, so that it stays pruned, and biases come last. The
        # last key counts most, and the sort is stable.
        self.order = np.lexsort((self.importance, ~self.pruned, ~self.can_be_pruned))

    def split(self, is_kept: np.ndarray) -> dict[int, Masks]:
        """Returns a mask of all weights as masks of the kernels, by layer."""
        masks: dict[int, Masks] = {}
        for layer, name, posterior, _ in self._kernels:
            shape = posterior.spec.shape
            size = int(np.prod(shape))
            masks.setdefault(id(layer), {})[name] = is_kept[:size].reshape(shape)
            is_kept = is_kept[size:]
        return masks


def _importance(layer: Any, name: str, posterior: Any, score: str) -> np.ndarray:
    values = scores(posterior, score)
    if np.isnan(values).any():
        raise ValueError(
            "Weights that are NaN can't be ranked; expected a model whose variables are "
            f"finite. Received: layer={layer.name!r}, whose {name} has NaN"
        )
    return importance(score, values)


def check_fraction(name: str, fraction: Any) -> float:
    """Returns a share of weights to prune, or raises if it is not valid."""
    return check_number(name, fraction, least=0, below=1)
