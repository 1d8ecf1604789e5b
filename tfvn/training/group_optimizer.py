"""One optimizer for each group of variables."""

from collections.abc import Iterable
from typing import Any

import keras
import tensorflow as tf

from tfvn.training.groups import GROUPS, group_of
from tfvn.utils import private_training

Tensor = Any


@keras.saving.register_keras_serializable("tfvn")
class GroupOptimizer(keras.optimizers.MultiOptimizer):
    """Updates means, scales and all other variables with separate optimizers.

    If you pass a dictionary of optimizers to `tfvn.Model.compile`, it creates a
    `GroupOptimizer`. You may also pass one to `keras.Model.compile`. Each layer marks its
    variables with their group.

    Args:
        optimizers: A dictionary with some of the keys `"mean"`, `"scale"`, `"prior"`
            (the variables of trainable priors) and `"default"`, and optimizers or their
            names as values. The optimizer of `"default"`, by default an Adam, also updates
            the groups that are not in the dictionary.
        loss_scale_factor: As in every Keras optimizer.
        name: Name of the optimizer.

    Example:

    >>> import keras
    >>> import tfvn
    >>> model = tfvn.Sequential([keras.Input((4,)), tfvn.MeanFieldDense(3)])
    >>> model.compile({"mean": "adam", "scale": keras.optimizers.SGD(0.1)}, "mse")
    >>> {name: type(opt).__name__ for name, opt in model.optimizer.groups.items()}
    {'mean': 'Adam', 'scale': 'SGD', 'default': 'Adam'}
    """

    def __init__(
        self,
        optimizers: dict[str, Any],
        loss_scale_factor: float | None = None,
        name: str = "group_optimizer",
    ):
        if not optimizers:
            raise ValueError(
                "A dictionary of optimizers must have an optimizer for at least one of "
                f"the groups {list(GROUPS)}. Received: optimizer={{}}"
            )
        unknown = sorted(set(optimizers) - set(GROUPS))
        if unknown:
            raise ValueError(
                "The keys of a dictionary of optimizers must be groups of variables, "
                f"some of {list(GROUPS)}. Received: optimizer with keys {unknown}"
            )
        made: dict[str, keras.optimizers.Optimizer] = {}
        for group, identifier in {"default": "adam", **optimizers}.items():
            optimizer = keras.optimizers.get(identifier)
            if any(optimizer is other for other in made.values()):
                # An optimizer counts its steps. Shared by two groups, it would count each
                # step twice, so the second group gets a copy.
                optimizer = type(optimizer).from_config(optimizer.get_config())
            made[group] = optimizer
        groups = {group: made[group] for group in GROUPS if group in made}
        optimizer_of = _OptimizerOfVariable(groups["default"], groups)
        super().__init__(optimizer_of, loss_scale_factor=loss_scale_factor, name=name)
        self._optimizer_of = optimizer_of
        self.groups = groups
        self._switches: dict[str, keras.Variable] = {}

    def learning_rates(self) -> dict[str, float]:
        """Returns the current learning rate of each group."""
        return {
            group: float(keras.ops.convert_to_numpy(optimizer.learning_rate))
            for group, optimizer in self.groups.items()
        }

    @property
    def has_switches(self) -> bool:
        """Whether groups can be switched off."""
        return bool(self._switches)

    def add_switches(self) -> None:
        """Lets `switch` turn groups off, in training steps that are traced after this."""
        self._switches = {
            group: keras.Variable(1.0, trainable=False, name=f"train_{group}")
            for group in self.groups
        }

    def switch(self, group: str, on: bool) -> None:
        """Turns the updates of a group on or off, without retracing."""
        self._switches[group].assign(float(on))

    def apply(self, grads: Any, trainable_variables: Any = None) -> None:
        if not self._switches:
            super().apply(grads, trainable_variables)
            return
        if trainable_variables is None:
            trainable_variables = private_training.optimized_variables(self)
        if not self.built:
            self.build(trainable_variables)
        for group, optimizer in self.groups.items():
            pairs = [
                (gradient, variable)
                for gradient, variable in zip(grads, trainable_variables, strict=True)
                if self._optimizer_of(variable) is optimizer
            ]
            if pairs:
                _apply_if(self._switches[group].value > 0, optimizer, pairs)
        self.iterations.assign_add(1)

    def finalize_variable_values(self, var_list: Any) -> None:
        # A group that was never switched on has no moving averages to assign.
        super().finalize_variable_values(
            [v for v in var_list if int(self._optimizer_of(v).iterations.numpy()) > 0]
        )

    def get_config(self) -> dict[str, Any]:
        return {
            "optimizers": keras.saving.serialize_keras_object(self.groups),
            "loss_scale_factor": self.loss_scale_factor,
            "name": self.name,
        }

    @classmethod
    def from_config(
        cls, config: dict[str, Any], custom_objects: Any = None
    ) -> "GroupOptimizer":
        optimizers = keras.saving.deserialize_keras_object(
            config["optimizers"], custom_objects
        )
        return cls(**{**config, "optimizers": optimizers})


def of_model(model: keras.Model) -> keras.optimizers.Optimizer:
    """Returns the optimizer of a model, without the wrapper for mixed precision."""
    return getattr(model.optimizer, "inner_optimizer", model.optimizer)


def of_groups(model: keras.Model, groups: Iterable[str], who: str) -> GroupOptimizer:
    """Returns the optimizer of a model, or raises unless each group has its own.

    Args:
        model: A compiled model.
        groups: Names of groups.
        who: Name of the callback that needs them.
    """
    optimizer = of_model(model)
    known = optimizer.groups if isinstance(optimizer, GroupOptimizer) else {}
    if not set(groups) <= set(known):
        raise ValueError(
            f"`{who}` needs an optimizer for each of the groups {list(groups)}; compile a "
            "`tfvn.Model` with a dictionary of optimizers that has these keys. Received: "
            f"optimizer={type(optimizer).__name__} with the groups {list(known)}"
        )
    return optimizer


def _apply_if(
    is_on: Tensor, optimizer: keras.optimizers.Optimizer, pairs: list[tuple]
) -> None:
    gradients, variables = zip(*pairs, strict=True)

    def update() -> Tensor:
        optimizer.apply(list(gradients), list(variables))
        return tf.constant(0)

    tf.cond(is_on, update, lambda: tf.constant(0))


class _OptimizerOfVariable(keras.optimizers.OptimizerMap):
    """Tells `MultiOptimizer` which optimizer updates a variable."""

    def __call__(self, variable: keras.Variable) -> keras.optimizers.Optimizer:
        return self[group_of(variable)]
