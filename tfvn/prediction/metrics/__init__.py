"""Metrics of uncertainty, as `keras.metrics.Metric`."""

from tfvn.prediction.metrics.calibration import BrierScore, ExpectedCalibrationError
from tfvn.prediction.metrics.ensembles import (
    EnsembleAccuracy,
    EnsembleNLL,
    MutualInformation,
    PredictiveEntropy,
)
from tfvn.prediction.metrics.ranking import AURC, FPR95, OODAUROC

__all__ = [
    "AURC",
    "FPR95",
    "OODAUROC",
    "BrierScore",
    "EnsembleAccuracy",
    "EnsembleNLL",
    "ExpectedCalibrationError",
    "MutualInformation",
    "PredictiveEntropy",
]
