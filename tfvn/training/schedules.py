"""How much the KL counts, step by step: the schedules of its weight.

A schedule is a function of the number of batches that the model has been trained on. It is
evaluated inside the training step, so it is never retraced, and works under XLA and within
`steps_per_execution`. The model keeps the number in a variable that is saved with it, so
that a run that resumes goes on where it was. Batches count, not updates of the optimizer:
gradient accumulation does not slow a schedule down.
"""

import abc
import math
from typing import Any

import keras
import tensorflow as tf

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

    To add one, subclass this, implement `__call__` with TensorFlow ops, return the
    constructor's arguments from `get_config`, and register the class with
    `keras.saving.register_keras_serializable`. If it depends on `steps_per_epoch`, let
    `needs_steps_per_epoch` be `True`.
    """

    @property
    def needs_steps_per_epoch(self) -> bool:
        """Whether the weight depends on how many batches an epoch has.

        Training then raises where that is not known. For such a schedule, steps are
        counted as if all epochs before this run of `fit` had had as many batches as its
        own, so that a run with another batch size goes on at the same epoch.
        """
        return False

    @abc.abstractmethod
    def __call__(self, step: Tensor, steps_per_epoch: Tensor) -> Tensor:
        """Returns the weight, at least 0.

        Args:
            step: The number of batches trained on so far, a float32 tensor.
            steps_per_epoch: The number of batches in an epoch, a float32 tensor; 0 where
                it is not known.
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
        weight: The weight; 1 is the evidence lower bound, less a tempered posterior.

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
    """A weight that rises from `start` to `end` on a line, and stays there.

    Say how long it takes in batches (`steps`), in `epochs`, or by what each batch adds
    (`per_batch`).

    Args:
        start: The weight of the first step.
        end: The weight it ends at.
        steps: Number of training batches until `end`.
        epochs: Number of epochs until `end`, in place of `steps`. How many batches an
            epoch has must then be known to `fit`.
        per_batch: What each batch adds to the weight, in place of `steps`.
        every: The weight is raised only every so many batches.

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
                "A `LinearAnnealing` takes exactly one of `steps`, `epochs` and "
                f"`per_batch`. Received: {given or 'none of them'}"
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
    """A weight that rises from `start` to `end` again and again.

    In each cycle it rises on a line for a part of the time, and then stays at `end`.

    Args:
        cycle_steps: Number of steps in a cycle.
        start: The weight that a cycle starts with.
        end: The weight that it ends with.
        rising: The part of a cycle in which the weight rises, in (0, 1].
        cycles: Number of cycles, after which the weight stays at `end`. `None` is
            without end.

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
    """Weights that differ between the batches of an epoch, and average 1.

    The i-th of M batches gets `M pi_i` with `pi_i = ratio^i / sum_k ratio^k`. A ratio
    below 1 lets the prior count early in an epoch and the data late; 1 is weight 1
    throughout, and 0 is no KL at all.

    Args:
        ratio: Ratio of the weights of two successive batches.
        steps: Number of batches in an epoch, for data whose length `fit` cannot find;
            `None` takes that of the data.

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
        # The mean of the weights, where nothing has been trained on yet.
        is_known, batches = batches > 0, tf.maximum(batches, 1.0)
        index = tf.math.floormod(tf.convert_to_tensor(step, tf.float32), batches)
        # In log space, with only falling exponentials: seen from the end, a rising
        # series falls.
        slope = -abs(math.log(self.ratio))
        if self.ratio > 1:
            index = batches - 1.0 - index
        # The sum of exp(k slope) for k from 0 to M - 1.
        log_sum = _log1mexp(batches * slope) - _log1mexp(slope)
        weight = tf.exp(tf.math.log(batches) + index * slope - log_sum)
        return tf.where(is_known, weight, tf.ones_like(weight))

    def get_config(self) -> dict[str, Any]:
        return {"ratio": self.ratio, "steps": self.steps}


def _log1mexp(x: Any) -> Tensor:
    """Returns `log(1 - exp(x))` for negative `x`."""
    return tf.math.log(-tf.math.expm1(tf.convert_to_tensor(x, tf.float32)))


def get(identifier: Any) -> KLSchedule:
    """Returns the schedule that a user's argument stands for.

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
    """Raises if a schedule gives a negative or no weight at one of the steps."""
    for step in steps:
        weight = float(schedule(tf.cast(step, tf.float32), float(steps_per_epoch)))
        if not 0 <= weight < math.inf:
            raise ValueError(
                "A KL schedule must return finite weights of at least 0. "
                f"Received: weight={weight} at step={step} from "
                f"`{type(schedule).__name__}`"
            )
