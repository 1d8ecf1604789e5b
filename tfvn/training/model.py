"""`tfvn.Model` and `tfvn.Sequential`: Keras's, trained on the evidence lower bound."""

from typing import Any

import keras
import tensorflow as tf

# What `keras.Model(inputs, outputs)` itself makes, and has no public name.
from keras.src.models.functional import Functional

# Splits arrays as `keras.Model.fit` does; there is no public name for it.
from keras.src.trainers.data_adapters.array_slicing import (
    train_validation_split as _split_arrays,
)

from tfvn.layers.inside import (
    has_noise_per_example,
    stochastic_layers,
    weighted_layers,
)
from tfvn.training import schedules, train_size
from tfvn.training.callbacks.backup import BackupAndRestore
from tfvn.training.elbo import ELBO, log_mean_exp_loss
from tfvn.training.group_optimizer import GroupOptimizer
from tfvn.training.metric_inputs import as_metrics_see
from tfvn.training.run import TrainingRun

Tensor = Any

KL_GRADIENTS = ("total", "path")
SAMPLE_REDUCTIONS = ("mean", "log_mean_exp")


class BayesianTraining(keras.Model):
    """What a Keras model needs in order to be trained on the evidence lower bound.

    The loss is the mean negative log-likelihood of an example, plus the KL of all
    random weights times a weight that a schedule gives, divided by the number of
    training examples, plus the regularizers.
    """

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
                for the groups `"mean"`, `"scale"` and `"default"`.
            loss: The negative log-likelihood of an example, as a Keras loss.
            *args: Further arguments of `keras.Model.compile`.
            kl_schedule: The weight of the KL: a number, a
                `tfvn.schedules.KLSchedule`, or `None` for 1.
            train_size: Number of training examples. `None` lets `fit` find it.
            num_samples: How many draws of the noise a training step averages over.
            sample_reduction: `"mean"` averages the negative log-likelihoods of the
                draws; `"log_mean_exp"` their likelihoods, for a tighter bound.
            kl_gradient: `"total"`, or `"path"` to leave out the score term in layers
                with `kl_method="monte_carlo"` and `estimator="weights"`.
            **kwargs: Further arguments of `keras.Model.compile`.
        """
        _check_choice("kl_gradient", kl_gradient, KL_GRADIENTS)
        _check_choice("sample_reduction", sample_reduction, SAMPLE_REDUCTIONS)
        _check_count("num_samples", num_samples)
        if train_size is not None:
            _check_count("train_size", train_size)
        if isinstance(optimizer, dict) and "class_name" not in optimizer:
            optimizer = GroupOptimizer(optimizer)
        super().compile(optimizer, loss, *args, **kwargs)
        self.num_samples = num_samples
        self.sample_reduction = sample_reduction
        self.kl_gradient = kl_gradient
        with self.distribute_strategy.scope():
            self._bound = ELBO(schedules.get(kl_schedule), train_size)

    def get_compile_config(self) -> dict[str, Any]:
        config = super().get_compile_config()
        return {**config, **self._training_config()} if config else config

    def _training_config(self) -> dict[str, Any]:
        """Returns what `compile` takes beside the arguments of Keras's, and the size."""
        return {
            "kl_schedule": keras.saving.serialize_keras_object(self._bound.schedule),
            "train_size": self._bound.given_size,
            "found_train_size": self._bound.size,
            "num_samples": self.num_samples,
            "sample_reduction": self.sample_reduction,
            "kl_gradient": self.kl_gradient,
        }

    def compile_from_config(self, config: dict[str, Any]) -> None:
        config = keras.saving.deserialize_keras_object(config)
        found = config.pop("found_train_size", None)
        self.compile(**config)
        self._bound.set_size(found)
        if self.built:
            self.optimizer.build(self.trainable_variables)

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        metrics = super().metrics
        if not self.compiled:
            return metrics
        # Right after the loss, in the progress bar too.
        return [*metrics[:1], self._bound.tracker, *metrics[1:]]

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
        shuffle: bool = True,
        class_weight: Any = None,
        sample_weight: Any = None,
        initial_epoch: int = 0,
        steps_per_epoch: int | None = None,
        **kwargs: Any,
    ) -> keras.callbacks.History:
        """Trains the model, as `keras.Model.fit` does and with its arguments.

        The history and the progress bar show `loss`, and what it is made of: `nll`, the
        mean negative log-likelihood of an example; `kl`, the KL of all weights in nats;
        `kl_weight`; and `elbo`, minus the sum of `nll` and of `kl` per example, whatever
        the weight. With an optimizer per group there are also its learning rates.
        """
        self._assert_compile_called("fit")
        if validation_split and validation_data is None:
            (x, y, sample_weight), validation_data = _split_arrays(
                (x, y, sample_weight), validation_split
            )
        data = train_size.measure(x, batch_size, steps_per_epoch)
        has_kl = any(layer.has_kl for layer in weighted_layers(self))
        self._bound.start(data, has_kl)
        if data.are_arrays:
            train_size.check_no_nan(x, y, sample_weight)
        x, are_arrays = data.x, data.are_arrays
        run = TrainingRun(self._bound)
        if isinstance(callbacks, keras.callbacks.CallbackList):
            callbacks.append(run)
        else:
            callbacks = [*tf.nest.flatten(callbacks or []), run]
            backups = [c for c in callbacks if isinstance(c, BackupAndRestore)]
            if backups and shuffle and are_arrays and steps_per_epoch is None:
                arrays = keras.utils.pack_x_y_sample_weight(x, y, sample_weight)
                x = backups[0].data_order.batches(arrays, batch_size)
                y = sample_weight = batch_size = None
                are_arrays = False
        return super().fit(
            x,
            y,
            batch_size,
            epochs,
            verbose,
            callbacks,
            validation_data=validation_data,
            shuffle=shuffle and are_arrays,
            class_weight=class_weight,
            sample_weight=sample_weight,
            initial_epoch=initial_epoch,
            steps_per_epoch=steps_per_epoch,
            **kwargs,
        )

    def train_step(self, data: Any) -> dict[str, Tensor]:
        self._prepare_layers()
        if self.num_samples == 1:
            return super().train_step(data)
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        y, sample_weight = _repeat((y, sample_weight), self.num_samples)
        with tf.GradientTape() as tape:
            y_pred = self._draw_outputs(x)
            loss = self.compute_loss(x, y, y_pred, sample_weight, training=True)
            self._loss_tracker.update_state(
                loss * self.distribute_strategy.num_replicas_in_sync,
                sample_weight=_batch_size(x),
            )
            loss = self.optimizer.scale_loss(loss)
        variables = self.trainable_variables
        gradients = tape.gradient(loss, variables)
        self.optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return self.compute_metrics(x, y, y_pred, sample_weight=sample_weight)

    def test_step(self, data: Any) -> dict[str, Tensor]:
        self._prepare_layers()
        return super().test_step(data)

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Tensor:
        layers = [
            layer for layer in weighted_layers(self) if layer.added_kl() is not None
        ]
        kls = [layer.added_kl() for layer in layers]
        others = [loss for loss in self.losses if not any(loss is kl for kl in kls)]
        nll = self._negative_log_likelihood(y, y_pred, sample_weight, training)
        # Each replica has its part of the examples, but all of the weights.
        replicas = self.distribute_strategy.num_replicas_in_sync
        weight = self._bound.weight(self.optimizer.iterations)
        shared = tf.add_n([tf.zeros(()), *(tf.cast(o, tf.float32) for o in others)])
        kl = tf.zeros(())
        if layers:
            shared += weight / self._bound.examples() * tf.add_n(kls)
            # Without the factors that the layers themselves were given.
            kl = tf.add_n(
                [
                    tf.math.divide_no_nan(kl, layer.kl_weight.value)
                    for layer, kl in zip(layers, kls, strict=True)
                ]
            )
        self._bound.tracker.update_state(
            tf.stack([nll * replicas, kl, weight]), sample_weight=_batch_size(x)
        )
        return nll + shared / replicas

    def compute_metrics(
        self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None
    ) -> dict[str, Tensor]:
        y, y_pred = as_metrics_see(self, y, y_pred)
        return super().compute_metrics(x, y, y_pred, sample_weight)

    def _negative_log_likelihood(
        self, y: Any, y_pred: Any, sample_weight: Any, training: bool
    ) -> Tensor:
        # What `super().compute_loss` starts with; it would go on to add the KL unscaled.
        if self._compile_loss is None:
            return tf.zeros(())
        if not training or self.sample_reduction == "mean" or self.num_samples == 1:
            loss = self._compile_loss(y, y_pred, sample_weight)
            return tf.cast(loss, tf.float32)
        losses = log_mean_exp_loss(
            keras.losses.get(self.loss), y, y_pred, self.num_samples
        )
        if sample_weight is not None:
            losses *= tf.cast(sample_weight[: tf.shape(losses)[0]], losses.dtype)
        replicas = self.distribute_strategy.num_replicas_in_sync
        return tf.cast(tf.reduce_mean(losses), tf.float32) / replicas

    def _draw_outputs(self, x: Any) -> Tensor:
        """Returns `num_samples` outputs for each example, one batch after the other."""
        if has_noise_per_example(self):
            return self(_repeat(x, self.num_samples), training=True)
        # Examples of one pass share weights or noise, so each draw is a pass of its own.
        draws = [self(x, training=True) for _ in range(self.num_samples)]
        return tf.nest.map_structure(lambda *parts: tf.concat(parts, axis=0), *draws)

    def _prepare_layers(self) -> None:
        for weighted in weighted_layers(self):
            weighted.kl_weight_is_supplied = True
        layers = stochastic_layers(self)
        for layer in layers:
            layer.kl_gradient = self.kl_gradient
        if self.kl_gradient == "path" and not any(
            layer.shares_kl_sample for layer in layers
        ):
            raise ValueError(
                "The path derivative is that of a KL estimated from the weights of the "
                "forward pass; expected a layer with `kl_method='monte_carlo'` and "
                "`estimator='weights'`. Received: kl_gradient='path' and none"
            )


class Model(BayesianTraining):
    """A `keras.Model` that is trained on the evidence lower bound.

    A drop-in for Keras's: made of inputs and outputs, or by a subclass with a `call`. The
    layers need no `kl_weight`: `fit` finds the number of training examples and divides the
    KL by it.

    Args:
        *args: As in `keras.Model`.
        **kwargs: As in `keras.Model`.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> import tfvn
    >>> inputs = keras.Input((4,))
    >>> model = tfvn.Model(inputs, tfvn.MeanFieldDense(1)(inputs))
    >>> model.compile({"mean": "adam", "scale": "adam"}, "mse", kl_schedule=0.1)
    >>> x, y = np.ones((8, 4)), np.ones((8, 1))
    >>> sorted(model.fit(x, y, verbose=0).history)[:5]
    ['elbo', 'kl', 'kl_weight', 'learning_rate_default', 'learning_rate_mean']
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls is Model and _is_functional(args, kwargs):
            return FunctionalModel.__new__(FunctionalModel, *args, **kwargs)
        return super().__new__(cls, *args, **kwargs)

    def __init__(self, *args: Any, **kwargs: Any):
        if _is_functional(args, kwargs):
            if not isinstance(self, Functional):
                _make_functional(type(self))
            Functional.__init__(self, *args, **kwargs)
        else:
            keras.Model.__init__(self, *args, **kwargs)


@keras.saving.register_keras_serializable("tfvn")
class FunctionalModel(Model, Functional):
    """What `tfvn.Model(inputs, outputs)` makes."""


@keras.saving.register_keras_serializable("tfvn")
class Sequential(BayesianTraining, keras.Sequential):
    """A `keras.Sequential` that is trained on the evidence lower bound.

    A drop-in for Keras's; see `tfvn.Model`.

    Args:
        layers: Optional list of layers.
        trainable: Whether the model's variables are trained.
        name: Name of the model.

    Example:

    >>> import keras
    >>> import tfvn
    >>> model = tfvn.Sequential([keras.Input((4,)), tfvn.KTiedDense(1)])
    >>> model.compile(loss="mse", kl_schedule=tfvn.schedules.LinearAnnealing(epochs=5))
    """

    saved_training: dict[str, Any] | None = None

    # `keras.models.clone_model` makes a plain `keras.Sequential` of any `Sequential` and
    # compiles it by this one's compile config, so ours is kept beside the layers.

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        return (
            {**config, "training": self._training_config()} if self.compiled else config
        )

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        config = dict(config)
        training = config.pop("training", None)
        model = super().from_config(config, custom_objects)
        model.saved_training = training
        return model

    def get_compile_config(self) -> dict[str, Any]:
        return keras.Sequential.get_compile_config(self)

    def compile_from_config(self, config: dict[str, Any]) -> None:
        super().compile_from_config({**config, **(self.saved_training or {})})


def _is_functional(args: tuple, kwargs: dict[str, Any]) -> bool:
    # As Keras tells.
    given = len(args) + sum(name in kwargs for name in ("inputs", "outputs"))
    return given >= 2


def _make_functional(cls: type) -> None:
    # What Keras does to subclasses of its own `Model`, but stopping at ours: it would
    # make every `tfvn.Model` functional.
    cls.__bases__ = tuple(
        FunctionalModel if base is Model else base for base in cls.__bases__
    )
    for base in cls.__bases__:
        if issubclass(base, Model) and not issubclass(base, Functional):
            _make_functional(base)


def _repeat(data: Any, times: int) -> Any:
    return tf.nest.map_structure(
        lambda part: None if part is None else tf.concat([part] * times, axis=0), data
    )


def _batch_size(x: Any) -> Tensor:
    return tf.shape(next(part for part in tf.nest.flatten(x) if part is not None))[0]


def _check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(
            f"Argument `{name}` must be one of {list(choices)}. Received: {name}={value!r}"
        )


def _check_count(name: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(
            f"Argument `{name}` must be an integer of at least 1. "
            f"Received: {name}={value!r}"
        )
