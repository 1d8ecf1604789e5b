"""The training that all experiments share: resumable after every epoch."""

import time
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

import tfvn
from tfvn.experiments.experiment import Piece

# What a line of progress shows, if it was logged; the first part of the name is enough.
_SHOWN = ("nll", "kl", "accuracy", "lower_bound", "log_alpha")
_NOT_SHOWN = ("kl_weight", "accuracy_one_sample", "accuracy_zero_mean")


def falling(rate: float, data: Any, piece: Piece, **options: Any) -> keras.Optimizer:
    """Returns an Adam whose learning rate falls linearly to zero until training ends.

    Args:
        rate: The first learning rate.
        data: The training data, a pair of arrays.
        piece: The piece, with `epochs` and `batch_size` in its settings.
        **options: Further arguments of `keras.optimizers.Adam`.
    """
    schedule = keras.optimizers.schedules.PolynomialDecay(
        rate, _steps(data, piece), 0.0
    )
    return keras.optimizers.Adam(schedule, **options)


def falling_late(
    rate: float, data: Any, piece: Piece, **options: Any
) -> keras.Optimizer:
    """Returns an Adam whose learning rate falls to zero in the last fifth of the training.

    Args:
        rate: The learning rate before that.
        data: The training data, a pair of arrays.
        piece: The piece, with `epochs` and `batch_size` in its settings.
        **options: Further arguments of `keras.optimizers.Adam`.
    """
    schedule = ConstantThenFalling(rate, _steps(data, piece), share=0.2)
    return keras.optimizers.Adam(schedule, **options)


def _steps(data: Any, piece: Piece) -> int:
    batches = int(np.ceil(len(data[1]) / piece.settings["batch_size"]))
    return piece.settings["epochs"] * batches


@keras.saving.register_keras_serializable("tfvn.experiments")
class ConstantThenFalling(keras.optimizers.schedules.LearningRateSchedule):
    """A learning rate that is constant at first, and then falls linearly to zero.

    Args:
        rate: The constant learning rate.
        steps: Number of steps of the whole training.
        share: The share of the steps in which the rate falls.

    Example:

    >>> from tfvn.experiments.training import ConstantThenFalling
    >>> schedule = ConstantThenFalling(0.1, steps=100, share=0.2)
    >>> [round(float(schedule(step)), 3) for step in (0, 80, 90, 100)]
    [0.1, 0.1, 0.05, 0.0]
    """

    def __init__(self, rate: float, steps: int, share: float):
        self.rate = rate
        self.steps = steps
        self.share = share

    def __call__(self, step: Any) -> Any:
        remaining = 1.0 - keras.ops.cast(step, "float32") / self.steps
        return self.rate * keras.ops.clip(remaining / self.share, 0.0, 1.0)

    def get_config(self) -> dict[str, Any]:
        return {"rate": self.rate, "steps": self.steps, "share": self.share}


def train(
    model: tfvn.Sequential,
    data: Any,
    piece: Piece,
    callbacks: Sequence[keras.callbacks.Callback] = (),
) -> dict[str, list[float]]:
    """Trains a compiled model, and continues where an interrupted training stopped.

    The trained network is saved in the file `piece.model`, for a closer look or for other
    experiments.

    Args:
        model: The model, built from the seed of the piece.
        data: The training data, a pair of arrays.
        piece: The piece, with `epochs` and `batch_size` in its settings.
        callbacks: Callbacks that log figures.

    Returns:
        What was logged, one number for each epoch, including those before an interruption.
    """
    history = _History(piece.settings["epochs"])
    backup = tfvn.callbacks.BackupAndRestore(
        piece.folder, delete_checkpoint=False, seed=piece.seed
    )
    x, y = data
    model.fit(
        x,
        y,
        batch_size=piece.settings["batch_size"],
        epochs=piece.settings["epochs"],
        callbacks=[*callbacks, history, backup],
        verbose=0,
    )
    piece.earlier_seconds += history.earlier_seconds
    piece.model.parent.mkdir(parents=True, exist_ok=True)
    model.save(piece.model)
    return history.logs


class _History(keras.callbacks.Callback):
    """Keeps what is logged, also across interruptions, and prints a line for each epoch."""

    def __init__(self, epochs: int):
        super().__init__()
        self.epochs = epochs
        self.logs: dict[str, list[float]] = {}
        self.seconds = self.earlier_seconds = 0.0

    # `tfvn.callbacks.BackupAndRestore` saves the state of callbacks with these methods.

    def get_state(self) -> dict[str, Any]:
        return {"logs": self.logs, "seconds": self.seconds}

    def set_state(self, state: dict[str, Any]) -> None:
        self.logs = state["logs"]
        self.seconds = self.earlier_seconds = state["seconds"]
        done = len(next(iter(self.logs.values()), []))
        print(f"  continuing after epoch {done}", flush=True)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.start = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        for name, value in (logs or {}).items():
            self.logs.setdefault(name, []).append(float(value))
        seconds = time.perf_counter() - self.start
        self.seconds += seconds
        shown = {
            name: values[-1]
            for name, values in self.logs.items()
            if name.startswith(_SHOWN) and name not in _NOT_SHOWN
        }
        figures = "  ".join(f"{k} {v:.5g}" for k, v in shown.items() if np.isfinite(v))
        print(
            f"  epoch {epoch + 1}/{self.epochs}  {seconds:.1f} s  {figures}", flush=True
        )
