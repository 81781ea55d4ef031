"""Sums of pairs (p, y) over bins: what errors of gaps, their variance, and that of dependent rows are worked out from.

Notation: bin b has n_b rows, mean prediction p̄_b and mean outcome ȳ_b; its gap is ȳ_b − p̄_b. Norms of the gaps, the ECE
(Naeini, Cooper & Hauskrecht 2015) among them, are in `calibration.norms`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant.calibration.binning import equal_width
from calibrant.kernels.exact import BLOCK, GroupSums, carry, floats
from calibrant.kernels.jit import over_rows
from calibrant.kernels.loops.sums import MOST_BINS, TERMS, bin_limbs, width_sums

SHRINKAGE_ROWS = 2.0
"""Pseudo-rows at the model's own probability that steady the variance of a bin."""


class BinSums:
    """Order-independent sums of each bin: weight, p, y, and (with `spread`) the squares that the variance needs."""

    def __init__(self, bins: int, spread: bool = True) -> None:
        """No rows yet."""
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
        """Add rows to bins of equal width; the same bits as with bins that are found first, but in one pass.

        The short way is for whole or boolean y of 0 and 1, without weights and spread; p may be float32.
        """
        bins = len(self.rows)
        if weights is not None or self.spread or y.dtype.kind not in "biu" or bins > MOST_BINS:
            p = np.ascontiguousarray(p, np.float64)
            self.add(p, np.asarray(y, np.float64), weights, equal_width(p, bins))
            return
        y = np.ascontiguousarray(y.view(np.uint8) if y.dtype == bool else y)
        found: list[np.ndarray] = []

        def work(a: int, b: int) -> None:
            for first in range(a, b, 1 << 22):  # integers of 2⁻⁴⁰ would overflow beyond
                sums = np.zeros((2 * bins, 3), np.int64)  # found[-1] may be another thread's
                found.append(sums)
                width_sums(p, y, bins, sums, first, min(b, first + (1 << 22)))

        over_rows(work, len(p), len(p), threads)
        for sums in found:
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
        """The sums over bins of which each is `by` neighbouring ones of these."""
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
        """Variance of `signed` for independent rows, steadied by two pseudo-rows at the model's probability."""
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
        """No rows yet."""
        self.bins = bins
        self.gaps, self.weights = GroupSums(), GroupSums()

    def add(self, p: np.ndarray, y: np.ndarray, w: np.ndarray | None, bins: np.ndarray, units: np.ndarray) -> None:
        """Take in more rows."""
        place = units * self.bins + bins
        self.gaps.add(y - p if w is None else (y - p) * w, place)
        self.weights.add(np.ones(len(p)) if w is None else w, place)

    def merge(self, other: UnitSums) -> None:
        """Take in what another has seen."""
        self.gaps.merge(other.gaps)
        self.weights.merge(other.weights)

    def _tables(self) -> tuple[np.ndarray, np.ndarray]:
        """Both sums (U, B) of the units that have rows."""
        gaps, weights = (self._table(sums) for sums in (self.gaps, self.weights))
        seen = weights.any(axis=1)
        return gaps[seen], weights[seen]

    def _table(self, sums: GroupSums) -> np.ndarray:
        values = sums.values()
        units = -(-max(self.gaps.groups, self.weights.groups) // self.bins)
        return np.append(values, np.zeros(units * self.bins - len(values))).reshape(units, self.bins)

    def units(self) -> int:
        """The number of units seen."""
        return len(self._tables()[0])

    def covariance(self, table: BinTable) -> np.ndarray:
        """Covariance (B, B) of the signed gaps when whole units are drawn, steadied by two pseudo-units a bin."""
        filled = np.where(table.w > 0, table.w, 1.0)
        gap, mean_p = (table.wy - table.wp) / filled, table.wp / filled
        gaps, weights = self._tables()
        residual, units = gaps - gap * weights, len(gaps)
        steady = SHRINKAGE_ROWS * np.clip(mean_p * (1 - mean_p), 0.0, None) * (weights**2).sum(axis=0)
        present = (weights > 0).sum(axis=0)
        covariance = np.einsum("ub,uc->bc", residual, residual) * units / max(units - 1, 1)
        covariance += np.diag(steady / np.where(present > 0, present, 1))
        return covariance / table.w.sum() ** 2
