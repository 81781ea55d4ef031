"""Sums as integers: integer addition does not care about order.

A float is cut into limbs of whole numbers: x·2²⁰ rounded, then what is left times 2⁴⁰, and again. Three limbs hold any
float of 2⁻⁴⁸ ≤ |x| < 2²² to its last bit, in vectors; the others are cut by the bits of their exponent, one by one.
"""

import numpy as np

from calibrant.kernels.jit import kernel
from calibrant.kernels.loops.floats import float_bits

i8 = np.int64
"""A constant wrapped in it is any integer to the compiler, which would compile what it is given to for each value."""
LIMIT = 4194304.0
"""2²²: values at or beyond it (and NaN) are left to the caller."""
TIERS = 256
"""Eight exponents each, for the values that are cut one by one."""
ODD_TIER = 99
LOWEST_TIER = -31
"""Its scale is still a float."""


@kernel()
def limbs(x):
    """Σ of the limbs of those values that three hold exactly, and how many others there are; at most 2²⁰ values."""
    high = middle = low = left = np.int64(0)
    for i in range(x.size):
        scaled = x[i] * 1048576.0
        h = np.rint(scaled)
        rest = (scaled - h) * 1099511627776.0
        m = np.rint(rest)
        rest = (rest - m) * 1099511627776.0
        n = np.rint(rest)
        held = (abs(x[i]) < LIMIT) & (rest == n)
        high += np.int64(h if held else 0.0)
        middle += np.int64(m if held else 0.0)
        low += np.int64(n if held else 0.0)
        left += not held
    return high, middle, low, left


@kernel()
def tier_limbs(x, tiers, odd):
    """Add the values that `limbs` left out to tiers[exponent/8, half of the mantissa]; at most 2²⁰ values.

    A tier counts units of 2^(8·tier − 1075). odd: how many values were +∞, −∞ and NaN.
    """
    for i in range(x.size):
        scaled = x[i] * 1048576.0
        rest = (scaled - np.rint(scaled)) * 1099511627776.0
        rest = (rest - np.rint(rest)) * 1099511627776.0
        if (abs(x[i]) < LIMIT) and (rest == np.rint(rest)):  # three limbs hold it exactly
            continue
        bits = float_bits(x[i])
        exponent = (bits >> 52) & 0x7FF
        mantissa = bits & 0xFFFFFFFFFFFFF
        if exponent == 0x7FF:
            odd[2 if mantissa else (1 if bits < 0 else 0)] += 1
            continue
        if exponent:
            mantissa |= 0x10000000000000
        else:
            exponent = np.int64(1)
        shift = exponent & 7
        low = (mantissa & 0x7FFFFFF) << shift
        high = (mantissa >> 27) << shift
        tiers[exponent >> 3, 0] += -low if bits < 0 else low
        tiers[exponent >> 3, 1] += -high if bits < 0 else high


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
        _add_term(limbs, b, i8(1), weight * p[i])
        _add_term(limbs, b, i8(2), weight * y[i])
        if w.size:
            _add_term(limbs, b, i8(0), weight)
        if spread:
            d = y[i] - p[i]
            square = weight * weight
            if w.size:
                _add_term(limbs, b, i8(3), square)
            _add_term(limbs, b, i8(4), square * d)
            _add_term(limbs, b, i8(5), square * d * d)


# ------------------------------------------------------------- unweighted pairs, bins of equal width
CHUNK = 1024
"""Rows at a time: their sums in units of 2⁻⁴⁰ stay below 2⁵¹, and the bits from there on count them."""
ONE_ROW = 1 << 51
MOST_BINS = 256


@kernel()
def _cells(p, bins, cell):
    for j in range(p.size):
        cell[j] = np.int32(min(max(np.ceil(np.float64(p[j]) * bins) - 1.0, 0.0), bins - 1.0))


@kernel()
def _cells_with_label(cell, y):
    for j in range(y.size):
        cell[j] = cell[j] + cell[j] + np.int32(y[j])


@kernel()
def _high_units(p, units):
    """Each p in units of 2⁻⁴⁰, with a count of one row; how many are not whole numbers of them."""
    odd = np.int64(0)
    for j in range(p.size):
        scaled = np.float64(p[j]) * 1099511627776.0
        units[j] = np.int64(np.rint(scaled)) + ONE_ROW
        odd += scaled != np.rint(scaled)
    return odd


@kernel()
def _low_units(p, units):
    """What the units of 2⁻⁴⁰ leave of each p, in units of 2⁻⁶⁰."""
    for j in range(p.size):
        scaled = np.float64(p[j]) * 1099511627776.0
        units[j] = np.int64(np.rint((scaled - np.rint(scaled)) * 1048576.0))


@kernel()
def _scatter(cell, units, rows, tables):
    """Add units to their cells, in four tables by turns: one would wait for what it has just written.

    Unsigned numbers, for a negative index would be looked for.
    """
    size = np.uint32(tables.size // 4)
    whole = rows // 4 * 4
    for j in range(0, whole, 4):
        tables[np.uint32(cell[j])] += units[j]
        tables[np.uint32(cell[j + 1]) + size] += units[j + 1]
        tables[np.uint32(cell[j + 2]) + np.uint32(2) * size] += units[j + 2]
        tables[np.uint32(cell[j + 3]) + np.uint32(3) * size] += units[j + 3]
    for j in range(whole, rows):
        tables[np.uint32(cell[j])] += units[j]


@kernel()
def _empty_into(tables, sums):
    """Move sums that carry the number of rows in their upper bits to sums[cell, :]: rows, units."""
    size = len(sums)
    for c in range(size):
        units = tables[c] + tables[size + c] + tables[2 * size + c] + tables[3 * size + c]
        sums[c, 0] += units >> 51
        sums[c, 1] += units & (ONE_ROW - 1)
    for c in range(tables.size):
        tables[c] = 0


@kernel()
def width_sums(p, y, bins, sums, start, stop):
    """Add rows start … stop to sums[2·bin + y, :]: rows, Σp in units of 2⁻⁴⁰, and what is left in units of 2⁻⁶⁰.

    y is 0 or 1; at most 2²² rows a call, and MOST_BINS bins.
    """
    cell, units = np.zeros(CHUNK, np.int32), np.zeros(CHUNK, np.int64)
    tables, left = np.zeros(8 * bins, np.int64), np.zeros(8 * bins, np.int64)
    for a in range(start, stop, CHUNK):
        b = min(a + CHUNK, stop)
        part = p[a:b]
        _cells(part, bins, cell)
        _cells_with_label(cell, y[a:b])
        odd = _high_units(part, units)
        _scatter(cell, units, b - a, tables)
        _empty_into(tables, sums)
        if odd:
            _low_units(part, units)
            _scatter(cell, units, b - a, left)
    for c in range(8 * bins):
        sums[c % (2 * bins), 2] += left[c]


@kernel()
def tiers_of(x, tiers):
    """The tier k of each value, 2^(32k − 20) ≤ |x| < 2^(32k + 12), 0 for 0; the lowest, the highest, how many are odd.

    What is not finite is odd, and its tier is one that no number has.
    """
    lowest = highest = odd = 0
    for i in range(x.size):
        exponent = ((float_bits(x[i]) >> 52) & 0x7FF) - 1022
        tier = max((exponent + 19) >> 5, LOWEST_TIER)
        if exponent == 1025:
            odd += 1
            tier = ODD_TIER
        elif x[i] == 0.0:
            tier = 0
        else:
            lowest = min(lowest, tier)
            highest = max(highest, tier)
        tiers[i] = tier
    return lowest, highest, odd


@kernel()
def group_limbs(x, groups, tiers, tier, scale, limbs):
    """Add each value of a tier, times 2^(−32·tier), to limbs[group, 0, :]; at most 2²⁰ values a call."""
    for i in range(x.size):
        if tiers[i] == tier:
            _add_term(limbs, groups[i], i8(0), x[i] * scale)
