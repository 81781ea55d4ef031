"""Bins, and sums of pairs (p, y) over bins, from which gaps, their variance and that of dependent rows are computed.

Bins of equal width are ((b − 1)/B, b/B], 0 in the first; bins of equal mass are cut between distinct values. Bin b has
n_b rows, mean prediction p̄_b and mean outcome ȳ_b; its gap is ȳ_b − p̄_b. Norms of the gaps, the ECE (Naeini, Cooper &
Hauskrecht 2015) among them, are in `calibration.norms`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant.kernels.exact import BLOCK, GroupSums, carry, floats
from calibrant.kernels.jit import over_rows
from calibrant.kernels.loops.optional_columns import width_bins
from calibrant.kernels.loops.sums import MOST_BINS, TERMS, bin_limbs, width_sums


def equal_width(p: np.ndarray, bins: int) -> np.ndarray:
    """The bin of each p, counted from 0: clip(ceil(p·B) − 1, 0, B − 1)."""
    out = np.empty(len(p), np.int64)
    width_bins(np.ascontiguousarray(p, np.float64), bins, out)
    return out


def equal_mass_edges(p: np.ndarray, bins: int, weights: np.ndarray | None = None) -> np.ndarray:
    """Inner edges: midpoints of neighbouring distinct values nearest to the equal split, so that ties stay together."""
    w = np.ones(len(p)) if weights is None else weights
    order = np.lexsort((w, p))  # sums then do not depend on the order of rows
    values, inverse = np.unique(p[order], return_inverse=True)
    return edges_after(values, mass_cuts(np.bincount(inverse, w[order]), bins))


def mass_cuts(mass: np.ndarray, bins: int) -> np.ndarray:
    """The distinct values after which a bin ends, by their place; mass (K,) is the weight of each in rising order."""
    below = mass.cumsum()  # weight under the gap after each distinct value
    total, below = below[-1], below[:-1]
    if below.size == 0:
        return np.empty(0, np.int64)
    targets = total * np.arange(1, bins) / bins
    right = np.clip(np.searchsorted(below, targets), 0, below.size - 1)
    left = np.maximum(right - 1, 0)
    return np.unique(np.where(np.abs(below[left] - targets) <= np.abs(below[right] - targets), left, right))


def edges_after(values: np.ndarray, cuts: np.ndarray) -> np.ndarray:
    """The midpoint of each of these values and the next."""
    under, over = values[cuts], values[cuts + 1]
    middle = (under + over) / 2
    return np.where(middle < over, middle, under)  # the midpoint of neighbouring floats may be the upper of them


def assign(p: np.ndarray, bins: int, binning: str, weights: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The bin of each p and the edges of all bins."""
    if binning == "width":
        return equal_width(p, bins), np.arange(bins + 1) / bins
    edges = equal_mass_edges(p, bins, weights)
    return np.searchsorted(edges, p, side="left").astype(np.int64), np.concatenate([[0.0], edges, [1.0]])


SHRINKAGE_ROWS = 2.0
"""Pseudo-rows at the model's own probability that stabilise the variance of a bin."""
LEAST_LEFT = 2.0**-52
"""The smallest share of a bin that is left to others by a unit that has nearly all of it."""


class BinSums:
    """Order-independent sums of each bin: weight, p, y, and (with `spread`) the squares that the variance needs."""

    def __init__(self, bins: int, spread: bool = True) -> None:
        """Start without rows."""
        self.limbs = np.zeros((bins, TERMS, 2), np.int64)
        self.rows = np.zeros(bins, np.int64)
        self.spread = spread
        self.weighted = False

    def add(self, p: np.ndarray, y: np.ndarray, weights: np.ndarray | None, bins: np.ndarray) -> None:
        """Add rows with known bins."""
        w = np.empty(0) if weights is None else weights
        self.weighted |= weights is not None
        for start in range(0, len(p), BLOCK):
            part = slice(start, start + BLOCK)
            bin_limbs(p[part], y[part], w[part], bins[part], self.limbs, self.rows, self.spread)
            carry(self.limbs)

    def add_width(
        self, p: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None, threads: int | None = None
    ) -> None:
        """Add rows to bins of equal width in one pass; bitwise the same as `add`.

        The fast path is for integer or boolean y of 0 and 1, without weights and spread; p may be float32.
        """
        bins = len(self.rows)
        if weights is not None or self.spread or y.dtype.kind not in "biu" or bins > MOST_BINS:
            p = np.ascontiguousarray(p, np.float64)
            self.add(p, np.asarray(y, np.float64), weights, equal_width(p, bins))
            return
        y = np.ascontiguousarray(y.view(np.uint8) if y.dtype == bool else y)
        blocks: list[np.ndarray] = []

        def work(a: int, b: int) -> None:
            for first in range(a, b, 1 << 22):  # integers of 2⁻⁴⁰ would overflow beyond
                sums = np.zeros((2 * bins, 3), np.int64)  # blocks[-1] may be another thread's
                blocks.append(sums)
                width_sums(p, y, bins, sums, first, min(b, first + (1 << 22)))

        over_rows(work, len(p), len(p), threads)
        for sums in blocks:
            rows, high, low = sums.reshape(bins, 2, 3).transpose(2, 1, 0)
            self.rows += rows.sum(axis=0)
            self.limbs[:, 1, 0] += (high >> 20).sum(axis=0)
            self.limbs[:, 1, 1] += (((high & 0xFFFFF) << 20) + low).sum(axis=0)
            self.limbs[:, 2, 0] += rows[1] << 20
            carry(self.limbs)

    def merge(self, other: BinSums) -> None:
        """Add the rows of another set of sums over the same bins."""
        self.limbs = self.limbs + other.limbs
        self.rows = self.rows + other.rows
        self.weighted |= other.weighted
        carry(self.limbs)

    def folded(self, by: int) -> BinSums:
        """The sums over wider bins, each of `by` neighbouring bins."""
        out = BinSums(len(self.rows) // by, self.spread)
        out.limbs = self.limbs.reshape(-1, by, TERMS, 2).sum(axis=1)
        out.rows, out.weighted = self.rows.reshape(-1, by).sum(axis=1), self.weighted
        carry(out.limbs)
        return out

    def table(self) -> BinTable:
        """The sums as arrays over bins."""
        totals = np.ascontiguousarray(floats(self.limbs).T)
        if not self.weighted:
            totals[0] = totals[3] = self.rows
        return BinTable(self.rows, *totals)


@dataclass(frozen=True)
class BinTable:
    """Sums per bin as arrays (B,); Σw, Σwp, Σwy, Σw², Σw²d, Σw²d² with d = y − p."""

    rows: np.ndarray
    w: np.ndarray
    wp: np.ndarray
    wy: np.ndarray
    ww: np.ndarray
    wwd: np.ndarray
    wwdd: np.ndarray

    @property
    def share(self) -> np.ndarray:
        """Weight of each bin, n_b/N where every row counts once."""
        return self.w / self.w.sum()

    @property
    def signed(self) -> np.ndarray:
        """n_b/N·(ȳ_b − p̄_b): the gap of each bin times its share."""
        return (self.wy - self.wp) / self.w.sum()

    def variance(self) -> np.ndarray:
        """Variance of `signed` for independent rows, stabilised by two pseudo-rows at the model's probability."""
        filled = np.where(self.w > 0, self.w, 1.0)
        gap = (self.wy - self.wp) / filled
        mean_p = self.wp / filled
        squares = self.wwdd - 2.0 * gap * self.wwd + gap**2 * self.ww
        steady = SHRINKAGE_ROWS * np.clip(mean_p * (1.0 - mean_p), 0.0, None)
        scale = self.rows / (self.rows + SHRINKAGE_ROWS)
        mean_square = self.ww / np.where(self.rows > 0, self.rows, 1)
        return np.where(self.w > 0, (squares + steady * mean_square) * scale, 0.0) / self.w.sum() ** 2


class UnitSums:
    """Sums of each unit in each bin: Σ w(y − p) and Σ w, for the covariance of gaps between dependent rows."""

    def __init__(self, bins: int) -> None:
        """Start without rows."""
        self.bins = bins
        self.gaps, self.weights = GroupSums(), GroupSums()

    def add(self, p: np.ndarray, y: np.ndarray, w: np.ndarray | None, bins: np.ndarray, units: np.ndarray) -> None:
        """Add rows."""
        place = units * self.bins + bins
        self.gaps.add(y - p if w is None else (y - p) * w, place)
        self.weights.add(np.ones(len(p)) if w is None else w, place)

    def merge(self, other: UnitSums) -> None:
        """Merge another of the same kind."""
        self.gaps.merge(other.gaps)
        self.weights.merge(other.weights)

    def _tables(self) -> tuple[np.ndarray, np.ndarray]:
        """Both sums (U, B) of the units that have rows."""
        units = -(-max(self.gaps.groups, self.weights.groups) // self.bins)
        values = [sums.values() for sums in (self.gaps, self.weights)]
        padded = (np.append(x, np.zeros(units * self.bins - len(x))) for x in values)
        gaps, weights = (x.reshape(units, self.bins) for x in padded)
        filled = weights.any(axis=1)
        return gaps[filled], weights[filled]

    def units(self) -> int:
        """The number of units."""
        return len(self._tables()[0])

    def covariance(self, table: BinTable) -> np.ndarray:
        """Covariance (B, B) of the signed gaps when whole units are drawn, stabilised by two pseudo-units a bin.

        A unit with a share h of a bin draws its gap to itself, so its residual is divided by √(1 − h) (Bell & McCaffrey
        2002). Pseudo-units count as one of the effective number of units in the bin.
        """
        gaps, weights = self._tables()
        filled = np.where(table.w > 0, table.w, 1.0)
        gap, mean_p = (table.wy - table.wp) / filled, table.wp / filled
        residual = (gaps - gap * weights) / np.sqrt(np.maximum(1.0 - weights / filled, LEAST_LEFT))
        typical = (weights**2).sum(axis=0) / filled
        steady = SHRINKAGE_ROWS * np.clip(mean_p * (1 - mean_p), 0.0, None) * typical**2
        covariance = np.einsum("ub,uc->bc", residual, residual) + np.diag(steady)
        return covariance / table.w.sum() ** 2
