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


MANY = 1e4
"""Variance of a count from which it is taken as normal."""


def detectable_shift(variance: float, n: float, level: float) -> float:
    """The smallest shift of a mean of n outcomes that a two-sided test at this level detects with 80% power.

    variance: of the sum of outcomes if predictions are right. Where they are nearly certain, surprises are Poisson, and
    a shift adds to their variance too: with no expected surprise at all, 1.6/n is detected, not 0.
    """
    from scipy.special import gammainc, gammaincinv, ndtri

    if variance > MANY:
        return math.sqrt(variance) * float(ndtri(1.0 - level / 2.0) + ndtri(0.8)) / n
    low, high = 0, max(1, math.ceil(variance))
    while gammainc(high, variance) > level / 2.0:  # P(X ≥ high) of a Poisson variable
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if gammainc(middle, variance) > level / 2.0 else (low, middle)
    return (float(gammaincinv(high, 0.8)) - variance) / n


def rows_to_detect(variance_of_row: float, shift: float, level: float) -> int:
    """The number of rows from which such a shift is detected."""
    low, high = 0, 1
    while detectable_shift(high * variance_of_row, high, level) > shift:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        enough = detectable_shift(middle * variance_of_row, middle, level) <= shift
        low, high = (low, middle) if enough else (middle, high)
    return high
