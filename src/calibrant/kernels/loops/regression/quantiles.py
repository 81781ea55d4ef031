"""Quantiles of equally weighted mixtures of normals, a row at a time; the lanes of a vector are members.

With s the normal score of a level p, each member m has its quantile at μ_m + σ_m·s, and that of the mixture lies
between the lowest and the highest of these. Within this bracket go Halley's steps on F(q) = p, each a pass over the
members for F and its first two derivatives; a step that leaves the bracket is replaced by a bisection. The start is the
quantile of the normal with the mixture's mean and variance, whatever other levels are asked for: to start from the
quantile of the level below would save a tenth of the time, and a quantile's last bits would depend on its company.
"""

import numpy as np

from calibrant.kernels.jit import SUMS, kernel
from calibrant.kernels.loops.floats import exp64, float_of_ordered, ordered_bits
from calibrant.kernels.loops.normal import END, ROOT, K, between, near_mills

EXTREMES = {"nnan", "nsz", "contract"}
LANES = 8
CLOSE = 1e-6
"""A step of this many of the smallest σ is the last: the error left is its third power times at most 1e3."""

FLAT = 2e-15
"""|F(q) − p| where q is taken as it is: no more is known of F, and its slope may be 0."""

LARGEST = 1.7976931348623157e308
PATIENCE = 20
STEPS = 320
"""After PATIENCE steps every other one halves the interval or, in turn, the floats in it, which ends by STEPS."""

W = 64


@kernel(fastmath=SUMS)
def _curve(q, mu, inverse, ratio):
    """2ΣΦ, Σe·r and −Σz·e·r² of the members at q, with e = e^(−z²/2) and r = unit/σ, which is at most 1.

    r comes as an array: the compiler may reorder the product of what it is made of, and 1/σ² may overflow.
    """
    total = f = slope = 0.0
    for j in range(mu.size):
        z = (q - mu[j]) * inverse[j]
        x = abs(z)
        x = END if x > END else x
        e = exp64(-0.5 * x * x)
        h = e * near_mills((x - K) / (x + K))
        total += h if z < 0.0 else 2.0 - h
        f += e * ratio[j]
        slope -= (x if z > 0.0 else -x) * e * ratio[j] * ratio[j]
    return total, f, slope


@kernel(fastmath=EXTREMES)
def _limits(score, mu, sd, members):
    """Lowest and highest of μ + σ·score."""
    low, high = np.inf, -np.inf
    for j in range(members):
        at = mu[j] + sd[j] * score
        low = at if at < low else low
        high = at if at > high else high
    return low, high


@kernel()
def _halfway(low, high, by_bits):
    """The middle of an interval, or of the floats in it."""
    if by_bits:
        a, b = ordered_bits(low), ordered_bits(high)
        return float_of_ordered((a >> 1) + (b >> 1) + (a & b & 1))
    return 0.5 * low + 0.5 * high


@kernel()
def _solve(q, p, low, high, mu, inverse, ratio, unit, members):
    """The q of F(q) = p between low and high, from a first guess; `unit` is the smallest σ."""
    halvings = 0
    for step in range(STEPS):
        total, f, slope = _curve(q, mu, inverse, ratio)
        gap = total / (2 * members) - p
        f, slope = ROOT * f / members, ROOT * slope / members
        if gap < 0.0:
            low = q
        else:
            high = q
        newton = -gap / f
        u = newton / between(1.0 + 0.5 * newton * slope / f, 0.5, 2.0)
        after = q + u * unit
        if abs(u) < CLOSE:
            return between(after, low, high)
        if abs(gap) < FLAT:
            return q
        if not (low < after < high) or (step > PATIENCE and step % 2):
            after = _halfway(low, high, halvings % 2)
            halvings += 1
            if not (low < after < high):
                return high
        q = after
    return q


@kernel()
def _fill(mean, std, first, rows, mu, sd, inverse):
    """Turn rows first … first + rows on their side; members that fill up the last lanes lie at infinity."""
    members = mean.shape[0]
    for m in range(mu.shape[1]):
        for j in range(rows):
            mu[j, m] = mean[m, first + j] if m < members else np.inf
            sd[j, m] = std[m, first + j] if m < members else 1.0
            inverse[j, m] = min(1.0 / sd[j, m], LARGEST)


@kernel(fastmath=SUMS)
def _moments(mu, sd, members):
    """Mean, standard deviation and smallest σ of a mixture."""
    mean = square = 0.0
    least = np.inf
    for m in range(members):
        mean += mu[m] / members
        least = sd[m] if sd[m] < least else least
    for m in range(members):
        square += ((mu[m] - mean) ** 2 + sd[m] ** 2) / members
    return mean, np.sqrt(square), least


@kernel()
def _row(levels, scores, mu, sd, inverse, ratio, members, found):
    """The quantiles of one row, to `found`; NaN where a member is."""
    centre, spread, unit = _moments(mu, sd, members)
    known = not np.isnan(centre + spread)
    for m in range(mu.size):
        ratio[m] = unit / sd[m] if m < members else 0.0
    before = -np.inf
    for i in range(levels.size):
        if known:
            low, high = _limits(scores[i], mu, sd, members)
            q = low
            if low < high:
                q = centre + spread * scores[i]
                q = q if low < q < high else _halfway(low, high, False)
                q = _solve(q, levels[i], low, high, mu, inverse, ratio, unit, members)
            before = max(before, q)
        found[i] = before if known else np.nan


@kernel()
def mixture_quantiles(mean, std, levels, scores, out, start, stop):
    """Quantiles of rows start … stop at rising levels, to out (L, N); mean and std are (M, N), scores = Φ⁻¹(levels)."""
    members = mean.shape[0]
    padded = (members + LANES - 1) // LANES * LANES
    mu, sd, inverse = np.empty((W, padded)), np.empty((W, padded)), np.empty((W, padded))
    ratio, found = np.empty(padded), np.empty(levels.size)
    for first in range(start, stop, W):
        rows = min(W, stop - first)
        _fill(mean, std, first, rows, mu, sd, inverse)
        for j in range(rows):
            _row(levels, scores, mu[j], sd[j], inverse[j], ratio, members, found)
            for i in range(levels.size):
                out[i, first + j] = found[i]
