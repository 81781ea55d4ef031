"""Reliability: the mean confidence and the accuracy of bins, with the band of a calibrated model beside it.

Names: `reliability` is of 15 bins of equal width, `reliability(bins=B,binning=mass)` of others; B is 5, 10, 15, 20 or
30, the default left out. `of=NAME` is of class 1 of a binary problem instead of the top label.
Columns, over the bins that have rows: lower, upper, n, confidence, accuracy; band_low and band_high, between which the
accuracy of the bin lies with probability `level` if labels are drawn from the predictions (Bröcker & Smith 2007,
Weather and Forecasting 22: 651-661). Each bin is on its own: of many, some lie outside. There is no band where labels
are soft or rows depend on each other.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calibrant.calibration.binned import BinSums, BinTable
from calibrant.calibration.binning import edges_after, equal_width
from calibrant.calibration.consistency import ConsistencyRows
from calibrant.evaluation.choosing import second_class
from calibrant.evaluation.curves.curve import KEPT, Columns, Curve, Drawn, banded, columns, pointwise
from calibrant.evaluation.curves.redrawn import MASS_BINS, grid_of, redrawn_cells
from calibrant.predictions import Evaluated
from calibrant.registry.accumulators import counting
from calibrant.registry.estimate import Settings
from calibrant.registry.kept import KeptPairs
from calibrant.registry.pairs import ClassPairs, Pairs, TopPairs

BINS = 15
LATTICES = {15: 30, 30: 30, 5: 20, 10: 20, 20: 20}
"""Bins of which each is two or four times as wide as those of the lattice, so that edges are the same floats."""
ROUNDING = 1e-12
"""By what sums of weights may miss none or all."""


def curves(example: Evaluated) -> Iterator[Curve]:
    """Of the top label every one; of class 1 of a binary problem, 15 bins of both kinds."""
    if example.task not in ("classification", "judged"):
        return
    for bins in (BINS, *(b for b in MASS_BINS if b != BINS)):
        yield _curve(TopPairs(), bins, "width")
    for bins in (BINS, *(b for b in MASS_BINS if b != BINS)):
        yield _curve(TopPairs(), bins, "mass")
    second = second_class(example)
    if second is not None:
        yield _curve(ClassPairs(1), BINS, "width", second)
        yield _curve(ClassPairs(1), BINS, "mass", second)


def _curve(pairs: Pairs, bins: int, binning: str, of: str = "top") -> Curve:
    given = [f"bins={bins}"] * (bins != BINS) + ["binning=mass"] * (binning == "mass") + [f"of={of}"] * (of != "top")
    name = "reliability" + (f"({','.join(given)})" if given else "")
    wants: frozenset[Hashable] = frozenset({("class", 1)} if of != "top" else ())

    def accumulate(example: Evaluated) -> Drawn:
        del example
        if binning == "mass":
            return Drawn((KEPT, pairs), KeptPairs(pairs), lambda state, settings: _of_mass(state, settings, bins))
        lattice = LATTICES[bins]
        made = Lattice(pairs, lattice)
        return Drawn(("lattice", pairs, lattice), made, lambda state, settings: _of_width(state, settings, bins))

    return Curve(name, accumulate, wants=wants)


# ------------------------------------------------------------------------------------- equal width
@dataclass
class Lattice:
    """Sums over bins of equal width that wider ones are made of, and what redrawing their labels needs."""

    pairs: Pairs
    bins: int
    sums: BinSums = field(init=False)
    null: ConsistencyRows | None = None
    redraws: bool = True
    """Whether labels can be redrawn: each is 0 or 1, and rows do not depend on each other."""
    drawn: dict[Settings, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """No rows yet."""
        self.sums = BinSums(self.bins, spread=False)

    def add(self, rows: Any, spread: bool = True) -> None:
        """Take in more rows."""
        p, y, w = counting(rows.weights, *self.pairs(rows), rows.weights)
        place = equal_width(p, self.bins)
        self.sums.add(p, y, w, place)
        known = rows.units is None and bool(((y == 0) | (y == 1)).all())
        self.redraws = self.redraws and spread and known
        if self.redraws:
            self.null = self.null or ConsistencyRows(self.bins)
            self.null.add(p, w, place)

    def merge(self, other: Lattice) -> None:
        """Take in what another has seen."""
        self.sums.merge(other.sums)
        self.redraws = self.redraws and other.redraws
        if self.null is None:
            self.null = other.null
        elif other.null is not None:
            self.null.merge(other.null)

    def hits(self, settings: Settings) -> np.ndarray | None:
        """Σwy (R, bins) of redrawn labels, or None where they cannot be redrawn."""
        if not (settings.intervals and self.redraws and self.null is not None):
            return None
        if settings not in self.drawn:
            table = self.sums.table()
            gaps = self.null.gaps(table, settings.resamples, settings.seed, settings.threads)
            self.drawn = {settings: _whole(gaps * table.w.sum() + table.wp, self.sums.weighted)}
        return self.drawn[settings]


def _whole(hits: np.ndarray, weighted: bool) -> np.ndarray:
    """Numbers of rows without the rounding of gaps; sums of weights as they are."""
    return hits if weighted else np.rint(hits)


def _of_width(state: Lattice, settings: Settings, bins: int) -> Columns:
    by = state.bins // bins
    table = state.sums.folded(by).table()
    filled = np.flatnonzero(table.w > 0)
    edges = np.arange(bins + 1) / bins
    made = _columns(table, filled, edges[filled], edges[filled + 1])
    hits = state.hits(settings)
    if hits is None:
        return made
    return banded(made, _band(hits.reshape(len(hits), bins, by).sum(axis=2)[:, filled], table.w[filled], settings))


def _columns(table: BinTable, filled: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> Columns:
    w = table.w[filled]
    return columns(
        lower=lower, upper=upper, n=table.rows[filled], confidence=table.wp[filled] / w, accuracy=table.wy[filled] / w
    )


def _band(hits: np.ndarray, w: np.ndarray, settings: Settings) -> tuple[np.ndarray, np.ndarray]:
    low, high = (np.clip(end / w, 0.0, 1.0) for end in pointwise(hits, settings.level))
    return np.where(low < ROUNDING, 0.0, low), np.where(high > 1.0 - ROUNDING, 1.0, high)


# -------------------------------------------------------------------------------------- equal mass
def _of_mass(state: KeptPairs, settings: Settings, bins: int) -> Columns:
    grid = grid_of(state)
    first, runs = grid.bins[bins], state.runs()
    edges = np.concatenate([[0.0], edges_after(runs.p, first[1:] - 1), [1.0]])
    rows, w, wp, wy = (np.add.reduceat(x, first) for x in (runs.rows, runs.w, runs.w * runs.p, runs.wy))
    made = columns(lower=edges[:-1], upper=edges[1:], n=rows, confidence=wp / w, accuracy=wy / w)
    drawn = redrawn_cells(state, settings)
    if drawn is None:
        return made
    hits = np.add.reduceat(drawn, np.searchsorted(grid.first, first), axis=1)
    return banded(made, _band(hits, w, settings))
