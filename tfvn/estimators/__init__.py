"""How noise reaches the output: the estimators.

An estimator gets the terms whose sum is the layer's output, each a linear op of an
input and of a kernel with a posterior, and returns that sum with noise in it.
"""

from tfvn.estimators.base import (
    Estimate,
    Estimator,
    Held,
    Term,
    get,
    register,
    registry,
    serialize,
)
from tfvn.estimators.flipout import Flipout
from tfvn.estimators.local import LocalReparameterization, safe_sqrt
from tfvn.estimators.sums import add
from tfvn.estimators.weights import MeanWeights, WeightSampling

__all__ = [
    "Estimate",
    "Estimator",
    "Flipout",
    "Held",
    "LocalReparameterization",
    "MeanWeights",
    "Term",
    "WeightSampling",
    "add",
    "get",
    "register",
    "registry",
    "safe_sqrt",
    "serialize",
]
