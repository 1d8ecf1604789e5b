"""The argument `seed` of predictions: one integer, or two for each row."""

import random as python_random
from typing import Any

import numpy as np
import tensorflow as tf


def seed_pair(seed: int | None, or_rows: str = "") -> tf.Tensor:
    """Returns a seed as two integers of 32 bits; `None` is a fresh seed.

    Args:
        seed: The user's argument.
        or_rows: What else the caller takes, for the error message.
    """
    if seed is None:
        # The source that `keras.utils.set_random_seed` makes reproducible.
        seed = python_random.getrandbits(64)
    if not isinstance(seed, int | np.integer) or isinstance(seed, bool):
        raise ValueError(
            f"Argument `seed` must be an integer or `None`{or_rows}. "
            f"Received: seed={seed!r}"
        )
    if not -(2**63) <= seed < 2**64:
        raise ValueError(
            "Argument `seed` must fit into 64 bits, from -2**63 to 2**64 - 1, because "
            "any other integer would give the same draws as one of these. Received: "
            f"seed={seed!r}"
        )
    bits = np.array([int(seed) & 0xFFFFFFFF, int(seed) >> 32 & 0xFFFFFFFF], "uint32")
    return tf.constant(bits.view("int32"))


class RowSeeds:
    """Two integers for each row of some data.

    Args:
        seed: The user's argument: an array of shape `(rows, 2)`.

    Attributes:
        all: The integers, in an array of the type int32.
    """

    def __init__(self, seed: Any):
        try:
            seeds = np.asarray(seed)
        except ValueError:
            seeds = np.asarray(seed, object)  # lists of several lengths
        if seeds.ndim != 2 or seeds.shape[1] != 2 or seeds.dtype.kind not in "iu":
            raise ValueError(
                "Argument `seed` must be an integer, `None`, or an array of integers of "
                "shape `(rows, 2)`, two for each row of `x`. "
                f"Received: seed of shape {seeds.shape} and dtype {seeds.dtype}"
            )
        limits = np.iinfo("int32")
        if seeds.size and not limits.min <= seeds.min() <= seeds.max() <= limits.max:
            raise ValueError(
                "Argument `seed` must have integers that fit into 32 bits, from -2**31 "
                f"to 2**31 - 1. Received: seed with values from {seeds.min()} to "
                f"{seeds.max()}"
            )
        self.all, self._taken = seeds.astype("int32"), 0

    def take(self, rows: int) -> np.ndarray:
        """Returns the seeds of the next rows, at least one."""
        found = self.all[self._taken : self._taken + rows]
        self._taken += rows
        if len(found) < rows:
            self.check_count(self._taken)
        return found if rows else np.zeros([1, 2], "int32")

    def check_count(self, rows: int | None = None) -> None:
        """Raises unless the number of seeds is `rows`, or that of the rows taken so far."""
        rows = self._taken if rows is None else rows
        if len(self.all) != rows:
            raise ValueError(
                "Argument `seed` must have two integers for each row of `x`. "
                f"Received: seed of shape {self.all.shape} for {rows} rows"
            )


def is_by_row(seed: Any) -> bool:
    """Whether there is a seed for each row, rather than one for all."""
    return isinstance(seed, list | tuple) or bool(getattr(seed, "shape", ()))
