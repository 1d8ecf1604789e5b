"""The Gauss-Newton matrix of a dense last layer, and its eigenvalues.

For an example with features `phi` (the inputs of the layer and, for the bias, a 1), the
matrix is `outer(phi, phi) (x) H`, where `H` is the Hessian of the negative log-likelihood
with respect to the outputs of the layer. For all likelihoods here that is the Fisher
information too. Weights are in the order of the kernel's rows. Everything is in float64.
"""

import dataclasses
from typing import Any

import numpy as np

Array = np.ndarray


@dataclasses.dataclass(frozen=True)
class OutputHessians:
    """The Hessians of some examples, `diag(diagonal) - outer(vector, vector)` each.

    Args:
        diagonal: Array of shape `(examples, outputs)`.
        vector: Array of the same shape, or `None` for zeros.
    """

    diagonal: Array
    vector: Array | None = None

    def entry(self, row: int, column: int) -> Array:
        """Returns one entry of the Hessian of each example."""
        entry = self.diagonal[:, row] if row == column else 0.0
        if self.vector is not None:
            entry = entry - self.vector[:, row] * self.vector[:, column]
        return np.broadcast_to(entry, len(self.diagonal))


@dataclasses.dataclass(frozen=True)
class Spectrum:
    """A matrix with the eigenvectors `left (x) right`.

    Attributes:
        values: The eigenvalues, of shape `(rows of left, rows of right)`.
        left: Orthogonal matrix, or `None` for the identity.
        right: Likewise.
    """

    values: Array
    left: Array | None = None
    right: Array | None = None


class KroneckerCurvature:
    """The sum over examples, approximated by one Kronecker product.

    `A (x) B` with `A`, the sum of `outer(phi, phi)`, and `B`, the mean of `H`, both weighted
    by the sample weights. It is exact for one example, and if all examples have the same
    `H` or the same `phi`.

    Args:
        rows: Number of features, with that of the bias.
        columns: Number of outputs.
    """

    def __init__(self, rows: int, columns: int):
        self.left = np.zeros((rows, rows))
        self._right = np.zeros((columns, columns))
        self._total = 0.0

    @property
    def right(self) -> Array:
        """The mean of the Hessians."""
        return self._right / (self._total or 1.0)

    def add(self, features: Array, hessians: OutputHessians, weights: Array) -> None:
        """Adds some examples."""
        self.left += (weights[:, None] * features).T @ features
        self._right += np.diag(weights @ hessians.diagonal)
        if hessians.vector is not None:
            vector = hessians.vector
            self._right -= (weights[:, None] * vector).T @ vector
        self._total += weights.sum()

    def spectrum(self) -> Spectrum:
        """Returns the eigenvalues and eigenvectors."""
        left, left_vectors = _eigen(self.left)
        right, right_vectors = _eigen(self.right)
        return Spectrum(np.outer(left, right), left_vectors, right_vectors)


class DiagonalCurvature:
    """The diagonal of the sum over examples.

    Args:
        rows: Number of features, with that of the bias.
        columns: Number of outputs.
    """

    def __init__(self, rows: int, columns: int):
        self.diagonal = np.zeros((rows, columns))

    def add(self, features: Array, hessians: OutputHessians, weights: Array) -> None:
        """Adds some examples."""
        diagonal = hessians.diagonal
        if hessians.vector is not None:
            diagonal = diagonal - np.square(hessians.vector)
        self.diagonal += (weights[:, None] * np.square(features)).T @ diagonal

    def spectrum(self) -> Spectrum:
        """Returns the diagonal."""
        return Spectrum(self.diagonal)


class FullCurvature:
    """The whole sum over examples.

    Args:
        rows: Number of features, with that of the bias.
        columns: Number of outputs.
    """

    def __init__(self, rows: int, columns: int):
        self._blocks = np.zeros((rows, columns, rows, columns))

    @property
    def matrix(self) -> Array:
        """The matrix, with a row and a column for each weight."""
        size = self._blocks.shape[0] * self._blocks.shape[1]
        return self._blocks.reshape(size, size)

    def add(self, features: Array, hessians: OutputHessians, weights: Array) -> None:
        """Adds some examples."""
        columns = self._blocks.shape[1]
        is_diagonal = hessians.vector is None
        for row in range(columns):
            for column in range(row, row + 1 if is_diagonal else columns):
                factor = weights * hessians.entry(row, column)
                block = (factor[:, None] * features).T @ features
                self._blocks[:, row, :, column] += block
                if row != column:
                    self._blocks[:, column, :, row] += block

    def spectrum(self) -> Spectrum:
        """Returns the eigenvalues and eigenvectors."""
        values, vectors = _eigen(self.matrix)
        return Spectrum(values[:, None], vectors, np.ones((1, 1)))


STRUCTURES: dict[str, Any] = {
    "kron": KroneckerCurvature,
    "diag": DiagonalCurvature,
    "full": FullCurvature,
}


def _eigen(matrix: Array) -> tuple[Array, Array]:
    values, vectors = np.linalg.eigh(matrix)
    # Below zero by rounding only.
    return np.maximum(values, 0.0), vectors
