"""A run that is killed, and goes on as if it had not been."""

import json
import os
import pathlib
from typing import Any

import keras
import numpy as np

from tfvn.training.data_order import DataOrder


class BackupAndRestore(keras.callbacks.Callback):
    """Saves the state of a run after every epoch, and resumes from it.

    `fit` with the same arguments goes on after the last epoch that was saved, to the same
    weights as a run that was never interrupted: the state of the optimizer, the step of
    every schedule, the noise stream of every layer and, for arrays, the order of the data
    are restored too. (`keras.callbacks.BackupAndRestore` restores neither noise nor
    order.) A `tf.data.Dataset` keeps its own order: shuffle it with a seed and with
    `reshuffle_each_iteration=False`.

    A backup is a single file that appears whole or not at all. It is removed when
    training ends.

    Args:
        backup_dir: Folder of the backup. One run, one folder.
        delete_checkpoint: Whether the backup is removed at the end.
        seed: Seed of the order of the data, where `fit` shuffles arrays.

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
        if not str(backup_dir):
            raise ValueError(
                "Argument `backup_dir` must be the path of a folder. "
                f"Received: backup_dir={backup_dir!r}"
            )
        self.backup_dir = pathlib.Path(backup_dir)
        self.delete_checkpoint = delete_checkpoint
        self.data_order = DataOrder(seed)

    @property
    def path(self) -> pathlib.Path:
        """The file of the backup."""
        return self.backup_dir / "backup.npz"

    def on_train_begin(self, logs: Any = None) -> None:
        if not self.model.optimizer.built:
            self.model.optimizer.build(self.model.trainable_variables)
        # Read by `fit`, as that of Keras's own callback is.
        self.model._initial_epoch = self._restore() if self.path.exists() else None  # noqa: SLF001

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.data_order.epoch.assign(epoch)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.backup_dir.mkdir(parents=True, exist_ok=True)
        arrays = {
            str(index): keras.ops.convert_to_numpy(variable)
            for index, variable in enumerate(self._variables())
        }
        partial = self.path.with_suffix(f".{os.getpid()}.partial")
        with partial.open("wb") as file:
            np.savez(file, epoch=epoch + 1, names=json.dumps(self._names()), **arrays)
            file.flush()
            os.fsync(file.fileno())
        # In one step: whoever looks sees the old backup or the new one.
        partial.replace(self.path)

    def on_train_end(self, logs: Any = None) -> None:
        self.model._initial_epoch = None  # noqa: SLF001
        if self.delete_checkpoint:
            self.path.unlink(missing_ok=True)

    def _variables(self) -> list[keras.Variable]:
        # `model.variables` includes the states of all seed generators.
        return [*self.model.variables, *self.model.optimizer.variables]

    def _names(self) -> list[str]:
        return [variable.path for variable in self._variables()]

    def _restore(self) -> int:
        with np.load(self.path) as saved:
            variables = self._variables()
            names = json.loads(str(saved["names"]))
            shapes = [tuple(saved[str(index)].shape) for index in range(len(names))]
            if shapes != [tuple(variable.shape) for variable in variables]:
                raise ValueError(
                    "The backup is of another model or optimizer; choose another "
                    "`backup_dir`, or remove the file. "
                    f"Received: backup={str(self.path)!r} with {len(names)} variables, "
                    f"for a model with {len(variables)}"
                )
            for index, variable in enumerate(variables):
                variable.assign(saved[str(index)])
            return int(saved["epoch"])
