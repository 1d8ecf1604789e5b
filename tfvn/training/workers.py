"""Training on several workers: their start, what they agree on, and the loss of one."""

import contextlib
import functools
import signal
import textwrap
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from tfvn.training.cluster import Cluster
from tfvn.training.rendezvous import wait_for_all
from tfvn.training.replicas import has_several_workers
from tfvn.utils import private_training
from tfvn.utils.validation import check_number

# A worker that has been silent for so many seconds counts as lost.
_SILENCE = 10

# For how many seconds TensorFlow, which signals do not interrupt, may start when all workers
# are there. It needs about one; it needs more if one of them has ended in the meantime.
_START = 15


def multi_worker_strategy(
    timeout: float = 120, communication_options: Any = None
) -> tf.distribute.MultiWorkerMirroredStrategy:
    """Returns a `tf.distribute.MultiWorkerMirroredStrategy` once all workers are there.

    TensorFlow's own constructor waits ten minutes or more for a worker that is missing, and
    neither Ctrl-C nor SIGTERM ends it. This function looks for the other workers first, at
    their addresses in `TF_CONFIG`. If one is missing after `timeout` seconds, it raises a
    `TimeoutError` that names it. Signals end the wait. All workers have to call it, before
    they compute anything else with TensorFlow.

    A worker that ends or is silent for 10 seconds then counts as lost: in less than 30
    seconds, the methods of a `tfvn.Model`, and code in the strategy's `scope()`, raise a
    `ConnectionError` on all others. Start all workers again with the same command; with
    `tfvn.callbacks.BackupAndRestore`, they continue after the last saved epoch.

    Args:
        timeout: For how many seconds to wait for the other workers.
        communication_options: A `tf.distribute.experimental.CommunicationOptions`, or
            `None` for TensorFlow's choice.

    Example:

    The same program runs on every worker, each with its own `TF_CONFIG`:

    ```python
    import keras
    import numpy as np
    import tfvn

    strategy = tfvn.multi_worker_strategy(timeout=120)
    with strategy.scope():
        model = tfvn.Sequential([keras.Input((4,)), tfvn.MeanFieldDense(1)])
        model.compile("sgd", "mse")
    backup = tfvn.callbacks.BackupAndRestore("backup")  # a folder that all workers share
    x, y = np.ones((16, 4)), np.ones((16, 1))
    model.fit(x, y, epochs=3, callbacks=[backup], verbose=0)
    ```
    """
    timeout = check_number("timeout", timeout, above=0)
    cluster = Cluster.from_environment()
    if private_training.tensorflow_has_started():
        # TensorFlow raises here too, but when the others believe that this worker is there.
        raise RuntimeError(
            "`multi_worker_strategy` must be called once, before anything else is computed "
            "with TensorFlow. Received: a call after TensorFlow has started"
        )
    if len(cluster.names) > 1:
        wait_for_all(cluster, timeout)
        jobs = [name.split()[0] for name in cluster.names]
        private_training.configure_coordination(
            {job: jobs.count(job) for job in jobs}, _START, _SILENCE
        )
    with _kept_sigterm():
        try:
            return _Strategy(communication_options=communication_options)
        except tf.errors.OpError as error:
            raise TimeoutError(
                "A worker was there and ended before TensorFlow had started; start all "
                f"workers again. Received: {_cause(error)}"
            ) from error


@contextlib.contextmanager
def _kept_sigterm() -> Iterator[None]:
    """Keeps what SIGTERM does, which the start of TensorFlow would change.

    TensorFlow notes the signal, tells its own code for preemptions, and goes on training:
    neither `kill` nor the end of a job of a cluster would end the process.
    """
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        # Python sets signals in the main thread only.
        if before is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Whether this process writes what is written once: the only or the first worker.

    Args:
        strategy: Any strategy, also the default one.
    """
    return _place(strategy) == 0


def of_all_workers(strategy: tf.distribute.Strategy, value: int) -> list[int]:
    """Waits for all workers, and returns a number of each, the chief's first.

    All workers have to call it. It fails on all if one is lost.

    Args:
        strategy: Any strategy, also the default one.
        value: The number of this worker.
    """
    if not has_several_workers(strategy):
        return [value]
    workers = strategy.num_replicas_in_sync // len(strategy.extended.worker_devices)
    values = np.zeros(workers, np.int64)
    values[_place(strategy)] = value
    total = strategy.reduce(tf.distribute.ReduceOp.SUM, tf.constant(values), axis=None)
    return [int(number) for number in total.numpy()]


def _place(strategy: tf.distribute.Strategy) -> int:
    """Returns the place of this process among the workers, the chief first."""
    if not has_several_workers(strategy):
        return 0
    resolver = strategy.cluster_resolver
    chiefs = len(resolver.cluster_spec().as_dict().get("chief", []))
    return resolver.task_id + (0 if resolver.task_type == "chief" else chiefs)


# What TensorFlow raises on a worker whose peer is lost. Which of them depends on who
# notices first: the service that counts signs of life, or an open connection.
_OF_LOSS = (
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.FailedPreconditionError,
    tf.errors.InternalError,
    tf.errors.UnavailableError,
    tf.errors.UnknownError,
)
_WORDS_OF_LOSS = ("Collective ops is aborted by", "CoordinationService", "/job:")


class _Strategy(tf.distribute.MultiWorkerMirroredStrategy):
    """A strategy that says so if a worker is lost while a model is made in its scope."""

    def scope(self) -> Any:
        return _Explained(self, super().scope())


class _Explained:
    """A scope that says so if an error of TensorFlow in it means that a worker was lost.

    Args:
        strategy: The strategy.
        scope: What to enter.
    """

    def __init__(self, strategy: tf.distribute.Strategy, scope: Any):
        self._strategy = strategy
        self._scope = scope

    def __enter__(self) -> Any:
        return self._scope.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: types.TracebackType | None,
    ) -> None:
        self._scope.__exit__(kind, error, traceback)
        if isinstance(error, _OF_LOSS) and _is_of_loss(error, self._strategy):
            raise ConnectionError(
                "A worker of the `MultiWorkerMirroredStrategy` was lost, and no worker can "
                "go on without it; start all workers again with the same command: with "
                "`tfvn.callbacks.BackupAndRestore` in a folder that they share, training "
                f"continues after the last saved epoch. Received: {_cause(error)}"
            ) from error


def explains_loss(method: Callable) -> Callable:
    """Makes a method of a model say so if TensorFlow's error means a lost worker.

    Args:
        method: A method of a `keras.Model`.
    """

    @functools.wraps(method)
    def explained(self: Any, *args: Any, **kwargs: Any) -> Any:
        with _Explained(self.distribute_strategy, contextlib.nullcontext()):
            return method(self, *args, **kwargs)

    return explained


def _is_of_loss(error: tf.errors.OpError, strategy: tf.distribute.Strategy) -> bool:
    # Errors about data, for instance, have the same classes.
    return has_several_workers(strategy) and any(
        words in error.message for words in _WORDS_OF_LOSS
    )


def _cause(error: tf.errors.OpError) -> str:
    """Returns the beginning of what TensorFlow says, without its own places in it."""
    _, _, cause = error.message.rpartition("Collective ops is aborted by: ")
    return textwrap.shorten(cause, 200, placeholder=" ...")
