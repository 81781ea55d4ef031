"""Consistency resampling (Bröcker & Smith 2007): the gaps of bins when labels are redrawn from the predictions.

Up to `NORMAL_ABOVE` rows, every row is redrawn. Above, the sum of a well-filled bin is drawn from its normal limit; in
a thin bin, nearly certain rows are drawn together, as a Poisson number with their mean and variance, and only the
others one by one. Memory is then bounded for any number of rows.
"""

from __future__ import annotations

import numpy as np

from calibrant.calibration.binning import BinTable
from calibrant.kernels.exact import GroupSums
from calibrant.kernels.philox import normals, uniform_table
from calibrant.kernels.resampling import CONSISTENCY, RARE, redraw_bins

NORMAL_ABOVE = 1 << 18
THIN = 25.0
"""Σ p(1 − p) of a bin below which it is thin."""
CERTAIN = 2.0**-10
"""Distance of p from 0 or 1 below which a row is nearly certain."""


class ConsistencyRows:
    """Rows to be redrawn one by one, and sums of the others; order and blocks do not matter."""

    def __init__(self, bins: int) -> None:
        """Start without rows."""
        self.bins, self.n = bins, 0
        self.kept: list[tuple[np.ndarray, np.ndarray, np.ndarray | None]] = []
        self.variance, self.weighted_variance = GroupSums(), GroupSums()
        self.rare_mean, self.rare_variance = GroupSums(), GroupSums()
        """Of nearly certain rows, by 2·bin + (1 where p is near 1): Σ wq and Σ w²q, q = min(p, 1 − p)."""

    def add(self, p: np.ndarray, w: np.ndarray | None, bins: np.ndarray) -> None:
        """Add rows."""
        self.n += len(p)
        square = p * (1.0 - p)
        self.variance.add(square, bins)
        self.weighted_variance.add(square if w is None else square * w * w, bins)
        rare = _is_certain(p)
        if rare.any():
            side = 2 * bins[rare] + (p[rare] > 0.5)
            q = np.minimum(p[rare], 1.0 - p[rare])
            self.rare_mean.add(q if w is None else q * w[rare], side)
            self.rare_variance.add(q if w is None else q * w[rare] ** 2, side)
        self.kept.append((np.array(p), bins.astype(np.int32), w))  # a view would keep all of its record alive
        self._drop_rows()

    def merge(self, other: ConsistencyRows) -> None:
        """Merge another of the same kind."""
        self.n += other.n
        self.kept += other.kept
        for name in ("variance", "weighted_variance", "rare_mean", "rare_variance"):
            getattr(self, name).merge(getattr(other, name))
        self._drop_rows()

    def _drop_rows(self) -> None:
        """Above `NORMAL_ABOVE` rows, drop those that need not be redrawn one by one."""
        if self.n <= NORMAL_ABOVE:
            return
        thin = _of_bins(self.variance, self.bins) < THIN
        kept = []
        for p, bins, w in self.kept:
            keep = thin[bins] & ~_is_certain(p)
            if keep.any():
                kept.append((p[keep], bins[keep], None if w is None else w[keep]))
        self.kept = kept

    def gaps(self, table: BinTable, replicates: int, seed: int, threads: int | None) -> np.ndarray:
        """Signed gaps (replicates, B), each weighted by its bin's share, when row i hits with probability p[i]."""
        mass = table.w.sum()
        one_by_one = np.zeros((replicates, self.bins))  # Σ w(hit − p) of each bin over the rows that were kept
        if self.kept:
            p, bins = (np.concatenate([item[k] for item in self.kept]) for k in (0, 1))
            weights = [w for _, _, w in self.kept if w is not None]
            w = np.concatenate(weights) if weights else None
            order = np.argsort(p) if w is None else np.lexsort((w, p))
            p, bins, w = p[order], bins[order], None if w is None else w[order]
            hits = redraw_bins(p, bins, self.bins, w, replicates=replicates, seed=seed, threads=threads)
            one_by_one = hits - np.bincount(bins, p if w is None else p * w, self.bins)
        if self.n <= NORMAL_ABOVE:
            return one_by_one / mass
        drawn = normals(seed, CONSISTENCY, replicates, self.bins)
        normal = drawn * np.sqrt(_of_bins(self.weighted_variance, self.bins))
        thin = _of_bins(self.variance, self.bins) < THIN
        # nearly certain rows of thin bins: a scaled Poisson number minus its mean
        mean, variance = (_of_bins(sums, 2 * self.bins) for sums in (self.rare_mean, self.rare_variance))
        rare = np.zeros((replicates, self.bins))
        words = uniform_table(seed, RARE, replicates, 2 * self.bins)
        for side in np.flatnonzero((mean > 0) & np.repeat(thin, 2)).tolist():
            size = variance[side] / mean[side]
            number = _poisson(words[:, side], mean[side] / size)
            rare[:, side // 2] += (-1.0 if side % 2 else 1.0) * (size * number - mean[side])
        return np.where(thin, one_by_one + rare, normal) / mass


def _is_certain(p: np.ndarray) -> np.ndarray:
    return np.minimum(p, 1.0 - p) < CERTAIN


def _of_bins(sums: GroupSums, bins: int) -> np.ndarray:
    out = np.zeros(bins)
    out[: sums.groups] = sums.values()
    return out


def _poisson(u: np.ndarray, mean: float) -> np.ndarray:
    """Poisson numbers of a mean below a hundred or so, by the inverse of their distribution function."""
    most = int(mean + 12.0 * np.sqrt(mean) + 40.0)
    k = np.arange(1, most)
    cdf = np.cumsum(np.exp(-mean) * np.append(1.0, np.cumprod(mean / k)))
    return np.searchsorted(cdf, u, side="right").astype(np.float64)
