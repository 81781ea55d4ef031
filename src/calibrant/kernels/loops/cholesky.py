"""Solving with a positive definite matrix: a few hundred rows at most, many times over."""

import numpy as np

from calibrant.kernels.jit import SUMS, kernel


@kernel(fastmath=SUMS)
def _dot(a, i, j, size):
    """Σ_{k < size} a[i, k]·a[j, k]."""
    total = 0.0
    for k in range(size):
        total += a[i, k] * a[j, k]
    return total


@kernel()
def factor(a):
    """Turn the lower half of a into L with L·Lᵀ = a; whether a was positive definite."""
    for i in range(a.shape[0]):
        for j in range(i):
            a[i, j] = (a[i, j] - _dot(a, i, j, j)) / a[j, j]
        rest = a[i, i] - _dot(a, i, i, i)
        if not rest > 0.0:
            return False
        a[i, i] = np.sqrt(rest)
    return True


@kernel()
def substitute(factored, x):
    """Turn x into the solution of L·Lᵀ·solution = x."""
    n = x.size
    for i in range(n):
        for k in range(i):
            x[i] -= factored[i, k] * x[k]
        x[i] /= factored[i, i]
    for i in range(n - 1, -1, -1):
        for k in range(i + 1, n):
            x[i] -= factored[k, i] * x[k]
        x[i] /= factored[i, i]
