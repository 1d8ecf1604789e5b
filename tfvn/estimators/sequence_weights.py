"""Weights that are sampled once and used in all steps of a sequence.

`Estimator.hold` samples them before the first step, and returns one of the classes below.
"""

from typing import Any

import keras
import tensorflow as tf

Tensor = Any


class HeldWeights:
    """One value of each weight, the same for all examples.

    Args:
        weights: The weights by name, in the precision of their posteriors.
        dtype: The type that the steps compute in.
        are_drawn: Whether they are a sample, which an estimate of the KL can reuse.
    """

    def __init__(self, weights: dict[str, Tensor], dtype: Any, are_drawn: bool = True):
        self.drawn = weights if are_drawn else {}
        # Cast once here, because otherwise each step would cast them again.
        self._weights = {name: tf.cast(w, dtype) for name, w in weights.items()}

    def weight(self, name: str) -> Tensor | None:
        """Returns a weight that all examples share, or `None` if there is none."""
        return self._weights.get(name)


class FlippedWeights:
    """Weights with noise signs for each example: `mean + delta * outer(r, s)`.

    Args:
        means: The means by name; zero-mean weights have none.
        deltas: One draw of the noise by name.
        row_signs: `r` by name: a sign for each example and row of a kernel.
        column_signs: `s`: a sign for each example and column, the same for all weights.
        dtype: The type that the steps compute in.
    """

    def __init__(
        self,
        means: dict[str, Tensor],
        deltas: dict[str, Tensor],
        row_signs: dict[str, Tensor],
        column_signs: Tensor,
        dtype: Any,
    ):
        self.drawn: dict[str, Tensor] = {}
        self._means = {name: tf.cast(mean, dtype) for name, mean in means.items()}
        self._deltas = {name: tf.cast(delta, dtype) for name, delta in deltas.items()}
        self._row_signs, self._column_signs = row_signs, column_signs

    def weight(self, name: str) -> None:
        """Returns `None`: every example has its own kernel."""

    def product(
        self, name: str, inputs: Tensor, columns: slice | None = None
    ) -> Tensor:
        """Returns each example times its kernel, or times some of its columns."""
        flipped = inputs * self._row_signs[name]
        noise = keras.ops.matmul(flipped, _columns(self._deltas[name], columns))
        noise *= _columns(self._column_signs, columns)
        if name not in self._means:
            return noise
        return keras.ops.matmul(inputs, _columns(self._means[name], columns)) + noise

    def bias(self) -> Tensor:
        """Returns the bias of each example; the axis of examples is the last but one."""
        noise = tf.expand_dims(self._deltas["bias"], -2) * self._column_signs
        if "bias" not in self._means:
            return noise
        return tf.expand_dims(self._means["bias"], -2) + noise


def _columns(matrix: Tensor, columns: slice | None) -> Tensor:
    return matrix if columns is None else matrix[:, columns]
