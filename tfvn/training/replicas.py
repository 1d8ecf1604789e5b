"""Training on several replicas: parts of a batch, logs of a step, and what is refused."""

import math
import random as python_random
import warnings
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from tfvn import passes
from tfvn.training import train_size
from tfvn.training.train_size import TrainingData
from tfvn.utils import private_training
from tfvn.utils.models import all_layers

Tensor = Any


# With these policies of a `tf.data.Dataset`, workers do not each take every n-th part of it.
_NOT_SPLIT = (
    tf.data.experimental.AutoShardPolicy.OFF,
    tf.data.experimental.AutoShardPolicy.FILE,
)


def has_several_workers(strategy: tf.distribute.Strategy) -> bool:
    """Whether the replicas of a strategy are in several processes."""
    count = strategy.num_replicas_in_sync
    return count > 1 and count > len(strategy.extended.worker_devices)


def check(model: keras.Model) -> None:
    """Raises if a model can't be trained or evaluated under its strategy.

    Args:
        model: A model, compiled or not.
    """
    strategy = model.distribute_strategy
    if isinstance(strategy, tf.distribute.experimental.ParameterServerStrategy):
        raise ValueError(
            "`fit` needs replicas that take every step together, which those of a "
            "`ParameterServerStrategy` do not; use "
            "`tf.distribute.MultiWorkerMirroredStrategy`. Received: "
            f"strategy={type(strategy).__name__}"
        )
    if not model.compiled or strategy.num_replicas_in_sync == 1:
        return
    if has_several_workers(strategy) and model.steps_per_execution > 1:
        raise ValueError(
            "With several workers, Keras can't run several steps at once; compile with "
            "`steps_per_execution=1`. Received: "
            f"steps_per_execution={model.steps_per_execution}"
        )
    if model.jit_compile and _are_cpus(strategy):
        raise ValueError(
            "XLA can't compile a step whose replicas are CPUs; compile with "
            "`jit_compile='auto'` or `False`. Received: "
            f"jit_compile={model.jit_compile} with "
            f"{strategy.num_replicas_in_sync} replicas"
        )


def check_steps(model: keras.Model) -> None:
    """Raises if a model can't be trained or evaluated in the steps that it is compiled for.

    Args:
        model: A compiled model.
    """
    strategy = model.distribute_strategy
    if strategy.num_replicas_in_sync == 1 or not _are_cpus(strategy):
        return
    if model.steps_per_execution > 1:
        raise ValueError(
            "TensorFlow can't run several steps at once on replicas that are CPUs; compile "
            "with `steps_per_execution=1`. Received: "
            f"steps_per_execution={model.steps_per_execution}"
        )
    optimizers = getattr(model.optimizer, "groups", {"default": model.optimizer})
    counts = [
        getattr(optimizer, "gradient_accumulation_steps", None)
        for optimizer in optimizers.values()
    ]
    if not has_several_workers(strategy) and any(counts):
        raise ValueError(
            "Keras can't accumulate gradients on replicas that are CPUs; use an optimizer "
            "with `gradient_accumulation_steps=None` and a larger `batch_size`. Received: "
            f"gradient_accumulation_steps={next(filter(None, counts))} with "
            f"{strategy.num_replicas_in_sync} replicas"
        )
    overwrites = [
        getattr(optimizer, "ema_overwrite_frequency", None)
        for optimizer in optimizers.values()
        if getattr(optimizer, "use_ema", False)
    ]
    if not has_several_workers(strategy) and any(overwrites):
        raise ValueError(
            "Keras can't overwrite weights with their averages every few steps on replicas "
            "that are CPUs; use an optimizer with `ema_overwrite_frequency=None`, and "
            "`keras.callbacks.SwapEMAWeights`. Received: "
            f"ema_overwrite_frequency={next(filter(None, overwrites))} with "
            f"{strategy.num_replicas_in_sync} replicas"
        )


def _are_cpus(strategy: tf.distribute.Strategy) -> bool:
    return all(
        tf.DeviceSpec.from_string(device).device_type == "CPU"
        for device in strategy.extended.worker_devices
    )


def check_order(data: TrainingData, shuffle: bool | str) -> None:
    """Raises, or warns, if several workers would take their data in several orders.

    Each worker takes every n-th part of the data. If their orders differ, an epoch repeats
    some examples and leaves out others.

    Args:
        data: The data of `fit`.
        shuffle: Whether `fit` shuffles them.
    """
    is_list = isinstance(data.x, keras.utils.PyDataset)
    is_sparse = data.are_arrays and train_size.is_sparse(data.x)
    if shuffle and (is_list or is_sparse):
        raise ValueError(
            "With several workers, `fit` can shuffle dense arrays only; pass "
            "`shuffle=False`, and data that are shuffled in the same order on every "
            f"worker. Received: x={type(data.x).__name__} and shuffle=True"
        )
    if not isinstance(data.x, tf.data.Dataset):
        return
    policy = data.x.options().experimental_distribute.auto_shard_policy
    is_split_by_row = policy not in _NOT_SPLIT
    if is_split_by_row and private_training.is_shuffled_at_random(data.x):
        warnings.warn(
            "Workers that shuffle a data set in different orders repeat some examples "
            "and leave out others; pass the same `seed` to `shuffle` on every worker. "
            "Received: a `tf.data.Dataset` that is shuffled without a seed",
            stacklevel=3,
        )


def check_last_batch(
    model: keras.Model, data: TrainingData, batch_size: int | None
) -> None:
    """Raises if the last batch of arrays leaves a replica to divide by its 0 rows.

    Args:
        model: The model.
        data: The data of `fit`.
        batch_size: The `batch_size` of `fit`.
    """
    count = model.distribute_strategy.num_replicas_in_sync
    if count == 1 or not data.are_arrays:
        return
    size = batch_size or 32
    last = (data.size or size) % size or size
    normalizes = any(
        isinstance(layer, keras.layers.BatchNormalization)
        and layer.trainable
        and not layer.synchronized
        for layer in all_layers(model)
    )
    if normalizes and last < count:
        raise ValueError(
            "Batch normalization needs rows on every replica, or the weights become NaN; "
            "pass a `batch_size` with which the last batch is at least as large as the "
            f"number of replicas. Received: batch_size={size}, so that the last batch has "
            f"{last} of {data.size} rows for {count} replicas"
        )


class Part(NamedTuple):
    """The part of a batch that a replica has.

    Attributes:
        weight: The number of its rows, divided by the mean number of a replica.
        mean_rows: The mean number of rows of a replica.
    """

    weight: Tensor
    mean_rows: Tensor


def part_of_batch(rows: Tensor) -> Part | None:
    """Returns the part of the batch that the current replica has.

    Keras averages a loss over the rows of each replica, and then over the replicas. That
    is the average over the batch only if all replicas have as many rows; otherwise each
    has to be weighed with its number of rows, which may be 0 in the last batch.

    Args:
        rows: The number of rows of this replica.

    Returns:
        `None` outside of a strategy with several replicas.
    """
    replica = tf.distribute.get_replica_context()
    if replica is None or replica.num_replicas_in_sync == 1:
        return None
    return share_of_mean(tf.cast(rows, tf.float32))


def share_of_mean(count: Tensor) -> Part:
    """Returns the part of this replica in something that the replicas count.

    Args:
        count: The number of this replica.
    """
    replica = tf.distribute.get_replica_context()
    mean = replica.all_reduce(tf.distribute.ReduceOp.MEAN, count)
    return Part(tf.math.divide_no_nan(count, mean), mean)


class LossTracker(keras.metrics.Mean):
    """The mean loss of an epoch.

    The loss of a replica is already weighed with its number of rows, so that Keras must
    not weigh it with that number again.
    """

    def update_state(self, values: Tensor, sample_weight: Tensor | None = None) -> None:
        part = passes.current().record.part
        super().update_state(values, sample_weight if part is None else part.mean_rows)


class LogVector:
    """Brings the logs of a step from all replicas together in one vector.

    Keras would average each log with a collective operation of its own, which takes
    milliseconds between workers, and along an axis that numbers don't have.
    """

    def __init__(self) -> None:
        self._logs: Any = {}
        self._shapes: list[list[int]] = []

    def pack(self, logs: dict[str, Any]) -> Tensor:
        """Returns the logs of a replica as a vector of shape `(1, size)`.

        Args:
            logs: The result of a step: nested tensors of known shapes.
        """
        self._logs = keras.tree.map_structure(lambda _: None, logs)
        tensors = [tf.convert_to_tensor(log) for log in keras.tree.flatten(logs)]
        self._shapes = [tensor.shape.as_list() for tensor in tensors]
        rows = [tf.reshape(tf.cast(t, tf.float32), [1, -1]) for t in tensors]
        return tf.concat([tf.zeros([1, 0]), *rows], axis=1)

    def unpack(self, vector: Tensor) -> dict[str, Tensor]:
        """Returns logs from the average of the vectors of all replicas."""
        sizes = [math.prod(shape) for shape in self._shapes]
        # The last part is empty, and there if there are no logs.
        parts = tf.split(tf.reshape(vector, [-1]), [*sizes, 0])
        flat = [tf.reshape(*pair) for pair in zip(parts, self._shapes, strict=False)]
        return keras.tree.pack_sequence_as(self._logs, flat)


def shared_seed(strategy: tf.distribute.Strategy) -> int:
    """Returns a random seed, the same on all workers.

    It is drawn by the first worker from the source that `keras.utils.set_random_seed`
    makes reproducible.

    Args:
        strategy: The strategy of the workers, all of which have to call this.
    """
    drawn = python_random.getrandbits(31)

    def of_first() -> Tensor:
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        return tf.where(replica == 0, drawn, 0)

    return int(strategy.reduce("SUM", strategy.run(tf.function(of_first)), axis=None))
