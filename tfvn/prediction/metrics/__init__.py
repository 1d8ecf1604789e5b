"""Metrics of uncertainty, as `keras.metrics.Metric`."""

from tfvn.prediction.metrics.calibration import BrierScore, ExpectedCalibrationError
from tfvn.prediction.metrics.ensembles import (
    EnsembleAccuracy,
    EnsembleNLL,
    MutualInformation,
    PredictiveEntropy,
)
from tfvn.prediction.metrics.ranking import AURC, FPR95, OODAUROC
from tfvn.prediction.metrics.regression import (
    CRPS,
    IntervalCoverage,
    IntervalWidth,
    PredictiveNLL,
    QuantileCalibrationError,
)

__all__ = [
    "AURC",
    "CRPS",
    "FPR95",
    "OODAUROC",
    "BrierScore",
    "EnsembleAccuracy",
    "EnsembleNLL",
    "ExpectedCalibrationError",
    "IntervalCoverage",
    "IntervalWidth",
    "MutualInformation",
    "PredictiveEntropy",
    "PredictiveNLL",
    "QuantileCalibrationError",
]
