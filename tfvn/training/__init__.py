"""Training on the evidence lower bound."""

from tfvn.training import callbacks, learning_rates, losses, optimizers, schedules
from tfvn.training.groups import variable_groups
from tfvn.training.lower_bound import evidence_lower_bound
from tfvn.training.model import Model, Sequential

__all__ = [
    "Model",
    "Sequential",
    "callbacks",
    "evidence_lower_bound",
    "learning_rates",
    "losses",
    "optimizers",
    "schedules",
    "variable_groups",
]
