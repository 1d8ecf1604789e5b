"""Layers with a random kernel: the generic ones, and presets of them by name."""

from tfvn.layers.base import StochasticLayer
from tfvn.layers.convolutional import Conv2D, MeanFieldConv2D, VarianceConv2D
from tfvn.layers.dense import Dense, MeanFieldDense, VarianceDense
from tfvn.layers.presets import Preset

__all__ = [
    "Conv2D",
    "Dense",
    "MeanFieldConv2D",
    "MeanFieldDense",
    "Preset",
    "StochasticLayer",
    "VarianceConv2D",
    "VarianceDense",
]
