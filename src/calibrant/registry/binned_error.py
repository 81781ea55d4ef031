"""Errors over bins: sums of each bin, and what the interval, the null band and the p-value of any of them need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from calibrant.calibration.binned import BinSums, BinTable, UnitSums
from calibrant.calibration.binning import equal_width
from calibrant.calibration.consistency import ConsistencyRows
from calibrant.calibration.inversion import detectable, union_of_inversions
from calibrant.calibration.norms import Statistic
from calibrant.intervals import NONE, Interval
from calibrant.kernels.exact import GroupSums
from calibrant.kernels.rows import Rows
from calibrant.registry.accumulators import counting
from calibrant.registry.estimate import Estimate, Settings
from calibrant.registry.pairs import Pairs
from calibrant.registry.sharing import Reduced

MOST_DRAWN = 4096
"""Bins up to which gaps are redrawn: beyond, hardly any bin has rows enough to tell."""
MakeStatistic = Callable[[BinTable], Statistic]


@dataclass
class BinnedPairs:
    """Pairs (p, y) over bins that are known beforehand, of equal width unless they are given."""

    pairs: Pairs
    bins: int = 15
    n: int = 0
    sums: BinSums | None = None
    units: UnitSums | None = None
    null: ConsistencyRows | None = None
    offset: GroupSums | None = None
    """Σ w(chance − p) of each bin, where y = 1 is not expected to come as often as p says."""
    binary: bool = True
    """Whether every y was 0 or 1, so that labels can be redrawn."""

    def add(self, rows: Rows, spread: bool = True) -> None:
        """Take in more rows."""
        if not spread:
            self._add_values(rows)
            return
        chance = self.pairs.chance(rows)
        p, y, w, units, chance = counting(rows.weights, *self.pairs(rows), rows.weights, rows.units, chance)
        self.n += rows.n
        self.add_pairs(p, y, w, units, equal_width(p, self.bins), True, chance)

    def _add_values(self, rows: Rows) -> None:
        """Take in what the value alone needs, in one pass over the pairs."""
        p, y, w = counting(rows.weights, *self.pairs.given(rows), rows.weights)
        self.n += rows.n
        if self.sums is None:
            self.sums = BinSums(self.bins, spread=False)
        self.sums.add_width(p, y, w, 1)

    def add_pairs(
        self,
        p: np.ndarray,
        y: np.ndarray,
        w: np.ndarray | None,
        units: np.ndarray | None,
        bins: np.ndarray,
        spread: bool,
        chance: np.ndarray | None = None,
    ) -> None:
        """Take in pairs whose bins are known."""
        self._start(units is not None, spread)
        self.sums.add(p, y, w, bins)  # type: ignore[union-attr]
        if self.units is not None and units is not None:
            self.units.add(p, y, w, bins, units)
        elif self.null is not None:
            self.binary = self.binary and bool(((y == 0) | (y == 1)).all())
            self.null.add(p if chance is None else np.ascontiguousarray(chance), w, bins)
            if chance is not None:
                self.offset = self.offset or GroupSums()
                self.offset.add(chance - p if w is None else w * (chance - p), bins)

    def _start(self, by_unit: bool, spread: bool) -> None:
        if self.sums is not None:
            return
        self.sums = BinSums(self.bins, spread=spread)
        if spread and by_unit:
            self.units = UnitSums(self.bins)
        elif spread:
            self.null = ConsistencyRows(self.bins)

    def merge(self, other: BinnedPairs) -> None:
        """Take in what another has seen."""
        self.n += other.n
        self.binary &= other.binary
        for name in ("sums", "units", "null", "offset"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine is None:
                setattr(self, name, theirs)
            elif theirs is not None:
                mine.merge(theirs)

    def table(self) -> BinTable:
        """The sums as arrays over bins."""
        return (self.sums or BinSums(self.bins)).table()

    def null_gaps(self, table: BinTable, settings: Settings) -> np.ndarray | None:
        """Signed gaps (R, B) of redrawn labels, or None where labels cannot be redrawn."""
        if self.null is None or not self.binary:
            return None
        gaps = self.null.gaps(table, settings.resamples, settings.seed, settings.threads)
        if self.offset is not None:
            values = self.offset.values()
            gaps = gaps + np.append(values, np.zeros(self.bins - len(values))) / table.w.sum()
        return gaps

    def covariance(self, table: BinTable) -> np.ndarray | None:
        """Covariance of the signed gaps, of rows or of units; None of a single unit."""
        if self.units is None:
            return table.variance()
        return self.units.covariance(table) if self.units.units() > 1 else None


def binned_error(pairs: Pairs, bins: int, make: MakeStatistic, inverted: MakeStatistic | None) -> Reduced:
    """The accumulator of an error over bins of equal width; `inverted` is the statistic that its interval is of."""
    reduce = partial(error_of_bins, make=make, inverted=inverted)
    return Reduced(("width", pairs, bins), BinnedPairs(pairs, bins), reduce)


def error_of_bins(
    state: BinnedPairs, settings: Settings, make: MakeStatistic, inverted: MakeStatistic | None
) -> Estimate:
    """The plug-in value with what a calibrated model would give beside it."""
    table = state.table()
    statistic = make(table)
    value = float(statistic(table.signed))
    if not settings.intervals or state.bins > MOST_DRAWN:
        return Estimate.of(value, state.n)
    gaps = state.null_gaps(table, settings)
    null: dict[str, float] = {}
    if gaps is not None:
        null = null_facts(statistic, gaps, None if state.offset else table.share, value, settings)
    interval = NONE
    covariance = state.covariance(table) if inverted is not None else None
    if inverted is not None and covariance is not None:
        zero = None if gaps is None or state.offset is not None else gaps
        interval = inverted_interval(inverted(table), table, covariance, zero, settings)
    return Estimate.of(value, state.n, interval, settings, (0.0, 1.0), **null)


def inverted_interval(
    statistic: Statistic, table: BinTable, covariance: np.ndarray, null: np.ndarray | None, settings: Settings
) -> Interval:
    """The union of test inversions, beginning at 0 by the redrawn null where there is one."""
    holds = None
    if null is not None:
        holds = bool(statistic(table.signed) <= np.quantile(statistic(null), 0.5 + settings.level / 2))
    return union_of_inversions(
        table.signed, table.share, covariance, statistic,
        level=settings.level, draws=settings.resamples, seed=settings.seed, null_holds=holds,
    )  # fmt: skip


def null_facts(
    statistic: Statistic, gaps: np.ndarray, share: np.ndarray | None, value: float, settings: Settings
) -> dict[str, float]:
    """The band of values of a calibrated model, the share of them that are as large, and what could be detected.

    Without shares the null is not one of no gaps, and a value may be off to both sides.
    """
    drawn = statistic(gaps)
    if share is None:
        return two_sided(drawn, value, settings)
    facts = null_band(drawn, value, settings)
    return facts | {"detectable": detectable(gaps, share, statistic, facts["null_high"])}


def two_sided(drawn: np.ndarray, value: float, settings: Settings) -> dict[str, float]:
    """The central band of redrawn values, and how seldom they are as far to either side."""
    low, high = np.quantile(drawn, [0.5 - settings.level / 2, 0.5 + settings.level / 2])
    slack = 1e-12 * abs(value)  # an outcome that was redrawn as it was is a tie, whatever rounding says
    tail = float(min((drawn <= value + slack).sum(), (drawn >= value - slack).sum()))
    p_value = min(1.0, 2.0 * (tail + 1.0) / (len(drawn) + 1.0))
    return {"null_low": float(low), "null_high": float(high), "p_value": p_value}


def null_band(drawn: np.ndarray, value: float, settings: Settings) -> dict[str, float]:
    """The central band of redrawn values, and the share of them that are as large as the value."""
    low, high = np.quantile(drawn, [0.5 - settings.level / 2, 0.5 + settings.level / 2])
    exceeding = float((drawn >= value * (1 - 1e-12)).sum())
    return {"null_low": float(low), "null_high": float(high), "p_value": (exceeding + 1) / (len(drawn) + 1)}
