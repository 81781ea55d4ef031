"""Tests that numbers are uniform on (0, 1): the statistics, and their laws for n independent numbers.

References: Stephens (1974), JASA 69: 730-737, for the forms that make limiting laws hold at small n; Anderson &
Darling (1952), Annals of Mathematical Statistics 23: 193-212, and (1954), JASA 49: 765-769, for the limits; Gneiting,
Balabdaoui & Raftery (2007), JRSS B 69: 243-268, for what uniformity of the PIT says.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

TERMS = 12
"""Of the series of the limiting laws: what follows is below 1e-12."""
FEWEST = 5
"""Numbers from which the laws hold in their upper tail."""
STEPS, REACH = 1000, 8.0
"""Of the trapezoidal rule: how many, and how far."""


def kolmogorov_smirnov(u: np.ndarray) -> float:
    """D = sup |F_n(u) − u|, of sorted u."""
    n = len(u)
    place = np.arange(n)
    return float(max((u - place / n).max(), ((place + 1) / n - u).max()))


def cramer_von_mises(u: np.ndarray) -> float:
    """W² = 1/(12n) + Σ_i (u_i − (2i − 1)/(2n))², of sorted u."""
    n = len(u)
    return float(1.0 / (12.0 * n) + np.square(u - (2.0 * np.arange(n) + 1.0) / (2.0 * n)).sum())


def anderson_darling(u: np.ndarray) -> float:
    """A² = −n − 1/n·Σ_i (2i − 1)(log u_i + log(1 − u_{n+1−i})), of sorted u; infinite where a u is 0 or 1."""
    n = len(u)
    if u[0] <= 0.0 or u[-1] >= 1.0:
        return math.inf
    terms = np.log(u) + np.log1p(-u[::-1])
    return float(-n - ((2.0 * np.arange(n) + 1.0) * terms).sum() / n)


# ------------------------------------------------------------------------------------------- laws
def _binomial(k: int) -> float:
    """|C(−½, k)|, which falls like k^(−½)."""
    return math.gamma(k + 0.5) / (math.gamma(0.5) * math.factorial(k))


def cramer_von_mises_exceeds(x: float) -> float:
    """P(W² > x) in the limit: one minus 1/(π√x)·Σ_k |C(−½, k)|·√(4k + 1)·e^(−c)·K_¼(c), c = (4k + 1)²/(16x)."""
    from scipy.special import kve

    if x <= 0.0:
        return 1.0
    if x > 8.0:  # about e^(−π²x/2)
        return 0.0
    total = 0.0
    for k in range(TERMS):
        c = (4 * k + 1) ** 2 / (16.0 * x)
        total += _binomial(k) * math.sqrt(4 * k + 1) * math.exp(-2.0 * c) * float(kve(0.25, c))
    return min(max(1.0 - total / (math.pi * math.sqrt(x)), 0.0), 1.0)


def anderson_darling_exceeds(x: float) -> float:
    """P(A² > x) in the limit: one minus √(2π)/x·Σ_k C(−½, k)·(4k + 1)·I_k.

    I_k = ∫₀^∞ exp(x/(8(w² + 1)) − r²(1 + w²)) dw with r = (4k + 1)·π/√(8x), by the trapezoidal rule in v = r·w.
    """
    if x <= 0.0:
        return 1.0
    if x > 60.0:  # about e^(−x)
        return 0.0
    v = np.arange(STEPS) * (REACH / STEPS)
    weight = np.exp(-v * v) * (REACH / STEPS)
    weight[0] /= 2.0
    total = 0.0
    for k in range(TERMS):
        rate = (4 * k + 1) * math.pi / math.sqrt(8.0 * x)
        inner = float((weight * np.exp(x / (8.0 * (np.square(v / rate) + 1.0)))).sum()) * math.exp(-rate * rate) / rate
        total += (-1) ** k * _binomial(k) * (4 * k + 1) * inner
    return min(max(1.0 - math.sqrt(2.0 * math.pi) / x * total, 0.0), 1.0)


def kolmogorov_exceeds(x: float) -> float:
    """P(√n·D > x) in the limit."""
    from scipy.special import kolmogorov

    return float(kolmogorov(x))


@cache
def _point(exceeds: Callable[[float], float], share: float) -> float:
    """Where a limiting law has this share below."""
    low, high = 0.0, 1.0
    while exceeds(high) > 1.0 - share:
        high *= 2.0
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if exceeds(middle) > 1.0 - share else (low, middle)
    return high


@dataclass(frozen=True)
class Test:
    """A statistic of sorted numbers, and its law: P(statistic > x) = exceeds((x − shift(n))·scale(n))."""

    statistic: Callable[[np.ndarray], float]
    exceeds: Callable[[float], float]
    scale: Callable[[int], float] = lambda n: 1.0
    shift: Callable[[int], float] = lambda n: 0.0

    def p_value(self, value: float, n: int) -> float:
        """How often n uniform numbers give as much."""
        return self.exceeds((value - self.shift(n)) * self.scale(n)) if math.isfinite(value) else 0.0

    def quantile(self, share: float, n: int) -> float:
        """The value that a share of samples of n uniform numbers stays below."""
        return _point(self.exceeds, share) / self.scale(n) + self.shift(n)


TESTS = {
    "ks": Test(kolmogorov_smirnov, kolmogorov_exceeds, scale=lambda n: math.sqrt(n) + 0.12 + 0.11 / math.sqrt(n)),
    "cvm": Test(
        cramer_von_mises, cramer_von_mises_exceeds, scale=lambda n: 1.0 + 1.0 / n, shift=lambda n: 0.4 / n - 0.6 / n**2
    ),
    "ad": Test(anderson_darling, anderson_darling_exceeds),
}
"""Tests by name. That of Anderson and Darling is near its limit from n = 3 on (Stephens 1974)."""
