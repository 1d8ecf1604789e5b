"""What a summary says about each layer of a model."""

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
from tensorflow_probability import distributions as tfd

from tfvn import passes
from tfvn.analysis.counterparts import counterpart_of, reason_against
from tfvn.analysis.spread import spread_of
from tfvn.layers.base import RandomWeightsLayer
from tfvn.layers.noise.base import NoiseLayer, NoisyKernelLayer
from tfvn.prediction.noise import NAMES_OF_AMOUNTS, noise_of
from tfvn.random import Stream
from tfvn.training.groups import group_of
from tfvn.utils import private

RANDOM, NOISE, PLAIN = "random", "noise", "plain"

# Arguments of a distribution that say nothing about its shape.
_TECHNICAL = ("name", "dtype", "validate_args", "allow_nan_stats")


@dataclasses.dataclass(frozen=True)
class WeightRow:
    """One random weight of a layer.

    Attributes:
        name: `"kernel"`, `"recurrent_kernel"` or `"bias"`.
        posterior: The posterior, as one writes it.
        prior: The prior: its alias, the distribution, or `"none"`.
        measure: What `quantiles` are of: `"log alpha"`, `"SNR"` or `"scale"`.
        quantiles: The 5, 50 and 95 % quantiles over the weights that are not zero.
        sparsity: The share of weights that are exactly zero.
    """

    name: str
    posterior: str
    prior: str
    measure: str
    quantiles: tuple[float, ...]
    sparsity: float


@dataclasses.dataclass(frozen=True)
class LayerRow:
    """One layer of a model.

    Attributes:
        name: The name of the layer; inside of wrappers and nested models, after theirs.
        layer: The class of the layer.
        kind: `"random"` if its weights are, `"noise"` if it draws noise, or `"plain"`.
        parameters: The number of parameters in each group: `"mean"`, `"scale"`,
            `"other"`.
        remark: What noise a layer draws; for a plain layer, which layer of this library
            does the same with random weights, or why there is none.
        estimator: The alias of the estimator of a random layer, otherwise `None`.
        kl: What the layer adds to the KL, in nats; `None` if it adds nothing.
        is_estimated: Whether `kl` is an estimate from one sample.
        weights: A `WeightRow` for each random weight.
    """

    name: str
    layer: str
    kind: str
    parameters: dict[str, int]
    remark: str = ""
    estimator: str | None = None
    kl: float | None = None
    is_estimated: bool = False
    weights: tuple[WeightRow, ...] = ()


def rows_of(model: keras.Layer) -> list[LayerRow]:
    """Returns a row for each layer with random weights, with noise or with weights.

    Args:
        model: A model that has been built.
    """
    rows = (_row(*entry) for entry in _entries(model, "", set()))
    return [row for row in rows if row is not None]


def names_in(model: keras.Layer) -> dict[int, str]:
    """Returns the name of the row of each layer and cell, by its identity."""
    entries = _entries(model, "", set())
    return {id(part): name for name, *both in entries for part in both}


def random_layers(model: keras.Layer) -> list[tuple[str, RandomWeightsLayer]]:
    """Returns the layers and cells with random weights, with the names of their rows."""
    return [
        (name, cell)
        for name, _, cell in _entries(model, "", set())
        if isinstance(cell, RandomWeightsLayer)
    ]


def _entries(layer: Any, path: str, seen: set[int]) -> Iterator[tuple[str, Any, Any]]:
    """Yields the name, the layer and its cell (or the layer) for each layer, once."""
    if id(layer) in seen:
        return
    seen.add(id(layer))
    cell = getattr(layer, "cell", None) if isinstance(layer, keras.layers.RNN) else None
    if isinstance(cell, keras.Layer) and not hasattr(cell, "cells"):
        # Users know the recurrent layer, but its cell has the weights.
        seen.add(id(cell))
        yield path or layer.name, layer, cell
        inside = private.layers_inside(cell)
    else:
        yield path or layer.name, layer, layer
        inside = (
            layer.layers
            if isinstance(layer, keras.Model)
            else private.layers_inside(layer)
        )
    for part in inside:
        yield from _entries(part, f"{path}/{part.name}".strip("/"), seen)


def _row(name: str, layer: Any, cell: Any) -> LayerRow | None:
    """Returns the row of a layer, or `None` if there is nothing to say about it."""
    inside = {id(v) for part in private.layers_inside(cell) for v in part.weights}
    weights = [v for v in layer.weights if id(v) not in inside]
    # `keras.layers.RNN` itself says nothing about the cell.
    shown = cell if type(layer) is keras.layers.RNN else layer
    common: Any = {
        "name": name,
        "layer": type(shown).__name__,
        "parameters": count_by_group(weights),
    }
    if isinstance(cell, RandomWeightsLayer):
        # With a seed of its own, so that the layer's next noise stays what it was.
        with passes.entered(passes.Pass(stream=Stream([0, 0]))):
            divergence = float(cell.kl_divergence())
        return LayerRow(
            **common,
            kind=RANDOM,
            estimator=cell.estimator.alias,
            kl=divergence,
            is_estimated=cell.estimates_kl,
            weights=tuple(_weight_rows(cell)),
        )
    if isinstance(cell, NoiseLayer) or _draws_noise(cell):
        has_kl = isinstance(cell, NoisyKernelLayer) and cell.has_kl
        common["kl"] = float(cell.negative_log_prior()) if has_kl else None
        return LayerRow(**common, kind=NOISE, remark=_noise(cell))
    if weights:
        return LayerRow(**common, kind=PLAIN, remark=_counterpart(shown))
    return None


def _draws_noise(layer: Any) -> bool:
    # A recurrent layer leaves the noise to its cells, which have rows of their own.
    return noise_of(layer) is not None and not isinstance(layer, keras.layers.RNN)


def _weight_rows(layer: RandomWeightsLayer) -> Iterator[WeightRow]:
    for name, posterior in layer.posteriors.items():
        spread = spread_of(posterior)
        yield WeightRow(
            name=name,
            posterior=repr(posterior),
            prior=_prior(layer.resolved_priors[name]),
            measure=spread.measure,
            quantiles=spread.quantiles,
            sparsity=spread.sparsity,
        )


def _prior(prior: Any) -> str:
    if not isinstance(prior, tfd.Distribution):
        return "none" if prior is None else prior
    given = {
        name: _parameter(value)
        for name, value in prior.parameters.items()
        if name not in _TECHNICAL and value is not None
    }
    arguments = ", ".join(f"{name}={value}" for name, value in given.items())
    return f"{type(prior).__name__}({arguments})"


def _parameter(value: Any) -> str:
    if isinstance(value, tfd.Distribution):
        return type(value).__name__
    array = np.asarray(value)
    if array.dtype.kind not in "iuf":
        return str(value)
    return f"{array.item():.4g}" if array.ndim == 0 else f"array of {array.shape}"


def _noise(layer: Any) -> str:
    """Says what noise a layer draws."""
    if isinstance(layer, NoiseLayer):
        kind = getattr(layer, "structure", getattr(layer, "gates", None))
        law = type(layer.noise).__name__
        return law if kind is None else f"{law}, {kind}"
    amounts = {name: getattr(layer, name, None) for name in NAMES_OF_AMOUNTS}
    shown = [f"{k}={v:g}" for k, v in amounts.items() if isinstance(v, float) and v]
    return ", ".join(shown) or "its own"


def _counterpart(layer: Any) -> str:
    """Names the layer of this library that a layer can become, or says why there is none."""
    found = counterpart_of(layer)
    if found is not None:
        return f"tfvn.layers.{found.__name__}"
    return f"none: {reason_against(layer)}"


def count_by_group(variables: list[Any]) -> dict[str, int]:
    """Returns the number of parameters that are means, scales, and others."""
    counts = {"mean": 0, "scale": 0, "other": 0}
    for variable in variables:
        group = group_of(variable)
        counts[group if group in counts else "other"] += math.prod(variable.shape)
    return counts
