"""`tfvn.Model` and `tfvn.Sequential`: Keras's, trained on the evidence lower bound."""

from typing import Any

import keras

from tfvn.training.bayesian_training import BayesianTraining
from tfvn.utils import private


class Model(BayesianTraining):
    """A `keras.Model` that is trained on the evidence lower bound.

    Use it like Keras's: make it from inputs and outputs, or write a subclass with a
    `call`. The layers need no `kl_weight`: `fit` finds the number of training examples
    and divides the KL by it.

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
        if _is_functional(args, kwargs):
            cls = _functional(cls)
        return super().__new__(cls, *args, **kwargs)

    def __init__(self, *args: Any, **kwargs: Any):
        if _is_functional(args, kwargs):
            # For a subclass with its own constructor, this is known only here.
            self.__class__ = _functional(type(self))
            private.Functional.__init__(self, *args, **kwargs)
        else:
            keras.Model.__init__(self, *args, **kwargs)


@keras.saving.register_keras_serializable("tfvn")
class FunctionalModel(Model, private.Functional):
    """The class of `tfvn.Model(inputs, outputs)`."""


@keras.saving.register_keras_serializable("tfvn")
class Sequential(BayesianTraining, keras.Sequential):
    """A `keras.Sequential` that is trained on the evidence lower bound.

    Use it like Keras's; see `tfvn.Model`.

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

    # `keras.models.clone_model` makes a plain `keras.Sequential` from any `Sequential`
    # and compiles it with the compile config of the original, so our settings are saved
    # beside the layers instead.

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        return (
            {**config, "training": self.training_config()} if self.compiled else config
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
    # The same rule as in Keras.
    given = len(args) + sum(name in kwargs for name in ("inputs", "outputs"))
    return given >= 2


def _functional(cls: type) -> type:
    """Returns a functional subclass of a `tfvn.Model`, one for each class.

    To make a functional model, Keras changes the base classes of its class, up to
    `keras.Model`; then every `tfvn.Model` would become functional.

    Args:
        cls: The class of a model, or `tfvn.Model` itself.
    """
    if cls is Model:
        return FunctionalModel
    if issubclass(cls, FunctionalModel):
        return cls
    if "_functional_class" not in vars(cls):
        names = ("__module__", "__qualname__", "__doc__")
        made = type(
            cls.__name__,
            (cls, FunctionalModel),
            {name: getattr(cls, name) for name in names},
        )
        package, _, name = keras.saving.get_registered_name(cls).rpartition(">")
        if package:
            # Keras saves it under the name of the class.
            keras.saving.register_keras_serializable(package, name)(made)
        cls._functional_class = made  # type: ignore[attr-defined]
    return vars(cls)["_functional_class"]
