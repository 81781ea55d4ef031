"""Replicated labels of classifiers: rows outside, replicates inside, so that the lanes of a vector are replicates.

Notation: replicates lie in lanes, those of one member side by side; edges[m] … edges[m + 1] are the lanes of member m.
A word w is 31 random bits of (replicate, row). T = ⌊p_m(k)·2³¹⌋ of the predicted class k: the label is k where w < T,
and else the first other class whose running sum T + Σ ⌊p_m(j)·2³¹⌋, j ≤ class, j ≠ k, lies above w. Whether a replicate
hits is thus known without the other classes. All sums are integers: no order of rows, blocks or threads changes a bit.
"""

import numpy as np

from calibrant.kernels.jit import kernel
from calibrant.kernels.loops.floats import at_least_lowest, fast_exp, like
from calibrant.kernels.loops.philox import philox
from calibrant.kernels.loops.softmax import pad, row_top

u4 = np.uint32
u8 = np.uint64
i4 = np.int32
STEP = 16
"""Lanes that are filled at a time."""
ONE = u4(1 << 31)
CERTAIN = u4((1 << 31) - 256)
"""Thresholds above are certainty: two units in the last place of a float32 below 1."""
NARROW = 48
"""Classes up to which every replicate is compared with every class."""


# ------------------------------------------------------------------------------------- words, thresholds
@kernel()
def fill_quad(k0, k1, purpose, quad, numbers, a, b, c, d):
    """31 random bits of each replicate for the four rows of a quad."""
    for r in range(numbers.size):
        a[r], b[r], c[r], d[r] = philox(quad, numbers[r], purpose, u4(0), k0, k1)


@kernel()
def _halve(words):
    for r in range(words.size):
        words[r] = words[r] >> u4(1)


@kernel()
def draw_words(k0, k1, purpose, quad, numbers, words):
    fill_quad(k0, k1, purpose, u4(quad), numbers, words[0], words[1], words[2], words[3])
    _halve(words.ravel())


@kernel()
def thresholds(p, out, start, stop):
    """out[i, m] = ⌊p[m, i]·2³¹⌋ of rows start … stop; what is 1 to rounding is 1."""
    for first in range(start, stop, 64):
        last = min(stop, first + 64)
        for m in range(p.shape[0]):
            for i in range(first, last):
                t = u4(min(max(np.float64(p[m, i]), 0.0), 1.0) * 2147483648.0)
                out[i, m] = ONE if t >= CERTAIN else t


@kernel()
def spread(values, row, starts, owner, out):
    """out[lane] = values[row, member of the lane]: whole steps, what they write too much the next one overwrites."""
    for s in range(starts.size):
        value = values[row, owner[s]]
        first = u8(starts[s])
        for j in range(u8(STEP)):
            out[first + j] = value


# ----------------------------------------------------------------------------------------------- hits
@kernel()
def _add_below(words, lane, above, weight, table, place):
    zero = table.dtype.type(0)
    for r in range(u8(words.shape[1])):
        table[place, r] += weight if words[lane, r] < above[r] else zero


@kernel()
def hit_rows(limits, rows, places, hits, weights, k0, k1, purpose, numbers, starts, owner, table, start, stop):
    """table[places[b, i], lane] += weights[i] where row i hits; what was observed is in the last column.

    limits (n, M): thresholds of the predicted class; rows: the numbers of the rows among all.
    """
    words = np.empty((4, numbers.size), np.uint32)
    above = np.empty(numbers.size + STEP, np.uint32)
    quad = -1
    for i in range(start, stop):
        if rows[i] >> 2 != quad:
            quad = rows[i] >> 2
            draw_words(k0, k1, purpose, quad, numbers, words)
        spread(limits, i, starts, owner, above)
        for b in range(places.shape[0]):
            _add_below(words, rows[i] & 3, above, weights[i], table, places[b, i])
            table[places[b, i], numbers.size] += weights[i] * hits[i]


# ------------------------------------------------------------------------------------- probabilities
@kernel(fastmath={"contract"})
def _exponentials(x, top, e):
    for k in range(e.size):
        e[k] = fast_exp(at_least_lowest(x[0, k] - top))


@kernel()
def sum_of(e, lanes):
    """Σe in an order that no compiler changes: in lanes, then across."""
    for j in range(STEP):
        lanes[j] = 0
    for base in range(u8(0), u8(e.size), u8(STEP)):
        for j in range(u8(STEP)):
            lanes[j] += e[base + j]
    total = lanes[0]
    for j in range(1, STEP):
        total += lanes[j]
    return total


@kernel()
def _add_scaled(e, scale, total):
    for k in range(e.size):
        e[k] *= scale
    for k in range(e.size):
        total[k] += e[k]


@kernel()
def _member_row(z, m, i, is_probs, buffer, e, lanes, total):
    """The probabilities of row i by member m in e, added to `total`."""
    pad(z[m], i, buffer, 0)
    if is_probs:
        for k in range(e.size):
            e[k] = buffer[0, k]
    else:
        _exponentials(buffer, row_top(buffer, 0), e)
    _add_scaled(e, like(e[0], 1) / sum_of(e, lanes), total)


@kernel()
def _widths(p, predicted, out, m):
    """⌊p·2³¹⌋ of every class but the predicted one."""
    for k in range(u8(out.shape[1])):
        out[m, k] = u4(p[k] * like(p[k], 2147483648.0))
    out[m, predicted] = 0


@kernel()
def _accumulate(p, predicted, limit, sums, m):
    """Running sums of the widths from `limit`; the last class that has a width takes what rounding leaves.

    Where none has one, the most probable of the other classes takes all.
    """
    _widths(p, predicted, sums, m)
    run, last = limit, -1
    for k in range(sums.shape[1]):
        last = k if sums[m, k] > 0 else last
        run = u4(run + sums[m, k])
        sums[m, k] = run
    if last < 0:
        last = 0 if predicted > 0 else 1
        for k in range(sums.shape[1]):
            last = k if k != predicted and p[k] > p[last] else last
    for k in range(last, sums.shape[1]):
        sums[m, k] = ONE


@kernel()
def read_row(z, i, is_probs, averaged, limits, predicted, edges, sums, mean, buffer, e, lanes):
    """Running sums of every member that draws, or of the average, and the averaged prediction."""
    for k in range(mean.size):
        mean[k] = 0
    for m in range(z.shape[0]):
        _member_row(z, m, i, is_probs, buffer, e, lanes, mean)
        if not averaged and edges[m + 1] > edges[m]:
            _accumulate(e, predicted, limits[i, m], sums, m)
    share = like(mean[0], 1.0 / z.shape[0])
    for k in range(mean.size):
        mean[k] *= share
    if averaged:
        _accumulate(mean, predicted, limits[i, 0], sums, 0)


# --------------------------------------------------------------------------------------------- labels
@kernel()
def _count_above(words, lane, above, labels):
    for r in range(u8(labels.size)):
        labels[r] += i4(words[lane, r] >= above[r])


@kernel()
def _put_hits(words, lane, above, predicted, labels):
    for r in range(u8(labels.size)):
        labels[r] = predicted if words[lane, r] < above[r] else labels[r]


@kernel()
def labels_by_counting(words, lane, limits, i, predicted, starts, owner, turned, above, labels):
    """The label of each lane: how many running sums lie at or below its word."""
    for r in range(labels.size):
        labels[r] = 0
    for k in range(turned.shape[0] - 1):
        spread(turned, k, starts, owner, above)
        _count_above(words, lane, above, labels)
    spread(limits, i, starts, owner, above)
    _put_hits(words, lane, above, i4(predicted), labels)


@kernel()
def _first_above(sums, m, word):
    """The first class whose running sum lies above the word; there is one."""
    first, left = u8(0), u8(sums.shape[1])
    while left > u8(1):
        half = left >> u8(1)
        first += half if sums[m, first + half - u8(1)] <= word else u8(0)
        left -= half
    return i4(first)


@kernel()
def labels_by_bisection(words, lane, limits, i, predicted, sums, edges, labels):
    """The same by bisection."""
    for m in range(edges.size - 1):
        limit = limits[i, m]
        for r in range(edges[m], edges[m + 1]):
            word = words[lane, r]
            labels[r] = i4(predicted) if word < limit else _first_above(sums, m, word)


@kernel()
def turn(sums, turned):
    for m in range(sums.shape[0]):
        for k in range(sums.shape[1]):
            turned[k, m] = sums[m, k]


@kernel()
def draw_rows(
    z, is_probs, averaged, limits, predicted, k0, k1, purpose, first, numbers, edges, starts, owner, out, start, stop
):
    """out[i, lane] = the label of row i; the number of row 0 among all is `first`."""
    classes, width = z.shape[2], (z.shape[2] + STEP - 1) // STEP * STEP
    buffer, e, mean, lanes = room(z, is_probs, width)
    sums, turned = np.empty((edges.size - 1, classes), np.uint32), np.empty((classes, edges.size - 1), np.uint32)
    words, above = np.empty((4, numbers.size), np.uint32), np.empty(numbers.size + STEP, np.uint32)
    quad = -1
    for i in range(start, stop):
        if (first + i) >> 2 != quad:
            quad = (first + i) >> 2
            draw_words(k0, k1, purpose, quad, numbers, words)
        read_row(z, i, is_probs, averaged, limits, predicted[i], edges, sums, mean, buffer, e, lanes)
        lane = (first + i) & 3
        if classes <= NARROW:
            turn(sums, turned)
            labels_by_counting(words, lane, limits, i, predicted[i], starts, owner, turned, above, out[i])
        else:
            labels_by_bisection(words, lane, limits, i, predicted[i], sums, edges, out[i])


@kernel()
def room(z, is_probs, width):
    """A row of impossible classes, room for probabilities and their sum, and lanes."""
    buffer = np.empty((1, width), z.dtype)
    for k in range(width):
        buffer[0, k] = 0 if is_probs else -np.inf
    return buffer, np.zeros(width, z.dtype), np.zeros(width, z.dtype), np.zeros(STEP, z.dtype)
