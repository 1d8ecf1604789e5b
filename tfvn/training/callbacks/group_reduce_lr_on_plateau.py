"""Lower learning rates for groups whose metric stops improving."""

import dataclasses
import math
import warnings
from typing import Any

import keras
import numpy as np

from tfvn.training.group_optimizer import GroupOptimizer, of_model
from tfvn.training.learning_rates import require_settable
from tfvn.utils.validation import check_count, check_number

MODES = ("auto", "min", "max")

# Endings of the names of metrics that should rise, and of metrics that should fall.
_RISING = ("elbo", "accuracy", "acc", "auc", "precision", "recall", "_score")
_FALLING = ("loss", "nll", "kl", "error", "entropy", "mse", "mae")


@dataclasses.dataclass
class _Plateau:
    """The state of one group: its best value, and epochs to wait."""

    monitor: str
    sign: float  # 1 or -1: `sign * value` is better if it is smaller
    best: float = math.inf
    wait: int = 0
    cooldown: int = 0

    def is_over(self, value: float, min_delta: float, patience: int) -> bool:
        """Records the value of an epoch; returns whether the patience is used up."""
        # In the same order as `keras.callbacks.ReduceLROnPlateau`, which counts the last
        # epoch of a cooldown.
        if self.cooldown > 0:
            self.cooldown -= 1
            self.wait = 0
        if self.sign * value + min_delta < self.best:
            self.best = self.sign * value
            self.wait = 0
        elif self.cooldown == 0:
            self.wait += 1
        return self.wait >= patience


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
        self.factor = check_number("factor", factor, above=0, below=1)
        self.patience = check_count("patience", patience)
        self.mode = mode
        self.min_delta = abs(check_number("min_delta", min_delta))
        self.cooldown = check_count("cooldown", cooldown, least=0)
        self.min_lr = check_number("min_lr", min_lr, least=0)
        self.verbose = verbose
        self._signs = {g: _sign(m, modes[g]) for g, m in self.monitors.items()}
        self._reset()

    def _reset(self) -> None:
        self._plateaus = {
            group: _Plateau(monitor, self._signs[group])
            for group, monitor in self.monitors.items()
        }

    def set_model(self, model: keras.Model) -> None:
        super().set_model(model)
        optimizer = of_model(model)
        if not isinstance(optimizer, GroupOptimizer):
            raise ValueError(
                "`GroupReduceLROnPlateau` needs an optimizer for each group; compile a "
                "`tfvn.Model` with a dictionary of optimizers. "
                f"Received: optimizer={type(optimizer).__name__}"
            )
        for group in self.monitors:
            if group not in optimizer.groups:
                raise ValueError(
                    "The keys of `monitors` must be groups that have their own optimizer, "
                    f"some of {list(optimizer.groups)}. "
                    f"Received: monitors={self.monitors}"
                )
            require_settable(optimizer.groups[group], type(self).__name__)

    def on_train_begin(self, logs: Any = None) -> None:
        self._reset()

    def get_state(self) -> dict[str, Any]:
        """Returns the state of each group, for a backup."""
        return {
            group: [plateau.best, plateau.wait, plateau.cooldown]
            for group, plateau in self._plateaus.items()
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Restores the state of a run that was interrupted.

        Args:
            state: The result of `get_state`.
        """
        for group, (best, wait, cooldown) in state.items():
            plateau = self._plateaus[group]
            plateau.best, plateau.wait, plateau.cooldown = best, wait, cooldown

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        logs = logs or {}
        for group, plateau in self._plateaus.items():
            if plateau.monitor not in logs:
                warnings.warn(
                    f"The learning rate of group `{group}` depends on the metric "
                    f"`{plateau.monitor}`, which is not available. Received: "
                    f"metrics {list(logs)}",
                    stacklevel=2,
                )
                continue
            value = float(logs[plateau.monitor])
            is_over = plateau.is_over(value, self.min_delta, self.patience)
            if is_over and self._cut(group, epoch):
                plateau.cooldown = self.cooldown
                plateau.wait = 0

    def _cut(self, group: str, epoch: int) -> bool:
        optimizer = of_model(self.model).groups[group]
        rate = float(keras.ops.convert_to_numpy(optimizer.learning_rate))
        # The rate is a float32, so the limit is rounded to float32 as well.
        if rate <= np.float32(self.min_lr):
            return False
        optimizer.learning_rate = max(rate * self.factor, self.min_lr)
        if self.verbose:
            print(
                f"\nEpoch {epoch + 1}: {type(self).__name__} sets the learning rate of "
                f"group `{group}` to {float(optimizer.learning_rate.numpy()):.4g}."
            )
        return True


def _sign(monitor: str, mode: str) -> float:
    if mode == "min" or (mode == "auto" and monitor.endswith(_FALLING)):
        return 1.0
    if mode == "max" or (mode == "auto" and monitor.endswith(_RISING)):
        return -1.0
    raise ValueError(
        "The name of the metric does not tell whether it should fall or rise; pass "
        f"`mode='min'` or `mode='max'`. Received: monitor={monitor!r}, mode={mode!r}"
    )
