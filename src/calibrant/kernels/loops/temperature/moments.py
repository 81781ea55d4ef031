"""Mean, variance and third central moment of log score and Brier score when labels are drawn from each member.

Notation: p_m the probabilities of member m, q = mean_m p_m, both of one row; k* the most probable class under q. The
score of label k is s(k*) + f·d(k): log score d = log q(k*) − log q(k), f = 1; Brier d = q(k*) − q(k), f = 2. Moments
are taken of d, which is 0 at k*, so that they keep their digits where members are sure of it. Sums over rows are
integers in units of 2⁻⁴⁴, 2⁻⁴⁰ and 2⁻³⁶, held in two limbs: their order does not matter.
"""

import numpy as np

from calibrant.kernels.jit import SUMS, kernel
from calibrant.kernels.loops.floats import at_least_lowest, fast_exp, fast_log, like
from calibrant.kernels.loops.softmax import TINY, row_top
from calibrant.kernels.loops.tiles import W, clear, turn

MOMENTS = 6
UNITS = np.array([2.0**44, 2.0**40, 2.0**36, 2.0**44, 2.0**40, 2.0**36])
LARGEST = 2.0**56
"""In units: the sum of a tile of so large values still fits. It is far above what members can disagree by."""
LOW = np.int64(0xFFFFFFFF)


@kernel()
def _put(table, cell, m, t, units):
    table[cell, m, t, 0] += units >> 32
    table[cell, m, t, 1] += units & LOW


@kernel()
def _whole(value, unit):
    """value in whole units."""
    scaled = value * unit
    return np.int64(np.rint(min(max(scaled, -LARGEST), LARGEST)))


@kernel()
def member_classes(z, is_probs, which, out, start, stop):
    """out[m, j, i] = the probability of class which[j] of row i by member m."""
    for m in range(z.shape[0]):
        for i in range(start, stop):
            top = row_top(z[m], i)
            total = _sum_of_row(z[m], i, top, is_probs)
            for j in range(which.size):
                x = z[m, i, which[j]]
                out[m, j, i] = (x if is_probs else fast_exp(at_least_lowest(x - top))) / total


@kernel(fastmath=SUMS)
def _sum_of_row(z, i, top, is_probs):
    total = like(top, 0)
    if is_probs:
        for k in range(z.shape[1]):
            total += z[i, k]
    else:
        for k in range(z.shape[1]):
            total += fast_exp(at_least_lowest(z[i, k] - top))
    return total


# -------------------------------------------------------------------------------------- long rows
@kernel(fastmath=SUMS)
def _exp_row(z, i, top, is_probs, p, m):
    """Fill p[m] with what is proportional to the probabilities of row i; returns its sum."""
    total = like(top, 0)
    if is_probs:
        for k in range(z.shape[1]):
            v = z[i, k]
            p[m, k] = v
            total += v
    else:
        for k in range(z.shape[1]):
            v = fast_exp(at_least_lowest(z[i, k] - top))
            p[m, k] = v
            total += v
    return total


@kernel(fastmath={"contract"})
def _share_row(p, m, scale, q):
    for k in range(q.shape[1]):
        v = p[m, k] * scale
        p[m, k] = v
        q[0, k] += v


@kernel(fastmath=SUMS)
def _average_row(q, share):
    """Divide the sum over members by their number; Σq²."""
    squares = like(share, 0)
    for k in range(q.shape[1]):
        v = q[0, k] * share
        q[0, k] = v
        squares += v * v
    return squares


@kernel(fastmath={"contract"})
def _distances_row(q, d, best, log_best):
    """d[0, k] = log q(k*) − log q(k), d[1, k] = q(k*) − q(k)."""
    for k in range(q.shape[1]):
        d[0, k] = log_best - fast_log(max(q[0, k], like(best, TINY)))
    for k in range(q.shape[1]):
        d[1, k] = best - q[0, k]


@kernel(fastmath=SUMS)
def _row_moments(p, m, d, f):
    """Σ p d, Σ p d² and Σ p d³."""
    s1, s2, s3 = like(p[0, 0], 0), like(p[0, 0], 0), like(p[0, 0], 0)
    for k in range(p.shape[1]):
        x = p[m, k] * d[f, k]
        s1 += x
        x *= d[f, k]
        s2 += x
        s3 += x * d[f, k]
    return np.float64(s1), np.float64(s2), np.float64(s3)


@kernel()
def _put_row(table, cell, m, f, base, s1, s2, s3, weight):
    """Add the moments of base + (f + 1)·d to the sums of a member."""
    factor = (f + 1) * weight
    _put(table, cell, m, 3 * f, _whole(base * weight + factor * s1, UNITS[3 * f]))
    _put(table, cell, m, 3 * f + 1, _whole(factor**2 * (s2 - s1 * s1), UNITS[3 * f + 1]))
    third = s3 - 3.0 * s1 * s2 + 2.0 * s1 * s1 * s1
    _put(table, cell, m, 3 * f + 2, _whole(factor**3 * third, UNITS[3 * f + 2]))


@kernel()
def long_moments(z, is_probs, averaged, weights, cells, table, start, stop):
    """Add the moments of rows start … stop to table (cells, members, 6, 2); one member, q itself, where `averaged`."""
    members, _, classes = z.shape
    p, q, d = np.empty((members, classes), z.dtype), np.empty((1, classes), z.dtype), np.empty((2, classes), z.dtype)
    share = like(z[0, 0, 0], 1.0 / members)
    for i in range(start, stop):
        clear(q.ravel())
        for m in range(members):
            total = _exp_row(z[m], i, row_top(z[m], i), is_probs, p, m)
            _share_row(p, m, like(total, 1) / total, q)
        squares = _average_row(q, share)
        best = row_top(q, 0)
        log_best = fast_log(best)
        _distances_row(q, d, best, log_best)
        weight = weights[i] if weights.size else 1.0
        for m in range(table.shape[1]):
            for f in range(2):
                s1, s2, s3 = _row_moments(q if averaged else p, m, d, f)
                base = -np.float64(log_best) if f == 0 else squares + 1.0 - 2.0 * best
                _put_row(table, cells[i], m, f, base, s1, s2, s3, weight)


# ------------------------------------------------------------------------------------ narrow rows
@kernel(fastmath=SUMS)
def _tile_probs(tile, top, is_probs, p, s0):
    """The probabilities of the rows of a tile by one member; `top` and `s0` are lanes of scratch."""
    for j in range(W):
        top[j] = tile[0, j]
    for k in range(1, tile.shape[0]):
        row = tile[k]
        for j in range(W):
            top[j] = row[j] if row[j] > top[j] else top[j]
    clear(s0)
    for k in range(tile.shape[0]):
        row, column = tile[k], p[k]
        if is_probs:
            for j in range(W):
                column[j] = row[j]
        else:
            for j in range(W):
                column[j] = fast_exp(at_least_lowest(row[j] - top[j]))
        for j in range(W):
            s0[j] += column[j]
    for j in range(W):
        s0[j] = like(s0[j], 1) / s0[j]


@kernel(fastmath={"contract"})
def _tile_share(p, s0, q):
    for k in range(p.shape[0]):
        column, total = p[k], q[k]
        for j in range(W):
            column[j] *= s0[j]
        for j in range(W):
            total[j] += column[j]


@kernel(fastmath={"contract"})
def _tile_average(q, share, best, squares):
    clear(best)
    clear(squares)
    for k in range(q.shape[0]):
        row = q[k]
        for j in range(W):
            v = row[j] * share
            row[j] = v
            squares[j] += v * v
            best[j] = v if v > best[j] else best[j]


@kernel(fastmath={"contract"})
def _tile_distances(q, best, log_best, d):
    """d[3f + j] (C, W): the powers d, d², d³ of both scores."""
    for j in range(W):
        log_best[j] = fast_log(max(best[j], like(best[j], TINY)))
    for k in range(q.shape[0]):
        row = q[k]
        first, other = d[0, k], d[3, k]
        for j in range(W):
            first[j] = log_best[j] - fast_log(max(row[j], like(row[j], TINY)))
        for j in range(W):
            other[j] = best[j] - row[j]
    for f in (0, 3):
        for k in range(q.shape[0]):
            row, square, cube = d[f, k], d[f + 1, k], d[f + 2, k]
            for j in range(W):
                square[j] = row[j] * row[j]
                cube[j] = row[j] * row[j] * row[j]


@kernel(fastmath={"contract"})
def _tile_sum(p, d, total):
    """total[j] = Σ_k p[k, j]·d[k, j], two classes at a time."""
    clear(total)
    classes = p.shape[0]
    whole = classes - classes % 2
    for k in range(0, whole, 2):
        for j in range(W):
            total[j] += p[k, j] * d[k, j] + p[k + 1, j] * d[k + 1, j]
    for k in range(whole, classes):
        for j in range(W):
            total[j] += p[k, j] * d[k, j]


@kernel(fastmath={"contract"})
def _tile_values(sums, f, base, weights, values):
    """Whole units (6, W) of the moments from the sums of powers; the lanes of base and weights are of the rows."""
    for j in range(W):
        factor = (f + 1) * weights[j]
        s1 = np.float64(sums[3 * f, j])
        values[3 * f, j] = _whole(base[f, j] * weights[j] + factor * s1, UNITS[3 * f])
    for j in range(W):
        factor = (f + 1) * weights[j]
        s1, s2 = np.float64(sums[3 * f, j]), np.float64(sums[3 * f + 1, j])
        values[3 * f + 1, j] = _whole(factor * factor * (s2 - s1 * s1), UNITS[3 * f + 1])
    for j in range(W):
        factor = (f + 1) * weights[j]
        s1, s2, s3 = np.float64(sums[3 * f, j]), np.float64(sums[3 * f + 1, j]), np.float64(sums[3 * f + 2, j])
        third = s3 - 3.0 * s1 * s2 + 2.0 * s1 * s1 * s1
        values[3 * f + 2, j] = _whole(factor * factor * factor * third, UNITS[3 * f + 2])


@kernel()
def _put_tile(values, rows, cells, first, together, m, table):
    """Add a tile to the sums of a member, at once where all its rows are of one cell."""
    for t in range(MOMENTS):
        if together:
            total = 0
            for j in range(rows):
                total += values[t, j]
            _put(table, cells[first], m, t, total)
        else:
            for j in range(rows):
                _put(table, cells[first + j], m, t, values[t, j])


@kernel()
def narrow_moments(z, is_probs, averaged, weights, cells, table, start, stop):
    """The same for few classes."""
    members, _, classes = z.shape
    tile, p = np.zeros((classes, W), z.dtype), np.zeros((members, classes, W), z.dtype)
    q, d = np.zeros((classes, W), z.dtype), np.zeros((MOMENTS, classes, W), z.dtype)
    lanes, sums = np.zeros((4, W), z.dtype), np.zeros((MOMENTS, W), z.dtype)
    base, lane_weights, values = np.zeros((2, W)), np.zeros(W), np.zeros((MOMENTS, W), np.int64)
    top, s0, best, log_best = lanes[0], lanes[1], lanes[2], lanes[3]
    share = like(z[0, 0, 0], 1.0 / members)
    for first in range(start, stop, W):
        rows = min(W, stop - first)
        clear(q.ravel())
        for m in range(members):
            turn(z[m], first, rows, tile)
            _tile_probs(tile, top, is_probs, p[m], s0)
            _tile_share(p[m], s0, q)
        _tile_average(q, share, best, s0)
        _tile_distances(q, best, log_best, d)
        for j in range(W):
            base[0, j] = -np.float64(log_best[j])
            base[1, j] = s0[j] + 1.0 - 2.0 * best[j]
            lane_weights[j] = weights[first + j] if weights.size and j < rows else 1.0
        others = 0
        for j in range(rows):
            others += cells[first + j] != cells[first]
        for m in range(table.shape[1]):
            for t in range(MOMENTS):
                _tile_sum(q if averaged else p[m], d[t], sums[t])
            for f in range(2):
                _tile_values(sums, f, base, lane_weights, values)
            _put_tile(values, rows, cells, first, others == 0, m, table)
