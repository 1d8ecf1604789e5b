"""Estimators, which sample the outputs of layers with random weights.

An estimator gets the terms of the layer's output, and returns their sum with noise. Each
term is a linear op of an input and of a kernel with a posterior.
"""

from tfvn.estimators.base import (
    Estimate,
    Estimator,
    Term,
    get,
    register,
    serialize,
)
from tfvn.estimators.flipout import Flipout
from tfvn.estimators.local import LocalReparameterization
from tfvn.estimators.weights import MeanWeights, WeightSampling

__all__ = [
    "Estimate",
    "Estimator",
    "Flipout",
    "LocalReparameterization",
    "MeanWeights",
    "Term",
    "WeightSampling",
    "get",
    "register",
    "serialize",
]
