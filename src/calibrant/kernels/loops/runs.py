"""Loops over runs of equal p, or other cells in rising order: isotonic fits, Laplace kernels, sweeps over bins."""

import numpy as np

from calibrant.kernels.jit import kernel

ROUNDING = 2.0**-50
"""Share of the whole by which a sum may be off: what is closer counts as equal, whatever the unit of weights."""


@kernel()
def pool(weights, sums, start, stop):
    """Replace the sums (R, K) of replicates start … stop by the means of the rising fit of sums/weights."""
    size = weights.size
    total, mass = np.empty(size), np.empty(size)
    last = np.empty(size, np.int64)
    for r in range(start, stop):
        blocks = 0
        for k in range(size):
            total[blocks], mass[blocks], last[blocks] = sums[r, k], weights[k], k
            blocks += 1
            while blocks > 1 and total[blocks - 2] * mass[blocks - 1] >= total[blocks - 1] * mass[blocks - 2]:
                total[blocks - 2] += total[blocks - 1]
                mass[blocks - 2] += mass[blocks - 1]
                last[blocks - 2] = last[blocks - 1]
                blocks -= 1
        first = 0
        for b in range(blocks):
            mean = total[b] / mass[b]
            for k in range(first, last[b] + 1):
                sums[r, k] = mean
            first = last[b] + 1


@kernel()
def near_runs(x, share, out):
    """Replace sorted x by the first of its run: values that exceed it by no more than a share of themselves."""
    first = x[0]
    for i in range(x.size):
        if x[i] - first > share * x[i]:
            first = x[i]
        out[i] = first


@kernel()
def laplace_norms(p, w, wy, decay, fresh, of_hits, of_misses, out, start, stop):
    """out[r] = gᵀKg, g = of_hits[r]·wy[r](1 − p) − of_misses[r]·(w − wy[r])p, K_ab = exp(−|p_a − p_b|/scale).

    h_k = g_k + decay_k h_{k−1} is what has gathered up to k, fresh_k = 1 − decay²_{k+1} (1 at the last point):
    gᵀKg = Σ_k fresh_k h_k².
    """
    for r in range(start, stop):
        hit, miss = of_hits[r], of_misses[r]
        gathered = total = 0.0
        for k in range(p.size):
            gap = hit * (wy[r, k] * (1.0 - p[k])) - miss * ((w[k] - wy[r, k]) * p[k])
            gathered = gap + decay[k] * gathered
            total += fresh[k] * gathered * gathered
        out[r] = total


# ------------------------------------------------------------------------------- numbers of equal-mass bins
# Gap g lies after run g; below[g] is the weight under it, the last is all. Prefix sums have a leading 0: runs i … j − 1
# sum to prefix[j] − prefix[i].
@kernel()
def prefix_sums(values, out):
    """Running sums that carry their rounding errors along (Neumaier), so that each is right to the last digit or so."""
    total = lost = out[0] = 0.0
    for k in range(values.size):
        value = values[k]
        grown = total + value
        lost += (total - grown) + value if abs(total) >= abs(value) else (value - grown) + total
        total = grown
        out[k + 1] = total + lost


@kernel()
def falls(mass, hits, first, middle, last):
    """Whether runs first … middle − 1 have a higher mean outcome than runs middle … last − 1."""
    left = mass[middle] - mass[first]
    right = mass[last] - mass[middle]
    cross = (hits[middle] - hits[first]) * right - (hits[last] - hits[middle]) * left
    return cross > ROUNDING * mass[mass.size - 1] * (left + right)


@kernel()
def cut(below, bins, j):
    """The gap nearest to j/bins of the weight; −1 for j = 0, the last for j = bins."""
    runs = below.size
    if j <= 0:
        return -1
    if j >= bins:
        return runs - 1
    target = below[runs - 1] * j / bins
    right = min(np.searchsorted(below[: runs - 1], target), runs - 2)
    left = max(right - 1, 0)
    return left if abs(below[left] - target) <= abs(below[right] - target) else right


@kernel()
def next_cut(below, bins, j, gap):
    """The first j' > j whose cut lies beyond the gap, and this cut."""
    if gap + 1 < below.size - 1:
        boundary = 0.5 * (below[max(gap, 0)] + below[gap + 1]) if gap >= 0 else 0.0
        j = max(j, int(boundary / below[below.size - 1] * bins) - 1)
    else:
        j = bins - 1
    j += 1
    found = cut(below, bins, j)
    while found <= gap:
        j += 1
        found = cut(below, bins, j)
    return j, found


@kernel()
def pools(mass, hits, starts):
    """Pools of adjacent violators: starts[q] is the first run of pool q; the number of pools.

    At a cut between pools the bins on both sides are in order, however far they reach: what ends a pool lies at or
    below its mean, what begins one at or above. Only cuts inside pools have to be looked at.
    """
    count = 0
    for run in range(mass.size - 1):
        starts[count] = run
        count += 1
        while count > 1 and falls(mass, hits, starts[count - 2], starts[count - 1], run + 1):
            count -= 1
    starts[count] = mass.size - 1
    return count


@kernel()
def in_order(below, mass, hits, bins, first, last):
    """Whether the bins on both sides of every cut inside the pool of runs first … last have rising outcomes."""
    j = 0
    if first > 0:
        boundary = 0.5 * (below[first - 1] + below[first])
        j = max(int(boundary / below[below.size - 1] * bins) - 1, 0)
    before = cut(below, bins, j)
    while before >= first:  # rounding may have put the start too far
        j -= 1
        before = cut(below, bins, j)
    j, gap = next_cut(below, bins, j, before)
    while gap < last:
        j, after = next_cut(below, bins, j, gap)
        if gap >= first and falls(mass, hits, before + 1, gap + 1, after + 1):
            return False
        before, gap = gap, after
    return True


@kernel()
def rising_bins(below, mass, hits, most):
    """The largest b up to `most` such that equal-mass bins have non-decreasing mean outcomes for every b' ≤ b."""
    runs = below.size
    starts = np.empty(runs + 1, np.int64)
    count = pools(mass, hits, starts)
    wide = 0  # pools of one run have no cut inside
    ends = np.empty(count, np.int64)
    for q in range(count):
        if starts[q + 1] - starts[q] > 1:
            starts[wide], ends[wide] = starts[q], starts[q + 1] - 1
            wide += 1
    if wide == 0:
        return min(runs, most)
    for bins in range(2, min(runs, most) + 1):
        if wide > bins and not in_order(below, mass, hits, bins, 0, runs - 1):
            return bins - 1
        for q in range(wide if wide <= bins else 0):
            if not in_order(below, mass, hits, bins, starts[q], ends[q]):
                return bins - 1
    return min(runs, most)


@kernel()
def binned_gap(below, mass, expected, hits, bins, order):
    """(Σ_b share_b |gap_b|^order)^(1/order) over equal-mass bins."""
    total = 0.0
    j, before = 0, -1
    while j < bins:
        j, gap = next_cut(below, bins, j, before)
        share = mass[gap + 1] - mass[before + 1]
        error = abs((hits[gap + 1] - hits[before + 1]) - (expected[gap + 1] - expected[before + 1]))
        if share > 0.0:
            total += error if order == 1.0 else share * (error / share) ** order
        before = gap
    value = total / mass[mass.size - 1]
    return value if order == 1.0 else value ** (1.0 / order)
