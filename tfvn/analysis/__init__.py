"""Measures of models and of their parts, and changes of trained models."""

from tfvn.analysis.jensen import JensenGap, jensen_gap
from tfvn.analysis.spectrum import explained_variance
from tfvn.analysis.tying import tie
from tfvn.analysis.zero_mean import ZeroMeanBound, to_variance, zero_mean_bound

__all__ = [
    "JensenGap",
    "ZeroMeanBound",
    "explained_variance",
    "jensen_gap",
    "tie",
    "to_variance",
    "zero_mean_bound",
]
