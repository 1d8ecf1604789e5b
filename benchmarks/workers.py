"""Training on two workers compared with training on one device.

    python benchmarks/workers.py

Starts two processes on this machine that train models of all families together, under
`tf.distribute.MultiWorkerMirroredStrategy`, and trains the same models here on one device.
The noise is held constant. The table has the largest difference of any number in the history
(losses, validation, KL) and of any weight, after 20 steps of SGD with a rate for each group.
Batches are even, 16 of 64 examples, or uneven: 9 of 37, so that one worker gets 5 and the
other 4 examples of a batch, and one worker nothing of the last, which is a single example.
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from _tfvn_command import quiet_tensorflow

with quiet_tensorflow():
    import keras
    import tensorflow as tf

    import tfvn

FAMILIES = ("Variance", "GaussianDropout", "MeanField", "KTied")
# Examples, examples of a batch, and epochs, each with 20 steps in all.
BATCHES = {"even": (64, 16, 5), "uneven": (37, 9, 4)}
SECONDS = 1800


def hold_noise_constant() -> None:
    """Makes the noise of an output depend on its column alone."""

    def constant(shape: Any, seed: Any, dtype: Any = "float32") -> Any:
        columns = tf.range(tf.shape(tf.zeros(shape))[-1])
        waves = tf.sin(1.0 + tf.cast(columns, tf.float32))
        return tf.cast(tf.broadcast_to(waves, shape), dtype)

    tfvn.random.normal = constant


def make(family: str) -> Any:
    """Returns a compiled model with two layers of a family."""
    keras.utils.set_random_seed(1)
    layer = getattr(tfvn, f"{family}Dense")
    model = tfvn.Sequential(
        [
            keras.Input((6,)),
            layer(8, activation="tanh"),
            layer(3),
            keras.layers.Dense(2),
        ]
    )
    rates = {"mean": 0.05, "scale": 0.02, "default": 0.05}
    model.compile(
        {group: keras.optimizers.SGD(rate) for group, rate in rates.items()},
        "mse",
        metrics=["mae"],
        kl_schedule=tfvn.schedules.LinearAnnealing(epochs=3),
    )
    return model


def train(family: str, kind: str) -> dict[str, list[float]]:
    """Returns the history and the weights after a training."""
    size, batch_size, epochs = BATCHES[kind]
    rng = np.random.default_rng(0)
    x = rng.normal(size=(size + 7, 6)).astype("float32")
    y = np.sin(x[:, :2] + x[:, 2:4])
    model = make(family)
    history = model.fit(
        x[:size],
        y[:size],
        batch_size=batch_size,
        epochs=epochs,
        shuffle=False,
        validation_data=(x[size:], y[size:]),
        verbose=0,
    ).history
    weights = [weight.numpy().ravel() for weight in model.trainable_variables]
    return {
        **{
            name: [float(value) for value in values] for name, values in history.items()
        },
        "weights": np.concatenate(weights).tolist(),
    }


def train_all(families: list[str]) -> dict[str, Any]:
    """Returns the results of all trainings by family and kind of batch."""
    hold_noise_constant()
    return {f"{f} {kind}": train(f, kind) for f in families for kind in BATCHES}


def work(families: list[str], path: Path) -> None:
    """Trains as one of the workers that the environment names."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        path.write_text(json.dumps(train_all(families)))


def free_addresses(count: int) -> list[str]:
    """Returns addresses on this machine that nothing listens on."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    addresses = [f"127.0.0.1:{taken.getsockname()[1]}" for taken in sockets]
    for taken in sockets:
        taken.close()
    return addresses


def run_workers(script: Path, *arguments: str, count: int = 2) -> list[Any]:
    """Returns the results of several workers, which are processes.

    Args:
        script: What each worker runs; it writes its result as JSON.
        *arguments: The arguments of the script after the file for the result.
        count: Number of workers.
    """
    addresses = free_addresses(count)
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{index}.json" for index in range(count)]
        workers = []
        try:
            for index, path in enumerate(paths):
                task = {"type": "worker", "index": index}
                config = {"cluster": {"worker": addresses}, "task": task}
                command = [sys.executable, str(script), str(path), *arguments]
                environment = {**os.environ, "TF_CONFIG": json.dumps(config)}
                workers.append(
                    subprocess.Popen(  # noqa: S603  our own file
                        command,
                        env=environment,
                        # Ends a worker whose starter is gone.
                        preexec_fn=lambda: signal.alarm(SECONDS),
                    )
                )
            wait(workers)
            return [json.loads(path.read_text()) for path in paths]
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()


def wait(workers: list[subprocess.Popen]) -> None:
    """Waits until all workers have ended, and raises if one fails or all take too long."""
    end = time.monotonic() + SECONDS
    while any(codes := [worker.poll() for worker in workers]) or None in codes:
        if any(codes):
            raise RuntimeError(f"a worker has failed, see above; exit codes {codes}")
        if time.monotonic() > end:
            raise TimeoutError(f"the workers have not ended within {SECONDS} s")
        time.sleep(0.2)


def difference(first: dict[str, Any], second: dict[str, Any], names: Any) -> float:
    """Returns the largest difference of any number."""
    pairs = [(np.array(first[name]), np.array(second[name])) for name in names]
    # NaN counts as different.
    return max(float(np.nan_to_num(np.abs(a - b), nan=np.inf).max()) for a, b in pairs)


def main(families: list[str]) -> None:
    """Trains on workers and on one device, and prints the table."""
    workers = run_workers(Path(__file__), "--worker", *families)
    alone = train_all(families)
    print("| family | batches | history | weights |\n| --- | --- | --- | --- |")
    for case, expected in alone.items():
        family, kind = case.split()
        shown = [
            max(difference(worker[case], expected, names) for worker in workers)
            for names in (expected.keys() - {"weights"}, {"weights"})
        ]
        print(f"| {family} | {kind} | {shown[0]:.1e} | {shown[1]:.1e} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("families", nargs="*", help=f"of {', '.join(FAMILIES)}")
    if "--worker" in sys.argv:
        _, result, _, *chosen = sys.argv
        work(chosen, Path(result))
    else:
        main(parser.parse_args().families or list(FAMILIES))
