"""What a posterior, a prior, an estimator or a layer from outside the library needs.

The parts themselves are registered with `tfvn.posteriors.register`,
`tfvn.priors.register` and `tfvn.estimators.register`, each with its `support`: a `Cell`
for the laws of weights that it combines with, and `ANY` for all others.

Example:

>>> from tfvn.extending import ANY, EXACT, refused
>>> support = {"bernoulli": refused("half a sign is no sign"), ANY: EXACT}
>>> support["bernoulli"].supported
False
"""

from tfvn.kernel import KernelSpec, LinearOp
from tfvn.random import SeedGenerator
from tfvn.support import (
    ANY,
    CLOSED_FORM,
    CONSTANT,
    EXACT,
    MOMENT_MATCHING,
    MONTE_CARLO,
    Cell,
    refused,
)

__all__ = [
    "ANY",
    "CLOSED_FORM",
    "CONSTANT",
    "EXACT",
    "MOMENT_MATCHING",
    "MONTE_CARLO",
    "Cell",
    "KernelSpec",
    "LinearOp",
    "SeedGenerator",
    "refused",
]
