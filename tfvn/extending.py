"""Names for posteriors, priors, estimators and layers from outside the library.

Register such a part with `tfvn.posteriors.register`, `tfvn.priors.register` or
`tfvn.estimators.register`, and pass its `support`: a `Cell` for each law of weights, and
one for `ANY`, which covers all others.

Example:

>>> from tfvn.extending import ANY, EXACT, refused
>>> support = {"bernoulli": refused("the mean of two signs may be zero"), ANY: EXACT}
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
