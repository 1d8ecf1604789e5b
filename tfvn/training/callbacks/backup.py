"""Saving the state of a run, so that it can resume after it was killed."""

import json
import os
import pathlib
import warnings
import zipfile
import zlib
from typing import Any, NamedTuple

import keras
import numpy as np

from tfvn.training.callbacks.run_state import (
    callback_states,
    decode,
    encode,
    restore_callbacks,
    variables_of_run,
)
from tfvn.training.data_order import DataOrder
from tfvn.training.workers import is_chief, of_all_workers
from tfvn.utils import private_training
from tfvn.utils.validation import check_path

# What reading a file raises that is not, or not all of, what `save` has written. Not
# among them is what the system says of a file that cannot be read: that can be mended.
_DAMAGED = (
    EOFError,
    KeyError,
    RuntimeError,  # of `zipfile`, which takes damage for a password or a new format
    TypeError,
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
)


class _Saved(NamedTuple):
    """The contents of a backup.

    Attributes:
        epoch: Number of finished epochs.
        names: Names of the variables.
        values: Their values.
        run: What is known about the run; empty in version 0.1.
        states: States of the other callbacks, by class name and position.
        mark: A number that differs for different contents, and is not 0.
    """

    epoch: int
    names: list[str]
    values: list[np.ndarray]
    run: dict[str, Any]
    states: dict[str, Any]
    mark: int


class BackupAndRestore(keras.callbacks.Callback):
    """Saves the state of a run after every epoch, and resumes from it.

    Run `fit` again with the same arguments: it continues after the last saved epoch, and
    ends at the same weights as a run that was never interrupted. For this, the callback also
    saves the state and the learning rates of the optimizer, the step of every schedule, the
    noise stream of every layer and, if the data are arrays, their order.
    (`keras.callbacks.BackupAndRestore` saves neither noise nor order.) It does not save the
    order of a `tf.data.Dataset`: shuffle it with a seed and with
    `reshuffle_each_iteration=False`.

    The state of the other callbacks of the run is saved too, whatever their order in the
    list: patience, best values and best weights of `EarlyStopping`, `ReduceLROnPlateau`,
    `ModelCheckpoint` and the callbacks of this library. The state of your own callback is
    saved if it has a method `get_state()`, which returns numbers, strings, arrays, or lists
    and dictionaries of them, and a method `set_state(state)`. In a stock `keras.Model`, list
    this callback last and set its attribute `others` to the list of the other callbacks,
    because Keras does not pass them.

    A backup is a single file, which is replaced in one step and so is never incomplete. If
    the disk has damaged it, the callback warns, and training starts over. The file is
    removed when training ends. As in Keras, the history of a resumed run starts with the
    first epoch after the backup.

    With several workers (`tfvn.multi_worker_strategy`), `backup_dir` must be a folder that
    all of them share. The chief writes the file, all restore it, and it is removed once all
    have finished. Other callbacks end before: what one of them saves in `on_train_end` is
    there before the backup is removed.

    Args:
        backup_dir: Folder of the backup. Use a separate folder for each run.
        delete_checkpoint: Whether to remove the backup at the end.
        seed: Seed of the order in which `fit` shuffles arrays.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> import tempfile
    >>> import tfvn
    >>> model = tfvn.Sequential([keras.Input((4,)), tfvn.MeanFieldDense(1)])
    >>> model.compile("adam", "mse")
    >>> x, y = np.ones((8, 4)), np.ones((8, 1))
    >>> backup = tfvn.callbacks.BackupAndRestore(tempfile.mkdtemp())
    >>> history = model.fit(x, y, epochs=2, callbacks=[backup], verbose=0)
    """

    def __init__(self, backup_dir: Any, delete_checkpoint: bool = True, seed: int = 0):
        super().__init__()
        self.backup_dir = check_path("backup_dir", backup_dir)
        self.delete_checkpoint = delete_checkpoint
        self.data_order = DataOrder(seed)
        # `tfvn.Model.fit` sets it; Keras does not pass the other callbacks to a callback.
        self.others: list[Any] = []

    @property
    def path(self) -> pathlib.Path:
        """The file of the backup."""
        return self.backup_dir / "backup.npz"

    def on_train_begin(self, logs: Any = None) -> None:
        saved = self._read()
        self._check_shared(saved)
        # `fit` reads this attribute, which Keras's own callback sets too.
        epoch = None if saved is None else self._restore(saved)
        private_training.set_initial_epoch(self.model, epoch)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        # `fit` has read it by now, and the next `fit` must not read it again.
        private_training.set_initial_epoch(self.model, None)
        self.data_order.epoch.assign(epoch)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.save(epoch + 1)

    def on_train_end(self, logs: Any = None) -> None:
        private_training.set_initial_epoch(self.model, None)
        strategy = self.model.distribute_strategy
        # Until all workers have finished, each of them may still need the backup. After
        # that, nobody goes on before it is gone, because the next `fit` would restore it.
        of_all_workers(strategy, 0)
        if self.delete_checkpoint and is_chief(strategy):
            self.path.unlink(missing_ok=True)
        of_all_workers(strategy, 0)

    def save(self, epochs: int) -> None:
        """Writes the backup; with several workers, the chief does, but all must call it.

        Args:
            epochs: Number of finished epochs.
        """
        variables = variables_of_run(self.model)
        arrays = {
            str(index): keras.ops.convert_to_numpy(variable)
            for index, variable in enumerate(variables)
        }
        run = {
            "stopped": bool(self.model.stop_training),
            "callbacks": encode(callback_states(self.others), arrays),
        }
        # Workers read some variables, such as the state of metrics, only together.
        if not is_chief(self.model.distribute_strategy):
            return
        self.backup_dir.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_suffix(f".{os.getpid()}.partial")
        with partial.open("wb") as file:
            np.savez(
                file,
                epoch=epochs,
                names=json.dumps([variable.path for variable in variables]),
                run=json.dumps(run),
                **arrays,
            )
            file.flush()
            os.fsync(file.fileno())
        # In one step, so that there is always either the old or the new backup.
        partial.replace(self.path)

    def _read(self) -> _Saved | None:
        """Returns the backup, or `None` if there is none that can be read."""
        if not self.path.exists():
            return None
        try:
            with self.path.open("rb") as file, np.load(file) as saved:
                names = json.loads(str(saved["names"]))
                # Version 0.1 did not save the callbacks.
                run = json.loads(str(saved["run"])) if "run" in saved else {}
                return _Saved(
                    epoch=int(saved["epoch"]),
                    names=names,
                    values=[saved[str(index)] for index in range(len(names))],
                    run=run,
                    states=decode(run["callbacks"], saved) if run else {},
                    mark=_mark_of(saved.zip),
                )
        except _DAMAGED as error:
            warnings.warn(
                "The backup is damaged and cannot be restored, so training starts from "
                f"the beginning. Received: backup={str(self.path)!r}, {error!r}",
                stacklevel=2,
            )
            return None

    def _check_shared(self, saved: _Saved | None) -> None:
        """Waits for all workers, and raises if they do not restore the same backup."""
        mark = 0 if saved is None else saved.mark
        marks = of_all_workers(self.model.distribute_strategy, mark)
        if len(set(marks)) > 1:
            raise ValueError(
                "With several workers, `backup_dir` must be a folder that all of them "
                f"share. Received: backup_dir={str(self.backup_dir)!r}, in which the "
                f"workers find these backups (0 is none): {marks}"
            )

    def _restore(self, saved: _Saved) -> int:
        self._restore_variables(saved.names, saved.values, is_old=not saved.run)
        run, epoch = saved.run, saved.epoch
        unmatched = restore_callbacks(self.others, saved.states)
        if unmatched:
            warnings.warn(
                "Some callbacks are only in the backup or only in this run; those of "
                "this run start without their earlier state. Received: "
                f"backup={str(self.path)!r}, callbacks={unmatched}",
                stacklevel=2,
            )
        if run.get("stopped"):
            # A callback had stopped the run, so no epoch is left to train.
            self.model.stop_training = True
            epoch = max(epoch, (self.params or {}).get("epochs", epoch))
        return epoch

    def _restore_variables(
        self, names: list[str], values: list[np.ndarray], is_old: bool
    ) -> None:
        variables = variables_of_run(self.model)
        # In version 0.1 only the optimizer counted the training batches.
        counts = getattr(self.model, "training_state_variables", [])
        if is_old:
            names, values = _without_weights_of_kl(names, values, variables)
            variables = [v for v in variables if not any(v is c for c in counts)]
        shapes = [tuple(value.shape) for value in values]
        if shapes != [tuple(variable.shape) for variable in variables]:
            raise ValueError(
                "The backup belongs to another model or optimizer; pass another "
                "`backup_dir`, or delete the file. Received: "
                f"backup={str(self.path)!r} with {len(names)} variables, for a model "
                f"with {len(variables)}"
            )
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)
        if is_old and counts:
            batches = self.model.training_state.batches
            batches.assign(keras.ops.cast(self.model.optimizer.iterations, "int64"))


def _mark_of(file: zipfile.ZipFile) -> int:
    """Returns a number that differs for different contents, and is not 0."""
    parts = [(part.filename, part.CRC) for part in file.infolist()]
    return 1 + zlib.crc32(repr(parts).encode())


def _without_weights_of_kl(
    names: list[str], values: list[np.ndarray], variables: list[keras.Variable]
) -> tuple[list[str], list[np.ndarray]]:
    """Returns what version 0.1 saved, without the KL weights if they are not variables now."""
    if any(variable.path.endswith("kl_weight") for variable in variables):
        return names, values
    kept = [i for i, name in enumerate(names) if not name.endswith("/kl_weight")]
    return [names[i] for i in kept], [values[i] for i in kept]
