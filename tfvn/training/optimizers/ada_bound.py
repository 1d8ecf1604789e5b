"""AdaBound: an optimizer that turns from Adam into SGD."""

from typing import Any

import keras
import tensorflow as tf

from tfvn.training.optimizers.moments import MomentsOptimizer
from tfvn.utils import private_training
from tfvn.utils.validation import check_number

Tensor = Any


@keras.saving.register_keras_serializable("tfvn")
class AdaBound(MomentsOptimizer):
    """Adam with step sizes clipped to bounds that converge to one learning rate.

    At step t the step size of each weight is
    `clip(learning_rate / sqrt(v), lower, upper)` with
    `lower = final_learning_rate * (1 - 1 / (gamma * t + 1))` and
    `upper = final_learning_rate * (1 + 1 / (gamma * t))`. So the optimizer starts as Adam
    and ends as SGD with momentum.

    Args:
        learning_rate: The rate of Adam: a float, a
            `keras.optimizers.schedules.LearningRateSchedule` or a callable.
        final_learning_rate: The rate of SGD that the bounds converge to. It rises and
            falls together with `learning_rate`, as in the authors' code.
        beta_1: Decay of the average of gradients.
        beta_2: Decay of the average of squared gradients.
        gamma: How fast the bounds converge.
        epsilon: Added to the root of the average of squared gradients.
        amsbound: Whether to divide by the largest average of squared gradients so far
            (AMSBound) instead of the current one.
        base_learning_rate: The learning rate at which the bounds converge to
            `final_learning_rate`; at half of this rate they converge to half of it. By
            default the learning rate of step 0. If that is 0, as in a warm-up, pass the
            rate at the end of the warm-up; otherwise the final rate does not change with
            `learning_rate`.
        **kwargs: Arguments of every Keras optimizer: `weight_decay`, `clipnorm`,
            `clipvalue`, `global_clipnorm`, `use_ema`, `ema_momentum`,
            `ema_overwrite_frequency`, `loss_scale_factor`,
            `gradient_accumulation_steps` and `name`.

    Example:

    >>> import keras
    >>> import tfvn
    >>> variable = keras.Variable([1.0])
    >>> optimizer = tfvn.optimizers.AdaBound(learning_rate=0.1)
    >>> optimizer.apply([keras.ops.ones(1)], [variable])
    >>> round(float(variable[0]), 4)
    0.9

    Reference:

    - [Luo et al., 2019](https://arxiv.org/abs/1902.09843), algorithms 2 and 3
    """

    def __init__(
        self,
        learning_rate: Any = 1e-3,
        final_learning_rate: float = 0.1,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        gamma: float = 1e-3,
        epsilon: float = 1e-8,
        amsbound: bool = False,
        base_learning_rate: float | None = None,
        **kwargs: Any,
    ):
        super().__init__(learning_rate, beta_1, beta_2, epsilon, **kwargs)
        if base_learning_rate is None:
            base_learning_rate = float(keras.ops.convert_to_numpy(self.learning_rate))
        self.final_learning_rate = check_number(
            "final_learning_rate", final_learning_rate, above=0
        )
        self.gamma = check_number("gamma", gamma, above=0)
        self.amsbound = amsbound
        self.base_learning_rate = check_number(
            "base_learning_rate", base_learning_rate, least=0
        )

    def build(self, variables: list[keras.Variable]) -> None:
        if self.built:
            return
        super().build(variables)
        if self.amsbound:
            self._largest = self.add_optimizer_variables(variables, "largest_velocity")

    def update_step(
        self, gradient: Tensor, variable: Any, learning_rate: Tensor
    ) -> None:
        dtype = variable.dtype
        new_m, new_v = self.update_moments(gradient, variable)
        if self.amsbound:
            largest = self._largest[private_training.index_of(self, variable)]
            new_v = tf.maximum(largest, new_v)
            self.assign(largest, new_v)

        # The scalars are in float64, because 1 - 0.999 would lose four digits in float32.
        step = tf.cast(self.iterations + 1, tf.float64)
        rate = tf.cast(learning_rate, tf.float64)
        # The bias corrections are not in the paper, but in its authors' code.
        adam = rate * tf.sqrt(1 - self.beta_2**step) / (1 - self.beta_1**step)
        final = self.final_learning_rate * self._relative(rate)
        lower = final * (1 - 1 / (self.gamma * step + 1))
        upper = final * (1 + 1 / (self.gamma * step))
        step_size = tf.clip_by_value(
            tf.cast(adam, dtype) / (tf.sqrt(new_v) + self.epsilon),
            tf.cast(lower, dtype),
            tf.cast(upper, dtype),
        )
        self.assign_sub(variable, step_size * new_m)

    def _relative(self, rate: Tensor) -> Tensor:
        """Returns the learning rate as a multiple of the base learning rate."""
        if self.base_learning_rate:
            return rate / self.base_learning_rate
        # A base rate of 0 allows no ratio, but a rate of 0 still has to stop training.
        return tf.sign(rate)

    def get_config(self) -> dict[str, Any]:
        names = ("final_learning_rate", "gamma", "amsbound", "base_learning_rate")
        return {
            **super().get_config(),
            **{name: getattr(self, name) for name in names},
        }
