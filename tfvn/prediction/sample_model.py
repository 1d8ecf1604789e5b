"""One held draw of a model's weights, as a plain Keras model."""

from typing import Any

import keras

from tfvn import random
from tfvn.layers.base import StochasticLayer
from tfvn.posteriors import Posterior
from tfvn.prediction import noise
from tfvn.prediction.ensemble import seed_pair
from tfvn.prediction.program import functional_graph

Tensor = Any


def sample_model(model: keras.Model, seed: int | None = None) -> keras.Model:
    """Returns a plain Keras model that holds one draw of all random weights.

    It is deterministic: a policy for an episode, a function drawn from the posterior for
    Thompson sampling. Each layer with a random kernel becomes its Keras twin, with a
    kernel drawn from the posterior whatever the layer's estimator; all other weights
    are copied. Nothing of this library is left in it: it saves and loads without.

    Args:
        model: A sequential or functional model that has been built, in which nothing
            but kernels and biases is random.
        seed: Integer; the same seed and weights give the same model. `None` is a fresh
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
    """Copies models and layers, each once, with draws in place of random weights.

    Args:
        stream: Where the seeds of the draws come from.
    """

    def __init__(self, stream: random.Stream):
        self._stream = stream
        self._copies: dict[int, keras.Layer] = {}
        self._pairs: list[tuple[keras.Layer, keras.Layer]] = []

    def hold(self, model: keras.Model) -> keras.Model:
        """Returns a plain model with a draw."""
        held = self._copy(model)
        # Copies have variables once their model has been made.
        for layer, copy in self._pairs:
            self._fill(layer, copy)
        return held

    def _copy(self, model: keras.Model) -> keras.Model:
        copy: Any = keras.models.clone_model(model, clone_function=self._copy_layer)
        if isinstance(model, keras.Sequential):
            return copy
        # A clone is of the class of the original.
        inputs, outputs = copy._inputs_struct, copy._outputs_struct  # noqa: SLF001
        return keras.Model(inputs, outputs, name=model.name)

    def _copy_layer(self, layer: keras.Layer) -> keras.Layer:
        if id(layer) not in self._copies:
            if functional_graph(layer) is not None:
                self._copies[id(layer)] = self._copy(layer)
            else:
                copy = _twin(layer)
                self._copies[id(layer)] = copy
                self._pairs.append((layer, copy))
        return self._copies[id(layer)]

    def _fill(self, layer: Any, copy: Any) -> None:
        if not isinstance(layer, keras.Layer):
            return  # an operation, such as a sum
        if not isinstance(layer, StochasticLayer):
            copy.set_weights(layer.get_weights())
            return
        copy.kernel.assign(self._draw(layer, layer.posterior))
        if layer.bias_posterior is not None:
            copy.bias.assign(self._draw(layer, layer.bias_posterior))
        elif layer.bias is not None:
            copy.bias.assign(layer.bias.value)

    def _draw(self, layer: Any, posterior: Posterior) -> Tensor:
        return posterior.sample(
            self._stream.next(layer.seed_generator, per_example=False)
        )


def _twin(layer: keras.Layer) -> keras.Layer:
    """Returns a new layer of the Keras class that a layer makes random, or of its own."""
    if not isinstance(layer, StochasticLayer):
        if noise.is_noisy(layer):
            raise ValueError(
                "A held draw is one of kernels and biases; expected no other noise in "
                f"the model. Received: layer {layer.name!r} of type "
                f"{type(layer).__name__}"
            )
        return type(layer).from_config(layer.get_config())
    bases = type(layer).__mro__
    twin: Any = bases[bases.index(StochasticLayer) + 1]
    config = super(StochasticLayer, layer).get_config()
    return twin.from_config(config)
