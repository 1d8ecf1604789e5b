"""The loss of a replica, weighed so that the mean over replicas is the loss of the batch."""

from typing import Any

import keras
import tensorflow as tf

from tfvn import passes
from tfvn.training.draws import GivenLoss, check_uses_call
from tfvn.training.replicas import share_of_mean
from tfvn.utils import private, private_training

Tensor = Any


class ReplicaLoss(keras.losses.Loss):
    """A loss of an output, in which a replica counts as much as its part of the batch.

    Keras divides the loss of a replica by what that replica has: rows, entries that are not
    masked, or sample weights. The average over the replicas is the loss of the batch only if
    all of them have as much. A loss that is summed over the examples of each replica is so
    over all of them.

    Args:
        loss: The loss that the user passed to `compile` for an output.
    """

    def __init__(self, loss: Any):
        self._given = loss
        own = private_training.get_loss("mse" if _is_open(loss) else loss, None, None)
        # Keras may log the loss of the output under this name.
        name = loss if isinstance(loss, str) else own.name
        super().__init__(name, own.reduction, own.dtype)

    def call(self, y_true: Any, y_pred: Any) -> Tensor:
        return private_training.get_loss(self._given, y_true, y_pred).call(
            y_true, y_pred
        )

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Tensor:
        part = passes.current().record.part
        loss = private_training.get_loss(self._given, y_true, y_pred)
        if part is None or self.reduction == "sum":
            return loss(y_true, y_pred, sample_weight)
        if self.reduction in (None, "none"):
            raise ValueError(
                "On several replicas, a loss must be reduced to one number; pass "
                "`reduction='sum_over_batch_size'` or `'sum'`. Received: loss "
                f"{self.name!r} with reduction={self.reduction!r}"
            )
        check_uses_call(loss, "On several replicas")
        values = self.call(
            *keras.tree.map_structure(
                lambda y: keras.ops.convert_to_tensor(y, self.dtype), (y_true, y_pred)
            )
        )
        if values.shape.rank == 0:
            raise ValueError(
                "On several replicas, a loss must return a value for each example; "
                "average over all axes but the first one. Received: loss "
                f"{self.name!r}, which returns one number"
            )
        given = GivenLoss(values, self.reduction, self.dtype)
        value = given(y_true, y_pred, sample_weight)
        if self.reduction != "mean_with_sample_weight":
            sample_weight = None  # Keras does not divide by it.
        masks = [private.get_keras_mask(tensor) for tensor in (values, y_pred)]
        weight = part.weight
        if sample_weight is not None or any(mask is not None for mask in masks):
            # In float32, because half precision does not count far.
            ones = tf.ones_like(values, tf.float32)
            private.set_keras_mask(ones, masks[0])
            counted = GivenLoss(ones, "none", "float32")
            weight = share_of_mean(
                tf.reduce_sum(counted(y_true, y_pred, sample_weight))
            ).weight
        return value * tf.cast(weight, value.dtype)


def _is_open(loss: Any) -> bool:
    """Whether Keras chooses the loss when it knows the targets."""
    return isinstance(loss, str) and loss.lower() in ("crossentropy", "ce")
