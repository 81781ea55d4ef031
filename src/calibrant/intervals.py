"""Intervals of means, shares and rankings.

Means: Student's t, corrected for skewness by a monotone transformation (Hall 1992, JRSS B 54: 221-228); shares of right
answers: Wilson (1927); ROC AUC: DeLong, DeLong & Clarke-Pearson (1988) on the logit scale.
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


def t_quantile(level: float, degrees: int) -> float:
    """The central quantile of Student's t for a confidence level."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, 0.5 + level / 2))


def normal_quantile(level: float) -> float:
    """The central quantile of the normal distribution for a confidence level."""
    from scipy.special import ndtri

    return float(ndtri(0.5 + level / 2))


def studentised(mean: float, error: float, skewness: float, n: int, level: float) -> Interval:
    """Student's t of n independent terms, corrected for their skewness (Hall 1992, JRSS B).

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
    """From the variance of the placement values of positives and negatives, on the logit scale."""
    inside, outside = np.sort(score[positive]), np.sort(score[~positive])
    m, n = len(inside), len(outside)
    if m < 2 or n < 2 or not 0.0 < auc < 1.0:
        return NONE
    ranks = mid_ranks(np.concatenate([inside, outside]))
    placed_in = (ranks[:m] - mid_ranks(inside)) / n
    placed_out = 1.0 - (ranks[m:] - mid_ranks(outside)) / m
    error = math.sqrt(placed_in.var(ddof=1) / m + placed_out.var(ddof=1) / n)
    if error == 0.0:
        return NONE
    half = normal_quantile(level) * error / (auc * (1 - auc))
    centre = math.log(auc / (1 - auc))
    return Interval(_expit(centre - half), _expit(centre + half), "delong-logit")


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
