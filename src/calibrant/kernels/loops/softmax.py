"""One pass over the rows of a single model, and what its sums mean.

Notation: z (n, C) scores of a block, d = z − max, e = exp(d); probabilities are taken as they are, e = p. The pass
leaves, per row, the maximum, Σe, Σe·d (or Σp·log p), Σe² and the label's score in the rows of `out`; `finish` turns
them into the record that everything else is computed from, in float64 and over all rows at once.

Rows of few classes are turned on their side (a tile of W rows, class by class), so that the vector lanes are rows;
longer rows use vectors along the row. The choice depends on C alone, so a row's bits never depend on its neighbours.
"""

import numpy as np

from calibrant.kernels.jit import SUMS, kernel
from calibrant.kernels.loops.floats import (
    LOWEST_64,
    at_least_lowest,
    exp64,
    fast_exp,
    fast_log,
    float_of_ordered,
    like,
    log64,
    ordered_bits,
)

W = 64
"""Rows in a tile."""
NARROW = 48
"""Classes under which rows are tiled."""
TINY = 1e-37
"""Stands in for p = 0 where p·log p is taken."""

# Rows of `out`, before and after finishing.
TOP, LSE = 0, 0
S0, CONFIDENCE = 1, 1
S1, ENTROPY = 2, 2
S2, SUM_SQUARES = 3, 3
AT_LABEL, LOG_LABEL = 4, 4
LABEL = 5
FIELDS = 6


# ----------------------------------------------------------------------------------- what the sums mean
@kernel(fastmath={"contract"})
def _finish_logits(out, start, stop):
    """Turn the sums of logits into the record of a row."""
    lse, conf, entropy, squares = out[LSE], out[CONFIDENCE], out[ENTROPY], out[SUM_SQUARES]
    log_label, label = out[LOG_LABEL], out[LABEL]
    for i in range(start, stop):
        log_s0 = log64(conf[i])
        inverse = 1.0 / conf[i]
        at_label = log_label[i] - lse[i] - log_s0
        log_label[i] = at_label
        label[i] = exp64(at_label) if at_label > LOWEST_64 else (0.0 if at_label <= LOWEST_64 else np.nan)
        rest = log_s0 - entropy[i] * inverse
        entropy[i] = 0.0 if rest < 0.0 else rest
        squares[i] = squares[i] * inverse * inverse
        conf[i] = inverse
        lse[i] = lse[i] + log_s0


@kernel(fastmath={"contract"})
def _finish_probs(out, start, stop):
    """Turn the sums of probabilities into the record of a row; probabilities are divided by their sum."""
    lse, conf, entropy, squares = out[LSE], out[CONFIDENCE], out[ENTROPY], out[SUM_SQUARES]
    log_label, label = out[LOG_LABEL], out[LABEL]
    for i in range(start, stop):
        log_s0 = log64(conf[i])
        inverse = 1.0 / conf[i]
        p = log_label[i] * inverse
        label[i] = p
        log_label[i] = log64(p) if p > 0.0 else (-np.inf if p == 0.0 else np.nan)
        rest = log_s0 - entropy[i] * inverse
        entropy[i] = 0.0 if rest < 0.0 else rest
        squares[i] = squares[i] * inverse * inverse
        conf[i] = lse[i] * inverse
        lse[i] = log_s0


@kernel()
def finish(out, is_probs, start, stop):
    """Turn sums into the record of rows start … stop."""
    if is_probs:
        _finish_probs(out, start, stop)
    else:
        _finish_logits(out, start, stop)


# ------------------------------------------------------------------------------------ long rows
@kernel()
def row_extent(r):
    """Maximum, minimum, and whether an entry is NaN or +inf, or all are -inf.

    As ordered integers: float maxima do not become vectors, integer ones do, and NaNs lie beyond the infinities.
    """
    top = ordered_bits(r[0])
    low = top
    for k in range(r.size):
        b = ordered_bits(r[k])
        top = max(top, b)
        low = min(low, b)
    infinity = like(r[0], np.inf)
    fault = top >= ordered_bits(infinity) or low < ordered_bits(-infinity)
    fault = fault or top == ordered_bits(-infinity)
    return float_of_ordered(top), float_of_ordered(low), fault


@kernel(fastmath=SUMS)
def exp_sums(r, m):
    """Σe, Σe·d, Σe² of one row, and the first index of its maximum m."""
    s0, s1, s2 = like(m, 0), like(m, 0), like(m, 0)
    first = np.int32(r.size)
    for k in range(r.size):
        d = at_least_lowest(r[k] - m)
        e = fast_exp(d)
        s0 += e
        s1 += e * d
        s2 += e * e
        first = min(first, np.int32(k) if r[k] == m else np.int32(r.size))
    return s0, s1, s2, first


@kernel(fastmath=SUMS)
def exp_sum(r, m):
    """Σe of one row and the first index of its maximum m: all that confidence and log-likelihood need."""
    s0 = like(m, 0)
    first = np.int32(r.size)
    for k in range(r.size):
        s0 += fast_exp(at_least_lowest(r[k] - m))
        first = min(first, np.int32(k) if r[k] == m else np.int32(r.size))
    return s0, first


@kernel(fastmath=SUMS)
def prob_sum(r, m):
    """Σp of one row and the first index of its maximum m."""
    s0 = like(m, 0)
    first = np.int32(r.size)
    for k in range(r.size):
        s0 += r[k]
        first = min(first, np.int32(k) if r[k] == m else np.int32(r.size))
    return s0, first


@kernel(fastmath=SUMS)
def prob_sums(r, m):
    """Σp, Σp·log p, Σp² of one row, and the first index of its maximum m."""
    s0, s1, s2 = like(m, 0), like(m, 0), like(m, 0)
    first = np.int32(r.size)
    for k in range(r.size):
        p = r[k]
        s0 += p
        s1 += p * fast_log(max(p, like(p, TINY)))
        s2 += p * p
        first = min(first, np.int32(k) if p == m else np.int32(r.size))
    return s0, s1, s2, first


@kernel()
def long_rows(z, labels, is_probs, light, out, pred, fault, start, stop):
    """The record of rows start … stop of one model with many classes.

    Faulty rows are flagged and their record is meaningless. A light pass may leave entropy and Σp² out.
    """
    for i in range(start, stop):
        r = z[i]
        m, low, odd = row_extent(r)
        if odd or (is_probs and low < 0):
            fault[i] = 1
            continue
        s1, s2 = like(m, np.nan), like(m, np.nan)
        if light:
            s0, k = prob_sum(r, m) if is_probs else exp_sum(r, m)
        else:
            s0, s1, s2, k = prob_sums(r, m) if is_probs else exp_sums(r, m)
        out[TOP, i], out[S0, i], out[S1, i], out[S2, i] = m, s0, s1, s2
        pred[i] = k
        out[AT_LABEL, i] = r[labels[i]] if labels.size else np.nan
    finish(out, is_probs, start, stop)


# ---------------------------------------------------------------------------------- narrow rows
@kernel()
def turn(z, start, rows, tile):
    """Copy rows start … start + rows to the columns of `tile` (C, W)."""
    for j in range(rows):
        r = z[start + j]
        for k in range(r.size):
            tile[k, j] = r[k]


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


@kernel()
def narrow_rows(z, labels, is_probs, light, out, pred, fault, start, stop):
    """The record of rows start … stop of one model with few classes; a light pass saves nothing here."""
    classes = z.shape[1]
    tile = np.zeros((classes, W), z.dtype)
    top, s0, s1, s2 = (
        np.zeros(W, z.dtype),
        np.zeros(W, z.dtype),
        np.zeros(W, z.dtype),
        np.zeros(W, z.dtype),
    )
    arg = np.zeros(W, np.int32)
    odd = np.zeros(W, np.int32)
    for first in range(start, stop, W):
        rows = min(W, stop - first)
        turn(z, first, rows, tile)
        clear(odd)
        tile_extent(tile, top, arg, odd)
        if is_probs:
            tile_prob_sums(tile, s0, s1, s2, odd)
        else:
            tile_exp_sums(tile, top, s0, s1, s2)
        for j in range(rows):
            i = first + j
            out[TOP, i], out[S0, i], out[S1, i], out[S2, i] = top[j], s0[j], s1[j], s2[j]
            pred[i] = arg[j]
            fault[i] = odd[j]
            out[AT_LABEL, i] = tile[labels[i], j] if labels.size else np.nan
    finish(out, is_probs, start, stop)
