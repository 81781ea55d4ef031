"""Replicated labels of classifiers: rows outside, replicates inside, so that the lanes of a vector are replicates.

Notation: replicates lie in lanes, those of one member side by side; edges[m] … edges[m + 1] are the lanes of member m.
w are the upper 31 bits of the random word of (replicate, row), T = ⌊p_m(k)·2³¹⌋ of the predicted class k. The label is
k where w < T, and else the first other class whose running sum T + Σ ⌊p_m(j)·2³¹⌋, j ≤ class, j ≠ k, lies above w:
whether a replicate hits is known without the other classes. All sums are integers, so that no order of rows, blocks or
threads changes a bit.
"""

import numpy as np

from calibrant.kernels.jit import kernel
from calibrant.kernels.loops.floats import at_least_lowest, fast_exp, fast_log, like
from calibrant.kernels.loops.optional_columns import bin_of
from calibrant.kernels.loops.philox import philox
from calibrant.kernels.loops.softmax import TINY, row_top
from calibrant.kernels.loops.vectors import LANES, add_steps, sum_in_order

u4 = np.uint32
u8 = np.uint64
i4 = np.int32
ONE = u4(1 << 31)
CERTAIN = u4((1 << 31) - 256)
"""Thresholds above are certainty: two units in the last place of a float32 below 1."""
NARROW = 48
"""Classes up to which every replicate is compared with every class."""
SCORE = 2.0**24
HIGHEST = 60.0
"""Scores are integers of 2⁻²⁴, at most this; a label that can be drawn has a log score below 40."""
NLL, BRIER = 0, 1
CONFIDENCE = 2.0**30
"""Sums of probabilities in bins are integers in units of its inverse."""


# ------------------------------------------------------------------------------------- words, thresholds
@kernel()
def _fill(k0, k1, purpose, quad, numbers, a, b, c, d):
    for r in range(numbers.size):
        a[r], b[r], c[r], d[r] = philox(quad, numbers[r], purpose, u4(0), k0, k1)


@kernel()
def draw_words(k0, k1, purpose, quad, numbers, words):
    """The random words (4, …) of each replicate for the four rows of a quad."""
    _fill(k0, k1, purpose, u4(quad), numbers, words[0], words[1], words[2], words[3])


@kernel()
def thresholds(p, out, start, stop):
    """out[i, m] = ⌊p[m, i]·2³¹⌋ of rows start … stop; what is 1 to rounding is 1."""
    for first in range(start, stop, 64):
        last = min(stop, first + 64)
        for m in range(p.shape[0]):
            for i in range(first, last):
                t = u4(min(max(np.float64(p[m, i]), 0.0), 1.0) * 2147483648.0)
                out[i, m] = ONE if t >= CERTAIN else t


# ----------------------------------------------------------------------------------------------- hits
@kernel()
def follow(words, lane, below, first, stride, count, starts, owner, start, steps, out):
    """out[lane] = start + the steps whose limits its word has reached; those of member m begin at first + m·stride.

    Whole vectors: what one writes beyond its member's lanes the next overwrites.
    """
    at = lane * words.shape[1]
    for s in range(starts.size):
        lanes = starts[s]
        add_steps(words, at + lanes, below, first + owner[s] * stride, count, start, steps, out, lanes)


@kernel()
def _add_values(values, table, place, count):
    for r in range(u8(count)):
        table[place, r] += values[r]


@kernel()
def hit_rows(limits, rows, places, hits, weights, k0, k1, purpose, numbers, starts, owner, table, start, stop):
    """table[places[b, i], lane] += weights[i] where row i hits; what was observed is in the last column.

    limits (n, M): thresholds of the predicted class; rows: the numbers of the rows among all.
    """
    words = np.empty((4, numbers.size + LANES), np.uint32)
    values, steps = np.empty(numbers.size + LANES, np.int32), np.empty(1, np.int32)
    quad, members = -1, limits.shape[1]
    for i in range(start, stop):
        if rows[i] >> 2 != quad:
            quad = rows[i] >> 2
            draw_words(k0, k1, purpose, quad, numbers, words)
        steps[0] = -weights[i]
        follow(words, rows[i] & 3, limits, i * members, 1, 1, starts, owner, weights[i], steps, values)
        for b in range(places.shape[0]):
            _add_values(values, table, places[b, i], numbers.size)
            table[places[b, i], numbers.size] += weights[i] * hits[i]


# ------------------------------------------------------------------------------------- probabilities
@kernel(fastmath={"contract"})
def _exponentials(x, top, e):
    for k in range(e.size):
        e[k] = fast_exp(at_least_lowest(x[0, k] - top))


@kernel()
def _member_row(z, m, i, is_probs, buffer, e, total):
    """The probabilities of row i by member m in e, added to `total`."""
    for k in range(z.shape[2]):
        buffer[0, k] = z[m, i, k]
    if is_probs:
        for k in range(e.size):
            e[k] = buffer[0, k]
    else:
        _exponentials(buffer, row_top(buffer, 0), e)
    scale = like(e[0], 1) / sum_in_order(e)
    for k in range(e.size):
        e[k] *= scale
    for k in range(e.size):
        total[k] += e[k]


@kernel()
def _widths(p, out, m):
    for k in range(u8(out.shape[1] - 1)):
        out[m, k + u8(1)] = u4(p[k] * like(p[k], 2147483648.0))


@kernel()
def _accumulate(p, predicted, limit, below, m):
    """Running sums of the widths from `limit`; the last class that has a width takes what rounding leaves.

    Where none has one, the most probable of the other classes takes all.
    """
    _widths(p, below, m)
    below[m, 0], below[m, predicted + 1] = limit, 0
    run, last = limit, 0
    for k in range(1, below.shape[1]):
        last = k if below[m, k] > 0 else last
        run = u4(run + below[m, k])
        below[m, k] = run
    if last == 0:
        last = 1 if predicted > 0 else 2
        for k in range(1, below.shape[1]):
            last = k if k != predicted + 1 and p[k - 1] > p[last - 1] else last
    for k in range(last, below.shape[1]):
        below[m, k] = ONE


@kernel()
def read_row(z, i, is_probs, averaged, limits, predicted, edges, below, mean, buffer, e):
    """The limits of words of every member that draws, or of the average, and the averaged prediction.

    below[m, 0] is the threshold of the predicted class, below[m, k + 1] the running sum up to class k.
    """
    for k in range(mean.size):
        mean[k] = 0
    for m in range(z.shape[0]):
        _member_row(z, m, i, is_probs, buffer, e, mean)
        if not averaged and edges[m + 1] > edges[m]:
            _accumulate(e, predicted, limits[i, m], below, m)
    share = like(mean[0], 1.0 / z.shape[0])
    for k in range(mean.size):
        mean[k] *= share
    if averaged:
        _accumulate(mean, predicted, limits[i, 0], below, 0)


# --------------------------------------------------------------------------------------------- labels
@kernel()
def labels_by_steps(words, lane, below, predicted, starts, owner, steps, labels):
    """The label of each lane: from the predicted class to class 0, and one further with each running sum."""
    steps[0] = -predicted
    for k in range(1, below.shape[1]):
        steps[k] = 1
    count, stride = below.shape[1] - 1, below.shape[1]
    follow(words, lane, below, 0, stride, count, starts, owner, i4(predicted), steps, labels)


@kernel()
def _first_above(below, m, word):
    """The first class whose running sum lies above the word; there is one."""
    first, left = u8(0), u8(below.shape[1] - 1)
    while left > u8(1):
        half = left >> u8(1)
        first += half if below[m, first + half] <= word else u8(0)
        left -= half
    return i4(first)


@kernel()
def labels_by_bisection(words, lane, below, predicted, edges, labels):
    """The same for many classes."""
    for m in range(edges.size - 1):
        for r in range(edges[m], edges[m + 1]):
            word = words[lane, r] >> u4(1)
            labels[r] = i4(predicted) if word < below[m, 0] else _first_above(below, m, word)


@kernel()
def room(z, is_probs):
    """A row of impossible classes, and room for probabilities and their sum."""
    classes = z.shape[2]
    width = (classes + LANES - 1) // LANES * LANES
    buffer = np.empty((1, width), z.dtype)
    for k in range(width):
        buffer[0, k] = 0 if is_probs else -np.inf
    return buffer, np.zeros(width, z.dtype), np.zeros(width, z.dtype)


@kernel()
def draw_rows(
    z, is_probs, averaged, limits, predicted, k0, k1, purpose, first, numbers, edges, starts, owner, out, start, stop
):
    """out[i, lane] = the label of row i; the number of row 0 among all is `first`."""
    classes = z.shape[2]
    buffer, e, mean = room(z, is_probs)
    below, steps = np.empty((edges.size - 1, classes + 1), np.uint32), np.empty(classes + 1, np.int32)
    words, labels = np.empty((4, numbers.size + LANES), np.uint32), np.empty(numbers.size + LANES, np.int32)
    quad = -1
    for i in range(start, stop):
        lane = (first + i) & 3
        if (first + i) >> 2 != quad:
            quad = (first + i) >> 2
            draw_words(k0, k1, purpose, quad, numbers, words)
        read_row(z, i, is_probs, averaged, limits, predicted[i], edges, below, mean, buffer, e)
        if classes <= NARROW:
            labels_by_steps(words, lane, below, predicted[i], starts, owner, steps, labels)
        else:
            labels_by_bisection(words, lane, below, predicted[i], edges, labels)
        for r in range(numbers.size):
            out[i, r] = labels[r]


# ---------------------------------------------------------------------------------------- scores and counts
@kernel(fastmath={"contract"})
def _score_row(mean, squares, weight, scores):
    """The log score and the Brier score of every class, times the weight of the row, in integers."""
    for k in range(u8(scores.shape[1])):
        nll = -np.float64(fast_log(max(mean[k], like(mean[k], TINY))))
        scores[NLL, k] = i4(np.rint(weight * min(max(nll, 0.0), HIGHEST) * SCORE))
    for k in range(u8(scores.shape[1])):
        scores[BRIER, k] = i4(np.rint(weight * max(squares - 2.0 * np.float64(mean[k]) + 1.0, 0.0) * SCORE))


@kernel()
def _scores_by_steps(words, lane, below, predicted, scores, starts, owner, steps, values, s):
    """values[s, lane] = the score of the lane's label, by steps from class to class: no label is needed."""
    steps[0] = scores[s, 0] - scores[s, predicted]
    for k in range(1, scores.shape[1]):
        steps[k] = scores[s, k] - scores[s, k - 1]
    count, stride = scores.shape[1], below.shape[1]
    follow(words, lane, below, 0, stride, count, starts, owner, scores[s, predicted], steps, values[s])


@kernel()
def _scatter(slots, row, labels, weight, counts, cell):
    for r in range(labels.size - LANES):
        counts[cell, slots[row, labels[r]], r] += weight


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
        counted = False
        for g in range(chosen.shape[0]):
            counted |= chosen[g, k] >= 0
        if narrow and counted:
            labels_by_steps(words, lane, below, k, starts, owner, steps, labels)
        elif not narrow and (counted or scored):
            labels_by_bisection(words, lane, below, k, edges, labels)
        if scored:
            for j in range(mean.size):
                e[j] = mean[j] * mean[j]
            _score_row(mean, np.float64(sum_in_order(e)), weights[i], scores)
            if narrow:
                for s in range(2):
                    _scores_by_steps(words, lane, below, k, scores, starts, owner, steps, values, s)
            else:
                for r in range(numbers.size):
                    values[0, r] = scores[0, labels[r]]
                    values[1, r] = scores[1, labels[r]]
            for s in range(2):
                _add_values(values[s], sums[s], cell, numbers.size)
        for g in range(chosen.shape[0]):
            if chosen[g, k] >= 0:
                _scatter(slots, chosen[g, k], labels, units[i], counts, cell)
                counts[cell, slots[chosen[g, k], observed[i]], numbers.size] += units[i]  # the observed is the last
        if scored:
            sums[NLL, cell, numbers.size] += scores[NLL, observed[i]] if finite[i] else 0
            sums[BRIER, cell, numbers.size] += scores[BRIER, observed[i]]


# ------------------------------------------------------------------------------------------- bins of classes
@kernel()
def _place_classes(mean, index, begin, bins, weight, unit, mass, total, places):
    """The place of every class that is not left out, with the weight and the probability of the row added to it."""
    for k in range(index.size):
        if index[k] >= 0:
            at = begin + index[k] * bins + bin_of(mean[k], bins)
            places[k] = at
            mass[at] += unit
            total[at] += np.int64(np.rint(np.float64(mean[k]) * weight * CONFIDENCE))


@kernel()
def _add_at_places(places, labels, weight, table, count):
    for r in range(u8(count)):
        table[places[labels[r]], r] += weight


@kernel()
def class_bin_rows(
    z, is_probs, averaged, limits, predicted, k0, k1, purpose, first, numbers, edges, starts, owner,
    observed, weights, units, cells, index, bins, mass, total, table, start, stop,
):  # fmt: skip
    """Count the labels of rows start … stop in the bins of their probability.

    The place of class k is (cell·K + index[k])·bins + the bin of p_k; classes that are left out have a negative index,
    and their labels are counted in the last row of the table. mass and total hold Σw and Σw·p, in units of 2⁻³⁰, of
    every place; table (places + 1, R + 1) holds the weights of labels, those observed in the last column.
    """
    classes, width = z.shape[2], numbers.size + LANES
    buffer, e, mean = room(z, is_probs)
    below, steps = np.empty((edges.size - 1, classes + 1), np.uint32), np.empty(classes + 1, np.int32)
    words, labels = np.empty((4, width), np.uint32), np.empty(width, np.int32)
    places, chosen, quad = np.full(classes, table.shape[0] - 1, np.int64), np.sum(index >= 0), -1
    for i in range(start, stop):
        lane, k = (first + i) & 3, predicted[i]
        if (first + i) >> 2 != quad:
            quad = (first + i) >> 2
            draw_words(k0, k1, purpose, quad, numbers, words)
        read_row(z, i, is_probs, averaged, limits, k, edges, below, mean, buffer, e)
        if classes <= NARROW:
            labels_by_steps(words, lane, below, k, starts, owner, steps, labels)
        else:
            labels_by_bisection(words, lane, below, k, edges, labels)
        begin = cells[i] * chosen * bins
        _place_classes(mean, index, begin, bins, weights[i], units[i], mass, total, places)
        _add_at_places(places, labels, units[i], table, numbers.size)
        table[places[observed[i]], numbers.size] += units[i]
