"""Predictions with uncertainty, and metrics for them."""

from tfvn.prediction import metrics
from tfvn.prediction.distribution import PredictiveDistribution
from tfvn.prediction.drawn_model import sample_model
from tfvn.prediction.ensemble import ensemble_predict, mean_predict, zero_mean_predict
from tfvn.prediction.result import EnsemblePrediction

__all__ = [
    "EnsemblePrediction",
    "PredictiveDistribution",
    "ensemble_predict",
    "mean_predict",
    "metrics",
    "sample_model",
    "zero_mean_predict",
]
