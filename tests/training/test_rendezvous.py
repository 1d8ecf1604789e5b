"""The workers of a run find each other, or say who is missing."""

import contextlib
import json
import signal
import socket
import threading
import time

import pytest

from tfvn.training.cluster import Cluster
from tfvn.training.rendezvous import wait_for_all

TWO = {"worker": ["10.0.0.1:2222", "10.0.0.2:2222"]}


def config(cluster=None, job="worker", index=0):
    cluster = TWO if cluster is None else cluster
    return json.dumps({"cluster": cluster, "task": {"type": job, "index": index}})


class TestCluster:
    def test_workers(self, monkeypatch):
        monkeypatch.setenv("TF_CONFIG", config(index=1))
        cluster = Cluster.from_environment()
        assert cluster.names == ("worker 0", "worker 1")
        assert cluster.addresses == tuple(TWO["worker"])
        assert (cluster.index, cluster.is_chief) == (1, False)

    def test_chief_comes_first(self, monkeypatch):
        jobs = {"worker": ["a:1", "b:2"], "chief": ["c:3"], "evaluator": ["d:4"]}
        monkeypatch.setenv("TF_CONFIG", config(jobs, "chief"))
        cluster = Cluster.from_environment()
        assert cluster.names == ("chief 0", "worker 0", "worker 1")
        assert cluster.addresses == ("c:3", "a:1", "b:2")
        assert cluster.is_chief

    # TensorFlow takes it, and job systems write it.
    def test_index_as_text(self, monkeypatch):
        monkeypatch.setenv("TF_CONFIG", config(index="1"))
        assert Cluster.from_environment().index == 1

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            (None, "Set the environment variable `TF_CONFIG`"),
            ("  ", "Set the environment variable `TF_CONFIG`"),
            ("{'cluster': 1}", "must be JSON, but Expecting property name"),
            ("[]", 'must have the entries "cluster" and "task"'),
            ('{"cluster": {"worker": ["a:1"]}}', 'the entries "cluster" and "task"'),
            (config({"worker": "a:1"}), 'list addresses "host:port" under "worker"'),
            (config({"worker": ["a"]}), 'list addresses "host:port" under "worker"'),
            (config({"worker": ["a:0"]}), 'list addresses "host:port" under "worker"'),
            (config({"worker": ["a:70000"]}), 'list addresses "host:port"'),
            (config({"worker": ["a:1", "a:1"]}), "list each address once"),
            (config({"chief": ["a:1", "b:1"]}, "chief"), "list at most one chief"),
            (config({"ps": ["a:1"], "worker": ["b:1"]}), "list nothing but"),
            (config(index=2), r"one of \['worker 0', 'worker 1'\]"),
            (config(job="evaluator"), "which of the workers this is"),
        ],
    )
    def test_wrong(self, monkeypatch, text, expected):
        monkeypatch.delenv("TF_CONFIG", raising=False)
        if text is not None:
            monkeypatch.setenv("TF_CONFIG", text)
        with pytest.raises(ValueError, match=rf"{expected}.*Received: TF_CONFIG="):
            Cluster.from_environment()


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [
            stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            for _ in range(count)
        ]
        return [one.getsockname()[1] for one in sockets]


def clusters(ports, host="127.0.0.1"):
    """Returns what each of the workers knows."""
    names = tuple(f"worker {index}" for index in range(len(ports)))
    addresses = tuple(f"{host}:{port}" for port in ports)
    return [Cluster(names, addresses, index) for index in range(len(ports))]


def meet(workers, timeout=20.0, delays=None):
    """Lets workers wait for each other, and returns the error or `None` of each."""
    results = {}

    def wait(cluster):
        time.sleep((delays or {}).get(cluster.index, 0.0))
        try:
            results[cluster.index] = wait_for_all(cluster, timeout)
        except (TimeoutError, ValueError) as error:
            results[cluster.index] = error

    threads = [threading.Thread(target=wait, args=(one,)) for one in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    return results


@pytest.mark.parametrize("late", [0, 1, 2])
def test_all_come_in_any_order(late):
    workers = clusters(free_ports(3))
    assert meet(workers, delays={late: 0.6}) == {0: None, 1: None, 2: None}


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_ports_are_free_again(host):
    ports = free_ports(2)
    for _ in range(2):
        assert meet(clusters(ports, host)) == {0: None, 1: None}
    for port in ports:
        socket.create_server(("127.0.0.1", port)).close()


def test_everybody_learns_who_is_missing():
    first, second, third = clusters(free_ports(3))
    results = meet([first, second], timeout=3.0)
    for error in results.values():
        assert isinstance(error, TimeoutError)
        assert str(error).startswith("Not all workers have started within 3 seconds")
        assert str(error).endswith(f"no answer from {third.describe(2)}")


@pytest.mark.parametrize("timeouts", [(1.0, 600.0), (600.0, 1.0)])
def test_all_give_up_together(timeouts):
    first, second, third = clusters(free_ports(3))
    errors = {}

    def wait(cluster, timeout):
        try:
            wait_for_all(cluster, timeout)
        except TimeoutError as error:
            errors[cluster.index] = error

    threads = [
        threading.Thread(target=wait, args=(first, timeouts[0])),
        threading.Thread(target=wait, args=(second, timeouts[1])),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(errors) == [0, 1]
    for error in errors.values():
        assert str(error).endswith(f"no answer from {third.describe(2)}")


def test_missing_chief():
    first, second = clusters(free_ports(2))
    error = meet([second], timeout=0.5)[1]
    wanted = f"no answer from {first.describe(0)} (connection refused)"
    assert str(error).endswith(wanted)


def test_worker_that_ended_is_missing_again():
    first, second, third = clusters(free_ports(3))
    results = {}
    chief = threading.Thread(target=lambda: results.update(meet([first], timeout=2.0)))
    chief.start()
    time.sleep(0.5)
    port = int(first.addresses[0].rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port)) as connection:
        everybody = [first.describe(index) for index in range(3)]
        introduction = {"index": 1, "cluster": everybody}
        connection.sendall(json.dumps(introduction).encode() + b"\n")
        assert json.loads(connection.recv(4096)) == {"missing": [2]}
    chief.join(60)
    wanted = f"no answer from {second.describe(1)}, {third.describe(2)}"
    assert str(results[0]).endswith(wanted)


def test_another_list_of_workers():
    ports = free_ports(3)
    first, second = clusters(ports[:2])
    other = clusters([ports[0], ports[2]])[1]
    results = meet([first, other], timeout=1.5)
    assert isinstance(results[1], ValueError)
    assert "must have the same cluster" in str(results[1])
    assert second.addresses[1] in str(results[1])
    assert str(results[0]).endswith(f"no answer from {second.describe(1)}")


def test_port_in_use():
    workers = clusters(free_ports(2))
    port = int(workers[1].addresses[1].rpartition(":")[2])
    with socket.create_server(("127.0.0.1", port)):
        error = meet(workers[1:], timeout=0.5)[1]
    assert "another process uses the port of worker 1" in str(error)


@pytest.mark.parametrize("said", [b"\x00\x00\x12\x04\xff\n", b"[1]\n", b""])
def test_another_program_at_the_port_of_the_chief(said):
    first, second = clusters(free_ports(2))
    port = int(first.addresses[0].rpartition(":")[2])

    def answer():
        with contextlib.suppress(OSError):
            while True:
                connection, _ = server.accept()
                connection.sendall(said)
                connection.close()

    with socket.create_server(("127.0.0.1", port)) as server:
        thread = threading.Thread(target=answer)
        thread.start()
        error = meet([second], timeout=0.8)[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
    assert f"no answer from {first.describe(0)} (" in str(error)


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\n\r\n", b"\xff\xfe\n", b"7\n"])
def test_other_programs_ask_the_chief(said):
    workers = clusters(free_ports(2))
    port = int(workers[0].addresses[0].rpartition(":")[2])

    def ask():
        time.sleep(0.3)
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(said)
            time.sleep(0.3)

    thread = threading.Thread(target=ask)
    thread.start()
    assert meet(workers, delays={1: 1.0}) == {0: None, 1: None}
    thread.join()


class StopWaitingError(Exception):
    pass


@pytest.mark.parametrize("index", [0, 1])
def test_signals_end_the_wait(index):
    def interrupt(*_):
        raise StopWaitingError

    worker = clusters(free_ports(2))[index]
    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    start = time.monotonic()
    try:
        with pytest.raises(StopWaitingError):
            wait_for_all(worker, 60.0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    assert time.monotonic() - start < 5
    # It has given its port back.
    port = int(worker.addresses[index].rpartition(":")[2])
    socket.create_server(("127.0.0.1", port)).close()
