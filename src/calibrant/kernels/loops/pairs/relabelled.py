"""Pair sums of many labellings of the same rows at once: the kernel of a pair is computed once for all of them.

Labels lie as (rows, R), so that the lanes of a vector are labellings. See `pairwise` for tiles and the walk over them.
"""

import math

import numpy as np

from calibrant.kernels.jit import SUMS, kernel
from calibrant.kernels.loops.floats import LOWEST_32, exp32, expm1_32
from calibrant.kernels.loops.pairs.kernel_pairs import HALF, MEAN, SCALE, STD, W, keep_pairs, laplace, square_gaps
from calibrant.kernels.loops.philox import philox

f4 = np.float32
u4 = np.uint32


# --------------------------------------------------------------------------------------- drawn labels
@kernel()
def draw_labels(k0, k1, purpose, cumulative, out, start, stop):
    """out[r, i] = the class that the uniform number of (replicate r, row i) picks, for replicates start … stop."""
    n = cumulative.shape[0]
    for r in range(start, stop):
        for q in range((n + 3) // 4):
            a, b, c, d = philox(u4(q), u4(r), purpose, u4(0), k0, k1)
            for lane in range(min(4, n - 4 * q)):
                word = a if lane == 0 else (b if lane == 1 else (c if lane == 2 else d))
                row, u = 4 * q + lane, (word + 0.5) * 2.3283064365386963e-10
                low, length = 0, cumulative.shape[1]
                while length > 1:  # the first class whose cumulative probability exceeds u, by halving
                    half = length // 2
                    low += half if cumulative[row, low + half - 1] <= u else 0
                    length -= half
                out[r, row] = low


# ------------------------------------------------------------------------------------- classification
@kernel(fastmath=SUMS)
def _weighed(tiles, b, c, lanes, k):
    """Σ_j lanes[k, j]·p_j[c]"""
    total = 0.0
    for j in range(W):
        total += lanes[k, j] * tiles[b, c, j]
    return total


@kernel(fastmath={"contract"})
def _add_weighed(linear, b, c, value, lanes, k):
    for j in range(W):
        linear[b, c, j] += value * lanes[k, j]


@kernel()
def laplace_step(tiles, n, rate, linear_left, linear_right, near, a, step):
    """near[i, j] = k_ij of the pairs of tiles a and a + step; Σ_j k_ij p_j and Σ_i k_ij p_i to left and right rows."""
    lanes = np.empty((2, W))
    b = (a + step) % tiles.shape[0]
    for i in range(min(W, n - a * W)):
        k = i % 2
        if k == 0:
            square_gaps(tiles, a, i, b, lanes)
        laplace(lanes, k, rate)
        keep_pairs(lanes, k, step, i, min(W, n - b * W), 0.0)
        for c in range(tiles.shape[1]):
            linear_left[a, c, i] += _weighed(tiles, b, c, lanes, k)
            _add_weighed(linear_right, b, c, tiles[a, c, i], lanes, k)
        for j in range(W):
            near[i, j] = f4(lanes[k, j])


@kernel(fastmath={"reassoc"})
def _add_same_4(labels, i, j, k0, k1, k2, k3, sums):
    """sums[r] += the k of those rows j … j + 3 whose label equals that of row i."""
    for r in range(sums.size):
        y = labels[i, r]
        s0 = k0 if labels[j, r] == y else f4(0)
        s1 = k1 if labels[j + 1, r] == y else f4(0)
        s2 = k2 if labels[j + 2, r] == y else f4(0)
        s3 = k3 if labels[j + 3, r] == y else f4(0)
        sums[r] += (s0 + s1) + (s2 + s3)


@kernel()
def flush(sums, out, a):
    """Add float32 sums to float64 ones, and start them again."""
    for r in range(sums.size):
        out[a, r] += sums[r]
        sums[r] = f4(0)


@kernel()
def same_label_step(tiles, n, rate, labels, linear_left, linear_right, out, step, start, stop):
    """out[a, r] += Σ k_ij over the pairs of a step whose labels agree in labelling r; `laplace_step` for the rest."""
    near, sums = np.zeros((W, W), np.float32), np.zeros(labels.shape[1], np.float32)
    for a in range(start, stop):
        b = (a + step) % tiles.shape[0]
        laplace_step(tiles, n, rate, linear_left, linear_right, near, a, step)
        for i in range(min(W, n - a * W)):
            for j in range(0, W, 4):
                k0, k1, k2, k3 = near[i, j], near[i, j + 1], near[i, j + 2], near[i, j + 3]
                if k0 + k1 + k2 + k3 > f4(0):
                    _add_same_4(labels, a * W + i, b * W + j, k0, k1, k2, k3, sums)
            flush(sums, out, a)


# ------------------------------------------------------------------------------- Gaussian predictions
FAR = 12.0
"""Distance of two means up to which the terms of a pair are taken relative to those at the means."""


@kernel(fastmath={"contract"})
def _add_near(z, i, j, shift, at_means, first, half_i, second, half_j, sums):
    """sums[r] += h_ij − h_ij(y = μ): with small residuals the terms of h cancel, so each is taken from its value there.

    −½(μ_i − μ_j + z_i − z_j)² is u above its value at z = 0, and so on: e^u − 1 keeps its digits where u is small.
    """
    for r in range(sums.size):
        gap = z[i, r] - z[j, r]
        u = -gap * (shift + f4(0.5) * gap)
        v = half_i * z[j, r] * (shift + shift - z[j, r])
        w = -half_j * z[i, r] * (shift + shift + z[i, r])
        seen = expm1_32(u if u > LOWEST_32 else LOWEST_32)
        ours = expm1_32(v if v > LOWEST_32 else LOWEST_32)
        theirs = expm1_32(w if w > LOWEST_32 else LOWEST_32)
        sums[r] += at_means * seen - (first * ours + second * theirs)


@kernel(fastmath={"contract"})
def _add_far(z, i, j, shift, weight, first, half_i, second, half_j, sums):
    """sums[r] += weight·k(y_i, y_j) − first·exp(−half_i(μ_i − y_j)²) − second·exp(−half_j(y_i − μ_j)²)."""
    for r in range(sums.size):
        left, right = shift - z[j, r], shift + z[i, r]
        gap = right - z[j, r]
        u, v, w = f4(-0.5) * gap * gap, -half_i * left * left, -half_j * right * right
        seen = exp32(u if u > LOWEST_32 else LOWEST_32)
        ours = exp32(v if v > LOWEST_32 else LOWEST_32)
        theirs = exp32(w if w > LOWEST_32 else LOWEST_32)
        sums[r] += weight * seen - (first * ours + second * theirs)


@kernel()
def _add_pair(tiles, a, i, b, j, z, sums):
    """Add to sums[r] what of h_ij hangs on the outcomes; the rest is returned."""
    shift, s, t = tiles[a, MEAN, i] - tiles[b, MEAN, j], tiles[a, STD, i], tiles[b, STD, j]
    weight = math.exp(-math.sqrt(shift * shift + (s - t) * (s - t)))
    if weight < 1e-16:
        return 0.0
    half_i, half_j = tiles[a, HALF, i], tiles[b, HALF, j]
    first, second = weight * tiles[a, SCALE, i], weight * tiles[b, SCALE, j]
    joint = 1.0 / (1.0 + s * s + t * t)
    both = weight * math.sqrt(joint) * math.exp(-0.5 * joint * shift * shift)
    row, other = a * W + i, b * W + j
    if abs(shift) > FAR:
        _add_far(z, row, other, f4(shift), f4(weight), f4(first), f4(half_i), f4(second), f4(half_j), sums)
        return both
    weight *= math.exp(-0.5 * shift * shift)
    first *= math.exp(-half_i * shift * shift)
    second *= math.exp(-half_j * shift * shift)
    _add_near(z, row, other, f4(shift), f4(weight), f4(first), f4(half_i), f4(second), f4(half_j), sums)
    return (weight - first) - (second - both)


@kernel()
def gaussian_redrawn_step(tiles, n, z, out, constant, step, start, stop):
    """out[a, r] + constant[a] += Σ h_ij over the pairs of a step, for outcomes r.

    z[i, r] = y_ri − μ_i in float32: differences of outcomes keep their precision wherever the means lie.
    """
    sums = np.zeros(z.shape[1], np.float32)
    for a in range(start, stop):
        b = (a + step) % tiles.shape[0]
        for i in range(min(W, n - a * W)):
            for j in range(i + 1 if step == 0 else 0, min(W, n - b * W)):
                constant[a] += _add_pair(tiles, a, i, b, j, z, sums)
            flush(sums, out, a)
