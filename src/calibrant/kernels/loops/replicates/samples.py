"""Statistics of every value of a row against all others: the S samples and the outcome, S + 1 values in one pool.

Of value j: below = #{v_k < v_j} and ties = #{v_k = v_j}, k ≠ j, are its place among the other S; with
A_j = Σ_k |v_k − v_j| and P = ½ΣA the mean distance from the others is A_j/S, and that of their pairs (P − A_j)/…
"""

import numpy as np

from calibrant.kernels.jit import kernel
from calibrant.kernels.loops.philox import philox
from calibrant.kernels.loops.replicates.regression import member_of, whole

u4 = np.uint32
u8 = np.uint64
MEAN, MSE, CRPS, CRPS_PLAIN, MAE, MAE_MEAN = 0, 1, 2, 3, 4, 5
SUMS_OF_A_ROW = 6


@kernel()
def _places(pool, order, below, ties, losses):
    """below, ties and A of every value, from the order of the pool; returns P. Sums are about the middle value."""
    size = pool.size
    middle = pool[order[size // 2]]
    total = 0.0
    for i in range(size):
        total += pool[order[i]] - middle
    before, pairs, i = 0.0, 0.0, 0
    while i < size:
        v, end = pool[order[i]], i + 1
        while end < size and pool[order[end]] == v:
            end += 1
        d = v - middle
        loss = (i * d - before) + (total - before - (size - i) * d)
        for k in range(i, end):
            j = order[k]
            below[j], ties[j], losses[j] = i, end - i - 1, loss
        pairs += (end - i) * loss
        before += (end - i) * d
        i = end
    return 0.5 * pairs


@kernel()
def _sums_of(kind, pool, order, losses, pairs, out):
    """A statistic of every value against the others, the mean being about the first value of the pool."""
    size, others = pool.size, pool.size - 1
    total = 0.0
    for j in range(size):
        total += pool[j] - pool[0]
    rank = (others + 1) // 2 - 1
    low, high = pool[order[rank]], pool[order[rank + 1]]
    for j in range(size):
        d = pool[j] - pool[0]
        away = (total - d) / others - d
        if kind == MEAN:
            out[j] = d
        elif kind == MSE:
            out[j] = away * away
        elif kind == MAE_MEAN:
            out[j] = abs(away)
        elif kind == MAE:
            out[j] = abs((high if pool[j] <= low else low) - pool[j])
        else:
            count = others * (others - 1.0) if kind == CRPS else others * (others + 0.0)
            out[j] = losses[j] / others - (pairs - losses[j]) / count


@kernel()
def _count(chosen, below, ties, bins, starts, weight, counts):
    """Add the weight of a row to the bins of the places that each replicate's value has, spread evenly over them."""
    for k in range(chosen.size):
        first, width = below[chosen[k]], ties[chosen[k]] + 1
        b = bins[first]
        if width == 1:
            counts[k, b] += weight
            continue
        at, end = first, first + width
        while at < end:
            after = min(starts[b + 1], end)
            counts[k, b] += np.int64(np.rint(weight * ((after - at) / width)))
            at = after
            b += 1


@kernel()
def sample_rows(
    k0, k1, purpose, first, rows, own, chosen, pool, order, bins, starts, ends, weights, ranks,
    scales, counts, inside, sums, extremes,
):  # fmt: skip
    """Add rows of one cell to its tables, each replicate with the value that it takes, the observed last.

    pool and its order (n, S + 1), the outcome last. own: every row chooses for itself, else `chosen` (R + 1) stands.
    bins (S + 1): the bin of each place; starts: the first place of each bin, and S + 1. ends (P, 2): order statistics
    of central intervals. counts (R + 1, B), inside (P, R + 1), sums (6, R + 1), extremes (2, R + 1), or empty.
    """
    size = pool.shape[1]
    below, ties = np.empty(size, np.int64), np.empty(size, np.int64)
    losses, values = np.empty(size), np.empty(size)
    for i in range(rows.size):
        if own:
            row, lane = first + rows[i], (first + rows[i]) & 3
            for k in range(chosen.size - 1):
                a, b, c, d = philox(u4(row >> 2), u4(k), purpose, u4(0), k0, k1)
                word = a if lane == 0 else (b if lane == 1 else (c if lane == 2 else d))
                chosen[k] = member_of(word, size - 1)
        pairs = _places(pool[i], order[i], below, ties, losses)
        if counts.size:
            _count(chosen, below, ties, bins, starts, ranks[i], counts)
        for p in range(ends.shape[0]):
            for k in range(chosen.size):
                j = chosen[k]
                if below[j] + ties[j] > ends[p, 0] and below[j] <= ends[p, 1]:
                    inside[p, k] += ranks[i]
        for kind in range(SUMS_OF_A_ROW):
            if scales[kind] > 0.0:
                _sums_of(kind, pool[i], order[i], losses, pairs, values)
                for k in range(chosen.size):
                    sums[kind, k] += whole(values[chosen[k]] * (weights[i] * scales[kind]))
        if extremes.shape[1] and weights[i] > 0.0:
            for k in range(chosen.size):
                v = pool[i, chosen[k]]
                extremes[0, k] = min(v, extremes[0, k])
                extremes[1, k] = max(v, extremes[1, k])
