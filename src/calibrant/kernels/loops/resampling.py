"""Resampled statistics: a row's random word belongs to (seed, purpose, replicate, row), never to a place in a loop."""

import numpy as np

from calibrant.kernels.jit import kernel
from calibrant.kernels.loops.philox import fill_words

u4 = np.uint32
u8 = np.uint64
POISSON_CDF = np.array(
    [
        0.36787944117144233, 0.73575888234288467, 0.91969860292860584, 0.98101184312384626,
        0.99634015317265634, 0.99940581518241833, 0.99991675885071196, 0.99998975080332539,
        0.99999887479740204, 0.99999988857452171, 0.99999998995223362,
    ]
)  # fmt: skip
POISSON_WORDS = np.floor(POISSON_CDF * 2.0**32).astype(np.uint32)


@kernel()
def _words(k0, k1, purpose, replicate, lanes, words):
    """The words of rows 0 … n in order; `lanes` (4, ceil(n/4)) is scratch."""
    fill_words(k0, k1, purpose, u4(replicate), 0, lanes[0], lanes[1], lanes[2], lanes[3])
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
        fill_words(k0, k1, purpose, u4(r), 0, lanes[0], lanes[1], lanes[2], lanes[3])
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
def ranking(positive, tied, weights):
    """ROC AUC and average precision of rows sorted by falling score; tied[i]: row i + 1 has the same score."""
    all_positive = 0.0
    all_negative = 0.0
    for i in range(positive.size):
        if positive[i]:
            all_positive += weights[i]
        else:
            all_negative += weights[i]
    if all_positive <= 0.0 or all_negative <= 0.0:
        return np.nan, np.nan
    above = 0.0  # weight of positives seen before this run of ties
    seen = 0.0
    pairs = 0.0
    precision = 0.0
    run_positive = 0.0
    run_negative = 0.0
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
            run_positive = 0.0
            run_negative = 0.0
    return pairs / (all_positive * all_negative), precision / all_positive


@kernel()
def ranking_replicates(k0, k1, purpose, positive, tied, weights, unit, n_units, out, start, stop):
    """ROC AUC and average precision of Poisson-resampled units, into out[r]."""
    lanes = np.empty((4, (n_units + 3) // 4), np.uint32)
    words = np.empty(n_units, np.uint32)
    counts = np.empty(n_units, np.int64)
    drawn = np.empty(positive.size)
    for r in range(start, stop):
        poisson_counts(k0, k1, purpose, r, lanes, words, counts)
        for i in range(positive.size):
            drawn[i] = weights[i] * counts[unit[i]]
        out[r, 0], out[r, 1] = ranking(positive, tied, drawn)
