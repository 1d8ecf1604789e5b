"""The checks, logs and advice of `tfvn.Model.fit`."""

import math
import warnings
from typing import Any

import keras
import numpy as np

from tfvn.layers.base import stochastic_layers
from tfvn.layers.weighted_kl import weighted_layers
from tfvn.training import elbo, schedules
from tfvn.training.callbacks.backup import BackupAndRestore
from tfvn.training.group_optimizer import GroupOptimizer, of_model
from tfvn.training.state import read

# The number of steps of an epoch at which the KL weight is checked.
_CHECKED_STEPS = 20

# In the first epoch, the KL of an example may reach this many times the NLL, or this
# many nats, without a warning.
_KL_TO_NLL = 5.0
_KL_IN_NATS = 5.0

# Whether larger or smaller values of the parts of the bound are better.
_MODES = {"elbo": "max", "nll": "min", "kl": "min"}


class TrainingRun(keras.callbacks.Callback):
    """Checks the schedule, logs the learning rate of each group, and gives advice.

    Args:
        bound: The bound that is trained on.
    """

    def __init__(self, bound: elbo.ELBO):
        super().__init__()
        self.bound = bound
        self._is_first_epoch = read(bound.state.batches) == 0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        first = read(self.bound.state.batches)
        steps = self.bound.steps or 1
        checked = np.unique(
            np.linspace(first, first + steps - 1, _CHECKED_STEPS).astype(int)
        )
        schedules.check(self.bound.schedule, checked, self.bound.steps or 0)

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
        if self._is_first_epoch and set(elbo.NAMES) <= set(logs):
            self._advise(logs)
        self._is_first_epoch = False

    def _advise(self, logs: dict[str, Any]) -> None:
        size = self.bound.size
        if size is None:
            return
        nll = float(logs["nll"])
        # The logged KL has no weight. That of the loss is at most this.
        weight = float(logs["kl_weight"]) * self._largest_weight()
        kl = weight * float(logs["kl"]) / size
        if kl > max(_KL_IN_NATS, _KL_TO_NLL * abs(nll)):
            warnings.warn(
                "The KL is much larger than the negative log-likelihood, so that the "
                "model will learn little more than the prior; give the KL less weight "
                "at first with "
                "`compile(kl_schedule=tfvn.schedules.LinearAnnealing(epochs=...))`, or "
                "use a smaller model or more data. Received: in the first epoch, a KL "
                f"of {kl:.3g} nats per example and a negative log-likelihood of "
                f"{nll:.3g}",
                stacklevel=2,
            )

    def _largest_weight(self) -> float:
        weights = [x.kl_weight for x in weighted_layers(self.model) if x.has_kl]
        return max(map(float, map(keras.ops.convert_to_numpy, weights)), default=0.0)


def with_own_callbacks(
    callbacks: Any, model: keras.Model, bound: elbo.ELBO
) -> tuple[Any, list[BackupAndRestore]]:
    """Returns the callbacks of a run, with those that a `tfvn.Model` adds.

    Learning rates are logged first, before other callbacks lower them for the next epoch,
    so that the log has the rates of the epoch. Backups come last: what other callbacks do
    at the end of an epoch belongs to the epoch, and what they do when training begins
    would overwrite what a backup restores.

    Args:
        callbacks: The `callbacks` of `fit`.
        model: The model.
        bound: The bound that is trained on.

    Returns:
        The callbacks in the form in which the user passed them, and the backups among
        them.
    """
    run = TrainingRun(bound)
    is_list = isinstance(callbacks, keras.callbacks.CallbackList)
    given = callbacks.callbacks if is_list else keras.tree.flatten(callbacks or [])
    backups = [c for c in given if isinstance(c, BackupAndRestore)]
    others = [c for c in given if not isinstance(c, BackupAndRestore | TrainingRun)]
    for backup in backups:
        backup.others = others
    for callback in others:
        _set_mode(callback)
    ordered = [run, *others, *backups]
    if not is_list:
        return ordered, backups
    run.set_model(model)
    callbacks.callbacks = ordered
    return callbacks, backups


def _set_mode(callback: Any) -> None:
    """Tells a callback whether a part of the bound that it monitors should rise.

    `keras.callbacks.EarlyStopping` and similar callbacks know this only for compiled
    metrics.
    """
    monitor = getattr(callback, "monitor", None)
    if isinstance(monitor, str) and getattr(callback, "mode", None) == "auto":
        callback.mode = _MODES.get(monitor.removeprefix("val_"), "auto")


def check_path_gradient(model: keras.Model) -> None:
    """Raises if `kl_gradient="path"` affects no KL of a model.

    Args:
        model: The model.
    """
    if not any(layer.shares_kl_sample for layer in stochastic_layers(model)):
        raise ValueError(
            "With `kl_gradient='path'` the model must have a layer that estimates its "
            "KL from the weights of the forward pass; use `kl_method='monte_carlo'` "
            "and `estimator='weights'` in at least one layer. Received: "
            "kl_gradient='path' and no such layer"
        )


def warn_of_sums(loss: Any) -> None:
    """Warns of losses that are summed over a batch, because the KL is divided by N.

    Args:
        loss: The `loss` of `compile`.
    """
    for part in keras.tree.flatten(loss):
        reduction = getattr(part, "reduction", None)
        if isinstance(part, keras.losses.Loss) and reduction == "sum":
            warnings.warn(
                "A loss that is summed over a batch grows with the batch size, so that "
                "the KL, which is divided by the number of training examples, counts "
                "too little beside it; use `reduction='sum_over_batch_size'`. "
                f"Received: loss {part.name!r} with reduction={reduction!r}",
                stacklevel=3,
            )
