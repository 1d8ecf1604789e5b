"""The evidence lower bound of a training run: its parts, its scale, and its record."""

from typing import Any

import keras
import tensorflow as tf

from tfvn.training import schedules
from tfvn.training.train_size import ADVICE, TrainingData

Tensor = Any


class ELBO:
    """What the loss of a model needs to know beside its layers.

    It is no part of the model's weights: the schedule is a function of the optimizer's
    counter, and the number of examples belongs to the data.

    Args:
        schedule: The weight of the KL.
        train_size: Number of training examples, or `None` to take that of the data.
    """

    def __init__(self, schedule: schedules.KLSchedule, train_size: int | None):
        self.schedule = schedule
        self.given_size = train_size
        self.size = train_size
        self.steps: int | None = None
        # Variables, so that another data set does not mean another trace.
        self._size = _number(train_size or 0, "train_size")
        self._steps = _number(0, "steps_per_epoch")
        self.tracker = ELBOTracker(self._size)

    def start(self, data: TrainingData, has_kl: bool) -> None:
        """Takes note of the data of a run, and refuses them where they do not do.

        Args:
            data: What `fit` trains on.
            has_kl: Whether a KL is part of the loss, so that the size is needed.
        """
        if data.size == 0:
            raise ValueError(
                "The training data must have at least one example. Received: none"
            )
        size = self.given_size or data.size
        if size is None and has_kl:
            raise ValueError(
                "The KL is divided by the number of training examples, which these data "
                f"do not tell; {ADVICE}. Received: x={type(data.x).__name__} of unknown "
                "length"
            )
        self.set_size(size)
        self.steps = data.steps
        self._steps.assign(data.steps or 0)

    def set_size(self, size: int | None) -> None:
        """Sets the number of training examples."""
        self.size = size
        self._size.assign(size or 0)

    def examples(self) -> Tensor:
        """Returns the number of training examples."""
        if self.size is None:
            raise ValueError(
                "The KL is divided by the number of training examples, which is not "
                f"known before `fit`; {ADVICE}. Received: train_size=None"
            )
        return self._size.value

    def weight(self, step: Tensor) -> Tensor:
        """Returns the weight of the KL at a step."""
        weight = self.schedule(tf.cast(step, tf.float32), self._steps.value)
        return tf.cast(weight, tf.float32)


@keras.saving.register_keras_serializable("tfvn")
class ELBOTracker(keras.metrics.Metric):
    """Averages what the loss is made of: `nll`, `kl`, `kl_weight` and `elbo`.

    One metric in place of four, because each costs several ops in every step.

    Args:
        size: Variable with the number of training examples.
    """

    def __init__(self, size: keras.Variable, name: str = "elbo"):
        super().__init__(name=name)
        self._size = [size]  # in a list of another's, so that it is not reset
        self.sums = self.add_variable(shape=(3,), initializer="zeros", name="sums")
        self.count = self.add_variable(shape=(), initializer="zeros", name="count")

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
        return {"nll": nll, "kl": kl, "kl_weight": weight, "elbo": -(nll + per_example)}

    def reset_state(self) -> None:
        self.sums.assign(tf.zeros((3,)))
        self.count.assign(0.0)


def log_mean_exp_loss(
    loss: keras.losses.Loss, y: Tensor, y_pred: Tensor, num_samples: int
) -> Tensor:
    """Returns `-log mean exp(-loss)` over the draws, for each example.

    Args:
        loss: The negative log-likelihood.
        y: Targets, `num_samples` times the batch one after the other.
        y_pred: Outputs, likewise.
        num_samples: Number of draws.

    Reference:

    - [Burda et al., 2016](https://arxiv.org/abs/1509.00519), equation 8
    """
    losses = loss.call(tf.convert_to_tensor(y), y_pred)
    losses = tf.reshape(losses, (num_samples, tf.shape(y_pred)[0] // num_samples, -1))
    losses = tf.reduce_mean(losses, axis=-1)
    count = tf.math.log(tf.cast(num_samples, losses.dtype))
    return count - tf.reduce_logsumexp(-losses, axis=0)


def _number(value: float, name: str) -> keras.Variable:
    return keras.Variable(float(value), dtype="float32", trainable=False, name=name)
