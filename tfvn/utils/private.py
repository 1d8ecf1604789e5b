"""Every private name of Keras, TensorFlow and TFP that the library uses.

A new release may change any of them without notice. So the library uses each only here,
with the reason why no public name is enough, and with a test in `tests/utils` that fails
when it changes. Those for training and for data are in `private_training.py`. A method that
overrides a private one of Keras stands in its class; `tests/utils/test_private.py` lists them.
"""

import contextlib
from typing import Any

import keras
import tensorflow as tf

# A mask is an attribute of its tensor. Only layers that make masks are public.
from keras.src.backend import get_keras_mask as get_keras_mask
from keras.src.backend import set_keras_mask as set_keras_mask
from keras.src.backend.common import global_state
from keras.src.backend.common.variables import AutocastScope

# The base classes of all layers that augment images, and of all recurrent cells with
# dropout. There are many public classes, and the cell of `ConvLSTM2D` is not public.
from keras.src.layers.preprocessing.data_layer import DataLayer as DataLayer
from keras.src.layers.rnn.dropout_rnn_cell import DropoutRNNCell as DropoutRNNCell

# While a model is loaded, these find and record objects that layers share.
# `keras.saving` does so only for Keras's own objects, and a variable of a prior is not
# one of them.
from keras.src.saving.serialization_lib import get_shared_object as get_shared_object
from keras.src.saving.serialization_lib import (
    record_object_after_deserialization as record_object_after_deserialization,
)

# ruff: noqa: SLF001

Tensor = Any

# The class of `keras.Model(inputs, outputs)`, which has no public name.
_symbol = keras.Input((1,), name="symbol")
Functional: Any = type(keras.Model(_symbol, _symbol, name="functional"))

# Models and layers.


def flatten_layers(layer: keras.Layer) -> list[keras.Layer]:
    """Returns a layer and all layers in it, at any depth, each once.

    `Model.layers` leaves out layers inside layers, such as those of a wrapper.
    """
    return list(layer._flatten_layers())


def custom_objects_too(objects: dict[str, Any]) -> Any:
    """Returns a `keras.saving.custom_object_scope` that keeps the objects of scopes around.

    Keras's scope replaces them, and no public name has them.
    """
    around = global_state.get_global_attribute("custom_objects_scope_dict", {})
    return keras.saving.custom_object_scope({**around, **objects})


def lambda_arguments(layer: keras.layers.Lambda) -> dict[str, Any]:
    """Returns the arguments of a `Lambda` layer, with its functions themselves.

    Its config has the code of functions, without the names that this code refers to, and
    no public name has its `output_shape`.
    """
    return {
        "function": layer.function,
        "output_shape": layer._output_shape,
        "mask": layer.mask,
        "arguments": layer.arguments,
    }


def layers_inside(layer: keras.Layer) -> list[keras.Layer]:
    """Returns the layers directly inside a layer.

    Only models have a public list of them.
    """
    return list(layer._flatten_layers(include_self=False, recursive=False))


def graph_of_sequential(model: keras.Sequential) -> Any:
    """Returns the functional model inside a sequential model, or `None`.

    A new functional model of its inputs and outputs would have other nodes.
    """
    return model._functional


def history(symbol: Any) -> tuple[Any, int]:
    """Returns the operation that made a symbolic tensor, and the index of its output.

    `Operation.output` covers only the first call of an operation.
    """
    operation, _, index = symbol._keras_history
    return operation, index


def nodes(graph: Any) -> list[Any]:
    """Returns the calls of operations in a functional model, in order.

    `Function.operations` does not show the inputs of each call of a layer.
    """
    by_depth = graph._nodes_by_depth
    return [
        node for depth in sorted(by_depth, reverse=True) for node in by_depth[depth]
    ]


def standardize_inputs(graph: Any, inputs: Any) -> list[Any]:
    """Returns inputs as the nodes of a functional model get them: a flat list, cast.

    This is the first part of `Functional.call`; we need only this part.
    """
    return graph._standardize_inputs(inputs)


def call_of(symbol: Any) -> tuple[Any, int, list[Any]]:
    """Returns what made a symbolic tensor: the operation, the index of its output, its inputs.

    A layer that is called several times has public inputs of its first call only.
    """
    operation, node, index = symbol._keras_history
    return operation, index, operation._inbound_nodes[node].input_tensors


def current_call() -> Any:
    """Returns the current call of the outermost layer in this thread, or `None`.

    A layer knows only its own call.
    """
    return global_state.get_global_attribute("current_call_ctx")


def own_losses(layer: keras.Layer) -> list[Tensor]:
    """Returns the losses that a layer itself has added.

    `Layer.losses` would compute all regularizers.
    """
    return layer._get_own_losses()


def mark_as_kl(loss: Tensor) -> None:
    """Marks a loss of a layer as its weighted KL.

    Keras keeps the losses of a layer in one list, without names. It marks tensors in this
    way too.
    """
    loss._tfvn_is_kl = True


def is_marked_as_kl(loss: Tensor) -> bool:
    """Whether a loss of a layer is its weighted KL."""
    return getattr(loss, "_tfvn_is_kl", False)


def clear_losses(model: keras.Layer) -> None:
    """Removes the losses that the layers of a model have added.

    Otherwise only the next call of the model removes them.
    """
    model._clear_losses()


def own_variables(layer: keras.Layer) -> list[keras.Variable]:
    """Returns the variables of a layer itself, without those of the layers inside.

    `Layer.variables` has both, and the states of seed generators.
    """
    return [*layer._trainable_variables, *layer._non_trainable_variables]


def is_own_attribute(name: str) -> bool:
    """Whether an attribute of a layer belongs to Keras or TensorFlow, and lists all layers.

    Other attributes are those of the class of the layer, and hold the layers that it uses.
    """
    return name == "_layers" or name.startswith("_self_")


def replace_layer(
    owner: keras.Layer, old: keras.Layer, new: keras.Layer, name: str, value: Any
) -> None:
    """Sets an attribute of a layer, in which one layer replaces another.

    Setting it publicly would also keep the old layer, and put the new one last, so that
    the weights had another order than those of the original.
    """
    order = [new if layer is old else layer for layer in owner._layers]
    owner._tracker.untrack(old)
    setattr(owner, name, value)
    owner._layers[:] = order


def set_own_trainable(layer: keras.Layer, *, value: bool) -> None:
    """Sets whether a layer is trained, and leaves the layers inside as they are.

    `Layer.trainable` sets all of them.
    """
    layer._trainable = value


def own_kernel(layer: Any) -> keras.Variable:
    """Returns the variable of a layer's kernel.

    With LoRA, `layer.kernel` is a sum.
    """
    return layer._kernel


# Variables and other state.


def untrack(layer: keras.Layer, value: Any) -> None:
    """Makes Keras stop tracking an attribute of a layer.

    Keras tracks an attribute forever, even after it is replaced.
    """
    layer._tracker.untrack(value)


def track_variable(layer: keras.Layer, variable: keras.Variable) -> None:
    """Adds an existing variable to a layer.

    `add_weight` only makes new ones.
    """
    layer._track_variable(variable)


def own_trainable_variables(layer: keras.Layer) -> list[keras.Variable]:
    """Returns the trainable variables of a layer itself, even if it is frozen.

    `Layer.trainable_variables` is empty for a frozen layer.
    """
    return list(layer._trainable_variables)


def set_tf_variable(holder: keras.Variable, variable: tf.Variable) -> None:
    """Makes a `keras.Variable` hold an existing `tf.Variable`.

    The constructor would make a copy.
    """
    holder._initialize(variable)


def seed_generators(layer: Any) -> list[keras.random.SeedGenerator]:
    """Returns the seed generators of a layer itself, under any name.

    `Layer.variables` has their states, but not the generators.
    """
    return list(getattr(layer, "_seed_generators", []))


def full_precision() -> contextlib.AbstractContextManager:
    """Returns a context in which variables of a layer are not cast to its compute type.

    Keras does so for regularizers; code in `call` gets them cast.
    """
    return AutocastScope(None)


def is_saving() -> bool:
    """Whether Keras is saving a model, whose layers may share objects."""
    return (
        global_state.get_global_attribute("shared_objects/id_to_config_map") is not None
    )


def set_parameters(distribution: Any, parameters: dict[str, Any]) -> None:
    """Sets the parameters of a TFP distribution, with which TFP copies it.

    The constructor of a base class sets those of the base class.
    """
    distribution._parameters = distribution._no_dependency(parameters)
