"""The nearest positive factors of a matrix of scales."""

import numpy as np
import pytest

from tfvn.analysis.factors import nearest_factors


def positive(rows, columns, seed=0):
    return np.random.default_rng(seed).lognormal(size=(rows, columns))


def error(matrix, factors):
    left, right = factors
    return np.sum(np.square(matrix - left @ right.T))


@pytest.mark.parametrize("shape", [(7, 5), (5, 7), (1, 4), (30, 200)])
def test_rank_one_is_the_leading_singular_vector(shape):
    matrix = positive(*shape)
    values = np.linalg.svd(matrix, compute_uv=False)
    found = error(matrix, nearest_factors(matrix, 1))
    np.testing.assert_allclose(found, np.sum(values[1:] ** 2), rtol=1e-3, atol=1e-12)


def test_recovers_a_product_of_positive_factors():
    # Each column has rows of its own, so that the factors are unique.
    left, right = positive(9, 2), positive(6, 2, seed=1)
    left[:3, 0] = left[3:6, 1] = right[:2, 1] = right[2:4, 0] = 1e-3
    matrix = left @ right.T
    found = nearest_factors(matrix, 2)
    np.testing.assert_allclose(found[0] @ found[1].T, matrix, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("rank", [2, 3, 5])
def test_error_is_between_that_of_singular_vectors_and_that_of_a_lower_rank(rank):
    matrix = positive(40, 12)
    values = np.linalg.svd(matrix, compute_uv=False)
    found = error(matrix, nearest_factors(matrix, rank))
    assert np.sum(values[rank:] ** 2) <= found * (1 + 1e-9)
    assert found < error(matrix, nearest_factors(matrix, rank - 1))


@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e6])
def test_is_positive_and_balanced_in_all_units(unit):
    matrix = positive(8, 6)
    left, right = nearest_factors(unit * matrix, 3)
    assert (left > 0).all()
    assert (right > 0).all()
    norms = [np.linalg.norm(side, axis=0) for side in (left, right)]
    np.testing.assert_allclose(*norms, rtol=1e-6)
    expected = error(matrix, nearest_factors(matrix, 3))
    np.testing.assert_allclose(
        error(unit * matrix, (left, right)) / unit**2, expected, rtol=1e-3
    )


@pytest.mark.parametrize(
    ("scales", "rank", "words"),
    [
        (np.zeros((2, 2)), 1, "positive finite numbers"),
        (np.ones(3), 1, "positive finite numbers"),
        (np.full((2, 2), np.nan), 1, "positive finite numbers"),
        (np.ones((2, 3)), 3, "at most 2"),
        (np.ones((2, 3)), 0, "at least 1"),
    ],
)
def test_refuses_what_has_no_factors(scales, rank, words):
    with pytest.raises(ValueError, match=words):
        nearest_factors(scales, rank)
