"""What is learned about a kernel: the posteriors."""

from tfvn.posteriors.base import Posterior, get, register, serialize
from tfvn.posteriors.gaussian_dropout import GaussianDropout
from tfvn.posteriors.k_tied import KTied
from tfvn.posteriors.mean_field import MeanField
from tfvn.posteriors.variance import Variance

__all__ = [
    "GaussianDropout",
    "KTied",
    "MeanField",
    "Posterior",
    "Variance",
    "get",
    "register",
    "serialize",
]
