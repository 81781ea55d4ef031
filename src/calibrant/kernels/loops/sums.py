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
def _add_limbs(cell, x):
    scaled = x * 1048576.0
    h = np.rint(scaled)
    cell[0] += np.int64(h)
    cell[1] += np.int64(np.rint((scaled - h) * 1099511627776.0))


@kernel()
def bin_limbs(p, y, w, bins, limbs, rows, spread):
    """Add each row's terms to limbs[bin, term, :]; weights are below 2, at most 2²⁰ rows a call."""
    for i in range(p.size):
        cell = limbs[bins[i]]
        weight = w[i] if w.size else 1.0
        rows[bins[i]] += 1
        _add_limbs(cell[0], weight)
        _add_limbs(cell[1], weight * p[i])
        _add_limbs(cell[2], weight * y[i])
        if spread:
            d = y[i] - p[i]
            square = weight * weight
            _add_limbs(cell[3], square)
            _add_limbs(cell[4], square * d)
            _add_limbs(cell[5], square * d * d)


@kernel()
def group_limbs(x, groups, limbs):
    """Add each x to limbs[group, :] and count the values that are too large; at most 2²⁰ values a call."""
    left = 0
    for i in range(x.size):
        if abs(x[i]) < LIMIT:
            _add_limbs(limbs[groups[i]], x[i])
        else:
            left += 1
    return left
