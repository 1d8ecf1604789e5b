"""Training on the evidence lower bound."""

from tfvn.training import callbacks, learning_rates, losses, optimizers, schedules
from tfvn.training.groups import variable_groups
from tfvn.training.model import Model, Sequential

__all__ = [
    "Model",
    "Sequential",
    "callbacks",
    "learning_rates",
    "losses",
    "optimizers",
    "schedules",
    "variable_groups",
]
