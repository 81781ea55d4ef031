"""Outcomes redrawn from Gaussians and their mixtures, a row at a time, and what statistics need of them.

The lanes of a vector are replicates, those of one member side by side. The observed outcome stands behind them as one
more, so that it goes through the same arithmetic. Sums are whole numbers of a unit: rows may come in any order.
"""

import numpy as np

from calibrant.kernels.jit import kernel
from calibrant.kernels.loops.floats import SHIFT_64, exp2_64, exp64, float_bits, log64, log_any
from calibrant.kernels.loops.normal import END, ROOT, K, near_mills
from calibrant.kernels.loops.philox import philox

u4 = np.uint32
u8 = np.uint64
WORD = 2.3283064365386963e-10
"""2⁻³²"""

SHIFTED = 0x4338000000000000
"""The bits of SHIFT_64: what they are passed by is the whole number that was added to it."""

CHOICE = u4(1)
"""Last word of the counter where members are chosen; outcomes have 0."""

HALF_LOG2_E = 0.7213475204444817
LOG_2 = 0.6931471805599453
HALF_LOG_TAU = 0.9189385332046727
LOWEST_POWER = -1021.0
HIGHEST_POWER = 1000.0
BUCKETS = 512
"""Equal parts of the range between the outermost edges of a row, each of which knows where to start to look."""


# --------------------------------------------------------------------------------------- what is drawn
@kernel(fastmath={"contract"})
def normal_quantile(word):
    """Φ⁻¹((word + ½)/2³²) with a relative error of 6e-10, free of branches.

    With s = 2u − 1 it is s·g(w), w = −log(1 − s²), and g is smooth: a rational function of our own fits it up to the
    last word. The same variable serves Giles (2012), "Approximating the erfinv function".
    """
    u = (np.float64(word) + 0.5) * WORD
    w = -log64(4.0 * u * (1.0 - u))
    p = 2.557692444924757e-08 * w + 1.2210725501834792e-08
    p = p * w + 3.0894541905930054e-05
    p = p * w + 0.0007867879480534961
    p = p * w + 0.009736882730592502
    p = p * w + 0.07641397694479185
    p = p * w + 0.4052533794335346
    p = p * w + 1.2533141380363946
    q = 8.891920671828523e-10 * w + 1.120908870484992e-07
    q = q * w + -5.392414753971562e-07
    q = q * w + 0.00018686082643109208
    q = q * w + 0.0012702882072743093
    q = q * w + 0.03182466134991486
    q = q * w + 0.06154604740400111
    q = q * w + 1.0
    return (2.0 * u - 1.0) * p / q


@kernel()
def normal_quantiles(words, z):
    """Φ⁻¹ of every word, into z."""
    for k in range(words.size):
        z[k] = normal_quantile(words[k])


@kernel()
def quad_words(k0, k1, purpose, kind, quad, numbers, a, b, c, d):
    """The words of rows 4·quad + 0 … 3 in the replicates of these numbers, into a … d."""
    for k in range(u8(numbers.size)):
        a[k], b[k], c[k], d[k] = philox(u4(quad), numbers[k], purpose, kind, k0, k1)


@kernel()
def choice_words(k0, k1, purpose, replicate, first, out):
    """The words by which rows 4·(first + q) + 0 … 3 of a replicate choose their members, into out[q]."""
    for q in range(out.shape[0]):
        out[q, 0], out[q, 1], out[q, 2], out[q, 3] = philox(u4(first + q), replicate, purpose, CHOICE, k0, k1)


@kernel()
def member_of(word, members):
    """Which of so many members a word means."""
    return u8(u8(word) * u8(members)) >> u8(32)


# ----------------------------------------------------------------------------------------------- levels
@kernel()
def _buckets_of(y, low, scale, buckets):
    """The bucket of every outcome; those outside belong to the first or the last."""
    for k in range(u8(y.size)):
        at = (y[k] - low) * scale
        at = 0.0 if at < 0.0 else at
        at = BUCKETS - 1.0 if at > BUCKETS - 1.0 else at
        buckets[k] = np.int32(at)


@kernel()
def level_row(y, edges, starts, buckets, weight, counts):
    """Add the weight to counts[k, cell], the cell being the number of rising edges that are at most y[k].

    Edges end with +∞, so that no cell lies beyond them. Most buckets hold one edge or none.
    """
    low, high = edges[0], edges[max(edges.size - 3, 0)]  # the last but one: that of the level 1 lies far off
    scale = BUCKETS / (high - low) if high > low else 0.0
    if not scale < np.inf:
        scale = 0.0
    j = 0
    for b in range(starts.size):  # the number of edges that lie in earlier buckets, found as `_buckets_of` does
        while j < edges.size and (edges[j] - low) * scale < b:
            j += 1
        starts[b] = j
    _buckets_of(y, low, scale, buckets)
    for k in range(u8(y.size)):
        v = y[k]
        cell = np.int64(starts[buckets[k]])
        cell += v >= edges[cell]
        while v >= edges[cell]:
            cell += 1
        counts[k, cell] += weight


# ------------------------------------------------------------------------------------------------- sums
@kernel()
def whole(x):
    """The whole number nearest to x, for |x| < 2⁵¹."""
    return float_bits(x + SHIFT_64) - SHIFTED


@kernel()
def add_values(values, weight, bound, scale, sums):
    """Add weight·values to sums, in units of 1/scale; returns what of the last, the observed, lies beyond the bound.

    No replicate lies beyond.
    """
    last = values.size - 1
    factor = weight * scale
    for k in range(u8(last)):
        sums[k] += whole(values[k] * factor)
    inside = min(max(values[last], -bound), bound)
    sums[last] += whole(inside * factor)
    return weight * (values[last] - inside) if weight > 0.0 else 0.0


@kernel(fastmath={"contract"})
def _add_densities(y, mu, inverse, log_inverse, top, total):
    """Add 2^(t − top) to total, 2^t being e^(−z²/2)/σ of one member."""
    for k in range(u8(y.size)):
        z = (y[k] - mu) * inverse
        t = log_inverse - HALF_LOG2_E * z * z - top[k]
        t = LOWEST_POWER if t < LOWEST_POWER else t
        t = HIGHEST_POWER if t > HIGHEST_POWER else t
        total[k] += exp2_64(t)


@kernel(fastmath={"contract"})
def _raise_top(y, mu, inverse, log_inverse, top):
    for k in range(u8(y.size)):
        z = (y[k] - mu) * inverse
        t = log_inverse - HALF_LOG2_E * z * z
        top[k] = t if t > top[k] else top[k]


@kernel()
def _log_densities(y, mu, sd, top, out):
    """−log mean_m N(y; μ_m, σ_m²), by log-sum-exp."""
    members = mu.size
    for k in range(u8(y.size)):
        top[k] = -np.inf
        out[k] = 0.0
    for m in range(members):
        _raise_top(y, mu[m], 1.0 / sd[m], -log_any(sd[m]) / LOG_2, top)
    for m in range(members):
        _add_densities(y, mu[m], 1.0 / sd[m], -log_any(sd[m]) / LOG_2, top, out)
    for k in range(u8(y.size)):
        out[k] = HALF_LOG_TAU - LOG_2 * top[k] - log_any(out[k] / members)


@kernel(fastmath={"contract"})
def _add_losses(y, mu, sd, inverse, out):
    """Add E|X − y| = |d| + 2σR(|d|/σ) of X ~ N(μ, σ²), d = y − μ."""
    for k in range(u8(y.size)):
        d = abs(y[k] - mu)
        x = d * inverse
        x = END if x > END else x
        e = exp64(-0.5 * x * x)
        out[k] += d + sd * e * (2.0 * ROOT - x * near_mills((x - K) / (x + K)))


@kernel()
def _losses(y, mu, sd, out):
    """mean_m E|X_m − y|, X_m ~ N(μ_m, σ_m²)."""
    for k in range(u8(y.size)):
        out[k] = 0.0
    for m in range(mu.size):
        _add_losses(y, mu[m], sd[m], 1.0 / sd[m], out)
    for k in range(u8(y.size)):
        out[k] /= mu.size


# ------------------------------------------------------------------------------------------------- rows
MEAN, MSE, NLL, CRPS, MAE, MAE_MEAN = 0, 1, 2, 3, 4, 5
SUMS_OF_A_ROW = 6


@kernel()
def sum_row(y, mu, sd, facts, weight, bounds, scales, values, top, sums, over):
    """Add a row to the sums (6, R + 1) that have a scale; facts: mean, median, CRPS at the mean."""
    for kind in range(SUMS_OF_A_ROW):
        if scales[kind] == 0.0:
            continue
        centre = facts[1] if kind == MAE else facts[0]
        if kind == MEAN:
            for k in range(u8(y.size)):
                values[k] = y[k] - centre
        elif kind == MSE:
            for k in range(u8(y.size)):
                values[k] = (y[k] - centre) * (y[k] - centre)
        elif kind == NLL:
            _log_densities(y, mu, sd, top, values)
        elif kind == CRPS:
            top[0] = centre  # from the CRPS at the mean: what outcomes differ by needs no pairs of members
            _losses(top[:1], mu, sd, values)
            pairs = values[0] - facts[2]
            _losses(y, mu, sd, values)
            for k in range(u8(y.size)):
                values[k] -= pairs
        else:
            for k in range(u8(y.size)):
                values[k] = abs(y[k] - centre)
        over[kind] = add_values(values, weight, bounds[kind], scales[kind], sums[kind])


@kernel()
def gaussian_rows(
    k0, k1, purpose, first, rows, numbers, segments, mean, std, y, facts, edges, ranks, weights,
    bounds, scales, counts, sums, extremes, over,
):  # fmt: skip
    """Redraw rows of one cell and add them to its tables.

    rows: their numbers, less `first`; numbers: those of the replicates, of member m at segments[m] … segments[m + 1],
    or one segment where each row draws its own. mean, std (n, M), edges (n, E + 1) or (n, 0). ranks: weights in whole
    units. counts (R + 1, E + 1), sums (6, R + 1), extremes (2, R + 1) or (2, 0), over (n, 6).
    """
    count, members = numbers.size, mean.shape[1]
    own = members > 1 and segments.size == 2
    lanes, choice = np.empty((4, count), np.uint32), np.empty((4, count), np.uint32)
    at, values, top = np.empty(count + 1), np.empty(count + 1), np.empty(count + 1)
    z = np.empty(count)
    starts, buckets = np.empty(BUCKETS, np.int32), np.empty(count + 1, np.int32)
    held = np.int64(-1)
    for i in range(rows.size):
        quad, lane = (first + rows[i]) >> 2, (first + rows[i]) & 3
        if quad != held:
            quad_words(k0, k1, purpose, u4(0), quad, numbers, lanes[0], lanes[1], lanes[2], lanes[3])
            if own:
                quad_words(k0, k1, purpose, CHOICE, quad, numbers, choice[0], choice[1], choice[2], choice[3])
            held = quad
        normal_quantiles(lanes[lane], z)
        mu, sd = mean[i], std[i]
        if own:
            words = choice[lane]
            for k in range(u8(count)):
                member = member_of(words[k], members)
                at[k] = mu[member] + sd[member] * z[k]
        else:
            for m in range(members):
                centre, spread = mu[m], sd[m]
                for k in range(u8(segments[m]), u8(segments[m + 1])):
                    at[k] = centre + spread * z[k]
        at[count] = y[i]
        if edges.shape[1]:
            level_row(at, edges[i], starts, buckets, ranks[i], counts)
        if extremes.shape[1] and weights[i] > 0.0:
            low, high = extremes[0], extremes[1]
            for k in range(u8(at.size)):
                low[k] = at[k] if at[k] < low[k] else low[k]
                high[k] = at[k] if at[k] > high[k] else high[k]
        if sums.shape[1]:
            sum_row(at, mu, sd, facts[i], weights[i], bounds, scales, values, top, sums, over[i])
