"""Cholesky's factors without a linear algebra library: for small matrices its threads cost more than they save, on a
busy machine fifty times more, and bits would depend on them.
"""

from __future__ import annotations

import numpy as np

from calibrant.kernels.loops.cholesky import factor, substitute


def is_positive(matrix: np.ndarray) -> bool:
    """Whether a symmetric matrix is positive definite, to rounding."""
    return bool(factor(np.array(matrix, np.float64, order="C")))


def solve_positive(matrix: np.ndarray, right: np.ndarray) -> np.ndarray | None:
    """x with matrix·x = right, or None where the matrix is not positive definite."""
    factored, x = np.array(matrix, np.float64, order="C"), np.array(right, np.float64)
    if not factor(factored):
        return None
    substitute(factored, x)
    return x
