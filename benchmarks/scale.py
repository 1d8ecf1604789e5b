"""How the cost of a dense layer grows: its training step and its peak memory.

    python benchmarks/scale.py                  # the sweeps, their exponents and a plot
    python benchmarks/scale.py --big            # 16,384 x 16,384, against keras.layers.Dense
    python benchmarks/scale.py --calculate      # workers, calculated from what was measured
    python benchmarks/scale.py --quick          # a check that it runs

The model is one layer of as many outputs as inputs, trained by `fit` with Adam without jit. A
sweep changes one factor at a time: width, rank, batch size, draws of the loss or replicas.

Each point is measured in a process of its own, so that its peak memory is its own. The points
take turns, `--rounds` times, and a figure is the least of all rounds, because other work of
the machine only adds to it. Each result is written at once: the same command continues after
an interruption.
"""

import argparse
import json
import math
import os
import pathlib
import resource
import subprocess
import sys
import time
from typing import Any

import numpy as np
from scale_report import (
    BIG,
    MEAN_FIELD,
    SWEEPS,
    TIED,
    TWIN,
    Point,
    report_big,
    report_calculation,
    report_sweeps,
    sweep,
)

DOCS = pathlib.Path(__file__).parent.parent / "docs"
GIB = 2**30
# A process that takes longer than this many seconds for a point is ended.
TIMEOUT = 3600


# One point, in a process of its own.


def measure(point: Point, epochs: int) -> dict[str, Any]:
    """Trains a layer and returns seconds of each step and the peak memory in GiB."""
    # The process that starts all others needs none of this.
    from _tfvn_command import quiet_tensorflow

    with quiet_tensorflow():
        import keras
        import tensorflow as tf

        import tfvn  # noqa: F401  its import is part of the memory of both libraries
    if point.replicas > 1:
        cpu = tf.config.list_physical_devices("CPU")[0]
        devices = [tf.config.LogicalDeviceConfiguration()] * point.replicas
        tf.config.set_logical_device_configuration(cpu, devices)
        names = [f"CPU:{index}" for index in range(point.replicas)]
        with tf.distribute.MirroredStrategy(names).scope():
            model = compiled(point)
    else:
        model = compiled(point)
    shape = (point.batch, point.width)
    rng = np.random.default_rng(0)
    pair = [rng.standard_normal(shape, dtype="float32") for _ in range(2)]
    data = tf.data.Dataset.from_tensors(tuple(pair)).repeat()
    work = point.width**2 * max(1.0, point.batch / 64) * point.draws
    steps = min(50, math.ceil(2**26 / work))
    loaded, started = peak_memory(), os.getloadavg()[0]
    times = EpochTimes(steps)
    callback = keras.callbacks.LambdaCallback(
        on_epoch_begin=times.begin, on_epoch_end=times.end
    )
    model.fit(
        data, steps_per_epoch=steps, epochs=epochs + 1, verbose=0, callbacks=[callback]
    )
    # The first epoch traces.
    return {
        "seconds": min(times.seconds[1:]),
        "cpu_seconds": min(times.cpu_seconds[1:]),
        "peak_gib": peak_memory(),
        "loaded_gib": loaded,
        "load": max(started, os.getloadavg()[0]),
    }


def compiled(point: Point) -> Any:
    """Returns the compiled model of a point."""
    import keras

    import tfvn

    inputs = keras.Input((point.width,))
    if point.layer == TWIN:
        model = keras.Sequential([inputs, keras.layers.Dense(point.width)])
        model.compile("adam", "mse", jit_compile=False)
        return model
    posterior = (
        tfvn.posteriors.KTied(rank=point.rank)
        if point.layer == TIED
        else tfvn.posteriors.get(point.layer)
    )
    model = tfvn.Sequential(
        [inputs, tfvn.layers.Dense(point.width, posterior=posterior)]
    )
    model.compile(
        "adam",
        "mse",
        jit_compile=False,
        # So little weight for the KL that nothing warns of it.
        train_size=10**9,
        num_samples=point.draws,
    )
    return model


class EpochTimes:
    """The time of a step in each epoch, by the clock and of all processors.

    Args:
        steps: Number of steps of an epoch.
    """

    def __init__(self, steps: int):
        self.steps = steps
        self.seconds: list[float] = []
        self.cpu_seconds: list[float] = []

    def begin(self, *_: Any) -> None:
        """Notes the times before an epoch."""
        self._start = time.perf_counter(), time.process_time()

    def end(self, *_: Any) -> None:
        """Notes the times after an epoch."""
        clock, cpu = self._start
        self.seconds.append((time.perf_counter() - clock) / self.steps)
        self.cpu_seconds.append((time.process_time() - cpu) / self.steps)


def peak_memory() -> float:
    """Returns the largest memory of this process so far, in GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / GIB


# All points.


def measure_all(
    points: list[Point], path: pathlib.Path, rounds: int, epochs: int
) -> dict[str, list[dict[str, Any]]]:
    """Measures points that have fewer than `rounds` results, and returns all results."""
    results = json.loads(path.read_text("utf-8")) if path.exists() else {}
    for index in range(rounds):
        for point in dict.fromkeys(points):
            record = results.setdefault(str(point), [])
            if len(record) > index:
                continue
            print(f"round {index + 1}: {point}", flush=True)
            record.append(in_process(point, epochs))
            write(path, json.dumps(results, indent=1) + "\n")
    return results


def in_process(point: Point, epochs: int) -> dict[str, Any]:
    """Returns the result of a point that is measured in a new process."""
    arguments = ["--point", json.dumps(point._asdict()), "--epochs", str(epochs)]
    finished = subprocess.run(  # noqa: S603  this file
        [sys.executable, __file__, *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        # The library of this checkout, whatever is installed.
        env={**os.environ, "PYTHONPATH": str(DOCS.parent)},
        check=False,
    )
    if finished.returncode:
        raise RuntimeError(
            f"The process of a point must end with status 0. Received: point={point}, "
            f"status {finished.returncode} and\n{finished.stderr[-2000:]}"
        )
    return json.loads(finished.stdout.splitlines()[-1])


def write(path: pathlib.Path, text: str) -> None:
    """Writes a file as a whole, so that an interruption leaves the old one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(text, "utf-8")
    new.replace(path)


def main() -> None:
    """Measures what was asked for, prints tables, and plots the sweeps."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--big", action="store_true", help="16,384 x 16,384 only")
    parser.add_argument("--calculate", action="store_true", help="measure nothing")
    parser.add_argument("--factor", choices=list(SWEEPS), help="one sweep only")
    parser.add_argument("--rounds", type=int, default=3, help="processes of each point")
    parser.add_argument("--epochs", type=int, default=4, help="timed in each process")
    parser.add_argument("--bandwidth", type=float, default=100.0, help="Gbit/s")
    parser.add_argument("--quick", action="store_true", help="tiny layers, one round")
    parser.add_argument("--output", type=pathlib.Path, help="a JSON file of results")
    parser.add_argument("--figure", type=pathlib.Path, help="a PNG file of the plot")
    parser.add_argument("--point", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.point is not None:
        print(json.dumps(measure(Point(**options.point), options.epochs)))
        return
    base, big = Point(), BIG
    output, figure = DOCS / "measurements/scale.json", DOCS / "images/scale.png"
    if options.quick:
        options.rounds = options.epochs = 1
        base = base._replace(width=8, batch=4)
        big = [point._replace(width=16, batch=4) for point in BIG]
        SWEEPS.clear()
        SWEEPS["width"] = (8, 16), (TIED, MEAN_FIELD)
        SWEEPS["replicas"] = (1, 2), (TIED,)
        output = figure = pathlib.Path("results/benchmarks/scale.json")
    output = options.output or output
    figure = options.figure or figure.with_suffix(".png")
    factors = list(SWEEPS) if options.factor is None else [options.factor]
    points = [p for f in factors for line in sweep(f, base).values() for p in line]
    if options.big or options.quick:
        points = big if options.big else [*points, *big]
    if options.calculate:
        points = []
    results = measure_all(points, output, options.rounds, options.epochs)
    if not (options.big or options.calculate):
        report_sweeps(results, base, figure)
    if options.big or options.quick:
        report_big(results, big)
    if not options.big:
        report_calculation(results, base, options.bandwidth)


if __name__ == "__main__":
    main()
