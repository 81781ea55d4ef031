"""Replicates of samples: each value of a row is judged by the others, and added to the replicates that take it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant.kernels.loops.replicates import samples as loops
from calibrant.kernels.philox import key_of
from calibrant.kernels.replicates.tables import Tables, add_rows

SUMS = {
    "mean": loops.MEAN,
    "mse": loops.MSE,
    "crps": loops.CRPS,
    "plain crps": loops.CRPS_PLAIN,
    "mae": loops.MAE,
    "mae of mean": loops.MAE_MEAN,
}
"""What is summed over rows: the distance from the first sample, errors of mean and median, and scores."""

BLOCK = 1 << 18
"""Values of a block of rows."""


@dataclass(frozen=True)
class Retake:
    """What replicates take of samples, and what is kept of it."""

    seed: int
    purpose: int
    chosen: np.ndarray
    """The sample (R,) that each replicate is; of no meaning where rows choose for themselves."""
    by_row: bool
    bins: np.ndarray
    starts: np.ndarray
    """The bin of each of the S + 1 places among samples, and the first place of each bin, with S + 1 behind."""
    ends: np.ndarray
    """Order statistics (P, 2), from 0, between which a central interval lies."""
    scales: np.ndarray
    """Units in 1 of each of SUMS, 0 where it is not wanted."""
    extremes: bool
    threads: int | None = None


def empty_tables(retake: Retake, cells: int) -> Tables:
    """Tables of what is kept."""
    sums = len(SUMS) if retake.scales.any() else 0
    bins = max(len(retake.starts) - 1, 0)
    return Tables(cells, len(retake.chosen), bins=bins, intervals=len(retake.ends), sums=sums, extremes=retake.extremes)


def retake_samples(
    retake: Retake,
    samples: np.ndarray,
    y: np.ndarray,
    weights: np.ndarray,
    ranks: np.ndarray,
    cells: np.ndarray,
    first: int,
    tables: Tables,
) -> None:
    """Add rows of samples (S, n) with their outcomes to the tables; ranks: weights in whole units."""
    size = len(samples)

    def add(rows: np.ndarray, part: Tables) -> None:
        pool = np.empty((len(rows), size + 1))
        pool[:, :size] = samples[:, rows].T
        pool[:, size] = y[rows]
        chosen = np.append(retake.chosen, size).astype(np.int64)
        loops.sample_rows(
            *key_of(retake.seed), np.uint32(retake.purpose), np.int64(first), rows, retake.by_row, chosen, pool,
            np.argsort(pool, axis=1), retake.bins, retake.starts, retake.ends, weights[rows], ranks[rows],
            retake.scales, part.counts[0], part.inside[0], part.sums[0], part.extremes[0],
        )  # fmt: skip

    add_rows(tables, cells, max(1, BLOCK // (size + 1)), add, retake.threads)
