"""What some metrics want beyond the record: the runner-up, the label's rank, and sums per class and bin."""

import numpy as np

from calibrant.kernels.jit import SUMS, kernel
from calibrant.kernels.loops.floats import at_least_lowest, fast_exp, like

FIXED = 1099511627776.0
"""2⁴⁰: sums per class and bin are integers of this unit, so that their order does not matter."""

# Layers of a class-wise table.
COUNT, P, P_SQUARED, Y, P_Y = 0, 1, 2, 3, 4
LAYERS = 5


@kernel()
def _runner_up(r, best):
    """The largest entry other than the one at `best`."""
    second = -np.inf
    for k in range(r.size):
        if k != best and r[k] > second:
            second = r[k]
    return second


@kernel()
def _rank(r, label):
    """How many classes stand before the label; among equals the first class wins."""
    at_label = r[label]
    before = 0
    for k in range(r.size):
        before += (r[k] > at_label) or (r[k] == at_label and k < label)
    return before


@kernel()
def runner_up_and_rank(z, pred, labels, second, rank, start, stop):
    """Score of the second class and the label's rank (from 0) of rows start … stop."""
    for i in range(start, stop):
        second[i] = _runner_up(z[i], pred[i])
        if labels.size:
            rank[i] = _rank(z[i], labels[i])


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
def classwise(z, is_probs, pred, confidence, labels, weights, bins, table, start, stop):
    """Add rows start … stop to table[layer, class, bin]: Σw, Σwp, Σwp², Σwy, Σwpy in units of 2⁻⁴⁰.

    Few entries of a row exceed 1/B: only these are looked at one by one. The first bin is what remains of the totals,
    which are kept in bin 0 until `classwise` is done.
    """
    classes = z.shape[1]
    p = np.empty(classes, z.dtype)
    for i in range(start, stop):
        r = z[i]
        top = r[pred[i]]
        scale = confidence[i] / np.float64(top) if is_probs else confidence[i]
        _probabilities(r, top, like(top, scale), is_probs, p)
        weight = weights[i] if weights.size else 1.0
        unit = np.int64(np.rint(weight * FIXED))
        _add_totals(p, weight, table[P, :, 0], table[P_SQUARED, :, 0])
        for k in range(classes):
            if p[k] * bins > 1:
                _move(table, k, bin_of(p[k], bins), np.float64(p[k]), weight, unit)
        if labels.size:
            k = labels[i]
            b = bin_of(p[k], bins)
            table[Y, k, b] += unit
            table[P_Y, k, b] += np.int64(np.rint(np.float64(p[k]) * weight * FIXED))
    _count_first_bin(table, weights, start, stop)


@kernel()
def _move(table, k, b, p, weight, unit):
    """Take an entry out of the first bin and put it where it belongs."""
    one = np.int64(np.rint(p * weight * FIXED))
    square = np.int64(np.rint(p * p * weight * FIXED))
    table[COUNT, k, b] += unit
    table[P, k, b] += one
    table[P_SQUARED, k, b] += square
    table[COUNT, k, 0] -= unit
    table[P, k, 0] -= one
    table[P_SQUARED, k, 0] -= square


@kernel()
def _count_first_bin(table, weights, start, stop):
    total = np.int64(0)
    for i in range(start, stop):
        total += np.int64(np.rint((weights[i] if weights.size else 1.0) * FIXED))
    for k in range(table.shape[1]):
        table[COUNT, k, 0] += total
