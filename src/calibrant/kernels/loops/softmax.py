"""One pass over the rows of a single model, and what its sums mean.

Notation: z (n, C) scores of a block, d = z − max, e = exp(d); probabilities are taken as they are, e = p. The pass
leaves, per row, the maximum, Σe, Σe·d (or Σp·log p), Σe² and the label's score in the rows of `out`; `finish_logits`
and `finish_probs`, kernels of their own that no other type of scores compiles again, turn them into the record that
everything else is computed from, in float64 and over all rows at once.

Long rows use vectors along the row, as here; those of few classes are tiled (`loops.tiles`). The choice depends on C
alone, so a row's bits never depend on its neighbours.
"""

import numpy as np

from calibrant.kernels.jit import SUMS, kernel
from calibrant.kernels.loops.floats import (
    LOWEST_64,
    at_least_lowest,
    exp64,
    fast_exp,
    fast_log,
    float_of_ordered,
    like,
    log64,
    log_any,
    ordered_bits,
)

NARROW = 48
"""Classes under which rows are tiled."""
STRETCH = 512
"""Rows that are finished at a time."""
STEP, PAD_BELOW = 64, 512
"""Rows of fewer classes than the second are padded to a multiple of the first."""
ONE_TO_ROUNDING = 2.0**-40
TINY = 1e-37
"""Stands in for p = 0 where p·log p is taken."""

# Rows of `out`, before and after finishing.
TOP, LSE = 0, 0
S0, CONFIDENCE = 1, 1
S1, ENTROPY = 2, 2
S2, SUM_SQUARES = 3, 3
AT_LABEL, LOG_LABEL = 4, 4
LABEL = 5
FIELDS = 6


# ----------------------------------------------------------------------------------- what the sums mean
# Each loop below touches at most three arrays: with more, the compiler gives up telling them apart and uses no vectors.
@kernel(fastmath={"contract"})
def _logs(x, out):
    for j in range(x.size):
        out[j] = log64(x[j])


@kernel(fastmath={"contract"})
def _entropies(sums, s0, log_s0):
    """log Σe − Σe·d/Σe, not below 0; NaN stays NaN."""
    for j in range(sums.size):
        rest = log_s0[j] - sums[j] / s0[j]
        sums[j] = 0.0 if rest < 0.0 else rest


@kernel(fastmath={"contract"})
def _squares(sums, s0):
    for j in range(sums.size):
        sums[j] = sums[j] / (s0[j] * s0[j])


@kernel(fastmath={"contract"})
def _log_labels(at_label, top, log_s0):
    for j in range(at_label.size):
        at_label[j] = at_label[j] - top[j] - log_s0[j]


@kernel(fastmath={"contract"})
def exp_lanes(x, out):
    """e^x, exactly 0 far below; NaN stays NaN."""
    for j in range(x.size):
        e = exp64(at_least_lowest(x[j]))
        out[j] = 0.0 if x[j] <= LOWEST_64 else e


@kernel()
def finish_logits(out, start, stop):
    """From the sums of logits: log-sum-exp, confidence, entropy, Σp², log p(label) and p(label) of rows start … stop.

    A stretch at a time, which stays in the nearest cache.
    """
    log_s0 = np.empty(STRETCH)
    for a in range(start, stop, STRETCH):
        b = a + STRETCH if a + STRETCH < stop else stop
        top, s0, entropy, squares = out[0, a:b], out[1, a:b], out[2, a:b], out[3, a:b]
        log_label, label, logs = out[4, a:b], out[5, a:b], log_s0[: b - a]
        _logs(s0, logs)
        _entropies(entropy, s0, logs)
        _squares(squares, s0)
        _log_labels(log_label, top, logs)
        exp_lanes(log_label, label)
        for j in range(s0.size):
            s0[j] = 1.0 / s0[j]
        for j in range(top.size):
            top[j] += logs[j]


@kernel()
def finish_probs(out, start, stop):
    """The same from the sums of probabilities, which are divided by their sum unless that is one to rounding.

    0.6 beside 0.3 and 0.1, which sum to the float below one, stays 0.6 and in its bin.
    """
    log_s0 = np.empty(STRETCH)
    for a in range(start, stop, STRETCH):
        b = a + STRETCH if a + STRETCH < stop else stop
        top, s0, entropy, squares = out[0, a:b], out[1, a:b], out[2, a:b], out[3, a:b]
        log_label, label, logs = out[4, a:b], out[5, a:b], log_s0[: b - a]
        for j in range(s0.size):
            s0[j] = 1.0 if abs(s0[j] - 1.0) <= ONE_TO_ROUNDING else s0[j]
        _logs(s0, logs)
        _entropies(entropy, s0, logs)
        _squares(squares, s0)
        for j in range(label.size):
            p = log_label[j] / s0[j]
            label[j] = p
            log_label[j] = log_any(p) if p > 0.0 else (-np.inf if p == 0.0 else np.nan)
        for j in range(s0.size):
            s0[j] = top[j] / s0[j]
        for j in range(top.size):
            top[j] = logs[j]


# ---------------------------------------------------------------------------------------- the pass
# Rows are named by index: a slice is counted by its users, which costs as much as thirty entries.
@kernel()
def row_top(z, i):
    """The maximum of row i. NaNs may pass: the sums tell.

    As ordered integers: float maxima do not become vectors, integer ones do.
    """
    top = ordered_bits(z[i, 0])
    for k in range(z.shape[1]):
        top = max(top, ordered_bits(z[i, k]))
    return float_of_ordered(top)


@kernel()
def first_at(z, i, m):
    """The first index at which row i is m; the last class where it never is."""
    last = np.int32(z.shape[1] - 1)
    first = last
    for k in range(z.shape[1]):
        first = min(first, np.int32(k) if z[i, k] == m else last)
    return first


@kernel(fastmath=SUMS)
def exp_sum(z, i, m):
    """Σe of row i: all that confidence and log-likelihood need. NaN where an entry is NaN or +inf, or all are -inf."""
    s0 = like(m, 0)
    for k in range(z.shape[1]):
        s0 += fast_exp(at_least_lowest(z[i, k] - m))
    return s0


@kernel(fastmath=SUMS)
def prob_sum(z, i):
    """Σp of row i, NaN where an entry is negative or NaN."""
    s0 = like(z[i, 0], 0)
    negative = np.int32(0)
    for k in range(z.shape[1]):
        s0 += z[i, k]
        negative += np.int32(z[i, k] < 0)
    return s0 if negative == 0 else like(s0, np.nan)


@kernel(fastmath=SUMS)
def prob_sums(z, i):
    """Σp, Σp·log p, Σp² of row i, the first NaN where an entry is negative or NaN."""
    s0, s1, s2 = like(z[i, 0], 0), like(z[i, 0], 0), like(z[i, 0], 0)
    negative = np.int32(0)
    for k in range(z.shape[1]):
        p = z[i, k]
        s0 += p
        s1 += p * fast_log(max(p, like(p, TINY)))
        s2 += p * p
        negative += np.int32(p < 0)
    return s0 if negative == 0 else like(s0, np.nan), s1, s2


@kernel()
def padded_width(classes):
    """Classes rounded up to whole steps of the vector loops: what is left over runs entry by entry and costs most."""
    return (classes + STEP - 1) // STEP * STEP if classes < PAD_BELOW else classes


@kernel()
def pad(z, i, buffer, j):
    """Copy row i to row j of `buffer`; entries beyond it were set by `padding`."""
    for k in range(z.shape[1]):
        buffer[j, k] = z[i, k]


@kernel()
def padding(like_z, is_probs, width):
    """Two rows of impossible classes."""
    buffer = np.empty((2, width), like_z.dtype)
    for k in range(width):
        buffer[0, k] = 0 if is_probs else -np.inf
        buffer[1, k] = buffer[0, k]
    return buffer


@kernel()
def _long_row(z, i, is_probs, light):
    """Maximum, its first index and the sums of row i: of probabilities, or of logits in a light pass."""
    m = row_top(z, i)
    s1, s2 = like(m, np.nan), like(m, np.nan)
    if light:
        s0 = prob_sum(z, i) if is_probs else exp_sum(z, i, m)
    else:
        s0, s1, s2 = prob_sums(z, i)
    return m, first_at(z, i, m), s0, s1, s2


@kernel(fastmath=SUMS)
def _exp_sums_and_next_top(z, i, m, after):
    """Σe, Σe·d, Σe² of row i while the maximum of row `after` is looked for: it comes from memory in the meantime."""
    s0, s1, s2 = like(m, 0), like(m, 0), like(m, 0)
    top = ordered_bits(z[after, 0])
    for k in range(z.shape[1]):
        d = at_least_lowest(z[i, k] - m)
        e = fast_exp(d)
        s0 += e
        s1 += e * d
        s2 += e * e
        top = max(top, ordered_bits(z[after, k]))
    return s0, s1, s2, float_of_ordered(top)


@kernel()
def put(z, labels, i, m, k, s0, s1, s2, out, pred, fault):
    """Leave what was found of row i for the kernel that finishes it."""
    fault[i] = not (s0 < np.inf)
    out[TOP, i], out[S0, i], out[S1, i], out[S2, i] = m, s0, s1, s2
    pred[i] = min(k, z.shape[1] - 1)
    out[AT_LABEL, i] = z[i, labels[i]] if labels.size else np.nan


@kernel()
def _rows_ahead(z, labels, out, pred, fault, start, stop):
    """Full records of logits with two rows under way at a time, which long rows spend waiting for memory."""
    m = row_top(z, start)
    for i in range(start, stop):
        s0, s1, s2, following = _exp_sums_and_next_top(z, i, m, min(i + 1, stop - 1))
        put(z, labels, i, m, first_at(z, i, m), s0, s1, s2, out, pred, fault)
        m = following


@kernel()
def _padded_rows_ahead(z, labels, buffer, out, pred, fault, start, stop):
    """The same through the two rows of a padded buffer: in shorter rows it is one operation that waits for another."""
    pad(z, start, buffer, start & 1)
    m = row_top(buffer, start & 1)
    for i in range(start, stop):
        here = i & 1
        pad(z, min(i + 1, stop - 1), buffer, 1 - here)
        s0, s1, s2, following = _exp_sums_and_next_top(buffer, here, m, 1 - here)
        put(z, labels, i, m, first_at(buffer, here, m), s0, s1, s2, out, pred, fault)
        m = following


@kernel()
def long_rows(z, labels, is_probs, light, out, pred, fault, start, stop):
    """The sums of rows start … stop of one model with many classes, for `finish_logits` and `finish_probs`.

    Faulty rows are flagged and their record is meaningless. A light pass may leave entropy and Σp² out.
    """
    classes = z.shape[1]
    width = padded_width(classes)
    buffer = padding(z, is_probs, width)
    if width == classes and not (is_probs or light):
        _rows_ahead(z, labels, out, pred, fault, start, stop)
    elif not (is_probs or light):
        _padded_rows_ahead(z, labels, buffer, out, pred, fault, start, stop)
    else:
        for i in range(start, stop):
            if width > classes:
                pad(z, i, buffer, 0)
                m, k, s0, s1, s2 = _long_row(buffer, 0, is_probs, light)
            else:
                m, k, s0, s1, s2 = _long_row(z, i, is_probs, light)
            put(z, labels, i, m, k, s0, s1, s2, out, pred, fault)
