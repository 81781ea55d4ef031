"""Mergeable reductions: add(rows), merge(other), result(settings). Sums are integers, so order does not matter."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Protocol, Self

import numpy as np

from calibrant import intervals
from calibrant.calibration.binned import NORMS, BinSums, BinTable
from calibrant.calibration.binning import assign
from calibrant.calibration.inversion import union_of_inversions
from calibrant.intervals import NONE, Interval
from calibrant.kernels.exact import ExactSum
from calibrant.kernels.resampling import ranking_replicates, ranking_scores, redraw_bins
from calibrant.kernels.rows import Rows
from calibrant.registry.estimate import Estimate, Settings
from calibrant.scores.decomposition import BrierParts, corp

Limits = tuple[float, float]
Pairs = Callable[[Rows], tuple[np.ndarray, np.ndarray]]


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
@dataclass
class Moments:
    """Σ wᵃsᵇ for the mean of s, its standard error and skewness; per unit where rows depend on each other."""

    n: int = 0
    sums: dict[tuple[int, int], ExactSum] = field(default_factory=dict)
    units: dict[int, tuple[ExactSum, ExactSum]] = field(default_factory=dict)

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
        if units is not None and spread:
            self._add_units(s, weights, units)
        w, square, cube = (weights, s * s, s * s * s) if spread else (weights, s, s)
        powers = (np.ones(0), s, square, cube)
        wanted = self.POWERS if spread else ((1, 0), (1, 1))
        for a, b in wanted if w is not None else [(k, k) for k in range(1, 4 if spread else 2)]:
            term = powers[b] if w is None else w**a if b == 0 else w**a * powers[b]
            self.sums.setdefault((a, b), ExactSum()).add(term)

    def _add_units(self, s: np.ndarray, weights: np.ndarray | None, units: np.ndarray) -> None:
        w = np.ones(len(s)) if weights is None else weights
        order = np.argsort(units, kind="stable")
        names, starts = np.unique(units[order], return_index=True)
        for unit, rows in zip(names.tolist(), np.split(order, starts[1:]), strict=True):
            scores, mass = self.units.setdefault(unit, (ExactSum(), ExactSum()))
            scores.add((w * s)[rows])
            mass.add(w[rows])

    def merge(self, other: Moments) -> None:
        """Take in what another has seen."""
        self.n += other.n
        for key, total in other.sums.items():
            self.sums.setdefault(key, ExactSum()).merge(total)
        for unit, (scores, mass) in other.units.items():
            mine = self.units.setdefault(unit, (ExactSum(), ExactSum()))
            mine[0].merge(scores)
            mine[1].merge(mass)

    def _sum(self, a: int, b: int) -> Fraction:
        if (a, b) not in self.sums and b == 0:
            return Fraction(self.n)
        return self.sums[(a, b) if (a, b) in self.sums else (b, b)].fraction()

    def mean(self) -> float:
        """Σws/Σw, infinite or undefined as the scores were."""
        return self.sums[1, 1].value() / (self.sums[1, 0].value() if (1, 0) in self.sums else self.n)

    def error_and_skewness(self) -> tuple[float, float, int]:
        """Standard error of the mean, skewness of its terms, and the number of independent terms."""
        if not self.sums[1, 1].finite:
            return math.nan, math.nan, self.n
        if self.units:
            return self._by_unit()
        m = self.sums[1, 1].fraction() / self._sum(1, 0)
        weighted = (1, 0) in self.sums
        second = self._centred2(m) if weighted else self._sum(2, 2) - self.n * m * m
        third = self._centred3(m) if weighted else self._third(m)
        return _error_and_skewness(float(second), float(third), float(self._sum(1, 0)), self.n)

    def _centred2(self, m: Fraction) -> Fraction:
        return self._sum(2, 2) - 2 * m * self._sum(2, 1) + m * m * self._sum(2, 0)

    def _centred3(self, m: Fraction) -> Fraction:
        s = self._sum
        return s(3, 3) - 3 * m * s(3, 2) + 3 * m * m * s(3, 1) - m**3 * s(3, 0)

    def _third(self, m: Fraction) -> Fraction:
        return self._sum(3, 3) - 3 * m * self._sum(2, 2) + 2 * self.n * m**3

    def _by_unit(self) -> tuple[float, float, int]:
        m = self.mean()
        totals = np.array([[s.value(), w.value()] for s, w in self.units.values()])
        residual = totals[:, 0] - m * totals[:, 1]
        second, third = float((residual**2).sum()), float((residual**3).sum())
        return _error_and_skewness(second, third, float(totals[:, 1].sum()), len(totals))


def _error_and_skewness(second: float, third: float, mass: float, n: int) -> tuple[float, float, int]:
    """From Σ r² and Σ r³ of the terms r of a mean, its mass and the number of terms."""
    if n < 2:
        return math.nan, 0.0, n
    second = max(second, 0.0)
    skewness = third / n / (second / n) ** 1.5 if second > 1e-30 * mass else 0.0
    return math.sqrt(second * n / (n - 1)) / mass, skewness, n


@dataclass
class Mean:
    """The mean of a row score, transformed at the end (√ for the root Brier score)."""

    score: Callable[[Rows], np.ndarray]
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
    """A mean of zeros and ones: Wilson's interval where rows are independent, the studentised one elsewhere."""

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
        if not settings.intervals or not self.only_zero_one or self.moments.units:
            return super().result(settings)
        mean = self.moments.mean()
        mass, squares = self.moments._sum(1, 0), self.moments._sum(2, 0)
        interval = intervals.wilson(mean, float(mass**2 / squares), settings.level)
        return Estimate.of(mean, self.moments.n, interval, settings, self.limits)


# -------------------------------------------------------------------------------------------- bins
@dataclass
class Kept:
    """Rows of pairs (p, y) kept whole, for what cannot be reduced to sums."""

    pairs: Pairs
    p: list[np.ndarray] = field(default_factory=list)
    y: list[np.ndarray] = field(default_factory=list)
    w: list[np.ndarray | None] = field(default_factory=list)
    units: list[np.ndarray | None] = field(default_factory=list)

    def add(self, rows: Rows, spread: bool = True) -> None:
        """Take in more rows."""
        del spread
        p, y = self.pairs(rows)
        self.p.append(p)
        self.y.append(y)
        self.w.append(rows.weights)
        self.units.append(rows.units)

    def merge(self, other: Kept) -> None:
        """Take in what another has seen."""
        for name in ("p", "y", "w", "units"):
            getattr(self, name).extend(getattr(other, name))

    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray | None]:
        """p, y, weights and units of all rows seen."""
        parts = (self.p, self.y, self.w, self.units)
        return tuple(_joined(part) for part in parts)  # type: ignore[arg-type, return-value]


def _joined(parts: list[np.ndarray | None]) -> np.ndarray | None:
    if len(parts) == 1 or parts[0] is None:
        return parts[0]
    return np.concatenate([part for part in parts if part is not None])


NORMAL_ABOVE = 1 << 18
"""Rows beyond which the null band takes the normal limit of each bin's sum instead of redrawing every row."""


@dataclass
class BinnedError(Kept):
    """ECE of pairs (p, y) with its test-inversion interval, null band and p-value."""

    bins: int = 15
    binning: str = "width"
    norm: str = "l1"

    def result(self, settings: Settings) -> Estimate:
        """The plug-in value with what a calibrated model would give beside it."""
        p, y, w, units = self.arrays()
        bins, edges = assign(p, self.bins, self.binning)
        n_bins = len(edges) - 1
        sums = BinSums(n_bins, 1.0 if w is None else float(w.max()), settings.intervals)
        sums.add(p, y, w, bins)
        table = sums.table()
        statistic = NORMS[self.norm]
        value = float(statistic(table.signed, table.share))
        if not settings.intervals:
            return Estimate.of(value, len(p))
        covariance = table.variance() if units is None else _unit_covariance(p, y, w, bins, units, table)
        null: dict[str, float] = {}
        if units is None and ((y == 0) | (y == 1)).all():
            null = self._null(p, w, bins, table, value, settings)
        interval = NONE
        if self.norm != "max":
            interval = union_of_inversions(
                table.signed, table.share, covariance, statistic,
                level=settings.level, draws=settings.resamples, seed=settings.seed, null_upper=null.get("null_high"),
            )  # fmt: skip
        return Estimate.of(value, len(p), interval, settings, (0.0, math.inf), **null)

    def _null(
        self,
        p: np.ndarray,
        w: np.ndarray | None,
        bins: np.ndarray,
        table: BinTable,
        value: float,
        settings: Settings,
    ) -> dict[str, float]:
        """Labels redrawn from the predictions (Bröcker & Smith 2007): the band, and the share of values as large."""
        if len(p) <= NORMAL_ABOVE:
            hits = redraw_bins(
                p, bins, len(table.w), w,
                replicates=settings.resamples, seed=settings.seed, threads=settings.threads,
            )  # fmt: skip
            signed = (hits - table.wp) / table.w.sum()
        else:
            signed = _normal_null(p, w, bins, table, settings)
        drawn = NORMS[self.norm](signed, table.share)
        low, high = np.quantile(drawn, [0.5 - settings.level / 2, 0.5 + settings.level / 2])
        exceeding = float((drawn >= value * (1 - 1e-12)).sum())
        return {
            "null_low": float(low),
            "null_high": float(high),
            "p_value": (exceeding + 1) / (len(drawn) + 1),
        }


def _normal_null(
    p: np.ndarray, w: np.ndarray | None, bins: np.ndarray, table: BinTable, settings: Settings
) -> np.ndarray:
    from calibrant.kernels.philox import normals
    from calibrant.kernels.resampling import CONSISTENCY

    terms = p * (1 - p) * (1.0 if w is None else w * w)
    deviation = np.sqrt([ExactSum().add(terms[bins == b]).value() for b in range(len(table.w))])
    return normals(settings.seed, CONSISTENCY, settings.resamples, len(table.w)) * deviation / table.w.sum()


def _unit_covariance(
    p: np.ndarray,
    y: np.ndarray,
    w: np.ndarray | None,
    bins: np.ndarray,
    units: np.ndarray,
    table: BinTable,
) -> np.ndarray:
    """Covariance (B, B) of the signed gaps when whole units are drawn."""
    gap = (table.wy - table.wp) / np.where(table.w > 0, table.w, 1.0)
    residual = (y - p - gap[bins]) * (1.0 if w is None else w)
    n_units = int(units.max()) + 1
    totals = np.zeros((n_units, len(table.w)))
    np.add.at(totals, (units, bins), residual)
    return totals.T @ totals / table.w.sum() ** 2 * n_units / max(n_units - 1, 1)


# ------------------------------------------------------------------------------------- other forms
@dataclass
class Ranking(Kept):
    """ROC AUC (which = 0) or average precision (which = 1) of scores p and positives y."""

    which: int = 0

    def result(self, settings: Settings) -> Estimate:
        """The score with DeLong's interval, or a resampled one where DeLong does not apply."""
        p, y, w, units = self.arrays()
        positive = y == 1
        value = ranking_scores(p, positive, w)[self.which]
        if not settings.intervals or math.isnan(value):
            return Estimate.of(value, len(p))
        if self.which == 0 and w is None and units is None:
            interval = intervals.delong(p, positive, value, settings.level)
        else:
            drawn = ranking_replicates(
                p, positive, w, units,
                replicates=settings.resamples, seed=settings.seed, threads=settings.threads,
            )  # fmt: skip
            interval = intervals.percentile(drawn[:, self.which], settings.level)
        return Estimate.of(value, len(p), interval, settings, (0.0, 1.0))


@dataclass
class Corp(Kept):
    """One part of the bin-free decomposition of mean (p − y)²."""

    part: str = "miscalibration"

    def result(self, settings: Settings) -> Estimate:
        """The part; its plug-in is biased and has no interval that covers."""
        del settings
        p, y, w, _ = self.arrays()
        return Estimate.of(getattr(corp(p, y, w), self.part), len(p))


@dataclass
class BrierPart:
    """One part of a decomposition of the Brier score, from a table of sums that the pass kept under `key`."""

    part: str
    key: Hashable
    decompose: Callable[[np.ndarray], BrierParts]
    n: int = 0
    table: Any = 0

    def add(self, rows: Rows, spread: bool = True) -> None:
        """Take in more rows."""
        del spread
        self.n += rows.n
        self.table = self.table + rows.extras[self.key]

    def merge(self, other: BrierPart) -> None:
        """Take in what another has seen."""
        self.n += other.n
        self.table = self.table + other.table

    def result(self, settings: Settings) -> Estimate:
        """The part; its plug-in is biased and has no interval that covers."""
        del settings
        return Estimate.of(getattr(self.decompose(self.table), self.part), self.n)
