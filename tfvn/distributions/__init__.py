"""Distributions that TFP does not have: of priors, of weights and of noise."""

from tfvn.distributions.ard import ARD
from tfvn.distributions.diminishing_student_t import DiminishingStudentT
from tfvn.distributions.exact_horseshoe import ExactHorseshoe
from tfvn.distributions.generalized_hyperbolic import GeneralizedHyperbolic
from tfvn.distributions.inverse_nakagami import InverseNakagami
from tfvn.distributions.k_tied_normal import KTiedNormal
from tfvn.distributions.log_uniform import LogUniform
from tfvn.distributions.log_variance_normal import LogVarianceNormal
from tfvn.distributions.multiplicative_normal import MultiplicativeNormal
from tfvn.distributions.noise import (
    marginal_prior,
    noise_aliases,
    noise_law,
    register_noise,
)
from tfvn.distributions.pruned_weights import PrunedWeights
from tfvn.distributions.rayleigh import Rayleigh
from tfvn.distributions.rotated_normal import RotatedNormal
from tfvn.distributions.scale_mixture import ScaleMixture
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
    "ExactHorseshoe",
    "GeneralizedHyperbolic",
    "InverseNakagami",
    "KTiedNormal",
    "LogUniform",
    "LogVarianceNormal",
    "MultiplicativeNormal",
    "PrunedWeights",
    "Rayleigh",
    "RotatedNormal",
    "ScaleMixture",
    "SpikeAndSlab",
    "ZeroMeanBernoulli",
    "ZeroMeanNormal",
    "ZeroMeanUniform",
    "deserialize",
    "marginal_prior",
    "noise_aliases",
    "noise_law",
    "register",
    "register_noise",
    "serialize",
]
