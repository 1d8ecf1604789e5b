"""Copies of models in which the kernels of some layers have other posteriors."""

from collections.abc import Iterable
from typing import Any

import keras

from tfvn import layers, posteriors
from tfvn.analysis.copies import BayesianCopier
from tfvn.layers.base import RandomWeightsLayer
from tfvn.layers.heads import LikelihoodHead
from tfvn.layers.recurrent.base_layer import StochasticRNN
from tfvn.posteriors import Posterior
from tfvn.utils.custom_objects import with_functions


class PosteriorCopier(BayesianCopier):
    """Copies models, and gives the kernels of some layers other posteriors.

    All else is as in the original: means, biases, priors, the estimator, the weight of
    the KL, names and seeds. A subclass says which posterior a layer gets
    (`new_posterior`), what else changes in its config (`changed_config`), and which values
    the new posterior has (`fill_posterior`).

    Args:
        chosen: The layers and cells whose posteriors are replaced.
    """

    def __init__(self, chosen: Iterable[RandomWeightsLayer]):
        self._chosen = {id(layer) for layer in chosen}

    # Subclasses override these.

    def new_posterior(self, layer: RandomWeightsLayer) -> Posterior:
        """Returns the posterior that the kernels of a layer get, without variables."""
        raise NotImplementedError

    def changed_config(
        self, layer: RandomWeightsLayer, config: dict[str, Any]
    ) -> dict[str, Any]:
        """Returns the config of a new layer, apart from its posterior."""
        return config

    def fill_posterior(self, old: Any, new: Any) -> None:
        """Sets the variables of a new posterior of a kernel."""
        raise NotImplementedError

    # All copiers share these.

    def replaces(self, layer: keras.Layer) -> bool:
        return id(_with_weights(layer)) in self._chosen

    def new_layer(self, layer: Any) -> keras.Layer:
        inside = _with_weights(layer)
        posterior = self.new_posterior(inside)
        config = self.changed_config(inside, with_functions(layer, layer.get_config()))
        made, config = _with_posterior(layer, config, posterior)
        return made.from_config(config)

    def replace_inside(self, layer: Any, copy: Any, missed: list[Any]) -> keras.Layer:
        if not isinstance(layer, LikelihoodHead):
            return super().replace_inside(layer, copy, missed)
        # A head makes its dense layer from its own arguments.
        config = self.changed_config(layer.dense, layer.get_config())
        posterior = posteriors.serialize(self.new_posterior(layer.dense))
        return type(layer).from_config({**config, "posterior": posterior})

    def fill(self, layer: Any, new: Any) -> None:
        layer, new = _with_weights(layer), _with_weights(new)
        new.kl_weight.assign(layer.kl_weight)
        for name, posterior in layer.posteriors.items():
            if name in layer.kernels:
                self.fill_posterior(posterior, new.posteriors[name])
            else:
                _copy_variables(posterior, new.posteriors[name])
        if layer.bias_posterior is None and layer.bias is not None:
            new.bias.assign(layer.bias.value)


def _with_weights(layer: Any) -> Any:
    """Returns the layer, or the cell of a recurrent layer, that has the random weights."""
    return layer.cell if isinstance(layer, StochasticRNN) else layer


def _with_posterior(
    layer: Any, config: dict[str, Any], posterior: Posterior
) -> tuple[Any, dict[str, Any]]:
    """Returns the class and the config of a layer with another posterior.

    A preset becomes the preset of the new posterior: `MeanFieldDense` to `KTiedDense`.
    """
    cls = type(layer)
    if not issubclass(cls, layers.Preset):
        return cls, {**config, "posterior": posteriors.serialize(posterior)}
    if vars(layers).get(cls.__name__) is not cls:
        raise ValueError(
            "A layer of a class with one posterior can't get another one; expected a "
            "layer of the library, or a class that takes `posterior`, like "
            f"`tfvn.layers.Dense`. Received: layer {layer.name!r} of type {cls.__name__}"
        )
    generic = next(c for c in cls.__mro__ if not issubclass(c, layers.Preset))
    (preset,) = (
        c
        for c in vars(layers).values()
        if isinstance(c, type)
        and issubclass(c, layers.Preset)
        and issubclass(c, generic)
        and vars(c).get("posterior_class") is type(posterior)
    )
    old = layer.posterior.get_config()
    kept = {key: value for key, value in config.items() if key not in old}
    return preset, {**kept, **posterior.get_config()}


def _copy_variables(old: Posterior, new: Posterior) -> None:
    """Copies the variables of a posterior to another one with the same arguments."""
    for group, variables in old.variable_groups.items():
        pairs = zip(variables, new.variable_groups[group], strict=True)
        for variable, its_copy in pairs:
            its_copy.assign(variable.value)
