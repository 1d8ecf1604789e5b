"""The private names that the training of a model, and the data of a loop, need.

`tfvn.utils.private` has them all, and the rules for them.
"""

from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

# Makes a loss from anything that `compile` accepts. `keras.losses.get` does not know
# "crossentropy", which depends on the shapes of targets and outputs.
from keras.src.trainers.compile_utils import get_loss as get_loss
from keras.src.trainers.data_adapters.py_dataset_adapter import PyDatasetAdapter
from tensorflow.compiler.xla.tsl.protobuf.coordination_config_pb2 import CoordinatedJob
from tensorflow.python.eager import context
from tensorflow.python.ops.control_flow_v2_func_graphs import WhileBodyFuncGraph

# ruff: noqa: SLF001

Tensor = Any

# Training.


def compiled_loss(model: keras.Model) -> Any:
    """Returns the loss that a model was compiled with, or `None`.

    `compute_loss` adds `losses` to it.
    """
    return model._compile_loss


def mapped_loss(compiled: Any, function: Callable) -> Any:
    """Returns a compiled loss in which a function replaces each of the user's losses.

    Keras then matches losses, weights, targets and outputs.
    """
    return type(compiled)(
        keras.tree.map_structure(function, compiled._user_loss),
        compiled._user_loss_weights,
        output_names=compiled.output_names,
    )


def replace_losses(model: keras.Model, function: Callable) -> None:
    """Replaces each of the losses that a model was compiled with.

    If the replacements were passed to Keras's `compile`, they would be saved with the model.
    """
    # Past Keras's tracking, as in `compile`.
    vars(model)["_compile_loss"] = mapped_loss(
        model._compile_loss,
        lambda loss: None if loss is None else function(loss),
    )


def loss_arguments(loss: keras.losses.Loss) -> dict[str, Any]:
    """Returns the arguments of the function inside a loss.

    The config of the sparse crossentropy leaves its axis out.
    """
    return {**loss.get_config(), **getattr(loss, "_fn_kwargs", {})}


def compile_config(model: keras.Model) -> Any:
    """Returns an object that changes with each `compile`.

    `get_compile_config` returns a new object at each call.
    """
    return getattr(model, "_compile_config", None)


def compile_arguments(model: keras.Model) -> dict[str, Any]:
    """Returns the arguments of Keras's `compile`, or nothing if a model isn't compiled.

    `get_compile_config` has no objects but their configs, which are not always enough to
    make them again: a loss may be any function.
    """
    return dict(model._compile_config.config) if model.compiled else {}


def step_function(model: keras.Model, step: Callable) -> Callable:
    """Returns a step as `fit` runs it: compiled, on all replicas, several at once.

    `make_train_function` does so only for `train_step`.
    """
    return model._make_function(step)


def set_loss_tracker(model: keras.Model, tracker: keras.metrics.Mean) -> None:
    """Replaces the metric in which Keras averages the loss of a compiled model.

    Keras creates it in `compile`, and no argument of `compile` replaces it.
    """
    # Past Keras's tracking, as in `compile`, or it would be a second metric beside the loss.
    vars(model)["_loss_tracker"] = tracker


def batch_spec(epochs: Any) -> Any:
    """Returns the specs of what a replica gets in a step of `fit`.

    To build a model, Keras takes a batch out of the data, which it can't take apart under
    every strategy, and which the data then lack.

    Args:
        epochs: The iterator over epochs that Keras makes from the data.
    """
    return keras.tree.map_structure(
        # With several replicas in this process, there is a spec for each.
        lambda spec: spec._value_specs[0] if hasattr(spec, "_value_specs") else spec,
        epochs._distributed_dataset.element_spec,
    )


def set_initial_epoch(model: keras.Model, epoch: int | None) -> None:
    """Makes the current `fit` start with an epoch.

    Callbacks can't change the argument of `fit`; Keras's own backup does this.
    """
    model._initial_epoch = epoch


def optimized_variables(optimizer: keras.optimizers.Optimizer) -> list[Any]:
    """Returns the variables that an optimizer was built for.

    `Optimizer.variables` are the variables of its state.
    """
    return optimizer._trainable_variables


def index_of(optimizer: keras.optimizers.Optimizer, variable: Any) -> int:
    """Returns the index of a variable among those that an optimizer was built for.

    All optimizers of Keras use it, and variables have no index of their own.
    """
    return optimizer._get_variable_index(variable)


def sum_over_replicas(optimizer: Any, pairs: list[tuple[Any, Any]]) -> list[Any]:
    """Returns pairs of gradients and variables, with gradients summed over replicas.

    Keras does so after the last method that a subclass can publicly override.
    """
    return optimizer._all_reduce_sum_gradients(pairs)


# The counters of a `ModelCheckpoint` that saves after a number of batches. It has no
# public method for them.
CHECKPOINT_COUNTS = ("_batches_seen_since_last_saving", "_last_batch_seen")


# Data and loops.


def batches_of(dataset: keras.utils.PyDataset) -> Iterator[Any]:
    """Yields the batches of a `PyDataset`, made by its workers.

    Indexing it, the public way, does not use the workers.
    """
    adapter = PyDatasetAdapter(dataset)
    adapter.on_epoch_begin()
    try:
        yield from adapter._get_iterator()
    finally:
        # Also if only some of the batches were taken.
        adapter.on_epoch_end()


def inputs_of_dataset(dataset: tf.data.Dataset) -> list[tf.data.Dataset]:
    """Returns the data sets that a data set is made from.

    The public way, `tf.raw_ops.DatasetToGraphV2`, copies the data.
    """
    return dataset._inputs()


def is_shuffled_at_random(dataset: tf.data.Dataset) -> bool:
    """Whether a data set is shuffled in an order that no seed decides.

    It has no public sign of the seed. Without any seed, both of these are 0.
    """
    seeds = [getattr(dataset, name, None) for name in ("_seed", "_seed2")]
    is_random = all(seed is not None and int(seed) == 0 for seed in seeds)
    return is_random or any(map(is_shuffled_at_random, inputs_of_dataset(dataset)))


def loops() -> list[Any]:
    """Returns the loop bodies that are being traced, the innermost first.

    No public name distinguishes the body of a loop from other graphs.
    """
    graph, found = tf.compat.v1.get_default_graph(), []
    while graph is not None:
        if isinstance(graph, WhileBodyFuncGraph):
            found.append(graph)
        graph = getattr(graph, "outer_graph", None)
    return found


def step_of(loop: Any) -> Tensor:
    """Returns the number of the step, in the body of a loop that is being traced.

    The body is traced once for all steps, and its callers, such as Keras's `RNN` and
    TensorFlow's `map_fn`, pass no step number to a layer. TensorFlow counts the steps of
    every loop in the first argument of its body.
    """
    return loop.inputs[0]


# Several workers.


def tensorflow_has_started() -> bool:
    """Whether anything has been computed, so that it is too late to add other workers.

    The public way to find out, to create the strategy, waits for the others first.
    """
    return context.context()._context_handle is not None


def configure_coordination(
    jobs: dict[str, int], register_seconds: float, silence_seconds: float
) -> None:
    """Bounds how long TensorFlow waits for workers when it starts, and later.

    `MultiWorkerMirroredStrategy` configures the service that does both, unless that has been
    done before, and takes no argument for it: it waits ten minutes or more for a start.

    Args:
        jobs: Number of the workers of each kind, the one that has the chief first.
        register_seconds: For how long to wait until all workers have started.
        silence_seconds: After how long without a sign of life a worker counts as lost.
    """
    context.context().configure_coordination_service(
        "standalone",
        service_leader=f"/job:{next(iter(jobs))}/replica:0/task:0",
        cluster_register_timeout_in_ms=int(1000 * register_seconds),
        heartbeat_timeout_in_ms=int(1000 * silence_seconds),
        coordinated_jobs=[
            CoordinatedJob(name=job, num_tasks=count) for job, count in jobs.items()
        ],
    )
    # Otherwise the first wait ends when the chief is there, and a second one, which has no
    # bound that can be set, waits for the others.
    context.context().coordination_service.cluster_register_with_barrier = True
