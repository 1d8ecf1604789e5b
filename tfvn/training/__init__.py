"""Training on the evidence lower bound."""

from tfvn.training import callbacks, learning_rates, losses, optimizers, schedules
from tfvn.training.groups import variable_groups
from tfvn.training.lower_bound import evidence_lower_bound
from tfvn.training.model import Model, Sequential
from tfvn.training.workers import multi_worker_strategy

__all__ = [
    "Model",
    "Sequential",
    "callbacks",
    "evidence_lower_bound",
    "learning_rates",
    "losses",
    "multi_worker_strategy",
    "optimizers",
    "schedules",
    "variable_groups",
]
