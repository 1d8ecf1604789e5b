"""The geometry of a kernel, as posteriors and priors need to know it."""

import dataclasses
import math


@dataclasses.dataclass(frozen=True)
class KernelSpec:
    """A kernel's shape, and which of its axes belong to the output alone.

    Seen as a matrix, a kernel has a row for each entry of the axes that it shares
    with the input and a column for each entry of the others: a Dense kernel is
    `(m, n)`, a convolution's `(height * width * channels, filters)`.

    Args:
        shape: Shape of the kernel.
        output_axes: The axes of `shape` that only the output has.
    """

    shape: tuple[int, ...]
    output_axes: tuple[int, ...]

    @property
    def columns(self) -> int:
        """How many columns the kernel has as a matrix."""
        return math.prod(self.shape[axis] for axis in self.output_axes)

    @property
    def rows(self) -> int:
        """How many rows the kernel has as a matrix: the fan-in of an output."""
        return math.prod(self.shape) // self.columns
