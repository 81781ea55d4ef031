"""Sums over all pairs of rows, a tile of W rows against another at a time: nothing of size N x N is ever held.

Rows lie in `tiles`, an array (tiles, dims, W): the lanes of a vector are rows, the last tile is filled up with copies
of the last row. Step s of a walk joins each tile t with tile t + s (mod the number of tiles), so that in one step every
tile is once on the left and once on the right: threads can share a step, and each sum gathers its parts in the order
of the steps. Loops run over all W lanes, and what is no pair of the walk is set to 0 afterwards, for loops of a fixed
length are the ones that become vectors.
"""

import math

import numpy as np

from calibrant.kernels.jit import SUMS, kernel
from calibrant.kernels.loops.floats import LOWEST_POWER_64, exp2_64, float_bits

f4 = np.float32
u4 = np.uint32
u8 = np.uint64
W = 256
"""Rows in a tile."""


@kernel(fastmath={"contract"})
def _decay(x):
    """2^x for x <= 0."""
    return exp2_64(x if x > LOWEST_POWER_64 else LOWEST_POWER_64)


@kernel(fastmath={"contract"})
def _add_square_gaps(tiles, a, i, b, c, lanes):
    """lanes[k, j] += (x − x_j)² of coordinate c for the rows i + k, k = 0, 1."""
    x, y = tiles[a, c, i], tiles[a, c, i + 1]
    for j in range(W):
        d, e = x - tiles[b, c, j], y - tiles[b, c, j]
        lanes[0, j] += d * d
        lanes[1, j] += e * e


@kernel(fastmath={"contract"})
def _add_square_gaps_4(tiles, a, i, b, c, lanes):
    """The same of four coordinates, so that lanes are read and written once for all of them."""
    x0, x1, x2, x3 = tiles[a, c, i], tiles[a, c + 1, i], tiles[a, c + 2, i], tiles[a, c + 3, i]
    y0, y1, y2, y3 = tiles[a, c, i + 1], tiles[a, c + 1, i + 1], tiles[a, c + 2, i + 1], tiles[a, c + 3, i + 1]
    for j in range(W):
        t0, t1, t2, t3 = tiles[b, c, j], tiles[b, c + 1, j], tiles[b, c + 2, j], tiles[b, c + 3, j]
        d0, d1, d2, d3 = x0 - t0, x1 - t1, x2 - t2, x3 - t3
        e0, e1, e2, e3 = y0 - t0, y1 - t1, y2 - t2, y3 - t3
        lanes[0, j] += (d0 * d0 + d1 * d1) + (d2 * d2 + d3 * d3)
        lanes[1, j] += (e0 * e0 + e1 * e1) + (e2 * e2 + e3 * e3)


@kernel()
def square_gaps(tiles, a, i, b, lanes):
    """lanes[k, j] = ‖x_{i+k} − x_j‖² of rows i, i + 1 of tile a and every row j of tile b, from differences."""
    for j in range(W):
        lanes[0, j] = 0.0
        lanes[1, j] = 0.0
    quads, dims = tiles.shape[1] // 4, tiles.shape[1]
    for c in range(quads):
        _add_square_gaps_4(tiles, a, i, b, 4 * c, lanes)
    for c in range(4 * quads, dims):
        _add_square_gaps(tiles, a, i, b, c, lanes)


@kernel()
def keep_pairs(lanes, k, step, i, rows, other):
    """Set to `other` the lanes[k] that hold no pair: up to row i in its own tile, and beyond the last of `rows`."""
    if step == 0:
        for j in range(i + 1):
            lanes[k, j] = other
    for j in range(rows, W):
        lanes[k, j] = other


# ------------------------------------------------------------------------------------------- median
@kernel(fastmath=SUMS)
def pair_square(x, i, j):
    """‖x_i − x_j‖² of rows of an (N, D) array."""
    total = 0.0
    for c in range(x.shape[1]):
        d = x[i, c] - x[j, c]
        total += d * d
    return total


@kernel()
def sampled_squares(x, first, second, out):
    """float32(‖x_i − x_j‖²) of given pairs."""
    for k in range(out.size):
        out[k] = f4(pair_square(x, first[k], second[k]))


@kernel()
def _flag_near(lanes, k, low, high, flags):
    """flags[j] = whether low <= lanes[k, j] <= high; the number of lanes under `low`."""
    below = np.int32(0)
    for j in range(W):
        below += np.int32(lanes[k, j] < low)
        flags[j] = np.uint8((lanes[k, j] >= low) & (lanes[k, j] <= high))
    return below


@kernel()
def gap_counts(x, tiles, slack, low, width, shift, counts, below, step, start, stop):
    """counts[(b − low) >> shift] of pairs whose squared distance has float32 bits low <= b < low + width.

    Floats that are not negative sort as their bits do. below[t] counts the pairs under `low`. Distances are first taken
    in float32 from centred rows: whatever is within `slack` of the window is then computed again from x.
    """
    lanes, flags = np.empty((2, W), np.float32), np.empty(W, np.uint8)
    words = flags.view(np.uint64)
    n = x.shape[0]
    for a in range(start, stop):
        b = (a + step) % tiles.shape[0]
        for i in range(min(W, n - a * W)):
            if i % 2 == 0:
                square_gaps(tiles, a, i, b, lanes)
            keep_pairs(lanes, i % 2, step, i, min(W, n - b * W), f4(math.nan))
            below[a] += _flag_near(lanes, i % 2, slack[0], slack[1], flags)
            for w in range(words.size):
                for j in range(8 * w, 8 * w + 8 if words[w] else 0):
                    if flags[j]:
                        bits = float_bits(f4(pair_square(x, a * W + i, b * W + j)))
                        below[a] += bits < low
                        place = u4(bits - low)
                        if place < width:
                            counts[place >> shift] += 1


# --------------------------------------------------------------------------------------------- SKCE
@kernel(fastmath={"contract"})
def laplace(lanes, k, rate):
    """lanes[k, j] = 2^(−rate·√lanes[k, j])."""
    for j in range(W):
        lanes[k, j] = _decay(-rate * math.sqrt(lanes[k, j]))


@kernel()
def _left_terms(tiles, a, i, half, y, ends, table, b, lanes):
    """lanes[2, j] = 1{y_j = y_i} − p_i[y_j] + ½‖p_i‖²; `table` is room for one number per class.

    Rows come in the order of their labels: ends[b, j] is where the run of equal labels that holds lane j ends.
    """
    for c in range(table.size):
        table[c] = half - tiles[a, c, i]
    table[y[a, i]] += 1.0
    start = u8(0)
    while start < u8(W):
        value, end = table[y[b, start]], u8(ends[b, start])
        for j in range(start, end):
            lanes[2, j] = value
        start = end


@kernel(fastmath={"contract"})
def _skce_terms(tiles, halves, b, label, rate, lanes, k):
    """lanes[k, j] = 2^(−rate·d)·(lanes[2, j] − p_j[label] + ½‖p_j‖² − ½d²), as 2p_i·p_j = ‖p_i‖² + ‖p_j‖² − d²."""
    for j in range(W):
        square = lanes[k, j]
        inner = lanes[2, j] - tiles[b, label, j] + (halves[b, j] - 0.5 * square)
        lanes[k, j] = _decay(-rate * math.sqrt(square)) * inner


@kernel(fastmath=SUMS)
def gather(lanes, k, columns, b):
    """Σ_j h_j and Σ_j h_j² of h = lanes[k], which is added to columns[b]."""
    total, squares = 0.0, 0.0
    for j in range(W):
        h = lanes[k, j]
        columns[b, j] += h
        total += h
        squares += h * h
    return total, squares


@kernel()
def skce_step(tiles, halves, y, ends, n, rate, rows, columns, squares, step, start, stop):
    """One step of the walk: Σ_j h_ij over the pairs of each left row to rows[i], of each right row to columns[j].

    h_ij = 2^(−rate·‖p_i − p_j‖)·⟨e_{y_i} − p_i, e_{y_j} − p_j⟩ (Widmann, Lindsten & Zachariah 2019).
    """
    lanes, table = np.empty((3, W)), np.empty(tiles.shape[1])
    for a in range(start, stop):
        b = (a + step) % tiles.shape[0]
        for i in range(min(W, n - a * W)):
            k = i % 2
            if k == 0:
                square_gaps(tiles, a, i, b, lanes)
            _left_terms(tiles, a, i, halves[a, i], y, ends, table, b, lanes)
            _skce_terms(tiles, halves, b, y[a, i], rate, lanes, k)
            keep_pairs(lanes, k, step, i, min(W, n - b * W), 0.0)
            total, square = gather(lanes, k, columns, b)
            rows[a, i] += total
            squares[a, i] += square


@kernel()
def skce_blocks(p, y, rate, edges, out, start, stop):
    """out[b] = mean of h_ij over i < j of rows edges[b] … edges[b + 1]."""
    for b in range(start, stop):
        total, pairs = 0.0, 0
        for i in range(edges[b], edges[b + 1]):
            for j in range(i + 1, edges[b + 1]):
                dot = 0.0
                for c in range(p.shape[1]):
                    dot += p[i, c] * p[j, c]
                inner = (y[i] == y[j]) - p[i, y[j]] - p[j, y[i]] + dot
                total += math.exp(-rate * math.sqrt(pair_square(p, i, j))) * inner
                pairs += 1
        out[b] = total / pairs


# ------------------------------------------------------------------------------- Gaussian predictions
MEAN, STD, Y, SCALE, HALF, VARIANCE = range(6)
"""Coordinates of a tile of Gaussians, u a unit: u·μ, u·σ, u·y, (1 + σ²)^(−½), the rate of (μ − b)² in E k, σ²."""

BITS = 1.0 / math.log(2.0)
"""log2 e: e^x = 2^(BITS·x)."""

UNIT = math.sqrt(BITS / 2.0)
"""The unit in which k(a, b) = exp(−(a − b)²/2) is 2^−(a − b)²."""

FAR, ROOT = 1, 3
"""Lanes FAR + k, ROOT + k: −W₂·log2 e and (1 + σ_i² + σ_j²)^(−½) of an even (k = 0) or odd row."""


@kernel(fastmath={"contract"})
def _gaussian_terms(tiles, a, i, b, lanes):
    """lanes[0, j] = h_ij of `gaussian_step`, from the lanes FAR and ROOT of row i; those of row i + 1 are filled.

    Roots and divisions have a unit of their own: it works on the next row while this one waits for its polynomials.
    """
    mean, y, scale, half = tiles[a, MEAN, i], tiles[a, Y, i], tiles[a, SCALE, i], tiles[a, HALF, i]
    own, k = min(i + 1, W - 1), i % 2
    next_mean, next_std, next_room = tiles[a, MEAN, own], tiles[a, STD, own], 1.0 + tiles[a, VARIANCE, own]
    for j in range(W):
        far, root = lanes[FAR + k, j], lanes[ROOT + k, j]
        gap, left, right = y - tiles[b, Y, j], mean - tiles[b, Y, j], y - tiles[b, MEAN, j]
        shift = (mean - tiles[b, MEAN, j]) * root
        seen = _decay(far - gap * gap)
        first = _decay(far - half * left * left)
        second = _decay(far - tiles[b, HALF, j] * right * right)
        both = _decay(far - shift * shift)
        lanes[0, j] = (seen - scale * first) - (tiles[b, SCALE, j] * second - root * both)
        next_shift, spread = next_mean - tiles[b, MEAN, j], next_std - tiles[b, STD, j]
        lanes[FAR + 1 - k, j] = (-BITS / UNIT) * math.sqrt(next_shift * next_shift + spread * spread)
        lanes[ROOT + 1 - k, j] = 1.0 / math.sqrt(next_room + tiles[b, VARIANCE, j])


@kernel()
def gaussian_step(tiles, n, rows, columns, squares, step, start, stop):
    """One step of the walk for predictions N(μ, σ²) (Widmann, Lindsten & Zachariah 2021, tensor kernel).

    h_ij = exp(−W₂(P_i, P_j))·[k(y_i, y_j) − E k(Z_i, y_j) − E k(y_i, Z_j) + E k(Z_i, Z_j)], Z ~ P, k(a, b) =
    exp(−(a − b)²/2), W₂² = (μ_i − μ_j)² + (σ_i − σ_j)². Tiles come in UNIT.
    """
    lanes = np.zeros((5, W))
    for a in range(start, stop):
        b = (a + step) % tiles.shape[0]
        _gaussian_terms(tiles, a, -1, b, lanes)  # only to fill lanes for row 0
        for i in range(min(W, n - a * W)):
            _gaussian_terms(tiles, a, i, b, lanes)
            keep_pairs(lanes, 0, step, i, min(W, n - b * W), 0.0)
            total, square = gather(lanes, 0, columns, b)
            rows[a, i] += total
            squares[a, i] += square


@kernel()
def gaussian_blocks(mean, std, y, edges, out, start, stop):
    """out[b] = mean of h_ij over i < j of rows edges[b] … edges[b + 1]."""
    for b in range(start, stop):
        total, pairs = 0.0, 0
        for i in range(edges[b], edges[b + 1]):
            v = 1.0 + std[i] * std[i]
            for j in range(i + 1, edges[b + 1]):
                u, shift = 1.0 + std[j] * std[j], mean[i] - mean[j]
                inner = math.exp(-0.5 * (y[i] - y[j]) ** 2) - math.exp(-0.5 * (mean[i] - y[j]) ** 2 / v) / math.sqrt(v)
                inner -= math.exp(-0.5 * (y[i] - mean[j]) ** 2 / u) / math.sqrt(u)
                inner += math.exp(-0.5 * shift**2 / (u + v - 1.0)) / math.sqrt(u + v - 1.0)
                total += math.exp(-math.sqrt(shift**2 + (std[i] - std[j]) ** 2)) * inner
                pairs += 1
        out[b] = total / pairs
