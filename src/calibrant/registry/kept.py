"""Reductions of pairs (p, y) that keep a few numbers a row: bins of equal mass, rankings, the bin-free decomposition.

Rows are sorted before anything random is drawn or any float is summed, so that their order does not matter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from calibrant import intervals
from calibrant.calibration.binning import assign
from calibrant.kernels.resampling import ranking_replicates, ranking_scores
from calibrant.kernels.rows import Rows
from calibrant.registry.accumulators import counting
from calibrant.registry.binned_error import BinnedError, Pairs
from calibrant.registry.estimate import Estimate, Settings
from calibrant.scores.decomposition import corp


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
        self.p.append(np.array(p))  # a view would keep all of its record alive
        self.y.append(y.astype(bool) if ((y == 0) | (y == 1)).all() else y)  # an eighth of the memory
        self.w.append(w)
        self.units.append(units)

    def merge(self, other: Kept) -> None:
        """Take in what another has seen."""
        self.n += other.n
        for name in ("p", "y", "w", "units"):
            getattr(self, name).extend(getattr(other, name))

    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray | None]:
        """p, y, weights and units of all rows seen."""
        y = [part.astype(np.float64) for part in self.y]
        parts = (self.p, y, self.w, self.units)
        return tuple(_joined(part) for part in parts)  # type: ignore[arg-type, return-value]


def _joined(parts: list[np.ndarray | None]) -> np.ndarray | None:
    if len(parts) == 1 or parts[0] is None:
        return parts[0]
    return np.concatenate([part for part in parts if part is not None])


@dataclass
class MassBinnedError(Kept):
    """ECE over bins of equal mass, which are known only when all rows are."""

    bins: int = 15
    norm: str = "l1"

    def result(self, settings: Settings) -> Estimate:
        """The plug-in value with what a calibrated model would give beside it."""
        p, y, w, units = self.arrays()
        bins, edges = assign(p, self.bins, "mass", w)
        binned = BinnedError(self.pairs, bins=len(edges) - 1, norm=self.norm, n=self.n)
        binned.add_pairs(p, y, w, units, bins, settings.intervals)
        return binned.result(settings)


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
