"""Whole predictions of rows, from which class-wise errors are tested where sums of cells are not enough.

Sums of cells lose which entries share a row. Where hardly any row of a cell is uncertain, gaps are far from normal, and
one wrong label moves two cells: labels are then redrawn row by row. With weights, dependent rows (units) or soft
labels, the covariance of the cells needs the rows too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from calibrant.calibration.binning import SHRINKAGE_ROWS, equal_width
from calibrant.calibration.inversion import replicates_for, union_of_inversions
from calibrant.calibration.norms import power_norm
from calibrant.kernels.philox import normals, uniform_table
from calibrant.kernels.resampling import CELLS, correlated
from calibrant.registry.estimate import Estimate, Settings
from calibrant.registry.state.accumulators import Reduced, State, counting
from calibrant.registry.state.binned_state import NO_SPREAD, null_facts, robust_facts, robust_noise

MOST_REDRAWN = 1 << 15
"""Probabilities (rows times classes) up to which labels are redrawn row by row."""
MOST_KEPT = 1 << 24
"""Probabilities up to which whole predictions are kept."""
AT_A_TIME = 1 << 22
"""Comparisons of redrawn labels in memory at a time."""


def redrawn_labels(p: np.ndarray, replicates: int, seed: int, start: int = 0) -> np.ndarray:
    """Labels (R, N), each drawn from its row of p (N, C)."""
    edges = np.cumsum(p, axis=1)[:, :-1]
    u = uniform_table(seed, CELLS, replicates, len(p))
    out = np.zeros((replicates, len(p)), np.int64)
    for edge in edges.T:
        out += u > edge
    return out


@dataclass
class ClassRows(State):
    """p and y (N, C) of rows with their weights and units."""

    classes: int
    bins: int
    p: list[np.ndarray] = field(default_factory=list)
    y: list[np.ndarray] = field(default_factory=list)
    w: list[np.ndarray | None] = field(default_factory=list)
    units: list[np.ndarray | None] = field(default_factory=list)
    soft: bool = False
    MERGED: ClassVar = ("p", "y", "w", "units", "soft")

    def collect(self, rows: Any, spread: bool) -> None:
        """Keep whole predictions, unless there are too many."""
        if not spread or self.n * self.classes > MOST_KEPT:
            for column in (self.p, self.y, self.w, self.units):
                column.clear()
            return
        p, y = (np.stack([rows.extras[name, k] for k in range(self.classes)], axis=1) for name in ("class", "label"))
        p, y, w, units = counting(rows.weights, p, y, rows.weights, rows.units)
        self.soft |= bool(((y != 0) & (y != 1)).any())
        for column, values in ((self.p, p), (self.y, y), (self.w, w), (self.units, units)):
            column.append(values)

    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray | None]:
        """p, y, weights and units of all rows, sorted, so that sums do not depend on the order of the input."""
        p, y = np.concatenate(self.p), np.concatenate(self.y)
        w, units = (
            None if column[0] is None else np.concatenate([x for x in column if x is not None])
            for column in (self.w, self.units)
        )
        order = np.lexsort((*y.T, *p.T) if w is None else (w, *y.T, *p.T))
        return p[order], y[order], None if w is None else w[order], None if units is None else units[order]

    def mean_gaps(self) -> tuple[np.ndarray, np.ndarray, list[float]]:
        """Mean probability and share (C,) of each class, and the two-sided p-values of their differences (C,)."""
        from scipy.special import stdtr

        p, y, w, units = self.arrays()
        weight = np.ones(len(p)) if w is None else w
        predicted, observed = ((weight[:, None] * x).sum(axis=0) / weight.sum() for x in (p, y))
        terms = weight[:, None] * (p - y - (predicted - observed))
        if units is not None:
            _, place = np.unique(units, return_inverse=True)
            terms = np.stack([np.bincount(place, column) for column in terms.T], axis=1)
        error = np.sqrt((terms**2).sum(axis=0) * len(terms) / max(len(terms) - 1, 1)) / weight.sum()
        known = error > 0.0
        t = np.divide(-np.abs(predicted - observed), error, out=np.zeros(len(error)), where=known)
        return predicted, observed, [float(x) for x in np.where(known, 2.0 * stdtr(max(len(terms) - 1, 1), t), 1.0)]


def class_rows_metric(classes: int, bins: int, power: float) -> Reduced:
    """The accumulator of the class-wise error of whole predictions."""
    return Reduced(("class_rows", bins), ClassRows(classes, bins), lambda state, s: error_of_rows(state, s, power))


def cells_of(p: np.ndarray, bins: int) -> np.ndarray:
    """The cell (N, C) of each probability: its class and its bin."""
    place = equal_width(np.ascontiguousarray(p).ravel(), bins).reshape(p.shape)
    return place + bins * np.arange(p.shape[1])


def redrawn_gaps(p: np.ndarray, w: np.ndarray | None, bins: int, replicates: int, seed: int) -> np.ndarray:
    """Signed gaps (R, C·bins), each weighted by its cell's share, of labels drawn from p (N, C)."""
    cell = cells_of(p, bins)
    size, n = p.shape[1] * bins, len(p)
    weight = np.ones(n) if w is None else w
    expected = np.bincount(cell.ravel(), (p * weight[:, None]).ravel(), size)
    labels = redrawn_labels(p, replicates, seed)
    out = np.empty((replicates, size))
    rows, step = np.arange(n), max(1, AT_A_TIME // max(n, 1))
    for first in range(0, replicates, step):
        part = labels[first : first + step]
        at = cell[rows, part] + size * np.arange(len(part))[:, None]
        drawn = np.bincount(at.ravel(), np.broadcast_to(weight, part.shape).ravel(), size * len(part))
        out[first : first + step] = drawn.reshape(len(part), size)
    return (out - expected) / weight.sum()


def error_of_rows(state: ClassRows, settings: Settings, power: float) -> Estimate:
    """The class-wise error with its interval, and with the p-value of redrawn labels or of the observed covariance."""
    if not state.p or state.n * state.classes > MOST_KEPT:
        return Estimate.of(np.nan, state.n)
    p, y, w, units = state.arrays()
    cell = cells_of(p, state.bins)
    size, weight = state.classes * state.bins, np.ones(len(p)) if w is None else w
    mass = float(weight.sum())
    share = np.bincount(cell.ravel(), np.repeat(weight, state.classes), size) / mass
    signed = np.bincount(cell.ravel(), (weight[:, None] * (y - p)).ravel(), size) / mass
    statistic = power_norm(share, power)
    value = float(statistic(signed))
    if not settings.intervals:
        return Estimate.of(value, state.n)
    filled = np.flatnonzero(share)
    signed, share, statistic = signed[filled], share[filled], power_norm(share[filled], power)
    terms = _sparse(cell, weight[:, None] * (y - p), size)[:, filled]
    mean_p = np.bincount(cell.ravel(), (weight[:, None] * p).ravel(), size)[filled] / mass / share
    null: dict[str, float] = {}
    holds, degrees = None, np.inf
    blocks, sizes, masses = (
        terms,
        _sparse(cell, np.repeat(weight[:, None], state.classes, axis=1), size)[:, filled],
        weight,
    )
    if units is not None:
        _, place = np.unique(units, return_inverse=True)
        degrees = float(place.max())
        group = _sparse(place[:, None], np.ones((len(place), 1)), int(place.max()) + 1).T
        blocks, sizes, masses = group @ terms, group @ sizes, np.bincount(place, weight)
    covariance = _covariance(blocks, masses, signed) * (len(masses) / max(len(masses) - 1, 1))
    covariance = _stabilised(covariance, sizes, mean_p)
    if units is None and not state.soft:
        null = null_facts(statistic, _null_gaps(p, w, cell, filled, state, settings), share, value, settings)
        holds = value <= null["null_high"]
    covariance /= mass**2
    if holds is None and float((weight[:, None] * (y - p) ** 2).sum()) > NO_SPREAD * mass and degrees > 0:
        null = robust_facts(statistic, covariance, share, value, settings, degrees)
    bin_of = filled % state.bins
    gap = np.bincount(bin_of, signed, state.bins) / np.maximum(np.bincount(bin_of, share, state.bins), 1e-300)
    interval = union_of_inversions(
        signed, share, np.diag(covariance), statistic, level=settings.level, draws=settings.resamples,
        seed=settings.seed, null_holds=holds, also=(share * gap[bin_of], share),
        noise=robust_noise(covariance, settings, degrees),
    )  # fmt: skip
    return Estimate.of(value, state.n, interval, settings, (0.0, 2.0), **null)


def _sparse(column: np.ndarray, values: np.ndarray, size: int) -> Any:
    """A sparse matrix (N, size) with these values in these columns of each row."""
    from scipy.sparse import csr_matrix

    rows, each = column.shape
    return csr_matrix((values.ravel(), column.ravel(), np.arange(0, rows * each + 1, each)), shape=(rows, size))


def _covariance(terms: Any, mass: np.ndarray, signed: np.ndarray) -> np.ndarray:
    """Σ (t − m·signed)(t − m·signed)ᵀ over the rows t of sparse terms with masses m."""
    cross = np.outer(terms.T @ mass, signed)
    return (terms.T @ terms).toarray() - cross - cross.T + float((mass**2).sum()) * np.outer(signed, signed)


def _stabilised(covariance: np.ndarray, sizes: Any, mean_p: np.ndarray) -> np.ndarray:
    """With two pseudo-rows (or units) at the model's probability in each cell, as large as those of the cell.

    sizes: a sparse matrix (N, K) of the mass that each row or unit has in each cell.
    """
    total = np.asarray(sizes.sum(axis=0)).ravel()
    squares = np.asarray(sizes.multiply(sizes).sum(axis=0)).ravel()
    steady = SHRINKAGE_ROWS * np.clip(mean_p * (1.0 - mean_p), 0.0, None) * (squares / total) ** 2
    number = total**2 / squares
    scale = np.sqrt(number / (number + SHRINKAGE_ROWS))
    return (covariance + np.diag(steady)) * np.outer(scale, scale)


def _null_gaps(
    p: np.ndarray, w: np.ndarray | None, cell: np.ndarray, filled: np.ndarray, state: ClassRows, settings: Settings
) -> np.ndarray:
    """Signed gaps (R, K) of redrawn labels; of many rows, normal with their covariance."""
    weight = np.ones(len(p)) if w is None else w
    if p.size <= MOST_REDRAWN:
        return redrawn_gaps(p, w, state.bins, settings.resamples, settings.seed)[:, filled]
    terms = _sparse(cell, weight[:, None] * p, state.classes * state.bins)[:, filled]
    diagonal = np.bincount(cell.ravel(), ((weight**2)[:, None] * p).ravel(), state.classes * state.bins)[filled]
    covariance = (np.diag(diagonal) - (terms.T @ terms).toarray()) / float(weight.sum()) ** 2
    replicates = replicates_for(len(filled), settings.resamples)
    return correlated(normals(settings.seed, CELLS, replicates, len(filled)), covariance)
