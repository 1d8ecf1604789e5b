"""Optimizers that Keras does not have."""

from tfvn.training.optimizers.ada_bound import AdaBound
from tfvn.training.optimizers.radam import RAdam
from tfvn.training.optimizers.yellow_fin import YellowFin

__all__ = ["AdaBound", "RAdam", "YellowFin"]
