"""The one pass for rows of few classes: a tile of W rows lies on its side, so that the lanes of a vector are rows.

Notation and fields as in `loops.softmax`, whose last kernels turn the sums into the record.
"""

import numpy as np

from calibrant.kernels.jit import SUMS, kernel
from calibrant.kernels.loops.floats import at_least_lowest, fast_exp, fast_log, like
from calibrant.kernels.loops.softmax import AT_LABEL, S0, S1, S2, TINY, TOP

W = 64
"""Rows in a tile."""


@kernel()
def turn(z, start, rows, tile):
    """Copy rows start … start + rows to the columns of `tile` (C, W)."""
    for j in range(rows):
        r = z[start + j]
        for k in range(r.size):
            tile[k, j] = r[k]


@kernel()
def tile_top(tile, top):
    """The maximum of each column; NaN only where it comes first."""
    for j in range(W):
        top[j] = tile[0, j]
    for k in range(1, tile.shape[0]):
        row = tile[k]
        for j in range(W):
            top[j] = row[j] if row[j] > top[j] else top[j]


@kernel()
def tile_extent(tile, top, arg, odd):
    """Maximum of each column, its first row; `odd` is raised where an entry is NaN or +inf, or all are -inf."""
    infinity = like(tile[0, 0], np.inf)
    for j in range(W):
        top[j] = tile[0, j]
        arg[j] = 0
        odd[j] |= not (tile[0, j] < infinity)
    for k in range(1, tile.shape[0]):
        row = tile[k]
        label = np.int32(k)
        for j in range(W):
            x = row[j]
            arg[j] = label if x > top[j] else arg[j]
            top[j] = x if x > top[j] else top[j]
            odd[j] |= not (x < infinity)
    for j in range(W):
        odd[j] |= top[j] == -infinity


@kernel()
def clear(x):
    """Set a vector to zero (slice assignment takes the compiler far longer)."""
    for j in range(x.size):
        x[j] = 0


@kernel(fastmath=SUMS)
def tile_exp_sums(tile, top, s0, s1, s2):
    """Σe, Σe·d, Σe² of each column."""
    clear(s0)
    clear(s1)
    clear(s2)
    for k in range(tile.shape[0]):
        row = tile[k]
        for j in range(W):
            d = at_least_lowest(row[j] - top[j])
            e = fast_exp(d)
            s0[j] += e
            s1[j] += e * d
            s2[j] += e * e


@kernel(fastmath=SUMS)
def tile_prob_sums(tile, s0, s1, s2, odd):
    """Σp, Σp·log p, Σp² of each column, and whether an entry is negative."""
    clear(s0)
    clear(s1)
    clear(s2)
    for k in range(tile.shape[0]):
        row = tile[k]
        for j in range(W):
            p = row[j]
            s0[j] += p
            s1[j] += p * fast_log(max(p, like(p, TINY)))
            s2[j] += p * p
            odd[j] |= p < 0


@kernel(fastmath=SUMS)
def tile_sum(tile, top, is_probs, s0, odd):
    """Σe of each column, and whether a probability is negative."""
    clear(s0)
    for k in range(tile.shape[0]):
        row = tile[k]
        if is_probs:
            for j in range(W):
                s0[j] += row[j]
                odd[j] |= row[j] < 0
        else:
            for j in range(W):
                s0[j] += fast_exp(at_least_lowest(row[j] - top[j]))


@kernel()
def narrow_rows(z, labels, is_probs, light, out, pred, fault, start, stop):
    """The sums of rows start … stop of one model with few classes, as `long_rows`."""
    classes = z.shape[1]
    tile = np.zeros((classes, W), z.dtype)
    top, s0, s1, s2 = (np.zeros(W, z.dtype), np.zeros(W, z.dtype), np.zeros(W, z.dtype), np.zeros(W, z.dtype))
    arg = np.zeros(W, np.int32)
    odd = np.zeros(W, np.int32)
    if light:
        for j in range(W):
            s1[j] = s2[j] = np.nan
    for first in range(start, stop, W):
        rows = min(W, stop - first)
        turn(z, first, rows, tile)
        clear(odd)
        tile_extent(tile, top, arg, odd)
        if light:
            tile_sum(tile, top, is_probs, s0, odd)
        elif is_probs:
            tile_prob_sums(tile, s0, s1, s2, odd)
        else:
            tile_exp_sums(tile, top, s0, s1, s2)
        for j in range(rows):
            i = first + j
            out[TOP, i], out[S0, i], out[S1, i], out[S2, i] = top[j], s0[j], s1[j], s2[j]
            pred[i] = arg[j]
            fault[i] = odd[j]
            out[AT_LABEL, i] = tile[labels[i], j] if labels.size else np.nan
