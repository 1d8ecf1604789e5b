"""Measures of models and of their parts, and models made from others."""

from tfvn.analysis.conversion import from_deterministic, to_deterministic
from tfvn.analysis.jensen import JensenGap, jensen_gap
from tfvn.analysis.scale_fitting import fit_scales

__all__ = [
    "JensenGap",
    "fit_scales",
    "from_deterministic",
    "jensen_gap",
    "to_deterministic",
]
