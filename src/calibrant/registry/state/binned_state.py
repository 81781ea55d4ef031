"""Errors over bins: sums of each bin, and the interval, null band and p-value computed from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from calibrant.calibration.binning import BinSums, BinTable, UnitSums, equal_width
from calibrant.calibration.consistency import ConsistencyRows
from calibrant.calibration.inversion import detectable, replicates_for, union_of_inversions
from calibrant.calibration.norms import Statistic
from calibrant.intervals import NONE, Interval
from calibrant.kernels.exact import GroupSums
from calibrant.kernels.philox import normals, uniform_table
from calibrant.kernels.resampling import INVERSION, correlated
from calibrant.kernels.rows import Rows
from calibrant.registry.estimate import Estimate, Settings
from calibrant.registry.state.accumulators import Reduced, State, counting

if TYPE_CHECKING:
    from calibrant.registry.state.pairs import Pairs

MOST_DRAWN = 4096
"""Maximum number of bins for which gaps are redrawn: with more, hardly any bin has enough rows."""
NO_SPREAD = 1e-18
"""Mean squared difference of label and prediction up to which rows show no spread: soft labels equal to predictions."""
FEWEST_UNITS = 20
"""Units below which a robust covariance is too small to test an error."""
STUDENT = 101
"""Purpose of the random numbers that make normal gaps those of a multivariate t variable."""
MakeStatistic = Callable[[BinTable], Statistic]


@dataclass
class BinnedPairs(State):
    """Pairs (p, y) over bins that are known beforehand, of equal width unless they are given."""

    pairs: Pairs
    bins: int = 15
    sums: BinSums | None = None
    units: UnitSums | None = None
    null: ConsistencyRows | None = None
    offset: GroupSums | None = None
    """Σ w(chance − p) of each bin, for pairs in which P(y = 1) is not p."""
    soft: bool = False
    """Whether some y was neither 0 nor 1, so that labels cannot be redrawn."""
    MERGED: ClassVar = ("sums", "units", "null", "offset", "soft")

    def collect(self, rows: Rows, spread: bool) -> None:
        """Add the pairs of these rows."""
        if not spread:  # only the value is needed: one pass over the pairs
            p, y, w = counting(rows.weights, *self.pairs.given(rows), rows.weights)
            if self.sums is None:
                self.sums = BinSums(self.bins, spread=False)
            self.sums.add_width(p, y, w, 1)
            return
        chance = self.pairs.chance(rows)
        p, y, w, units, chance = counting(rows.weights, *self.pairs(rows), rows.weights, rows.units, chance)
        self.add_pairs(p, y, w, units, equal_width(p, self.bins), True, chance)

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
        """Add pairs whose bins are known."""
        if self.sums is None:
            self.sums = BinSums(self.bins, spread=spread)
            if spread and units is not None:
                self.units = UnitSums(self.bins)
            elif spread:
                self.null = ConsistencyRows(self.bins)
        self.sums.add(p, y, w, bins)
        if self.units is not None and units is not None:
            self.units.add(p, y, w, bins, units)
        elif self.null is not None:
            self.soft |= not ((y == 0) | (y == 1)).all()
            self.null.add(p if chance is None else np.ascontiguousarray(chance), w, bins)
            if chance is not None:
                self.offset = self.offset or GroupSums()
                self.offset.add(chance - p if w is None else w * (chance - p), bins)

    def table(self) -> BinTable:
        """The sums as arrays over bins."""
        return (self.sums or BinSums(self.bins)).table()

    def null_gaps(self, table: BinTable, settings: Settings) -> np.ndarray | None:
        """Signed gaps (R, B) of redrawn labels, or None where labels cannot be redrawn."""
        if self.null is None or self.soft:
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
    """The accumulator of an error over bins of equal width; its interval inverts tests of `inverted`."""
    reduce = partial(error_of_bins, make=make, inverted=inverted)
    return Reduced(("width", pairs, bins), BinnedPairs(pairs, bins), reduce)


def error_of_bins(
    state: BinnedPairs, settings: Settings, make: MakeStatistic, inverted: MakeStatistic | None
) -> Estimate:
    """The plug-in value with its interval and null band."""
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
        if gaps is None and (table.wwdd > NO_SPREAD * table.ww).any():
            degrees = np.inf if state.units is None else state.units.units() - 1
            null = robust_facts(statistic, covariance, table.share, value, settings, degrees)
    return Estimate.of(value, state.n, interval, settings, (0.0, 1.0), **null)


def inverted_interval(
    statistic: Statistic, table: BinTable, covariance: np.ndarray, null: np.ndarray | None, settings: Settings
) -> Interval:
    """The union of test inversions, with the redrawn null if there is one.

    A further profile has gaps in proportion to their standard errors: of all gaps with the same sum of absolute values
    it leaves the smallest mean error, so that its upper end is the largest. Where units have rows in many bins, gaps
    err together, and in one more profile all have one sign.
    """
    holds = None
    errors = np.sqrt(np.maximum(covariance if covariance.ndim == 1 else np.diag(covariance), 0.0))
    signs = [table.signed] if covariance.ndim == 1 else [table.signed, np.full(len(errors), table.signed.sum())]
    if null is not None:
        holds = bool(statistic(table.signed) <= np.quantile(statistic(null), 0.5 + settings.level / 2))
    return union_of_inversions(
        table.signed, table.share, covariance, statistic,
        level=settings.level, draws=settings.resamples, seed=settings.seed, null_holds=holds,
        also=[np.where(sign < 0, -1.0, 1.0) * errors for sign in signs],
    )  # fmt: skip


def null_facts(
    statistic: Statistic, gaps: np.ndarray, share: np.ndarray | None, value: float, settings: Settings
) -> dict[str, float]:
    """The null band, the p-value and the detectable error.

    The p-value is two-sided. With shares it is twice that of the upper tail, because only large errors are evidence;
    without them, calibrated models have gaps too, and both ends count.
    """
    drawn = statistic(gaps)
    if share is None:
        return two_sided(drawn, value, settings)
    facts = null_band(drawn, value, settings)
    return facts | {"detectable": detectable(gaps, share, statistic, facts["null_high"])}


def two_sided(drawn: np.ndarray, value: float, settings: Settings) -> dict[str, float]:
    """The central band of redrawn values and the two-sided p-value."""
    low, high = np.quantile(drawn, [0.5 - settings.level / 2, 0.5 + settings.level / 2])
    slack = 1e-12 * abs(value)  # a replicate equal to the observed outcomes is a tie despite rounding
    tail = float(min((drawn <= value + slack).sum(), (drawn >= value - slack).sum()))
    p_value = min(1.0, 2.0 * (tail + 1.0) / (len(drawn) + 1.0))
    return {"null_low": float(low), "null_high": float(high), "p_value": p_value}


def null_band(drawn: np.ndarray, value: float, settings: Settings) -> dict[str, float]:
    """The central band of redrawn values, and twice the p-value of the upper tail.

    A small error is no evidence against a model. Doubled, p < 0.05 means the same as a value above the 95% band.
    """
    low, high = np.quantile(drawn, [0.5 - settings.level / 2, 0.5 + settings.level / 2])
    exceeding = float((drawn >= value * (1 - 1e-12)).sum())
    p_value = min(1.0, 2.0 * (exceeding + 1.0) / (len(drawn) + 1.0))
    return {"null_low": float(low), "null_high": float(high), "p_value": p_value}


def robust_facts(
    statistic: Statistic, covariance: np.ndarray, share: np.ndarray, value: float, settings: Settings, degrees: float
) -> dict[str, float]:
    """The p-value and the detectable error where labels cannot be redrawn: units, or soft labels.

    The gaps of a calibrated model then have the covariance (B,) or (B, B) that was observed, estimated with so many
    degrees of freedom: they are drawn as a multivariate t variable. There is no band, because it would depend on the
    model's own gaps.
    """
    drawn = robust_noise(covariance, settings, degrees)
    facts = null_facts(statistic, drawn, share, value, settings)
    return {name: facts[name] for name in ("p_value", "detectable")}


def robust_noise(covariance: np.ndarray, settings: Settings, degrees: float) -> np.ndarray:
    """Draws (R, B) of gaps with mean 0 and this covariance, (B,) or (B, B)."""
    replicates = replicates_for(len(covariance), settings.resamples)
    noise = normals(settings.seed, INVERSION, replicates, len(covariance))
    noise = noise * np.sqrt(covariance) if covariance.ndim == 1 else correlated(noise, covariance)
    if np.isfinite(degrees):
        from scipy.special import chdtri

        u = uniform_table(settings.seed, STUDENT, replicates, 1)
        noise = noise * np.sqrt(degrees / chdtri(degrees, u))
    return noise
