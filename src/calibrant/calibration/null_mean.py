"""Tests of a mean whose first three moments are known if the predictions are right: Pearson's type III law.

A sum of many independent terms is nearly normal; with rare events it is skewed, and tails matter here: the law of a
shifted gamma variable has the right mean, variance and skewness, and the normal as its limit.
"""

from __future__ import annotations

import math

SYMMETRIC = 1e-3
"""Skewness below which the normal law is used."""


def tails(x: float, skewness: float) -> tuple[float, float]:
    """P(X ≤ x) and P(X ≥ x) of a standardised variable with this skewness."""
    from scipy.special import gammainc, gammaincc, ndtr

    if abs(skewness) < SYMMETRIC:
        return float(ndtr(x)), float(ndtr(-x))
    shape = 4.0 / skewness**2
    place = max(shape + math.copysign(x, x * skewness) * math.sqrt(shape), 0.0)
    lower, upper = float(gammainc(shape, place)), float(gammaincc(shape, place))
    return (lower, upper) if skewness > 0 else (upper, lower)


def quantile(share: float, skewness: float) -> float:
    """The point below which a standardised variable with this skewness lies with this probability."""
    from scipy.special import gammaincinv, ndtri

    if abs(skewness) < SYMMETRIC:
        return float(ndtri(share))
    shape = 4.0 / skewness**2
    place = float(gammaincinv(shape, share if skewness > 0 else 1.0 - share))
    return math.copysign(1.0, skewness) * (place - shape) / math.sqrt(shape)


def p_value(total: float, variance: float, third: float, step: float = 0.0) -> float:
    """Two-sided p-value of a sum with mean 0, this variance and third central moment under the null.

    step: the distance between neighbouring values of a sum of zeros and ones, for the continuity correction.
    """
    if math.isnan(total):
        return math.nan
    if not math.isfinite(total):
        return 0.0
    if not variance > 0.0:
        return 1.0 if abs(total) <= 1e-12 else 0.0
    error = math.sqrt(variance)
    x = math.copysign(max(abs(total) - step / 2.0, 0.0), total) / error
    if x == 0.0:
        return 1.0
    lower, upper = tails(x, third / error**3)
    return min(1.0, 2.0 * (upper if x > 0 else lower))
