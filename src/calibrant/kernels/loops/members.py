"""One pass over the rows of all members: the averaged prediction, and what the members say beside it.

Notation: z (M, N, C); p_m the member's probabilities, p = mean_m p_m. A group of rows is carried through all members
before the next group is begun, so that the running mean stays in the cache and (N, C) is never stored unless asked for.
Label probabilities are averaged in log space: a label that every member finds impossible keeps a finite log score.
Classes whose averages reach `nearly` times the largest differ from it by rounding only, and are tied with it.
"""

import numpy as np

from calibrant.kernels.jit import SUMS, kernel
from calibrant.kernels.loops.floats import LOWEST_64, at_least_lowest, exp64, fast_exp, fast_log, like, log64, log_any
from calibrant.kernels.loops.softmax import (
    CONFIDENCE,
    ENTROPY,
    LABEL,
    LOG_LABEL,
    LSE,
    SUM_SQUARES,
    TINY,
    exp_lanes,
    first_at,
    pad,
    padded_width,
    padding,
    row_top,
)
from calibrant.kernels.loops.tiles import W, clear, tile_extent, turn

EXPECTED_ENTROPY = 6
VARIATION_RATIO = 7
WORST_LSE = 8
MEMBER_FIELDS = 9


@kernel(fastmath=SUMS)
def _average_row(total, share):
    """Divide by the number of members; Σp² and −Σp·log p of the result."""
    squares, entropy = like(share, 0), like(share, 0)
    for k in range(total.size):
        p = total[k] * share
        total[k] = p
        squares += p * p
        entropy -= p * fast_log(max(p, like(p, TINY)))
    return squares, max(entropy, like(share, 0))


@kernel(fastmath={"contract"})
def _member_confidence(x, lse, is_probs, rows, mean_lse, worst):
    """Each row's probability of the predicted class by one member, from its score x there; left in x."""
    for j in range(rows):
        mean_lse[j] += lse[j]
        worst[j] = lse[j] if abs(lse[j]) > abs(worst[j]) else worst[j]
        v = exp64(min(max(-lse[j] if is_probs else x[j] - lse[j], LOWEST_64), 1.0))
        x[j] = x[j] * v if is_probs else v


@kernel(fastmath={"contract"})
def _log_mean_exp(values, rows, top, total):
    """log mean_m exp(values[m, j]) for each j < rows, left in `total`; −inf where all are."""
    for j in range(rows):
        top[j] = -np.inf
        total[j] = 0
    for m in range(values.shape[0]):
        row = values[m]
        for j in range(rows):
            top[j] = row[j] if row[j] > top[j] else top[j]
    for m in range(values.shape[0]):
        row = values[m]
        for j in range(rows):
            total[j] += exp64(max(row[j] - max(top[j], -1e300), LOWEST_64))
    for j in range(rows):
        mean = log64(total[j] / values.shape[0])
        total[j] = top[j] + mean if top[j] > -np.inf else top[j]


@kernel()
def _close_group(z, labelled, is_probs, first, rows, pred, out, lse, log_label, votes, member_p):
    """What is known of rows first … first + rows once their predicted classes are."""
    members = z.shape[0]
    x, y = np.empty(rows), np.empty(rows)
    mean_lse, worst = np.zeros(rows), np.zeros(rows)
    for m in range(members):
        for j in range(rows):
            x[j] = z[m, first + j, pred[first + j]]
        _member_confidence(x, lse[m], is_probs, rows, mean_lse, worst)
        for j in range(rows):
            member_p[m, first + j] = x[j]
    for j in range(rows):
        out[LSE, first + j] = mean_lse[j] / members
        out[WORST_LSE, first + j] = worst[j]
    if labelled:
        _log_mean_exp(log_label, rows, x, y)
        exp_lanes(y, x)
        for j in range(rows):
            out[LOG_LABEL, first + j] = y[j]
            out[LABEL, first + j] = x[j]
    for j in range(rows):
        modal = 0
        for c in range(votes.shape[1]):
            modal = max(modal, votes[j, c])
        out[VARIATION_RATIO, first + j] = 1.0 - modal / members
        out[EXPECTED_ENTROPY, first + j] = max(out[EXPECTED_ENTROPY, first + j] / members, 0.0)


@kernel(fastmath=SUMS)
def _add_exp_row(z, i, top, e, total, j):
    """Add softmax(z[i]) to total[j]; Σe and Σe·d."""
    s0, s1 = like(top, 0), like(top, 0)
    for k in range(z.shape[1]):
        d = at_least_lowest(z[i, k] - top)
        v = fast_exp(d)
        e[k] = v
        s0 += v
        s1 += v * d
    scale = like(top, 1) / s0
    for k in range(z.shape[1]):
        total[j, k] += e[k] * scale
    return s0, s1


@kernel(fastmath=SUMS)
def _add_prob_row(z, i, total, j):
    """Add z[i]/Σz[i] to total[j]; Σp, NaN where an entry is negative, and Σp·log p."""
    s0, s1 = like(z[i, 0], 0), like(z[i, 0], 0)
    negative = np.int32(0)
    for k in range(z.shape[1]):
        v = z[i, k]
        s0 += v
        s1 += v * fast_log(max(v, like(v, TINY)))
        negative += np.int32(v < 0)
    scale = like(s0, 1) / s0
    for k in range(z.shape[1]):
        total[j, k] += z[i, k] * scale
    return s0 if negative == 0 else like(s0, np.nan), s1


@kernel()
def _tie_row(total, j, top, nearly):
    """Set averages of row j that differ from the largest by rounding only to it; the first of them."""
    bound = top * nearly
    first = total.shape[1] - 1
    for k in range(total.shape[1] - 1, -1, -1):
        if total[j, k] >= bound:
            total[j, k] = top
            first = k
    return first


@kernel()
def _tie_tile(total, top, nearly, arg):
    """The same of the rows of a tile."""
    for k in range(total.shape[0] - 1, -1, -1):
        row, label = total[k], np.int32(k)
        for j in range(W):
            arg[j] = label if row[j] >= top[j] * nearly else arg[j]
            row[j] = top[j] if row[j] >= top[j] * nearly else row[j]


@kernel()
def _add_long_row(z, i, is_probs, e, total, j):
    """Add the prediction in row i to total[j]: its maximum, the first index of that, Σe and Σe·d."""
    top = row_top(z, i)
    s0, s1 = _add_prob_row(z, i, total, j) if is_probs else _add_exp_row(z, i, top, e, total, j)
    return top, first_at(z, i, top), s0, s1


@kernel()
def _add_group(z, labels, is_probs, first, rows, buffer, e, total, votes, fault, lanes):
    """Add one member's rows first … first + rows; lanes: maximum, Σe, Σe·d and score of the label of each."""
    for j in range(rows):
        i = first + j
        if buffer.shape[1] > z.shape[1]:
            pad(z, i, buffer, 0)
            top, k, s0, s1 = _add_long_row(buffer, 0, is_probs, e, total, j)
        else:
            top, k, s0, s1 = _add_long_row(z, i, is_probs, e, total, j)
        fault[i] |= not (s0 < np.inf)
        votes[j, k] += 1
        lanes[0, j], lanes[1, j], lanes[2, j] = top, s0, s1
        lanes[3, j] = z[i, labels[i]] if labels.size else np.nan


@kernel(fastmath={"contract"})
def _close_member(lanes, is_probs, rows, lse, log_label, entropy):
    """Each row's log-sum-exp and log p(label) of one member, and its entropy added to the sum."""
    for j in range(rows):
        log_s0 = log64(lanes[1, j])
        entropy[j] += log_s0 - lanes[2, j] / lanes[1, j]
        lse[j] = log_s0 if is_probs else lanes[0, j] + log_s0
        x = lanes[3, j]
        if is_probs:
            x = log_any(x) if x > 0 else (-np.inf if x == 0 else np.nan)
        log_label[j] = x - lse[j]


@kernel()
def long_rows(z, labels, is_probs, nearly, out, pred, fault, member_p, mean, start, stop):
    """The record of rows start … stop of the average of all members; `mean` (N, C) is filled where it has a size.

    Without labels the logarithms of their probabilities are left out.
    """
    members, _, classes = z.shape
    group = max(1, min(W, 65536 // classes))
    width = padded_width(classes)
    total, votes = np.empty((group, width), z.dtype), np.empty((group, width), np.int32)
    buffer, e = padding(z, is_probs, width), np.empty(width, z.dtype)
    lanes, entropy = np.empty((4, group)), np.empty(group)
    lse, log_label = np.empty((members, group)), np.empty((members, group))
    share = like(z[0, 0, 0], 1.0 / members)
    for first in range(start, stop, group):
        rows = min(group, stop - first)
        clear(entropy)
        clear(total.ravel())
        clear(votes.ravel())
        for m in range(members):
            _add_group(z[m], labels, is_probs, first, rows, buffer, e, total, votes, fault, lanes)
            _close_member(lanes, is_probs, rows, lse[m], log_label[m], entropy)
        for j in range(rows):
            i = first + j
            out[EXPECTED_ENTROPY, i] = entropy[j]
            out[SUM_SQUARES, i], out[ENTROPY, i] = _average_row(total[j], share)
            top = row_top(total, j)
            out[CONFIDENCE, i] = top
            pred[i] = min(_tie_row(total, j, top, like(share, nearly)), classes - 1)
            if mean.size:
                for k in range(classes):
                    mean[i, k] = total[j, k]
        _close_group(z, labels.size > 0, is_probs, first, rows, pred, out, lse, log_label, votes, member_p)


# ---------------------------------------------------------------------------------- narrow rows
@kernel(fastmath=SUMS)
def _tile_member(tile, top, is_probs, e, total, entropy, s0, s1, lse):
    """Add one member's probabilities and entropies to the running sums of a tile."""
    clear(s0)
    clear(s1)
    for k in range(tile.shape[0]):
        row = tile[k]
        column = e[k]
        if is_probs:
            for j in range(W):
                v = row[j]
                column[j] = v
                s0[j] += v
                s1[j] += v * fast_log(max(v, like(v, TINY)))
        else:
            for j in range(W):
                d = at_least_lowest(row[j] - top[j])
                v = fast_exp(d)
                column[j] = v
                s0[j] += v
                s1[j] += v * d
    for j in range(W):
        log_s0 = fast_log(s0[j])
        s0[j] = like(s0[j], 1) / s0[j]
        entropy[j] += log_s0 - s1[j] * s0[j]
        lse[j] = log_s0
    for k in range(tile.shape[0]):
        column = e[k]
        sums = total[k]
        for j in range(W):
            sums[j] += column[j] * s0[j]


@kernel(fastmath=SUMS)
def _tile_average(total, share, squares, entropy):
    clear(squares)
    clear(entropy)
    for k in range(total.shape[0]):
        row = total[k]
        for j in range(W):
            p = row[j] * share
            row[j] = p
            squares[j] += p * p
            entropy[j] -= p * fast_log(max(p, like(p, TINY)))


@kernel(fastmath={"contract"})
def _tile_labels(tile, labels, first, rows, is_probs, top, lane_log, lse, log_label):
    """Each lane's log-sum-exp and log p(label) of one member, in float64."""
    for j in range(rows):
        lse[j] = lane_log[j]
        lse[j] += 0.0 if is_probs else top[j]
    if labels.size == 0:
        return
    for j in range(rows):
        log_label[j] = tile[labels[first + j], j]
    for j in range(rows):
        x = log_label[j]
        if is_probs:
            x = log_any(x) if x > 0 else (-np.inf if x == 0 else np.nan)
        log_label[j] = x - lse[j]


@kernel()
def narrow_rows(z, labels, is_probs, nearly, out, pred, fault, member_p, mean, start, stop):
    """The same for few classes."""
    members, _, classes = z.shape
    tile, e, total = (np.zeros((classes, W), z.dtype), np.zeros((classes, W), z.dtype), np.zeros((classes, W), z.dtype))
    lanes = np.zeros((5, W), z.dtype)
    top, s0, s1, entropy, lane_lse = lanes[0], lanes[1], lanes[2], lanes[3], lanes[4]
    arg, odd = np.zeros(W, np.int32), np.zeros(W, np.int32)
    lse, log_label = np.empty((members, W)), np.empty((members, W))
    votes = np.empty((W, classes), np.int32)
    share = like(z[0, 0, 0], 1.0 / members)
    for first in range(start, stop, W):
        rows = min(W, stop - first)
        clear(odd)
        clear(entropy)
        clear(total.ravel())
        clear(votes.ravel())
        for m in range(members):
            turn(z[m], first, rows, tile)
            tile_extent(tile, top, arg, odd)
            if is_probs:
                for k in range(classes):
                    row = tile[k]
                    for j in range(W):
                        odd[j] |= row[j] < 0
            _tile_member(tile, top, is_probs, e, total, entropy, s0, s1, lane_lse)
            for j in range(rows):
                votes[j, arg[j]] += 1
            _tile_labels(tile, labels, first, rows, is_probs, top, lane_lse, lse[m], log_label[m])
        for j in range(rows):
            fault[first + j] = odd[j]
        _tile_average(total, share, s0, s1)
        tile_extent(total, top, arg, odd)
        _tie_tile(total, top, like(share, nearly), arg)
        for j in range(rows):
            i = first + j
            pred[i] = arg[j]
            out[CONFIDENCE, i] = top[j]
            out[SUM_SQUARES, i], out[ENTROPY, i] = s0[j], max(s1[j], like(share, 0))
            out[EXPECTED_ENTROPY, i] = entropy[j]
            if mean.size:
                for k in range(classes):
                    mean[i, k] = total[k, j]
        _close_group(z, labels.size > 0, is_probs, first, rows, pred, out, lse, log_label, votes, member_p)
