"""Reductions of pairs (p, y) that keep a few numbers a row: binned errors, rankings, the bin-free decomposition.

Rows are sorted before anything random is drawn or any float is summed, so that their order does not matter.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from calibrant import intervals
from calibrant.calibration.binned import NORMS, SHRINKAGE_ROWS, BinSums, BinTable
from calibrant.calibration.binning import assign
from calibrant.calibration.inversion import union_of_inversions
from calibrant.intervals import NONE
from calibrant.kernels.exact import GroupSums
from calibrant.kernels.philox import normals
from calibrant.kernels.resampling import CONSISTENCY, ranking_replicates, ranking_scores, redraw_bins
from calibrant.kernels.rows import Rows
from calibrant.registry.accumulators import counting
from calibrant.registry.estimate import Estimate, Settings
from calibrant.scores.decomposition import corp

Pairs = Callable[[Rows], tuple[np.ndarray, np.ndarray]]


@dataclass
class Kept:
    """Rows of pairs (p, y) kept whole, for what cannot be reduced to sums."""

    pairs: Pairs
    p: list[np.ndarray] = field(default_factory=list)
    y: list[np.ndarray] = field(default_factory=list)
    w: list[np.ndarray | None] = field(default_factory=list)
    units: list[np.ndarray | None] = field(default_factory=list)
    n: int = 0

    def add(self, rows: Rows, spread: bool = True) -> None:
        """Take in more rows."""
        del spread
        p, y, w, units = counting(rows.weights, *self.pairs(rows), rows.weights, rows.units)
        self.n += rows.n
        self.p.append(p)
        self.y.append(y)
        self.w.append(w)
        self.units.append(units)

    def merge(self, other: Kept) -> None:
        """Take in what another has seen."""
        self.n += other.n
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
"""Rows beyond which the null band takes the normal limit of a well filled bin's sum instead of redrawing its rows."""
THIN = 25.0
"""Variance of a bin's number of hits below which it is not well filled."""


@dataclass
class BinnedError(Kept):
    """ECE of pairs (p, y) with its test-inversion interval, null band and p-value."""

    bins: int = 15
    binning: str = "width"
    norm: str = "l1"

    def result(self, settings: Settings) -> Estimate:
        """The plug-in value with what a calibrated model would give beside it."""
        p, y, w, units = self.arrays()
        bins, edges = assign(p, self.bins, self.binning, w)
        n_bins = len(edges) - 1
        sums = BinSums(n_bins, spread=settings.intervals)
        sums.add(p, y, w, bins)
        table = sums.table()
        statistic = NORMS[self.norm]
        value = float(statistic(table.signed, table.share))
        if not settings.intervals:
            return Estimate.of(value, self.n)
        covariance = table.variance() if units is None else _unit_covariance(p, y, w, bins, units, table)
        null: dict[str, float] = {}
        if units is None and ((y == 0) | (y == 1)).all():
            null = self._null(p, w, bins, table, value, settings)
        interval = NONE
        if self.norm != "max" and (units is None or (units != units[0]).any()):
            interval = union_of_inversions(
                table.signed, table.share, covariance, statistic,
                level=settings.level, draws=settings.resamples, seed=settings.seed, null_upper=null.get("null_high"),
            )  # fmt: skip
        return Estimate.of(value, self.n, interval, settings, (0.0, 1.0), **null)

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
        signed = _redrawn_gaps(p, w, bins, table, settings)
        drawn = NORMS[self.norm](signed, table.share)
        low, high = np.quantile(drawn, [0.5 - settings.level / 2, 0.5 + settings.level / 2])
        exceeding = float((drawn >= value * (1 - 1e-12)).sum())
        return {
            "null_low": float(low),
            "null_high": float(high),
            "p_value": (exceeding + 1) / (len(drawn) + 1),
        }


def _redrawn_gaps(
    p: np.ndarray, w: np.ndarray | None, bins: np.ndarray, table: BinTable, settings: Settings
) -> np.ndarray:
    """Signed gaps (resamples, B) when row i hits with probability p[i].

    Of many rows only those of thin bins are redrawn one by one; the sum of a well filled bin takes its normal limit.
    """
    mass = table.w.sum()
    redraw = np.ones(len(p), bool)
    signed = np.zeros((settings.resamples, len(table.w)))
    if len(p) > NORMAL_ABOVE:
        sums = GroupSums()
        sums.add(p * (1 - p) * (1.0 if w is None else w * w), bins)
        variance = np.zeros(len(table.w))
        variance[: sums.groups] = sums.values()
        size = np.where(table.rows > 0, table.ww / np.where(table.rows > 0, table.rows, 1), 1.0)
        thin = variance < THIN * size
        redraw = thin[bins]
        drawn = normals(settings.seed, CONSISTENCY, settings.resamples, len(table.w)) * np.sqrt(variance) / mass
        signed = np.where(thin, 0.0, drawn)
    order = np.flatnonzero(redraw)
    order = order[np.argsort(p[order]) if w is None else np.lexsort((w[order], p[order]))]
    hits = redraw_bins(
        p[order], bins[order], len(table.w), None if w is None else w[order],
        replicates=settings.resamples, seed=settings.seed, threads=settings.threads,
    )  # fmt: skip
    one_by_one = np.bincount(bins[order], minlength=len(table.w)) > 0
    return np.where(one_by_one, (hits - table.wp) / mass, signed)


def _unit_covariance(
    p: np.ndarray,
    y: np.ndarray,
    w: np.ndarray | None,
    bins: np.ndarray,
    units: np.ndarray,
    table: BinTable,
) -> np.ndarray:
    """Covariance (B, B) of the signed gaps when whole units are drawn, steadied by two pseudo-units a bin."""
    filled = np.where(table.w > 0, table.w, 1.0)
    gap, mean_p = (table.wy - table.wp) / filled, table.wp / filled
    weights = np.ones(len(p)) if w is None else w
    residual = (y - p - gap[bins]) * weights
    n_units = int(units.max()) + 1
    totals, masses = np.zeros((2, n_units, len(table.w)))
    order = np.lexsort((weights, residual, bins, units))  # sums then do not depend on the order of rows
    np.add.at(totals, (units[order], bins[order]), residual[order])
    np.add.at(masses, (units[order], bins[order]), weights[order])
    present = (masses > 0).sum(axis=0)
    steady = SHRINKAGE_ROWS * np.clip(mean_p * (1 - mean_p), 0.0, None) * (masses**2).sum(axis=0)
    covariance = np.einsum("ub,uc->bc", totals, totals) * n_units / max(n_units - 1, 1)
    covariance += np.diag(steady / np.where(present > 0, present, 1))
    return covariance / table.w.sum() ** 2


@dataclass
class Ranking(Kept):
    """ROC AUC (which = 0) or average precision (which = 1) of scores p and positives y."""

    which: int = 0

    def result(self, settings: Settings) -> Estimate:
        """The score with DeLong's interval, or a resampled one where DeLong does not apply."""
        p, y, w, units = self.arrays()
        positive = y == 1
        value = ranking_scores(p, positive, w)[self.which]
        if not settings.intervals or math.isnan(value) or _too_few(positive, units):
            return Estimate.of(value, self.n)
        if self.which == 0 and w is None and units is None:
            interval = intervals.delong(p, positive, value, settings.level)
        else:
            drawn = ranking_replicates(
                p, positive, w, units,
                replicates=settings.resamples, seed=settings.seed, threads=settings.threads,
            )  # fmt: skip
            interval = intervals.percentile(drawn[:, self.which], settings.level)
        return Estimate.of(value, self.n, interval, settings, (0.0, 1.0))


def _too_few(positive: np.ndarray, units: np.ndarray | None) -> bool:
    """Whether fewer than two rows (or units) are positive, or negative: resampling them then says nothing."""
    who = np.arange(len(positive)) if units is None else units
    return min(len(np.unique(who[positive])), len(np.unique(who[~positive]))) < 2


@dataclass
class Corp(Kept):
    """One part of the bin-free decomposition of mean (p − y)²."""

    part: str = "miscalibration"

    def result(self, settings: Settings) -> Estimate:
        """The part; its plug-in is biased and has no interval that covers."""
        del settings
        p, y, w, _ = self.arrays()
        return Estimate.of(getattr(corp(p, y, w), self.part), self.n)
