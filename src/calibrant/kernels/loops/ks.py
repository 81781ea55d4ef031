"""Running sums of w(p − y) in the order of p, without sorting all rows: buckets of p, then those that matter.

Sums are integers of units of 2⁻⁴⁰. Beyond 64 bits they are held as high·2⁴⁰ + low with 0 ≤ low < 2⁴⁰.
"""

import numpy as np

from calibrant.kernels.jit import kernel

UNIT = 1099511627776.0
LOW = (1 << 40) - 1
NEVER, MIXED = -1.0, 2.0
"""In place of the one value of p that a bucket has seen."""


CHUNK = 1024
"""Rows whose buckets are found together, before anything is looked up in tables."""


@kernel()
def _find(p, base, split, found):
    """The bucket of each p: one of split[c] equal parts of the c-th coarse one, which begin at base[c]."""
    size = np.float64(split.size)
    for j in range(p.size):
        x = np.float64(p[j]) * size
        whole = min(np.floor(x), size - 1.0)
        c = np.uint32(np.int32(whole))  # unsigned, for a negative index would be looked for
        parts = np.float64(split[c])
        found[j] = base[c] + np.int32(min((x - whole) * parts, parts - 1.0))


@kernel()
def _differences(p, y, w, d):
    """w(p − y) as integers."""
    if w.size:
        for j in range(p.size):
            d[j] = np.int64(np.rint((np.float64(p[j]) - np.float64(y[j])) * w[j] * UNIT))
    else:
        for j in range(p.size):
            d[j] = np.int64(np.rint((np.float64(p[j]) - np.float64(y[j])) * UNIT))


@kernel()
def _add(found, d, p, sums, seen):
    for j in range(p.size):
        b = np.uint32(found[j])
        sums[b + b + np.uint32(d[j] < 0)] += abs(d[j])
        if seen[b] != p[j]:
            seen[b] = p[j] if seen[b] == NEVER else MIXED


@kernel()
def add_to_buckets(p, y, w, base, split, sums, seen, start, stop):
    """Add rows start … stop to sums[2·bucket]: what is positive, and to the next: what is negative; at most 2²¹ rows.

    seen: the one value of p in each bucket, or MIXED.
    """
    found, d = np.zeros(CHUNK, np.int32), np.zeros(CHUNK, np.int64)
    for a in range(start, stop, CHUNK):
        b = min(a + CHUNK, stop)
        _find(p[a:b], base, split, found)
        _differences(p[a:b], y[a:b], w[a:b], d)
        _add(found, d, p[a:b], sums, seen)


@kernel()
def settle(sums, high, low):
    """Move sums to high and low, so that more rows can be added."""
    for b in range(sums.size):
        low[b] += sums[b]
        high[b] += low[b] >> 40
        low[b] &= LOW
        sums[b] = 0


@kernel()
def _exceeds(high, low, best):
    """Raise best[:] to |high·2⁴⁰ + low|."""
    if high < 0:
        high, low = (-high, low) if low == 0 else (-high - 1, LOW + 1 - low)
    if high > best[0] or (high == best[0] and low > best[1]):
        best[0], best[1] = high, low


@kernel()
def bucket_ends(high, low, starts, best):
    """The running sum before each bucket, starts[bucket, :], and the largest at the end of one."""
    h, t = np.int64(0), np.int64(0)
    for b in range(len(starts)):
        starts[b, 0], starts[b, 1] = h, t
        t += low[2 * b] - low[2 * b + 1]
        h += high[2 * b] - high[2 * b + 1] + (t >> 40)
        t &= LOW
        _exceeds(h, t, best)


@kernel()
def mark_buckets(high, low, seen, starts, best, marks):
    """Mark the buckets of several values inside which the running sum may exceed the best, to rounding.

    It rises by at most what is positive in them, and falls by at most what is negative.
    """
    reached = (best[0] + best[1] / UNIT) * (1.0 - 1e-14) - 1e-11
    for b in range(len(starts)):
        before = starts[b, 0] + starts[b, 1] / UNIT
        up = before + (high[2 * b] + low[2 * b] / UNIT)
        down = high[2 * b + 1] + low[2 * b + 1] / UNIT - before
        marks[b] = seen[b] == MIXED and max(up, down) > reached


@kernel()
def pick(p, base, split, marks, rows, buckets, start, stop):
    """Write the rows of marked buckets, and their buckets, to `rows` and `buckets`; how many."""
    found = np.zeros(CHUNK, np.int32)
    count = 0
    for a in range(start, stop, CHUNK):
        b = min(a + CHUNK, stop)
        _find(p[a:b], base, split, found)
        for j in range(b - a):
            rows[count] = a + j
            buckets[count] = found[j]
            count += marks[np.uint32(found[j])]
    return count


@kernel()
def inside_buckets(p, y, w, buckets, starts, best):
    """Raise `best` to the running sums at the ends of runs of equal p, over the sorted rows of whole buckets."""
    d = np.zeros(p.size, np.int64)
    _differences(p, y, w, d)
    h, t = np.int64(0), np.int64(0)
    for j in range(p.size):
        if j == 0 or buckets[j] != buckets[j - 1]:
            h, t = starts[buckets[j], 0], starts[buckets[j], 1]
        t += d[j]
        h += t >> 40
        t &= LOW
        if j + 1 == p.size or p[j + 1] != p[j]:
            _exceeds(h, t, best)
