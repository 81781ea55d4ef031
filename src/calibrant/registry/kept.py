"""Reductions of pairs (p, y) that keep a few numbers a row: bins of equal mass, runs, rankings, CORP.

Rows are sorted before anything random is drawn or any float is summed, so that their order does not matter.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from calibrant import intervals
from calibrant.calibration.binning import assign
from calibrant.calibration.cells import redraw
from calibrant.calibration.runs import Runs
from calibrant.kernels.resampling import ranking_replicates, ranking_scores
from calibrant.kernels.rows import Rows
from calibrant.registry.accumulators import counting
from calibrant.registry.binned_error import BinnedPairs, MakeStatistic, error_of_bins
from calibrant.registry.estimate import Estimate, Settings
from calibrant.registry.pairs import Pairs
from calibrant.registry.sharing import Reduced
from calibrant.scores.decomposition import CorpParts, corp

NULL_CELLS, FEWEST_CELLS = 2048, 256
"""Runs that are left when labels are redrawn; up to so many distinct p every row is as it is."""
MOST_REDRAWN = 1 << 24
"""Numbers of redrawn labels that are held: of many replicates, fewer runs are left."""
Arrays = tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray | None]


@dataclass
class KeptPairs:
    """Rows of pairs (p, y) kept whole, for what cannot be reduced to sums."""

    pairs: Pairs
    p: list[np.ndarray] = field(default_factory=list)
    y: list[np.ndarray] = field(default_factory=list)
    w: list[np.ndarray | None] = field(default_factory=list)
    units: list[np.ndarray | None] = field(default_factory=list)
    n: int = 0
    made: dict[Any, Any] = field(default_factory=dict)
    """What several metrics need of the rows, made once."""

    def add(self, rows: Rows, spread: bool = True) -> None:
        """Take in more rows."""
        del spread
        p, y, w, units = counting(rows.weights, *self.pairs.given(rows), rows.weights, rows.units)
        self.n += rows.n
        self.made.clear()
        self.p.append(np.array(p))  # a view would keep all of its record alive
        if y.dtype != bool and ((y == 0) | (y == 1)).all():
            y = y.astype(bool)  # an eighth of the memory
        self.y.append(y)
        self.w.append(w)
        self.units.append(units)

    def merge(self, other: KeptPairs) -> None:
        """Take in what another has seen."""
        self.n += other.n
        self.made.clear()
        for name in ("p", "y", "w", "units"):
            getattr(self, name).extend(getattr(other, name))

    def arrays(self) -> Arrays:
        """p, y, weights and units of all rows seen."""
        p, y, w, units = self.given()
        return np.asarray(p, np.float64), np.asarray(y, np.float64), w, units

    def given(self) -> Arrays:
        """The same, of the type they came in."""
        parts = (self.p, self.y, self.w, self.units)
        return tuple(_joined(part) for part in parts)  # type: ignore[arg-type, return-value]

    @property
    def binary(self) -> bool:
        """Whether every y was 0 or 1."""
        return all(part.dtype == bool for part in self.y)

    @property
    def weighted(self) -> bool:
        """Whether rows have weights."""
        return bool(self.w) and self.w[0] is not None

    @property
    def by_unit(self) -> bool:
        """Whether rows depend on each other."""
        return bool(self.units) and self.units[0] is not None

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """What `make` makes of the rows, made once for all metrics."""
        if key not in self.made:
            self.made[key] = make()
        return self.made[key]

    def runs(self) -> Runs:
        """The runs of equal p."""
        return self.once("runs", lambda: Runs.of(*self.arrays()[:3]))

    def redrawn(self, settings: Settings) -> tuple[Runs, np.ndarray] | None:
        """Joined runs and Σwy (R, K) of redrawn labels, or None where labels cannot be redrawn."""
        if not self.binary or self.by_unit:
            return None
        return self.once(("redrawn", settings), lambda: self._redraw(settings))

    def _redraw(self, settings: Settings) -> tuple[Runs, np.ndarray]:
        replicates = min(settings.resamples, MOST_REDRAWN // FEWEST_CELLS)
        cells = self.runs().joined(min(NULL_CELLS, max(FEWEST_CELLS, MOST_REDRAWN // replicates)))
        drawn = redraw(cells.rows, cells.p, cells.w, cells.variance, replicates=replicates, seed=settings.seed)
        return cells, drawn

    def mass_bins(self, bins: int, spread: bool) -> BinnedPairs:
        """The same rows over bins of equal mass."""
        return self.once(("mass", bins, spread), lambda: self._binned(bins, spread))

    def _binned(self, bins: int, spread: bool) -> BinnedPairs:
        p, y, w, units = self.arrays()
        place, edges = assign(p, bins, "mass", w)
        binned = BinnedPairs(self.pairs, bins=len(edges) - 1, n=self.n)
        binned.add_pairs(p, y, w, units, place, spread)
        return binned


def _joined(parts: list[np.ndarray | None]) -> np.ndarray | None:
    if len(parts) == 1 or parts[0] is None:
        return parts[0]
    return np.concatenate([part for part in parts if part is not None])


def kept(pairs: Pairs, reduce: Any) -> Reduced:
    """The accumulator of a metric of kept rows."""
    return Reduced(("kept", pairs), KeptPairs(pairs), reduce)


def mass_binned_error(pairs: Pairs, bins: int, make: MakeStatistic, inverted: MakeStatistic | None) -> Reduced:
    """An error over bins of equal mass, which are known only when all rows are."""

    def reduce(state: KeptPairs, settings: Settings) -> Estimate:
        return error_of_bins(state.mass_bins(bins, settings.intervals), settings, make, inverted)

    return kept(pairs, reduce)


MOST_DRAWN, FEWEST = 1 << 26, 200


def replicates_of_rows(rows: int, wanted: int) -> int:
    """How many times so many rows are resampled: as wanted, fewer above some sixty thousand rows."""
    return min(wanted, max(FEWEST, MOST_DRAWN // rows))


# ---------------------------------------------------------------------------------------- rankings
def ranking(pairs: Pairs, which: int) -> Reduced:
    """ROC AUC (which = 0) or average precision (which = 1) of scores p and positives y."""
    return kept(pairs, partial(_ranking, which=which))


def _ranking(state: KeptPairs, settings: Settings, which: int) -> Estimate:
    """The score with DeLong's interval, or a resampled one where DeLong does not apply."""
    p, y, w, units = state.arrays()
    positive = y == 1
    value = ranking_scores(p, positive, w)[which]
    if not settings.intervals or math.isnan(value) or too_few(positive, units):
        return Estimate.of(value, state.n)
    if which == 0 and w is None and units is None:
        interval = intervals.delong(p, positive, value, settings.level)
    else:
        replicates = replicates_of_rows(len(p), settings.resamples)
        drawn = state.once(
            ("ranking", settings),
            lambda: ranking_replicates(
                p, positive, w, units, replicates=replicates, seed=settings.seed, threads=settings.threads
            ),
        )
        interval = intervals.percentile(drawn[:, which], settings.level)
    return Estimate.of(value, state.n, interval, settings, (0.0, 1.0))


def too_few(positive: np.ndarray, units: np.ndarray | None) -> bool:
    """Whether fewer than two rows (or units) are positive, or negative: resampling them then says nothing."""
    if units is None:
        count = int(np.count_nonzero(positive))
        return min(count, len(positive) - count) < 2
    return min(len(np.unique(units[positive])), len(np.unique(units[~positive]))) < 2


# -------------------------------------------------------------------------------------------- CORP
def corp_part(pairs: Pairs, part: str) -> Reduced:
    """One part of the bin-free decomposition of mean (p − y)²; its plug-in has no interval that covers."""

    def reduce(state: KeptPairs, settings: Settings) -> Estimate:
        del settings
        p, y, w, _ = state.arrays()
        parts: CorpParts = state.once("corp", lambda: corp(p, y, w))
        return Estimate.of(getattr(parts, part), state.n)

    return kept(pairs, reduce)
