"""Dirichlet kernels on the simplex, one row against a tile of W others at a time (Popordanoska et al. 2022).

k(p_j; p_i) is the density at p_j of a Dirichlet distribution with α = p_i/h + 1: log k = Σ_c (p_i[c]/h)·log p_j[c] +
b_i with b_i = lnΓ(Σα) − Σ lnΓ(α). Rows i that give kernels lie in tiles as in `pairwise`; b is −1e300 where a tile is
filled up. Exponents of a row differ by thousands where h is small: they are taken in float64, and only their distance
from the row's largest is rounded. Tiles come in order from the one that holds row j on, for there the largest mostly
is: a tile that is below it by more than CUT everywhere is passed over.
"""

import math

import numpy as np

from calibrant.kernels.jit import SUMS, kernel
from calibrant.kernels.loops.floats import exp32, float_of_ordered, ordered_bits
from calibrant.kernels.loops.pairs.kernel_pairs import W

f4 = np.float32
u8 = np.uint64
CUT = f4(-30.0)
"""Weights under e^CUT of the largest of their row count as 0."""

NEVER = -1e300


@kernel(fastmath={"contract"})
def _add_products(tiles, b, c, x, lanes):
    for i in range(W):
        lanes[i] += x * tiles[b, c, i]


@kernel(fastmath={"contract"})
def _add_products_4(tiles, b, c, x0, x1, x2, x3, lanes):
    for i in range(W):
        left = x0 * tiles[b, c, i] + x1 * tiles[b, c + 1, i]
        right = x2 * tiles[b, c + 2, i] + x3 * tiles[b, c + 3, i]
        lanes[i] += left + right


@kernel()
def _products(tiles, b, logs, j, lanes):
    """lanes[i] = Σ_c p_i[c]·log p_j[c] for the rows i of tile b."""
    for i in range(W):
        lanes[i] = 0.0
    quads, dims = tiles.shape[1] // 4, tiles.shape[1]
    for k in range(quads):
        c = 4 * k
        _add_products_4(tiles, b, c, logs[j, c], logs[j, c + 1], logs[j, c + 2], logs[j, c + 3], lanes)
    for c in range(4 * quads, dims):
        _add_products(tiles, b, c, logs[j, c], lanes)


@kernel(fastmath={"contract"})
def _exponents(lanes, rate, offsets, h, b, x):
    """x[i] = rate·lanes[i] + offsets[h, b, i]."""
    for i in range(W):
        x[i] = rate * lanes[i] + offsets[h, b, i]


@kernel()
def _largest(x):
    """Vectors have no maximum of floats that minds NaN, but one of integers that sort alike."""
    top = ordered_bits(NEVER)
    for i in range(W):
        top = max(top, ordered_bits(x[i]))
    return float_of_ordered(top)


@kernel(fastmath={"contract"})
def _weights(x, top, out):
    """out[i] = exp(x[i] − top), 0 under the cut."""
    for i in range(W):
        d = f4(x[i] - top)
        out[i] = exp32(d if d > CUT else CUT) if d > CUT else f4(0)


@kernel(fastmath=SUMS)
def _sum(weights):
    total = f4(0)
    for i in range(W):
        total += weights[i]
    return np.float64(total)


@kernel(fastmath=SUMS)
def _sum_of(weights, start, stop):
    total = f4(0)
    for i in range(start, stop):
        total += weights[i]
    return np.float64(total)


# ----------------------------------------------------------------------------------- log-likelihood
@kernel()
def log_likelihoods(tiles, offsets, rates, logs, out, start, stop):
    """out[h, j] = log Σ_{i≠j} k_h(p_j; p_i) for every bandwidth 1/rates[h]."""
    lanes, x, weights = np.empty(W), np.empty(W), np.empty(W, np.float32)
    top, total = np.empty(rates.size), np.empty(rates.size)
    count = tiles.shape[0]
    for j in range(start, stop):
        top[:], total[:] = -math.inf, 0.0
        for t in range(count):
            b = (j // W + t) % count
            _products(tiles, b, logs, j, lanes)
            for h in range(rates.size):
                _exponents(lanes, rates[h], offsets, h, b, x)
                if t == 0:
                    x[j % W] = NEVER
                highest = _largest(x)
                if highest > top[h]:
                    total[h] *= math.exp(top[h] - highest)
                    top[h] = highest
                if highest - top[h] > CUT:
                    _weights(x, top[h], weights)
                    total[h] += _sum(weights)
        for h in range(rates.size):
            out[h, j] = top[h] + math.log(total[h])


# ---------------------------------------------------------------------------------------- regression
@kernel()
def label_weights(tiles, offsets, rate, logs, y, ends, out, start, stop):
    """out[j, c] = Ê[1{y = c} | p_j]: the share of label c in the weights k(p_j; p_i), i ≠ j."""
    lanes, x, weights = np.empty(W), np.empty(W), np.empty(W, np.float32)
    count, classes = tiles.shape[0], out.shape[1]
    for j in range(start, stop):
        top = -math.inf
        for t in range(count):
            b = (j // W + t) % count
            _products(tiles, b, logs, j, lanes)
            _exponents(lanes, rate, offsets, 0, b, x)
            if t == 0:
                x[j % W] = NEVER
            highest = _largest(x)
            if highest > top:
                scale = math.exp(top - highest)
                for c in range(classes):
                    out[j, c] *= scale
                top = highest
            if highest - top > CUT:
                _weights(x, top, weights)
                i = u8(0)
                while i < u8(W):  # rows come in the order of their labels
                    end = u8(ends[b, i])
                    out[j, y[b, i]] += _sum_of(weights, i, end)
                    i = end
        total = out[j].sum()
        for c in range(classes):
            out[j, c] /= total


# ------------------------------------------------------------------------------------ many labellings
@kernel()
def _kept_weights(tiles, offsets, rate, logs, j, row, lanes, x, weights, kept):
    """Fill row[:count] with the positive weights of row j, kept[:count] with whose they are; count and their sum."""
    count, tops = tiles.shape[0], -math.inf
    for b in range(count):
        _products(tiles, b, logs, j, lanes)
        _exponents(lanes, rate, offsets, 0, b, x)
        if b == j // W:
            x[j % W] = NEVER
        tops = max(tops, _largest(x))
        for i in range(W):
            row[b * W + i] = x[i]
    number, total = 0, 0.0
    for b in range(count):
        for i in range(W):
            x[i] = row[b * W + i]
        if _largest(x) - tops > CUT:
            _weights(x, tops, weights)
            for i in range(W):
                if weights[i] > SMALL:
                    row[number], kept[number] = weights[i], b * W + i
                    total += weights[i]
                    number += 1
    return number, total


SMALL = f4(1e-9)
"""Weights under this part of the largest of their row are left out where there are many labellings."""


@kernel()
def redrawn_distances(tiles, offsets, rate, logs, p, labels, order, out, start, stop):
    """out[t, r] = Σ over the rows j of tile t of Σ_c |p_j[c] − Ê_r[c | p_j]|^order."""
    lanes, x, weights = np.empty(W), np.empty(W), np.empty(W, np.float32)
    row, kept = np.empty(tiles.shape[0] * W), np.empty(tiles.shape[0] * W, np.int64)
    sums = np.zeros(labels.shape[1] * p.shape[1], np.float32)
    for t in range(start, stop):
        for j in range(t * W, min(p.shape[0], t * W + W)):
            number, total = _kept_weights(tiles, offsets, rate, logs, j, row, lanes, x, weights, kept)
            for k in range(number):
                i, weight = kept[k], f4(row[k] / total)
                for r in range(labels.shape[1]):
                    sums[r * p.shape[1] + labels[i, r]] += weight
            for r in range(labels.shape[1]):
                distance = 0.0
                for c in range(p.shape[1]):
                    gap = abs(p[j, c] - sums[r * p.shape[1] + c])
                    distance += gap if order == 1.0 else (gap * gap if order == 2.0 else gap**order)
                    sums[r * p.shape[1] + c] = f4(0)
                out[t, r] += distance
