"""Lower learning rates for groups whose metric stops improving."""

import math
import types
from typing import Any

import keras

from tfvn.training.group_optimizer import of_groups
from tfvn.training.learning_rates import require_settable
from tfvn.utils.validation import check_count, check_number

MODES = ("auto", "min", "max")

# Endings of the names of metrics that should rise, and of metrics that should fall.
_RISING = ("elbo", "accuracy", "acc", "auc", "precision", "recall", "_score")
_FALLING = ("loss", "nll", "kl", "error", "entropy", "mse", "mae")


class GroupReduceLROnPlateau(keras.callbacks.Callback):
    """Cuts the learning rate of each group when its own metric stops improving.

    It works like `keras.callbacks.ReduceLROnPlateau`, but each group has its own monitor,
    patience and cooldown, and only the rate of that group is cut: means that have converged
    do not slow down the scales. The model must be compiled with a dictionary of optimizers.
    Like Keras, `tfvn.Model` logs the rates with which an epoch was trained, so that a cut
    shows in the next epoch.

    Args:
        monitors: A dictionary with the name of a logged metric for each group whose rate
            may be cut, such as `{"mean": "val_nll", "scale": "val_kl"}`.
        factor: Factor of the rate at each cut, below 1.
        patience: Number of epochs without improvement before a cut.
        mode: `"min"` or `"max"` if the metric should fall or rise, or `"auto"` to decide by
            its name; or a dictionary with one of these for each group.
        min_delta: The smallest change that counts as an improvement.
        cooldown: Number of epochs after a cut that do not count for the patience.
        min_lr: The smallest rate.
        verbose: Whether to print a line for each cut.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> import tfvn
    >>> model = tfvn.Sequential([keras.Input((4,)), tfvn.MeanFieldDense(1)])
    >>> model.compile({"mean": "adam", "scale": "adam"}, "mse")
    >>> x, y = np.ones((8, 4)), np.ones((8, 1))
    >>> cuts = tfvn.callbacks.GroupReduceLROnPlateau({"mean": "nll", "scale": "kl"})
    >>> history = model.fit(x, y, epochs=2, callbacks=[cuts], verbose=0)
    """

    def __init__(
        self,
        monitors: dict[str, str],
        factor: float = 0.1,
        patience: int = 10,
        mode: str | dict[str, str] = "auto",
        min_delta: float = 1e-4,
        cooldown: int = 0,
        min_lr: float = 0.0,
        verbose: int = 0,
    ):
        super().__init__()
        if not isinstance(monitors, dict) or not monitors:
            raise ValueError(
                "Argument `monitors` must be a dictionary with the name of a metric for "
                f"each group. Received: monitors={monitors!r}"
            )
        modes = mode if isinstance(mode, dict) else dict.fromkeys(monitors, mode)
        if set(modes) != set(monitors) or not set(modes.values()) <= set(MODES):
            raise ValueError(
                f"Argument `mode` must be one of {list(MODES)}, or a dictionary with one of "
                f"these for each of {list(monitors)}. Received: mode={mode!r}"
            )
        self.monitors = dict(monitors)
        self.verbose = verbose
        options = {
            "factor": check_number("factor", factor, above=0, below=1),
            "patience": check_count("patience", patience),
            "min_delta": check_number("min_delta", min_delta),
            "cooldown": check_count("cooldown", cooldown, least=0),
            "min_lr": check_number("min_lr", min_lr, least=0),
        }
        self._plateaus = {
            group: keras.callbacks.ReduceLROnPlateau(
                monitor, mode=_direction(monitor, modes[group]), **options
            )
            for group, monitor in self.monitors.items()
        }

    def set_model(self, model: keras.Model) -> None:
        super().set_model(model)
        optimizer = of_groups(model, self.monitors, type(self).__name__)
        for group, plateau in self._plateaus.items():
            require_settable(optimizer.groups[group], type(self).__name__)
            # Keras's callback reads and sets the rate of its model's optimizer.
            plateau.set_model(types.SimpleNamespace(optimizer=optimizer.groups[group]))

    def on_train_begin(self, logs: Any = None) -> None:
        for plateau in self._plateaus.values():
            plateau.on_train_begin()
            # Keras would take the first value for the best, even if it is NaN.
            plateau.best = math.inf if plateau.mode == "min" else -math.inf

    def get_state(self) -> dict[str, Any]:
        """Returns the state of each group, for a backup."""
        return {
            group: [plateau.best, plateau.wait, plateau.cooldown_counter]
            for group, plateau in self._plateaus.items()
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Restores the state of a run that was interrupted.

        Args:
            state: The result of `get_state`.
        """
        for group, (best, wait, cooldown) in state.items():
            plateau = self._plateaus[group]
            plateau.best, plateau.wait, plateau.cooldown_counter = best, wait, cooldown

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        for group, plateau in self._plateaus.items():
            optimizer = plateau.model.optimizer
            before = float(optimizer.learning_rate.numpy())
            # A copy, because Keras's callback adds a learning rate to the logs.
            plateau.on_epoch_end(epoch, dict(logs or {}))
            after = float(optimizer.learning_rate.numpy())
            if self.verbose and after != before:
                print(
                    f"\nEpoch {epoch + 1}: {type(self).__name__} sets the learning rate "
                    f"of group `{group}` to {after:.4g}."
                )


def _direction(monitor: str, mode: str) -> str:
    """Returns `"min"` or `"max"`, for `"auto"` according to the name of the metric."""
    if mode != "auto":
        return mode
    if monitor.endswith(_FALLING):
        return "min"
    if monitor.endswith(_RISING):
        return "max"
    raise ValueError(
        "It is not clear from the name of the metric whether it should fall or rise; "
        f"pass `mode='min'` or `mode='max'`. Received: monitor={monitor!r}, "
        f"mode={mode!r}"
    )
