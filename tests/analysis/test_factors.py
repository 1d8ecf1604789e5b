"""Matrices of low rank near a matrix of scales, against analytic and brute-force answers."""

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st

from tfvn.analysis.factors import low_rank_scales, nearest_factors


def random_scales(seed, rows=6, columns=5, spread=1.0):
    return 0.01 * np.exp(
        spread * np.random.default_rng(seed).normal(size=(rows, columns))
    )


def squared_error(scales, factors):
    left, right = factors
    return np.sum((scales - left @ right.T) ** 2)


def brute_force(scales, rank, starts=8):
    """The smallest squared error that a general optimizer finds from random starts."""
    rows, columns = scales.shape
    scales = scales / scales.mean()
    rng = np.random.default_rng(0)

    def loss(values):
        left, right = values[: rows * rank], values[rows * rank :]
        left, right = left.reshape(rows, rank), right.reshape(columns, rank)
        error = left @ right.T - scales
        return np.sum(error**2), 2 * np.append(error @ right, error.T @ left)

    found = [
        scipy.optimize.minimize(
            loss,
            rng.uniform(0.0, 2.0, size=(rows + columns) * rank),
            jac=True,
            method="L-BFGS-B",
            bounds=[(0.0, None)] * ((rows + columns) * rank),
            options={"maxiter": 2000, "ftol": 1e-10},
        ).fun
        for _ in range(starts)
    ]
    return min(found)


class TestNearestFactors:
    @pytest.mark.parametrize("shape", [(6, 5), (5, 6), (1, 4), (4, 1), (40, 3)])
    def test_rank_one_is_the_first_pair_of_singular_vectors(self, shape):
        scales = random_scales(1, *shape)
        left, right = nearest_factors(scales, 1)
        u, s, v = np.linalg.svd(scales)
        np.testing.assert_allclose(left @ right.T, s[0] * np.outer(u[:, 0], v[0]))

    @pytest.mark.parametrize("rank", [2, 3])
    @pytest.mark.parametrize("seed", range(4))
    def test_is_as_near_as_brute_force(self, rank, seed):
        scales = random_scales(seed)
        error = squared_error(scales, nearest_factors(scales, rank))
        best = brute_force(scales, rank) * scales.mean() ** 2
        lower = np.sum(np.linalg.svd(scales)[1][rank:] ** 2)
        assert lower <= best * (1 + 1e-9)
        # Factors of at least a thousandth of the typical one cost a little.
        assert error <= 1.02 * best + 1e-5 * np.sum(scales**2)

    @given(st.integers(0, 10_000), st.integers(2, 12), st.integers(2, 12))
    @settings(max_examples=20, deadline=None)
    def test_finds_scales_of_rank_two(self, seed, rows, columns):
        """A positive matrix of rank 2 always has positive factors."""
        rng = np.random.default_rng(seed)
        parts = (rng.uniform(0.2, 1.0, size=(n, 2)) for n in (rows, columns))
        left, right = parts
        scales = 0.05 * left @ right.T
        error = squared_error(scales, nearest_factors(scales, 2))
        assert error < 1e-5 * np.sum(scales**2)

    def test_factors_can_be_trained(self):
        """None is so small that its logarithm would never come back, and both are alike."""
        scales = np.full((30, 20), 1e-3)
        scales[:15, :10] = 0.3
        left, right = nearest_factors(scales, 2)
        assert min(left.min(), right.min()) > 1e-5
        sizes = (np.sqrt(np.mean(x**2, axis=0)) for x in (left, right))
        np.testing.assert_allclose(*sizes)

    def test_is_deterministic_and_scales_with_its_argument(self):
        scales = random_scales(5)
        before = scales.copy()
        first, second = (nearest_factors(scales, 2) for _ in range(2))
        np.testing.assert_array_equal(first[0], second[0])
        np.testing.assert_array_equal(scales, before)
        tiny = nearest_factors(1e-8 * scales, 2)
        np.testing.assert_allclose(tiny[0] @ tiny[1].T, 1e-8 * first[0] @ first[1].T)


class TestLowRankScales:
    def test_is_the_truncated_decomposition(self):
        rng = np.random.default_rng(0)
        scales = 0.1 + 0.01 * rng.uniform(size=(7, 4))
        near = low_rank_scales(scales, 2)
        assert np.linalg.matrix_rank(near) == 2
        # No matrix of rank 2 is nearer than by the other singular values.
        expected = np.sum(np.linalg.svd(scales)[1][2:] ** 2)
        assert np.sum((near - scales) ** 2) == pytest.approx(expected)

    @pytest.mark.parametrize("seed", range(5))
    def test_raising_negative_values_brings_them_nearer(self, seed):
        scales = random_scales(seed, 12, 8, spread=2.0)
        u, s, v = np.linalg.svd(scales, full_matrices=False)
        truncated = (u[:, :2] * s[:2]) @ v[:2]
        assert truncated.min() < 0
        near = low_rank_scales(scales, 2)
        smallest = 0.1 * scales.min()
        assert near.min() == pytest.approx(smallest)
        kept = truncated > smallest
        np.testing.assert_allclose(near[kept], truncated[kept])
        assert np.sum((near - scales) ** 2) < np.sum((truncated - scales) ** 2)

    def test_full_rank_changes_nothing(self):
        scales = random_scales(3)
        np.testing.assert_allclose(low_rank_scales(scales, 5), scales)


@pytest.mark.parametrize("function", [nearest_factors, low_rank_scales])
@pytest.mark.parametrize(
    ("scales", "rank", "words"),
    [
        (np.ones((3, 2)), 3, r"at most 2 .* Received: rank=3"),
        (np.ones((3, 2)), 0, "Received: rank=0"),
        (np.ones(3), 1, "must be a matrix"),
        (np.array([[1.0, 0.0]]), 1, "positive finite"),
        (np.array([[1.0, np.nan]]), 1, "positive finite"),
    ],
)
def test_refuses(function, scales, rank, words):
    with pytest.raises(ValueError, match=words):
        function(scales, rank)
