"""Scores of normals and of equally weighted mixtures of them, a tile of W rows at a time; then those of samples.

In a tile the lanes of a vector are rows. What a tile needs lies in one flat array, W numbers each at a fixed place, so
that the compiler sees without checks at run time that they do not overlap. Each row goes through the same operations
wherever it lies: the last tile is filled up with copies of its last row.
"""

import math

import numpy as np

from calibrant.kernels.jit import SUMS, kernel
from calibrant.kernels.loops.floats import LOWEST_64, at_least_lowest, bits_float, exp64, float_bits, log_any
from calibrant.kernels.loops.normal import K, near_mills, tail_and_loss

W = 128
"""Rows in a tile: enough of each member at a time for memory to be read in streams."""

HALF_LOG_TAU = 0.9189385332046727
"""½ log 2π"""

ROOT_PI = 0.5641895835477563
"""1/√π"""

K_ROOT_HALF = K * math.sqrt(0.5)
TINIEST = 1e-300
"""Added to variances in units of the row, so that none is 0."""

LEAST = -1.7976931348623157e308
"""Below every finite number."""

LANE_COUNTS = 4
"""Counters of a cell that rows take in turn: one that is added to twice in a row has to be waited for."""

# Places in the lanes of a tile.
Y, TOP, SUM, LOSS, PIT, UNIT = 0, W, 2 * W, 3 * W, 4 * W, 5 * W
LANES = 6 * W


@kernel()
def take(x, first, rows, lanes, at):
    """Copy x[first … first + rows] to W lanes from `at` on; lanes without a row repeat the last one."""
    part, to = x[first : first + rows], lanes[at : at + W]
    if rows == W:
        for j in range(W):
            to[j] = part[j]
    else:
        for j in range(W):
            to[j] = part[min(j, rows - 1)]


@kernel()
def give(lanes, at, first, rows, out):
    """Copy W lanes, or as many as there are rows, to `out`; an empty `out` takes none."""
    if out.size:
        part, to = lanes[at : at + W], out[first : first + rows]
        for j in range(rows):
            to[j] = part[j]


@kernel(fastmath={"contract"})
def gaussian_rows(y, mean, std, nll, crps, pit, start, stop):
    """Negative log density, CRPS and Φ(z) of N(mean, std²) at y, z = (y − mean)/std; an empty output is not wanted.

    CRPS = |y − mean| + std·(2R(|z|) − 1/√π) with the normal loss R (Gneiting & Raftery 2007, section 4.2).
    """
    lanes = np.empty(5 * W)
    for first in range(start, stop, W):
        rows = min(W, stop - first)
        take(y, first, rows, lanes, 0)
        take(mean, first, rows, lanes, W)
        take(std, first, rows, lanes, 2 * W)
        if nll.size:
            for j in range(W):
                z = (lanes[j] - lanes[W + j]) / lanes[2 * W + j]
                lanes[3 * W + j] = 0.5 * z * z + log_any(lanes[2 * W + j]) + HALF_LOG_TAU
            give(lanes, 3 * W, first, rows, nll)
        if crps.size or pit.size:
            for j in range(W):
                d = lanes[j] - lanes[W + j]
                x = abs(d) / lanes[2 * W + j]
                q, r = tail_and_loss(x)
                lanes[3 * W + j] = abs(d) + lanes[2 * W + j] * (2.0 * r - ROOT_PI)
                lanes[4 * W + j] = q if d < 0.0 else 1.0 - q
            give(lanes, 3 * W, first, rows, crps)
            give(lanes, 4 * W, first, rows, pit)


@kernel(fastmath={"contract"})
def _log_densities(mu, sd, terms, lanes, members):
    """−log mean_m N(y; μ_m, σ_m²) to SUM, by log-sum-exp: only an overflow of z² can make it infinite."""
    for j in range(W):
        lanes[TOP + j] = LEAST
        lanes[SUM + j] = 0.0
    for m in range(members):
        for j in range(W):
            z = (lanes[Y + j] - mu[m, j]) / sd[m, j]
            terms[m, j] = -0.5 * z * z - log_any(sd[m, j])
        for j in range(W):
            lanes[TOP + j] = terms[m, j] if terms[m, j] > lanes[TOP + j] else lanes[TOP + j]
    for m in range(members):
        for j in range(W):
            d = terms[m, j] - lanes[TOP + j]
            e = exp64(at_least_lowest(d))
            lanes[SUM + j] += 0.0 if d < LOWEST_64 else e
    for j in range(W):
        total = lanes[SUM + j]
        value = HALF_LOG_TAU - lanes[TOP + j] - log_any(total / members)
        lanes[SUM + j] = value if total > 0.0 else np.inf - total


@kernel(fastmath={"contract"})
def _members(mu, sd, lanes, members):
    """Means over the members of A(μ_m − y, σ_m²) and of Φ, to LOSS and PIT."""
    for j in range(W):
        lanes[LOSS + j] = lanes[PIT + j] = 0.0
    for m in range(members):
        for j in range(W):
            d = lanes[Y + j] - mu[m, j]
            s = sd[m, j]
            x = abs(d) / s
            q, r = tail_and_loss(x)
            lanes[LOSS + j] += abs(d) + 2.0 * s * r
            lanes[PIT + j] += q if d < 0.0 else 1.0 - q
    for j in range(W):
        lanes[LOSS + j] /= members
        lanes[PIT + j] /= members


@kernel(fastmath={"contract"})
def _rescale(mu, sd, lanes, members):
    """Turn μ and σ into (μ − y)·unit and 2σ²·unit², the unit a power of two near 1/max(|μ − y|, σ), to UNIT.

    Squares then neither overflow nor matter where they underflow. SUM gets Σσ·unit/√π, the pairs of a member with
    itself.
    """
    for j in range(W):
        lanes[TOP + j] = lanes[SUM + j] = 0.0
    for m in range(members):
        for j in range(W):
            d = abs(mu[m, j] - lanes[Y + j])
            larger = d if d > sd[m, j] else sd[m, j]
            lanes[TOP + j] = larger if larger > lanes[TOP + j] else lanes[TOP + j]
    for j in range(W):
        left = 2046 - (float_bits(lanes[TOP + j]) >> 52)
        lanes[UNIT + j] = bits_float((left if left > 1 else 1) << 52)
    for m in range(members):
        for j in range(W):
            s = sd[m, j] * lanes[UNIT + j]
            lanes[SUM + j] += ROOT_PI * s
            mu[m, j] = (mu[m, j] - lanes[Y + j]) * lanes[UNIT + j]
            sd[m, j] = 2.0 * s * s + TINIEST


@kernel(fastmath={"contract"})
def _pairs(mu, twice, lanes, members):
    """Add Σ_{m<k} A(μ_m − μ_k, σ_m² + σ_k²) to SUM, with 2σ² given; each k has a sum of its own (TOP) against rounding.

    A(d, s²) = |d| + 2s·R(|d|/s) = |d| + e^(−d²/2s²)·(2s/√(2π) − 2|d|·m), with m at t = (|d| − Ks)/(|d| + Ks).
    """
    for k in range(1, members):
        for j in range(W):
            lanes[TOP + j] = 0.0
        for m in range(k):
            for j in range(W):
                d = abs(mu[m, j] - mu[k, j])
                v = twice[m, j] + twice[k, j]
                s = math.sqrt(v)
                e = exp64(at_least_lowest(-d * d / v))
                t = (d - K_ROOT_HALF * s) / (d + K_ROOT_HALF * s)
                lanes[TOP + j] += d + e * (ROOT_PI * s - d * near_mills(t))
        for j in range(W):
            lanes[SUM + j] += lanes[TOP + j]


@kernel()
def mixture_rows(y, mean, std, nll, crps, pit, start, stop):
    """The same of the mixture of N(mean[m], std[m]²), the members m weighing alike; mean and std are (M, N).

    CRPS = mean_m A(μ_m − y, σ_m²) − ½ mean_{m,k} A(μ_m − μ_k, σ_m² + σ_k²), A(d, s²) = |d| + 2s·R(|d|/s)
    (Grimit, Gneiting, Berrocal & Johnson 2006), each pair once. The PIT is mean_m Φ.
    """
    members = mean.shape[0]
    mu, sd, terms = np.empty((members, W)), np.empty((members, W)), np.empty((members, W))
    lanes = np.empty(LANES)
    for first in range(start, stop, W):
        rows = min(W, stop - first)
        take(y, first, rows, lanes, Y)
        for m in range(members):
            take(mean[m], first, rows, mu[m], 0)
            take(std[m], first, rows, sd[m], 0)
        if nll.size:
            _log_densities(mu, sd, terms, lanes, members)
            give(lanes, SUM, first, rows, nll)
        if crps.size or pit.size:
            _members(mu, sd, lanes, members)
            give(lanes, PIT, first, rows, pit)
        if crps.size:
            _rescale(mu, sd, lanes, members)
            _pairs(mu, sd, lanes, members)
            for j in range(W):
                lanes[LOSS + j] -= lanes[SUM + j] / (members * members) / lanes[UNIT + j]
            give(lanes, LOSS, first, rows, crps)


@kernel(fastmath=SUMS)
def moment_rows(x, mean, variance, start, stop):
    """Mean and unbiased variance (divisor S − 1) of each row of x (n, S), in two passes.

    The mean is taken about the first value, so that equal values have themselves as mean and 0 as variance.
    """
    count = x.shape[1]
    for i in range(start, stop):
        first, total = np.float64(x[i, 0]), 0.0
        for k in range(count):
            total += x[i, k] - first
        centre = first + total / count
        squares, rest = 0.0, 0.0
        for k in range(count):
            d = x[i, k] - centre
            squares += d * d
            rest += d
        mean[i] = centre
        variance[i] = (squares - rest * rest / count) / (count - 1)


@kernel(fastmath=SUMS)
def sample_rows(x, y, error, spread, below, ties, start, stop):
    """What the CRPS and the PIT need of each row of x (n, S), which must be sorted.

    error = mean_j |x_j − y|, spread = Σ_{j<k} |x_j − x_k|, below = #{x_j < y}, ties = #{x_j = y}. The CRPS is
    error − spread/S², its fair form error − spread/(S(S − 1)) (Ferro 2014). With the j-th of the sorted values,
    spread = Σ_j (2j − S + 1)·(x_j − median), j from 0: no term is negative, so nothing cancels.
    """
    count = x.shape[1]
    for i in range(start, stop):
        middle = np.float64(x[i, count // 2])
        apart, away = 0.0, 0.0
        fewer, equal = 0, 0
        for k in range(count):
            v = np.float64(x[i, k])
            apart += (2 * k - count + 1) * (v - middle)
            away += abs(v - y[i])
            fewer += v < y[i]
            equal += v == y[i]
        error[i], spread[i] = away / count, apart
        below[i], ties[i] = fewer, equal


@kernel()
def count_levels(pit, edges, central, counts):
    """Add each row to counts[its number mod LANE_COUNTS, cell], edges = 0, 1/B, …, 1, ∞.

    The cell is the number of edges beyond the first that are at most F; central: that are less than |2F − 1|. By the
    product it is at most one off.
    """
    levels = edges.size - 2
    for i in range(pit.size):
        f = pit[i]
        if central:
            f = abs(2.0 * f - 1.0)
            cell = max(np.int64(np.ceil(f * levels)) - 1, 0)
            cell += f > edges[cell + 1]
            cell -= (cell > 0) & (f <= edges[cell])
        else:
            cell = np.int64(f * levels)
            cell += f >= edges[cell + 1]
            cell -= f < edges[cell]
        counts[i & (LANE_COUNTS - 1), cell] += 1
