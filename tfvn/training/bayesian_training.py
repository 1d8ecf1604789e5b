"""Trains a Keras model on the evidence lower bound."""

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tfvn import passes
from tfvn.layers.weighted_kl import UNKNOWN_SIZE, weighted_layers
from tfvn.training import elbo, replicas, schedules, train_size
from tfvn.training.bound_loss import BoundLoss
from tfvn.training.callbacks.steps import undo_changes
from tfvn.training.data_order import DataOrder
from tfvn.training.draws import LogMeanExpLoss
from tfvn.training.group_optimizer import GroupOptimizer
from tfvn.training.metric_inputs import metric_inputs
from tfvn.training.replica_loss import ReplicaLoss
from tfvn.training.run import check_path_gradient, warn_of_sums, with_own_callbacks
from tfvn.training.state import TrainingState
from tfvn.training.workers import explains_loss
from tfvn.utils import private, private_training
from tfvn.utils.validation import check_choice, check_count, check_verbose

Tensor = Any

KL_GRADIENTS = ("total", "path")
SAMPLE_REDUCTIONS = ("mean", "log_mean_exp")


class BayesianTraining(BoundLoss):
    """A Keras model that is trained on the evidence lower bound.

    The loss is the mean negative log-likelihood of an example, plus the KL of all random
    weights times the weight of the schedule, divided by the number of training examples,
    plus the regularizers.
    """

    train_function: Any
    test_function: Any

    # Whether the last traced step reported the parts of its loss; the loss of a
    # subclass may not.
    _has_parts = True

    def compile(
        self,
        optimizer: Any = "rmsprop",
        loss: Any = None,
        *args: Any,
        kl_schedule: Any = None,
        train_size: int | None = None,
        num_samples: int = 1,
        sample_reduction: str = "mean",
        kl_gradient: str = "total",
        **kwargs: Any,
    ) -> None:
        """Configures the model for training.

        Args:
            optimizer: An optimizer for all variables, or a dictionary of optimizers
                for the groups `"mean"`, `"scale"`, `"prior"` (variables of priors) and
                `"default"`.
            loss: The negative log-likelihood of an example, as a Keras loss.
            *args: Further arguments of `keras.Model.compile`.
            kl_schedule: The weight of the KL: a number, a
                `tfvn.schedules.KLSchedule`, or `None` for 1.
            train_size: Number of training examples. `None` lets `fit` find it.
            num_samples: Number of draws of the noise that a training step averages.
            sample_reduction: `"mean"` averages the negative log-likelihoods of the
                draws; `"log_mean_exp"` their likelihoods, for a tighter bound.
            kl_gradient: `"total"`, or `"path"` to leave out the score term in layers
                with `kl_method="monte_carlo"` and `estimator="weights"`.
            **kwargs: Further arguments of `keras.Model.compile`.
        """
        kl_gradient = check_choice("kl_gradient", kl_gradient, KL_GRADIENTS)
        reduction = check_choice(
            "sample_reduction", sample_reduction, SAMPLE_REDUCTIONS
        )
        num_samples = check_count("num_samples", num_samples)
        train_size = check_count("train_size", train_size, or_none=True)
        if isinstance(optimizer, dict) and "class_name" not in optimizer:
            optimizer = GroupOptimizer(optimizer)
        super().compile(optimizer, loss, *args, **kwargs)
        # Private names, because a user's model may have attributes with these names.
        self._num_samples = num_samples
        self._sample_reduction = reduction
        self._kl_gradient = kl_gradient
        self._log_mean_exp = None
        if reduction == "log_mean_exp" and num_samples > 1 and loss is not None:
            self._log_mean_exp = LogMeanExpLoss(private_training.compiled_loss(self))
        if loss is not None and self.distribute_strategy.num_replicas_in_sync > 1:
            private_training.replace_losses(self, ReplicaLoss)
        with self.distribute_strategy.scope():
            private_training.set_loss_tracker(self, replicas.LossTracker(name="loss"))
            self._elbo = elbo.ELBO(
                schedules.get(kl_schedule), train_size, self.training_state
            )

    def get_compile_config(self) -> dict[str, Any]:
        config = super().get_compile_config()
        return {**config, **self.training_config()} if config else config

    def training_config(self) -> dict[str, Any]:
        """Returns the arguments of `compile` that Keras's `compile` does not have."""
        return {
            "kl_schedule": keras.saving.serialize_keras_object(self._elbo.schedule),
            "train_size": self._elbo.given_size,
            "num_samples": self._num_samples,
            "sample_reduction": self._sample_reduction,
            "kl_gradient": self._kl_gradient,
        }

    def compile_from_config(self, config: dict[str, Any]) -> None:
        if type(self).compile is not BayesianTraining.compile:
            # Keras does not compile a model that overrides `compile`, and warns the
            # user.
            keras.Model.compile_from_config(self, config)
            return
        config = keras.saving.deserialize_keras_object(config)
        found = config.pop("found_train_size", None)  # of a file of version 0.1
        self.compile(**config)
        if found is not None:
            self.training_state.size.assign(found)
        if self.built:
            self.optimizer.build(self.trainable_variables)

    @property
    def training_state(self) -> TrainingState:
        """The progress of the training, which Keras saves with the model."""
        # Stored so that Keras does not see it; Keras would track it as a metric.
        attributes: Any = vars(self)
        if "__training_state" not in attributes:
            with tf.init_scope(), self.distribute_strategy.scope():
                attributes["__training_state"] = TrainingState()
        return attributes["__training_state"]

    @property
    def training_state_variables(self) -> list[keras.Variable]:
        """The variables that a backup needs besides those of model and optimizer."""
        weights = [layer.kl_weight for layer in weighted_layers(self)]
        known = [weight for weight in weights if weight is not None]
        return [*self.training_state.variables, *known]

    def _trackable_children(self, save_type: str = "checkpoint", **kwargs: Any) -> Any:
        # `tf.train.Checkpoint` only finds variables that are attributes of layers, not those
        # of posteriors, of seed generators and of the training.
        children = super()._trackable_children(save_type, **kwargs)
        if save_type != "checkpoint":
            return children
        if not self.built:
            raise ValueError(
                "A model must be built before a checkpoint of it is saved or restored, or "
                "its noise would be missing; call it on some data, or its method `build`. "
                f"Received: model={self.name!r}, which is not built"
            )
        state = [*self.variables, *self.training_state_variables]
        numbered = {f"tfvn_variable_{i}": value for i, value in enumerate(state)}
        return {**children, **numbered}

    def _get_metrics_result_or_logs(self, logs: Any) -> Any:
        # A `train_step` of the user's own may return the metrics without the parts. What the
        # last step has returned is, on several replicas, an average of their metrics.
        metrics = super().get_metrics_result()
        is_without_parts = isinstance(logs, dict) and logs.keys() == metrics.keys()
        return (
            metrics if is_without_parts else super()._get_metrics_result_or_logs(logs)
        )

    # The parts of the bound are not in `metrics`, because users loop over those.

    def reset_metrics(self) -> None:
        super().reset_metrics()
        if self.compiled:
            self._elbo.tracker.reset_state()

    def get_metrics_result(self) -> dict[str, Tensor]:
        results = super().get_metrics_result()
        step = passes.current()
        if step.owner is self:
            self._has_parts = step.record.is_tracked
        if not self._has_parts:
            return results
        parts = self._elbo.tracker.result()
        # They come right after the loss, also in the progress bar.
        first = {name: results[name] for name in results if name == "loss"}
        return {**first, **parts, **results}

    def _flatten_metrics_in_order(self, logs: dict[str, Any]) -> Any:
        # Without `return_dict`, `evaluate` and similar methods return the same as for a
        # Keras model.
        if set(elbo.NAMES) <= set(logs):
            own = super().get_metrics_result()
            logs = {n: v for n, v in logs.items() if n in own or n not in elbo.NAMES}
        return super()._flatten_metrics_in_order(logs)

    @explains_loss
    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        epochs: int = 1,
        verbose: Any = "auto",
        callbacks: Any = None,
        validation_split: float = 0.0,
        validation_data: Any = None,
        shuffle: bool | str = True,
        class_weight: Any = None,
        sample_weight: Any = None,
        initial_epoch: int = 0,
        steps_per_epoch: int | None = None,
        **kwargs: Any,
    ) -> keras.callbacks.History:
        """Trains the model, with the arguments of `keras.Model.fit`.

        The history and the progress bar show `loss` and its parts: `nll`, the mean
        negative log-likelihood of an example; `kl`, the KL of all weights in nats;
        `kl_weight`; and `elbo`, minus the sum of `nll` and of `kl` per example, without
        `kl_weight`. With one optimizer per group they also show the learning rates.
        """
        if not self.compiled:
            raise ValueError(
                "You must call `compile()` before `fit()`. Received: "
                f"model={self.name!r}, which is not compiled"
            )
        check_verbose(verbose)
        replicas.check(self)
        replicas.check_steps(self)
        if validation_data is not None:
            validation_split = 0.0
        data = train_size.measure(x, batch_size, steps_per_epoch, validation_split)
        has_kl = any(layer.has_kl for layer in weighted_layers(self))
        self._elbo.start(data, has_kl)
        if has_kl:
            warn_of_sums(self.loss)
        size: Any = data.size  # known if the data are arrays
        if data.are_arrays:
            train_size.warn_of_nan(size, x, y, sample_weight)
        x, are_arrays = data.x, data.are_arrays
        callbacks, backups = with_own_callbacks(callbacks, self, self._elbo)
        several = replicas.has_several_workers(self.distribute_strategy)
        replicas.check_last_batch(self, data, batch_size)
        if several:
            replicas.check_order(data, shuffle)
        is_ordered = shuffle and are_arrays and not train_size.is_sparse(x)
        if is_ordered and (several or (backups and steps_per_epoch is None)):
            arrays = keras.utils.pack_x_y_sample_weight(x, y, sample_weight)
            if validation_split:
                validation_data = keras.tree.map_structure(
                    lambda array: None if array is None else array[size:], arrays
                )
                validation_split = 0.0
            if backups and steps_per_epoch is None:
                x = backups[0].data_order.batches(arrays, batch_size, size)
            else:
                order = DataOrder(replicas.shared_seed(self.distribute_strategy))
                x = order.endless_batches(arrays, batch_size, size)
                steps_per_epoch = steps_per_epoch or data.steps
            y = sample_weight = batch_size = None
            are_arrays = False
        is_shuffled = are_arrays or getattr(x, "num_batches", None) is not None
        try:
            return super().fit(
                x,
                y,
                batch_size,
                epochs,
                verbose,
                callbacks,
                validation_split,
                validation_data,
                # For other data Keras would warn that it does not shuffle.
                shuffle=shuffle if is_shuffled else False,
                class_weight=class_weight,
                sample_weight=sample_weight,
                initial_epoch=initial_epoch,
                steps_per_epoch=steps_per_epoch,
                **kwargs,
            )
        except BaseException:
            # Keras does not tell callbacks, but they have to restore what they changed.
            undo_changes(self)
            raise

    @explains_loss
    @functools.wraps(keras.Model.evaluate)
    def evaluate(self, *args: Any, **kwargs: Any) -> Any:
        return super().evaluate(*args, **kwargs)

    @explains_loss
    @functools.wraps(keras.Model.predict)
    def predict(self, *args: Any, **kwargs: Any) -> Any:
        return super().predict(*args, **kwargs)

    # `fit` and similar methods run a step, maybe that of a subclass, within a pass.

    def make_train_function(self, force: bool = False) -> None:
        if self.train_function is None or force:
            self._check_size()
            self.train_function = self._step_function(self.run_train_step)

    def make_test_function(self, force: bool = False) -> None:
        if self.test_function is None or force:
            self._check_size()
            self.test_function = self._step_function(self.run_test_step)

    def _check_size(self) -> None:
        """Raises if the KL can't be weighed, before a trace would wrap the error."""
        has_kl = any(layer.has_kl for layer in weighted_layers(self))
        if has_kl and self.compiled and self._elbo.size is None:
            raise ValueError(UNKNOWN_SIZE)

    def _step_function(self, step: Callable) -> Callable:
        def run(data: Any) -> dict[str, Tensor]:
            # Noise is drawn in another way if XLA compiles the step.
            with passes.changed(is_compiled=bool(self.jit_compile)):
                return step(data)

        replicas.check(self)
        replicas.check_steps(self)
        if self.distribute_strategy.num_replicas_in_sync == 1:
            return private_training.step_function(self, run)
        logs = replicas.LogVector()
        function = private_training.step_function(
            self, lambda data: logs.pack(run(data))
        )
        return lambda iterator: logs.unpack(function(iterator))

    def make_predict_function(self, force: bool = False) -> None:
        replicas.check(self)
        super().make_predict_function(force)

    def _maybe_symbolic_build(
        self, iterator: Any = None, data_batch: Any = None
    ) -> None:
        replicas.check(self)
        if iterator is not None:
            data_batch = private_training.batch_spec(iterator)
        super()._maybe_symbolic_build(iterator=None, data_batch=data_batch)

    def run_train_step(self, data: Any) -> dict[str, Tensor]:
        """Runs a `train_step` like `fit`: weighs the KL and counts the batch.

        Args:
            data: A batch.
        """
        with self._pass(training=True) as step:
            logs = self.train_step(data)
        if self._kl_gradient == "path":
            check_path_gradient(self)
        if self._num_samples > 1 and step.record.draws == 0:
            raise ValueError(
                "Only the `train_step` of `tfvn.Model` can average over several draws "
                "of the noise; pass `num_samples=1`, or call "
                "`super().train_step(data)` in your `train_step`. Received: "
                f"num_samples={self._num_samples}"
            )
        self.training_state.count_batch()
        return logs

    def run_test_step(self, data: Any) -> dict[str, Tensor]:
        """Runs a `test_step` like `evaluate`: weighs the KL.

        Args:
            data: A batch.
        """
        with self._pass(training=False):
            return self.test_step(data)

    def _pass(self, training: bool) -> contextlib.AbstractContextManager[passes.Pass]:
        """Enters a step of this model, or stays in the current one."""
        now = passes.current()
        if now.owner is self:
            return passes.entered(now)
        weight = self._elbo.weight(training)
        return passes.changed(
            owner=self,
            kl_weight=weight,
            kl_factor=self._elbo.factor(weight),
            kl_gradient=self._kl_gradient,
            num_samples=1,
            record=passes.Record(),
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # In the user's own training loop, layers weigh their KL as in a step, so that
        # `losses` are right. Inside another layer or step, that one decides.
        now = passes.current()
        is_alone = now.owner is None and now.adds_kl and private.current_call() is None
        if not is_alone or not self.compiled or self._elbo.size is None:
            return super().__call__(*args, **kwargs)
        with self._pass(training=False):
            return super().__call__(*args, **kwargs)

    def train_step(self, data: Any) -> dict[str, Tensor]:
        is_own = passes.current().owner is not self
        count = self._num_samples
        with self._pass(training=True), passes.changed(num_samples=count):
            logs = super().train_step(data)
        if is_own:
            self.training_state.count_batch()  # nobody else does, outside of `fit`
        return logs

    def test_step(self, data: Any) -> dict[str, Tensor]:
        with self._pass(training=False):
            return super().test_step(data)

    def compute_metrics(
        self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None
    ) -> dict[str, Tensor]:
        y, y_pred = metric_inputs(self, y, y_pred)
        return super().compute_metrics(x, y, y_pred, sample_weight)
