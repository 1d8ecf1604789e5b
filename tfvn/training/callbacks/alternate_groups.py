"""Training one group of variables at a time."""

from typing import Any

import keras
import tensorflow as tf

from tfvn.training.callbacks.steps import Guard
from tfvn.training.group_optimizer import of_groups
from tfvn.utils.validation import check_count

Tensor = Any


class AlternateGroups(Guard):
    """Trains one group of variables at a time, in turn.

    During the turn of a group, the variables of the other groups and the state of their
    optimizers stay exactly the same. Groups that are not in `groups` are trained all the
    time. The model must be compiled with a dictionary of optimizers.

    Args:
        epochs: Number of epochs in a turn: a number, or a dictionary with a number for each
            group.
        groups: The groups that take turns, in this order.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> import tfvn
    >>> model = tfvn.Sequential([keras.Input((4,)), tfvn.MeanFieldDense(1)])
    >>> model.compile({"mean": "adam", "scale": "adam"}, "mse")
    >>> x, y = np.ones((8, 4)), np.ones((8, 1))
    >>> turns = tfvn.callbacks.AlternateGroups(epochs={"mean": 2, "scale": 1})
    >>> history = model.fit(x, y, epochs=3, callbacks=[turns], verbose=0)
    """

    def __init__(
        self,
        epochs: int | dict[str, int] = 1,
        groups: tuple[str, ...] = ("mean", "scale"),
    ):
        super().__init__()
        lengths = epochs if isinstance(epochs, dict) else dict.fromkeys(groups, epochs)
        if set(lengths) != set(groups):
            raise ValueError(
                "Argument `epochs` must be a positive integer, or a dictionary with a "
                f"positive integer for each of {list(groups)}. Received: epochs={epochs!r}"
            )
        lengths = {
            group: check_count(
                f"epochs[{group!r}]" if lengths is epochs else "epochs", n
            )
            for group, n in lengths.items()
        }
        self.epochs = epochs
        self.groups = tuple(groups)
        # The group of each epoch of a cycle.
        self._turns = [group for group in self.groups for _ in range(lengths[group])]

    def set_model(self, model: keras.Model) -> None:
        super().set_model(model)
        self._optimizer = of_groups(model, self.groups, type(self).__name__)
        if tf.distribute.has_strategy() or (
            model.distribute_strategy.num_replicas_in_sync > 1
        ):
            raise ValueError(
                "`AlternateGroups` does not work with several replicas, because their "
                "updates cannot be switched off; train on one replica. Received: "
                f"{model.distribute_strategy.num_replicas_in_sync} replicas"
            )
        if not self._optimizer.has_switches:
            self._optimizer.add_switches()
            model.train_function = None  # so that the step is traced with the switches

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        turn = self._turns[epoch % len(self._turns)]
        for group in self.groups:
            self._optimizer.switch(group, on=group == turn)

    def undo(self, in_time: bool) -> None:
        for group in self.groups:
            self._optimizer.switch(group, on=True)
