"""Pruning: sets the weights of a model that matter least to zero, for good."""

import dataclasses
from typing import Any

import keras

from tfvn import posteriors
from tfvn.analysis.copies import BayesianCopier
from tfvn.analysis.layer_rows import names_in
from tfvn.analysis.ranking import LAYER, Masks, Ranking, check_fraction
from tfvn.analysis.selection import (
    ALL,
    chosen_layers,
    is_weight,
    kernel_mask,
    kernel_posteriors,
    layers_with_kernels,
    random_part,
)
from tfvn.analysis.weight_scores import AUTO
from tfvn.layers.base import RandomWeightsLayer
from tfvn.layers.constructors import Preset
from tfvn.posteriors.pruned import unpruned
from tfvn.training.bayesian_training import BayesianTraining
from tfvn.utils.custom_objects import with_functions
from tfvn.utils.replaced_layers import WithReplacedLayers


def prune(
    model: keras.Model,
    fraction: float | None = None,
    threshold: float | None = None,
    by: str = AUTO,
    scope: str = LAYER,
    layers: Any = ALL,
) -> Any:
    """Returns a copy of a model in which the least important random weights are zero.

    A pruned weight is exactly zero and stays zero: when the copy is trained, saved,
    loaded, exported, pruned again or sampled with `tfvn.sample_model`. It adds nothing to
    the KL. The copy is as large and as fast as the model. Biases are not pruned.

    The weights are ranked by one of three scores:

    - `"scale"`, the standard deviation: weights with the smallest are pruned. This is
      `"auto"` for variance layers, and for Gaussian dropout whose alpha is shared by the
      weights of a layer or of a neuron. These layers refuse the other two scores, which
      would tie all their weights and take the information for noise.
    - `"alpha"`, the dropout rate `variance / mean^2`: weights with the largest are pruned.
      This is `"auto"` for Gaussian dropout with an alpha for each weight, and for the
      additive parameterization.
    - `"snr"`, the signal-to-noise ratio `|mean| / scale`: weights with the smallest are
      pruned. This is `"auto"` for mean-field and k-tied layers, and for other posteriors
      with means.

    Args:
        model: A model with random weights that has been built. It does not change. A
            model with a `call` of its own can be pruned if Keras can make it again from its
            config.
        fraction: Share of the weights to prune, at least 0 and less than 1. Exactly
            `round(fraction * n)` of `n` weights are pruned, counting those that were
            pruned before, or all those if they are more. Of weights with equal scores,
            the first in the kernel are pruned. Pass either `fraction` or `threshold`.
        threshold: Prunes the weights with a scale or a signal-to-noise ratio below it
            or, with `"alpha"`, with a logarithm of alpha above it.
        by: `"auto"`, `"scale"`, `"alpha"` or `"snr"`.
        scope: With a fraction, `"layer"` ranks the weights of each layer (all kernels of
            a recurrent layer together), and `"global"` the weights of all layers
            together, which needs the same score in all of them.
        layers: Which layers to prune: `"all"`, a layer or its name, a list of these, or a
            function that returns whether to prune a layer. A wrapper or a nested model
            stands for all layers in it.

    Returns:
        A model of the same kind as `model`, compiled as `model` is, with a new optimizer.

    Example:

    >>> import keras
    >>> import tfvn
    >>> model = tfvn.Sequential([keras.Input((10,)), tfvn.VarianceDense(20)])
    >>> pruned = tfvn.prune(model, fraction=0.98)
    >>> tfvn.sparsity(pruned).total
    0.98
    >>> tfvn.sparsity(model).total
    0.0

    Reference:

    - [Neklyudov et al., 2019](https://arxiv.org/abs/1803.03764), figure 5, for scales
    - [Molchanov et al., 2017](https://arxiv.org/abs/1701.05369), section 4.3, for alpha,
      with a threshold of 3
    - [Blundell et al., 2015](https://arxiv.org/abs/1505.05424), section 5.1, for the
      signal-to-noise ratio
    """
    if (fraction is None) == (threshold is None):
        raise ValueError(
            "Pass either `fraction` or `threshold`, and not both. "
            f"Received: fraction={fraction!r} and threshold={threshold!r}"
        )
    ranking = Ranking(chosen_layers(model, layers), by, scope)
    masks = (
        ranking.masks_above(threshold)
        if fraction is None
        else ranking.masks_of(check_fraction("fraction", fraction))
    )
    return PruningCopier(model, masks).copy(model)


@dataclasses.dataclass(frozen=True)
class Sparsity:
    """The result of `tfvn.sparsity`.

    Attributes:
        total: Share of pruned weights among the weights of all random kernels.
        layers: The same for each layer, by the layer's name.
    """

    total: float
    layers: dict[str, float]


def sparsity(model: keras.Model) -> Sparsity:
    """Returns the share of pruned weights, in total and for each layer.

    It counts the weights of random kernels. Biases, and layers whose kernels are not
    random, are not pruned and do not count. If two layers, in different nested models,
    have the same name, theirs come after those of these models, as in `tfvn.summary`.

    Args:
        model: A model with random weights that has been built.

    Example:

    >>> import keras
    >>> import tfvn
    >>> layers = [tfvn.VarianceDense(5, name="first"), tfvn.VarianceDense(5, name="last")]
    >>> model = keras.Sequential([keras.Input((4,)), *layers])
    >>> tfvn.sparsity(tfvn.prune(model, fraction=0.5, layers="first"))
    Sparsity(total=0.2222222222222222, layers={'first': 0.5, 'last': 0.0})
    """
    owners = layers_with_kernels(model)
    names, paths = [owner.name for owner in owners], names_in(model)
    counts: dict[str, tuple[int, int]] = {}
    for owner in owners:
        unique = names.count(owner.name) == 1
        name = owner.name if unique else paths[id(owner)]
        part = random_part(owner)
        kernels = kernel_posteriors(part).values()
        masks = [~kernel_mask(kernel)[is_weight(part, kernel)] for kernel in kernels]
        # A layer that users write may hold several with the same name.
        pruned, size = counts.get(name, (0, 0))
        counts[name] = (
            pruned + sum(int(mask.sum()) for mask in masks),
            size + sum(mask.size for mask in masks),
        )
    total_pruned, total_size = map(sum, zip(*counts.values(), strict=True))
    shares = {name: count / size for name, (count, size) in counts.items()}
    return Sparsity(total_pruned / total_size, shares)


class PruningCopier(BayesianCopier):
    """Copies a model, with pruned posteriors in some layers.

    Args:
        model: The model to copy. A model of Keras stays one: a model of this library would
            weight the KL otherwise.
        masks: What is kept, by the identity of each layer that is pruned.
    """

    def __init__(self, model: keras.Model, masks: dict[int, Masks]):
        if not isinstance(model, BayesianTraining):
            self.sequential, self.functional = keras.Sequential, keras.Model
            self.subclassed = WithReplacedLayers
        self._masks = masks
        self._pairs: list[tuple[RandomWeightsLayer, RandomWeightsLayer]] = []

    def replaces(self, layer: keras.Layer) -> bool:
        return id(random_part(layer)) in self._masks

    def new_layer(self, layer: Any) -> keras.Layer:
        config = with_functions(layer, layer.get_config())
        posterior = random_part(layer).posterior
        if isinstance(layer, Preset):
            # A preset has the arguments of its posterior, and now the posterior instead.
            for name in unpruned(posterior).get_config():
                config.pop(name, None)
        config["posterior"] = posteriors.serialize(posteriors.Pruned(posterior))
        return type(layer).from_config(config)

    def fill(self, layer: Any, new: Any) -> None:
        layer, new = random_part(layer), random_part(new)
        variables = zip(_without_masks(layer), _without_masks(new), strict=True)
        for variable, its_copy in variables:
            its_copy.assign(variable.value)
        self._pairs.append((layer, new))
        self._set(layer, new)

    def set_masks(self, masks: dict[int, Masks]) -> None:
        """Sets other masks in the copy that was made."""
        self._masks = masks
        for layer, new in self._pairs:
            self._set(layer, new)

    def _set(self, layer: RandomWeightsLayer, new: RandomWeightsLayer) -> None:
        for name, posterior in kernel_posteriors(new).items():
            posterior.mask.assign(self._masks[id(layer)][name])


def _without_masks(layer: RandomWeightsLayer) -> list[keras.Variable]:
    kernels = kernel_posteriors(layer).values()
    masks = {id(p.mask) for p in kernels if isinstance(p, posteriors.Pruned)}
    return [variable for variable in layer.weights if id(variable) not in masks]
