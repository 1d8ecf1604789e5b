"""Distributions that TFP does not have: priors, and the laws of zero-mean weights."""

from tfvn.distributions.ard import ARD
from tfvn.distributions.log_uniform import LogUniform
from tfvn.distributions.serialization import deserialize, register, serialize
from tfvn.distributions.zero_mean import (
    ZeroMeanBernoulli,
    ZeroMeanNormal,
    ZeroMeanUniform,
)

__all__ = [
    "ARD",
    "LogUniform",
    "ZeroMeanBernoulli",
    "ZeroMeanNormal",
    "ZeroMeanUniform",
    "deserialize",
    "register",
    "serialize",
]
