"""The squared kernel calibration error: all pairs of rows, its estimators, its test and its interval.

SKCE = E[h(Z, Z')] over two independent rows; h is degenerate at a calibrated model, where E[h(Z, z')] = 0 for every z'.
The test redraws outcomes from the predictions, which holds its level at any n; a normal limit exists for blocks only.
The interval is the jackknife's, which is right away from calibration and too wide near it (its error tends to √2 of
the right one: Efron & Stein 1981, Annals of Statistics 9: 586-596, show that it is never too small on average).

References: Widmann, Lindsten & Zachariah (2019), NeurIPS 32: 12257-12267, for classification; (2021), ICLR 9, beyond.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, replace

import numpy as np

from calibrant.intervals import NONE, Interval, normal_quantile, t_quantile
from calibrant.kernels import kernel_pairs as pairwise
from calibrant.kernels.kernel_pairs import PairSums
from calibrant.kernels.philox import uniforms, words
from calibrant.kernels.resampling import BLOCKS, SKCE

FEWEST_DRAWS = 100
MOST_DRAWN = 1 << 21
"""Outcomes per batch."""
NOISE = 1e-15
"""A mean of h up to this is rounding, or from pairs too far apart to matter."""


@dataclass(frozen=True)
class Redrawn:
    """Σ_{i<j} h and Σ_i h(i, i) under each redrawn set of outcomes."""

    totals: np.ndarray
    diagonals: np.ndarray


class _Rows:
    """Rows whose pairs are summed."""

    y: np.ndarray
    pair_draws: float
    """Budget: pairs times replicates."""

    @property
    def n(self) -> int:
        """The number of rows."""
        return len(self.y)

    def replicates(self, requested: int) -> int:
        """The number of replicates: as requested, or fewer if there are many pairs."""
        return int(min(requested, max(FEWEST_DRAWS, self.pair_draws / self.n**2)))

    def _edges(self, size: int) -> np.ndarray:
        return np.arange(self.n // size + 1, dtype=np.int64) * size

    def _order(self, seed: int) -> np.ndarray:
        return np.argsort(words(seed, BLOCKS, 0, self.n), kind="stable")


@dataclass(frozen=True)
class ClassPairs(_Rows):
    """h = exp(−‖p − p'‖₂/ν)·⟨e_y − p, e_y' − p'⟩."""

    p: np.ndarray
    y: np.ndarray
    width: float
    threads: int | None = None

    pair_draws = 1e11

    @property
    def key(self) -> Hashable:
        """Identifies the kernel."""
        return self.width

    def sums(self) -> PairSums:
        """Σ of h over all pairs."""
        return pairwise.skce_sums(self.p, self.y, self.width, self.threads)

    def redrawn(self, replicates: int, seed: int) -> Redrawn:
        """The sums when labels are drawn from the predictions; h(i, i) = 1 − 2p_y + Σp²."""
        labels = pairwise.redrawn_labels(self.p, replicates, seed, SKCE, self.threads)
        totals = pairwise.skce_redrawn(self.p, labels, self.width, self.threads)
        of_label = 1.0 - 2.0 * self.p + np.sum(self.p * self.p, axis=1, keepdims=True)
        rows = np.arange(self.n)
        return Redrawn(totals, np.array([of_label[rows, drawn].sum() for drawn in labels]))

    def shuffled(self, seed: int) -> ClassPairs:
        """The same rows in a random order."""
        order = self._order(seed)
        return replace(self, p=np.ascontiguousarray(self.p[order]), y=self.y[order])

    def blocks(self, size: int) -> np.ndarray:
        """Mean of h over the pairs of each block of `size` rows; the remaining rows are ignored."""
        return pairwise.skce_blocks(self.p, self.y, self.width, self._edges(size), self.threads)


def median_width(p: np.ndarray, threads: int | None = None) -> float:
    """The median distance of two predictions; one where half of them are equal."""
    return pairwise.median_distance(p, threads) or 1.0


@dataclass(frozen=True)
class GaussianPairs(_Rows):
    """h of Gaussian predictions, in units of the kernel."""

    mean: np.ndarray
    std: np.ndarray
    y: np.ndarray
    unit: float = 1.0
    threads: int | None = None

    pair_draws = 4e9

    @classmethod
    def scaled(
        cls, mean: np.ndarray, std: np.ndarray, y: np.ndarray, scale: float, threads: int | None
    ) -> GaussianPairs:
        """With y, means and standard deviations divided by the scale; 0: the standard deviation of y."""
        unit = scale or float(np.std(y)) or 1.0
        return cls(mean / unit, std / unit, y / unit, unit, threads)

    @property
    def key(self) -> Hashable:
        """Identifies the kernel."""
        return self.unit

    def sums(self) -> PairSums:
        """Σ of h over all pairs."""
        return pairwise.gaussian_skce_sums(self.mean, self.std, self.y, self.threads)

    def redrawn(self, replicates: int, seed: int) -> Redrawn:
        """The sums when outcomes are drawn from the predictions."""
        from scipy.special import ndtri

        step = max(1, MOST_DRAWN // self.n)
        totals: list[np.ndarray] = []
        diagonals: list[float] = []
        for first in range(0, replicates, step):
            drawn = np.empty((min(step, replicates - first), self.n))
            for row, replicate in enumerate(range(first, first + len(drawn))):
                drawn[row] = self.mean + self.std * ndtri(uniforms(seed, SKCE, replicate, self.n))
            totals.append(pairwise.gaussian_skce_redrawn(self.mean, self.std, drawn, self.threads))
            diagonals += [pairwise.gaussian_diagonal(self.mean, self.std, y).sum() for y in drawn]
        return Redrawn(np.concatenate(totals), np.array(diagonals))

    def shuffled(self, seed: int) -> GaussianPairs:
        """The same rows in a random order."""
        order = self._order(seed)
        return replace(self, mean=self.mean[order], std=self.std[order], y=self.y[order])

    def blocks(self, size: int) -> np.ndarray:
        """Mean of h over the pairs of each block of `size` rows; the remaining rows are ignored."""
        return pairwise.gaussian_skce_blocks(self.mean, self.std, self.y, self._edges(size), self.threads)


KernelPairs = ClassPairs | GaussianPairs
"""Rows and a kernel."""


# -------------------------------------------------------------------------------- all pairs
def value(sums: PairSums, n: int, biased: bool) -> float:
    """Mean of h over pairs i < j; biased: over all i, j."""
    return (2.0 * sums.total + sums.diagonal) / n**2 if biased else sums.total / (n * (n - 1) / 2.0)


def null(drawn: Redrawn, n: int, biased: bool, observed: float, level: float) -> dict[str, float]:
    """The central band of redrawn values, and the share of them that are as large as the observed one."""
    values = (2.0 * drawn.totals + drawn.diagonals) / n**2 if biased else drawn.totals / (n * (n - 1) / 2.0)
    low, high = np.quantile(values, [0.5 - level / 2, 0.5 + level / 2])
    slack = 1e-9 * float(np.abs(values).max()) + NOISE  # replicates equal to the observed outcomes are ties
    p_value = (float((values >= observed - slack).sum()) + 1.0) / (len(values) + 1.0)
    return {"null_low": float(low), "null_high": float(high), "p_value": p_value}


def interval(sums: PairSums, n: int, level: float) -> Interval:
    """U ± z·error, error² = 4(n − 1)/(n(n − 2)²) Σ_i (h̄_i − U)², h̄_i the mean of h(i, ·); upwards from 0 if U < 0."""
    if n < 3:
        return NONE
    centre = value(sums, n, False)
    off = sums.rows / (n - 1.0) - centre
    error = math.sqrt(4.0 * (n - 1.0) / (n * (n - 2.0) ** 2) * float(np.sum(off * off)))
    half = normal_quantile(level) * error
    return Interval(centre - half, max(centre, 0.0) + half, "jackknife") if error > 0 else NONE


# ------------------------------------------------------------------------------------ blocks
def interval_of_blocks(blocks: np.ndarray, level: float) -> Interval:
    """Student's t of independent blocks."""
    error = _error(blocks)
    if not error > 0:
        return NONE
    half = t_quantile(level, len(blocks) - 1) * error
    return Interval(float(blocks.mean()) - half, max(float(blocks.mean()), 0.0) + half, "blocks")


def null_of_blocks(blocks: np.ndarray, level: float) -> dict[str, float]:
    """The band and p-value of a mean of independent blocks with mean 0, in the limit of many."""
    from scipy.special import stdtr

    error = _error(blocks)
    if not error > 0:
        return {}
    half = t_quantile(level, len(blocks) - 1) * error
    p_value = float(stdtr(len(blocks) - 1, -float(blocks.mean()) / error))
    return {"null_low": -half, "null_high": half, "p_value": p_value}


def _error(blocks: np.ndarray) -> float:
    """The standard error of their mean; NaN of fewer than two."""
    return float(blocks.std(ddof=1)) / math.sqrt(len(blocks)) if len(blocks) > 1 else math.nan
