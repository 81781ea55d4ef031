"""Replicates of regression: outcomes redrawn row by row, counted between levels and summed in whole units."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from calibrant.kernels.loops.regression import level_quantiles as quantile_loops
from calibrant.kernels.loops.replicates import regression as loops
from calibrant.kernels.philox import key_of
from calibrant.kernels.regression import gaussian_scores, mixture_quantiles
from calibrant.kernels.replicates.tables import Tables, add_rows
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


def empty_tables(redraw: Redraw, cells: int) -> Tables:
    """Tables of what is kept."""
    bins = len(redraw.levels) + 1 if len(redraw.levels) else 0
    sums = len(SUMS) if redraw.scales.any() else 0
    return Tables(cells, len(redraw.numbers), bins=bins, sums=sums, extremes=redraw.extremes)


def redraw_gaussians(redraw: Redraw, rows: Drawn, tables: Tables) -> np.ndarray:
    """Add the rows to the tables; returns what of their observed sums (n, 6) lies beyond the bounds."""
    over = np.zeros((len(rows.cells), len(SUMS)))
    step = max(4, BLOCK // (len(redraw.levels) + len(rows.mean)) // 4 * 4)

    def add(chosen: np.ndarray, part: Tables) -> None:
        mean, std = (np.ascontiguousarray(x[:, chosen], np.float64) for x in (rows.mean, rows.std))
        edges, median = _edges(redraw, mean, std)
        facts = np.zeros((len(chosen), 3))  # mean, median and CRPS at the mean; those that are not wanted are 0
        if redraw.scales.any():
            facts[:, 0] = mean_and_variance(mean)[0]
        if median is not None:
            facts[:, 1] = median
        if redraw.scales[loops.CRPS]:
            facts[:, 2] = gaussian_scores(facts[:, 0], mean, std, nll=False, pit=False, threads=1)["crps"]
        beyond = np.zeros((len(chosen), len(SUMS)))
        loops.gaussian_rows(
            *key_of(redraw.seed), np.uint32(redraw.purpose), np.int64(rows.first), chosen, redraw.numbers,
            redraw.segments, np.ascontiguousarray(mean.T), np.ascontiguousarray(std.T), rows.y[chosen], facts, edges,
            rows.ranks[chosen], rows.weights[chosen], redraw.bounds, redraw.scales, part.counts[0], part.sums[0],
            part.extremes[0], beyond,
        )  # fmt: skip
        over[chosen] = beyond

    add_rows(tables, rows.cells, step, add, redraw.threads)
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
    _snap_to_gaps(edges, redraw, mean, std)
    closed = np.flatnonzero(redraw.closed)
    edges[:, closed] = np.nextafter(edges[:, closed], np.inf)
    return np.maximum.accumulate(edges, axis=1), median


def _snap_to_gaps(edges: np.ndarray, redraw: Redraw, mean: np.ndarray, std: np.ndarray) -> None:
    """Where F is k/M all over the gap between k members and the others, that level is at an end of the gap.

    An outcome there is not below the level, and not above it: F < p has the lower end as its edge, F ≤ p the upper.
    """
    low, high = mean - SURE * std, mean + SURE * std
    apart = np.flatnonzero(low.max(axis=0) > high.min(axis=0))
    below = redraw.levels * len(mean)
    whole = np.flatnonzero((np.abs(below - np.rint(below)) < 1e-9) & (redraw.levels < 1))
    if not len(apart) or not len(whole):
        return
    order = np.argsort(low[:, apart], axis=0)
    low, high = (np.take_along_axis(x[:, apart], order, axis=0) for x in (low, high))
    high = np.maximum.accumulate(high, axis=0)
    for place in whole.tolist():
        k = int(np.rint(below[place]))
        gap = high[k - 1] < low[k]
        edges[apart[gap], place] = (low[k] if redraw.closed[place] else high[k - 1])[gap]


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
