"""Errors summed over classes: from a table of sums per class and bin, or from the entries that a threshold keeps.

A cell is a bin of one class. The cells of a class share no row, so their gaps are independent; those of different
classes depend a little (a row's label is of one class only), which is neglected but for two classes, whose gaps mirror
each other: these are drawn once and counted twice.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from calibrant.calibration.binned import SHRINKAGE_ROWS
from calibrant.calibration.cells import redraw
from calibrant.calibration.inversion import replicates_for, union_of_inversions
from calibrant.calibration.norms import Statistic
from calibrant.intervals import APPROXIMATE
from calibrant.kernels.loops.extras import FIXED
from calibrant.kernels.rows import Rows
from calibrant.kernels.tables import UnitTable
from calibrant.registry.binned_error import null_facts
from calibrant.registry.estimate import Estimate, Settings
from calibrant.registry.sharing import Reduced


@dataclass
class Table:
    """A table of sums that the pass keeps under `key`, in units of 2⁻⁴⁰ as Python integers."""

    key: Hashable
    n: int = 0
    table: Any = 0
    weighted: bool = False
    by_unit: bool = False

    def add(self, rows: Rows, spread: bool = True) -> None:
        """Take in more rows."""
        del spread
        self.n += rows.n
        self.weighted |= rows.weights is not None
        self.by_unit |= rows.units is not None
        self.table = self.table + rows.extras[self.key]

    def merge(self, other: Table) -> None:
        """Take in what another has seen."""
        self.n += other.n
        self.weighted |= other.weighted
        self.by_unit |= other.by_unit
        self.table = self.table + other.table


def table_metric(key: Hashable, reduce: Callable[[Table, Settings], Estimate]) -> Reduced:
    """The accumulator of a metric of such a table."""
    return Reduced(key, Table(key), reduce)


@dataclass(frozen=True)
class Cells:
    """Sums of cells (K,): rows (or weight), Σp, Σp², Σy, Σpy; `mass` is that of all rows, `copies` of each cell."""

    count: np.ndarray
    p: np.ndarray
    p_squared: np.ndarray
    y: np.ndarray
    p_y: np.ndarray
    place: np.ndarray
    """Which of the bins of its class a cell is."""
    mass: float
    copies: int = 1
    """How often a cell counts: twice where two classes mirror each other."""

    @classmethod
    def of(cls, sums: list[np.ndarray], place: np.ndarray, mass: float, copies: int = 1) -> Cells:
        """From the five sums in order."""
        count, p, p_squared, y, p_y = sums
        return cls(count, p, p_squared, y, p_y, place, mass, copies)

    def pooled(self) -> np.ndarray:
        """Signed gaps if every class had the same gap in a bin: that of all classes together."""
        gap = np.bincount(self.place, self.signed) / np.maximum(np.bincount(self.place, self.share), 1e-300)
        return self.share * gap[self.place]

    @property
    def share(self) -> np.ndarray:
        """Weight of each cell among all rows."""
        return self.count / self.mass

    @property
    def signed(self) -> np.ndarray:
        """Gap of each cell times its share."""
        return (self.y - self.p) / self.mass

    def take(self, which: np.ndarray, copies: int) -> Cells:
        """Some of the cells, each counting so often."""
        sums = [x[which] for x in (self.count, self.p, self.p_squared, self.y, self.p_y)]
        return Cells.of(sums, self.place[which], self.mass, copies)

    def variance(self) -> np.ndarray:
        """Variance of `signed`, steadied by two pseudo-rows at the model's probability."""
        filled = np.where(self.count > 0, self.count, 1.0)
        squares = self.y - 2.0 * self.p_y + self.p_squared - (self.y - self.p) ** 2 / filled
        mean_p = self.p / filled
        steady = SHRINKAGE_ROWS * np.clip(mean_p * (1.0 - mean_p), 0.0, None)
        scale = self.count / (self.count - 1.0 + SHRINKAGE_ROWS)  # the gap was found from the same rows
        return np.maximum(squares + steady, 0.0) * scale / self.mass**2

    def null_gaps(self, settings: Settings) -> np.ndarray:
        """Signed gaps (R, K) of redrawn labels."""
        mean_p = self.p / np.where(self.count > 0, self.count, 1.0)
        variance = np.maximum(self.p - self.p_squared, 0.0)
        drawn = redraw(
            np.rint(self.count).astype(np.int64), mean_p, self.count, variance,
            replicates=replicates_for(len(self.p), settings.resamples), seed=settings.seed,
        )  # fmt: skip
        return (drawn - self.p) / self.mass


def cells_of_table(table: UnitTable) -> tuple[Cells, Cells]:
    """The cells that have rows of a class-wise table[layer, class, bin], and those that are drawn.

    Of two classes these are the second's, twice; at the edges of bins the two do not mirror each other quite.
    """
    values = table.astype(np.float64) / FIXED
    mass = float(values[0, 0].sum())
    flat = values.reshape(len(values), -1)
    places = np.tile(np.arange(values.shape[2]), values.shape[1])
    filled = flat[0] > 0
    cells = Cells.of(list(flat[:, filled]), places[filled], mass)
    if values.shape[1] != 2:
        return cells, cells
    return cells, cells.take(np.flatnonzero((np.arange(len(places)) >= values.shape[2])[filled]), copies=2)


def classwise_error(
    cells: Cells, value: float, n: int, statistic: Statistic, settings: Settings, top: float
) -> Estimate:
    """The error with its interval and null band, from the cells that are drawn."""
    if not len(cells.p):
        return Estimate.of(value, n)
    gaps, alike = cells.null_gaps(settings), float(statistic(cells.signed))
    null = null_facts(statistic, gaps, cells.share, alike, settings)
    interval = union_of_inversions(
        cells.signed, cells.share, cells.variance(), statistic,
        level=settings.level, draws=settings.resamples, seed=settings.seed, null_holds=alike <= null["null_high"],
        also=(cells.pooled(), cells.share),
    )  # fmt: skip
    if cells.copies == 1:
        interval = replace(interval, method=f"{interval.method}{APPROXIMATE}")
    return Estimate.of(value, n, interval, settings, (0.0, top), **null)


# --------------------------------------------------------------------------- bins of equal counts
@dataclass
class Entries:
    """Entries of whole predictions that a threshold keeps: (E, 3) class, p, y of each."""

    key: Hashable
    n: int = 0
    parts: list[np.ndarray] = field(default_factory=list)
    by_unit: bool = False

    def add(self, rows: Rows, spread: bool = True) -> None:
        """Take in more rows."""
        del spread
        self.n += rows.n
        self.by_unit |= rows.units is not None
        self.parts.append(rows.extras[self.key])

    def merge(self, other: Entries) -> None:
        """Take in what another has seen."""
        self.n += other.n
        self.by_unit |= other.by_unit
        self.parts += other.parts

    def cells(self, bins: int) -> tuple[Cells, np.ndarray, np.ndarray]:
        """Cells of equal counts in each class, how many entries the class of each cell has, and which class it is."""
        entries = np.concatenate(self.parts)
        if not len(entries):
            nothing = np.empty(0)
            return Cells.of([nothing] * 5, nothing.astype(np.int64), float(self.n)), nothing, nothing
        order = np.lexsort((entries[:, 2], entries[:, 1], entries[:, 0]))
        k, p, y = entries[order].T
        first = np.append(True, k[1:] != k[:-1])  # of each class
        starts = np.flatnonzero(first)
        kept = np.diff(np.append(starts, len(k)))
        place = np.arange(len(k)) - np.repeat(starts, kept)
        size = np.repeat(np.maximum(kept // bins, 1), kept)
        group = np.minimum(place // size, np.repeat(np.minimum(bins, kept), kept) - 1)
        run = np.flatnonzero(first | np.append(True, p[1:] != p[:-1]))
        group = np.repeat(group[run], np.diff(np.append(run, len(k))))  # ties go with the first of them
        cell = np.flatnonzero(first | np.append(True, group[1:] != group[:-1]))
        sums = [np.add.reduceat(x, cell) for x in (np.ones(len(k)), p, p * p, y, p * y)]
        return Cells.of(sums, group[cell], float(self.n)), np.repeat(kept, kept)[cell], k[cell]
