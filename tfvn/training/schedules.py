"""Schedules of the weight of the KL.

A schedule is a function of the number of batches that the model has been trained on. The
training step evaluates it, so a changing weight needs no retracing, and works under XLA and
with `steps_per_execution`. The model keeps the number of batches in a variable that is saved
with it, so that a resumed run continues where it was. The count is of batches and not of
updates of the optimizer, so gradient accumulation does not slow a schedule down.
"""

import abc
import math
from typing import Any

import keras
import tensorflow as tf
import tensorflow_probability as tfp

from tfvn.utils.validation import as_number, check_count, check_number

__all__ = [
    "Constant",
    "CyclicalAnnealing",
    "KLSchedule",
    "LinearAnnealing",
    "MinibatchReweighting",
    "get",
]

Tensor = Any


class KLSchedule(abc.ABC):
    """The weight of the KL in the loss as a function of the step.

    To add a schedule, subclass this class, implement `__call__` with TensorFlow ops, return
    the constructor's arguments from `get_config`, and register the class with
    `keras.saving.register_keras_serializable`. If the weight depends on `steps_per_epoch`,
    override `needs_steps_per_epoch` to return `True`.
    """

    @property
    def needs_steps_per_epoch(self) -> bool:
        """Whether the weight depends on the number of batches in an epoch.

        If so, training raises an error where that number is unknown. For such a schedule,
        steps are counted as if all earlier epochs had had as many batches as those of the
        present `fit`, so that a run with another batch size continues at the same epoch.
        """
        return False

    @abc.abstractmethod
    def __call__(self, step: Tensor, steps_per_epoch: Tensor) -> Tensor:
        """Returns the weight, at least 0.

        Args:
            step: The number of batches trained on so far, a float32 tensor.
            steps_per_epoch: The number of batches in an epoch, a float32 tensor; 0 if it
                is unknown.
        """

    def get_config(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "KLSchedule":
        return cls(**config)


@keras.saving.register_keras_serializable("tfvn")
class Constant(KLSchedule):
    """The same weight throughout.

    Args:
        weight: The weight. 1 gives the evidence lower bound, a smaller weight a tempered
            posterior.

    Example:

    >>> import tfvn
    >>> tfvn.schedules.Constant(0.5)(step=10.0, steps_per_epoch=100.0)
    0.5
    """

    def __init__(self, weight: float = 1.0):
        self.weight = check_number("weight", weight, least=0)

    def __call__(self, step: Tensor, steps_per_epoch: Tensor) -> Tensor:
        return self.weight

    def get_config(self) -> dict[str, Any]:
        return {"weight": self.weight}


@keras.saving.register_keras_serializable("tfvn")
class LinearAnnealing(KLSchedule):
    """A weight that rises linearly from `start` to `end`, and then stays at `end`.

    Pass exactly one of `steps`, `epochs` and `per_batch`.

    Args:
        start: The weight of the first step.
        end: The final weight.
        steps: Number of training batches until `end`.
        epochs: Number of epochs until `end`. `fit` must then be able to find the number of
            batches in an epoch.
        per_batch: How much the weight rises with each batch.
        every: Number of batches between two changes of the weight.

    Example: the schedule of the k-tied paper.

    >>> import tfvn
    >>> schedule = tfvn.schedules.LinearAnnealing(per_batch=5e-5, every=100)
    >>> [round(float(schedule(step, 100.0)), 4) for step in (0.0, 99.0, 100.0, 1e6)]
    [0.0, 0.0, 0.005, 1.0]

    Reference:

    - [Swiatkowski et al., 2020](https://arxiv.org/abs/2002.02655), section 4
    """

    def __init__(
        self,
        start: float = 0.0,
        end: float = 1.0,
        steps: float | None = None,
        epochs: float | None = None,
        per_batch: float | None = None,
        every: int = 1,
    ):
        self.start = check_number("start", start, least=0)
        self.end = check_number("end", end, least=0)
        lengths = {"steps": steps, "epochs": epochs, "per_batch": per_batch}
        given = {name: value for name, value in lengths.items() if value is not None}
        if len(given) != 1:
            raise ValueError(
                "`LinearAnnealing` needs exactly one of the arguments `steps`, "
                f"`epochs` and `per_batch`. Received: {given or 'none of them'}"
            )
        lengths.update({n: check_number(n, v, above=0) for n, v in given.items()})
        self.steps, self.epochs, self.per_batch = lengths.values()
        self.every = check_count("every", every)

    @property
    def needs_steps_per_epoch(self) -> bool:
        return self.epochs is not None

    def __call__(self, step: Tensor, steps_per_epoch: Tensor) -> Tensor:
        step = tf.floor(step / self.every) * self.every
        if self.per_batch is not None:
            length = abs(self.end - self.start) / self.per_batch
        else:
            length = self.steps or self.epochs * steps_per_epoch
        progress = tf.clip_by_value(tf.math.divide_no_nan(step, length), 0.0, 1.0)
        return self.start + (self.end - self.start) * progress

    def get_config(self) -> dict[str, Any]:
        names = ("start", "end", "steps", "epochs", "per_batch", "every")
        return {name: getattr(self, name) for name in names}


@keras.saving.register_keras_serializable("tfvn")
class CyclicalAnnealing(KLSchedule):
    """A weight that rises from `start` to `end` in every cycle.

    In the first part of a cycle the weight rises linearly, and then it stays at `end`.

    Args:
        cycle_steps: Number of steps in a cycle.
        start: The weight at the start of a cycle.
        end: The weight at the end of a cycle.
        rising: The fraction of a cycle in which the weight rises, in (0, 1].
        cycles: Number of cycles, after which the weight stays at `end`. `None` repeats the
            cycle for ever.

    Example:

    >>> import tfvn
    >>> schedule = tfvn.schedules.CyclicalAnnealing(cycle_steps=10)
    >>> [round(float(schedule(step, 100.0)), 2) for step in (0.0, 3.0, 7.0, 10.0, 11.0)]
    [0.0, 0.6, 1.0, 0.0, 0.2]

    Reference:

    - [Fu et al., 2019](https://arxiv.org/abs/1903.10145), section 3
    """

    def __init__(
        self,
        cycle_steps: int,
        start: float = 0.0,
        end: float = 1.0,
        rising: float = 0.5,
        cycles: int | None = None,
    ):
        self.cycle_steps = check_number("cycle_steps", cycle_steps, above=0)
        self.start = check_number("start", start, least=0)
        self.end = check_number("end", end, least=0)
        self.rising = check_number("rising", rising, above=0, most=1)
        self.cycles = check_number("cycles", cycles, above=0, or_none=True)

    def __call__(self, step: Tensor, steps_per_epoch: Tensor) -> Tensor:
        position = tf.math.floormod(step, self.cycle_steps) / self.cycle_steps
        progress = tf.minimum(position / self.rising, 1.0)
        if self.cycles is not None:
            is_over = step >= self.cycles * self.cycle_steps
            progress = tf.where(is_over, tf.ones_like(progress), progress)
        return self.start + (self.end - self.start) * progress

    def get_config(self) -> dict[str, Any]:
        names = ("cycle_steps", "start", "end", "rising", "cycles")
        return {name: getattr(self, name) for name in names}


@keras.saving.register_keras_serializable("tfvn")
class MinibatchReweighting(KLSchedule):
    """Weights that differ between the batches of an epoch, with an average of 1.

    The i-th of M batches has the weight `M pi_i` with `pi_i = ratio^i / sum_k ratio^k`. With
    a ratio below 1 the prior counts more early in an epoch, and the data more later. A
    ratio of 1 gives every batch the weight 1, and a ratio of 0 switches the KL off.

    Args:
        ratio: Ratio of the weights of two successive batches.
        steps: Number of batches in an epoch, for data whose length `fit` cannot find.
            `None` uses the number that `fit` finds.

    Example:

    >>> import tfvn
    >>> schedule = tfvn.schedules.MinibatchReweighting(0.5)
    >>> [round(float(schedule(step, 3.0)), 3) for step in (0.0, 1.0, 2.0, 3.0)]
    [1.714, 0.857, 0.429, 1.714]

    Reference:

    - [Blundell et al., 2015](https://arxiv.org/abs/1505.05424), section 3.4
    """

    def __init__(self, ratio: float, steps: int | None = None):
        self.ratio = check_number("ratio", ratio, least=0)
        self.steps = check_count("steps", steps, or_none=True)

    @property
    def needs_steps_per_epoch(self) -> bool:
        return self.steps is None and self.ratio not in (0, 1)

    def __call__(self, step: Tensor, steps_per_epoch: Tensor) -> Tensor:
        if self.ratio in (0, 1):
            return float(self.ratio)
        batches = tf.convert_to_tensor(self.steps or steps_per_epoch, tf.float32)
        # Before any training the number of batches is 0; the weight is then 1, its mean.
        is_known, batches = batches > 0, tf.maximum(batches, 1.0)
        index = tf.math.floormod(tf.convert_to_tensor(step, tf.float32), batches)
        # Computed in log space, with decreasing exponentials only: a rising series is
        # read from its end.
        slope = -abs(math.log(self.ratio))
        if self.ratio > 1:
            index = batches - 1.0 - index
        # The sum of exp(k slope) for k from 0 to M - 1.
        log_sum = tfp.math.log1mexp(batches * slope) - tfp.math.log1mexp(slope)
        weight = tf.exp(tf.math.log(batches) + index * slope - log_sum)
        return tf.where(is_known, weight, tf.ones_like(weight))

    def get_config(self) -> dict[str, Any]:
        return {"ratio": self.ratio, "steps": self.steps}


def get(identifier: Any) -> KLSchedule:
    """Returns the schedule for the argument `kl_schedule`.

    Args:
        identifier: A `KLSchedule`, a number for a constant weight, `None` for 1, or
            the config of a schedule.
    """
    if identifier is None:
        return Constant(1.0)
    if isinstance(identifier, KLSchedule):
        return identifier
    if (weight := as_number(identifier)) is not None:
        return Constant(weight)
    if isinstance(identifier, dict):
        return keras.saving.deserialize_keras_object(identifier)
    raise ValueError(
        "Argument `kl_schedule` must be a number, a `tfvn.schedules.KLSchedule` or "
        f"`None` for a weight of 1. Received: kl_schedule={identifier!r}"
    )


def check(schedule: KLSchedule, steps: Any, steps_per_epoch: int) -> None:
    """Raises an error if a schedule's weight is negative or not finite at one of the steps."""
    for step in steps:
        weight = float(schedule(tf.cast(step, tf.float32), float(steps_per_epoch)))
        if not 0 <= weight < math.inf:
            raise ValueError(
                "A KL schedule must return finite weights of at least 0. "
                f"Received: weight={weight} at step={step} from "
                f"`{type(schedule).__name__}`"
            )
