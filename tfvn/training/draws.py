"""Several draws of a model's noise in one step, and their joint loss."""

import inspect
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from tfvn import passes
from tfvn.layers.weighted_kl import weighted_layers
from tfvn.utils import private, private_training
from tfvn.utils.models import all_layers, has_noise_per_example, is_stock

Tensor = Any


class Draw(NamedTuple):
    """The result of one pass of a model.

    Attributes:
        y_pred: The outputs, with their masks.
        loss: The sum of the losses that layers added in the pass.
        kl: The KL of all random weights, in nats.
    """

    y_pred: Any
    loss: Tensor
    kl: Tensor


def draw(model: keras.Model, x: Any, count: int) -> list[Draw]:
    """Returns draws of a model's outputs, as in training.

    If every example has its own noise, the draws are one pass over repeated rows;
    otherwise the examples of a pass share weights or noise, and each draw is a separate
    pass.

    Args:
        model: The model.
        x: A batch of inputs.
        count: Number of draws.
    """
    check_is_stateless(model)
    if not _can_repeat_rows(model, x):
        return [of_last_pass(model, _call(model, x)) for _ in range(count)]
    repeated = tf.nest.map_structure(
        lambda part: None if part is None else tf.concat([part] * count, axis=0), x
    )
    every = of_last_pass(model, _call(model, repeated))
    rows = rows_of(x)
    return [
        every._replace(y_pred=_rows(every.y_pred, index * rows, rows))
        for index in range(count)
    ]


def of_last_pass(model: keras.Model, y_pred: Any) -> Draw:
    """Returns the last pass of a model as a draw.

    Args:
        model: The model.
        y_pred: The outputs of the pass.
    """
    losses = [
        tf.reduce_sum(tf.cast(loss, tf.float32)) for loss in _losses(model, y_pred)
    ]
    loss = tf.add_n([tf.zeros(()), *losses])
    return Draw(y_pred, loss, passes.current().record.kl())


def _losses(model: keras.Model, y_pred: Any) -> list[Tensor]:
    """Returns the losses that the layers of a model have added in the last pass."""
    step = passes.current()
    replicas = model.distribute_strategy.num_replicas_in_sync
    if step.owner is not model or replicas == 1:
        return model.losses
    # Replicas of one process share their layers, and so the lists in which Keras keeps the
    # losses. They take turns where they communicate, which a synchronized batch
    # normalization does within the pass. The lists then have the KL of another replica.
    own = [step.record.divergences.get(id(layer)) for layer in weighted_layers(model)]
    others = [loss for loss in model.losses if not private.is_marked_as_kl(loss)]
    # A layer that averages over no rows adds NaN.
    is_empty = tf.equal(rows_of(y_pred), 0)
    return [divergence.loss for divergence in own if divergence is not None] + [
        tf.where(is_empty & tf.math.is_nan(loss), tf.zeros_like(loss), loss)
        for loss in others
    ]


def rows_of(x: Any) -> Tensor:
    """Returns the number of examples in a batch of inputs."""
    first = next(part for part in tf.nest.flatten(x) if part is not None)
    return tf.shape(first)[0]


def check_is_stateless(model: keras.Model) -> None:
    """Raises if a model passes a state from one batch to the next."""
    for layer in all_layers(model):
        if getattr(layer, "stateful", False) is True:
            raise ValueError(
                "With `num_samples` above 1, a stateful recurrent layer would pass its "
                "state from one draw to the next, although all draws of a batch must "
                "start from the same state; pass `num_samples=1` or `stateful=False`. "
                f"Received: layer {layer.name!r} with stateful=True"
            )


def _call(model: keras.Model, x: Any) -> Any:
    # Like `keras.Model.train_step`.
    has_argument = "training" in inspect.signature(model.call).parameters
    return model(x, training=True) if has_argument else model(x)


def _can_repeat_rows(model: keras.Model, x: Any) -> bool:
    if not has_noise_per_example(model):
        return False
    parts = [part for part in tf.nest.flatten(x) if part is not None]
    if not all(isinstance(part, tf.Tensor) for part in parts):
        return False  # sparse or ragged
    symbols = tf.nest.flatten(getattr(model, "inputs", None) or [])
    if any(symbol is not None and symbol.shape[0] is not None for symbol in symbols):
        return False  # a model for batches of one size
    # A user's layer may add a loss that depends on the size of a batch.
    return all(
        is_stock(type(layer)) and getattr(layer, "activity_regularizer", None) is None
        for layer in all_layers(model)
    )


def _rows(structure: Any, start: Tensor, count: Tensor) -> Any:
    """Returns some rows of outputs, and of their masks."""

    def take(tensor: Tensor) -> Tensor:
        rows = tensor[start : start + count]
        mask = private.get_keras_mask(tensor)
        if mask is not None:
            private.set_keras_mask(rows, mask[start : start + count])
        return rows

    return keras.tree.map_structure(take, structure)


class BatchLossError(ValueError):
    """A loss returns one number for a batch instead of a value for each example."""


def check_uses_call(loss: keras.losses.Loss, where: str) -> None:
    """Raises if a loss is more than the reduced values that its `call` returns.

    Args:
        loss: A loss, of which only `call` will be used.
        where: The beginning of the error message.
    """
    if type(loss).__call__ is not keras.losses.Loss.__call__:
        raise ValueError(
            f"{where}, a loss must leave `__call__` to Keras; override its method `call`, "
            f"which returns a value for each example. Received: loss {loss.name!r} of "
            f"class {type(loss).__name__}, which overrides `__call__`"
        )


class LogMeanExpLoss:
    """Minus the logarithm of the average likelihood of several draws.

    For each draw, the loss of an example is summed over its time steps and outputs, which
    gives the negative logarithm of a likelihood. The likelihoods are averaged over the
    draws, and the logarithms of the averages are added up over the examples. The result
    has the scale of Keras's own loss, and equals it if all draws are equal: masks, sample
    weights, `loss_weights` and the reduction of each loss work in the same way.

    Args:
        compiled: The compiled loss of a model.

    Reference:

    - [Burda et al., 2016](https://arxiv.org/abs/1509.00519), equation 8
    """

    def __init__(self, compiled: Any):
        self._shares: list[_ShareOfExamples] = []
        self._compiled = private_training.mapped_loss(compiled, self._wrap)

    def _wrap(self, loss: Any) -> Any:
        if loss is None:
            return None
        self._shares.append(_ShareOfExamples(loss))
        return self._shares[-1]

    def __call__(self, y: Any, draws: list[Any], sample_weight: Any) -> Tensor:
        """Returns the loss.

        Args:
            y: Targets.
            draws: The outputs of each draw.
            sample_weight: As in a Keras loss.
        """
        # The part of each example in the loss of a draw.
        parts = [self._compiled(y, y_pred, sample_weight) for y_pred in draws]
        # Keras divides, for example by the number of time steps; a likelihood does not.
        scale = tf.reduce_max(
            tf.stack([share.scale for share in self._shares if share.scale is not None])
        )
        nlls = tf.math.divide_no_nan(tf.stack(parts), scale)
        count = tf.math.log(tf.cast(len(draws), nlls.dtype))
        per_example = count - tf.reduce_logsumexp(-nlls, axis=0)
        return scale * tf.reduce_sum(per_example)


class _ShareOfExamples(keras.losses.Loss):
    """The part of each example in a loss that is reduced over a batch.

    Args:
        loss: The loss that the user passed to `compile` for an output.

    Attributes:
        scale: The factor of the sum over the examples in the last call.
    """

    def __init__(self, loss: Any):
        self._given = loss
        self.scale: Tensor | None = None
        super().__init__(name=getattr(loss, "name", None))

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Tensor:
        loss = private_training.get_loss(self._given, y_true, y_pred)
        check_uses_call(loss, "With `sample_reduction='log_mean_exp'`")
        values = loss.call(
            keras.ops.convert_to_tensor(y_true, loss.dtype),
            keras.ops.convert_to_tensor(y_pred, loss.dtype),
        )
        if values.shape.rank == 0:
            raise BatchLossError(
                "`sample_reduction='log_mean_exp'` needs a loss that returns a value "
                "for each example; use a loss that is not averaged over the batch, or "
                f"pass `sample_reduction='mean'`. Received: loss {loss.name!r}, which "
                "returns one number"
            )
        ones = tf.ones_like(values)
        private.set_keras_mask(ones, private.get_keras_mask(values))

        def reduced(given: Tensor, reduction: Any) -> Tensor:
            each = GivenLoss(given, reduction, loss.dtype)
            return each(y_true, y_pred, sample_weight)

        # Keras's reduction does not depend on the loss, so the reduction of ones gives
        # the scale.
        self.scale = tf.math.divide_no_nan(
            reduced(ones, loss.reduction), tf.reduce_sum(reduced(ones, "none"))
        )
        if self.scale.shape.rank != 0:
            self.scale = tf.ones((), loss.dtype)  # of a loss that is not reduced
        shares = reduced(values, "none")
        axes = list(range(1, shares.shape.rank))
        return self.scale * tf.reduce_sum(shares, axis=axes)


class GivenLoss(keras.losses.Loss):
    """A loss with known values, which Keras masks, weighs and reduces."""

    def __init__(self, values: Tensor, reduction: Any, dtype: Any):
        super().__init__(reduction=reduction, dtype=dtype)
        self._values = values

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        return self._values
