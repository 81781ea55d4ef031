"""Reliability: mean confidence against accuracy in bins or by isotonic regression, with the band of a calibrated model.

- `reliability` has 15 bins of equal width, `reliability(bins=B,binning=mass)` others; B is 5, 10, 15, 20 or 30, and
  defaults are not written. `of=NAME` is about class 1 of a binary problem instead of the top label. Columns, over the
  bins that have rows: lower, upper, n, confidence, accuracy; band_low and band_high, between which the accuracy of the
  bin lies with probability `level` if labels are drawn from the predictions. The band is pointwise: with many bins,
  some lie outside.
- `corp`: accuracy as the rising function of confidence that fits best, without bins to choose. It has at most some
  200 cells; up to 200 distinct confidences are one cell each. The fit is to all rows in any case. Columns: lower,
  upper (the least and greatest confidence of the cell), n, confidence (its mean), recalibrated (the mean of the fit
  over the cell), and band_low, band_high: where the mean of the fit over the cell lies with probability `level` if
  labels are drawn from the predictions and fitted again. The band is by cells because cells, unlike the steps of the
  fit, do not depend on labels.

There is no band if labels are soft or rows depend on each other. Equal-mass bins and `corp` redraw labels once, on a
grid of cells of about equal weight and spread, cut wherever a bin of equal mass begins.

References: Bröcker & Smith (2007), Weather and Forecasting 22: 651-661; Dimitriadis, Gneiting & Jordan (2021), PNAS
118: e2016191118.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calibrant.calibration.binning import BinSums, edges_after, equal_width, mass_cuts
from calibrant.calibration.consistency import ConsistencyRows
from calibrant.calibration.runs import Runs, redraw
from calibrant.kernels.isotonic import rising_fit
from calibrant.pipeline.curves.base import KEPT, Columns, Curve, CurveState, columns, pointwise_band, with_band
from calibrant.pipeline.select_metrics import second_class
from calibrant.predictions import Evaluable
from calibrant.registry.estimate import Settings
from calibrant.registry.state.accumulators import counting
from calibrant.registry.state.pairs import MOST_REDRAWN, ClassPairs, KeptPairs, Pairs, TopPairs

BINS = 15
MASS_BINS = (5, 10, 15, 20, 30)
"""Numbers of bins of equal mass that there are curves of."""
LATTICES = {15: 30, 30: 30, 5: 20, 10: 20, 20: 20}
"""Bins of which each is two or four times as wide as those of the lattice, so that edges are the same floats."""
ROUNDING = 1e-12
"""By how much sums of weights may miss 0 or the total."""
MAX_EXACT_CELLS, CELLS = 200, 128
"""Distinct confidences up to which each is a cell of its own, and the number of cells otherwise."""


def curves(example: Evaluable) -> Iterator[Curve]:
    """All numbers of bins for the top label, 15 bins of both kinds for class 1 of a binary problem; and CORP."""
    for bins in (BINS, *(b for b in MASS_BINS if b != BINS)):
        yield _curve(TopPairs(), bins, "width")
    for bins in (BINS, *(b for b in MASS_BINS if b != BINS)):
        yield _curve(TopPairs(), bins, "mass")
    second = second_class(example)
    if second is not None:
        yield _curve(ClassPairs(1), BINS, "width", second)
        yield _curve(ClassPairs(1), BINS, "mass", second)
    yield Curve("corp", lambda example: CurveState((KEPT, TopPairs()), KeptPairs(TopPairs()), _corp_columns))


def _curve(pairs: Pairs, bins: int, binning: str, of: str = "top") -> Curve:
    given = [f"bins={bins}"] * (bins != BINS) + ["binning=mass"] * (binning == "mass") + [f"of={of}"] * (of != "top")
    name = "reliability" + (f"({','.join(given)})" if given else "")
    required: frozenset[Hashable] = frozenset({("class", 1)} if of != "top" else ())

    def accumulate(example: Evaluable) -> CurveState:
        if binning == "mass":
            return CurveState(
                (KEPT, pairs), KeptPairs(pairs), lambda state, settings: _equal_mass_columns(state, settings, bins)
            )
        lattice = LATTICES[bins]
        key = ("lattice", pairs, lattice)
        return CurveState(
            key, Lattice(pairs, lattice), lambda state, settings: _equal_width_columns(state, settings, bins)
        )

    return Curve(name, accumulate, required_columns=required)


# ------------------------------------------------------------------------------------- equal width
@dataclass
class Lattice:
    """Sums over narrow bins of equal width, which wider bins are joined from, and the rows for redrawing labels."""

    pairs: Pairs
    bins: int
    sums: BinSums = field(init=False)
    null: ConsistencyRows | None = None
    redraws: bool = True
    """Whether labels can be redrawn: each is 0 or 1, and rows are independent."""
    redrawn: dict[Settings, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.sums = BinSums(self.bins, spread=False)

    def add(self, rows: Any, spread: bool = True) -> None:
        """Add rows."""
        p, y, w = counting(rows.weights, *self.pairs(rows), rows.weights)
        place = equal_width(p, self.bins)
        self.sums.add(p, y, w, place)
        self.redraws = self.redraws and spread and rows.units is None and bool(((y == 0) | (y == 1)).all())
        if self.redraws:
            self.null = self.null or ConsistencyRows(self.bins)
            self.null.add(p, w, place)

    def merge(self, other: Lattice) -> None:
        """Add the rows of another state."""
        self.sums.merge(other.sums)
        self.redraws = self.redraws and other.redraws
        if self.null is None:
            self.null = other.null
        elif other.null is not None:
            self.null.merge(other.null)

    def hits(self, settings: Settings) -> np.ndarray | None:
        """Σwy (R, bins) of redrawn labels, or None if they cannot be redrawn."""
        if not (settings.intervals and self.redraws and self.null is not None):
            return None
        if settings not in self.redrawn:
            table = self.sums.table()
            gaps = self.null.gaps(table, settings.resamples, settings.seed, settings.threads)
            hits = gaps * table.w.sum() + table.wp
            self.redrawn = {settings: hits if self.sums.weighted else np.rint(hits)}  # counts, without rounding errors
        return self.redrawn[settings]


def _equal_width_columns(state: Lattice, settings: Settings, bins: int) -> Columns:
    by = state.bins // bins
    table = state.sums.folded(by).table()
    filled = np.flatnonzero(table.w > 0)
    edges = np.arange(bins + 1) / bins
    w = table.w[filled]
    curve = columns(
        lower=edges[filled], upper=edges[filled + 1], n=table.rows[filled], confidence=table.wp[filled] / w,
        accuracy=table.wy[filled] / w,
    )  # fmt: skip
    hits = state.hits(settings)
    if hits is None:
        return curve
    return with_band(curve, _band(hits.reshape(len(hits), bins, by).sum(axis=2)[:, filled], w, settings))


def _band(hits: np.ndarray, w: np.ndarray, settings: Settings) -> tuple[np.ndarray, np.ndarray]:
    low, high = (np.clip(end / w, 0.0, 1.0) for end in pointwise_band(hits, settings.level))
    return np.where(low < ROUNDING, 0.0, low), np.where(high > 1.0 - ROUNDING, 1.0, high)


# ----------------------------------------------------------------------------- equal mass and CORP
@dataclass(frozen=True)
class Grid:
    """Runs of equal confidence joined into cells, which depend on confidences and weights, not on labels."""

    first: np.ndarray
    """The first run of each cell."""
    cells: Runs
    bins: dict[int, np.ndarray]
    """The first run of each bin of equal mass, by the number of bins."""


def _grid_of(state: KeptPairs) -> Grid:
    """The grid of all rows, computed once for all curves."""

    def build() -> Grid:
        runs = state.runs()
        bins = {count: np.append(0, mass_cuts(runs.w, count) + 1) for count in MASS_BINS}
        if len(runs.p) <= MAX_EXACT_CELLS:
            return Grid(np.arange(len(runs.p)), runs, bins)
        first = np.unique(np.concatenate([runs.first_of(CELLS), *bins.values()]))
        return Grid(first, runs.joined_at(first), bins)

    return state.once("grid", build)


def _redrawn_hits(state: KeptPairs, settings: Settings) -> np.ndarray | None:
    """Σwy (R, K) of the cells if labels are redrawn; None if they cannot be, or no band is needed."""
    if not settings.intervals or not state.binary or state.by_unit:
        return None

    def draw() -> np.ndarray:
        cells = _grid_of(state).cells
        replicates = min(settings.resamples, MOST_REDRAWN // len(cells.p))
        hits = redraw(cells.rows, cells.p, cells.w, cells.variance, replicates=replicates, seed=settings.seed)
        return hits if state.weighted else np.rint(hits)

    return state.once(("grid", settings), draw)


def _equal_mass_columns(state: KeptPairs, settings: Settings, bins: int) -> Columns:
    grid = _grid_of(state)
    first, runs = grid.bins[bins], state.runs()
    edges = np.concatenate([[0.0], edges_after(runs.p, first[1:] - 1), [1.0]])
    rows, w, wp, wy = (np.add.reduceat(x, first) for x in (runs.rows, runs.w, runs.w * runs.p, runs.wy))
    curve = columns(lower=edges[:-1], upper=edges[1:], n=rows, confidence=wp / w, accuracy=wy / w)
    redrawn = _redrawn_hits(state, settings)
    if redrawn is None:
        return curve
    hits = np.add.reduceat(redrawn, np.searchsorted(grid.first, first), axis=1)
    return with_band(curve, _band(hits, w, settings))


def _corp_columns(state: KeptPairs, settings: Settings) -> Columns:
    runs, grid = state.runs(), _grid_of(state)
    cells = grid.cells
    last = np.append(grid.first[1:], len(runs.p)) - 1
    fitted = np.add.reduceat(runs.w * rising_fit(runs.w, runs.wy), grid.first) / cells.w
    fitted = np.maximum.accumulate(np.clip(fitted, 0.0, 1.0))  # without the rounding of the means
    curve = columns(
        lower=runs.p[grid.first], upper=runs.p[last], n=cells.rows, confidence=cells.p, recalibrated=fitted
    )  # fmt: skip
    redrawn = _redrawn_hits(state, settings)
    if redrawn is None:
        return curve
    return with_band(curve, pointwise_band(rising_fit(cells.w, redrawn, settings.threads), settings.level))
