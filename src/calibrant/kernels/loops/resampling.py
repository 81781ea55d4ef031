"""Resampled statistics: a row's random word belongs to (seed, purpose, replicate, row), never to a place in a loop.

Sums of many columns under resampling of units, or under random signs of them, have the same draws for every column.
Units are taken in tiles that stay in the cache while all replicates pass over them; within a replicate they are added
in their order, so that the sums do not depend on threads, which share out replicates.
"""

import numpy as np

from calibrant.kernels.jit import kernel
from calibrant.kernels.loops.philox import fill_words, philox

u4 = np.uint32
u8 = np.uint64
i8 = np.int64
POISSON_CDF = np.array(
    [
        0.36787944117144233, 0.73575888234288467, 0.91969860292860584, 0.98101184312384626,
        0.99634015317265634, 0.99940581518241833, 0.99991675885071196, 0.99998975080332539,
        0.99999887479740204, 0.99999988857452171, 0.99999998995223362,
    ]
)  # fmt: skip
POISSON_WORDS = np.floor(POISSON_CDF * 2.0**32).astype(np.uint32)
P0, P1, P2, P3, P4, P5, P6, P7, P8, P9, P10 = (u4(word) for word in POISSON_WORDS)
TILE = 128
"""Units that one call of Philox gives signs to: four words of 32 bits."""
BINOMIAL_TABLE = 256
"""Entries of a table: cells whose variance is below 30 need no more beyond their mean."""


@kernel()
def _words(k0, k1, purpose, replicate, lanes, words):
    """The words of rows 0 … n in order; `lanes` (4, ceil(n/4)) is scratch."""
    fill_words(k0, k1, purpose, u4(replicate), i8(0), lanes[0], lanes[1], lanes[2], lanes[3])
    for i in range(words.size):
        words[i] = lanes[i & 3, i >> 2]


@kernel()
def bernoulli_bins(k0, k1, purpose, thresholds, bins, weights, sums, start, stop):
    """sums[r, b] = Σ of the weights of the rows of bin b whose word lies below their threshold, in replicate r."""
    n = thresholds.size
    lanes = np.empty((4, (n + 3) // 4), np.uint32)
    words = np.empty(n, np.uint32)
    for r in range(start, stop):
        _words(k0, k1, purpose, r, lanes, words)
        total = sums[r]
        for i in range(n):
            total[bins[i]] += weights[i] if words[i] < thresholds[i] else 0.0


@kernel()
def _below(words, thresholds, lane, start, stop):
    """How many words of a lane lie below their threshold; indices without a sign let it use vectors."""
    count = np.int32(0)
    for q in range(u8(start), u8(stop)):
        count += np.int32(words[lane, q] < thresholds[lane, q])
    return count


@kernel()
def bernoulli_runs(k0, k1, purpose, thresholds, edges, sums, start, stop):
    """The same where bin b holds the rows edges[b] … edges[b + 1], each of weight 1: no row is looked at alone.

    thresholds (4, ceil(n/4)) lie as the words do, that of row i at [i mod 4, i // 4].
    """
    lanes = np.empty(thresholds.shape, np.uint32)
    for r in range(start, stop):
        fill_words(k0, k1, purpose, u4(r), i8(0), lanes[0], lanes[1], lanes[2], lanes[3])
        for b in range(edges.size - 1):
            hits = 0
            for lane in range(4):
                first, last = (edges[b] - lane + 3) // 4, (edges[b + 1] - lane + 3) // 4
                hits += _below(lanes, thresholds, lane, first, last)
            sums[r, b] = hits


@kernel()
def poisson_counts(k0, k1, purpose, replicate, lanes, words, counts):
    """Poisson(1) counts of every unit in one replicate: how many words of the table lie at or below its word."""
    _words(k0, k1, purpose, replicate, lanes, words)
    for i in range(words.size):
        count = 0
        for j in range(POISSON_WORDS.size):
            count += words[i] >= POISSON_WORDS[j]
        counts[i] = count


@kernel()
def draw_weights(k0, k1, purpose, replicate, scratch, weights, unit, drawn):
    """The weights of one replicate: each times the Poisson count of its unit."""
    lanes, words, counts = scratch
    poisson_counts(k0, k1, purpose, replicate, lanes, words, counts)
    for i in range(weights.size):
        drawn[i] = weights[i] * counts[unit[i]]


@kernel()
def scratch_of(n_units):
    """Room for the words and counts of units."""
    lanes = np.empty((4, (n_units + 3) // 4), np.uint32)
    return lanes, np.empty(n_units, np.uint32), np.empty(n_units, np.int64)


@kernel()
def ranking(positive, tied, weights):
    """ROC AUC and average precision of rows sorted by falling score; tied[i]: row i + 1 has the same score."""
    all_positive = all_negative = 0.0
    for i in range(positive.size):
        if positive[i]:
            all_positive += weights[i]
        else:
            all_negative += weights[i]
    if all_positive <= 0.0 or all_negative <= 0.0:
        return np.nan, np.nan
    above = seen = 0.0  # weight of positives, and of all rows, seen before this run of ties
    pairs = precision = run_positive = run_negative = 0.0
    for i in range(positive.size):
        if positive[i]:
            run_positive += weights[i]
        else:
            run_negative += weights[i]
        if not tied[i]:
            pairs += run_negative * (above + 0.5 * run_positive)
            above += run_positive
            seen += run_positive + run_negative
            if run_positive > 0.0:
                precision += run_positive * above / seen
            run_positive = run_negative = 0.0
    return pairs / (all_positive * all_negative), precision / all_positive


@kernel()
def ranking_replicates(k0, k1, purpose, positive, tied, weights, unit, n_units, out, start, stop):
    """ROC AUC and average precision of Poisson-resampled units, into out[r]."""
    scratch, drawn = scratch_of(n_units), np.empty(positive.size)
    for r in range(start, stop):
        draw_weights(k0, k1, purpose, r, scratch, weights, unit, drawn)
        out[r, 0], out[r, 1] = ranking(positive, tied, drawn)


# ------------------------------------------------------------------------------- many columns at once
@kernel()
def _poisson(words, counts):
    """Poisson(1) counts by inversion; written out, for a loop over the table would stop the vectors."""
    for q in range(words.size):
        w = words[q]
        some = u4(w >= P0) + u4(w >= P1) + u4(w >= P2) + u4(w >= P3) + u4(w >= P4) + u4(w >= P5)
        counts[q] = u4(some + u4(w >= P6) + u4(w >= P7) + u4(w >= P8) + u4(w >= P9) + u4(w >= P10))


@kernel(fastmath={"contract"})
def _add(times, x, u, out, r):
    for c in range(u8(x.shape[1])):
        out[r, c] += times * x[u, c]


@kernel(fastmath={"contract"})
def _add_two(one, two, x, u, v, out, r):
    for c in range(u8(x.shape[1])):
        out[r, c] += one * x[u, c] + two * x[v, c]


@kernel()
def poisson_sums(k0, k1, purpose, x, first, out, start, stop):
    """out[r] += Σ_u count·x[u], the count of unit first + u in replicate r being Poisson(1); 4 divides `first`."""
    lanes = np.empty((4, TILE // 4), np.uint32)
    counts = np.empty((4, TILE // 4), np.uint32)
    drawn = np.empty(TILE, np.int64)
    for base in range(0, x.shape[0], TILE):
        some = min(TILE, x.shape[0] - base)
        for r in range(start, stop):
            fill_words(k0, k1, purpose, u4(r), (first + base) // 4, lanes[0], lanes[1], lanes[2], lanes[3])
            for lane in range(4):
                _poisson(lanes[lane], counts[lane])
            many = 0
            for u in range(some):
                drawn[many] = u
                many += counts[u & 3, u >> 2] > 0
            for k in range(0, many - 1, 2):
                u, v = drawn[k], drawn[k + 1]
                one, two = np.float64(counts[u & 3, u >> 2]), np.float64(counts[v & 3, v >> 2])
                _add_two(one, two, x, u8(base + u), u8(base + v), out, u8(r))
            if many & 1:
                u = drawn[many - 1]
                _add(np.float64(counts[u & 3, u >> 2]), x, u8(base + u), out, u8(r))


@kernel()
def signed_sums(k0, k1, purpose, x, first, out, start, stop):
    """out[r] += Σ_u ±x[u]: the sign of unit first + u is bit u mod 32 of word u // 32; TILE divides `first`."""
    words = np.empty(4, np.uint32)
    for base in range(0, x.shape[0], TILE):
        some = min(TILE, x.shape[0] - base)
        for r in range(start, stop):
            words[0], words[1], words[2], words[3] = philox(u4((first + base) // TILE), u4(r), purpose, u4(0), k0, k1)
            for u in range(0, some - 1, 2):
                bits = words[u >> 5] >> u4(u & 31)
                one = 1.0 - 2.0 * np.float64(bits & u4(1))
                two = 1.0 - 2.0 * np.float64((bits >> u4(1)) & u4(1))
                _add_two(one, two, x, u8(base + u), u8(base + u + 1), out, u8(r))
            if some & 1:
                last = some - 1
                sign = 1.0 - 2.0 * np.float64((words[last >> 5] >> u4(last & 31)) & u4(1))
                _add(sign, x, u8(base + last), out, u8(r))


# ----------------------------------------------------------------------------------- binomial numbers
@kernel()
def _binomial_cdf(n, q, cdf):
    """P(X ≤ k) of n trials of q ≤ ½, for k = 0, 1, … until all but 1e-12 is reached; returns how many."""
    term = (1.0 - q) ** n
    total = term
    cdf[0] = total
    k = 0
    while total < 1.0 - 1e-12 and k < min(n, BINOMIAL_TABLE - 1):
        term *= (n - k) / (k + 1.0) * q / (1.0 - q)
        k += 1
        total += term
        cdf[k] = total
    return k + 1


@kernel()
def binomial_counts(rows, p, skip, u):
    """u[r, k] becomes the smallest count whose distribution function exceeds it."""
    cdf = np.empty(BINOMIAL_TABLE)
    for k in range(p.size):
        if skip[k]:
            continue
        flipped = p[k] > 0.5
        q = 1.0 - p[k] if flipped else p[k]
        size = _binomial_cdf(rows[k], q, cdf)
        for r in range(u.shape[0]):
            count = 0
            while count < size - 1 and u[r, k] >= cdf[count]:
                count += 1
            u[r, k] = rows[k] - count if flipped else count


# ------------------------------------------------------------------------------ correlated numbers
NO_VARIANCE = 1e-8
"""Share of a variance up to which what is left of it is rounding."""
REPLICATES = 16
"""Replicates that are multiplied by a matrix at a time, as lanes of vectors."""


@kernel()
def semidefinite_root(a):
    """Replace the lower triangle of a covariance a by that of L with a = L·Lᵀ (Cholesky); the rest of a stays.

    A variable that is a combination of those before it has no column.
    """
    column, least = np.empty(len(a)), np.empty(len(a))
    for j in range(len(a)):
        least[j] = NO_VARIANCE * a[j, j]
    for j in range(len(a)):
        root = np.sqrt(a[j, j]) if a[j, j] > least[j] else 0.0
        for i in range(j, len(a)):
            column[i] = a[i, j] / root if root > 0.0 else 0.0
            a[i, j] = column[i]
        for i in range(j + 1, len(a)):
            for k in range(j + 1, i + 1):
                a[i, k] -= column[i] * column[k]


@kernel()
def mix(root, z):
    """Replace each row of z by L·row, L being the lower triangle of `root`; terms are added in the order of the row."""
    tile, total = np.zeros((len(root), REPLICATES)), np.empty(REPLICATES)
    for first in range(0, len(z), REPLICATES):
        some = min(REPLICATES, len(z) - first)
        for r in range(some):
            for j in range(len(root)):
                tile[j, r] = z[first + r, j]
        for k in range(len(root)):
            for r in range(REPLICATES):
                total[r] = 0.0
            for j in range(k + 1):
                x, row = root[k, j], tile[j]
                for r in range(REPLICATES):
                    total[r] += x * row[r]
            for r in range(some):
                z[first + r, k] = total[r]
