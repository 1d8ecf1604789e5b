"""Layers with multiplicative noise: dropout, its relatives, and their structures."""

from tfvn.layers.noise.multiplicative_noise import MultiplicativeNoise
from tfvn.layers.noise.noisy_conv2d import NoisyConv2D
from tfvn.layers.noise.noisy_dense import NoisyDense
from tfvn.layers.noise.noisy_lstm import NoisyLSTM, NoisyLSTMCell
from tfvn.layers.noise.noisy_residual import NoisyResidual

__all__ = [
    "MultiplicativeNoise",
    "NoisyConv2D",
    "NoisyDense",
    "NoisyLSTM",
    "NoisyLSTMCell",
    "NoisyResidual",
]
