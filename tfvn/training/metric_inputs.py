"""Converts outputs that are parameters of distributions for metrics."""

from typing import Any

import keras

from tfvn import likelihoods
from tfvn.likelihoods import Likelihood, likelihood_of
from tfvn.utils import private
from tfvn.utils.models import last_layers, losses_of, output_names

Tensor = Any


def metric_inputs(model: keras.Model, y: Any, y_pred: Any) -> tuple[Any, Any]:
    """Returns targets and outputs, with means instead of parameters of distributions.

    `metrics=["mae"]` then compares targets with means; with the parameters, it would also
    compare them with scales. Targets that lack the last axis of the means get it, so that
    metrics compare example by example.

    Args:
        model: The model; its compiled losses, or last layers, define the outputs.
        y: The targets.
        y_pred: The outputs.
    """
    found = likelihoods_of(model, y_pred)
    if not any(found):
        return y, y_pred
    outputs = keras.tree.flatten(y_pred)
    # `None` for other outputs, whose targets may have another shape, such as the number
    # of a class.
    means = [
        None if likelihood is None else _mean(likelihood, output)
        for likelihood, output in zip(found, outputs, strict=True)
    ]
    if isinstance(y, dict) and not isinstance(y_pred, dict):
        by_name = dict(zip(output_names(model, len(means)), means, strict=True))
        y = {name: _aligned(target, by_name.get(name)) for name, target in y.items()}
    else:
        targets = keras.tree.flatten(y)
        if len(targets) == len(means):
            y = keras.tree.pack_sequence_as(y, list(map(_aligned, targets, means)))
    outputs = [
        o if mean is None else mean for o, mean in zip(outputs, means, strict=True)
    ]
    return y, keras.tree.pack_sequence_as(y_pred, outputs)


def _mean(likelihood: Any, output: Tensor) -> Tensor:
    mean = likelihood.distribution(output).mean()
    private.set_keras_mask(mean, private.get_keras_mask(output))
    return mean


def _aligned(target: Tensor | None, mean: Tensor | None) -> Tensor | None:
    """Returns a target with the last axis of the mean, if it lacks that."""
    if target is None or mean is None:
        return target
    target = keras.ops.convert_to_tensor(target)
    fitting = likelihoods.aligned(target, mean)
    return target if fitting is None else fitting


def likelihoods_of(model: keras.Model, structure: Any) -> list[Likelihood | None]:
    """Returns the likelihood that the loss or else the last layer of an output has.

    Args:
        model: The model.
        structure: The structure of its outputs, with anything in it.
    """
    losses = losses_of(model, structure)
    layers = last_layers(model, len(losses))
    return [
        likelihood_of(loss) or likelihood_of(layer)
        for loss, layer in zip(losses, layers, strict=True)
    ]
