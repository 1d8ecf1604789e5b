"""What a model remembers of its training, beside its weights and its optimizer."""

import math
from typing import Any

import keras
import tensorflow as tf

Tensor = Any


class TrainingState(keras.metrics.Metric):
    """How far training has come, and how many examples it is about.

    It belongs to the model and not to `compile`, so that compiling again forgets nothing.
    It is a metric by name only, because Keras saves the state of metrics, and counts it
    among no parameters; no epoch resets it.

    Attributes:
        batches: Variable with the number of batches trained on, ever. It counts batches
            and not updates of the optimizer, which gradient accumulation makes rarer and
            loss scaling skips.
        size: Variable with the number of training examples; 0 if it is not known.
        steps: Variable with the number of batches of an epoch; 0 if it is not known.
    """

    def __init__(self) -> None:
        super().__init__(name="training_state")
        # Replicas of a strategy take the same steps.
        self.batches = self._counter("batches", "int64")
        self.size = self._counter("train_size", "float32")
        self.steps = self._counter("steps_per_epoch", "float32")
        # Where the present run started, in batches and in epochs.
        self._first_batch = self._counter("first_batch", "int64")
        self._first_epoch = self._counter("first_epoch", "int64")

    def _counter(self, name: str, dtype: str) -> keras.Variable:
        return self.add_variable(
            (), "zeros", dtype, aggregation="only_first_replica", name=name
        )

    def start_run(self, size: int | None, steps: int | None) -> None:
        """Takes note of the data of a run of `fit`.

        Args:
            size: Number of training examples, `None` if it is not known.
            steps: Number of batches in an epoch, `None` if it is not known.
        """
        # An epoch that was interrupted counts as one, because the next batch is the
        # first of an epoch.
        self._first_epoch.assign(math.ceil(self.epochs - 1e-6))
        self._first_batch.assign(self.batches.value)
        self.size.assign(size or 0)
        self.steps.assign(steps or 0)

    @property
    def epochs(self) -> float:
        """How many epochs the model has been trained for, not always whole ones."""
        batches = read(self.batches) - read(self._first_batch)
        steps = read(self.steps)
        return read(self._first_epoch) + (batches / steps if steps else 0.0)

    def epoch_step(self) -> Tensor:
        """Returns the step as if every epoch had had as many as those of this run."""
        before = tf.cast(self._first_epoch.value, tf.float32) * self.steps.value
        since = self.batches.value - self._first_batch.value
        return before + tf.cast(since, tf.float32)

    def count_batch(self) -> None:
        """Counts a batch that has been trained on."""
        self.batches.assign_add(1)

    def update_state(self, *args: Any, **kwargs: Any) -> None:
        """Does nothing: `count_batch` counts."""

    def reset_state(self) -> None:
        """Does nothing: a new epoch is no new training."""

    def result(self) -> Tensor:
        return self.batches.value

    # The names are those of the file: a variable that is added later is not missed.

    def save_own_variables(self, store: Any) -> None:
        for variable in self.variables:
            store[variable.name] = keras.ops.convert_to_numpy(variable)

    def load_own_variables(self, store: Any) -> None:
        # What is known of the data at hand is not that of the file.
        about_data = [v for v in (self.size, self.steps) if read(v)]
        # A file of a stock model, or of an older version, has none of it.
        for variable in self.variables:
            is_there = variable.name in store.keys()  # noqa: SIM118  no dictionary
            if is_there and not any(variable is known for known in about_data):
                variable.assign(store[variable.name])


def read(variable: keras.Variable) -> int:
    """Returns what a counter says, also while a graph is being traced."""
    with tf.init_scope():
        return int(keras.ops.convert_to_numpy(variable))
