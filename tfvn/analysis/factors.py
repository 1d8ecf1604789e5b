"""Matrices of low rank near a matrix of standard deviations."""

import numpy as np

from tfvn.utils.validation import check_count

# The search for factors ends when an iteration lowers the squared error by less than this
# part of it, when the error is this small a part of the matrix, or after so many iterations.
_SMALLEST_GAIN = 1e-6
_SMALLEST_ERROR = 1e-20
_ITERATIONS = 1000

# The smallest value of a matrix of low rank, relative to the smallest scale.
_SMALLEST_SCALE = 0.1

# The smallest factor, relative to a typical one. Training moves the logarithms of the
# factors: one that is practically zero would stay there.
_SMALLEST_FACTOR = 1e-3


def low_rank_scales(scales: np.ndarray, rank: int) -> np.ndarray:
    """Returns the matrix of low rank nearest to a matrix of scales, kept positive.

    It is the truncated singular value decomposition. That may have negative values, so
    values below a tenth of the smallest scale are raised to it. As no scale is smaller, this
    brings such a value nearer to its scale.

    Args:
        scales: Matrix of positive standard deviations.
        rank: Rank, from 1 to the smaller side of the matrix.

    Example:

    >>> import numpy as np
    >>> from tfvn.analysis.factors import low_rank_scales
    >>> print(low_rank_scales([[1.0, 2.0], [2.0, 4.0]], rank=1).round(6))
    [[1. 2.]
     [2. 4.]]

    Reference:

    - [Swiatkowski et al., 2020](https://arxiv.org/abs/2002.02655), appendix E
    """
    scales, rank = _checked(scales, rank)
    left, singular, right = np.linalg.svd(scales, full_matrices=False)
    truncated = (left[:, :rank] * singular[:rank]) @ right[:rank]
    return np.maximum(truncated, _SMALLEST_SCALE * scales.min())


def nearest_factors(scales: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns positive factors whose product is near a matrix of scales.

    This is a non-negative matrix factorisation: it minimises the sum of squares of
    `scales - left @ right.T`. It starts from the truncated singular value decomposition and
    then fits the columns of both factors in turn (hierarchical alternating least squares).
    For rank 1 the result is the nearest matrix of that rank; for higher ranks it is a local
    minimum. Factors are at least a thousandth of a typical one, so that training can
    change them.

    Args:
        scales: Matrix of positive standard deviations, with `m` rows and `n` columns.
        rank: Number of columns of the factors, from 1 to `min(m, n)`.

    Returns:
        The factors `left`, of shape `(m, rank)`, and `right`, of shape `(n, rank)`.

    Example:

    >>> import numpy as np
    >>> from tfvn.analysis.factors import nearest_factors
    >>> left, right = nearest_factors([[1.0, 2.0], [2.0, 4.0]], rank=1)
    >>> print((left @ right.T).round(6))
    [[1. 2.]
     [2. 4.]]

    Reference:

    - [Cichocki et al., 2007](https://doi.org/10.1007/978-3-540-74494-8_22), for the updates
    - [Boutsidis and Gallopoulos, 2008](https://doi.org/10.1016/j.patcog.2007.09.010), for
      the start
    """
    scales, rank = _checked(scales, rank)
    smallest = _SMALLEST_FACTOR * np.sqrt(scales.mean() / rank)
    left, right = (np.maximum(part, smallest) for part in _start(scales, rank))
    total = np.sum(scales**2)
    error = np.inf
    for _ in range(_ITERATIONS):
        _fit_columns(scales, left, right, smallest)
        _fit_columns(scales.T, right, left, smallest)
        before, error = error, np.sum((scales - left @ right.T) ** 2)
        if before - error <= _SMALLEST_GAIN * error or error <= _SMALLEST_ERROR * total:
            break
    # Both sides get the same size, so that an optimizer moves both alike.
    ratio = np.sqrt(_root_mean_squares(right) / _root_mean_squares(left))
    return left * ratio, right / ratio


def _start(scales: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns factors without negative values, made from the singular vectors.

    The first pair of vectors has one sign, because all scales are positive. Of each further
    pair, the positive or the negative parts are taken, whichever have the larger product.
    """
    left, singular, right = _leading_singular_vectors(scales, rank)
    pairs = []
    for u, size, v in zip(left.T, singular, right, strict=True):
        parts = [(np.maximum(sign * u, 0), np.maximum(sign * v, 0)) for sign in (1, -1)]
        lengths = [tuple(map(np.linalg.norm, part)) for part in parts]
        best = int(np.argmax([np.prod(length) for length in lengths]))
        scale = np.sqrt(size * np.prod(lengths[best]))
        pairs.append(
            [
                scale * part / (length or 1.0)
                for part, length in zip(parts[best], lengths[best], strict=True)
            ]
        )
    first, second = zip(*pairs, strict=True)
    return np.stack(first, axis=1), np.stack(second, axis=1)


def _leading_singular_vectors(
    matrix: np.ndarray, rank: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns approximations of the first singular vectors and values.

    Iterations on a few more vectors than are needed are enough for a start, and take a
    fraction of the time of all singular vectors of a large matrix.
    """
    count = min(rank + 8, *matrix.shape)
    basis = np.random.default_rng(0).normal(size=(matrix.shape[1], count))
    for _ in range(6):
        basis, _ = np.linalg.qr(matrix.T @ np.linalg.qr(matrix @ basis)[0])
    left, singular, small = np.linalg.svd(matrix @ basis, full_matrices=False)
    return left[:, :rank], singular[:rank], (small @ basis.T)[:rank]


def _fit_columns(
    matrix: np.ndarray, factor: np.ndarray, other: np.ndarray, smallest: float
) -> None:
    """Changes each column of a factor to the best one, given all the rest."""
    gram, products = other.T @ other, matrix @ other
    for column in range(factor.shape[1]):
        step = (products[:, column] - factor @ gram[:, column]) / gram[column, column]
        factor[:, column] = np.maximum(factor[:, column] + step, smallest)


def _root_mean_squares(factor: np.ndarray) -> np.ndarray:
    return np.sqrt(np.mean(factor**2, axis=0))


def _checked(scales: np.ndarray, rank: int) -> tuple[np.ndarray, int]:
    scales = np.asarray(scales, "float64")
    if scales.ndim != 2 or not (np.isfinite(scales) & (scales > 0)).all():
        raise ValueError(
            "Argument `scales` must be a matrix of positive finite numbers. "
            f"Received: scales of shape {scales.shape}"
        )
    rank = check_count("rank", rank)
    if rank > min(scales.shape):
        raise ValueError(
            f"Argument `rank` must be at most {min(scales.shape)} for a matrix of "
            f"{scales.shape[0]} rows and {scales.shape[1]} columns. Received: rank={rank}"
        )
    return scales, rank
