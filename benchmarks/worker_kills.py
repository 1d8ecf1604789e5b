"""Kills workers at random moments, and compares how training ends with an undisturbed run.

    python benchmarks/worker_kills.py --kills 20

Two processes on this machine train a small network under
`tfvn.multi_worker_strategy`. In each round one of them gets a SIGKILL: every other round
the first worker, which is the chief, else the second. The moments are random, with a fixed
seed: while a worker starts, in an epoch, and, in a quarter of the rounds, at the end of the
last epoch. The other worker has to end with an error that says so. Then both are started
again, and have to go on where the backup is and end at the same weights, bit by bit.
"""

import argparse
import contextlib
import ctypes
import json
import multiprocessing
import os
import pathlib
import random
import signal
import socket
import tempfile
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


# The rounds.


class Moment(NamedTuple):
    """When and whom to kill.

    Attributes:
        index: The worker.
        event: The event after which.
        delay: How many seconds after it.
    """

    index: int
    event: Event
    delay: float


def moments(kills: int, seed: int = 0) -> list[Moment]:
    """Returns random moments.

    Args:
        kills: Their number.
        seed: Seed of the moments.
    """
    generator = random.Random(seed)  # noqa: S311
    found = []
    for number in range(kills):
        # Every fourth of each worker's at the end, first of all the chief's.
        if number % 8 in (0, 1):
            event = Event("end", EPOCHS - 1)
        elif number % 8 == 2:
            event = Event("start")
        else:
            event = Event("begin", generator.randrange(EPOCHS))
        longest = 2.0 if event.name == "start" else 0.3
        found.append(Moment(number % 2, event, generator.uniform(0.0, longest)))
    return found


class Outcome(NamedTuple):
    """What happened in a round.

    Attributes:
        moment: When and whom it hit.
        error: The error of the survivor; empty if it had finished.
        seconds: From the kill to the error.
        resumed: The epoch with which the workers went on, or `None` if they had finished.
        expected: The least epoch with which they had to.
        is_equal: Whether the weights of both are those of the undisturbed run.
    """

    moment: Moment
    error: str
    seconds: float
    resumed: int | None
    expected: int
    is_equal: bool

    @property
    def is_good(self) -> bool:
        """Whether nothing was lost."""
        in_time = self.seconds < END_TIMEOUT
        return self.is_equal and in_time and (self.resumed or EPOCHS) >= self.expected


def undisturbed(folder: pathlib.Path) -> list[bytes]:
    """Returns the final weights of a run that nobody disturbs, of each worker."""
    with running(folder) as workers:
        for worker in workers:
            if worker.wait_for(Event("done"), Event("error"), timeout=300) != Event(
                "done"
            ):
                raise RuntimeError(f"The run failed: {worker.events}")
    return final(folder)


def final(folder: pathlib.Path) -> list[bytes]:
    """Returns the final weights of each worker, or nothing if one has not finished."""
    import numpy as np

    paths = [folder / f"final_{index}.npz" for index in range(2)]
    if not all(path.exists() for path in paths):
        return []
    found = []
    for path in paths:
        with np.load(path) as saved:
            found.append(b"".join(saved[name].tobytes() for name in saved.files))
    return found


def killed(folder: pathlib.Path, moment: Moment) -> tuple[str, float, int]:
    """Starts workers and kills one.

    Args:
        folder: The folder that they share.
        moment: When and whom to kill.

    Returns:
        The error of the other, after how many seconds it came, and with which epoch the
        next run has to start at least.
    """
    with running(folder) as workers:
        hit, other = workers[moment.index], workers[1 - moment.index]
        if hit.wait_for(moment.event, timeout=300) is None:
            raise RuntimeError(f"The worker does not train: {hit.events}")
        time.sleep(moment.delay)
        # At the end of the last epoch it may have finished before its moment came.
        with contextlib.suppress(ProcessLookupError):
            hit.send(signal.SIGKILL)
        start = time.monotonic()
        ended = other.wait_for(Event("error"), Event("done"), timeout=2 * END_TIMEOUT)
        seconds = time.monotonic() - start
        while hit.read(1) is not None:
            pass
        error = "it did not end" if ended is None else ended.value or ""
        # The chief begins an epoch when the backup of the one before is written.
        begun = [event.value for event in workers[0].events if event.name == "begin"]
    return error, seconds, max(begun, default=0)


def one_round(folder: pathlib.Path, moment: Moment, wanted: list[bytes]) -> Outcome:
    """Kills a worker, starts both again, and returns what happened."""
    error, seconds, expected = killed(folder, moment)
    resumed = None
    # As long as there is a backup, the run is not over.
    if (folder / "backup" / "backup.npz").exists() or not final(folder):
        for path in folder.glob("final_*"):
            path.unlink()
        with running(folder) as workers:
            for worker in workers:
                worker.wait_for(Event("done"), Event("error"), timeout=300)
            events = workers[0].events
            begun = [event.value for event in events if event.name == "begin"]
            # If nothing was left to train, none begins.
            resumed = min(begun, default=EPOCHS)
    is_equal = final(folder) == wanted
    return Outcome(moment, error, seconds, resumed, expected, is_equal)


def show(outcome: Outcome) -> None:
    """Prints a row of the table."""
    moment = outcome.moment
    event = " ".join(str(part) for part in moment.event if part is not None)
    error = outcome.error.split(":")[0] or "had finished"
    print(
        f"| {moment.index} | {event} + {moment.delay:.2f} s | {error} after "
        f"{outcome.seconds:.1f} s | {outcome.expected} | "
        f"{'-' if outcome.resumed is None else outcome.resumed} | "
        f"{'yes' if outcome.is_equal else 'NO'} |",
        flush=True,
    )


def main() -> None:
    """Runs the rounds, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20, help="number of rounds")
    parser.add_argument("--seed", type=int, default=0, help="seed of the moments")
    options = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    good = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        wanted = undisturbed(folder / "whole")
        print("| killed | moment | the other | resumes at | resumed at | equal |")
        print("| --- | --- | --- | --- | --- | --- |", flush=True)
        for number, moment in enumerate(moments(options.kills, options.seed)):
            outcome = one_round(folder / str(number), moment, wanted)
            show(outcome)
            good += outcome.is_good
    print(f"{good} of {options.kills} ended at the weights of the undisturbed run.")
    if good < options.kills:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
