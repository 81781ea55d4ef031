"""Rows of class predictions as functions of one inverse temperature: a Taylor expansion of each about one β₀.

Notation: ℓ logits or log p of a row, d = ℓ − max ≤ 0, e = exp(β₀d). With m_j = Σe·dʲ/Σe the moments of d,

    Σ_c exp((β₀ + δ)d_c) = Σe · M(δ),   M(δ) = Σ_j a_j δʲ,   a_j = m_j/j!,

so that the log-likelihood at any near β is (β₀ + δ)d_y − log Σe − log M(δ). As all d have one sign, Lagrange's
remainder of M to order p is at most |a_{p+1} δ^{p+1}| where δ ≥ 0, and e^{|δ|·width} times that below: no expansion is
taken on trust.

W rows are a tile whose lanes are rows. Records and sums of probabilities lie tile by tile, W numbers a field or class,
in flat arrays: offsets that the compiler knows are what lets it use vectors.
"""

import numpy as np

from calibrant.kernels.jit import SUMS, kernel
from calibrant.kernels.loops.floats import exp2_64, log64

W = 32
"""Rows in a tile."""
ORDER = 8
"""Of the expansions; the next moment bounds what is left out."""

# Fields of a record: a_1 … a_9 first.
LAST, LOG_SUM, AT_LABEL, RAW, WIDTH = 8, 9, 10, 11, 12
FIELDS = 13
FACTORIALS = (1.0, 2.0, 6.0, 24.0, 120.0, 720.0, 5040.0, 40320.0, 362880.0)
IMPOSSIBLE, FAULT = 1, 2
"""Marks: the label has probability 0; the row is no prediction."""
DEEP = 1e-280
"""Sums of probabilities of a label under which its logarithm is kept beside them."""
NOTHING = 84.0
"""β|d| beyond which a class does not widen its row: e^-84 is nothing, to whatever power of d."""
FAR = -707.0
"""βd under which e is as good as 0."""
LOG2_E = 1.4426950408889634
LEAST = 2.2250738585072014e-308
SUM_TOLERANCE = 1e-3


# ----------------------------------------------------------------------------------------------- tiles
@kernel()
def _turn(z, first, rows, tile):
    """Rows first … first + rows as the lanes of a tile, the last repeated in those that are left."""
    classes = z.shape[1]
    for j in range(W):
        i = first + min(j, rows - 1)
        for k in range(classes):
            tile[k * W + j] = z[i, k]


@kernel(fastmath={"contract"})
def _log_tile(x, tile):
    """log x of a tile, −inf of 0, NaN of what is less; the smallest numbers count as 2⁻¹⁰²²."""
    for k in range(tile.size):
        v = x[k]
        log = log64(LEAST if v < LEAST else v)
        tile[k] = log if v > 0.0 else (-np.inf if v == 0.0 else np.nan)


@kernel()
def _tile_top(tile, top):
    """The largest entry of each lane."""
    for j in range(W):
        top[j] = tile[j]
    for k in range(1, tile.size // W):
        at = k * W
        for j in range(W):
            top[j] = tile[at + j] if tile[at + j] > top[j] else top[j]


@kernel()
def _tile_ends(tile, top, low):
    """The largest and the least entry of each lane."""
    for j in range(W):
        top[j] = tile[j]
        low[j] = tile[j]
    for k in range(1, tile.size // W):
        at = k * W
        for j in range(W):
            v = tile[at + j]
            top[j] = v if v > top[j] else top[j]
            low[j] = v if v < low[j] else low[j]


@kernel(fastmath=SUMS)
def _tile_moments(tile, top, beta, least, s):
    """Σe·dʲ of each lane, j = 0 … 9, in s (10·W)."""
    powers = beta * LOG2_E
    for j in range(10 * W):
        s[j] = 0.0
    for k in range(tile.size // W):
        at = k * W
        for j in range(W):
            d = tile[at + j] - top[j]
            d = least if d < least else d
            e = exp2_64(powers * d)
            s[j] += e
            e *= d
            s[j + W] += e
            e *= d
            s[j + 2 * W] += e
            e *= d
            s[j + 3 * W] += e
            e *= d
            s[j + 4 * W] += e
            e *= d
            s[j + 5 * W] += e
            e *= d
            s[j + 6 * W] += e
            e *= d
            s[j + 7 * W] += e
            e *= d
            s[j + 8 * W] += e
            e *= d
            s[j + 9 * W] += e


# ------------------------------------------------------------------------------ the average of members
@kernel(fastmath=SUMS)
def _softmax_tile(tile, top, total):
    """exp(ℓ − max) in place, exactly 0 far below; Σ of each lane, NaN where an entry is NaN or +inf."""
    for j in range(W):
        total[j] = 0.0
    for k in range(tile.size // W):
        at = k * W
        for j in range(W):
            d = tile[at + j] - top[j]
            e = exp2_64(LOG2_E * (FAR if d < FAR else d))
            e = 0.0 if d < FAR else e
            tile[at + j] = e
            total[j] += e


@kernel(fastmath=SUMS)
def _sum_tile(tile, total):
    """Σp of each lane, NaN where one is negative."""
    for j in range(W):
        total[j] = 0.0
    for k in range(tile.size // W):
        at = k * W
        for j in range(W):
            p = tile[at + j]
            total[j] += np.nan if p < 0.0 else p


@kernel(fastmath=SUMS)
def _add_tile(tile, scale, sums):
    """Add a tile, each lane times its scale, to the sums of its rows; the tile becomes their logarithm."""
    for k in range(tile.size // W):
        at = k * W
        for j in range(W):
            v = sums[at + j] + tile[at + j] * scale[j]
            sums[at + j] = v
            log = log64(LEAST if v < LEAST else v)
            tile[at + j] = log if v > 0.0 else -np.inf


@kernel()
def _add_member(z, labels, is_probs, unit, q, rows, tile, top, total, sums, deep, marks):
    """Add one member's probabilities of the rows of tile q, which become the logarithms of the sums.

    Of labels so unlikely that sums would lose them, the logarithm is added.
    """
    first, at = q * W, q * tile.size
    _turn(z, first, rows, tile)
    if is_probs:
        _sum_tile(tile, total)
    else:
        _tile_top(tile, top)
        _softmax_tile(tile, top, total)
    for j in range(rows):
        s = total[j]
        bad = not (0.0 < s < np.inf)
        if unit and not bad:
            bad = not abs((s if is_probs else s * np.exp(top[j])) - 1.0) <= SUM_TOLERANCE
        marks[first + j] |= FAULT if bad else 0
    for j in range(W):
        total[j] = 1.0 / total[j]
    _add_tile(tile, total, sums[at : at + tile.size])
    for j in range(rows):
        i = first + j
        y = labels[i]
        if sums[at + y * W + j] < DEEP:
            score = np.float64(z[i, y])
            log = (np.log(score) if is_probs else score - top[j]) + np.log(total[j])
            high, low = max(log, deep[i]), min(log, deep[i])
            deep[i] = high if low == -np.inf else high + np.log1p(np.exp(low - high))


# ------------------------------------------------------------------------------------------- expansions
@kernel()
def _logs_of(z, is_probs, q, rows, tile, sums):
    """ℓ of tile q: of the sums where there are any, else of the scores."""
    if sums.size:
        _log_tile(sums[q * tile.size : (q + 1) * tile.size], tile)
        return
    _turn(z, q * W, rows, tile)
    if is_probs:
        _log_tile(tile, tile)


@kernel()
def _label_log(tile, labels, q, j, sums, deep):
    """ℓ of the label of lane j."""
    y = labels[q * W + j]
    if sums.size and sums[q * tile.size + y * W + j] < DEEP:
        return deep[q * W + j]
    return tile[y * W + j]


@kernel()
def _close(tile, labels, unit, beta, q, rows, top, s, sums, deep, rec, marks):
    """The record of tile q from its sums; lanes without a row are as the last."""
    first = q * W
    for j in range(rows):
        raw = _label_log(tile, labels, q, j, sums, deep)
        rec[RAW * W + j] = raw
        impossible = raw == -np.inf
        rec[AT_LABEL * W + j] = 0.0 if impossible else raw - top[j]
        marks[first + j] = (marks[first + j] & FAULT) | (IMPOSSIBLE if impossible else 0)
        bad = not (0.0 < s[j] < np.inf) or not abs(top[j]) < np.inf
        if unit and not bad and beta == 1.0 and sums.size == 0:
            bad = not abs(s[j] * np.exp(top[j]) - 1.0) <= SUM_TOLERANCE
        marks[first + j] |= FAULT if bad else 0
    for j in range(rows, W):
        rec[RAW * W + j] = 0.0
        rec[AT_LABEL * W + j] = 0.0
    _put(s, rec)


@kernel(fastmath={"contract"})
def _put(s, rec):
    """a_j and log Σe of a tile."""
    for j in range(W):
        rec[j + LOG_SUM * W] = log64(s[j])
    for j in range(W):
        s[j] = 1.0 / s[j]
    for k in range(len(FACTORIALS)):
        at, scale = k * W, 1.0 / FACTORIALS[k]
        for j in range(W):
            rec[at + j] = s[at + W + j] * (s[j] * scale)


@kernel()
def pass_tiles(z, labels, is_probs, unit, beta, sums, deep, rec, marks, start, stop):
    """Tiles start … stop: one member z (n, C) is added to `sums`, where both have a size; the records are made at β.

    Without sums the records are those of z. unit: probabilities that must sum to one. rec without a size: none are
    made.
    """
    classes = z.shape[1]
    tile, lanes, s = np.empty(classes * W), np.empty((3, W)), np.empty(10 * W)
    top, total, low = lanes[0], lanes[1], lanes[2]
    for q in range(start, stop):
        rows = min(W, labels.size - q * W)
        if sums.size and z.shape[0]:
            _add_member(z, labels, is_probs, unit, q, rows, tile, top, total, sums, deep, marks)
        else:
            _logs_of(z, is_probs, q, rows, tile, sums)
        if rec.size:
            _tile_ends(tile, top, low)
            _tile_moments(tile, top, beta, FAR / beta, s)
            here = rec[q * FIELDS * W : (q + 1) * FIELDS * W]
            for j in range(W):
                here[WIDTH * W + j] = min(top[j] - low[j], NOTHING / beta)
            _close(tile, labels, unit, beta, q, rows, top, s, sums, deep, here, marks)


# ------------------------------------------------------------------------------ halves by their expansions
@kernel(fastmath=SUMS)
def _tile_slopes(rec, half, weights, near, far, scale, out):
    """Add to out (2, 4), half by half: w·(M′/M − d_y), the second and third cumulant, and the bound of the first.

    near, far: δ of half 0 and 1; scale (2,): what the remainder is multiplied by.
    """
    g0, c0, t0, b0, g1, c1, t1, b1 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    f0, f1 = scale[0], scale[1]
    for j in range(W):
        h = half[j] != 0
        x = far if h else near
        w = weights[j]
        a1, a2, a3, a4 = rec[j], rec[j + W], rec[j + 2 * W], rec[j + 3 * W]
        a5, a6, a7, a8 = rec[j + 4 * W], rec[j + 5 * W], rec[j + 6 * W], rec[j + 7 * W]
        m0 = 1.0 + x * (a1 + x * (a2 + x * (a3 + x * (a4 + x * (a5 + x * (a6 + x * (a7 + x * a8)))))))
        m1 = a1 + x * (2 * a2 + x * (3 * a3 + x * (4 * a4 + x * (5 * a5 + x * (6 * a6 + x * (7 * a7 + x * 8 * a8))))))
        m2 = 2 * a2 + x * (6 * a3 + x * (12 * a4 + x * (20 * a5 + x * (30 * a6 + x * (42 * a7 + x * 56 * a8)))))
        m3 = 6 * a3 + x * (24 * a4 + x * (60 * a5 + x * (120 * a6 + x * (210 * a7 + x * 336 * a8))))
        inverse = 1.0 / m0
        mean, square = m1 * inverse, m2 * inverse
        variance = square - mean * mean
        third = m3 * inverse - mean * (square + 2.0 * variance)
        slope = mean - rec[j + AT_LABEL * W]
        size = abs(x)
        power = size * size
        power *= power
        rest = abs(rec[j + LAST * W]) * power * power * (f1 if h else f0)
        over = rest * size * inverse
        rest = w * (9.0 * rest * inverse + abs(mean) * over) / max(1.0 - over, 1e-300)
        rest = rest if m0 > 0.0 and over < 0.5 else (np.inf if w > 0.0 else 0.0)
        g0 += 0.0 if h else w * slope
        c0 += 0.0 if h else w * variance
        t0 += 0.0 if h else w * third
        b0 += 0.0 if h else rest
        g1 += w * slope if h else 0.0
        c1 += w * variance if h else 0.0
        t1 += w * third if h else 0.0
        b1 += rest if h else 0.0
    for k, first, second in ((0, g0, g1), (1, c0, c1), (2, t0, t1), (3, b0, b1)):
        out[0, k] += first
        out[1, k] += second


@kernel()
def half_slopes(rec, half, weights, delta, scale, wanted, out, start, stop):
    """out (R, 2, 4) of repeats start … stop that are wanted: the mean slope at δ (R, 2), its derivatives, its bound."""
    for r in range(start, stop):
        if not wanted[r]:
            continue
        for h in range(2):
            for k in range(4):
                out[r, h, k] = 0.0
        row, total, near, far, f = half[r], out[r], delta[r, 0], delta[r, 1], scale[r]
        for q in range(half.shape[1] // W):
            a, b = q * W, (q + 1) * W
            _tile_slopes(rec[a * FIELDS : b * FIELDS], row[a:b], weights[a:b], near, far, f, total)


@kernel(fastmath=SUMS)
def _tile_scores(rec, half, beta, x, scored, scale, tolerance, out):
    """Add log p(label) at β + x of the rows that lie in half `scored` to out; how many could not be told."""
    lost = 0.0
    for j in range(W):
        a1, a2, a3, a4 = rec[j], rec[j + W], rec[j + 2 * W], rec[j + 3 * W]
        a5, a6, a7, a8 = rec[j + 4 * W], rec[j + 5 * W], rec[j + 6 * W], rec[j + 7 * W]
        m0 = 1.0 + x * (a1 + x * (a2 + x * (a3 + x * (a4 + x * (a5 + x * (a6 + x * (a7 + x * a8)))))))
        rest = abs(rec[j + LAST * W]) * scale
        fine = rest <= tolerance * m0
        here = half[j] == scored
        score = (beta + x) * rec[j + AT_LABEL * W] - rec[j + LOG_SUM * W] - log64(m0 if fine else 1.0)
        out[j] += score if here and fine else 0.0
        lost += 1.0 if here and not fine else 0.0
    return lost


@kernel()
def half_scores(rec, half, beta, x, scored, scale, tolerance, out):
    """The same of all tiles; scale bounds the remainder of a row in units of its last moment."""
    lost = 0.0
    for q in range(half.size // W):
        a, b = q * W, (q + 1) * W
        lost += _tile_scores(rec[a * FIELDS : b * FIELDS], half[a:b], beta, x, scored, scale, tolerance, out[a:b])
    return lost


# --------------------------------------------------------------------------------------------- exact rows
@kernel(fastmath=SUMS)
def _tile_squares(tile, top, beta, s0, s2):
    """Σe and Σe² of each lane at its own β."""
    for j in range(W):
        s0[j] = 0.0
        s2[j] = 0.0
    for k in range(tile.size // W):
        at = k * W
        for j in range(W):
            d = beta[j] * (tile[at + j] - top[j])
            e = exp2_64(LOG2_E * (FAR if d < FAR else d))
            s0[j] += e
            s2[j] += e * e


@kernel()
def exact_tiles(z, labels, is_probs, beta, sums, deep, out, start, stop):
    """Add log p(label) and the Brier score of each row at its own β (n,) to out (2, n)."""
    tile, lanes = np.empty(z.shape[1] * W), np.ones((4, W))
    top, at_beta, s0, s2 = lanes[0], lanes[1], lanes[2], lanes[3]
    for q in range(start, stop):
        rows = min(W, labels.size - q * W)
        _logs_of(z, is_probs, q, rows, tile, sums)
        _tile_top(tile, top)
        for j in range(rows):
            at_beta[j] = beta[q * W + j]
        _tile_squares(tile, top, at_beta, s0, s2)
        for j in range(rows):
            i = q * W + j
            log = at_beta[j] * (_label_log(tile, labels, q, j, sums, deep) - top[j]) - np.log(s0[j])
            out[0, i] += log
            out[1, i] += s2[j] / (s0[j] * s0[j]) - 2.0 * np.exp(log) + 1.0
