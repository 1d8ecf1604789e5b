"""Stochastic and Bayesian layers for Keras 3 and TensorFlow."""

from importlib.metadata import version as _version

from tfvn import (
    datasets,
    distributions,
    estimators,
    kernel,
    kl,
    layers,
    posteriors,
    priors,
    random,
    support,
)
from tfvn.layers import (
    MeanFieldConv2D,
    MeanFieldDense,
    VarianceConv2D,
    VarianceDense,
)

__version__ = _version("tfvn")

__all__ = [
    "MeanFieldConv2D",
    "MeanFieldDense",
    "VarianceConv2D",
    "VarianceDense",
    "__version__",
    "datasets",
    "distributions",
    "estimators",
    "kernel",
    "kl",
    "layers",
    "posteriors",
    "priors",
    "random",
    "support",
]
