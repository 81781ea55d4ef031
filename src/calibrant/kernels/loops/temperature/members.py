"""Log-likelihoods of members at their temperatures, with two derivatives, and the sums that a fit of them needs.

Notation: z (M, n, C) scores, y labels, β = 1/τ (M,) inverse temperatures. Of each member and row
    ℓ = log softmax(βz)[y],   dℓ/dβ = z_y − E[z],   d²ℓ/dβ² = −Var[z],   moments under softmax(βz);
over the members r_m = exp ℓ_m / Σ exp ℓ. Everything is in float64, whatever the scores are in. Rows are summed in spans
that depend on the size of the input alone, so that a result does not depend on threads.
"""

import numpy as np

from calibrant.kernels.jit import SUMS, kernel
from calibrant.kernels.loops.floats import LOWEST_POWER_64, at_least_lowest, exp2_64, exp64, log64
from calibrant.kernels.loops.softmax import NARROW, row_top
from calibrant.kernels.loops.tiles import W, clear, tile_top, turn

FARTHEST = -1e100
"""Scores further below the largest of their row than this are as good as −inf; squares of it are still finite."""
LOG2_E = 1.4426950408889634
ROWS = 256
"""Rows that are carried through all members before the next are begun."""

# Rows of the sums of a span; those of the outer product Σ w·u·uᵀ, u = r·dℓ/dβ, follow.
GRADIENT, SECOND, OWN_SLOPE, OWN_CURVATURE = 0, 1, 2, 3
VECTORS = 4


# --------------------------------------------------------------------------------- one member, some rows
@kernel(fastmath=SUMS)
def _tile_sums(tile, top, beta, s0, s1, s2):
    """Σe, Σe·d, Σe·d² of each column, d = z − max, e = exp(βd); NaN where an entry is NaN or +inf, or all are −inf."""
    scale = beta * LOG2_E
    clear(s0)
    clear(s1)
    clear(s2)
    for k in range(tile.shape[0]):
        row = tile[k]
        for j in range(W):
            d = row[j] - top[j]
            d = FARTHEST if d < FARTHEST else d
            power = scale * d
            e = exp2_64(LOWEST_POWER_64 if power < LOWEST_POWER_64 else power)
            s0[j] += e
            s1[j] += e * d
            s2[j] += e * (d * d)


@kernel(fastmath=SUMS)
def _row_sums(z, i, top, beta):
    """The same of one long row."""
    s0, s1, s2, scale = 0.0, 0.0, 0.0, beta * LOG2_E
    for k in range(z.shape[1]):
        d = np.float64(z[i, k]) - top
        d = FARTHEST if d < FARTHEST else d
        power = scale * d
        e = exp2_64(LOWEST_POWER_64 if power < LOWEST_POWER_64 else power)
        s0 += e
        s1 += e * d
        s2 += e * (d * d)
    return s0, s1, s2


@kernel(fastmath={"contract"})
def _means(s0, s1, s2):
    """Turn the sums into log Σe, E[d] and −Var[d]."""
    for j in range(s0.size):
        mean = s1[j] / s0[j]
        s2[j] = mean * mean - s2[j] / s0[j]
        s1[j] = mean
    for j in range(s0.size):
        s0[j] = log64(s0[j])


@kernel()
def _put(at_label, beta, log_sum, mean, curvature, terms, j):
    """ℓ and its derivatives; (−inf, 0, 0) where the label cannot be, NaN where there is no mean (the log hides it)."""
    if not mean > -np.inf:
        terms[0, j], terms[1, j], terms[2, j] = np.nan, np.nan, np.nan
    elif at_label < FARTHEST:
        terms[0, j], terms[1, j], terms[2, j] = -np.inf, 0.0, 0.0
    else:
        terms[0, j] = beta * at_label - log_sum
        terms[1, j] = at_label - mean
        terms[2, j] = curvature


@kernel()
def _terms(z, labels, beta, first, rows, tile, lanes, terms):
    """terms (3, …): ℓ and its derivatives of rows first … first + rows of one member."""
    top, s0, s1, s2 = lanes[0], lanes[1], lanes[2], lanes[3]
    narrow = z.shape[1] < NARROW
    for base in range(0, rows, W):
        some = min(W, rows - base)
        if narrow:
            turn(z, first + base, some, tile)
            tile_top(tile, top)
            _tile_sums(tile, top, beta, s0, s1, s2)
        else:
            for j in range(some):
                top[j] = row_top(z, first + base + j)
                s0[j], s1[j], s2[j] = _row_sums(z, first + base + j, top[j], beta)
        _means(s0, s1, s2)
        for j in range(some):
            i = first + base + j
            at_label = tile[labels[i], j] if narrow else np.float64(z[i, labels[i]])
            _put(at_label - top[j], beta, s0[j], s1[j], s2[j], terms, base + j)


@kernel()
def _tile_of(z):
    """Room for a tile of the rows of z, none where they are long."""
    return np.zeros((z.shape[2] if z.shape[2] < NARROW else 0, W))


@kernel()
def member_terms(z, labels, beta, out, start, stop):
    """out (M, 3, n): ℓ and its two derivatives of every member for rows start … stop."""
    tile, lanes, terms = _tile_of(z), np.zeros((4, W)), np.empty((3, ROWS))
    for first in range(start, stop, ROWS):
        rows = min(ROWS, stop - first)
        for m in range(z.shape[0]):
            _terms(z[m], labels, beta[m], first, rows, tile, lanes, terms)
            for t in range(3):
                for j in range(rows):
                    out[m, t, first + j] = terms[t, j]


# ---------------------------------------------------------------------------------------- the mixture
@kernel(fastmath={"contract"})
def _responsibilities(terms, rows, top, total):
    """Turn ℓ of each member into its responsibility, and leave log mean_m exp ℓ_m in `top`."""
    members = terms.shape[0]
    for j in range(rows):
        top[j] = terms[0, 0, j]
        total[j] = 0.0
    for m in range(1, members):
        row = terms[m, 0]
        for j in range(rows):
            top[j] = top[j] if row[j] <= top[j] else row[j]
    for m in range(members):
        row = terms[m, 0]
        for j in range(rows):
            row[j] = exp64(at_least_lowest(row[j] - max(top[j], -1e300)))
            total[j] += row[j]
    for j in range(rows):
        mean = top[j] + log64(total[j] / members) if top[j] > -np.inf else top[j]
        top[j] = mean if total[j] < np.inf else np.nan
        total[j] = 1.0 / total[j]
    for m in range(members):
        row = terms[m, 0]
        for j in range(rows):
            row[j] *= total[j]


@kernel(fastmath=SUMS)
def _own_sums(terms, m, w, rows, sums):
    """Add what the temperature of one member alone would need."""
    slope, curvature = 0.0, 0.0
    for j in range(rows):
        slope += w[j] * terms[m, 1, j]
        curvature += w[j] * terms[m, 2, j]
    sums[OWN_SLOPE, m] += slope
    sums[OWN_CURVATURE, m] += curvature


@kernel(fastmath=SUMS)
def _mixture_sums(terms, m, w, rows, sums):
    """Add Σwu and Σwr(ℓ″ + ℓ′²); leave u = r·ℓ′ in the place of ℓ′ and wu in that of r."""
    gradient, second = 0.0, 0.0
    for j in range(rows):
        r, slope = terms[m, 0, j], terms[m, 1, j]
        u = r * slope
        gradient += w[j] * u
        second += w[j] * (r * terms[m, 2, j] + u * slope)
        terms[m, 0, j] = w[j] * u
        terms[m, 1, j] = u
    sums[GRADIENT, m] += gradient
    sums[SECOND, m] += second


@kernel(fastmath=SUMS)
def _dot(a, b, rows):
    total = 0.0
    for j in range(rows):
        total += a[j] * b[j]
    return total


@kernel()
def mixture_spans(z, labels, weights, beta, outer, edges, log_mean, sums, start, stop):
    """sums (S, 4 + M, M) of spans start … stop of rows, edges (S + 1,); log_mean (n,): log mean_m exp ℓ_m."""
    members = z.shape[0]
    tile, lanes, terms = _tile_of(z), np.zeros((4, W)), np.zeros((members, 3, ROWS))
    top, total, w = np.empty(ROWS), np.empty(ROWS), np.empty(ROWS)
    for s in range(start, stop):
        for first in range(edges[s], edges[s + 1], ROWS):
            rows = min(ROWS, edges[s + 1] - first)
            for j in range(rows):
                w[j] = weights[first + j]
            for m in range(members):
                _terms(z[m], labels, beta[m], first, rows, tile, lanes, terms[m])
                _own_sums(terms, m, w, rows, sums[s])
            _responsibilities(terms, rows, top, total)
            for m in range(members):
                _mixture_sums(terms, m, w, rows, sums[s])
            for m in range(members if outer else 0):  # the lower half of Σ w·u·uᵀ
                for k in range(m + 1):
                    sums[s, VECTORS + m, k] += _dot(terms[m, 0], terms[k, 1], rows)
            for j in range(rows):
                log_mean[first + j] = top[j]
