"""One draw of a model's weights, as a plain Keras model."""

from typing import Any

import keras

from tfvn import random
from tfvn.layers.base import RandomWeightsLayer, check_all_built
from tfvn.layers.heads import LikelihoodHead
from tfvn.layers.recurrent.base_layer import ReplacesCell, StochasticRNN
from tfvn.posteriors import Posterior
from tfvn.prediction import noise
from tfvn.prediction.seeds import seed_pair
from tfvn.utils.custom_objects import with_functions
from tfvn.utils.model_copies import ModelCopier, check_built
from tfvn.utils.models import all_layers
from tfvn.utils.replaced_layers import WithReplacedLayers

Tensor = Any

# Layers of this library that become layers of Keras.
_REPLACED = (RandomWeightsLayer, StochasticRNN, LikelihoodHead, WithReplacedLayers)


def sample_model(model: keras.Model, seed: int | None = None) -> keras.Model:
    """Returns a plain Keras model with one draw of all random weights.

    The model is deterministic: use it, for example, as a policy for an episode, or as a
    function from the posterior for Thompson sampling. Each layer with a random kernel
    becomes a plain Keras layer with a kernel sampled from the posterior, whatever its
    estimator; so do layers inside wrappers (`Bidirectional`, `TimeDistributed`), the
    cells of `keras.layers.RNN` and the layers of nested models. All other state is copied
    as Keras saves it: weights, moving averages, the results of `adapt`, vocabularies.

    A `tfvn.layers.NormalHead` or `LikelihoodHead` becomes a `keras.layers.Dense` with the
    same outputs: the parameters of the distribution. The model contains nothing of this
    library and can be saved and loaded without it, with two exceptions: Keras has no layer
    like `tfvn.layers.LearnedScale`, which draws nothing and is copied unchanged; and a
    layer or a model of yours that makes layers of this library itself becomes a subclass
    of its class, with other layers in it. To load such a model from a file, import this
    library first.

    Args:
        model: A model that has been built, in which only kernels and biases are random. A
            model with a `call` of its own can be sampled if Keras can make it again from its
            config.
        seed: Integer; the same seed and weights give the same model. `None` makes a fresh
            draw.

    Returns:
        A `keras.Sequential` or `keras.Model`, not compiled.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> import tfvn
    >>> model = tfvn.Sequential([keras.Input((4,)), tfvn.MeanFieldDense(1)])
    >>> policy = tfvn.sample_model(model, seed=1)
    >>> type(policy.layers[0]) is keras.layers.Dense
    True
    >>> x = np.ones((2, 4))
    >>> bool((policy(x).numpy() == policy(x).numpy()).all())
    True
    """
    check_built(model)
    check_all_built(model)
    for layer in all_layers(model):
        is_random = isinstance(layer, RandomWeightsLayer)
        if not is_random and noise.noise_of(layer) is not None:
            raise ValueError(
                "`sample_model` can draw only kernels and biases, but this layer draws "
                "other noise; remove the layer, or use `tfvn.ensemble_predict`. "
                f"Received: layer {layer.name!r} of type {type(layer).__name__}"
            )
    return _Draw(random.Stream(seed_pair(seed))).copy(model)


class PlainCopier(ModelCopier):
    """Copies models, with Keras's own layers in place of those of this library."""

    def weight(self, layer: RandomWeightsLayer, posterior: Posterior) -> Tensor:
        """Returns the values that take the place of a random weight."""
        raise NotImplementedError

    def replaces(self, layer: keras.Layer) -> bool:
        return isinstance(layer, _REPLACED)

    def new_layer(self, layer: Any) -> keras.Layer:
        if isinstance(layer, LikelihoodHead):
            dense = self._copy_layer(layer.dense)
            own = {"name": layer.name, "trainable": layer.trainable}
            return type(dense).from_config({**dense.get_config(), **own})
        if isinstance(layer, WithReplacedLayers):
            return self._copy_layer(layer.remade_original())
        twin = _twin_class(type(layer))
        return twin.from_config(with_functions(layer, twin.get_config(layer)))

    def fill(self, layer: Any, new: Any) -> None:
        if isinstance(layer, LikelihoodHead):
            self._fill(layer.dense, new)
            return
        if isinstance(layer, WithReplacedLayers):
            self._fill_alike(layer, new)
            return
        if isinstance(layer, StochasticRNN):
            layer, new = layer.cell, new.cell
        weights = {n: self.weight(layer, p) for n, p in layer.posteriors.items()}
        for name, value in layer.twin_weights(weights).items():
            getattr(new, name).assign(value)
        if layer.bias_posterior is None and layer.bias is not None:
            new.bias.assign(layer.bias.value)


class _Draw(PlainCopier):
    """Copies models with one draw of each random weight.

    Args:
        stream: The source of the seeds.
    """

    def __init__(self, stream: random.Stream):
        self._stream = stream
        self._drawn: dict[int, Tensor] = {}

    def weight(self, layer: RandomWeightsLayer, posterior: Posterior) -> Tensor:
        # A layer that several wrappers share is sampled once.
        if id(posterior) not in self._drawn:
            self._drawn[id(posterior)] = posterior.sample(self._stream.next())
        return self._drawn[id(posterior)]


def _twin_class(layer_class: type) -> Any:
    """Returns the Keras class with plain kernels that a layer inherits from."""
    made_random = RandomWeightsLayer | ReplacesCell
    plain = [c for c in layer_class.__mro__ if not issubclass(c, made_random)]
    return next(c for c in plain if "__init__" in vars(c))
