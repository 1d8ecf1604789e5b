"""Measures of models and of their parts, and models made from models."""

from tfvn.analysis.curves import PruningCurve, pruning_curve
from tfvn.analysis.jensen import JensenGap, jensen_gap
from tfvn.analysis.pruning import Sparsity, prune, sparsity

__all__ = [
    "JensenGap",
    "PruningCurve",
    "Sparsity",
    "jensen_gap",
    "prune",
    "pruning_curve",
    "sparsity",
]
