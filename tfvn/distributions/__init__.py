"""Distributions that TFP does not have: priors, and the laws of zero-mean weights."""

from tfvn.distributions.ard import ARD
from tfvn.distributions.diminishing_student_t import DiminishingStudentT
from tfvn.distributions.k_tied_normal import KTiedNormal
from tfvn.distributions.log_uniform import LogUniform
from tfvn.distributions.log_variance_normal import LogVarianceNormal
from tfvn.distributions.multiplicative_normal import MultiplicativeNormal
from tfvn.distributions.serialization import deserialize, register, serialize
from tfvn.distributions.spike_and_slab import SpikeAndSlab
from tfvn.distributions.zero_mean import (
    ZeroMeanBernoulli,
    ZeroMeanNormal,
    ZeroMeanUniform,
)

__all__ = [
    "ARD",
    "DiminishingStudentT",
    "KTiedNormal",
    "LogUniform",
    "LogVarianceNormal",
    "MultiplicativeNormal",
    "SpikeAndSlab",
    "ZeroMeanBernoulli",
    "ZeroMeanNormal",
    "ZeroMeanUniform",
    "deserialize",
    "register",
    "serialize",
]
