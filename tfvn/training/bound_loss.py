"""The loss of a model that is trained on the evidence lower bound."""

from typing import Any

import keras
import tensorflow as tf

from tfvn import passes
from tfvn.layers.weighted_kl import UNKNOWN_SIZE, weighted_layers
from tfvn.training import elbo, schedules
from tfvn.training.draws import Draw, LogMeanExpLoss, draw, of_last_pass, rows_of
from tfvn.training.replicas import part_of_batch
from tfvn.utils import private_training

Tensor = Any


class BoundLoss(keras.Model):
    """A Keras model whose loss is minus the evidence lower bound of an example.

    `compile` sets the attributes that the loss uses.
    """

    _elbo: elbo.ELBO
    _num_samples: int
    _log_mean_exp: LogMeanExpLoss | None

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Tensor:
        step = passes.current()
        is_own = step.owner is self
        if not is_own:
            self._check_loop(training)
        draws = [of_last_pass(self, y_pred)]
        if is_own and training and step.num_samples > 1:
            if x is None:
                raise ValueError(
                    "With `num_samples` above 1, `compute_loss` needs the inputs to "
                    "draw again; call `compute_loss(x, y, y_pred)`. Received: x=None "
                    f"and num_samples={step.num_samples}"
                )
            draws += draw(self, x, step.num_samples - 1)
            step.record.draws = len(draws)
        # Each replica has a part of the examples, but all weights.
        replicas = self.distribute_strategy.num_replicas_in_sync
        record = step.record if is_own else passes.Record()
        if replicas > 1:
            record.part = part_of_batch(rows_of((x, y_pred)))
        with passes.changed(record=record):
            nll = self._negative_log_likelihood(y, draws, sample_weight)
        if is_own:
            rows: Any = 1 if x is None else rows_of(x)
            if record.part is not None:
                rows = record.part.mean_rows
            step.record.is_tracked = True
            self._elbo.tracker.update_state(
                tf.stack(
                    [
                        tf.reduce_mean(nll) * replicas,
                        _mean([drawn.kl for drawn in draws]),
                        step.kl_weight,
                    ]
                ),
                sample_weight=rows,
            )
        return nll + _mean([drawn.loss for drawn in draws]) / replicas

    def _is_averaged(self) -> bool:
        """Whether the joint loss of several draws is averaged over a batch."""
        losses = [loss for loss in keras.tree.flatten(self.loss) if loss is not None]
        sums = [getattr(loss, "reduction", "mean") == "sum" for loss in losses]
        if any(sums) and not all(sums):
            raise ValueError(
                "On several replicas, with `sample_reduction='log_mean_exp'`, all losses "
                "of a model must be averaged over the batch, or all summed; pass the "
                "same `reduction` to each. Received: "
                f"reductions={[getattr(loss, 'reduction', 'mean') for loss in losses]}"
            )
        return not any(sums)

    def _check_loop(self, training: bool) -> None:
        """Raises if the loss would be wrong in the user's own training loop."""
        if training and self._num_samples > 1:
            raise ValueError(
                "Only `fit` can average over several draws of the noise; compile with "
                "`num_samples=1` to use a training loop of your own. Received: "
                f"num_samples={self._num_samples}"
            )
        is_alone = passes.current().owner is None
        if not is_alone or not any(layer.has_kl for layer in weighted_layers(self)):
            return
        schedule = self._elbo.schedule
        if training and not isinstance(schedule, schedules.Constant):
            raise ValueError(
                "A KL schedule counts the batches of `fit`, so in a training loop of "
                "your own its weight would never change; call "
                "`model.run_train_step((x, y))` for each batch, or compile with a "
                "number as `kl_schedule`. Received: "
                f"kl_schedule={type(schedule).__name__}"
            )
        if self._elbo.size is None:
            raise ValueError(UNKNOWN_SIZE)

    def _negative_log_likelihood(
        self, y: Any, draws: list[Draw], sample_weight: Any
    ) -> Tensor:
        compiled = private_training.compiled_loss(self)
        if compiled is None:
            return tf.zeros(())
        outputs = [drawn.y_pred for drawn in draws]
        # This call also updates the logged loss of each output.
        losses = [compiled(y, y_pred, sample_weight) for y_pred in outputs]
        if losses[0] is None:
            return tf.zeros(())
        if self._log_mean_exp is not None and len(draws) > 1:
            joint = tf.cast(self._log_mean_exp(y, outputs, sample_weight), tf.float32)
            part = passes.current().record.part
            return (
                joint
                if part is None or not self._is_averaged()
                else joint * part.weight
            )
        return _mean([tf.cast(loss, tf.float32) for loss in losses])


def _mean(values: list[Tensor]) -> Tensor:
    return values[0] if len(values) == 1 else tf.add_n(values) / len(values)
