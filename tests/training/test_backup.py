"""A run that is killed goes on to the same weights as one that is not."""

import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import keras
import numpy as np
import pytest

import tfvn

SCRIPT = """
import sys
import keras, numpy as np, tfvn

keras.utils.set_random_seed(3)
rng = np.random.default_rng(0)
x = rng.normal(size=(96, 4)).astype("float32")
y = rng.normal(size=(96, 2)).astype("float32")
model = tfvn.Sequential([
    keras.Input((4,)),
    tfvn.MeanFieldDense(16, activation="relu"),
    keras.layers.Dropout(0.2),
    tfvn.VarianceDense(8),
    tfvn.KTiedDense(2, estimator="weights"),
])
model.compile(
    {"mean": keras.optimizers.Adam(0.01), "scale": keras.optimizers.RMSprop(0.01)},
    "mse",
    kl_schedule=tfvn.schedules.LinearAnnealing(steps=60),
)
folder, epochs = sys.argv[1], int(sys.argv[2])
backup = tfvn.callbacks.BackupAndRestore(folder + "/backup")
tell = keras.callbacks.LambdaCallback(
    on_epoch_begin=lambda epoch, logs: print(epoch, flush=True))
model.fit(x, y, batch_size=8, epochs=epochs, callbacks=[tell, backup], verbose=0)
np.savez(folder + "/final.npz", *model.get_weights(), *[
    v.numpy() for v in model.optimizer.variables])
"""
EPOCHS = 60


def start(folder):
    folder.mkdir(exist_ok=True)
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(folder), str(EPOCHS)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
    )


def final(folder):
    with np.load(folder / "final.npz") as saved:
        return [saved[name] for name in saved.files]


# Every start of the process takes TensorFlow ten seconds.
@pytest.mark.parametrize("times", [3, pytest.param(10, marks=pytest.mark.exhaustive)])
def test_killed_at_random_moments(tmp_path, times):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    with start(whole) as process:
        assert process.wait(timeout=300) == 0
    generator = random.Random(0)
    kills = 0
    while not (killed / "final.npz").exists():
        with start(killed) as process:
            if kills < times:
                # In one of its first epochs: while it traces, trains or saves.
                for _ in range(generator.randint(1, 5)):
                    process.stdout.readline()
                time.sleep(generator.uniform(0.0, 0.1))
                process.send_signal(signal.SIGKILL)
                kills += 1
            process.wait(timeout=300)
    assert kills == times
    for one, other in zip(final(whole), final(killed), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    return rng.normal(size=(2, 24, 3)).astype("float32")


def make_model():
    keras.utils.set_random_seed(1)
    model = tfvn.Sequential([keras.Input((3,)), tfvn.MeanFieldDense(3)])
    model.compile({"mean": "adam", "scale": "adam"}, "mse")
    return model


def weights(model):
    return [v.numpy() for v in (*model.variables, *model.optimizer.variables)]


class Stop(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 2:
            raise KeyboardInterrupt


def test_interrupted(data, tmp_path):
    whole = make_model()
    backup = tfvn.callbacks.BackupAndRestore(tmp_path / "whole")
    whole.fit(*data, batch_size=8, epochs=4, callbacks=[backup], verbose=0)
    first = make_model()
    backup = tfvn.callbacks.BackupAndRestore(tmp_path / "parts")
    with pytest.raises(KeyboardInterrupt):
        first.fit(*data, batch_size=8, epochs=4, callbacks=[backup, Stop()], verbose=0)
    second = make_model()
    backup = tfvn.callbacks.BackupAndRestore(tmp_path / "parts")
    history = second.fit(*data, batch_size=8, epochs=4, callbacks=[backup], verbose=0)
    assert history.epoch == [2, 3]
    for one, other in zip(weights(whole), weights(second), strict=True):
        np.testing.assert_array_equal(one, other)
    assert not (tmp_path / "parts" / "backup.npz").exists()


def test_half_written_backup_is_not_loaded(data, tmp_path):
    (tmp_path / "backup.1234.partial").write_bytes(b"half of a")
    model = make_model()
    backup = tfvn.callbacks.BackupAndRestore(tmp_path)
    history = model.fit(*data, epochs=2, callbacks=[backup], verbose=0)
    assert history.epoch == [0, 1]


def test_backup_of_another_model(data, tmp_path):
    model = make_model()
    backup = tfvn.callbacks.BackupAndRestore(tmp_path, delete_checkpoint=False)
    model.fit(*data, callbacks=[backup], verbose=0)
    other = tfvn.Sequential([keras.Input((3,)), tfvn.KTiedDense(3)])
    other.compile("adam", "mse")
    with pytest.raises(ValueError, match=r"of another model.*Received: backup="):
        other.fit(*data, callbacks=[backup], verbose=0)


def test_order_is_another_in_every_epoch_and_the_same_in_every_run(data):
    x = np.arange(20.0, dtype="float32")

    def orders(seed):
        order = tfvn.training.data_order.DataOrder(seed)
        batches = order.batches((x, x), 6)
        seen = []
        for epoch in range(3):
            order.epoch.assign(epoch)
            seen.append(np.concatenate([a.numpy() for a, _ in batches]))
        return seen

    first, again, other = orders(1), orders(1), orders(2)
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first[0], first[1])
    assert not np.array_equal(first[0], other[0])
    np.testing.assert_array_equal(np.sort(first[2]), x)


def test_folder_must_be_named():
    with pytest.raises(ValueError, match=r"`backup_dir` must be.*Received"):
        tfvn.callbacks.BackupAndRestore("")
    assert tfvn.callbacks.BackupAndRestore(pathlib.Path("a")).path.name == "backup.npz"
