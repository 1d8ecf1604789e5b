"""A noise that is the same for all examples, and learned."""

import math
from typing import Any

import keras
from keras import ops

from tfvn import likelihoods

Tensor = Any


@keras.saving.register_keras_serializable("tfvn")
class LearnedScale(keras.layers.Layer):
    """Appends the logarithms of learned standard deviations to its inputs.

    The last layer of a regression model that is trained with `tfvn.losses.GaussianNLL()`:
    one standard deviation for each output, the same for all examples. Predictions know
    from this layer that the outputs are means and logarithms of standard deviations.

    Args:
        initial_scale: Where the standard deviations start.
        **kwargs: As in every Keras layer.

    Input shape:
        `(batch_size, ..., size)`.

    Output shape:
        `(batch_size, ..., 2 * size)`.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> outputs = tfvn.layers.LearnedScale(initial_scale=2.0)(np.ones((1, 2)))
    >>> print(np.round(outputs.numpy(), 2))
    [[1.   1.   0.69 0.69]]
    """

    def __init__(self, initial_scale: float = 1.0, **kwargs: Any):
        super().__init__(**kwargs)
        if not 0 < initial_scale < math.inf:
            raise ValueError(
                "Argument `initial_scale` must be a positive standard deviation. "
                f"Received: initial_scale={initial_scale!r}"
            )
        self.initial_scale = initial_scale
        self.likelihood = likelihoods.Normal()
        self.supports_masking = True

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        self.log_scale = self.add_weight(
            name="log_scale",
            shape=(input_shape[-1],),
            initializer=keras.initializers.Constant(math.log(self.initial_scale)),
        )

    def call(self, inputs: Tensor) -> Tensor:
        log_scale = ops.broadcast_to(self.log_scale, ops.shape(inputs))
        return ops.concatenate([inputs, log_scale], axis=-1)

    def compute_output_shape(self, input_shape: Any) -> tuple[int | None, ...]:
        return (*input_shape[:-1], 2 * input_shape[-1])

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "initial_scale": self.initial_scale}
