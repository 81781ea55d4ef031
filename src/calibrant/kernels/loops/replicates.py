"""Replicated labels of classifiers: rows outside, replicates inside, so that the lanes of a vector are replicates.

Notation: replicates lie in lanes, those of one member side by side; edges[m] … edges[m + 1] are the lanes of member m.
w are the upper 31 bits of the random word of (replicate, row), T = ⌊p_m(k)·2³¹⌋ of the predicted class k. The label is
k where w < T, and else the first other class whose running sum T + Σ ⌊p_m(j)·2³¹⌋, j ≤ class, j ≠ k, lies above w:
whether a replicate hits is known without the other classes. All sums are integers, so that no order of rows, blocks or
threads changes a bit.
"""

import numpy as np

from calibrant.kernels.jit import kernel
from calibrant.kernels.loops.floats import at_least_lowest, fast_exp, like
from calibrant.kernels.loops.philox import philox
from calibrant.kernels.loops.softmax import row_top
from calibrant.kernels.loops.vectors import LANES, add_steps, sum_in_order

u4 = np.uint32
u8 = np.uint64
i4 = np.int32
ONE = u4(1 << 31)
CERTAIN = u4((1 << 31) - 256)
"""Thresholds above are certainty: two units in the last place of a float32 below 1."""
NARROW = 48
"""Classes up to which every replicate is compared with every class."""


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
def _add_scaled(e, scale, total):
    for k in range(e.size):
        e[k] *= scale
    for k in range(e.size):
        total[k] += e[k]


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
    _add_scaled(e, like(e[0], 1) / sum_in_order(e), total)


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
