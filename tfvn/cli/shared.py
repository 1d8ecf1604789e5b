"""What commands share: one-line errors for mistakes of the user, and files."""

import contextlib
import pathlib
import warnings
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from _tfvn_command import CommandError
from tfvn.serving.saved_model import reason

_CAUSE = "Exception encountered:"
# The first bytes of .npy and .npz files.
_ARRAYS = (b"\x93NUMPY", b"PK")


@contextlib.contextmanager
def mistakes() -> Iterator[None]:
    """Turns errors about the user's paths, files and rows into one line."""
    try:
        yield
    except tf.errors.OpError as error:
        raise CommandError(reason(error)) from error
    except (OSError, ValueError) as error:
        raise CommandError(first_line(error)) from error


def first_line(error: Exception) -> str:
    """Returns the first line of an error's message, or its class if there is none."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def keras_model(path: pathlib.Path, compile: bool = False) -> keras.Model:
    """Loads a model that Keras saved, or raises an error of one sentence.

    Args:
        path: A `.keras` file.
        compile: Whether to compile the model as it was when it was saved.
    """
    try:
        with warnings.catch_warnings():
            # No command needs the state of an optimizer.
            warnings.filterwarnings("ignore", "Skipping variable loading for optimizer")
            return keras.saving.load_model(path, compile=compile)
    # Whatever Keras raises, the cause is the file.
    except Exception as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        # In Keras's message the cause comes after the layer's configuration.
        causes = [line for line in lines if line.startswith(_CAUSE)]
        cause = (causes[-1:] or lines)[0].removeprefix(_CAUSE).strip()
        raise ValueError(
            "The file must be a model that Keras saved, with layers of this library or of "
            f"Keras. Received: {str(path)!r}: {cause}"
        ) from error


def check_output(path: pathlib.Path | None) -> None:
    """Raises before the computation if its result could not be written."""
    if path is None:
        return
    if path.is_dir() or not path.parent.is_dir():
        raise CommandError(
            "`--output` must be a file in a directory that exists. "
            f"Received: --output {path}"
        )


def load_arrays(option: str, path: pathlib.Path) -> dict[str, Any]:
    """Returns the arrays of a file by name; that of a .npy file is called `""`.

    Args:
        option: The option that names the file, for the error message.
        path: The file.
    """
    wanted = (
        f"`{option}` must be a .npy or .npz file of numbers or strings, written by "
        "`numpy.save` or `numpy.savez` without pickled objects. Received: "
        f"{option} {path}"
    )
    try:
        # Opened here, because NumPy would not close a file that it cannot read.
        with path.open("rb") as file:
            # NumPy takes all other files for pickles, and tells how to load them.
            if not file.read(6).startswith(_ARRAYS):
                raise CommandError(f"{wanted}, which is none")
            file.seek(0)
            loaded = np.load(file)
            if isinstance(loaded, np.ndarray):
                return {"": loaded}
            arrays = dict(loaded)
    except (OSError, CommandError):
        raise
    # Whatever NumPy raises, the cause is the file.
    except Exception as error:
        raise CommandError(f"{wanted}: {first_line(error)}") from error
    if not arrays:
        raise CommandError(
            f"`{option}` must contain at least one array. Received: {option} {path} "
            "with none"
        )
    return arrays
