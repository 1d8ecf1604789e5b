"""The evidence lower bound of a training run: its parts, its scale, and its log."""

from typing import Any

import keras
import tensorflow as tf

from tfvn.training import schedules
from tfvn.training.state import TrainingState, read
from tfvn.training.train_size import ADVICE, TrainingData

Tensor = Any

# Names in the history that a Keras model does not have.
NAMES = ("nll", "kl", "kl_weight", "elbo")


class ELBO:
    """The settings and the state of a model's loss.

    Args:
        schedule: The weight of the KL.
        train_size: Number of training examples, or `None` to find it from the data.
        state: The progress of the training.
    """

    def __init__(
        self,
        schedule: schedules.KLSchedule,
        train_size: int | None,
        state: TrainingState,
    ):
        self.schedule = schedule
        self.given_size = train_size
        self.state = state
        self.tracker = ELBOTracker(state.size)
        if train_size is not None:
            state.size.assign(train_size)

    @property
    def size(self) -> int | None:
        """The number of training examples, or `None` if it is not known."""
        return read(self.state.size) or None

    @property
    def steps(self) -> int | None:
        """The number of batches in an epoch, or `None` if it is not known."""
        return read(self.state.steps) or None

    def start(self, data: TrainingData, has_kl: bool) -> None:
        """Stores the size of the data of a run, and raises if the data cannot be used.

        Args:
            data: The data that `fit` trains on.
            has_kl: Whether a KL is part of the loss, so that the size is needed.
        """
        if data.size == 0:
            raise ValueError(
                "The training data must have at least one example, not counting those "
                "that `validation_split` sets aside. Received: none"
            )
        size = self.given_size or data.size
        if size is None and has_kl:
            raise ValueError(
                "The KL must be divided by the number of training examples, which "
                f"`fit` can't find from these data; {ADVICE}. Received: "
                f"x={type(data.x).__name__} of unknown length"
            )
        if data.steps is None and has_kl:
            self._check_epochs_are_known(
                f"x={type(data.x).__name__} of unknown length and steps_per_epoch=None"
            )
        self.state.start_run(size, data.steps)

    def factor(self, weight: Tensor) -> Tensor | None:
        """Returns the factor of a KL in the loss, or `None` if it is not known.

        Args:
            weight: The weight of the KL.
        """
        return None if self.size is None else weight / self.state.size.value

    def weight(self, training: bool) -> Tensor:
        """Returns the weight of the KL in the current step.

        Args:
            training: Whether the step is a training step.
        """
        if self.schedule.needs_steps_per_epoch:
            if training and self.steps is None:
                self._check_epochs_are_known("no number of batches per epoch")
            step = self.state.epoch_step()
        else:
            step = tf.cast(self.state.batches.value, tf.float32)
        return tf.cast(self.schedule(step, self.state.steps.value), tf.float32)

    def _check_epochs_are_known(self, received: str) -> None:
        if self.schedule.needs_steps_per_epoch:
            name = type(self.schedule).__name__
            raise ValueError(
                f"The schedule `{name}` depends on the number of batches in an epoch, "
                "which is not known here; pass a number of batches, "
                f"`{name}(steps=...)`, or pass `steps_per_epoch` to `fit`. Received: "
                f"{received}"
            )


class ELBOTracker(keras.metrics.Metric):
    """Averages the parts of the loss: `nll`, `kl`, `kl_weight` and `elbo`.

    This is one metric instead of four, because each costs several ops in every step. It
    is not in `model.metrics`, because users loop over those.

    Args:
        size: Variable with the number of training examples.
    """

    def __init__(self, size: keras.Variable, name: str = "elbo"):
        super().__init__(name=name)
        self._size = [size]  # in a list of another's, so that it is not reset
        # They have the type of the size, whatever `keras.config.floatx` is.
        self.sums = self.add_variable((3,), "zeros", dtype=size.dtype, name="sums")
        self.count = self.add_variable((), "zeros", dtype=size.dtype, name="count")

    def update_state(self, values: Tensor, sample_weight: Tensor) -> None:
        """Adds the `nll`, `kl` and `kl_weight` of a batch.

        Args:
            values: The three, stacked.
            sample_weight: Number of examples in the batch.
        """
        size = tf.cast(sample_weight, tf.float32)
        self.sums.assign_add(size * tf.cast(values, tf.float32))
        self.count.assign_add(size)

    def result(self) -> dict[str, Tensor]:
        means = tf.math.divide_no_nan(self.sums.value, self.count.value)
        nll, kl, weight = tf.unstack(means)
        per_example = tf.math.divide_no_nan(kl, self._size[0].value)
        values = (nll, kl, weight, -(nll + per_example))
        return dict(zip(NAMES, values, strict=True))

    def reset_state(self) -> None:
        self.sums.assign(tf.zeros((3,)))
        self.count.assign(0.0)
