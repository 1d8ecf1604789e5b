"""Processes of this machine that train together under `tfvn.multi_worker_strategy`.

A process tells its parent how far it is, so that the parent can end it, stop it or cut its
network at a chosen moment. `worker_kills.py` and the tests of several workers do so.
"""

import contextlib
import ctypes
import json
import multiprocessing
import os
import pathlib
import signal
import socket
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

EPOCHS = 6

# No process lives longer, whatever happens to the one that started it; in seconds.
LIFETIME = 600

# For how long workers look for each other, and for how long the others may take to end
# after the loss of one.
START_TIMEOUT = 20
END_TIMEOUT = 30

# `setns` and `unshare` take this for the network.
_NETWORK = 0x40000000


class Event(NamedTuple):
    """What a worker reports.

    Attributes:
        name: `"ready"` (it can have a network of its own now), `"start"`, `"begin"` and
            `"end"` of an epoch, `"trained"`, `"done"` or `"error"`.
        value: The number of the epoch, or the error.
    """

    name: str
    value: Any = None


class Worker:
    """A process that trains, as its parent sees it.

    Args:
        index: Its place among the workers.
        addresses: The addresses of all workers.
        folder: The folder that the workers share.
        options: Further arguments of `train`.
    """

    def __init__(
        self, index: int, addresses: list[str], folder: pathlib.Path, options: Any
    ):
        context = multiprocessing.get_context("forkserver")
        # TensorFlow is imported once; a worker is a copy of a process that has done so.
        context.set_forkserver_preload(["tfvn"])
        self.events: list[Event] = []
        self._connection, theirs = context.Pipe()
        self.process = context.Process(
            target=train, args=(index, addresses, str(folder), theirs), kwargs=options
        )
        self.process.start()
        theirs.close()

    def read(self, timeout: float) -> Event | None:
        """Returns the next event, or `None` if there is none in time or no more."""
        try:
            if not self._connection.poll(timeout):
                return None
            event: Event = self._connection.recv()
        except (EOFError, ConnectionResetError):
            self.process.join(timeout)
            return None
        self.events.append(event)
        return event

    def wait_for(self, *awaited: Event, timeout: float) -> Event | None:
        """Reads until one of some events, and returns it, or `None` if it doesn't come."""
        deadline = time.monotonic() + timeout
        while (left := deadline - time.monotonic()) > 0:
            event = self.read(left)
            if event is None and not self.process.is_alive():
                return None
            if event is not None and any(
                event == one or (one.value is None and event.name == one.name)
                for one in awaited
            ):
                return event
        return None

    def go_on(self) -> None:
        """Lets a worker go on that is ready."""
        self._connection.send(None)

    def send(self, number: int) -> None:
        """Sends a signal to the process."""
        os.kill(self.process.pid, number)  # type: ignore[arg-type]

    def close(self) -> None:
        """Ends the process, whatever state it is in."""
        self.process.kill()
        self.process.join()
        self._connection.close()


@contextlib.contextmanager
def running(
    folder: pathlib.Path, hosts: tuple[str, ...] = ("127.0.0.1",) * 2, **options: Any
) -> Iterator[list[Worker]]:
    """Starts a worker for each host, and ends them.

    Args:
        folder: The folder that the workers share.
        hosts: The address of each.
        **options: Further arguments of `train`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    ports = free_ports(len(hosts))
    addresses = [f"{host}:{port}" for host, port in zip(hosts, ports, strict=True)]
    workers: list[Worker] = []
    try:
        for index in range(len(hosts)):
            workers.append(Worker(index, addresses, folder, options))  # noqa: PERF401
        yield workers
    finally:
        for worker in workers:
            worker.close()


def free_ports(count: int) -> list[int]:
    """Returns ports of this machine that nobody uses."""
    with contextlib.ExitStack() as stack:
        sockets = [
            stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            for _ in range(count)
        ]
        return [one.getsockname()[1] for one in sockets]


# What runs in a worker.


def train(
    index: int,
    addresses: list[str],
    folder: str,
    parent: Connection,
    timeout: float = START_TIMEOUT,
    epochs: int = EPOCHS,
    own_network: bool = False,
    ends: tuple[int, str] | None = None,
) -> None:
    """Trains, and tells the parent how far it is.

    Args:
        index: The place of this worker.
        addresses: The addresses of all workers.
        folder: The folder that they share.
        parent: Where events are sent.
        timeout: For how long to wait for the others.
        epochs: Number of epochs.
        own_network: Whether to leave the network of the machine, and to wait for another.
        ends: Which worker ends early, if any, and when: `"met"`, when all are there, or
            `"started"`, when TensorFlow has started.
    """
    signal.alarm(LIFETIME)
    os.environ["TF_CONFIG"] = json.dumps(
        {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
    )
    if own_network:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(_NETWORK) != 0:
            parent.send(Event("error", os.strerror(ctypes.get_errno())))
            return
    parent.send(Event("ready"))
    if own_network:
        parent.recv()
    try:
        if ends == (index, "met"):
            _meet(timeout)
            return
        if ends == (index, "started"):
            _start(timeout)
            return
        _fit(pathlib.Path(folder), index, parent, timeout, epochs)
    except Exception as error:  # noqa: BLE001  the parent shows it
        parent.send(Event("error", f"{type(error).__name__}: {error}"))
        raise SystemExit(1) from None
    parent.send(Event("done"))


def _meet(timeout: float) -> None:
    from tfvn.training.cluster import Cluster
    from tfvn.training.rendezvous import wait_for_all

    wait_for_all(Cluster.from_environment(), timeout)


def _start(timeout: float) -> None:
    import tfvn

    tfvn.multi_worker_strategy(timeout)


def _fit(
    folder: pathlib.Path, index: int, parent: Connection, timeout: float, epochs: int
) -> None:
    import keras
    import numpy as np

    import tfvn

    parent.send(Event("start"))
    strategy = tfvn.multi_worker_strategy(timeout)
    keras.utils.set_random_seed(3)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(32, 4)).astype("float32")
    y = rng.normal(size=(32, 2)).astype("float32")
    with strategy.scope():
        layers = [keras.layers.Dropout(0.2), tfvn.MeanFieldDense(2)]
        model = tfvn.Sequential([keras.Input((4,)), *layers])
        schedule = tfvn.schedules.LinearAnnealing(steps=20)
        model.compile(keras.optimizers.Adam(0.01), "mse", kl_schedule=schedule)

    def save(_: Any = None) -> None:
        # Before the backup is removed, as callbacks of the user do.
        values = [*model.get_weights(), *(v.numpy() for v in model.optimizer.variables)]
        partial = folder / f"partial_{index}.npz"
        np.savez(partial, *values)
        partial.replace(folder / f"final_{index}.npz")
        parent.send(Event("trained"))

    tell = keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, _: parent.send(Event("begin", epoch)),
        on_epoch_end=lambda epoch, _: parent.send(Event("end", epoch)),
        on_train_end=save,
    )
    backup = tfvn.callbacks.BackupAndRestore(folder / "backup")
    model.fit(x, y, batch_size=8, epochs=epochs, callbacks=[tell, backup], verbose=0)
