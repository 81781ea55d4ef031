"""Mergeable reductions: add(rows), merge(other), result(settings). Sums are integers, so order does not matter."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Protocol, Self

import numpy as np

from calibrant import intervals
from calibrant.intervals import NONE, Interval
from calibrant.kernels.exact import ExactSum, GroupSums
from calibrant.kernels.rows import Rows
from calibrant.registry.estimate import Estimate, Settings

Limits = tuple[float, float]
RESOLUTION = 2.0**-50
"""Spread of the terms of a mean, as a share of their squares, that cannot be told from the rounding of the squares."""
BLURRED = 5e-5
"""Standard deviation, as a share of the mean, below which the rounding of the cubes shows in the skewness (by 0.01)."""
FAINT, LOST = 1e-105, 1e-145
"""Standard deviations below which cubes, and squares, come so close to the smallest floats that digits are lost."""


class Accumulator(Protocol):
    """What every metric reduces with."""

    def add(self, rows: Rows, spread: bool = True) -> None:
        """Take in more rows; without `spread`, only what the value needs."""
        ...

    def merge(self, other: Self) -> None:
        """Take in what another has seen."""
        ...

    def result(self, settings: Settings) -> Estimate:
        """The estimate from all rows seen."""
        ...


# ------------------------------------------------------------------------------------------- means
def counting(weights: np.ndarray | None, *arrays: Any) -> list[Any]:
    """The arrays without the rows of no weight, which say nothing of value or spread."""
    if weights is None or weights.all():
        return list(arrays)
    return [None if x is None else x[weights > 0] for x in arrays]


@dataclass
class Moments:
    """Σ wᵃsᵇ for the mean of s, its standard error and skewness; per unit where rows depend on each other."""

    n: int = 0
    terms: int = 0
    sums: dict[tuple[int, int], ExactSum] = field(default_factory=dict)
    by_unit: tuple[GroupSums, GroupSums] | None = None
    """Scores and weights of each unit, where rows depend on each other."""

    POWERS = ((1, 0), (1, 1), (2, 0), (2, 1), (2, 2), (3, 0), (3, 1), (3, 2), (3, 3))

    def add(
        self,
        s: np.ndarray,
        weights: np.ndarray | None,
        units: np.ndarray | None,
        spread: bool = True,
    ) -> None:
        """Take in the scores of more rows; without `spread`, only what the mean needs."""
        self.n += len(s)
        s, weights, units = counting(weights, s, weights, units)
        self.terms += len(s)
        if units is not None and spread:
            self._add_units(s, weights, units)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):  # what is lost is known by its sums
            w, square, cube = (weights, s * s, s * s * s) if spread else (weights, s, s)
            powers = (np.ones(0), s, square, cube)
            wanted = self.POWERS if spread else ((1, 0), (1, 1))
            for a, b in wanted if w is not None else [(k, k) for k in range(1, 4 if spread else 2)]:
                term = powers[b] if w is None else w**a if b == 0 else w**a * powers[b]
                self.sums.setdefault((a, b), ExactSum()).add(term)

    def _add_units(self, s: np.ndarray, weights: np.ndarray | None, units: np.ndarray) -> None:
        w = np.ones(len(s)) if weights is None else weights
        scores, mass = self._unit_sums()
        scores.add(w * s, units)
        mass.add(w, units)

    def _unit_sums(self) -> tuple[GroupSums, GroupSums]:
        if self.by_unit is None:
            self.by_unit = (GroupSums(), GroupSums())
        return self.by_unit

    def merge(self, other: Moments) -> None:
        """Take in what another has seen."""
        self.n += other.n
        self.terms += other.terms
        for key, total in other.sums.items():
            self.sums.setdefault(key, ExactSum()).merge(total)
        if other.by_unit is not None:
            for mine, theirs in zip(self._unit_sums(), other.by_unit, strict=True):
                mine.merge(theirs)

    def _sum(self, a: int, b: int) -> Fraction:
        if (a, b) not in self.sums and b == 0:
            return Fraction(self.n)
        return self.sums[(a, b) if (a, b) in self.sums else (b, b)].fraction()

    def mean(self) -> float:
        """Σws/Σw, infinite or undefined as the scores were."""
        return self.sums[1, 1].value() / (self.sums[1, 0].value() if (1, 0) in self.sums else self.n)

    def error_and_skewness(self) -> tuple[float, float, int]:
        """Standard error of the mean, skewness of its terms, and the number of independent terms."""
        if not all(total.finite for (power, _), total in self.sums.items() if power < 3):
            return math.nan, math.nan, self.n
        if self.by_unit:
            return self._by_unit()
        m = self.sums[1, 1].fraction() / self._sum(1, 0)
        weighted = (1, 0) in self.sums
        second = self._centred2(m) if weighted else self._sum(2, 2) - self.n * m * m
        floor, third = _float(self._sum(2, 2)) * RESOLUTION, math.nan
        if all(total.finite for (power, _), total in self.sums.items() if power == 3):
            third = _float(self._centred3(m) if weighted else self._third(m))
        about = abs(_float(m)) * math.cbrt(self._sum(3, 0) / self.terms)
        return _error_and_skewness(_float(second), third, float(self._sum(1, 0)), self.terms, floor, about)

    def _centred2(self, m: Fraction) -> Fraction:
        return self._sum(2, 2) - 2 * m * self._sum(2, 1) + m * m * self._sum(2, 0)

    def _centred3(self, m: Fraction) -> Fraction:
        s = self._sum
        return s(3, 3) - 3 * m * s(3, 2) + 3 * m * m * s(3, 1) - m**3 * s(3, 0)

    def _third(self, m: Fraction) -> Fraction:
        return self._sum(3, 3) - 3 * m * self._sum(2, 2) + 2 * self.n * m**3

    def effective_n(self, level: float) -> float:
        """Independent rows that would tell as much of a share: (Σw)²/Σw², or by the spread between units.

        Of U units (Korn & Graubard 1998): p(1 − p)/se², U where the units show no spread, times (z/t)² for few units.
        """
        if not self.by_unit:
            return float(self._sum(1, 0) ** 2 / self._sum(2, 0))
        share = self.mean()
        error, _, units = self.error_and_skewness()
        if units < 2:
            return math.nan
        rows = share * (1.0 - share) / error**2 if error > 0 and 0 < share < 1 else float(units)
        few = intervals.normal_quantile(level) / intervals.t_quantile(level, units - 1)
        return min(rows, float(self.terms)) * few**2

    def _by_unit(self) -> tuple[float, float, int]:
        scores, mass = (sums.values() for sums in self._unit_sums())
        seen = mass > 0
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            residual = scores[seen] - self.mean() * mass[seen]
            second, third = float((residual**2).sum()), float((residual**3).sum())
            floor = float((scores[seen] ** 2).sum()) * RESOLUTION
        return _error_and_skewness(second, third, float(mass.sum()), int(seen.sum()), floor)


def _float(x: Fraction) -> float:
    """As a float, infinite where it is beyond them."""
    try:
        return float(x)
    except OverflowError:
        return math.inf if x > 0 else -math.inf


def _error_and_skewness(
    second: float, third: float, mass: float, n: int, floor: float, about: float = 0.0
) -> tuple[float, float, int]:
    """From Σ r² and Σ r³ of the terms r of a mean, its mass and the number of terms; Σ r² up to `floor` is none.

    about: where the terms lay before they were centred. The skewness is 0 where rounding has made it, or lost it.
    """
    if n < 2 or not math.isfinite(second):
        return math.nan, 0.0, n
    unit = math.sqrt(max(second, 0.0) / n)
    if second <= floor or unit < LOST:
        return 0.0, 0.0, n
    known = math.isfinite(third) and unit > max(BLURRED * about, FAINT)
    skewness = third / n / unit / unit / unit if known else 0.0
    return unit * math.sqrt(n * n / (n - 1)) / mass, skewness, n


@dataclass
class Mean:
    """The mean of a row score, transformed at the end (√ for the root Brier score)."""

    score: Callable[[Any], np.ndarray]
    limits: Limits = (-math.inf, math.inf)
    transform: Callable[[float], float] = float
    moments: Moments = field(default_factory=Moments)

    def add(self, rows: Rows, spread: bool = True) -> None:
        """Take in more rows."""
        self.moments.add(self.score(rows), rows.weights, rows.units, spread)

    def merge(self, other: Mean) -> None:
        """Take in what another has seen."""
        self.moments.merge(other.moments)

    def result(self, settings: Settings) -> Estimate:
        """The mean with its studentised interval."""
        mean = self.moments.mean()
        interval = NONE
        if settings.intervals:
            error, skewness, n = self.moments.error_and_skewness()
            interval = intervals.studentised(mean, error, skewness, n, settings.level)
            if interval is not NONE:
                low = max(interval.low, self.limits[0])
                ends = self.transform(low), self.transform(min(interval.high, self.limits[1]))
                interval = Interval(*ends, interval.method)
        return Estimate.of(self.transform(mean), self.moments.n, interval, settings)


@dataclass
class Share(Mean):
    """A mean of zeros and ones: Wilson's interval, with an effective number of rows where they are weighted or depend.

    Soft labels make it a mean like any other.
    """

    only_zero_one: bool = True

    def add(self, rows: Rows, spread: bool = True) -> None:
        """Take in more rows."""
        score = self.score(rows)
        self.only_zero_one &= bool(((score == 0) | (score == 1)).all()) if spread else False
        self.moments.add(score, rows.weights, rows.units, spread)

    def merge(self, other: Mean) -> None:
        """Take in what another has seen."""
        super().merge(other)
        self.only_zero_one &= getattr(other, "only_zero_one", True)

    def result(self, settings: Settings) -> Estimate:
        """The share with its interval."""
        if not settings.intervals or not self.only_zero_one:
            return super().result(settings)
        mean, effective = self.moments.mean(), self.moments.effective_n(settings.level)
        interval = intervals.wilson(mean, effective, settings.level) if effective > 0 else NONE
        return Estimate.of(mean, self.moments.n, interval, settings, self.limits)
