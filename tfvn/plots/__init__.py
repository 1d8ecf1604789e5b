"""Plots of uncertainty. They need matplotlib: `pip install "tfvn[plots]"`.

Every plot takes `ax`, the axes to draw on, and returns the axes. With `ax=None` it makes a
figure in a style of its own. No plot changes matplotlib's global settings.
"""

from tfvn.plots.activations import energy_levels, toy_scatter
from tfvn.plots.classification import (
    entropy_histograms,
    one_draw_accuracies,
    reliability_diagram,
    risk_coverage,
)
from tfvn.plots.lines import curves
from tfvn.plots.noise import noise_variances
from tfvn.plots.posteriors import explained_variance, scale_heat_map
from tfvn.plots.priors import kl_of_priors
from tfvn.plots.regression import coverage, regression_band
from tfvn.plots.training import (
    gradient_snr,
    phase_transition,
    pruning_curve,
    training_curves,
)

__all__ = [
    "coverage",
    "curves",
    "energy_levels",
    "entropy_histograms",
    "explained_variance",
    "gradient_snr",
    "kl_of_priors",
    "noise_variances",
    "one_draw_accuracies",
    "phase_transition",
    "pruning_curve",
    "regression_band",
    "reliability_diagram",
    "risk_coverage",
    "scale_heat_map",
    "toy_scatter",
    "training_curves",
]
