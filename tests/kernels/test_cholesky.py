"""Cholesky's factors against NumPy's solver and eigenvalues."""

import numpy as np
import pytest

from calibrant.kernels.cholesky import is_positive, solve_positive


@pytest.mark.parametrize("n", [0, 1, 2, 7, 60])
def test_solutions(n):
    rng = np.random.default_rng(n)
    half, right = rng.standard_normal((n, n + 3)), rng.standard_normal(n)
    matrix = half @ half.T
    kept = matrix.copy()
    np.testing.assert_allclose(solve_positive(matrix, right), np.linalg.solve(matrix, right), rtol=1e-7)
    np.testing.assert_array_equal(matrix, kept)


@pytest.mark.parametrize("n", [1, 2, 7, 60])
def test_positive_or_not_as_the_eigenvalues_say(n):
    rng = np.random.default_rng(n)
    half = rng.standard_normal((n, n))
    matrix = half + half.T
    lowest = np.linalg.eigvalsh(matrix)[0]
    for shift, positive in ((1e-6, True), (-1e-6, False)):
        moved = matrix + (shift - lowest) * np.eye(n)
        assert is_positive(moved) is positive
        assert (solve_positive(moved, np.ones(n)) is not None) is positive


def test_not_a_number_is_not_positive():
    assert not is_positive(np.array([[1.0, 0.0], [0.0, np.nan]]))
