"""A run that is killed goes on to the same weights as one that is not."""

import json
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
from backup_runs import MONITOR, OTHERS, Kill, Report, make_model, run, weights

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
    jit_compile=False,
)
folder, epochs = sys.argv[1], int(sys.argv[2])
backup = tfvn.callbacks.BackupAndRestore(folder + "/backup")
tell = keras.callbacks.LambdaCallback(
    on_epoch_begin=lambda epoch, logs: print(epoch, flush=True))
model.fit(x, y, batch_size=8, epochs=epochs, callbacks=[tell, backup], verbose=0)
np.savez(folder + "/final.npz", *model.get_weights(), *[
    v.numpy() for v in model.optimizer.variables])
"""
EPOCHS = 20


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


# Every start of the process takes TensorFlow seconds.
@pytest.mark.parametrize("times", [1, pytest.param(4, marks=pytest.mark.exhaustive)])
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
                for _ in range(generator.randint(1, 4)):
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


@pytest.mark.one_in(4)
@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("backup_first", [True, False], ids=["first", "last"])
def test_other_callbacks_go_on_where_they_were(data, tmp_path, other, backup_first):
    other, kill = OTHERS[other], 3
    whole, _ = run(tmp_path / "whole", data, other, backup_first)
    run(tmp_path / "parts", data, other, backup_first, kill)
    resumed, history = run(tmp_path / "parts", data, other, backup_first)
    assert history.epoch[0] == kill
    for one, other in zip(weights(whole), weights(resumed), strict=True):
        np.testing.assert_array_equal(one, other)
    assert not (tmp_path / "parts" / "backup.npz").exists()


def test_rate_that_depends_on_the_rate_before(data, tmp_path):
    def make():
        keras.utils.set_random_seed(1)
        model = tfvn.Sequential([keras.Input((3,)), tfvn.MeanFieldDense(3)])
        model.compile(keras.optimizers.Adam(0.1), "mse")
        return model

    def halve():
        return keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate / 2)

    # After the scheduler, where a backup at the beginning of an epoch would come too late.
    whole, _ = run(tmp_path / "whole", data, halve, backup_first=False, make=make)
    run(tmp_path / "parts", data, halve, backup_first=False, kill=3, make=make)
    resumed, _ = run(tmp_path / "parts", data, halve, backup_first=False, make=make)
    assert float(resumed.optimizer.learning_rate.numpy()) == np.float32(0.1 / 2**7)
    for one, other in zip(weights(whole), weights(resumed), strict=True):
        np.testing.assert_array_equal(one, other)


def test_run_that_was_stopped_is_over(data, tmp_path):
    """It is killed after the epoch in which it stopped, before the best weights are back."""
    stop = OTHERS["early_stopping"]
    whole, history = run(tmp_path / "whole", data, stop, backup_first=True)
    assert history.epoch == [0, 1, 2, 3, 4]
    run(tmp_path / "parts", data, stop, backup_first=True, kill="end")
    resumed, history = run(tmp_path / "parts", data, stop, backup_first=True)
    assert history.epoch == []
    for one, other in zip(weights(whole), weights(resumed), strict=True):
        np.testing.assert_array_equal(one, other)


def test_model_checkpoint_keeps_the_best(data, tmp_path):
    best = tmp_path / "best.weights.h5"

    def checkpoint():
        return keras.callbacks.ModelCheckpoint(
            best, save_best_only=True, save_weights_only=True, **MONITOR
        )

    run(tmp_path / "parts", data, checkpoint, backup_first=True, kill=3)
    written = best.read_bytes()
    run(tmp_path / "parts", data, checkpoint, backup_first=True)
    # No later epoch is better than the second.
    assert best.read_bytes() == written


def test_in_a_keras_model(data, tmp_path):
    def make():
        keras.utils.set_random_seed(1)
        layer = tfvn.MeanFieldDense(3, kl_weight=0.1)
        model = keras.Sequential([keras.Input((3,)), layer])
        model.compile(keras.optimizers.Adam(0.1), "mse")
        return model

    def fit(folder, kill=None):
        others = [
            Report(),
            OTHERS["plateau"](),
            *([] if kill is None else [Kill(kill)]),
        ]
        backup = tfvn.callbacks.BackupAndRestore(tmp_path / folder)
        backup.others = others[:2]
        model = make()
        model.fit(
            *data, epochs=7, callbacks=[*others, backup], verbose=0, shuffle=False
        )
        return model

    whole = fit("whole")
    with pytest.raises(KeyboardInterrupt):
        fit("parts", kill=3)
    resumed = fit("parts")
    for one, other in zip(weights(whole), weights(resumed), strict=True):
        np.testing.assert_array_equal(one, other)


def test_next_fit_starts_at_its_first_epoch(data, tmp_path):
    run(tmp_path, data, OTHERS["turns"], backup_first=True, kill=2)
    model, _ = run(tmp_path, data, OTHERS["turns"], backup_first=True, kill=4)
    history = model.fit(*data, epochs=1, verbose=0)
    assert history.epoch == [0]


def test_other_callbacks_than_in_the_backup(data, tmp_path):
    run(tmp_path, data, OTHERS["plateau"], backup_first=True, kill=2)
    with pytest.warns(UserWarning, match="EarlyStopping 1', 'ReduceLROnPlateau 1'"):
        run(tmp_path, data, OTHERS["early_stopping"], backup_first=True)


def write_old_backup(path, model, epoch):
    """Writes what version 0.1 wrote: variables, and nothing of the callbacks."""
    variables = [*model.variables, *model.optimizer.variables]
    arrays = {str(i): v.numpy() for i, v in enumerate(variables)}
    names = json.dumps([v.path for v in variables])
    path.parent.mkdir()
    np.savez(path, epoch=epoch, names=names, **arrays)


@pytest.mark.exhaustive
def test_backup_of_version_0_1(data, tmp_path):
    first, _ = run(tmp_path / "new", data, OTHERS["turns"], backup_first=True, kill=3)
    write_old_backup(tmp_path / "old" / "backup.npz", first, 3)
    resumed, history = run(tmp_path / "old", data, OTHERS["turns"], backup_first=True)
    assert history.epoch == [3, 4, 5, 6]
    whole, _ = run(tmp_path / "whole", data, OTHERS["turns"], backup_first=True)
    for one, other in zip(weights(whole), weights(resumed), strict=True):
        np.testing.assert_array_equal(one, other)


def test_batches_that_were_trained_on(data, tmp_path):
    turns = OTHERS["turns"]
    first, _ = run(tmp_path / "a", data, turns, backup_first=True, kill=3)
    resumed, _ = run(tmp_path / "a", data, turns, backup_first=True)
    steps = -(-len(data[0]) // 16)
    assert int(resumed.training_state.batches.numpy()) == 7 * steps
    # In version 0.1 the optimizer alone counted.
    write_old_backup(tmp_path / "old" / "backup.npz", first, 3)
    resumed, _ = run(tmp_path / "old", data, turns, backup_first=True)
    assert int(resumed.training_state.batches.numpy()) == 7 * steps
    assert int(resumed.training_state.size.numpy()) == len(data[0])


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
    with pytest.raises(
        ValueError, match=r"belongs to another model.*Received: backup="
    ):
        other.fit(*data, callbacks=[backup], verbose=0)


def test_order_is_another_in_every_epoch_and_the_same_in_every_run(data):
    x = np.arange(20.0, dtype="float32")

    def orders(seed):
        order = tfvn.training.data_order.DataOrder(seed)
        batches = order.batches((x, x), 6, len(x))
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


def test_rows_that_are_held_back_are_not_trained_on(tmp_path):
    x = np.arange(20.0, dtype="float32")[:, None]
    seen = {"train": [], "test": []}

    class Model(tfvn.Sequential):
        def train_step(self, data):
            seen["train"] += data[0][:, 0].numpy().tolist()
            return super().train_step(data)

        def test_step(self, data):
            seen["test"] += data[0][:, 0].numpy().tolist()
            return super().test_step(data)

    model = Model([keras.Input((1,)), tfvn.MeanFieldDense(1)])
    model.compile("sgd", "mse", run_eagerly=True)
    backup = tfvn.callbacks.BackupAndRestore(tmp_path)
    model.fit(x, x, 4, callbacks=[backup], validation_split=0.25, verbose=0)
    assert sorted(seen["train"]) == list(range(15)) != seen["train"]
    assert seen["test"] == list(range(15, 20))
    assert model._elbo.size == 15


def test_folder_must_be_named():
    with pytest.raises(ValueError, match=r"`backup_dir` must be.*Received"):
        tfvn.callbacks.BackupAndRestore("")
    assert tfvn.callbacks.BackupAndRestore(pathlib.Path("a")).path.name == "backup.npz"
