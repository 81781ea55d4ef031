"""Binomial numbers by the inverse of their distribution function, a table for each cell."""

import numpy as np

from calibrant.kernels.jit import kernel

MOST = 256
"""Entries of a table: cells whose variance is below 30 need no more beyond their mean."""


@kernel()
def _table(n, q, cdf):
    """P(X ≤ k) of n trials of q ≤ ½, for k = 0, 1, … until all but 1e-12 is reached; returns how many."""
    term = (1.0 - q) ** n
    total = term
    cdf[0] = total
    k = 0
    while total < 1.0 - 1e-12 and k < min(n, MOST - 1):
        term *= (n - k) / (k + 1.0) * q / (1.0 - q)
        k += 1
        total += term
        cdf[k] = total
    return k + 1


@kernel()
def binomial_counts(rows, p, skip, u):
    """u[r, k] becomes the smallest count whose distribution function exceeds it."""
    cdf = np.empty(MOST)
    for k in range(p.size):
        if skip[k]:
            continue
        flipped = p[k] > 0.5
        q = 1.0 - p[k] if flipped else p[k]
        size = _table(rows[k], q, cdf)
        for r in range(u.shape[0]):
            count = 0
            while count < size - 1 and u[r, k] >= cdf[count]:
                count += 1
            u[r, k] = rows[k] - count if flipped else count
