"""Mergeable reductions: add(rows), merge(other), result(settings). Sums are integers, so order does not matter.

Metrics that are functions of one state share it (`Reduced`); `Accumulated` holds the accumulators of many metrics.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from calibrant import intervals
from calibrant.intervals import NONE, Interval
from calibrant.kernels.exact import ExactSum, GroupSums
from calibrant.kernels.rows import Rows
from calibrant.predictions import Evaluable
from calibrant.registry.estimate import Estimate, Settings
from calibrant.registry.metric import Spec

Limits = tuple[float, float]
RESOLUTION = 2.0**-50
"""Relative spread of the terms of a mean, as a share of their squares, below which it is rounding error."""
BLURRED = 5e-5
"""Standard deviation, as a share of the mean, below which rounding changes the skewness by 0.01."""
FAINT, LOST = 1e-105, 1e-145
"""Standard deviations below which cubes, and squares, lose digits because they are near the smallest floats."""

SMALLEST = 2.0**-52
"""The smallest share of mass that is left to others by a unit that has nearly all of it."""


class Accumulator(Protocol):
    """The interface of the reduction of a metric."""

    def add(self, rows: Rows, spread: bool = True) -> None:
        """Add rows; without `spread`, only what the value needs."""

    def merge(self, other: Self) -> None:
        """Merge another of the same kind."""

    def result(self, settings: Settings) -> Estimate:
        """The estimate from all rows added so far."""


# ------------------------------------------------------------------------------------------- means
def counting(weights: np.ndarray | None, *arrays: Any) -> list[Any]:
    """The arrays without rows of weight 0, which affect neither value nor spread."""
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

    def add(self, s: np.ndarray, weights: np.ndarray | None, units: np.ndarray | None, spread: bool = True) -> None:
        """Add the scores of rows; without `spread`, only what the mean needs."""
        self.n += len(s)
        s, weights, units = counting(weights, s, weights, units)
        self.terms += len(s)
        if units is not None and spread:
            scores, mass = self._unit_sums()
            scores.add(s if weights is None else weights * s, units)
            mass.add(np.ones(len(s)) if weights is None else weights, units)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):  # lost values show in the sums
            w, square, cube = (weights, s * s, s * s * s) if spread else (weights, s, s)
            powers = (np.ones(0), s, square, cube)
            pairs = self.POWERS if spread else ((1, 0), (1, 1))
            for a, b in pairs if w is not None else [(k, k) for k in range(1, 4 if spread else 2)]:
                term = powers[b] if w is None else w**a if b == 0 else w**a * powers[b]
                self.sums.setdefault((a, b), ExactSum()).add(term)

    def _unit_sums(self) -> tuple[GroupSums, GroupSums]:
        if self.by_unit is None:
            self.by_unit = (GroupSums(), GroupSums())
        return self.by_unit

    def merge(self, other: Moments) -> None:
        """Merge another of the same kind."""
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

    def error_and_skewness(self) -> tuple[float, float, float]:
        """Standard error of the mean, skewness of its terms, and their number: the effective one of unequal units."""
        if not all(total.finite for (power, _), total in self.sums.items() if power < 3):
            return math.nan, math.nan, self.n
        if self.by_unit:
            return self._by_unit()
        s, weighted = self._sum, (1, 0) in self.sums
        m = s(1, 1) / s(1, 0)
        second = s(2, 2) - 2 * m * s(2, 1) + m * m * s(2, 0) if weighted else s(2, 2) - self.n * m * m
        floor, third = _float(s(2, 2)) * RESOLUTION, math.nan
        if all(total.finite for (power, _), total in self.sums.items() if power == 3):
            third = _float(
                s(3, 3) - 3 * m * s(3, 2) + 3 * m * m * s(3, 1) - m**3 * s(3, 0)
                if weighted
                else s(3, 3) - 3 * m * s(2, 2) + 2 * self.n * m**3
            )
        about = abs(_float(m)) * math.cbrt(s(3, 0) / self.terms)
        return _error_and_skewness(_float(second), third, float(s(1, 0)), self.terms, floor, about)

    def effective_n(self, level: float) -> float:
        """The number of independent rows with the same information on a share: (Σw)²/Σw², or from units.

        For U units (Korn & Graubard 1998): p(1 − p)/se², U where the units show no spread, times (z/t)² for few units.
        """
        if not self.by_unit:
            return float(self._sum(1, 0) ** 2 / self._sum(2, 0))
        share = self.mean()
        error, _, units = self.error_and_skewness()
        if units < 2:
            return math.nan
        rows = share * (1.0 - share) / error**2 if error > 0 and 0 < share < 1 else float(units)
        few = intervals.normal_quantile(level) / intervals.t_quantile(level, units - 1.0)
        return min(rows, float(self.terms)) * few**2

    def _by_unit(self) -> tuple[float, float, float]:
        scores, mass = (sums.values() for sums in self._unit_sums())
        filled = mass > 0
        scores, mass, units = scores[filled], mass[filled], int(filled.sum())
        equal = units < 2 or bool((mass == mass[0]).all())
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            residual = scores - self.mean() * mass
            between = float((residual**2 / mass).sum())
            if not equal:  # a large unit draws the mean to itself, which makes its residual too small
                residual /= np.sqrt(np.maximum(1.0 - mass / mass.sum(), SMALLEST))
            second, third = float((residual**2).sum()), float((residual**3).sum())
            floor = float((scores**2).sum()) * RESOLUTION
        error, skewness, _ = _error_and_skewness(second, third, float(mass.sum()), units, floor)
        if equal or not error > 0.0:
            return error, skewness, units
        terms = 1.0 + satterthwaite_degrees(mass, self._shared(between, mass))
        return error * math.sqrt((units - 1) / units), skewness * math.sqrt(terms / units), terms

    def _shared(self, between: float, mass: np.ndarray) -> np.ndarray:
        """Relative variance (U,) of the means of units whose rows share part of their variance: ρ + (1 − ρ)/rows.

        ρ, from 0 to 1, is the intraclass correlation by analysis of variance; with weights all variance is shared.
        """
        units, free = len(mass), self.terms - len(mass)
        if (1, 0) in self.sums or free <= 0 or not math.isfinite(between):
            return np.ones(units)
        within = max(_float(self._sum(2, 2) - self._sum(1, 1) ** 2 / self.terms) - between, 0.0) / free
        typical = (self.terms - float((mass**2).sum()) / self.terms) / (units - 1)
        across = between / (units - 1)
        shared = min(max((across - within) / (across + (typical - 1.0) * within), 0.0), 1.0)
        return shared + (1.0 - shared) / mass


def satterthwaite_degrees(mass: np.ndarray, variance: np.ndarray) -> float:
    """Degrees of freedom of the standard error of a mean of units (U,) of unequal mass (Bell & McCaffrey 2002).

    With h = mass/Σ mass and d = h²/(1 − h), the squared error is the quadratic form Σ d(x̄ − m)² of the units' means,
    whose matrix is D − hd' − dh' + (Σd)hh'. Its degrees are 2·mean²/variance for independent normal means of the given
    relative variance.
    """
    h = mass / mass.sum()
    d, v = h * h / np.maximum(1.0 - h, SMALLEST), variance
    total = float(d.sum())
    diagonal = d - 2.0 * h * d + total * h * h
    hh, dd, hd = float((h * h * v).sum()), float((d * d * v).sum()), float((h * d * v).sum())
    every = 2.0 * (hh * dd + hd * hd) + total * total * hh * hh - 4.0 * total * hh * hd
    own = ((total * h * h - 2.0 * h * d) * v) ** 2
    squares = every - float(own.sum()) + float(((diagonal * v) ** 2).sum())
    return float((diagonal * v).sum()) ** 2 / squares


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

    about: the size of the terms before centring. The skewness is 0 where rounding dominates it.
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
        """Add rows."""
        self.moments.add(self.score(rows), rows.weights, rows.units, spread)

    def merge(self, other: Mean) -> None:
        """Merge another of the same kind."""
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
    """A mean of zeros and ones: Wilson's interval, with an effective number of rows for weights and units.

    With soft labels it is treated as any other mean.
    """

    only_zero_one: bool = True

    def add(self, rows: Rows, spread: bool = True) -> None:
        """Add rows."""
        score = self.score(rows)
        self.only_zero_one &= bool(((score == 0) | (score == 1)).all()) if spread else False
        self.moments.add(score, rows.weights, rows.units, spread)

    def merge(self, other: Mean) -> None:
        """Merge another of the same kind."""
        super().merge(other)
        self.only_zero_one &= getattr(other, "only_zero_one", True)

    def result(self, settings: Settings) -> Estimate:
        """The share with its interval."""
        if not settings.intervals or not self.only_zero_one:
            return super().result(settings)
        mean, effective = self.moments.mean(), self.moments.effective_n(settings.level)
        interval = intervals.wilson(mean, effective, settings.level) if effective > 0 else NONE
        return Estimate.of(mean, self.moments.n, interval, settings, self.limits)


@dataclass(kw_only=True)
class State:
    """Base of states that several metrics may share: a subclass collects rows, and names what `merge` adds up."""

    n: int = 0
    by_unit: bool = False
    """Whether rows depend on each other."""
    cache: dict[Any, Any] = field(default_factory=dict)
    """Intermediate results shared by several metrics."""
    MERGED: ClassVar[tuple[str, ...]] = ()

    def add(self, rows: Any, spread: bool = True) -> None:
        """Add rows; without `spread`, only what the value needs."""
        self.n += rows.n
        self.by_unit |= rows.units is not None
        self.cache.clear()
        self.collect(rows, spread)

    def collect(self, rows: Any, spread: bool) -> None:
        """Store what the metrics need of these rows."""
        raise NotImplementedError

    def merge(self, other: Self) -> None:
        """Merge another of the same kind: numbers and lists are added, flags stay set, None stands for nothing yet."""
        self.cache.clear()
        for name in ("n", "by_unit", *self.MERGED):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine is None or theirs is None:
                mine = theirs if mine is None else mine
            elif isinstance(mine, bool):
                mine |= theirs
            elif hasattr(mine, "merge"):
                mine.merge(theirs)
            else:
                mine += theirs
            setattr(self, name, mine)

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """The result of `make`, computed once for all metrics."""
        if key not in self.cache:
            self.cache[key] = make()
        return self.cache[key]


@dataclass
class KeptColumns(State):
    """Columns of all rows, in blocks; a subclass defines which."""

    blocks: list[list[np.ndarray]] = field(default_factory=list)
    MERGED: ClassVar = ("blocks",)

    def columns_of(self, rows: Any) -> list[np.ndarray | None]:
        """The columns to store; None for an absent column."""
        raise NotImplementedError

    def collect(self, rows: Any, spread: bool) -> None:
        """Keep the columns of these rows."""
        kept = self.columns_of(rows)
        self.blocks.append([np.array(part) for part in kept if part is not None])  # a view would keep all of its record

    def arrays(self) -> list[np.ndarray]:
        """The columns of all rows."""
        return [np.concatenate(parts) for parts in zip(*self.blocks, strict=True)]


@dataclass
class Reduced:
    """An accumulator whose state others may share: equal keys mean equal states."""

    key: Hashable
    state: Any
    reduce: Callable[[Any, Settings], Estimate]

    def add(self, rows: Any, spread: bool = True) -> None:
        """Add rows."""
        self.state.add(rows, spread)

    def merge(self, other: Reduced) -> None:
        """Merge another of the same kind."""
        self.state.merge(other.state)

    def result(self, settings: Settings) -> Estimate:
        """The estimate from all rows added so far."""
        return self.reduce(self.state, settings)


ReportProgress = Callable[[str, float], None]


@dataclass
class Accumulated:
    """The accumulators of all rows, or of one group of them."""

    each: dict[str, Accumulator]
    states: dict[Hashable, Any]
    """What rows are added to: each shared state once, by its key, and the other accumulators."""
    n: int = 0
    mass: ExactSum | None = None

    @classmethod
    def of(cls, specs: list[Spec], example: Evaluable) -> Accumulated:
        """Empty accumulators for these specs."""
        each = {spec.text: spec.metric.accumulate(spec, example) for spec in specs}
        states: dict[Hashable, Any] = {}
        for text, accumulator in each.items():
            if isinstance(accumulator, Reduced):
                accumulator.state = states.setdefault(("state", accumulator.key), accumulator.state)
            else:
                states["own", text] = accumulator
        return cls(each, states)

    def add(self, rows: Any, spread: bool) -> None:
        """Add rows."""
        self.n += rows.n
        if rows.weights is not None:
            self.mass = (self.mass or ExactSum()).add(rows.weights)
        for state in self.states.values():
            state.add(rows, spread)

    def merge(self, other: Accumulated) -> None:
        """Merge another of the same kind."""
        self.n += other.n
        if other.mass is not None:
            self.mass = (self.mass or ExactSum()).merge(other.mass)
        for key, state in self.states.items():
            if other.n:
                state.merge(other.states[key])

    def estimates(self, settings: Settings, report: ReportProgress = lambda what, share: None) -> dict[str, Estimate]:
        """The estimates; undefined if no row has weight."""
        if self.mass is not None and self.mass.value() == 0:
            return dict.fromkeys(self.each, Estimate.of(math.nan, self.n))
        estimates = {}
        for place, (text, accumulator) in enumerate(self.each.items()):
            report(text, place / len(self.each))
            estimates[text] = accumulator.result(settings)
        return estimates
