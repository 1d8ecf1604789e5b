"""What `tfvn.Model.fit` does beside training: checks and records."""

import math
import warnings
from typing import Any

import keras
import numpy as np

from tfvn.training import schedules
from tfvn.training.elbo import ELBO
from tfvn.training.group_optimizer import GroupOptimizer, of_model

# How many steps of an epoch the KL's weight is checked at.
_CHECKED_STEPS = 20


class TrainingRun(keras.callbacks.Callback):
    """Checks the schedule, and logs the learning rate of each group.

    Args:
        elbo: The bound that is trained on.
    """

    def __init__(self, elbo: ELBO):
        super().__init__()
        self.elbo = elbo

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        first = int(self.model.optimizer.iterations.numpy())
        steps = self.elbo.steps or 1
        checked = np.unique(
            np.linspace(first, first + steps - 1, _CHECKED_STEPS).astype(int)
        )
        schedules.check(self.elbo.schedule, checked, steps)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        logs = {} if logs is None else logs
        optimizer = of_model(self.model)
        if isinstance(optimizer, GroupOptimizer):
            for group, rate in optimizer.learning_rates().items():
                logs[f"learning_rate_{group}"] = rate
        if math.isnan(float(logs.get("loss", 0.0))):
            warnings.warn(
                "The loss is NaN: look for NaN or infinite values in the data, or lower "
                f"the learning rate. Received: loss=nan in epoch {epoch + 1}",
                stacklevel=2,
            )
