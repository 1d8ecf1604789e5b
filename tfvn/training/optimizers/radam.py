"""RAdam: Adam that adapts step sizes only once it has seen enough gradients."""

from typing import Any

import keras
import tensorflow as tf

from tfvn.training.optimizers.moments import MomentsOptimizer
from tfvn.utils.validation import check_number

Tensor = Any


@keras.saving.register_keras_serializable("tfvn")
class RAdam(MomentsOptimizer):
    """Adam with a correction for the first steps, when it has seen few squared gradients.

    At step t the average of squared gradients is as reliable as the mean of about
    `rho_t = rho_inf - 2 t beta_2^t / (1 - beta_2^t)` squared gradients, with
    `rho_inf = 2 / (1 - beta_2) - 1`. As long as `rho_t` is at most 4, the variance of the
    step size is infinite, and the optimizer makes a step of SGD with momentum. After that,
    it makes a step of Adam times
    `sqrt((rho_t - 4)(rho_t - 2) rho_inf / ((rho_inf - 4)(rho_inf - 2) rho_t))`. This has
    the effect of a warm-up of the learning rate, but you need not choose its length.

    Args:
        learning_rate: A float, a `keras.optimizers.schedules.LearningRateSchedule` or a
            callable.
        beta_1: Decay of the average of gradients.
        beta_2: Decay of the average of squared gradients, above 0.6; with a smaller one,
            `rho_t` never gets above 4.
        epsilon: Added to the root of the average of squared gradients.
        **kwargs: Arguments of every Keras optimizer: `weight_decay`, `clipnorm`,
            `clipvalue`, `global_clipnorm`, `use_ema`, `ema_momentum`,
            `ema_overwrite_frequency`, `loss_scale_factor`,
            `gradient_accumulation_steps` and `name`.

    Example:

    >>> import keras
    >>> import tfvn
    >>> variable = keras.Variable([1.0])
    >>> optimizer = tfvn.optimizers.RAdam(learning_rate=0.1)
    >>> optimizer.apply([2 * keras.ops.ones(1)], [variable])
    >>> round(float(variable[0]), 4)
    0.8

    Reference:

    - [Liu et al., 2019](https://arxiv.org/abs/1908.03265), algorithm 2
    """

    def __init__(
        self,
        learning_rate: Any = 1e-3,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-8,
        **kwargs: Any,
    ):
        beta_2 = check_number("beta_2", beta_2, above=0.6, below=1)
        super().__init__(learning_rate, beta_1, beta_2, epsilon, **kwargs)

    def update_step(
        self, gradient: Tensor, variable: Any, learning_rate: Tensor
    ) -> None:
        dtype = variable.dtype
        new_m, new_v = self.update_moments(gradient, variable)

        # The scalars are in float64, because rho_t is a small difference of large numbers.
        step = tf.cast(self.iterations + 1, tf.float64)
        rate = tf.cast(learning_rate, tf.float64) / (1 - self.beta_1**step)
        power = self.beta_2**step
        rho_inf = 2 / (1 - self.beta_2) - 1
        rho = rho_inf - 2 * step * power / (1 - power)
        # As in the paper, step sizes adapt above 4, where their variance becomes finite;
        # the authors' code waits until 5.
        is_adaptive = rho > 4
        rho = tf.maximum(rho, 4)
        rectification = tf.sqrt(
            (rho - 4) * (rho - 2) * rho_inf / ((rho_inf - 4) * (rho_inf - 2) * rho)
        )
        adapted = tf.cast(rectification * tf.sqrt(1 - power), dtype) / (
            tf.sqrt(new_v) + self.epsilon
        )
        scale = tf.where(is_adaptive, adapted, tf.ones_like(adapted))
        self.assign_sub(variable, tf.cast(rate, dtype) * new_m * scale)
