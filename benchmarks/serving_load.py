"""A load test of a served ensemble, with many clients at once.

    python benchmarks/serving_load.py
    python benchmarks/serving_load.py --seconds 5 --clients 4

Clients send requests by gRPC to the protocol fixture of the tests, each as soon as it has the
last answer, and ask for the draws of one row of a LeNet-5 with a variance layer. The script
prints requests per second, latencies, errors, repeated draws, and the memory of the process
over time. It fails if there is an error or a repeated draw, or if memory grows by more than a
tenth after the first quarter. The fixture is not a server but Python code in the same process:
a real server should be faster.
"""

import argparse
import pathlib
import sys
import tempfile
import threading
import time
from typing import Any

import numpy as np

from _tfvn_command import quiet_tensorflow

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests" / "serving"))

with quiet_tensorflow():
    import keras
    from clients import GrpcClient, RefusedError
    from protocol_fixture import ProtocolFixture

    import tfvn

NUM_SAMPLES = 20
SHAPE = (28, 28, 1)
MOST_GROWTH = 0.1


def make_model() -> keras.Sequential:
    """Returns LeNet-5 with a variance layer, untrained."""
    return keras.Sequential(
        [
            keras.Input(SHAPE),
            keras.layers.Conv2D(20, 5, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Conv2D(50, 5, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            tfvn.VarianceDense(500, activation="relu"),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )


class Client(threading.Thread):
    """Sends requests until another thread stops it.

    Attributes:
        latencies: Seconds that each request took.
        draws: A hash of every answer.
        errors: The messages of errors.
    """

    def __init__(self, fixture: Any, row: np.ndarray, stop: threading.Event):
        super().__init__()
        self._client = GrpcClient(fixture.grpc_address, fixture.name)
        self._inputs, self._ending = {"inputs": row}, stop
        self.latencies: list[float] = []
        self.draws: list[int] = []
        self.errors: list[str] = []

    def run(self) -> None:
        """Sends requests, and keeps the figures."""
        while not self._ending.is_set():
            start = time.perf_counter()
            try:
                answer = self._client.predict(self._inputs, "samples")
            except RefusedError as error:
                self.errors.append(str(error))
                continue
            self.latencies.append(time.perf_counter() - start)
            self.draws.append(hash(answer["samples"].tobytes()))
        self._client.channel.close()


def memory() -> float:
    """Returns the resident memory of this process, in megabytes."""
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def load(base: pathlib.Path, clients: int, seconds: float) -> bool:
    """Puts load on a server, prints the figures, and returns whether it passed."""
    stop = threading.Event()
    row = np.random.default_rng(0).uniform(size=(1, *SHAPE)).astype("float32")
    used = []
    with ProtocolFixture(base, batching=True) as fixture:
        threads = [Client(fixture, row, stop) for _ in range(clients)]
        for thread in threads:
            thread.start()
        start = time.monotonic()
        while time.monotonic() < start + seconds:
            time.sleep(seconds / 20)
            used.append(memory())
        stop.set()
        for thread in threads:
            thread.join()
    latencies = np.concatenate([thread.latencies for thread in threads])
    draws = [draw for thread in threads for draw in thread.draws]
    errors = [error for thread in threads for error in thread.errors]
    repeated = len(draws) - len(set(draws))
    warm, last = used[len(used) // 4], used[-1]
    middle, slow = np.quantile(latencies, [0.5, 0.99]) * 1e3
    print(f"| clients | {clients} |\n| --- | --- |")
    print(f"| requests | {len(draws):,}, {len(draws) / seconds:.0f} a second |")
    print(f"| latency | {middle:.1f} ms, 99 % within {slow:.1f} ms |")
    print(f"| errors | {len(errors)} |\n| repeated draws | {repeated} |")
    print(
        f"| memory | {warm:.0f} MB after a quarter of the time, {last:.0f} MB in the end |"
    )
    for error in errors[:3]:
        print(error)
    return not errors and not repeated and last < warm * (1 + MOST_GROWTH)


def main() -> int:
    """Exports a model, serves it, and returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=60.0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        base = pathlib.Path(folder) / "lenet5"
        tfvn.export_ensemble(make_model(), base, NUM_SAMPLES)
        held = load(base, arguments.clients, arguments.seconds)
    print("held" if held else "did NOT hold")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
