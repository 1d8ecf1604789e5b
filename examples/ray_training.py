"""Training with Ray on two workers, of which each crashes once.

    pip install "tfvn[ray]"
    python examples/ray_training.py            # two workers train a classifier of digits
    python examples/ray_training.py --crash    # and again, while each worker crashes once
    python examples/ray_training.py --quick    # a check that it runs

Ray starts two processes on this machine, tells each of them in `TF_CONFIG` who the others
are, and calls `train` in each. If one of them dies, Ray ends the others too and calls `train`
in new ones, up to `max_failures` times. `tfvn.callbacks.BackupAndRestore` lets them go on
after the last epoch that was finished.

With `--crash`, each worker kills itself once, in the middle of an epoch. The weights at the end
must be the same in every bit as without crashes. Ends with status 1 if a check fails.
"""

import argparse
import os
import pathlib
import signal
import sys
import tempfile
import time
from typing import Any

import numpy as np

from _tfvn_command import quiet_tensorflow

with quiet_tensorflow():
    import keras

    import tfvn
from ray_inference import start_ray


def train(config: dict[str, Any]) -> None:
    """What each worker does, from the beginning or from the last backup.

    Args:
        config: The `train_loop_config` of the trainer.
    """
    # Reads `TF_CONFIG`, which Ray has set. Before any other TensorFlow code.
    strategy = tfvn.multi_worker_strategy()
    keras.utils.set_random_seed(0)
    (x, y), _ = tfvn.datasets.load("digits")
    with strategy.scope():
        model = tfvn.Sequential(
            [
                keras.Input((8, 8, 1)),
                keras.layers.Flatten(),
                tfvn.KTiedDense(64, activation="relu"),
                tfvn.MeanFieldDense(10, activation="softmax"),
            ]
        )
        optimizer = keras.optimizers.Adam(1e-2)
        loss = "sparse_categorical_crossentropy"
        model.compile(optimizer, loss, metrics=["accuracy"])
    rank = strategy.cluster_resolver.task_id
    folder = pathlib.Path(config["folder"])
    watch = Watch(folder, rank, config["crashes"].get(rank))
    # A folder that all workers can reach, by a path that does not depend on where they run.
    backup = tfvn.callbacks.BackupAndRestore(folder / "backup")
    model.fit(
        x,
        y,
        batch_size=64,
        epochs=config["epochs"],
        callbacks=[watch, backup],
        verbose=0,
    )


class Watch(keras.callbacks.Callback):
    """Notes what a worker does, kills it once, and saves its weights at the end.

    Args:
        folder: Where to write.
        rank: The number of the worker.
        crash: The epoch in which to kill it; `None` for none.
    """

    def __init__(self, folder: pathlib.Path, rank: int, crash: int | None):
        super().__init__()
        self.folder, self.rank, self.crash = folder, rank, crash
        self.epoch: int | None = None

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        if self.epoch is None:
            self._note(f"starts with epoch {epoch + 1}")
        self.epoch = epoch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        mark = self.folder / f"crashed_{self.rank}"
        if self.epoch == self.crash and batch == 10 and not mark.exists():
            mark.touch()
            self._note(f"kills itself in epoch {self.epoch + 1}")
            os.kill(os.getpid(), signal.SIGKILL)

    def on_train_end(self, logs: Any = None) -> None:
        # Here and not after `fit`: the backup is removed after this, so a crash before the
        # weights are saved loses nothing.
        np.savez(self.folder / f"final_{self.rank}.npz", *self.model.get_weights())
        self._note(f"ends, with an accuracy of {logs['accuracy']:.3f}")

    def _note(self, text: str) -> None:
        with (self.folder / "notes.txt").open("a") as file:
            file.write(f"worker {self.rank} {text}\n")


def run(
    folder: pathlib.Path, epochs: int, crashes: dict[int, int]
) -> list[list[bytes]]:
    """Trains with Ray, prints what the workers noted, and returns their final weights.

    Args:
        folder: Where the workers write.
        epochs: Number of epochs.
        crashes: The epoch in which a worker kills itself, by its number.
    """
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.tensorflow import TensorflowTrainer

    folder.mkdir()
    trainer = TensorflowTrainer(
        train,
        train_loop_config={
            "folder": str(folder),
            "epochs": epochs,
            "crashes": crashes,
        },
        # Workers that claim all CPUs leave none to Ray's other tasks.
        scaling_config=ScalingConfig(num_workers=2, resources_per_worker={"CPU": 0.5}),
        run_config=RunConfig(
            storage_path=str(folder), failure_config=FailureConfig(max_failures=2)
        ),
    )
    start = time.perf_counter()
    trainer.fit()
    print(f"trained in {time.perf_counter() - start:.1f} s:")
    print((folder / "notes.txt").read_text(), flush=True)
    weights = []
    for rank in range(2):
        with np.load(folder / f"final_{rank}.npz") as saved:
            weights.append([saved[name].tobytes() for name in saved.files])
    return weights


def main() -> None:
    """Trains once or twice, and compares the weights."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--crash", action="store_true", help="train again with crashes")
    parser.add_argument("--quick", action="store_true", help="three epochs")
    options = parser.parse_args()
    if options.quick:
        options.epochs = 3

    start_ray(store=80)
    checks = {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        weights = run(folder / "whole", options.epochs, {})
        checks["both workers end with the same weights"] = weights[0] == weights[1]
        if options.crash:
            # The first worker in the second epoch, and the other one in the last.
            crashes = {0: 1, 1: options.epochs - 1}
            again = run(folder / "crashes", options.epochs, crashes)
            marks = [folder / "crashes" / f"crashed_{rank}" for rank in crashes]
            checks["each worker crashed once"] = all(mark.exists() for mark in marks)
            notes = (folder / "crashes" / "notes.txt").read_text()
            checks["went on with the epoch of the crash"] = all(
                f"worker {rank} starts with epoch {crash + 1}\n" in notes
                for crash in crashes.values()
                for rank in range(2)
            )
            checks["bitwise equal with crashes"] = again == weights
    for check, is_passed in checks.items():
        print(f"{check}: {'yes' if is_passed else 'NO'}")
    sys.exit(not all(checks.values()))


if __name__ == "__main__":
    main()
