"""Intervals of means, shares and rankings.

Means: Student's t, corrected for skewness by a monotone transformation (Hall 1992, JRSS B 54: 221-228); shares of right
answers: Wilson (1927); ROC AUC: DeLong, DeLong & Clarke-Pearson (1988) on the logit scale; other rankings: the variance
of their influence function, on the logit scale or as a score interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Interval:
    """Both ends, and how they were found."""

    low: float
    high: float
    method: str


NONE = Interval(math.nan, math.nan, "none")
APPROXIMATE = "-approximate"
"""At the end of the method of an interval that may cover less than its level; the registry says when."""


def t_quantile(level: float, degrees: float) -> float:
    """The central quantile of Student's t for a confidence level."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, 0.5 + level / 2))


def normal_quantile(level: float) -> float:
    """The central quantile of the normal distribution for a confidence level."""
    from scipy.special import ndtri

    return float(ndtri(0.5 + level / 2))


def studentised(mean: float, error: float, skewness: float, n: float, level: float) -> Interval:
    """Student's t of n independent terms, or an effective number, corrected for their skewness (Hall 1992, JRSS B).

    Undefined from one term, and where the terms show no spread at all: that they are equal says little of the next.

    With a = γ/(3√n), Hall's h(T) = T + aT² + a²T³/3 + a/2 is nearly normal; its inverse is explicit.
    """
    if n < 2 or not (math.isfinite(mean) and math.isfinite(error)) or error <= 0.0:
        return NONE
    t, a = t_quantile(level, n - 1), skewness / (3.0 * math.sqrt(n))
    if not math.isfinite(a) or abs(a) < 1e-9:
        return Interval(mean - t * error, mean + t * error, "studentised")

    def inverse(x: float) -> float:
        return (math.cbrt(1.0 + 3.0 * a * (x - a / 2.0)) - 1.0) / a

    return Interval(mean - inverse(t) * error, mean - inverse(-t) * error, "studentised-hall")


def wilson(share: float, n: float, level: float) -> Interval:
    """Wilson's interval of a share of n independent rows; n may be an effective number."""
    z = normal_quantile(level)
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return Interval(max(centre - half, 0.0), min(centre + half, 1.0), "wilson")


def delong(score: np.ndarray, positive: np.ndarray, auc: float, level: float) -> Interval:
    """From the variance of the placement values of positives and negatives, on the logit scale.

    Each side's variance is stabilised by one pseudo-row of the largest variance that values of this mean can have: a
    few positives that happen to lie alike say little of the next.
    """
    inside, outside = np.sort(score[positive]), np.sort(score[~positive])
    m, n = len(inside), len(outside)
    if m < 2 or n < 2 or not 0.0 < auc < 1.0:
        return NONE
    ranks = mid_ranks(np.concatenate([inside, outside]))
    placed_in = (ranks[:m] - mid_ranks(inside)) / n
    placed_out = 1.0 - (ranks[m:] - mid_ranks(outside)) / m
    if placed_in.min() == placed_in.max() and placed_out.min() == placed_out.max():
        return NONE
    most = auc * (1.0 - auc)
    variance = (placed_in.var(ddof=1) + most / m) / (m + 1) + (placed_out.var(ddof=1) + most / n) / (n + 1)
    return _logit(auc, math.sqrt(variance) * normal_quantile(level), "delong-logit")


@dataclass(frozen=True)
class Variance:
    """The variance of an estimate from terms of its influence function, and its degrees of freedom."""

    value: float
    degrees: float

    @classmethod
    def of(cls, terms: np.ndarray, units: np.ndarray | None = None, floor: float = 0.0) -> Variance | None:
        """Of the terms of rows in sorted order, summed by unit; None without spread.

        Degrees by Satterthwaite, 2·variance²/(variance of the variance), which few large terms make few. The floor is
        added to the variance, as known.
        """
        if units is not None:
            _, place = np.unique(units, return_inverse=True)
            terms = np.sort(np.bincount(place, terms))  # the numbers of units depend on the order of rows
        n, squares = len(terms), terms * terms
        total = float(squares.sum())
        if n < 2 or not total > 0.0:
            return None
        spread = float((squares * squares).sum()) - total * total / n
        value = total * n / (n - 1) + floor
        return cls(value, min(2.0 * value * value / spread, 1e9) if spread > 0.0 else n - 1.0)


def logit_interval(value: float, variance: Variance | None, level: float) -> Interval:
    """Student's t on the logit scale, of a value in (0, 1)."""
    if variance is None or not 0.0 < value < 1.0:
        return NONE
    half = math.sqrt(variance.value) * t_quantile(level, variance.degrees)
    return _logit(value, half, "influence-logit")


def score_interval(value: float, variance: Variance | None, floor: float, level: float) -> Interval:
    """All θ with |value − θ| up to t·√variance(θ), for a positive value whose variance above the floor grows with θ.

    Of counts of rare events with weights it is the score interval of a Poisson mean.
    """
    if variance is None or not value > 0.0:
        return NONE
    t = t_quantile(level, variance.degrees)
    middle = value + t * t * (variance.value - floor) / (2.0 * value)
    half = math.sqrt(max(middle * middle - value * value + t * t * floor, 0.0))
    return Interval(middle - half, middle + half, "influence-score")


def _logit(value: float, half: float, method: str) -> Interval:
    """The ends on the logit scale, `half` being the half-width on the scale of the value."""
    centre, half = math.log(value / (1.0 - value)), half / (value * (1.0 - value))
    return Interval(_expit(centre - half), _expit(centre + half), method)


def rate_at_quantile(scores: np.ndarray, others: np.ndarray, share: float, value: float, level: float) -> Interval:
    """Of the rate P(score ≥ t), estimated by `value`, where t is exceeded or met by this share of the others.

    Scores and others are in rising order, at least two of each. Two errors, that of a share (Wilson) and that of t
    (order statistics by binomial limits, interpolated), are combined as independent distances from the value. Where
    too few others bound t from below, the upper end is 1.
    """
    n, m = len(scores), len(others)

    def rate(place: float, above: bool) -> float:
        """The rate at the value of the others at this place from 1, interpolated between finite ones."""
        place = min(max(place, 1.0), float(m))
        first = int(place)
        a, b = float(others[first - 1]), float(others[min(first, m - 1)])
        finite = math.isfinite(a) and math.isfinite(b)
        t = a + (place - first) * (b - a) if finite else b if above and place > first else a
        return (n - int(np.searchsorted(scores, t, "left"))) / n

    first, last = (_order_statistic(1.0 - share, m, 0.5 + sign * level / 2) for sign in (1, -1))
    around = wilson(value, n, level)
    low = value - math.hypot(value - around.low, max(value - rate(last, True), 0.0))
    high = value + math.hypot(around.high - value, max(rate(first, False) - value, 0.0))
    return Interval(max(low, 0.0), min(high, 1.0) if first >= 1.0 else 1.0, "order-statistics")


def _order_statistic(share: float, m: int, confidence: float) -> float:
    """The order j, not whole, for which the j-th smallest of m lies below the quantile with this confidence.

    Its share of a continuous distribution has a beta distribution with parameters j and m + 1 − j.
    """
    from scipy.special import betainc

    low, high = 0.0, m + 1.0
    for _ in range(60):
        middle = (low + high) / 2.0
        if betainc(middle, m + 1.0 - middle, share) > confidence:
            low = middle
        else:
            high = middle
    return low


def percentile(replicates: np.ndarray, level: float) -> Interval:
    """The central share of resampled values; undefined where they show no spread."""
    finite = replicates[np.isfinite(replicates)]
    if finite.size < 20 or finite.min() == finite.max():
        return NONE
    low, high = np.quantile(finite, [0.5 - level / 2, 0.5 + level / 2])
    return Interval(float(low), float(high), "poisson-bootstrap")


def reflected(value: float, found: Interval) -> Interval:
    """An interval turned about the value, which takes the bias of a maximum off instead of doubling it."""
    if found is NONE:
        return NONE
    return Interval(2.0 * value - found.high, 2.0 * value - found.low, f"{found.method}-reflected{APPROXIMATE}")


def approximate(found: Interval) -> Interval:
    """The same, marked as one that may cover less than its level."""
    return found if found is NONE else Interval(found.low, found.high, found.method + APPROXIMATE)


def wider(a: Interval, b: Interval) -> Interval:
    """From the lower low to the higher high."""
    return a if a is NONE else Interval(min(a.low, b.low), max(a.high, b.high), f"{a.method}-wider")


def mid_ranks(x: np.ndarray) -> np.ndarray:
    """Ranks from 1, equal values sharing their mean rank."""
    _, inverse, counts = np.unique(x, return_inverse=True, return_counts=True)
    return (counts.cumsum() - (counts - 1) / 2.0)[inverse]


def _expit(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x))


def binomial_band(n: int, share: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Both ends (K,) of the shares of n trials, each true with probability share[k], that hold at least `level`."""
    return _binomial_quantile(n, share, 0.5 - level / 2) / n, _binomial_quantile(n, share, 0.5 + level / 2) / n


def _binomial_quantile(n: int, share: np.ndarray, q: float) -> np.ndarray:
    """The smallest k with P(X ≤ k) ≥ q, by bisection."""
    from scipy.special import bdtr

    low, high = np.full(len(share), -1), np.full(len(share), n)
    while (high - low > 1).any():
        middle = (low + high) // 2
        enough = bdtr(middle.astype(np.float64), n, share) >= q
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return high
