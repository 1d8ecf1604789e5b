"""Negative log-likelihoods that Keras does not have."""

import math
from typing import Any

import keras
from keras import ops

Tensor = Any

# Scales below exp(-15) or above exp(15) would leave float32 when squared and divided.
LARGEST_LOG_SCALE = 15.0

_HALF_LOG_2_PI = 0.5 * math.log(2.0 * math.pi)


@keras.saving.register_keras_serializable("tfvn")
class GaussianNLL(keras.losses.Loss):
    """The negative log-likelihood of a Gaussian, in nats, summed over the last axis.

    The noise is a number that is known, or a part of the model's outputs: their last axis
    is then twice as long as that of the targets and holds the means and after them the
    logarithms of the standard deviations. To learn one noise for all examples, end the
    model with `tfvn.layers.LearnedScale()`; to predict it for each, with a layer of twice
    as many units.

    Args:
        scale: The standard deviation of the noise, or `None` to read it from the
            outputs.
        reduction: As in every Keras loss.
        name: Name of the loss.
        dtype: As in every Keras loss.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> loss = tfvn.losses.GaussianNLL(scale=1.0)
    >>> round(float(loss(np.zeros((2, 1)), np.zeros((2, 1)))), 4)
    0.9189
    """

    def __init__(
        self,
        scale: float | None = None,
        reduction: str = "sum_over_batch_size",
        name: str = "gaussian_nll",
        dtype: Any = None,
    ):
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        if scale is not None and not 0 < scale < math.inf:
            raise ValueError(
                "Argument `scale` must be a positive standard deviation, or `None` to "
                f"read it from the outputs. Received: scale={scale!r}"
            )
        self.scale = scale

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        size = y_true.shape[-1]
        expected = size if self.scale is not None else 2 * size
        if y_pred.shape[-1] != expected:
            raise ValueError(
                f"The outputs must have a last axis of size {expected} for targets of "
                f"size {size} and scale={self.scale}. "
                f"Received: y_pred.shape={tuple(y_pred.shape)}"
            )
        if self.scale is not None:
            mean, log_scale = y_pred, math.log(self.scale)
        else:
            mean, log_scale = y_pred[..., :size], y_pred[..., size:]
            log_scale = ops.clip(log_scale, -LARGEST_LOG_SCALE, LARGEST_LOG_SCALE)
        deviation = (y_true - mean) * ops.exp(-log_scale)
        nll = 0.5 * ops.square(deviation) + log_scale + _HALF_LOG_2_PI
        return ops.sum(nll, axis=-1)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "scale": self.scale}
