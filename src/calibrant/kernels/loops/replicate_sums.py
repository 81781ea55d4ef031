"""Scores and counts of replicated labels, drawn as `loops.replicates` says; sums are integers."""

import numpy as np

from calibrant.kernels.jit import kernel
from calibrant.kernels.loops.floats import fast_log, like
from calibrant.kernels.loops.replicates import (
    NARROW,
    draw_words,
    follow,
    labels_by_bisection,
    labels_by_steps,
    read_row,
    room,
)
from calibrant.kernels.loops.softmax import TINY
from calibrant.kernels.loops.vectors import LANES, sum_in_order

u8 = np.uint64
i4 = np.int32
SCORE = 2.0**24
HIGHEST = 60.0
"""Scores are integers of 2⁻²⁴, at most this; a label that can be drawn has a log score below 40."""
NLL, BRIER = 0, 1


@kernel(fastmath={"contract"})
def _score_row(mean, squares, weight, scores):
    """The log score and the Brier score of every class, times the weight of the row, in integers."""
    for k in range(u8(scores.shape[1])):
        nll = -np.float64(fast_log(max(mean[k], like(mean[k], TINY))))
        scores[NLL, k] = i4(np.rint(weight * min(max(nll, 0.0), HIGHEST) * SCORE))
    for k in range(u8(scores.shape[1])):
        scores[BRIER, k] = i4(np.rint(weight * max(squares - 2.0 * np.float64(mean[k]) + 1.0, 0.0) * SCORE))


@kernel()
def _add_values(values, s, sums, cell, count):
    for r in range(u8(count)):
        sums[s, cell, r] += values[s, r]


@kernel()
def _scores_by_steps(words, lane, below, predicted, scores, starts, owner, steps, values, s):
    """values[s, lane] = the score of the lane's label, by steps from class to class: no label is needed."""
    steps[0] = scores[s, 0] - scores[s, predicted]
    for k in range(1, scores.shape[1]):
        steps[k] = scores[s, k] - scores[s, k - 1]
    count, stride = scores.shape[1], below.shape[1]
    follow(words, lane, below, 0, stride, count, starts, owner, scores[s, predicted], steps, values[s])


@kernel()
def _scores_of_labels(scores, labels, values):
    for r in range(labels.size - LANES):
        values[0, r] = scores[0, labels[r]]
        values[1, r] = scores[1, labels[r]]


@kernel()
def _scatter(slots, row, labels, weight, counts, cell):
    for r in range(labels.size - LANES):
        counts[cell, slots[row, labels[r]], r] += weight


@kernel()
def _squares(p, e):
    for k in range(p.size):
        e[k] = p[k] * p[k]


@kernel()
def _observe(sums, counts, cell, scores, label, finite, chosen, slots, predicted, weight):
    """What was observed goes through the same integers, into the last column."""
    last = sums.shape[2] - 1
    if sums.shape[1]:
        sums[NLL, cell, last] += scores[NLL, label] if finite else 0
        sums[BRIER, cell, last] += scores[BRIER, label]
    for g in range(chosen.shape[0]):
        if chosen[g, predicted] >= 0:
            counts[cell, slots[chosen[g, predicted], label], last] += weight


@kernel()
def _is_counted(chosen, predicted):
    counted = False
    for g in range(chosen.shape[0]):
        counted |= chosen[g, predicted] >= 0
    return counted


@kernel()
def sum_rows(
    z, is_probs, averaged, limits, predicted, k0, k1, purpose, first, numbers, edges, starts, owner,
    observed, finite, weights, units, cells, sums, chosen, slots, counts, start, stop,
):  # fmt: skip
    """Sums of the scores, and counts, of the replicated labels of rows start … stop.

    sums (2, cells, R + 1) of the log and the Brier score, empty where they are not wanted; counts (cells, slots, R + 1)
    of labels: a row whose predicted class is k counts its label c in slots[chosen[g, k], c] for each g, not at all
    where chosen is negative. `weights` multiply scores, `units` are the same in whole numbers for counts; the log score
    of an observed label is left out where it is not `finite`.
    """
    classes, width = z.shape[2], numbers.size + LANES
    buffer, e, mean = room(z, is_probs)
    below, steps = np.empty((edges.size - 1, classes + 1), np.uint32), np.empty(classes + 1, np.int32)
    words, labels = np.empty((4, width), np.uint32), np.empty(width, np.int32)
    values, scores = np.empty((2, width), np.int32), np.zeros((2, classes), np.int32)
    scored, narrow, quad = sums.shape[1] > 0, classes <= NARROW, -1
    for i in range(start, stop):
        lane, k, cell = (first + i) & 3, predicted[i], cells[i]
        if (first + i) >> 2 != quad:
            quad = (first + i) >> 2
            draw_words(k0, k1, purpose, quad, numbers, words)
        read_row(z, i, is_probs, averaged, limits, k, edges, below, mean, buffer, e)
        counted = _is_counted(chosen, k)
        if narrow and counted:
            labels_by_steps(words, lane, below, k, starts, owner, steps, labels)
        elif not narrow and (counted or scored):
            labels_by_bisection(words, lane, below, k, edges, labels)
        if scored:
            _squares(mean, e)
            _score_row(mean, np.float64(sum_in_order(e)), weights[i], scores)
            if narrow:
                for s in range(2):
                    _scores_by_steps(words, lane, below, k, scores, starts, owner, steps, values, s)
            else:
                _scores_of_labels(scores, labels, values)
            for s in range(2):
                _add_values(values, s, sums, cell, numbers.size)
        for g in range(chosen.shape[0]):
            if chosen[g, k] >= 0:
                _scatter(slots, chosen[g, k], labels, units[i], counts, cell)
        _observe(sums, counts, cell, scores, observed[i], finite[i], chosen, slots, k, units[i])
