"""How noise reaches the output: the estimators.

An estimator gets the terms whose sum is the layer's output, each a linear op of an
input and of a kernel with a posterior, and returns that sum with noise in it.
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
