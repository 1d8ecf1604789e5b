"""Measures of models and of their parts, and changes of trained models."""

from tfvn.analysis.conversion import from_deterministic, to_deterministic
from tfvn.analysis.curves import PruningCurve, pruning_curve
from tfvn.analysis.jensen import JensenGap, jensen_gap
from tfvn.analysis.laplace import last_layer_laplace
from tfvn.analysis.pruning import Sparsity, prune, sparsity
from tfvn.analysis.scale_fitting import fit_scales
from tfvn.analysis.spectrum import explained_variance
from tfvn.analysis.summaries import Summary, summary
from tfvn.analysis.tying import tie
from tfvn.analysis.zero_mean import ZeroMeanBound, to_variance, zero_mean_bound

__all__ = [
    "JensenGap",
    "PruningCurve",
    "Sparsity",
    "Summary",
    "ZeroMeanBound",
    "explained_variance",
    "fit_scales",
    "from_deterministic",
    "jensen_gap",
    "last_layer_laplace",
    "prune",
    "pruning_curve",
    "sparsity",
    "summary",
    "tie",
    "to_deterministic",
    "to_variance",
    "zero_mean_bound",
]
