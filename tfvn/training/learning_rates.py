"""Learning rate schedules: cycles, and a warm-up before any other schedule."""

import math
from typing import Any

import keras
import tensorflow as tf
from keras.optimizers.schedules import LearningRateSchedule

from tfvn.utils.validation import check_choice, check_count, check_number

__all__ = ["Cyclical", "WarmUp"]

Tensor = Any

MODES = ("triangular", "triangular2", "exponential")


@keras.saving.register_keras_serializable("tfvn")
class Cyclical(LearningRateSchedule):
    """A learning rate that rises and falls linearly between two bounds, in cycles.

    A cycle starts at `min_rate`, reaches `max_rate` halfway, and ends at `min_rate`.

    Args:
        min_rate: The lower bound.
        max_rate: The upper bound, in the first cycle.
        cycle_steps: Number of steps in a cycle, up and down: twice what the paper calls
            the stepsize.
        mode: `"triangular"` for cycles of equal height, `"triangular2"` if each cycle is
            half as high as the one before, or `"exponential"` for a height of
            `gamma^step`.
        gamma: In `"exponential"` mode, the factor of the height at every step.

    Example:

    >>> import tfvn
    >>> rate = tfvn.learning_rates.Cyclical(0.0, 1.0, cycle_steps=4, mode="triangular2")
    >>> [float(rate(step)) for step in range(8)]
    [0.0, 0.5, 1.0, 0.5, 0.0, 0.25, 0.5, 0.25]

    Reference:

    - [Smith, 2017](https://arxiv.org/abs/1506.01186), sections 3.1 and 3.2
    """

    def __init__(
        self,
        min_rate: float,
        max_rate: float,
        cycle_steps: int,
        mode: str = "triangular",
        gamma: float = 0.99994,
    ):
        super().__init__()
        min_rate = check_number("min_rate", min_rate, least=0)
        max_rate = check_number("max_rate", max_rate, least=0)
        if max_rate < min_rate:
            raise ValueError(
                "Argument `max_rate` must be at least `min_rate`. "
                f"Received: max_rate={max_rate}, min_rate={min_rate}"
            )
        self.min_rate = min_rate
        self.max_rate = max_rate
        self.cycle_steps = check_count("cycle_steps", cycle_steps)
        self.mode = check_choice("mode", mode, MODES)
        self.gamma = check_number("gamma", gamma, above=0, most=1)

    def __call__(self, step: Tensor) -> Tensor:
        step = tf.cast(step, tf.float32)
        cycle = tf.math.floordiv(step, self.cycle_steps)
        position = tf.math.floormod(step, self.cycle_steps) / self.cycle_steps
        height = 1.0 - tf.abs(2.0 * position - 1.0)
        if self.mode == "triangular2":
            height *= tf.pow(2.0, -cycle)
        elif self.mode == "exponential":
            # Not as a power of `gamma` in float32: the rounding error of 0.99994 would
            # grow over a hundred thousand steps.
            height *= tf.exp(step * math.log(self.gamma))
        return self.min_rate + (self.max_rate - self.min_rate) * height

    def get_config(self) -> dict[str, Any]:
        names = ("min_rate", "max_rate", "cycle_steps", "mode", "gamma")
        return {name: getattr(self, name) for name in names}


@keras.saving.register_keras_serializable("tfvn")
class WarmUp(LearningRateSchedule):
    """A learning rate that rises linearly, and then follows another schedule.

    The other schedule starts at its step 0 after the warm-up, so that no part of it is
    skipped. The warm-up ends at its first rate.

    Args:
        schedule: The schedule after the warm-up: a number, or any
            `keras.optimizers.schedules.LearningRateSchedule`.
        warmup_steps: Number of steps of the warm-up.
        start: The rate of the first step.

    Example:

    >>> import keras
    >>> import tfvn
    >>> rate = tfvn.learning_rates.WarmUp(
    ...     keras.optimizers.schedules.ExponentialDecay(1.0, 1, 0.5), warmup_steps=4
    ... )
    >>> [float(rate(step)) for step in range(7)]
    [0.0, 0.25, 0.5, 0.75, 1.0, 0.5, 0.25]

    Reference:

    - [Goyal et al., 2017](https://arxiv.org/abs/1706.02677), section 2.2
    """

    def __init__(self, schedule: Any, warmup_steps: int, start: float = 0.0):
        super().__init__()
        if not isinstance(schedule, LearningRateSchedule):
            remark = " or a `LearningRateSchedule`"
            schedule = check_number("schedule", schedule, least=0, remark=remark)
        self.schedule = schedule
        self.warmup_steps = check_count("warmup_steps", warmup_steps)
        self.start = check_number("start", start, least=0)

    def __call__(self, step: Tensor) -> Tensor:
        step = tf.cast(step, tf.float32)
        since = tf.maximum(step - self.warmup_steps, 0.0)
        rate = self.schedule
        if isinstance(rate, LearningRateSchedule):
            rate = rate(since)
        rate = tf.cast(rate, tf.float32)
        rising = self.start + (rate - self.start) * step / self.warmup_steps
        return tf.where(step < self.warmup_steps, rising, rate)

    def get_config(self) -> dict[str, Any]:
        return {
            "schedule": keras.saving.serialize_keras_object(self.schedule),
            "warmup_steps": self.warmup_steps,
            "start": self.start,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "WarmUp":
        schedule = keras.saving.deserialize_keras_object(config["schedule"])
        return cls(**{**config, "schedule": schedule})


def require_settable(optimizer: keras.optimizers.Optimizer, who: str) -> None:
    """Raises an error if the rate of an optimizer is a schedule, which cannot be set.

    Args:
        optimizer: An optimizer for one group of variables.
        who: Name of the class that sets the rate.
    """
    if not isinstance(optimizer.learning_rate, keras.Variable):
        raise ValueError(
            f"`{who}` sets the learning rate, which is not possible if the optimizer "
            "has a learning-rate schedule; give the optimizer a number instead. "
            f"Received: optimizer={optimizer.name!r} with a schedule"
        )
