"""Positive factors of low rank that are nearest to a matrix."""

from typing import Any

import numpy as np

from tfvn.utils.validation import check_count

# A factor stays above this fraction of a typical one, because its logarithm is trained.
_SMALLEST_FACTOR = 1e-2

# Iterations end when the error falls by less than this fraction, or after so many.
_TOLERANCE = 1e-5
_ITERATIONS = 200


def nearest_factors(scales: Any, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns positive factors whose product is nearest to a positive matrix.

    The sum of squared differences between the matrix and `left @ right.T` is minimized over
    one column of a factor after the other (hierarchical alternating least squares), from
    the positive parts of the leading singular vectors. For rank 1 the result is the global
    minimum; for higher ranks a local one.

    Args:
        scales: Matrix of positive numbers, of shape `(rows, columns)`.
        rank: Number of columns of each factor, from 1 to `min(rows, columns)`.

    Returns:
        The factors, of shapes `(rows, rank)` and `(columns, rank)`. Each column has the same
        norm in both.

    Example:

    >>> import numpy as np
    >>> from tfvn.analysis.factors import nearest_factors
    >>> scales = np.outer([1.0, 2.0, 4.0], [0.5, 1.0])
    >>> left, right = nearest_factors(scales, rank=1)
    >>> bool(np.allclose(left @ right.T, scales))
    True

    Reference:

    - [Boutsidis and Gallopoulos, 2008](https://doi.org/10.1016/j.patcog.2007.09.010),
      for the start
    - [Cichocki and Phan, 2009](https://doi.org/10.1587/transfun.E92.A.708), algorithm 2
    """
    matrix = np.asarray(scales, "float64")
    if matrix.ndim != 2 or not np.all(matrix > 0) or not np.all(np.isfinite(matrix)):
        raise ValueError(
            "Argument `scales` must be a matrix of positive finite numbers. "
            f"Received: scales of shape {matrix.shape} with smallest value "
            f"{matrix.min() if matrix.size else None}"
        )
    rank = check_count("rank", rank)
    if rank > min(matrix.shape):
        raise ValueError(
            f"Argument `rank` must be at most {min(matrix.shape)} for a matrix of shape "
            f"{matrix.shape}. Received: rank={rank}"
        )
    # The algorithm knows no units.
    unit = matrix.mean()
    left, right = _descend(matrix / unit, *_start(matrix / unit, rank))
    return left * np.sqrt(unit), right * np.sqrt(unit)


def _start(matrix: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the positive parts of the leading singular vectors."""
    left, values, right = _leading_singular_vectors(matrix, rank)
    factors = []
    for u, value, v in zip(left.T, values, right.T, strict=True):
        # Of each pair of vectors, the signs whose part of the product is the larger.
        parts = [(np.maximum(s * u, 0), np.maximum(s * v, 0)) for s in (1, -1)]
        norms = [np.linalg.norm(a) * np.linalg.norm(b) for a, b in parts]
        a, b = parts[int(np.argmax(norms))]
        norm = max(max(norms), 1e-12)
        factors.append(
            [np.sqrt(value * norm) * x / max(np.linalg.norm(x), 1e-12) for x in (a, b)]
        )
    floor = _floor(rank)
    starts = [
        np.maximum(np.stack(side, 1), floor) for side in zip(*factors, strict=True)
    ]
    return starts[0], starts[1]


def _leading_singular_vectors(
    matrix: np.ndarray, rank: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns approximations, by iterations on a few more vectors than are needed."""
    count = min(rank + 8, *matrix.shape)
    basis = np.random.default_rng(0).normal(size=(matrix.shape[1], count))
    for _ in range(6):
        basis, _ = np.linalg.qr(matrix.T @ np.linalg.qr(matrix @ basis)[0])
    left, values, small = np.linalg.svd(matrix @ basis, full_matrices=False)
    return left[:, :rank], values[:rank], (basis @ small.T)[:, :rank]


def _descend(
    matrix: np.ndarray, left: np.ndarray, right: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    total = np.sum(np.square(matrix))
    before = np.inf
    for _ in range(_ITERATIONS):
        _update(left, matrix @ right, right.T @ right)
        product = matrix.T @ left
        _update(right, product, left.T @ left)
        # |A - LR'|^2 = |A|^2 - 2 <A'L, R> + <L'L, R'R>
        inner, squares = np.sum(product * right), (left.T @ left) * (right.T @ right)
        error = total - 2 * inner + np.sum(squares)
        if error >= before * (1 - _TOLERANCE):
            break
        before = error
    ratio = np.sqrt(np.linalg.norm(right, axis=0) / np.linalg.norm(left, axis=0))
    return left * ratio, right / ratio


def _update(factor: np.ndarray, product: np.ndarray, gram: np.ndarray) -> None:
    """Sets each column of a factor to its best positive values, given all the others."""
    floor = _floor(factor.shape[1])
    for k in range(factor.shape[1]):
        others = factor @ gram[:, k] - factor[:, k] * gram[k, k]
        factor[:, k] = np.maximum((product[:, k] - others) / gram[k, k], floor)


def _floor(rank: int) -> float:
    # For a matrix of ones, a typical factor is the square root of one over the rank.
    return _SMALLEST_FACTOR / np.sqrt(rank)
