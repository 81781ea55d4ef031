"""Sums per class and bin together with the record, for rows of so many classes that reading them twice costs most."""

import numpy as np

from calibrant.kernels.jit import SUMS, kernel
from calibrant.kernels.loops.floats import at_least_lowest, fast_exp, float_of_ordered, like, ordered_bits
from calibrant.kernels.loops.optional_columns import (
    BELOW_EDGE,
    COUNT,
    FIXED,
    LAYERS,
    P_SQUARED,
    P_Y,
    P,
    Y,
    bin_of,
    first_mark,
    mark,
)
from calibrant.kernels.loops.softmax import first_at, put, row_top

i4 = np.int32

COUNT_HERE, P_HERE, Y_HERE, P_SQUARED_HERE, P_Y_HERE = 0, 1, 2, 3, 4
"""The order of layers while rows are added: those of a light table first."""
BATCH = 16
"""Rows whose sums are put into tables together."""
LINE = 64
"""Bytes of a cache line: vectors that cross one take twice as long to store."""


@kernel()
def _aligned(items, like_x):
    """An array that starts at a cache line."""
    size = items * like_x.itemsize
    raw = np.zeros(size + LINE, np.uint8)
    skip = -np.int64(raw.ctypes.data) % LINE
    return raw[skip : skip + size].view(like_x.dtype)


@kernel(fastmath=SUMS)
def _exps_and_next_top(z, i, m, after, e):
    """e of row i, their sum, and the maximum of row `after`, which comes from memory in the meantime."""
    s0 = like(m, 0)
    top = ordered_bits(z[after, 0])
    for k in range(z.shape[1]):
        x = fast_exp(at_least_lowest(z[i, k] - m))
        e[k] = x
        s0 += x
        top = max(top, ordered_bits(z[after, k]))
    return s0, float_of_ordered(top)


@kernel(fastmath=SUMS)
def _probs_of(z, i, e):
    """Copy row i; its sum, NaN where an entry is negative or NaN."""
    s0 = like(z[i, 0], 0)
    negative = i4(0)
    for k in range(z.shape[1]):
        e[k] = z[i, k]
        s0 += z[i, k]
        negative += i4(z[i, k] < 0)
    return s0 if negative == 0 else like(s0, np.nan)


@kernel(inline="always")
def _row(z, i, m, after, is_probs, e):
    """e of row i, their sum and the next maximum, of either kind of scores."""
    if is_probs:
        return _probs_of(z, i, e), row_top(z, after)
    return _exps_and_next_top(z, i, m, after, e)


# Cut, not rounded, after a half was added: as an operation of its own the rounding would cost a tenth of the pass.
@kernel(fastmath={"contract"})
def _add_below32(e, scale, limit, few):
    """Add the entries up to the limit, in units of 1/scale, in 32 bits."""
    half = like(scale, 0.5)
    for k in range(e.size):
        few[k] += i4(e[k] * scale + half if e[k] <= limit else like(scale, 0))


@kernel(fastmath={"contract"})
def _add_squares_below32(e, scale, limit, few):
    """The same of squares."""
    half = like(scale, 0.5)
    for k in range(e.size):
        few[k] += i4(e[k] * e[k] * scale + half if e[k] <= limit else like(scale, 0))


@kernel(fastmath={"contract"})
def _add_below64(e, scale, limit, totals):
    """Add the entries up to the limit in 64 bits."""
    half = like(scale, 0.5)
    for k in range(e.size):
        totals[k] += np.int64(e[k] * scale + half if e[k] <= limit else like(scale, 0))


@kernel(fastmath={"contract"})
def _add_squares_below64(e, scale, limit, totals):
    """The same of squares."""
    half = like(scale, 0.5)
    for k in range(e.size):
        totals[k] += np.int64(e[k] * e[k] * scale + half if e[k] <= limit else like(scale, 0))


@kernel()
def _flush(few, totals):
    """Move 32-bit sums of a few rows to the totals."""
    for k in range(few.size):
        totals[k] += np.int64(few[k])
    for k in range(few.size):
        few[k] = 0


@kernel()
def _collect(z, i, m, e, inverse, eights, where, high, count):
    """Note class and probability of the marked entries of row i; the first class with the maximum, the new count."""
    best = -1
    for g in range(eights.size):
        left = eights[g]
        while left:
            k = 8 * g + first_mark(left)
            left &= left - 1
            if best < 0 and z[i, k] == m:
                best = k
            where[count, 0] = i
            where[count, 1] = k
            high[count] = e[k] * inverse
            count += 1
    return (best if best >= 0 else first_at(z, i, m)), count


@kernel()
def _scatter(where, high, weights, count, moved):
    """Put noted entries into their bins: those of many rows together, for the table lies beyond the nearest cache."""
    for j in range(count):
        weight = (weights[where[j, 0]] if weights.size else 1.0) * FIXED
        k, p, b = where[j, 1], np.float64(high[j]), bin_of(high[j], moved.shape[1])
        moved[k, b, COUNT_HERE] += np.int64(np.rint(weight))
        moved[k, b, P_HERE] += np.int64(np.rint(p * weight))
        if moved.shape[2] > P_SQUARED_HERE:
            moved[k, b, P_SQUARED_HERE] += np.int64(np.rint(p * p * weight))


@kernel()
def _fill(table, moved, totals, squares, unit, unit_squares, total):
    """Write the table: to the first bin goes what remains of the rows, and the sums below its edge."""
    full = len(table) == LAYERS
    for k in range(moved.shape[0]):
        table[COUNT, k, 0] += total
        table[P, k, 0] += totals[k] * np.int64(FIXED / unit)
        if full:
            table[P_SQUARED, k, 0] += squares[k] * np.int64(FIXED / unit_squares)
        for b in range(moved.shape[1]):
            table[COUNT, k, 0] -= moved[k, b, COUNT_HERE]
            table[COUNT, k, b] += moved[k, b, COUNT_HERE]
            table[P, k, b] += moved[k, b, P_HERE]
            table[Y if full else Y_HERE, k, b] += moved[k, b, Y_HERE]
            if full:
                table[P_SQUARED, k, b] += moved[k, b, P_SQUARED_HERE]
                table[P_Y, k, b] += moved[k, b, P_Y_HERE]


@kernel(inline="always")
def _add_row(e, s0, weight, limit, unit, unit_squares, few, few_squares, totals, squares):
    """Add p, and p² where they are wanted, of the entries below the first edge; in 32 bits where `few` has a place."""
    if few.size and squares.size:
        _add_squares_below32(e, like(s0, unit_squares / (np.float64(s0) * s0)), limit, few_squares)
    elif squares.size:
        _add_squares_below64(e, like(s0, weight * unit_squares / (np.float64(s0) * s0)), limit, squares)
    if few.size:
        _add_below32(e, like(s0, unit / s0), limit, few)
    else:
        _add_below64(e, like(s0, weight * unit / s0), limit, totals)


@kernel()
def class_rows(z, labels, is_probs, weights, bins, table, out, pred, fault, start, stop):
    """The light sums of rows start … stop, as `long_rows`, and their sums per class and bin, all layers or the light.

    Scores are read and exponentials taken once. Few entries of a row exceed 1/B: those are put into their bins one by
    one, the others are added to the first in vectors. Without weights, float32 probabilities are added in 32 bits, 16
    rows at a time, in units of 2⁻³⁰ for 15 bins: what 64 bits cost beyond is a third of the pass.
    """
    classes = z.shape[1]
    in_32, full = z.itemsize == 4 and weights.size == 0, len(table) == LAYERS
    unit, unit_squares = FIXED, FIXED
    if in_32:  # 2^(26 + L) and 2^(25 + 2L) with 2^L ≥ B: 16 entries of up to 1/B, or their squares, then fit
        unit, unit_squares = 67108864.0, 33554432.0
        while unit < 67108864.0 * bins and unit_squares < FIXED:
            unit *= 2.0
            unit_squares *= 4.0
        unit_squares = min(unit_squares, FIXED)
    e = _aligned(classes, z)
    few, few_squares = _aligned(classes * in_32, pred), _aligned(classes * in_32 * full, pred)
    totals, squares = _aligned(classes, table), _aligned(classes * full, table)
    marks, at_label = np.zeros((classes + 7) // 8 * 8, np.uint8), np.zeros(BATCH, z.dtype)
    eights, moved = marks.view(np.int64), np.zeros((classes, bins, len(table)), np.int64)
    most = BATCH * min(classes, bins + 1)
    where, high = np.zeros((most, 2), np.int64), np.zeros(most, z.dtype)
    noted, total = 0, np.int64(0)
    m = row_top(z, start)
    for i in range(start, stop):
        after, place = min(i + 1, stop - 1), (i - start) % BATCH
        s0, following = _row(z, i, m, after, is_probs, e)
        weight = weights[i] if weights.size else 1.0
        limit, inverse = like(m, s0 * BELOW_EDGE / bins), like(m, 1.0 / np.float64(s0))
        _add_row(e, s0, weight, limit, unit, unit_squares, few, few_squares, totals, squares)
        mark(e, limit, marks)
        best, noted = _collect(z, i, m, e, inverse, eights, where, high, noted)
        put(z, labels, i, m, np.int32(best), s0, like(m, np.nan), like(m, np.nan), out, pred, fault)
        total += np.int64(np.rint(weight * FIXED))
        at_label[place] = e[labels[i]] * inverse if labels.size else 0
        if place == BATCH - 1 or i == stop - 1:
            _flush(few, totals)
            _flush(few_squares, squares)
            _scatter(where, high, weights, noted, moved)
            for row in range(i - place, i + 1 if labels.size else 0):
                of_row = (weights[row] if weights.size else 1.0) * FIXED
                k, p, b = labels[row], at_label[row - i + place], bin_of(at_label[row - i + place], bins)
                moved[k, b, Y_HERE] += np.int64(np.rint(of_row))
                if full:
                    moved[k, b, P_Y_HERE] += np.int64(np.rint(np.float64(p) * of_row))
            noted = 0
        m = following
    _fill(table, moved, totals, squares, unit, unit_squares, total)
