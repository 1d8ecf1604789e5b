"""Every private name of Keras, TensorFlow and TFP that the library uses.

A release of theirs may change any of them without notice. So each is used here and nowhere
else, with the reason why no public name does, and with a test in `tests/utils` that fails
when what it does has changed.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

# Masks travel with tensors, as an attribute of theirs. Public are only layers that make one.
from keras.src.backend import get_keras_mask as get_keras_mask
from keras.src.backend import set_keras_mask as set_keras_mask
from keras.src.backend.common import global_state
from keras.src.backend.common.variables import AutocastScope

# The base classes of all layers that augment images, and of all recurrent cells with
# dropout. The public classes are many, and `ConvLSTM2D` has a cell that is not public.
from keras.src.layers.preprocessing.data_layer import DataLayer as DataLayer
from keras.src.layers.rnn.dropout_rnn_cell import DropoutRNNCell as DropoutRNNCell

# While a model is loaded: the object that was saved under an identifier, if it is there
# already, and a note for layers that share it. `keras.saving` does so for Keras's own
# objects, and a variable of a prior is none.
from keras.src.saving.serialization_lib import get_shared_object as get_shared_object
from keras.src.saving.serialization_lib import (
    record_object_after_deserialization as record_object_after_deserialization,
)

# Makes a loss of what `compile` takes for one. `keras.losses.get` does not know
# "crossentropy", which depends on the shapes of targets and outputs.
from keras.src.trainers.compile_utils import get_loss as get_loss
from keras.src.trainers.data_adapters.py_dataset_adapter import PyDatasetAdapter
from tensorflow.python.ops.control_flow_v2_func_graphs import WhileBodyFuncGraph

# ruff: noqa: SLF001

Tensor = Any

# What `keras.Model(inputs, outputs)` makes, a class without a public name.
_symbol = keras.Input((1,), name="symbol")
Functional: Any = type(keras.Model(_symbol, _symbol, name="functional"))

# Models and layers.


def flatten_layers(layer: keras.Layer) -> list[keras.Layer]:
    """Returns a layer and all layers in it, however deep, each once.

    `Model.layers` has no layers of layers, such as those of a wrapper.
    """
    return list(layer._flatten_layers())


def graph_of_sequential(model: keras.Sequential) -> Any:
    """Returns the functional model that a sequential one has built for itself, if any.

    A functional model of its inputs and outputs would be another, with other nodes.
    """
    return model._functional


def history(symbol: Any) -> tuple[Any, int]:
    """Returns the operation that a symbolic tensor comes from, and which output it is.

    `Operation.output` is that of an operation's first call only.
    """
    operation, _, index = symbol._keras_history
    return operation, index


def nodes(graph: Any) -> list[Any]:
    """Returns the calls that a functional model is made of, in the order of a call.

    `Function.operations` does not tell which call of a layer takes what.
    """
    by_depth = graph._nodes_by_depth
    return [
        node for depth in sorted(by_depth, reverse=True) for node in by_depth[depth]
    ]


def standardize_inputs(graph: Any, inputs: Any) -> list[Any]:
    """Returns inputs as the nodes of a functional model get them: a flat list, cast.

    Part of `Functional.call`, of which nothing else is wanted.
    """
    return graph._standardize_inputs(inputs)


def current_call() -> Any:
    """Returns the call of the outermost layer that is going on in this thread, or `None`.

    A layer is told of its own call only.
    """
    return global_state.get_global_attribute("current_call_ctx")


def own_losses(layer: keras.Layer) -> list[Tensor]:
    """Returns what a layer itself has added to the loss.

    `Layer.losses` computes all regularizers.
    """
    return layer._get_own_losses()


def clear_losses(model: keras.Layer) -> None:
    """Forgets what the layers of a model have added to the loss.

    Else only the next call of the model does.
    """
    model._clear_losses()


def own_kernel(layer: Any) -> keras.Variable:
    """Returns the variable of a layer's kernel.

    With LoRA, `layer.kernel` is a sum.
    """
    return layer._kernel


def lstm_step(
    cell: Any, gates: list[Tensor], states: list[Tensor], carry: Tensor
) -> tuple[Tensor, Tensor]:
    """Returns the carry and the output gate of an LSTM whose gates see different states.

    `LSTMCell.call` has it only together with the products of the inputs.
    """
    return cell._compute_carry_and_output(gates, states, carry)


# Variables and other state.


def untrack(layer: keras.Layer, value: Any) -> None:
    """Makes Keras forget that something is a part of a layer.

    Keras tracks an attribute for good, also when another takes its place.
    """
    layer._tracker.untrack(value)


def track_variable(layer: keras.Layer, variable: keras.Variable) -> None:
    """Makes a variable that exists already one of a layer's own.

    `add_weight` makes new ones only.
    """
    layer._track_variable(variable)


def own_trainable_variables(layer: keras.Layer) -> list[keras.Variable]:
    """Returns the variables of a layer itself that are learned unless it is frozen.

    `Layer.trainable_variables` is empty for a frozen layer.
    """
    return list(layer._trainable_variables)


def set_tf_variable(holder: keras.Variable, variable: tf.Variable) -> None:
    """Makes a `keras.Variable` hold a `tf.Variable` that exists already.

    The constructor would make a copy.
    """
    holder._initialize(variable)


def seed_generators(layer: Any) -> list[keras.random.SeedGenerator]:
    """Returns the seed generators of a layer itself, whatever their names are.

    `Layer.variables` has their states, but not the generators.
    """
    return list(getattr(layer, "_seed_generators", []))


def full_precision() -> contextlib.AbstractContextManager:
    """Returns a context in which variables of a layer are not cast to its compute type.

    As for regularizers, while code in `call` sees them cast.
    """
    return AutocastScope(None)


def is_saving() -> bool:
    """Whether a model is being saved, whose layers may share objects."""
    return (
        global_state.get_global_attribute("shared_objects/id_to_config_map") is not None
    )


def set_parameters(distribution: Any, parameters: dict[str, Any]) -> None:
    """Sets what a TFP distribution was made from, by which it is copied.

    The constructor of a base class sets that of the base class.
    """
    distribution._parameters = distribution._no_dependency(parameters)


# Training.


def compiled_loss(model: keras.Model) -> Any:
    """Returns the loss that a model was compiled with, or `None`.

    `compute_loss` adds `losses` to it.
    """
    return model._compile_loss


def mapped_loss(compiled: Any, function: Callable) -> Any:
    """Returns a compiled loss with a function of each loss that a user gave.

    Keras's own way to match losses, weights, targets and outputs.
    """
    return type(compiled)(
        keras.tree.map_structure(function, compiled._user_loss),
        compiled._user_loss_weights,
        output_names=compiled.output_names,
    )


def loss_arguments(loss: keras.losses.Loss) -> dict[str, Any]:
    """Returns the arguments of the function that a loss is made of.

    The config of the sparse crossentropy leaves its axis out.
    """
    return {**loss.get_config(), **getattr(loss, "_fn_kwargs", {})}


def compile_config(model: keras.Model) -> Any:
    """Returns an object that is another one after each `compile`.

    `get_compile_config` makes a new one each time.
    """
    return getattr(model, "_compile_config", None)


def step_function(model: keras.Model, step: Callable) -> Callable:
    """Returns a step as `fit` runs it: compiled, on all replicas, several at once.

    `make_train_function` does so with `train_step`, and takes no other step.
    """
    return model._make_function(step)


def set_initial_epoch(model: keras.Model, epoch: int | None) -> None:
    """Makes the `fit` that is going on start with an epoch.

    Callbacks can't change the argument of `fit`; Keras's own backup does this.
    """
    model._initial_epoch = epoch


def optimized_variables(optimizer: keras.optimizers.Optimizer) -> list[Any]:
    """Returns the variables that an optimizer was built for.

    `Optimizer.variables` are those in which it keeps its state.
    """
    return optimizer._trainable_variables


def index_of(optimizer: keras.optimizers.Optimizer, variable: Any) -> int:
    """Returns which of the variables that an optimizer was built for one is.

    All optimizers of Keras ask for it so, and variables have no number of their own.
    """
    return optimizer._get_variable_index(variable)


def sum_over_replicas(optimizer: Any, pairs: list[tuple[Any, Any]]) -> list[Any]:
    """Returns pairs of gradients and variables, the gradients summed over replicas.

    Keras does so after the last method that a public subclass can replace.
    """
    return optimizer._all_reduce_sum_gradients(pairs)


# What a `ModelCheckpoint` that saves every so many batches has counted. It has no method
# that tells.
CHECKPOINT_COUNTS = ("_batches_seen_since_last_saving", "_last_batch_seen")


# Data and loops.


def batches_of(dataset: keras.utils.PyDataset) -> Iterator[Any]:
    """Yields the batches of a `PyDataset`, which its workers make.

    Indexing it, the public way, leaves out the workers.
    """
    adapter = PyDatasetAdapter(dataset)
    adapter.on_epoch_begin()
    try:
        yield from adapter._get_iterator()
    finally:
        # Also where only some of the batches were taken.
        adapter.on_epoch_end()


def inputs_of_dataset(dataset: tf.data.Dataset) -> list[tf.data.Dataset]:
    """Returns the data sets that a data set is made from.

    The public way, `tf.raw_ops.DatasetToGraphV2`, copies the data.
    """
    return dataset._inputs()


def loops() -> list[Any]:
    """Returns the bodies of loops that are being traced, the innermost first.

    Nothing public tells the body of a loop from other graphs.
    """
    graph, found = tf.compat.v1.get_default_graph(), []
    while graph is not None:
        if isinstance(graph, WhileBodyFuncGraph):
            found.append(graph)
        graph = getattr(graph, "outer_graph", None)
    return found


def step_of(loop: Any) -> Tensor:
    """Returns the number of the step, in the body of a loop that is being traced.

    The body is traced once for all steps, and what calls a layer in it, Keras's `RNN` and
    TensorFlow's `map_fn`, hands the layer no number. TensorFlow counts the steps of every
    loop in the first argument of its body.
    """
    return loop.inputs[0]
