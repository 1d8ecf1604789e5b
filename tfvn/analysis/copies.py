"""What functions that return a changed copy of a model share."""

import types
import warnings
from typing import Any

import keras

from tfvn.layers.base import RandomWeightsLayer, check_all_built, stochastic_layers
from tfvn.training import Model, Sequential
from tfvn.training.bayesian_training import BayesianTraining
from tfvn.training.group_optimizer import GroupOptimizer
from tfvn.utils import private, private_training
from tfvn.utils.model_copies import ModelCopier, check_built
from tfvn.utils.models import functional_graph
from tfvn.utils.replaced_layers import WithReplacedLayers


@keras.saving.register_keras_serializable("tfvn")
class BayesianModelWithReplacedLayers(WithReplacedLayers):
    """A model with a `call` of its own that is trained on the evidence lower bound."""

    added_bases = (Model,)


class BayesianCopier(ModelCopier):
    """Copies models as models of this library, and replaces some of their layers.

    The copy is compiled as the original is, with a new optimizer and new metrics.
    """

    sequential = Sequential
    functional = Model
    subclassed: type[WithReplacedLayers] = BayesianModelWithReplacedLayers

    def copy(self, model: Any) -> Any:
        """Returns the copy of a model, compiled as the original is."""
        _refuse_shared_priors(model)
        self._replaced: set[int] = set()
        copy = super().copy(model)
        compile_alike(model, copy)
        return copy

    def _copy_layer(self, layer: Any) -> Any:
        if isinstance(layer, keras.Layer) and self.replaces(layer):
            self._check_is_first(layer)
        copy = super()._copy_layer(layer)
        # A model whose config has all its layers is copied as one of its class.
        added = self._maker(layer).added_bases
        is_other = added and not isinstance(copy, added)
        return self._maker(layer).of(copy, []) if is_other else copy

    def _check_is_first(self, layer: keras.Layer) -> None:
        """Raises if a layer has been replaced before, so that it would become two."""
        if id(layer) in self._replaced:
            raise ValueError(
                "A layer that several wrappers or layers share, or one of them and the "
                "model, would become several layers; leave it out of `layers`. "
                f"Received: layer {layer.name!r} of type {type(layer).__name__}"
            )
        self._replaced.add(id(layer))


def check_graph(model: Any) -> None:
    """Raises unless a model is sequential or functional and has been built."""
    check_built(model)
    if functional_graph(model) is None:
        raise ValueError(
            "The last layer of a model with a `call` of its own can't be found; expected a "
            "sequential or functional model, such as `keras.Model(inputs, "
            "model.call(inputs))` with `inputs = keras.Input(...)`. Received: "
            f"model={model.name!r} of type {type(model).__name__}"
        )


def checked_layers(model: Any) -> list[RandomWeightsLayer]:
    """Returns the layers of a model that have random weights, or raises without any."""
    check_built(model)
    layers = stochastic_layers(model)
    if not layers:
        raise ValueError(
            "Argument `model` must have layers with random weights; make it from "
            "layers of this library, or convert it with `tfvn.from_deterministic`. "
            f"Received: model={model.name!r} with none"
        )
    check_all_built(model)
    return layers


def compile_alike(model: keras.Model, copy: keras.Model) -> None:
    """Compiles a copy of a model with the arguments of the model's `compile`.

    The optimizer and the metrics are new objects. The number of training examples that
    `fit` found, and the number of batches seen, are copied too. Where a model has one
    optimizer per group, a copy of another library's class gets that of the means.

    Args:
        model: The original. If it is not compiled, neither is the copy.
        copy: The copy.
    """
    _warn_of_lost_steps(model, copy)
    arguments = private_training.compile_arguments(model)
    if not arguments:
        return
    optimizer = arguments["optimizer"]
    if isinstance(optimizer, GroupOptimizer) and not isinstance(copy, BayesianTraining):
        groups = optimizer.groups
        arguments["optimizer"] = groups.get("mean", groups["default"])
    renewed = ("optimizer", "metrics", "weighted_metrics")
    arguments |= {
        name: keras.tree.map_structure(_new, arguments[name]) for name in renewed
    }
    if isinstance(model, BayesianTraining) and isinstance(copy, BayesianTraining):
        arguments |= model.training_config()
        state: dict[str, Any] = {}
        model.training_state.save_own_variables(state)
        copy.training_state.load_own_variables(state)
    copy.compile(**arguments)


def _new(part: Any) -> Any:
    """Returns a new optimizer or metric with the same arguments, and anything else as is."""
    has_state = isinstance(part, keras.optimizers.Optimizer | keras.metrics.Metric)
    if not has_state:
        return part
    functions = [v for v in vars(part).values() if isinstance(v, types.FunctionType)]
    known = {keras.saving.get_registered_name(f): f for f in functions}
    # Keras would also take the name of the metric for the function.
    known.pop(part.name, None)
    try:
        with private.custom_objects_too(known):
            return type(part).from_config(part.get_config())
    except (TypeError, NotImplementedError) as error:
        raise ValueError(
            "Optimizers and metrics of a copy are made from the configs of the original's; "
            "expected classes whose `get_config` returns the arguments of the constructor. "
            "Otherwise compile the model without it, and the copy with it. Received: "
            f"{part.name!r} of type {type(part).__name__}, which Keras cannot make again"
        ) from error


def _refuse_shared_priors(model: keras.Model) -> None:
    """Raises if layers share a trained prior, because each copy would have its own."""
    users: dict[int, list[str]] = {}
    for layer in stochastic_layers(model):
        for variable in layer.variable_groups.get("prior", []):
            users.setdefault(id(variable), []).append(layer.name)
    shared = [names for names in users.values() if len(names) > 1]
    if shared:
        raise ValueError(
            "The layers of a copy can't share a prior that is trained; expected a prior "
            "with its own variables for each layer. "
            f"Received: layers {shared[0]} with the same variable"
        )


def _warn_of_lost_steps(model: keras.Model, copy: keras.Model) -> None:
    """Warns if a subclass trains in a way of its own, which its copy does not."""
    usual = (keras.Model, BayesianTraining)
    lost = [
        name
        for name in ("train_step", "test_step", "predict_step", "compute_loss")
        if getattr(type(model), name) not in [getattr(cls, name) for cls in usual]
        and getattr(type(copy), name) is not getattr(type(model), name)
    ]
    if lost:
        warnings.warn(
            f"The copy is a `{type(copy).__name__}` and does not have the methods {lost} "
            f"of `{type(model).__name__}`; it predicts alike, but `fit` and `evaluate` "
            "compute what Keras computes.",
            stacklevel=2,
        )
