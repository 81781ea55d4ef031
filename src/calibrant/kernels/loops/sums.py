"""Sums as integers: each value becomes two 64-bit limbs, and integer addition does not care about order."""

import numpy as np

from calibrant.kernels.jit import kernel

LIMIT = 4194304.0
"""2²²: values at or beyond it (and NaN) are counted and left to the caller."""


@kernel()
def limbs(x):
    """Σ rint(x·2²⁰), Σ rint(rest·2⁴⁰) and how many values were left out; at most 2²⁰ values."""
    high = np.int64(0)
    low = np.int64(0)
    left = np.int64(0)
    for i in range(x.size):
        inside = abs(x[i]) < LIMIT
        scaled = (x[i] if inside else 0.0) * 1048576.0
        h = np.rint(scaled)
        high += np.int64(h)
        low += np.int64(np.rint((scaled - h) * 1099511627776.0))
        left += not inside
    return high, low, left


# Terms of a binned sum: w, wp, wy, and with d = y − p also w², w²d, w²d².
TERMS = 6


@kernel()
def _add_term(limbs, b, term, x):
    scaled = x * 1048576.0
    h = np.rint(scaled)
    limbs[b, term, 0] += np.int64(h)
    limbs[b, term, 1] += np.int64(np.rint((scaled - h) * 1099511627776.0))


@kernel()
def bin_limbs(p, y, w, bins, limbs, rows, spread):
    """Add each row's terms to limbs[bin, term, :]; weights are below 2, at most 2²⁰ rows a call.

    Without weights Σw and Σw² are the numbers of rows, and their limbs stay 0.
    """
    for i in range(p.size):
        b = bins[i]
        weight = w[i] if w.size else 1.0
        rows[b] += 1
        _add_term(limbs, b, 1, weight * p[i])
        _add_term(limbs, b, 2, weight * y[i])
        if w.size:
            _add_term(limbs, b, 0, weight)
        if spread:
            d = y[i] - p[i]
            square = weight * weight
            if w.size:
                _add_term(limbs, b, 3, square)
            _add_term(limbs, b, 4, square * d)
            _add_term(limbs, b, 5, square * d * d)


@kernel()
def group_limbs(x, groups, limbs):
    """Add each x to limbs[group, 0, :] and count the values that are too large; at most 2²⁰ values a call."""
    left = 0
    for i in range(x.size):
        if abs(x[i]) < LIMIT:
            _add_term(limbs, groups[i], 0, x[i])
        else:
            left += 1
    return left
