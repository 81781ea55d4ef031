"""What some metrics want beyond the record: the runner-up, the label's rank, and sums per class and bin."""

import numpy as np

from calibrant.kernels.jit import SUMS, kernel
from calibrant.kernels.loops.floats import (
    at_least_lowest,
    exp64,
    fast_exp,
    float_bits,
    float_of_ordered,
    like,
    log64,
    ordered_bits,
)
from calibrant.kernels.loops.tiles import W, turn

i4 = np.int32

FIXED = 1099511627776.0
"""2⁴⁰: sums per class and bin are integers of this unit, so that their order does not matter."""

# Layers of a class-wise table.
COUNT, P, P_SQUARED, Y, P_Y = 0, 1, 2, 3, 4
LAYERS = 5
LIGHT_LAYERS = [COUNT, P, Y]
"""Those of a light table, in which they are numbers 0, 1 and 2."""
LEAST = 1e-300
"""Stands in for p = 0 where p·log p is taken."""
BELOW_EDGE = 1.0 - 1e-6
"""Entries up to this share of the first edge are in the first bin, however they are rounded; others are looked at."""


@kernel()
def _runner_up(z, i, best):
    """The largest entry of row i other than the one at `best`; integers that order as the floats let it use vectors."""
    lowest = ordered_bits(like(z[i, 0], -np.inf))
    top = lowest
    for k in range(z.shape[1]):
        top = max(top, lowest if i4(k) == best else ordered_bits(z[i, k]))
    return float_of_ordered(top)


@kernel()
def runner_up_and_rank(z, pred, labels, second, rank, start, stop):
    """Score of the second class and the label's rank (from 0; of equals the first) of rows start … stop."""
    for i in range(start, stop):
        second[i] = _runner_up(z, i, pred[i])
        if labels.size:
            label, before = i4(labels[i]), i4(0)
            at_label = z[i, label]
            for k in range(z.shape[1]):
                x = z[i, k]
                before += i4((x > at_label) | ((x == at_label) & (i4(k) < label)))
            rank[i] = before


@kernel(fastmath=SUMS)
def _probabilities(r, top, scale, is_probs, p):
    if is_probs:
        for k in range(r.size):
            p[k] = r[k] * scale
    else:
        for k in range(r.size):
            p[k] = fast_exp(at_least_lowest(r[k] - top)) * scale


@kernel()
def _add_totals(p, weight, ones, squares):
    """Add w·p and w·p² of every class, as integers."""
    for k in range(p.size):
        x = np.float64(p[k])
        ones[k] += np.int64(np.rint(x * weight * FIXED))
        squares[k] += np.int64(np.rint(x * x * weight * FIXED))


@kernel()
def bin_of(p, bins):
    """The equal-width bin ((b − 1)/B, b/B] of p, counted from 0; 0 lies in the first."""
    return min(max(np.int64(np.ceil(np.float64(p) * bins)) - 1, 0), bins - 1)


@kernel()
def width_bins(p, bins, out):
    """The equal-width bin of every p."""
    for i in range(p.size):
        out[i] = bin_of(p[i], bins)


@kernel()
def mark(p, limit, marks):
    """Mark the entries above a limit."""
    for k in range(p.size):
        marks[k] = p[k] > limit


@kernel()
def first_mark(eight):
    """Which of eight bytes, each 0 or 1, is the first that is set: the exponent of the lowest bit as a float tells."""
    return ((float_bits(np.float64(eight & -eight)) >> 52) - 1023) >> 3


@kernel()
def classwise(z, is_probs, pred, confidence, labels, weights, bins, table, start, stop):
    """Add rows start … stop to table[layer, class, bin]: Σw, Σwp, Σwp², Σwy, Σwpy in units of 2⁻⁴⁰.

    Few entries of a row exceed 1/B: only these are looked at one by one, eight marks at a time. The first bin is what
    remains of the totals.
    """
    classes = z.shape[1]
    p = np.empty(classes, z.dtype)
    ones, squares = np.zeros(classes, np.int64), np.zeros(classes, np.int64)
    moved = np.zeros((classes, bins, 3), np.int64)
    marks = np.zeros((classes + 7) // 8 * 8, np.uint8)
    eights = marks.view(np.int64)
    for i in range(start, stop):
        r = z[i]
        top = r[pred[i]]
        scale = confidence[i] / np.float64(top) if is_probs else confidence[i]
        _probabilities(r, top, like(top, scale), is_probs, p)
        weight = weights[i] if weights.size else 1.0
        unit = np.int64(np.rint(weight * FIXED))
        _add_totals(p, weight, ones, squares)
        mark(p, like(top, BELOW_EDGE / bins), marks)
        for e in range(eights.size):
            left = eights[e]
            while left:
                k = 8 * e + first_mark(left)
                left &= left - 1
                x, b = np.float64(p[k]), bin_of(p[k], bins)
                moved[k, b, COUNT] += unit  # Σw, Σwp and Σwp² are changed together, and so lie beside each other
                moved[k, b, P] += np.int64(np.rint(x * weight * FIXED))
                moved[k, b, P_SQUARED] += np.int64(np.rint(x * x * weight * FIXED))
        if labels.size:
            k = labels[i]
            b = bin_of(p[k], bins)
            table[Y, k, b] += unit
            table[P_Y, k, b] += np.int64(np.rint(np.float64(p[k]) * weight * FIXED))
    total = np.int64(0)
    for i in range(start, stop):
        total += np.int64(np.rint((weights[i] if weights.size else 1.0) * FIXED))
    for k in range(ones.size):
        table[COUNT, k, 0] += total
        table[P, k, 0] += ones[k]
        table[P_SQUARED, k, 0] += squares[k]
        for b in range(moved.shape[1]):
            for layer in range(3):
                table[layer, k, b] += moved[k, b, layer]
                table[layer, k, 0] -= moved[k, b, layer]


# ----------------------------------------------------------------------------------------- few classes
@kernel(fastmath=SUMS)
def _tile_probabilities(tile, top, scale, is_probs):
    for k in range(tile.shape[0]):
        if is_probs:
            for j in range(W):
                tile[k, j] *= scale[j]
        else:
            for j in range(W):
                tile[k, j] = fast_exp(at_least_lowest(tile[k, j] - top[j])) * scale[j]


@kernel()
def _tile_add(tile, found, weight, rows, sums):
    """Add each entry to its class and bin; what is changed together lies together."""
    for k in range(tile.shape[0]):
        for j in range(rows):
            b = found[k, j]
            p = np.float64(tile[k, j])
            x = p * weight[j]
            sums[k, b, COUNT] += np.int64(np.rint(weight[j]))
            sums[k, b, P] += np.int64(np.rint(x))
            sums[k, b, P_SQUARED] += np.int64(np.rint(p * x))


@kernel()
def narrow_classwise(z, is_probs, pred, confidence, labels, weights, bins, table, start, stop):
    """As `classwise`, for rows of few classes: most entries lie beyond the first bin, and each is looked at."""
    classes = z.shape[1]
    tile, found = np.zeros((classes, W), z.dtype), np.zeros((classes, W), np.int32)
    top, scale, weight = np.zeros(W, z.dtype), np.zeros(W, z.dtype), np.full(W, FIXED)
    sums = np.zeros((classes, bins, LAYERS), np.int64)
    for first in range(start, stop, W):
        rows = min(W, stop - first)
        turn(z, first, rows, tile)
        for j in range(rows):
            i = first + j
            top[j] = tile[pred[i], j]
            scale[j] = confidence[i] / np.float64(top[j]) if is_probs else confidence[i]
            if weights.size:
                weight[j] = weights[i] * FIXED
        _tile_probabilities(tile, top, scale, is_probs)
        for k in range(classes):
            for j in range(W):
                found[k, j] = np.int32(min(max(np.ceil(np.float64(tile[k, j]) * bins) - 1.0, 0.0), bins - 1.0))
        _tile_add(tile, found, weight, rows, sums)
        if labels.size:
            for j in range(rows):
                k = labels[first + j]
                sums[k, found[k, j], Y] += np.int64(np.rint(weight[j]))
                sums[k, found[k, j], P_Y] += np.int64(np.rint(np.float64(tile[k, j]) * weight[j]))
    for k in range(classes):
        for b in range(bins):
            for layer in range(LAYERS):
                table[layer, k, b] += sums[k, b, layer]


# ------------------------------------------------------------------------- cells of different classes
ROOT = 1048576.0
"""2²⁰, the root of `FIXED`: the product of two probabilities in units of 2⁻²⁰ is an integer in units of 2⁻⁴⁰."""


@kernel()
def _add_products(cell, q, entries, label, table):
    """Add one row: its entries' cells, rising, and probabilities in units of 2⁻²⁰; label: which entry is, or −1."""
    for i in range(entries):
        x, sums = q[i], table[0, cell[i]]
        for j in range(i + 1, entries):
            sums[cell[j]] += x * q[j]
    if label >= 0:
        for i in range(label):
            table[1, cell[i], cell[label]] += q[i] << 20
        for j in range(label + 1, entries):
            table[1, cell[label], cell[j]] += q[j] << 20


@kernel()
def joint_cells(z, is_probs, pred, confidence, labels, bins, table, start, stop):
    """Add rows start … stop to table[layer, cell, cell] of cells (class, bin) of classes c < d.

    The layers are Σ p_c·p_d and Σ (y_c·p_d + p_c·y_d) over the rows in both cells, in units of 2⁻⁴⁰.
    """
    classes = z.shape[1]
    p, q, cell = np.empty(classes, z.dtype), np.empty(classes, np.int64), np.empty(classes, np.int64)
    for i in range(start, stop):
        r = z[i]
        top = r[pred[i]]
        scale = confidence[i] / np.float64(top) if is_probs else confidence[i]
        _probabilities(r, top, like(top, scale), is_probs, p)
        for k in range(classes):
            q[k] = np.int64(np.rint(np.float64(p[k]) * ROOT))
            cell[k] = k * bins + bin_of(p[k], bins)
        _add_products(cell, q, classes, labels[i], table)


@kernel()
def joint_entries(first, cell, p, y, table, start, stop):
    """The same of rows given by their entries: row i has those of first[i] … first[i + 1], in the order of classes."""
    most = 0
    for i in range(start, stop):
        most = max(most, first[i + 1] - first[i])
    q = np.empty(most, np.int64)
    for i in range(start, stop):
        a, b = first[i], first[i + 1]
        label = -1
        for j in range(a, b):
            q[j - a] = np.int64(np.rint(p[j] * ROOT))
            if y[j] > 0.0:
                label = j - a
        _add_products(cell[a:b], q, b - a, label, table)


@kernel(fastmath=SUMS)
def _moments_of_logits(z, i, lse):
    """Σ p·(log p)² and Σ p·(log p)³ of row i; a class of probability 0 adds nothing."""
    two, three = 0.0, 0.0
    for k in range(z.shape[1]):
        log_p = at_least_lowest(np.float64(z[i, k]) - lse)
        term = exp64(log_p) * log_p * log_p
        two += term
        three += term * log_p
    return two, three


@kernel(fastmath=SUMS)
def _moments_of_probs(z, i, total):
    """The same of probabilities with this sum."""
    two, three = 0.0, 0.0
    for k in range(z.shape[1]):
        p = np.float64(z[i, k]) / total
        log_p = log64(p if p > LEAST else LEAST)
        term = p * log_p * log_p
        two += term
        three += term * log_p
    return two, three


@kernel()
def log_moments(z, is_probs, lse, sums, second, third, start, stop):
    """Σ p·(log p)² and Σ p·(log p)³ over the classes of rows start … stop."""
    for i in range(start, stop):
        if is_probs:
            second[i], third[i] = _moments_of_probs(z, i, sums[i])
        else:
            second[i], third[i] = _moments_of_logits(z, i, lse[i])
