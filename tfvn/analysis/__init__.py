"""Measures of models and of their parts, and conversions of models."""

from tfvn.analysis.jensen import JensenGap, jensen_gap
from tfvn.analysis.laplace import last_layer_laplace

__all__ = ["JensenGap", "jensen_gap", "last_layer_laplace"]
