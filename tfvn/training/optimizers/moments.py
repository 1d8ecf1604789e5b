"""What optimizers share that average gradients and their squares."""

from typing import Any

import keras
import tensorflow as tf

from tfvn.utils import private_training
from tfvn.utils.validation import as_number, check_number

Tensor = Any


class MomentsOptimizer(keras.optimizers.Optimizer):
    """An optimizer that averages gradients and squared gradients, as Adam does.

    Args:
        learning_rate: As in every Keras optimizer.
        beta_1: Decay of the average of gradients.
        beta_2: Decay of the average of squared gradients.
        epsilon: Added to the root of the average of squared gradients.
        **kwargs: Arguments of every Keras optimizer.
    """

    def __init__(
        self,
        learning_rate: Any,
        beta_1: float,
        beta_2: float,
        epsilon: float,
        **kwargs: Any,
    ):
        super().__init__(learning_rate=check_learning_rate(learning_rate), **kwargs)
        self.beta_1 = check_number("beta_1", beta_1, least=0, below=1)
        self.beta_2 = check_number("beta_2", beta_2, least=0, below=1)
        self.epsilon = check_number("epsilon", epsilon, above=0)

    def build(self, variables: list[keras.Variable]) -> None:
        if self.built:
            return
        super().build(variables)
        self._momentums, self._velocities = self.add_optimizer_variables(
            variables, ["momentum", "velocity"]
        )

    def update_moments(self, gradient: Tensor, variable: Any) -> tuple[Tensor, Tensor]:
        """Updates and returns the averages of a variable's gradients and their squares."""
        index = private_training.index_of(self, variable)
        gradient = tf.cast(tf.convert_to_tensor(gradient), variable.dtype)
        m, v = self._momentums[index], self._velocities[index]
        new_m = m + (gradient - m) * (1 - self.beta_1)
        new_v = v + (tf.square(gradient) - v) * (1 - self.beta_2)
        self.assign(m, new_m)
        self.assign(v, new_v)
        return new_m, new_v

    def get_config(self) -> dict[str, Any]:
        names = ("beta_1", "beta_2", "epsilon")
        return {
            **super().get_config(),
            **{name: getattr(self, name) for name in names},
        }


def check_learning_rate(value: Any) -> Any:
    """Returns a learning rate that is a number as a `float`; Keras checks all others."""
    if isinstance(value, keras.Variable) or as_number(value) is None:
        return value
    return float(check_number("learning_rate", value, least=0))
