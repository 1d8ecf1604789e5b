"""Workers that are processes: their start, the loss of one, and backups.

`benchmarks/worker_processes.py` starts them, and ends them whatever happens.
"""

import inspect
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import tfvn

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

pytestmark = pytest.mark.exhaustive

LOST = "ConnectionError: A worker of the `MultiWorkerMirroredStrategy` was lost"


@pytest.fixture
def processes(monkeypatch):
    """Workers, as a module that the processes import too."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
    import worker_processes

    return worker_processes


def test_killed_workers_end_as_if_they_had_not_been(processes, tmp_path):
    import worker_kills

    wanted = worker_kills.undisturbed(tmp_path / "whole")
    assert len(wanted) == 2
    assert wanted[0] == wanted[1]
    # The first kills the chief at the end of the last epoch.
    for number, moment in enumerate(worker_kills.moments(20)[:4:3]):
        outcome = worker_kills.one_round(tmp_path / str(number), moment, wanted)
        assert outcome.is_good, outcome


def begun(processes, workers, epoch=1):
    for worker in workers:
        event = worker.wait_for(processes.Event("begin", epoch), timeout=300)
        assert event is not None, worker.events


def error_of(processes, worker, timeout):
    start = time.monotonic()
    event = worker.wait_for(processes.Event("error"), timeout=timeout)
    assert event is not None, worker.events
    return event.value, time.monotonic() - start


@pytest.mark.parametrize("index", [0, 1])
def test_silent_worker(processes, tmp_path, index):
    with processes.running(tmp_path, epochs=10_000) as workers:
        begun(processes, workers)
        workers[index].send(signal.SIGSTOP)
        error, seconds = error_of(processes, workers[1 - index], 60)
    assert error.startswith(LOST)
    assert seconds < processes.END_TIMEOUT


@pytest.mark.parametrize("index", [0, 1])
def test_missing_worker(processes, tmp_path, index):
    with processes.running(tmp_path, timeout=3) as workers:
        missing = workers[1 - index]
        missing.send(signal.SIGKILL)
        assert workers[index].wait_for(processes.Event("start"), timeout=300)
        error, seconds = error_of(processes, workers[index], 60)
    assert error.startswith("TimeoutError: Not all workers have started within 3 sec")
    assert f"no answer from worker {1 - index} at 127.0.0.1:" in error
    assert seconds < 10


@pytest.mark.parametrize("index", [0, 1])
def test_worker_that_ends_before_tensorflow_has_started(processes, tmp_path, index):
    with processes.running(tmp_path, ends=(index, "met")) as workers:
        other = workers[1 - index]
        assert other.wait_for(processes.Event("start"), timeout=300)
        error, seconds = error_of(processes, other, 60)
    assert error.startswith("TimeoutError: A worker was there and ended before")
    # TensorFlow gets 15 seconds, and takes some more.
    assert seconds < processes.END_TIMEOUT


@pytest.mark.parametrize("index", [0, 1])
def test_worker_that_ends_before_it_makes_its_model(processes, tmp_path, index):
    with processes.running(tmp_path, ends=(index, "started")) as workers:
        other = workers[1 - index]
        assert other.wait_for(processes.Event("start"), timeout=300)
        error, seconds = error_of(processes, other, 60)
    assert error.startswith(LOST)
    assert seconds < processes.END_TIMEOUT


@pytest.mark.parametrize("index", [0, 1])
def test_signal_ends_a_worker_that_waits_or_trains(processes, tmp_path, index):
    with processes.running(tmp_path, timeout=120) as workers:
        workers[1 - index].send(signal.SIGKILL)
        waiting = workers[index]
        assert waiting.wait_for(processes.Event("start"), timeout=300)
        time.sleep(0.5)
        waiting.send(signal.SIGTERM)
        waiting.process.join(10)
        assert waiting.process.exitcode == -signal.SIGTERM
    with processes.running(tmp_path, epochs=10_000) as workers:
        begun(processes, workers)
        workers[index].send(signal.SIGTERM)
        workers[index].process.join(10)
        assert workers[index].process.exitcode == -signal.SIGTERM
        error, seconds = error_of(processes, workers[1 - index], 60)
    assert error.startswith(LOST)
    assert seconds < processes.END_TIMEOUT


def ip(command, of):
    """Runs `ip` in the network of a process."""
    subprocess.run(
        ["nsenter", "-t", str(of), "-n", "ip", *command.split()],
        check=True,
        capture_output=True,
    )


def test_cut_network(processes, tmp_path):
    """Two workers in networks of their own, between which the cable is pulled."""
    for command in ("ip", "nsenter"):
        if shutil.which(command) is None:
            pytest.skip(f"needs the command {command}")
    hosts = ("10.99.0.1", "10.99.0.2")
    options = {"own_network": True, "epochs": 10_000}
    with processes.running(tmp_path, hosts, **options) as workers:
        for worker in workers:
            first = worker.wait_for(
                processes.Event("ready"), processes.Event("error"), timeout=300
            )
            if first.name == "error":
                pytest.skip(f"a process may not have its own network: {first.value}")
        first, second = (worker.process.pid for worker in workers)
        # Both ends are in networks of the workers, with which they disappear.
        ip(f"link add cable type veth peer name cable netns {second}", of=first)
        for pid, host in zip((first, second), hosts, strict=True):
            ip(f"addr add {host}/24 dev cable", of=pid)
            ip("link set cable up", of=pid)
            ip("link set lo up", of=pid)
        for worker in workers:
            worker.go_on()
        begun(processes, workers)
        ip("link set cable down", of=second)
        for worker in workers:
            error, seconds = error_of(processes, worker, 60)
            assert error.startswith(LOST)
            assert seconds < processes.END_TIMEOUT


def test_example_of_the_docstring(processes, tmp_path):
    text = inspect.getdoc(tfvn.multi_worker_strategy)
    program = text.partition("```python\n")[2].partition("```")[0]
    addresses = [f"127.0.0.1:{port}" for port in processes.free_ports(2)]
    processes = []
    try:
        for index in range(2):
            task = {"type": "worker", "index": index}
            config = {"cluster": {"worker": addresses}, "task": task}
            processes.append(
                subprocess.Popen(
                    [sys.executable, "-c", program],
                    env={**os.environ, "TF_CONFIG": json.dumps(config)},
                    cwd=tmp_path,
                )
            )
        assert [process.wait(timeout=300) for process in processes] == [0, 0]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    # The chief has made the folder of the backup, and has removed the backup.
    assert list((tmp_path / "backup").iterdir()) == []
