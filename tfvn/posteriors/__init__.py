"""Posteriors: the distributions over a kernel that training, or a conversion, fits."""

from tfvn.posteriors.base import Posterior, get, register, serialize
from tfvn.posteriors.fitted import DiagonalNormal, FullNormal, MatrixNormal
from tfvn.posteriors.gaussian_dropout import GaussianDropout
from tfvn.posteriors.k_tied import KTied
from tfvn.posteriors.mean_field import MeanField
from tfvn.posteriors.pruned import Pruned
from tfvn.posteriors.variance import Variance

__all__ = [
    "DiagonalNormal",
    "FullNormal",
    "GaussianDropout",
    "KTied",
    "MatrixNormal",
    "MeanField",
    "Posterior",
    "Pruned",
    "Variance",
    "get",
    "register",
    "serialize",
]
