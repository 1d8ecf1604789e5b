"""The layers with a random kernel inside a model, and passes with other estimators."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import keras

from tfvn.layers.base import StochasticLayer


def all_layers(model: keras.Layer) -> list[keras.Layer]:
    """Returns a model and all layers in it, however deep, each once."""
    # The only list of all nested layers that Keras has.
    return list(model._flatten_layers())  # noqa: SLF001


def stochastic_layers(model: keras.Layer) -> list[StochasticLayer]:
    """Returns the layers with a random kernel in a model, however deep, each once."""
    return [layer for layer in all_layers(model) if isinstance(layer, StochasticLayer)]


@contextlib.contextmanager
def replaced_estimators(
    model: keras.Layer, estimator_of: Callable[[Any], Any]
) -> Iterator[None]:
    """Gives each layer with a random kernel another estimator, within the context.

    Enter it while a pass is traced; the pass then keeps these estimators, and the layers
    get their own back.

    Args:
        model: The model.
        estimator_of: Returns the estimator for a layer.
    """
    layers = stochastic_layers(model)
    own = [layer.estimator for layer in layers]
    try:
        for layer in layers:
            layer.estimator = estimator_of(layer)
        yield
    finally:
        for layer, estimator in zip(layers, own, strict=True):
            layer.estimator = estimator
