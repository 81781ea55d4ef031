"""Replicates of regression: outcomes redrawn row by row, counted between levels and summed in whole units."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from threading import Lock

import numpy as np
from scipy.special import ndtri

from calibrant.kernels.jit import over_rows
from calibrant.kernels.loops import level_quantiles as quantile_loops
from calibrant.kernels.loops import regression_replicates as loops
from calibrant.kernels.philox import key_of
from calibrant.kernels.regression import gaussian_scores, mixture_quantiles
from calibrant.predictions.regression import mean_and_variance

SUMS = {
    "mean": loops.MEAN,
    "mse": loops.MSE,
    "nll": loops.NLL,
    "crps": loops.CRPS,
    "mae": loops.MAE,
    "mae of mean": loops.MAE_MEAN,
}
"""What is summed over rows: y − mean, its square, scores, and the distances from the median and from the mean."""

BLOCK = 1 << 17
"""Numbers of a block of rows: those of members, or their quantiles."""

SURE = 8.292361075813595
"""−Φ⁻¹(2⁻⁵⁴): from here on Φ is 1 in float64, and so is not below the level 1."""

FEW = 8
"""Levels that are not worth a look at the whole distribution."""

PER_DRAW = 8
"""How much longer a draw takes than an element of the one pass, for which `over_rows` is tuned."""


@dataclass(frozen=True)
class Redraw:
    """What is drawn, and what is kept of it."""

    seed: int
    purpose: int
    numbers: np.ndarray
    """The replicates, those of a member side by side."""
    segments: np.ndarray
    """Where those of each member begin, and the last end; only two numbers where every row draws a member."""
    levels: np.ndarray
    closed: np.ndarray
    """Rising levels (E,) that outcomes are counted between, and whether an outcome at the quantile is below it."""
    scales: np.ndarray
    bounds: np.ndarray
    """Of each of SUMS the units in 1, 0 where it is not wanted, and the most that a replicate can have."""
    extremes: bool
    threads: int | None = None


class Tables:
    """What was drawn in each cell: counts between levels, sums in whole units, extremes. The observed comes last."""

    def __init__(self, cells: int, redraw: Redraw) -> None:
        """Nothing drawn yet."""
        width = len(redraw.numbers) + 1
        edges = len(redraw.levels)
        self.counts = np.zeros((cells, width if edges else 0, edges + 1), np.int64)
        self.sums = np.zeros((cells, len(SUMS), width if redraw.scales.any() else 0), np.int64)
        self.extremes = np.empty((cells, 2, width if redraw.extremes else 0))
        self.extremes[:, 0], self.extremes[:, 1] = np.inf, -np.inf

    def add(self, cell: int, other: Tables) -> None:
        """Take in the only cell of another."""
        self.counts[cell] += other.counts[0]
        self.sums[cell] += other.sums[0]
        np.minimum(self.extremes[cell, 0], other.extremes[0, 0], out=self.extremes[cell, 0])
        np.maximum(self.extremes[cell, 1], other.extremes[0, 1], out=self.extremes[cell, 1])


@dataclass(frozen=True)
class Drawn:
    """Rows of Gaussians that are redrawn: mean and std (M, n), y, weights, weights in whole units, and cells (n,)."""

    mean: np.ndarray
    std: np.ndarray
    y: np.ndarray
    weights: np.ndarray
    ranks: np.ndarray
    cells: np.ndarray
    first: int


def redraw_gaussians(redraw: Redraw, rows: Drawn, tables: Tables) -> np.ndarray:
    """Add the rows to the tables; returns what of their observed sums (n, 6) lies beyond the bounds.

    Rows of a cell go together, so that one table at a time is written to; threads have tables of their own.
    """
    order = np.argsort(rows.cells, kind="stable")
    over, lock, n = np.zeros((len(order), len(SUMS))), Lock(), len(order)

    def work(start: int, stop: int) -> None:
        for cell, a, b in _runs(rows.cells[order], start, stop):
            part = Tables(1, redraw)
            for at in range(a, b, _step(redraw, rows)):
                chosen = order[at : min(at + _step(redraw, rows), b)]
                over[chosen] = _add(redraw, rows, chosen, part)
            with lock:
                tables.add(cell, part)

    over_rows(work, n, n * len(redraw.numbers) * PER_DRAW, redraw.threads)
    return over


def _step(redraw: Redraw, rows: Drawn) -> int:
    return max(4, BLOCK // (len(redraw.levels) + len(rows.mean)) // 4 * 4)


def _runs(cells: np.ndarray, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """Cells and where their rows begin and end, of sorted cells."""
    edges = [start, *(start + 1 + np.flatnonzero(np.diff(cells[start:stop]))).tolist(), stop]
    return ((int(cells[a]), a, b) for a, b in itertools.pairwise(edges))


def _add(redraw: Redraw, rows: Drawn, chosen: np.ndarray, part: Tables) -> np.ndarray:
    mean, std = (np.ascontiguousarray(x[:, chosen], np.float64) for x in (rows.mean, rows.std))
    edges, median = _edges(redraw, mean, std)
    facts = _facts(redraw, mean, std, median)
    over = np.zeros((len(chosen), len(SUMS)))
    loops.gaussian_rows(
        *key_of(redraw.seed), np.uint32(redraw.purpose), np.int64(rows.first), chosen, redraw.numbers, redraw.segments,
        np.ascontiguousarray(mean.T), np.ascontiguousarray(std.T), rows.y[chosen], facts, edges, rows.ranks[chosen],
        rows.weights[chosen], redraw.bounds, redraw.scales, part.counts[0], part.sums[0], part.extremes[0], over,
    )  # fmt: skip
    return over


def _edges(redraw: Redraw, mean: np.ndarray, std: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """The quantiles (n, E + 1) that outcomes are counted between, with +∞ behind, and the median where it is wanted."""
    wants_median = redraw.scales[loops.MAE] > 0
    inner = redraw.levels[redraw.levels < 1]
    if not len(redraw.levels) and not wants_median:
        return np.empty((mean.shape[1], 0)), None
    found = level_quantiles(mean, std, inner)
    median = mixture_quantiles(mean, std, np.array([0.5]), 1)[0] if wants_median else None
    if not len(redraw.levels):
        return np.empty((mean.shape[1], 0)), median
    edges = np.full((mean.shape[1], len(redraw.levels) + 1), np.inf)
    edges[:, : len(inner)] = found
    edges[:, len(inner) : -1] = (mean + SURE * std).max(axis=0)[:, None]
    edges[:, :-1] = np.where(redraw.closed, np.nextafter(edges[:, :-1], np.inf), edges[:, :-1])
    return np.maximum.accumulate(edges, axis=1), median


def level_quantiles(mean: np.ndarray, std: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Quantiles (n, L) at rising levels of mixtures (M, n), to 1e-9 of the smallest σ: F is right to 1e-12.

    Many levels of a row are found together, which takes a quarter of the time of one after the other.
    """
    if len(mean) == 1 or len(levels) < FEW:
        return mixture_quantiles(mean, std, levels, 1).T
    found, done = np.empty((mean.shape[1], len(levels))), np.empty(mean.shape[1], np.bool_)
    quantile_loops.level_quantiles(
        np.ascontiguousarray(mean.T), np.ascontiguousarray(std.T), levels, ndtri(levels), found, done
    )
    if not done.all():
        found[~done] = mixture_quantiles(mean[:, ~done], std[:, ~done], levels, 1).T
    return found


def _facts(redraw: Redraw, mean: np.ndarray, std: np.ndarray, median: np.ndarray | None) -> np.ndarray:
    """Mean, median and CRPS at the mean (n, 3); those that are not wanted are 0."""
    facts = np.zeros((mean.shape[1], 3))
    if redraw.scales.any():
        facts[:, 0] = mean_and_variance(mean)[0]
    if median is not None:
        facts[:, 1] = median
    if redraw.scales[loops.CRPS]:
        facts[:, 2] = gaussian_scores(facts[:, 0], mean, std, nll=False, pit=False, threads=1)["crps"]
    return facts


# --------------------------------------------------------------------------------------- single draws
def normal_quantiles(words: np.ndarray) -> np.ndarray:
    """Φ⁻¹((word + ½)/2³²), as replicates have it."""
    z = np.empty(words.shape)
    loops.normal_quantiles(words.ravel(), z.reshape(-1))
    return z


def choice_words(seed: int, purpose: int, replicate: int, n: int, start: int = 0) -> np.ndarray:
    """The words by which rows start … start + n of a replicate choose their members."""
    first, last = start // 4, (start + n + 3) // 4
    out = np.empty((last - first, 4), np.uint32)
    loops.choice_words(*key_of(seed), np.uint32(purpose), np.uint32(replicate), np.int64(first), out)
    return out.reshape(-1)[start - 4 * first : start - 4 * first + n]
