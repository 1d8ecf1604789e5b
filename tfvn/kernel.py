"""The geometry of a kernel, and the linear op that applies it.

Posteriors, priors and estimators need to know only this of a layer.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

Tensor = Any


@dataclasses.dataclass(frozen=True)
class KernelSpec:
    """The shape of a kernel, and which of its axes only the output has.

    As a matrix, a kernel has a row for each entry of the axes that it shares with the
    input, and a column for each entry of the others: the kernel of a `Dense` is `(m, n)`,
    that of a convolution `(height * width * channels, filters)`.

    Args:
        shape: Shape of the kernel.
        output_axes: The axes of `shape` that only the output has.
    """

    shape: tuple[int, ...]
    output_axes: tuple[int, ...]

    @property
    def input_axes(self) -> tuple[int, ...]:
        """The axes that the kernel shares with the input."""
        axes = range(len(self.shape))
        return tuple(axis for axis in axes if axis not in self.output_axes)

    @property
    def rows(self) -> int:
        """The number of rows of the kernel as a matrix: the fan-in of an output."""
        return math.prod(self.shape[axis] for axis in self.input_axes)

    @property
    def columns(self) -> int:
        """The number of columns of the kernel as a matrix."""
        return math.prod(self.shape[axis] for axis in self.output_axes)

    def from_matrix(self, matrix: Tensor) -> Tensor:
        """Returns a matrix of rows and columns in the shape of the kernel."""
        axes = self.input_axes + self.output_axes
        kernel = tf.reshape(matrix, [self.shape[axis] for axis in axes])
        if axes == tuple(range(len(axes))):
            return kernel
        return tf.transpose(kernel, [axes.index(axis) for axis in range(len(axes))])

    def to_matrix(self, values: Any) -> np.ndarray:
        """Returns a value for each weight as a matrix of rows and columns."""
        axes = self.input_axes + self.output_axes
        values = np.reshape(values, self.shape)
        return np.transpose(values, axes).reshape(self.rows, self.columns)

    def from_columns(self, values: Tensor) -> Tensor:
        """Returns a value per column in a shape that broadcasts to the kernel."""
        shape = [
            size if axis in self.output_axes else 1
            for axis, size in enumerate(self.shape)
        ]
        return tf.reshape(values, shape)


@dataclasses.dataclass(frozen=True)
class LinearOp:
    """Applies a kernel to inputs, in the precision of the inputs.

    Args:
        apply: `apply(inputs, kernel)`, linear in both.
        apply_factors: `apply_factors(inputs, left, right)`, the same for the kernel
            whose matrix is `left @ right`, without forming it.
        input_axes: The axes of the inputs that correspond to the kernel's rows, without
            those along which the kernel slides.
        output_axes: The axes of the outputs that correspond to the kernel's columns.
    """

    apply: Callable[[Tensor, Tensor], Tensor]
    apply_factors: Callable[[Tensor, Tensor, Tensor], Tensor]
    input_axes: tuple[int, ...] = ()
    output_axes: tuple[int, ...] = ()

    def __call__(self, inputs: Tensor, kernel: Tensor) -> Tensor:
        return self.apply(inputs, tf.cast(kernel, inputs.dtype))

    def factored(self, inputs: Tensor, left: Tensor, right: Tensor) -> Tensor:
        """Returns the output for the kernel whose matrix is `left @ right`."""
        dtype = inputs.dtype
        return self.apply_factors(inputs, tf.cast(left, dtype), tf.cast(right, dtype))
