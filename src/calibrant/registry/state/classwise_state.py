"""Errors summed over classes: from a table of sums per class and bin, or from the entries that a threshold keeps.

A cell is a bin of one class. Cells of different classes share rows, and a row's label is of one class only, so their
gaps are dependent: all are drawn together, with the covariance Σ v·vᵀ over rows, in which v (K,) is y_c − p_c at the
cell of each class c of the row, and 0 elsewhere. If labels are redrawn from p, the mean of v·vᵀ has p_c(1 − p_c) on its
diagonal and −p_c·p_d beside it. Above `MOST_JOINT` cells those of different classes are drawn independently. The gaps
of two classes mirror each other: they are drawn once and counted twice.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from calibrant.calibration.binning import SHRINKAGE_ROWS
from calibrant.calibration.inversion import replicates_for, union_of_inversions
from calibrant.calibration.norms import Statistic
from calibrant.calibration.runs import redraw
from calibrant.intervals import APPROXIMATE
from calibrant.kernels.exact import UnitTable
from calibrant.kernels.loops.optional_columns import FIXED, joint_entries
from calibrant.kernels.philox import normals
from calibrant.kernels.resampling import INVERSION, correlated
from calibrant.kernels.rows import JOINT, PROBS, Rows
from calibrant.registry.estimate import Estimate, Settings
from calibrant.registry.state.accumulators import Reduced, State
from calibrant.registry.state.binned_state import null_facts
from calibrant.registry.state.class_rows import MOST_REDRAWN, redrawn_gaps

MOST_JOINT = 320
"""Cells (classes times bins) up to which those of different classes are drawn together."""
MOST_ROWS = 1 << 21
"""Rows whose sums in units of 2⁻⁴⁰ fit into 64 bits."""


def is_joint(classes: int, bins: int) -> bool:
    """Whether cells of different classes are drawn together."""
    return classes > 2 and classes * bins <= MOST_JOINT


@dataclass
class Table(State):
    """A table of sums that the pass keeps under `key`, in units of 2⁻⁴⁰ as Python integers."""

    key: Hashable
    table: Any = 0
    joint: UnitTable | None = None
    """The sums of each two cells (2, C·bins, C·bins), where an interval needs them."""
    weighted: bool = False
    probs: list[np.ndarray] = field(default_factory=list)
    """The probabilities (N, C) of rows, while there are few: their labels are redrawn row by row."""
    MERGED: ClassVar = ("table", "joint", "weighted", "probs")

    def collect(self, rows: Rows, spread: bool) -> None:
        """Add the table of these rows."""
        self.weighted |= rows.weights is not None
        self.table = self.table + rows.extras[self.key]
        joint = rows.extras.get((JOINT, self.key[1])) if spread and isinstance(self.key, tuple) else None
        if joint is not None:
            self.joint = joint + (self.joint or 0)
        probs = rows.extras.get(PROBS) if spread and joint is not None else None
        if probs is not None and self.n * probs.shape[1] <= MOST_REDRAWN:
            self.probs.append(np.array(probs))
        else:
            self.probs.clear()

    def redrawn_gaps(self, settings: Settings) -> np.ndarray | None:
        """Signed gaps (R, C·bins) of labels that are redrawn row by row; None where there are too many rows."""
        p = np.concatenate(self.probs) if self.probs else np.empty((0, 1))
        if len(p) != self.n or p.size > MOST_REDRAWN or not isinstance(self.key, tuple):
            return None
        p = p[np.lexsort(p.T)]
        return redrawn_gaps(p, None, int(self.key[1]), settings.resamples, settings.seed)


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
    """The bin of each cell within its class."""
    mass: float
    copies: int = 1
    """Multiplicity of each cell: 2 if two classes mirror each other."""
    joint: np.ndarray | None = None
    """Σ p_k·p_l and Σ (y_k·p_l + p_k·y_l) over the rows in both cells (2, K, K); 0 if they are of one class."""

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
        """A subset of the cells, with this multiplicity."""
        sums = [x[which] for x in (self.count, self.p, self.p_squared, self.y, self.p_y)]
        return Cells.of(sums, self.place[which], self.mass, copies)

    def covariance(self) -> np.ndarray:
        """Covariance of `signed`, (K,) or joint (K, K), stabilised by two pseudo-rows at the model's probability."""
        filled = np.where(self.count > 0, self.count, 1.0)
        mean_p, gap = self.p / filled, self.y - self.p
        squares = self.y - 2.0 * self.p_y + self.p_squared
        steady = SHRINKAGE_ROWS * np.clip(mean_p * (1.0 - mean_p), 0.0, None)
        if self.joint is not None:  # rows and their cells are random
            products = self.joint[0] - self.joint[1] + np.diag(squares + steady) - np.outer(gap, gap) / self.mass
            scale = np.sqrt(self.count / (self.count + SHRINKAGE_ROWS)) / self.mass
            return products * np.outer(scale, scale)
        squares = squares - gap**2 / filled
        scale = self.count / (self.count - 1.0 + SHRINKAGE_ROWS)  # the gap is estimated from the same rows
        return np.maximum(squares + steady, 0.0) * scale / self.mass**2

    def null_gaps(self, settings: Settings) -> np.ndarray:
        """Signed gaps (R, K) of redrawn labels."""
        correlation = None
        if self.joint is not None:
            error = np.sqrt(np.maximum(self.p - self.p_squared, 0.0))
            inverse = np.divide(1.0, error, out=np.zeros(len(error)), where=error > 0.0)
            correlation = np.eye(len(error)) - self.joint[0] * np.outer(inverse, inverse)
        mean_p = self.p / np.where(self.count > 0, self.count, 1.0)
        variance = np.maximum(self.p - self.p_squared, 0.0)
        drawn = redraw(
            np.rint(self.count).astype(np.int64), mean_p, self.count, variance,
            replicates=replicates_for(len(self.p), settings.resamples), seed=settings.seed,
            correlation=correlation,
        )  # fmt: skip
        return (drawn - self.p) / self.mass


def cells_of_table(table: UnitTable, joint: UnitTable | None) -> tuple[Cells, Cells]:
    """The cells that have rows of a class-wise table[layer, class, bin], and those that are drawn.

    Of two classes these are the second's, twice; at the edges of bins the two do not mirror each other quite.
    """
    values = table.astype(np.float64) / FIXED
    mass = float(values[0, 0].sum())
    flat = values.reshape(len(values), -1)
    places = np.tile(np.arange(values.shape[2]), values.shape[1])
    filled = flat[0] > 0
    cells = Cells.of(list(flat[:, filled]), places[filled], mass)
    if values.shape[1] == 2:
        return cells, cells.take(np.flatnonzero((np.arange(len(places)) >= values.shape[2])[filled]), copies=2)
    if joint is None:
        return cells, cells
    return cells, replace(cells, joint=_symmetric(joint)[:, filled][:, :, filled])


def _symmetric(joint: UnitTable) -> np.ndarray:
    """`Cells.joint` from the sums above its diagonals."""
    upper = joint.astype(np.float64) / FIXED
    return upper + upper.transpose(0, 2, 1)


def classwise_error(
    cells: Cells, value: float, n: int, statistic: Statistic, settings: Settings, top: float,
    gaps: np.ndarray | None = None,
) -> Estimate:  # fmt: skip
    """The error with its interval and null band, from the cells that are drawn.

    gaps: (R, K) of labels that were redrawn row by row; by default the cells are.
    """
    if not len(cells.p):
        return Estimate.of(value, n)
    alike = float(statistic(cells.signed))
    gaps = cells.null_gaps(settings) if gaps is None else gaps
    null = null_facts(statistic, gaps, cells.share, alike, settings)
    covariance, noise = cells.covariance(), None
    if cells.joint is not None:
        replicates = replicates_for(len(cells.p), settings.resamples)
        noise = correlated(normals(settings.seed, INVERSION, replicates, len(cells.p)), covariance)
        covariance = np.diag(covariance)
    interval = union_of_inversions(
        cells.signed, cells.share, covariance, statistic,
        level=settings.level, draws=settings.resamples, seed=settings.seed, null_holds=alike <= null["null_high"],
        also=(cells.pooled(), cells.share), noise=noise,
    )  # fmt: skip
    if cells.copies == 1 and cells.joint is None:
        interval = replace(interval, method=f"{interval.method}{APPROXIMATE}")
    return Estimate.of(value, n, interval, settings, (0.0, top), **null)


# --------------------------------------------------------------------------- bins of equal counts
@dataclass
class Entries(State):
    """Entries of whole predictions that a threshold keeps: parts (E, 4) with class, p, y and row, row by row."""

    key: Hashable
    parts: list[np.ndarray] = field(default_factory=list)
    MERGED: ClassVar = ("parts",)

    def collect(self, rows: Rows, spread: bool) -> None:
        """Keep the entries of these rows."""
        self.parts.append(rows.extras[self.key])

    def cells(self, bins: int, classes: int, spread: bool) -> tuple[Cells, np.ndarray, np.ndarray]:
        """Cells of equal counts in each class, how many entries the class of each cell has, and which class it is.

        With `spread`, the cells have the sums of each two of them, unless there are too many.
        """
        entries = np.concatenate(self.parts)
        if not len(entries):
            nothing = np.empty(0)
            return Cells.of([nothing] * 5, nothing.astype(np.int64), float(self.n)), nothing, nothing
        order = np.lexsort((entries[:, 2], entries[:, 1], entries[:, 0]))
        k, p, y, _ = entries[order].T
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
        cells = Cells.of(sums, group[cell], float(self.n))
        if spread and is_joint(classes, bins):
            of_entry = np.empty(len(k), np.int64)
            of_entry[order] = np.repeat(np.arange(len(cell)), np.diff(np.append(cell, len(k))))
            cells = replace(cells, joint=self.joint(entries, of_entry))
        return cells, np.repeat(kept, kept)[cell], k[cell]

    def joint(self, entries: np.ndarray, cell: np.ndarray) -> np.ndarray:
        """`Cells.joint` from all entries in the order of the parts, and the cell of each."""
        is_first = [np.append(True, part[1:, 3] != part[:-1, 3]) for part in self.parts if len(part)]
        first = np.append(np.flatnonzero(np.concatenate(is_first)), len(entries))  # entry of each row
        p, y = entries[:, 1].copy(), entries[:, 2].copy()
        rows, count, total = len(first) - 1, int(cell.max()) + 1, UnitTable.of(np.zeros((), np.int64))
        for start in range(0, rows, MOST_ROWS):
            table = np.zeros((2, count, count), np.int64)
            joint_entries(first, cell, p, y, table, start, min(rows, start + MOST_ROWS))
            total += UnitTable.of(table)
        return _symmetric(total)
