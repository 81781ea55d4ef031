"""The law of a number of hits: leaves of few rows one row at a time, then halves convolved, tails cut off as they grow.

All terms are positive, so nothing cancels. A half of n rows is about 18 standard deviations wide once its tails are
cut, and two of them cost the product of their widths: about the same for every level of halving, N log N in all.
"""

import numpy as np

from calibrant.kernels.jit import kernel

u8 = np.uint64
LEAF = 32
"""Rows that are added one at a time."""
NEGLIGIBLE = 1e-20
"""Mass that is cut off a tail of each half."""


@kernel(fastmath={"contract"})
def _add_row(law, k, p):
    """The law over 0 … k with one row more; from above, so that what is read has not been written."""
    miss = 1.0 - p
    law[k + 1] = law[k] * p
    for h in range(k, 0, -1):
        law[h] = law[h] * miss + law[h - 1] * p
    law[0] *= miss


@kernel(fastmath={"contract"})
def _add_four(a0, a1, a2, a3, b, last, out, at):
    """out[at + j] += a0·b[j] + a1·b[j − 1] + …; b begins with three zeros and ends with three."""
    for j in range(u8(0), u8(last)):
        out[u8(at) + j] += a0 * b[j + u8(3)] + a1 * b[j + u8(2)] + a2 * b[j + u8(1)] + a3 * b[j]


@kernel()
def _convolve(laws, a, width_a, b, width_b, padded, out):
    """out[: width_a + width_b + 2] = the law of the sum of two independent numbers whose laws begin at a and b."""
    if width_a > width_b:
        a, b, width_a, width_b = b, a, width_b, width_a
    for j in range(width_a + width_b + 2):
        out[j] = 0.0
    padded[0] = padded[1] = padded[2] = 0.0
    for j in range(width_b):
        padded[3 + j] = laws[b + j]
    for j in range(3):
        padded[3 + width_b + j] = 0.0
    for i in range(0, width_a, 4):
        a1 = laws[a + i + 1] if i + 1 < width_a else 0.0
        a2 = laws[a + i + 2] if i + 2 < width_a else 0.0
        a3 = laws[a + i + 3] if i + 3 < width_a else 0.0
        _add_four(laws[a + i], a1, a2, a3, padded, width_b + 3, out, i)


@kernel()
def _trim(law, width, negligible):
    """The ends first … stop of what is left when tails of negligible mass are cut off."""
    first, stop = 0, width
    tail = law[0]
    while first < stop - 1 and tail < negligible:
        first += 1
        tail += law[first]
    tail = law[stop - 1]
    while stop > first + 1 and tail < negligible:
        stop -= 1
        tail += law[stop - 1]
    return first, stop


@kernel()
def _store(out, first, stop, laws, at):
    """Copy what is left to its place, as a law of mass one: 1 − p is rounded, the same way for every row of one p."""
    mass = 0.0
    for j in range(first, stop):
        mass += out[j]
    for j in range(stop - first):
        laws[at + j] = out[first + j] / mass


@kernel()
def _merge(laws, offset, width, least, top, padded, out):
    """Convolve the two last laws of the stack into the earlier of them."""
    a, b = top - 2, top - 1
    _convolve(laws, offset[a], width[a], offset[b], width[b], padded, out)
    first, stop = _trim(out, width[a] + width[b] - 1, NEGLIGIBLE)
    _store(out, first, stop, laws, offset[a])
    width[a] = stop - first
    least[a] += least[b] + first


@kernel()
def _law(p, start, stop, laws, padded, out):
    """Leave the law of the hits of rows start … stop at the beginning of `laws`; returns its least value and width.

    The laws of finished parts lie in `laws` one after the other, as a stack; two of equally many leaves are merged.
    """
    offset, width = np.zeros(64, np.int64), np.ones(64, np.int64)
    least, leaves = np.zeros(64, np.int64), np.zeros(64, np.int64)
    laws[0] = 1.0
    top = 0
    for leaf in range(start, stop, LEAF):
        rows = min(LEAF, stop - leaf)
        out[0] = 1.0
        for k in range(rows):
            _add_row(out, k, p[leaf + k])
        first, last = _trim(out, rows + 1, NEGLIGIBLE)
        offset[top] = 0 if top == 0 else offset[top - 1] + width[top - 1]
        width[top], least[top], leaves[top] = last - first, first, 1
        _store(out, first, last, laws, offset[top])
        top += 1
        while top > 1 and leaves[top - 1] == leaves[top - 2]:
            _merge(laws, offset, width, least, top, padded, out)
            top -= 1
            leaves[top - 1] *= 2
    while top > 1:
        _merge(laws, offset, width, least, top, padded, out)
        top -= 1
    return least[0], width[0]


@kernel()
def laws_of_runs(p, edges, least, width, out):
    """The law of the hits of each run of rows edges[g] … edges[g + 1], from out[edges[g] + g] on."""
    longest = LEAF
    for g in range(edges.size - 1):
        longest = max(longest, edges[g + 1] - edges[g])
    laws, padded, scratch = np.empty(2 * longest + 8), np.empty(longest + 8), np.empty(2 * longest + 8)
    for g in range(edges.size - 1):
        least[g], width[g] = _law(p, edges[g], edges[g + 1], laws, padded, scratch)
        at = edges[g] + g
        for j in range(width[g]):
            out[at + j] = laws[j]
