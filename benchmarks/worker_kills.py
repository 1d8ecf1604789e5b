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
import os
import pathlib
import random
import signal
import tempfile
import time
from typing import NamedTuple

import numpy as np
from worker_processes import END_TIMEOUT, EPOCHS, Event, running


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
