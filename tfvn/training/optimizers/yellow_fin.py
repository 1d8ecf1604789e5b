"""SGD that tunes its own learning rate and momentum."""

import math
from typing import Any

import keras
import tensorflow as tf

from tfvn.training.optimizers.moments import check_learning_rate
from tfvn.utils import private_training
from tfvn.utils.validation import check_count, check_number

Tensor = Any

# Replaces 0 in divisors and logarithms: about the smallest float32 that XLA does not
# flush to 0.
_TINY = 1e-37


@keras.saving.register_keras_serializable("tfvn")
class YellowFin(keras.optimizers.Optimizer):
    """SGD with momentum that computes its learning rate and momentum from the gradients.

    From the gradients of all variables together it estimates the range of curvatures
    `h_min` to `h_max`, the variance `C` of the gradient, and the distance `D` to the
    optimum. Each step then uses the rate and the momentum that minimize
    `momentum D^2 + rate^2 C` among those that are stable for all these curvatures,
    `rate = (1 - sqrt(momentum))^2 / h_min` and
    `sqrt(momentum) >= (sqrt(h_max / h_min) - 1) / (sqrt(h_max / h_min) + 1)`.

    As in the paper's appendix, the curvatures are averaged in log space, all averages
    are corrected for starting at 0, and the rate rises slowly during the first
    `10 * curvature_window` steps. The authors' code also averages the tuned rate and
    momentum over steps; this optimizer does not. Steps whose gradients are all 0 do not
    change the estimates.

    Args:
        learning_rate: Factor of the tuned rate: a float, a
            `keras.optimizers.schedules.LearningRateSchedule` or a callable. Schedules
            and callbacks change this factor. Weight decay is multiplied by it too, but not
            by the tuned rate.
        momentum: The smallest momentum. If the tuned momentum is smaller, this one is used,
            and the rate is lowered accordingly.
        beta: Decay of all averages.
        curvature_window: Number of steps. The smallest and the largest squared norm of the
            gradients in these steps give the range of curvatures.
        **kwargs: Arguments of every Keras optimizer: `weight_decay`, `clipnorm`,
            `clipvalue`, `global_clipnorm`, `use_ema`, `ema_momentum`,
            `ema_overwrite_frequency`, `loss_scale_factor`,
            `gradient_accumulation_steps` and `name`.

    Example:

    >>> import keras
    >>> import tfvn
    >>> variable = keras.Variable([1.0])
    >>> optimizer = tfvn.optimizers.YellowFin()
    >>> optimizer.apply([2 * keras.ops.ones(1)], [variable])
    >>> round(float(variable[0]), 4)
    0.9975

    Reference:

    - [Zhang and Mitliagkas, 2017](https://arxiv.org/abs/1706.03471), algorithms 1 to 4
    """

    def __init__(
        self,
        learning_rate: Any = 1.0,
        momentum: float = 0.0,
        beta: float = 0.999,
        curvature_window: int = 20,
        **kwargs: Any,
    ):
        learning_rate = check_learning_rate(learning_rate)
        momentum = check_number("momentum", momentum, least=0, below=1)
        beta = check_number("beta", beta, above=0, below=1)
        curvature_window = check_count("curvature_window", curvature_window)
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.momentum = momentum
        self.beta = beta
        self.curvature_window = curvature_window

    def build(self, variables: list[keras.Variable]) -> None:
        if self.built:
            return
        super().build(variables)
        self._updates, self._gradient_averages = self.add_optimizer_variables(
            variables, ["update", "gradient_average"]
        )
        self._window = self._add_statistic("curvature_window", self.curvature_window)
        self._count = self._add_statistic("count")
        self._log_h_min = self._add_statistic("log_h_min")
        self._log_h_max = self._add_statistic("log_h_max")
        self._norm = self._add_statistic("norm")
        self._squared_norm = self._add_statistic("squared_norm")
        self._distance = self._add_statistic("distance")
        self._gain = self._add_statistic("gain")
        self._tuned_rate = self._add_statistic("tuned_rate")
        self._tuned_momentum = self._add_statistic("tuned_momentum")

    def _add_statistic(self, name: str, *shape: int) -> keras.Variable:
        # All replicas compute the same statistics, because they use the summed gradients.
        return self.add_variable(
            shape, dtype="float32", aggregation="only_first_replica", name=name
        )

    def _backend_update_step(
        self, grads: list[Tensor], trainable_variables: list[Any], learning_rate: Tensor
    ) -> None:
        # The only method that gets all gradients after clipping and accumulation.
        pairs = list(zip(grads, trainable_variables, strict=True))
        self._tune(private_training.sum_over_replicas(self, pairs))
        super()._backend_update_step(grads, trainable_variables, learning_rate)

    def _tune(self, pairs: list[tuple[Tensor, Any]]) -> None:
        """Updates the estimates and sets the rate and the momentum of this step."""
        gradients = [tf.cast(tf.convert_to_tensor(g), tf.float32) for g, _ in pairs]
        squared_norm = tf.add_n([tf.reduce_sum(tf.square(g)) for g in gradients])
        is_measured = squared_norm > 0
        gain = tf.where(is_measured, tf.constant(1 - self.beta), 0.0)
        position = tf.cast(self._count, tf.int32) % self.curvature_window
        count = self._count + tf.cast(is_measured, tf.float32)
        # The factor by which averages that started at 0 are still too small.
        bias = -tf.math.expm1(tf.maximum(count, 1.0) * math.log(self.beta))
        self.assign(self._gain, gain)
        self.assign(self._count, count)

        def average(statistic: keras.Variable, value: Tensor) -> Tensor:
            new = statistic + gain * (value - statistic)
            self.assign(statistic, new)
            return new / bias

        slots = tf.range(self.curvature_window)
        window = tf.where((slots == position) & is_measured, squared_norm, self._window)
        self.assign(self._window, window)
        is_filled = tf.cast(slots, tf.float32) < tf.maximum(count, 1.0)
        # Only a window without any measurement contains a 0; its gain is 0 too.
        log_h = tf.math.log(tf.maximum(window, _TINY))
        least = tf.reduce_min(tf.where(is_filled, log_h, log_h.dtype.max))
        largest = tf.reduce_max(tf.where(is_filled, log_h, log_h.dtype.min))
        h_min = tf.exp(average(self._log_h_min, least))
        h_max = tf.exp(average(self._log_h_max, largest))

        norm = average(self._norm, tf.sqrt(squared_norm))
        squared_norm = average(self._squared_norm, squared_norm)
        ratio = tf.math.divide_no_nan(norm, squared_norm)
        distance = average(self._distance, ratio)
        variance = squared_norm
        for gradient, (_, variable) in zip(gradients, pairs, strict=True):
            old = self._gradient_averages[private_training.index_of(self, variable)]
            old = tf.cast(old, tf.float32)
            mean = (old + gain * (gradient - old)) / bias
            variance -= tf.reduce_sum(tf.square(mean))

        # Computed in terms of 1 - sqrt(momentum), so that the rate loses no digits.
        rest = _minimize(distance * h_min, tf.maximum(variance, 0.0))
        rest = tf.minimum(rest, 2 / (1 + tf.sqrt(h_max / h_min)))
        rest = tf.minimum(rest, 1 - math.sqrt(self.momentum))
        slow_start = tf.minimum(count / (10 * self.curvature_window), 1.0)
        self.assign(self._tuned_momentum, tf.square(1 - rest))
        self.assign(self._tuned_rate, slow_start * tf.square(rest) / h_min)

    def update_step(
        self, gradient: Tensor, variable: Any, learning_rate: Tensor
    ) -> None:
        dtype = variable.dtype
        index = private_training.index_of(self, variable)
        gradient = tf.cast(tf.convert_to_tensor(gradient), dtype)
        average = self._gradient_averages[index]
        self.assign_add(average, tf.cast(self._gain, dtype) * (gradient - average))
        rate = tf.cast(learning_rate, dtype) * tf.cast(self._tuned_rate, dtype)
        momentum = tf.cast(self._tuned_momentum, dtype)
        update = momentum * self._updates[index] - rate * gradient
        self.assign(self._updates[index], update)
        self.assign_add(variable, update)

    def get_config(self) -> dict[str, Any]:
        names = ("momentum", "beta", "curvature_window")
        return {
            **super().get_config(),
            **{name: getattr(self, name) for name in names},
        }


def _minimize(scaled_distance: Tensor, variance: Tensor) -> Tensor:
    """Returns the `y = 1 - sqrt(momentum)` that minimizes `(1-y)^2 D^2 + y^4 C / h^2`.

    It is the only real root of `y^3 + p y - p` with `p = (D h)^2 / 2C`. The hyperbolic form
    of Vieta's solution computes it without cancellation.
    """
    s = scaled_distance / tf.sqrt(6 * tf.maximum(variance, _TINY))
    # Outside of these limits y is 0 or 1 within the precision of float32.
    s = tf.clip_by_value(s, 1e-12, 1e6)
    return 2 * s * tf.sinh(tf.asinh(1.5 / s) / 3)
