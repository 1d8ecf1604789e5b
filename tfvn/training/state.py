"""The progress of a training, which a model keeps besides its weights and optimizer."""

import math
from typing import Any

import keras
import tensorflow as tf

Tensor = Any


class TrainingState(keras.metrics.Metric):
    """The progress of the training, and the number of training examples.

    It belongs to the model and not to `compile`, so that compiling again forgets nothing.
    It is a metric only because Keras saves the state of metrics and does not count it as
    parameters; no epoch resets it.

    Attributes:
        batches: Variable with the number of all batches trained on so far. It counts
            batches, not updates of the optimizer, because gradient accumulation and loss
            scaling skip updates.
        size: Variable with the number of training examples; 0 if it is not known.
        steps: Variable with the number of batches of an epoch; 0 if it is not known.
    """

    def __init__(self) -> None:
        super().__init__(name="training_state")
        # Replicas of a strategy take the same steps.
        self.batches = self._counter("batches", "int64")
        self.size = self._counter("train_size", "float32")
        self.steps = self._counter("steps_per_epoch", "float32")
        # Where the current run started, in batches and in epochs.
        self._first_batch = self._counter("first_batch", "int64")
        self._first_epoch = self._counter("first_epoch", "int64")

    def _counter(self, name: str, dtype: str) -> keras.Variable:
        return self.add_variable(
            (), "zeros", dtype, aggregation="only_first_replica", name=name
        )

    def start_run(self, size: int | None, steps: int | None) -> None:
        """Stores the size of the data of a run of `fit`.

        Args:
            size: Number of training examples, `None` if it is not known.
            steps: Number of batches in an epoch, `None` if it is not known.
        """
        # An interrupted epoch counts as one, because the next batch starts a new epoch.
        self._first_epoch.assign(math.ceil(self.epochs - 1e-6))
        self._first_batch.assign(self.batches.value)
        self.size.assign(size or 0)
        self.steps.assign(steps or 0)

    @property
    def epochs(self) -> float:
        """The number of epochs that the model has been trained for, maybe with a fraction."""
        batches = read(self.batches) - read(self._first_batch)
        steps = read(self.steps)
        return read(self._first_epoch) + (batches / steps if steps else 0.0)

    def epoch_step(self) -> Tensor:
        """Returns the step as if all epochs had as many steps as those of this run."""
        before = tf.cast(self._first_epoch.value, tf.float32) * self.steps.value
        since = self.batches.value - self._first_batch.value
        return before + tf.cast(since, tf.float32)

    def count_batch(self) -> None:
        """Counts one training batch."""
        self.batches.assign_add(1)

    def update_state(self, *args: Any, **kwargs: Any) -> None:
        """Does nothing: `count_batch` counts."""

    def reset_state(self) -> None:
        """Does nothing: a new epoch continues the training."""

    def result(self) -> Tensor:
        return self.batches.value

    # Saved by name, so that older files, without variables that were added later, still
    # load.

    def save_own_variables(self, store: Any) -> None:
        for variable in self.variables:
            store[variable.name] = keras.ops.convert_to_numpy(variable)

    def load_own_variables(self, store: Any) -> None:
        # What is already known about the current data stays; the file may be about
        # other data.
        about_data = [v for v in (self.size, self.steps) if read(v)]
        # A file of a stock model, or of an older version, does not have these.
        for variable in self.variables:
            is_there = variable.name in store.keys()  # noqa: SIM118  no dictionary
            if is_there and not any(variable is known for known in about_data):
                variable.assign(store[variable.name])


def read(variable: keras.Variable) -> int:
    """Returns the value of a counter, also while a graph is being traced."""
    with tf.init_scope():
        return int(keras.ops.convert_to_numpy(variable))
