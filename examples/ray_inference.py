"""Ensemble inference with Ray over more rows than fit into memory.

    pip install "tfvn[ray]"
    python examples/ray_inference.py                            # 100,000 rows
    python examples/ray_inference.py --rows 100000 --crash      # and again, while actors die
    python examples/ray_inference.py --quick                    # a check that it runs

Trains a classifier of digits, exports it, and writes noisy scans of digits to Parquet files.
Ray streams the files through actors. Each actor loads the export, which needs plain TensorFlow
only, and calls its signature `seeded` with seeds made of the ids of the rows. An answer then
depends on nothing but the row and its id: not on the actor, nor on the order of the files, nor
on whether an actor died and another one repeats its batches.

Checks that each id is answered once, as `tfvn.ensemble_predict` answers it with the same seeds.
With `--crash`, actors kill themselves in batches chosen at random, and the answers must be
the same in every bit as without. Ends with status 1 if a check fails.
"""

import argparse
import os
import pathlib
import sys
import tempfile
import time
from typing import Any

import numpy as np

from _tfvn_command import quiet_tensorflow

with quiet_tensorflow():
    import keras
    import tensorflow as tf

    import tfvn

SIZE = 24
# Larger than 32 bits, as ids often are.
FIRST_ID = 10**10
BATCH = 1000
FILE = 5 * BATCH
NUM_SAMPLES = 5


def seeds_of(ids: np.ndarray) -> np.ndarray:
    """Returns two 32-bit integers for each id, which differ if ids differ."""
    return np.asarray(ids, "int64").reshape(-1, 1).view("int32")


def tensors_of(batch: dict[str, np.ndarray]) -> dict[str, tf.Tensor]:
    """Returns the arguments of the signature `seeded` for a batch of rows."""
    # A column of lists arrives as an array of arrays.
    pixels = np.stack(batch["pixels"])
    return {
        "inputs": tf.constant(pixels.reshape(-1, SIZE, SIZE, 1), tf.float32),
        "seed": tf.constant(seeds_of(batch["id"])),
    }


class Ensemble:
    """What an actor does: it loads an export once, and answers batches of rows.

    Args:
        path: The folder of a version of an export.
    """

    def __init__(self, path: str):
        # Kept, because a signature does not keep the variables that it reads.
        self._loaded = tf.saved_model.load(path)

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        answer = self._loaded.signatures["seeded"](**tensors_of(batch))
        columns = {name: tensor.numpy() for name, tensor in answer.items()}
        return {"id": batch["id"], **columns}


class CrashingEnsemble(Ensemble):
    """An actor that dies in some batches, but only when they are tried for the first time.

    Args:
        path: The folder of a version of an export.
        deaths: A folder with an empty file for each death.
        share: The share of the batches in which an actor dies.
    """

    def __init__(self, path: str, deaths: str, share: float):
        super().__init__(path)
        self._deaths, self._share = pathlib.Path(deaths), share

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        first = int(batch["id"][0])
        death = self._deaths / str(first)
        if np.random.default_rng(first).random() < self._share and not death.exists():
            death.touch()
            os._exit(1)
        return super().__call__(batch)


def start_ray(store: int) -> None:
    """Starts Ray on this machine alone: no dashboard, no statistics, loopback only.

    Args:
        store: The size of the object store in MiB. Ray wants at least 75.
    """
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_DATA_LOG_LEVEL"] = "ERROR"
    # Whatever its name says, on Linux too this makes Ray's servers listen on loopback.
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    import ray

    ray.init(
        num_cpus=2,
        object_store_memory=store * 2**20,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
    )
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    # The newer reader of Parquet files first starts 32 actors, far too many for one machine.
    context.use_datasource_v2 = False


def predict_files(
    rows: pathlib.Path, answers: pathlib.Path, actor: type, *arguments: Any
) -> None:
    """Streams Parquet files through actors, and writes their answers to Parquet files.

    Each file is one block of rows for Ray, and the rows of a file are a multiple of `BATCH`.
    So every run has the same batches, and its answers are the same in every bit. Left alone,
    Ray cuts blocks and joins them in the order in which they arrive; then answers differ by
    rounding, in the seventh digit.
    """
    import ray

    files = len(list(rows.iterdir()))
    ray.data.read_parquet(str(rows), override_num_blocks=files).map_batches(
        actor,
        fn_constructor_args=arguments,
        batch_size=BATCH,
        compute=ray.data.ActorPoolStrategy(size=2),
        # Actors that claim all CPUs leave none to the tasks that read the files: Ray
        # would wait forever.
        num_cpus=0.5,
    ).write_parquet(str(answers))


def write_scans(folder: pathlib.Path, rows: int) -> None:
    """Writes noisy, enlarged digits to Parquet files, and never holds more than one."""
    import pyarrow as pa
    from pyarrow import parquet

    _, (digits, _) = tfvn.datasets.load("digits")
    folder.mkdir()
    for start in range(0, rows, FILE):
        ids = np.arange(start, min(start + FILE, rows))
        scale = SIZE // digits.shape[1]
        scans = digits[ids % len(digits)].repeat(scale, axis=1).repeat(scale, axis=2)
        noise = np.random.default_rng(start).normal(0, 0.3, scans.shape)
        pixels = (scans + noise).astype("float32").reshape(len(ids), -1)
        table = pa.table({"id": FIRST_ID + ids, "pixels": list(pixels)})
        parquet.write_table(table, folder / f"{start:09}.parquet")


def trained_model() -> keras.Model:
    """Returns a classifier of scans, trained on digits for a few seconds."""
    (x, y), _ = tfvn.datasets.load("digits")
    x = x.repeat(SIZE // x.shape[1], axis=1).repeat(SIZE // x.shape[2], axis=2)
    model = tfvn.Sequential(
        [
            keras.Input((SIZE, SIZE, 1)),
            keras.layers.AveragePooling2D(SIZE // 8),
            keras.layers.Flatten(),
            tfvn.VarianceDense(32, activation="relu"),
            tfvn.MeanFieldDense(10, activation="softmax"),
        ]
    )
    model.compile(keras.optimizers.Adam(1e-2), "sparse_categorical_crossentropy")
    model.fit(x, y, batch_size=64, epochs=5, verbose=0)
    return model


def table_of(folder: pathlib.Path) -> dict[str, np.ndarray]:
    """Returns the columns of all Parquet files of a folder, sorted by id."""
    from pyarrow import parquet

    table = parquet.read_table(folder).sort_by("id")
    columns = {
        name: table[name].to_numpy(zero_copy_only=False) for name in table.column_names
    }
    return {
        name: np.stack(column) if column.dtype == object else column
        for name, column in columns.items()
    }


def largest_difference(
    model: keras.Model, rows: pathlib.Path, answers: dict[str, np.ndarray]
) -> float:
    """Returns how far answers are from those of `ensemble_predict`, at most."""
    largest = 0.0
    for path in sorted(rows.iterdir()):
        batch = table_of(path)
        tensors = tensors_of(batch)
        expected = tfvn.ensemble_predict(
            model,
            tensors["inputs"].numpy(),
            NUM_SAMPLES,
            batch_size=BATCH,
            seed=tensors["seed"].numpy(),
            verbose=0,
        )
        start = np.searchsorted(answers["id"], batch["id"][0])
        for name in set(answers) - {"id"}:
            own = answers[name][start : start + len(batch["id"])]
            largest = max(largest, np.abs(own - getattr(expected, name)).max())
    return float(largest)


def main() -> None:
    """Predicts all rows once or twice, and checks the answers."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--store", type=int, default=80, help="MiB of Ray's store")
    parser.add_argument("--crash", action="store_true", help="kill actors at random")
    parser.add_argument(
        "--share", type=float, default=0.04, help="of batches that kill"
    )
    parser.add_argument("--quick", action="store_true", help="6,000 rows")
    options = parser.parse_args()
    if options.quick:
        options.rows = 6000

    keras.utils.set_random_seed(0)
    model = trained_model()
    checks = {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_scans(folder / "rows", options.rows)
        size = options.rows * SIZE * SIZE * 4 / 2**20
        print(
            f"{options.rows:,} rows, {size:.0f} MiB; object store {options.store} MiB"
        )
        path = str(tfvn.export_ensemble(model, folder / "export", NUM_SAMPLES))

        start_ray(options.store)
        start = time.perf_counter()
        predict_files(folder / "rows", folder / "answers", Ensemble, path)
        print(f"predicted in {time.perf_counter() - start:.1f} s", flush=True)
        answers = table_of(folder / "answers")
        ids = np.arange(FIRST_ID, FIRST_ID + options.rows)
        checks["each id once"] = np.array_equal(answers["id"], ids)

        if options.crash:
            deaths = folder / "deaths"
            deaths.mkdir()
            arguments = path, str(deaths), options.share
            start = time.perf_counter()
            predict_files(
                folder / "rows", folder / "again", CrashingEnsemble, *arguments
            )
            seconds, count = time.perf_counter() - start, len(list(deaths.iterdir()))
            print(f"predicted again in {seconds:.1f} s, while {count} actors died")
            again = table_of(folder / "again")
            checks["actors died"] = count > 0
            checks["each id once, with crashes"] = np.array_equal(again["id"], ids)
            checks["bitwise equal with crashes"] = (
                again.keys() == answers.keys()
                and all(
                    answers[name].tobytes() == again[name].tobytes() for name in answers
                )
            )

        largest = largest_difference(model, folder / "rows", answers)
        checks[f"as ensemble_predict: {largest:.1e} at most"] = largest <= 1e-5
    for check, is_passed in checks.items():
        print(f"{check}: {'yes' if is_passed else 'NO'}")
    sys.exit(not all(checks.values()))


if __name__ == "__main__":
    main()
