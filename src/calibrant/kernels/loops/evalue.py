"""Likelihood ratios of one row under many alternatives, summed without rounding, and the mixture of their products.

Notation: x = logit p; alternative k says logit q = a + b·x, and its ratio is q/p where y = 1, (1 − q)/(1 − p) where
y = 0. A log ratio v is cut into a multiple of 2⁻²⁰ and one of 2⁻⁵⁴; sums of either are whole numbers below 2⁵³ of such
units, so they are exact as floats, whatever their order. Vectors run over the alternatives of a row.
"""

import math

import numpy as np

from calibrant.kernels.jit import kernel
from calibrant.kernels.loops.floats import at_least_lowest, exp64, log64

MOST_ROWS = 1 << 19
"""Rows of a call: the sum of their lower parts stays below 2⁻¹."""
TO_HIGH, TO_LOW = 1.5 * 2.0**32, 1.5 * 2.0**-2
"""Added and taken off again, they leave multiples of 2⁻²⁰ and of 2⁻⁵⁴."""
FAR = 2.0**-20
"""So close to 0 or 1, or closer, alternatives that would draw p outwards leave it as it is."""


@kernel(fastmath={"contract"})
def _log_ratios(line, x, sign, log_p, outwards, out):
    """log q − log p of every alternative, of y = 1 (sign = 1), or log(1 − q) − log(1 − p) (sign = −1)."""
    for k in range(out.size):
        z = line[0, k] + line[1, k] * x
        t = -sign * z
        ratio = -(t if t > 0.0 else 0.0) - log64(1.0 + exp64(at_least_lowest(-abs(t)))) - log_p
        out[k] = 0.0 if outwards * (z - x) > 0.0 else ratio


@kernel()
def _add(v, high, low):
    """Add without rounding, but for what lies below 2⁻⁵⁴ of each."""
    for k in range(v.size):
        upper = (v[k] + TO_HIGH) - TO_HIGH
        high[k] += upper
        low[k] += ((v[k] - upper) + TO_LOW) - TO_LOW


@kernel()
def log_mixture(high, low, log_weights, rest, terms):
    """log(rest + Σ_k w_k exp S_k)."""
    for k in range(terms.size):
        terms[k] = high[k] + low[k] + log_weights[k]
    top = math.log(rest) if rest > 0.0 else -np.inf
    for k in range(terms.size):
        top = max(top, terms[k])
    for k in range(terms.size):
        terms[k] = exp64(at_least_lowest(terms[k] - top))
    total = rest * math.exp(-top) if rest > 0.0 else 0.0
    for k in range(terms.size):
        total += terms[k]
    return top + math.log(total)


@kernel()
def log_half_sum(of_lines, of_bins):
    """log((A + B)/2), with log B the sum over bins."""
    b = 0.0
    for j in range(of_bins.size):
        b += of_bins[j]
    top = max(of_lines, b)
    return top + math.log(0.5 * (math.exp(of_lines - top) + math.exp(b - top)))


@kernel()
def _take_in(p, y, line, ratios, shifts, high, low, bin_high, bin_low):
    """Add the log ratios of one row; whether it came out as had been called impossible."""
    if p <= 0.0 or p >= 1.0:
        return (y > 0.5) != (p >= 1.0)
    log_p, log_not = math.log(p), math.log1p(-p)
    outwards = -1.0 if p <= FAR else (1.0 if p >= 1.0 - FAR else 0.0)
    if y > 0.5:
        _log_ratios(line, log_p - log_not, 1.0, log_p, outwards, ratios)
    else:
        _log_ratios(line, log_p - log_not, -1.0, log_not, outwards, ratios)
    _add(ratios, high, low)
    _add(shifts, bin_high, bin_low)
    return False


@kernel()
def add_rows(p, y, bins, line, high, low, bin_high, bin_low):
    """Add the log ratios of every row to (K,) sums, those of the last J alternatives also to the (B, J) of its bin.

    Returns how many rows came out as had been called impossible; others of p = 0 or 1 have ratio 1. At most MOST_ROWS.
    """
    ratios = np.empty(high.size)
    shifts = ratios[high.size - bin_high.shape[1] :]
    impossible = 0
    for i in range(p.size):
        b = bins[i]
        impossible += _take_in(p[i], y[i], line, ratios, shifts, high, low, bin_high[b], bin_low[b])
    return impossible


@kernel()
def follow_rows(p, y, bins, line, log_weights, log_shift_weights, rest, high, low, bin_high, bin_low, path):
    """As `add_rows`, one row after the other; path (N,) gets log E after each."""
    ratios, few = np.empty(high.size), np.empty(bin_high.shape[1])
    shifts = ratios[high.size - few.size :]
    of_bins = np.empty(len(bin_high))
    for b in range(of_bins.size):
        of_bins[b] = log_mixture(bin_high[b], bin_low[b], log_shift_weights, rest, few)
    impossible = 0
    for i in range(p.size):
        b = bins[i]
        impossible += _take_in(p[i], y[i], line, ratios, shifts, high, low, bin_high[b], bin_low[b])
        of_lines = log_mixture(high, low, log_weights, 0.0, ratios)
        of_bins[b] = log_mixture(bin_high[b], bin_low[b], log_shift_weights, rest, few)
        path[i] = np.inf if impossible else log_half_sum(of_lines, of_bins)
    return impossible
