"""One draw of a model's weights, as a plain Keras model."""

import tempfile
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

from tfvn import random
from tfvn.layers.base import RandomWeightsLayer, stochastic_layers
from tfvn.layers.heads import LikelihoodHead
from tfvn.layers.recurrent.base_layer import ReplacesCell, StochasticRNN
from tfvn.prediction import noise
from tfvn.prediction.program import functional_graph
from tfvn.prediction.seeds import seed_pair
from tfvn.utils.models import all_layers

Tensor = Any

# Layers of this library that become layers of Keras.
_REPLACED = (RandomWeightsLayer, StochasticRNN, LikelihoodHead)


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
    library and can be saved and loaded without it, with one exception: Keras has no layer
    like `tfvn.layers.LearnedScale`, which draws nothing and is copied unchanged. To load
    such a model from a file, import this library first.

    Args:
        model: A sequential or functional model that has been built, in which only kernels
            and biases are random.
        seed: Integer; the same seed and weights give the same model. `None` makes a fresh
            draw.

    Returns:
        A `keras.Sequential` or functional `keras.Model`, not compiled.

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
    if functional_graph(model) is None:
        raise ValueError(
            "Argument `model` must be a sequential or functional model that has been "
            f"built. Received: model={getattr(model, 'name', model)!r} of type "
            f"{type(model).__name__}"
        )
    return _Holder(random.Stream(seed_pair(seed))).hold(model)


class _Holder:
    """Copies models and layers, each once, with draws instead of random weights.

    Args:
        stream: The source of the seeds.
    """

    def __init__(self, stream: random.Stream):
        self._stream = stream
        self._copies: dict[int, keras.Layer] = {}
        self._waiting: list[tuple[Any, Any]] = []
        self._drawn: dict[tuple[int, str], Tensor] = {}

    def hold(self, model: keras.Model) -> keras.Model:
        """Returns a plain model with a draw."""
        held = self.copy(model)
        # A copy has variables only after its model has been made.
        for layer, copy in self._waiting:
            self._fill(layer, copy)
        return held

    def copy(self, model: keras.Model) -> keras.Model:
        """Returns a plain model of the same structure, without its weights yet."""
        copy: Any = keras.models.clone_model(model, clone_function=self._copy_layer)
        if isinstance(model, keras.Sequential):
            return copy
        # A clone has the class of the original.
        return keras.Model(copy.input, copy.output, name=model.name)

    def _copy_layer(self, layer: keras.Layer) -> keras.Layer:
        if id(layer) not in self._copies:
            if functional_graph(layer) is not None:
                self._copies[id(layer)] = self.copy(layer)
            else:
                copy = _twin(layer)
                self._copies[id(layer)] = copy
                if isinstance(layer, keras.Layer):  # and no operation, such as a sum
                    _copy_assets(layer, copy)
                    self._waiting.append((layer, copy))
        return self._copies[id(layer)]

    def _fill(self, layer: keras.Layer, copy: keras.Layer) -> None:
        for part, its_copy in _pairs(layer, copy):
            if isinstance(part, RandomWeightsLayer):
                self._draw(part, its_copy)
            elif part.built:
                store: dict[str, Any] = {}
                part.save_own_variables(store)
                values = {name: _as_saved(value) for name, value in store.items()}
                its_copy.load_own_variables(values)

    def _draw(self, layer: Any, copy: Any) -> None:
        for name, posterior in layer.posteriors.items():
            # A layer that several others share is sampled once.
            key = id(layer), name
            if key not in self._drawn:
                seed = self._stream.next()
                self._drawn[key] = posterior.sample(seed)
            getattr(copy, name).assign(self._drawn[key])
        if layer.bias_posterior is None and layer.bias is not None:
            copy.bias.assign(layer.bias.value)


def _pairs(layer: keras.Layer, copy: keras.Layer) -> Iterator[tuple[Any, Any]]:
    """Pairs a layer, and each layer in it, with its copy."""
    # A copy of its dense layer replaces a head.
    parts = [p for p in all_layers(layer) if not isinstance(p, LikelihoodHead)]
    return zip(parts, all_layers(copy), strict=True)


def _copy_assets(layer: keras.Layer, copy: keras.Layer) -> None:
    """Copies the assets that Keras saves in files, such as vocabularies.

    The copy needs them before it is called, because shapes of outputs depend on them.
    """
    for part, its_copy in _pairs(layer, copy):
        if not hasattr(part, "save_assets"):
            continue
        # Variables first, in Keras's order of loading, because assets may need them.
        store: dict[str, Any] = {}
        part.save_own_variables(store)
        its_copy.load_own_variables(store)
        with tempfile.TemporaryDirectory() as directory:
            part.save_assets(directory)
            its_copy.load_assets(directory)


def _as_saved(value: Any) -> Any:
    # The type that a file would return.
    return np.asarray(keras.ops.convert_to_numpy(value))


def _twin(layer: Any) -> Any:
    """Returns a new plain layer: of the Keras twin for a random layer, else of its class."""
    if not isinstance(layer, keras.Layer):
        return type(layer).from_config(layer.get_config())
    _check_noise(layer)
    if isinstance(layer, RandomWeightsLayer | StochasticRNN):
        twin = _twin_class(type(layer))
        return twin.from_config(twin.get_config(layer))
    if isinstance(layer, LikelihoodHead):
        dense = _twin(layer.dense)
        own = {"name": layer.name, "trainable": layer.trainable}
        return type(dense).from_config({**dense.get_config(), **own})
    config = layer.get_config()
    if any(isinstance(part, _REPLACED) for part in all_layers(layer)):
        # A wrapper, or a recurrent layer with cells.
        config = _plain_config(config)
    copy = type(layer).from_config(config)
    if stochastic_layers(copy):
        raise ValueError(
            "A held draw replaces the random layers that a model, a wrapper or a recurrent "
            "layer has in its config; expected no layer that makes them itself. "
            f"Received: layer {layer.name!r} of type {type(layer).__name__}"
        )
    if layer.built and not copy.built:
        copy.build_from_config(layer.get_build_config())
    return copy


def _twin_class(layer_class: type) -> Any:
    """Returns the Keras class with plain kernels that a layer inherits from."""
    made_random = RandomWeightsLayer | ReplacesCell
    plain = [c for c in layer_class.__mro__ if not issubclass(c, made_random)]
    return next(c for c in plain if "__init__" in vars(c))


def _check_noise(layer: keras.Layer) -> None:
    for part in all_layers(layer):
        is_random = isinstance(part, RandomWeightsLayer)
        if not is_random and noise.noise_of(part) is not None:
            raise ValueError(
                "A held draw is one of kernels and biases; expected no other noise in "
                f"the model. Received: layer {part.name!r} of type {type(part).__name__}"
            )


def _plain_config(config: Any) -> Any:
    """Returns a config in which Keras twins replace random layers."""
    if isinstance(config, list | tuple):
        return [_plain_config(item) for item in config]
    if not isinstance(config, dict):
        return config
    if _is_of_this_library(config):
        inside = keras.saving.deserialize_keras_object(config)
        holder = _Holder(random.Stream(seed_pair(0)))
        is_model = functional_graph(inside) is not None
        plain = holder.copy(inside) if is_model else _twin(inside)
        return keras.saving.serialize_keras_object(plain)
    return {key: _plain_config(value) for key, value in config.items()}


def _is_of_this_library(config: dict[str, Any]) -> bool:
    name = config.get("registered_name") if "class_name" in config else None
    cls = keras.saving.get_registered_object(name) if name else None
    return isinstance(cls, type) and issubclass(cls, (*_REPLACED, keras.Model))
