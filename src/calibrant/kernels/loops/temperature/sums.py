"""Sums over rows from which one temperature is found: the negative log-likelihood and its first three derivatives.

Notation: z (n, C) scores, y labels, β = 1/T, d = z − max, e = exp(βd); moments under softmax(βz). Of each row
    −log softmax(βz)[y] = log Σe − βd_y,   by β: E[d] − d_y,   Var[d],   the third cumulant of d.
The type of β is the precision of the exponentials; sums over rows are in float64, in spans that depend on the size of
the input alone. The first pass leaves max z and d_y of each row in `known` (2, n), so that later ones need not look.
"""

import numpy as np

from calibrant.kernels.jit import SUMS, kernel
from calibrant.kernels.loops.floats import fast_exp, float_of_ordered, like, log64, ordered_bits
from calibrant.kernels.loops.softmax import NARROW, pad, padded_width, padding, row_top
from calibrant.kernels.loops.tiles import W, clear, turn

# Columns of the sums of a span.
VALUE, SLOPE, CURVATURE, THIRD, WIDEST, IMPOSSIBLE, WRONG = 0, 1, 2, 3, 4, 5, 6
FIELDS = 7


# ------------------------------------------------------------------------------------------ the first look
@kernel()
def _row_ends(z, i):
    """The largest and the least entry of row i; NaN may be either."""
    top = ordered_bits(z[i, 0])
    low = top
    for k in range(z.shape[1]):
        bits = ordered_bits(z[i, k])
        top = max(top, bits)
        low = min(low, bits)
    return float_of_ordered(top), float_of_ordered(low)


@kernel()
def _tile_ends(tile, top, low):
    """The same of each column of a tile."""
    for j in range(W):
        top[j] = tile[0, j]
        low[j] = tile[0, j]
    for k in range(1, tile.shape[0]):
        row = tile[k]
        for j in range(W):
            top[j] = row[j] if row[j] > top[j] else top[j]
        for j in range(W):
            low[j] = row[j] if row[j] < low[j] else low[j]


@kernel()
def _note(i, top, low, score, weights, known, total):
    """Leave what is known of row i; where its label cannot be, its weight becomes 0 and it is counted."""
    top = np.float64(top)
    d = np.float64(score) - top
    if d == -np.inf:
        total[IMPOSSIBLE] += weights[i] > 0.0
        weights[i] = 0.0
        d = 0.0
    known[0, i], known[1, i] = top, d
    if weights[i] > 0.0:
        total[WIDEST] = max(total[WIDEST], top - np.float64(low))
        total[WRONG] += d < 0.0


# ---------------------------------------------------------------------------------- exponentials of rows
@kernel(fastmath=SUMS)
def _row_sums(z, i, top, beta, least):
    """Σe, Σe·d, Σe·d², Σe·d³ of a long row; NaN where an entry is NaN or +inf, or all are −inf."""
    s0, s1, s2, s3 = like(beta, 0), like(beta, 0), like(beta, 0), like(beta, 0)
    for k in range(z.shape[1]):
        d = like(beta, z[i, k]) - top
        d = least if d < least else d
        e = fast_exp(beta * d)
        s0 += e
        e *= d
        s1 += e
        e *= d
        s2 += e
        s3 += e * d
    return s0, s1, s2, s3


@kernel(fastmath=SUMS)
def _tile_sums(tile, top, beta, least, s0, s1, s2, s3):
    """The same of each column of a tile."""
    clear(s0)
    clear(s1)
    clear(s2)
    clear(s3)
    for k in range(tile.shape[0]):
        row = tile[k]
        for j in range(W):
            d = like(beta, row[j]) - like(beta, top[j])
            d = least if d < least else d
            e = fast_exp(beta * d)
            s0[j] += e
            e *= d
            s1[j] += e
            e *= d
            s2[j] += e
            s3[j] += e * d


@kernel(fastmath=SUMS)
def _add(beta, lanes, weights, known, first, rows, total):
    """Add the loss of some rows and its derivatives to the sums of their span."""
    value, slope, curvature, third = 0.0, 0.0, 0.0, 0.0
    for j in range(rows):
        w, at_label, s0 = weights[first + j], known[1, first + j], np.float64(lanes[0, j])
        mean, square, cube = lanes[1, j] / s0, lanes[2, j] / s0, lanes[3, j] / s0
        variance = square - mean * mean
        value += w * (log64(s0) - beta * at_label)
        slope += w * (mean - at_label)
        curvature += w * variance
        third += w * (cube - mean * (square + 2.0 * variance))
    total[VALUE] += value
    total[SLOPE] += slope
    total[CURVATURE] += curvature
    total[THIRD] += third


# ------------------------------------------------------------------------------------------------- spans
@kernel()
def _narrow_rows(z, labels, weights, beta, least, first, rows, new, known, tile, ends, lanes, total):
    """Sums of up to W rows of few classes in `lanes` (4, W)."""
    turn(z, first, rows, tile)
    if new:
        _tile_ends(tile, ends[0], ends[1])
        for j in range(rows):
            i = first + j
            _note(i, ends[0, j], ends[1, j], tile[labels[i], j], weights, known, total)
    else:
        for j in range(rows):
            ends[0, j] = known[0, first + j]
    _tile_sums(tile, ends[0], beta, least, lanes[0], lanes[1], lanes[2], lanes[3])


@kernel()
def _long_rows(z, labels, weights, beta, least, first, rows, new, known, buffer, lanes, total):
    """The same of rows of many classes."""
    padded = buffer.shape[1] > z.shape[1]
    for j in range(rows):
        i = first + j
        if new:
            top, low = _row_ends(z, i)
            _note(i, top, low, z[i, labels[i]], weights, known, total)
        top = like(beta, known[0, i])
        if padded:
            pad(z, i, buffer, 0)
            lanes[0, j], lanes[1, j], lanes[2, j], lanes[3, j] = _row_sums(buffer, 0, top, beta, least)
        else:
            lanes[0, j], lanes[1, j], lanes[2, j], lanes[3, j] = _row_sums(z, i, top, beta, least)


@kernel()
def temperature_spans(z, labels, weights, beta, least, begins, ends, new, known, sums, start, stop):
    """sums (S, FIELDS) of spans start … stop, rows begins[s] … ends[s]; least: d under which e is as good as 0."""
    narrow = z.shape[1] < NARROW
    lanes = np.zeros((4, W), np.array([beta]).dtype)
    tile, corners = np.zeros((z.shape[1] if narrow else 0, W), z.dtype), np.zeros((2, W), z.dtype)
    buffer = padding(z, False, padded_width(z.shape[1]))
    for s in range(start, stop):
        for first in range(begins[s], ends[s], W):
            rows = min(W, ends[s] - first)
            if narrow:
                _narrow_rows(z, labels, weights, beta, least, first, rows, new, known, tile, corners, lanes, sums[s])
            else:
                _long_rows(z, labels, weights, beta, least, first, rows, new, known, buffer, lanes, sums[s])
            _add(np.float64(beta), lanes, weights, known, first, rows, sums[s])


# --------------------------------------------------------------------------------- how sure rows are at β
@kernel()
def sure_rows(z, beta, least, out, start, stop):
    """out (2, n): the largest probability and the entropy in nats of softmax(βz)."""
    for i in range(start, stop):
        s0, s1, _, _ = _row_sums(z, i, row_top(z, i), beta, least)
        out[0, i] = 1.0 / s0
        out[1, i] = max(np.log(s0) - beta * s1 / s0, 0.0)
