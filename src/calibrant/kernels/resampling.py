"""Replicates of binned counts, of ranking scores and of sums over units, spread over threads by replicate."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from calibrant.kernels.jit import over_rows
from calibrant.kernels.loops import resampling as loops
from calibrant.kernels.ordering import order_of
from calibrant.kernels.philox import key_of

# Purposes: what a random word is for, so that two uses never share their words. New ones come last.
CONSISTENCY, INVERSION, RANKING, RARE, DETECTION, SELECTIVE, ACCURACY_UNCERTAINTY, CELLS = range(1, 9)
DETECTABLE, SKCE, CANONICAL, SAMPLE, BLOCKS, SIZES, PIT_CELLS, PIT_PLACE, BIN_ERRORS = range(9, 18)
CHECK_MEMBERS, CHECK_BAYESIAN, CHECK_INDEPENDENT, CHECK_PLACE, CONFORMAL, FOLDS, HALVES = range(18, 25)
PAIRED, SIGNS, MEMBER_ORDERS, EQUIVALENTS, GROUPS = range(25, 30)

Fill = Callable[[int, int, np.ndarray], None]
"""`fill(start, stop, block)` writes the columns of units start … stop into a block (units, columns)."""
BLOCK = 1 << 21
"""Numbers in a block of units, 16 MB: all columns never lie in memory at one time."""
LANES = 8
"""The number of columns is rounded up to a multiple of this, which loops over vectors like."""


def redraw_bins(
    probability: np.ndarray,
    bins: np.ndarray,
    n_bins: int,
    weights: np.ndarray | None,
    *,
    replicates: int,
    seed: int,
    threads: int | None = None,
) -> np.ndarray:
    """Σ of the weights of hits in each bin (replicates, bins) when row i hits with probability[i]."""
    thresholds = np.minimum(probability * 2.0**32, 2.0**32 - 1).astype(np.uint32)
    sums, work = np.zeros((replicates, n_bins)), replicates * len(bins)
    if weights is None and (bins[1:] >= bins[:-1]).all():
        lanes = np.zeros((-(-len(bins) // 4), 4), np.uint32)
        lanes.ravel()[: len(bins)] = thresholds
        edges = np.searchsorted(bins, np.arange(n_bins + 1))
        in_order = (*key_of(seed), np.uint32(CONSISTENCY), np.ascontiguousarray(lanes.T), edges, sums)
        over_rows(lambda a, b: loops.bernoulli_runs(*in_order, a, b), replicates, work, threads)
        return sums
    weights = np.ones(len(bins)) if weights is None else weights
    run = (*key_of(seed), np.uint32(CONSISTENCY), thresholds, bins.astype(np.int64), weights, sums)
    over_rows(lambda a, b: loops.bernoulli_bins(*run, a, b), replicates, work, threads)
    return sums


def ranking_scores(score: np.ndarray, positive: np.ndarray, weights: np.ndarray | None) -> tuple[float, float]:
    """ROC AUC and average precision; equal scores are one step."""
    order, tied = order_of(-score, positive, weights)
    ranked = np.ones(len(order)) if weights is None else weights[order]
    return loops.ranking(positive[order].astype(np.bool_), tied, ranked)


def ranking_replicates(
    score: np.ndarray,
    positive: np.ndarray,
    weights: np.ndarray | None,
    units: np.ndarray | None,
    *,
    replicates: int,
    seed: int,
    threads: int | None = None,
) -> np.ndarray:
    """(replicates, 2) ROC AUC and average precision under Poisson resampling of rows, or of units."""
    *ordered, order = _by_falling_score(score, positive, weights)
    unit = np.arange(len(order)) if units is None else units[order]
    out = np.empty((replicates, 2))
    run = (*key_of(seed), np.uint32(RANKING), *ordered, unit.astype(np.int64), int(unit.max()) + 1, out)
    work = replicates * len(order)
    over_rows(lambda a, b: loops.ranking_replicates(*run, a, b), replicates, work, threads)
    return out


def _by_falling_score(
    score: np.ndarray, positive: np.ndarray, weights: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    weights = np.ones(len(score)) if weights is None else weights
    order = np.lexsort((weights, positive, -score))  # sums then do not depend on the order of rows
    ranked = score[order]
    tied = np.append(ranked[1:] == ranked[:-1], False)
    return positive[order].astype(np.bool_), tied, weights[order], order


def binomial_counts(rows: np.ndarray, p: np.ndarray, skip: np.ndarray, u: np.ndarray) -> None:
    """Replace u[r, k] by the binomial number of rows[k] trials of p[k] whose distribution function it is."""
    loops.binomial_counts(rows.astype(np.int64), p, skip, u)


# ---------------------------------------------------------------------------- many columns at once
def poisson_sums(
    fill: Fill, units: int, columns: int, *, replicates: int, seed: int, threads: int | None = None
) -> np.ndarray:
    """(replicates, columns) Σ_u v_u·x[u]: v_u is Poisson(1) from the word of (seed, PAIRED, replicate, u)."""
    return _sums(loops.poisson_sums, PAIRED, fill, (units, columns), replicates, seed, threads)


def signed_sums(
    fill: Fill, units: int, columns: int, *, replicates: int, seed: int, threads: int | None = None
) -> np.ndarray:
    """(replicates, columns) Σ_u ±x[u]: the sign is bit u mod 32 of the word of (seed, SIGNS, replicate, u // 32)."""
    return _sums(loops.signed_sums, SIGNS, fill, (units, columns), replicates, seed, threads)


def _sums(
    loop: Callable[..., None],
    purpose: int,
    fill: Fill,
    shape: tuple[int, int],
    replicates: int,
    seed: int,
    threads: int | None,
) -> np.ndarray:
    units, columns = shape
    wide = -(-columns // LANES) * LANES
    out, key = np.zeros((replicates, wide)), key_of(seed)
    step = max(BLOCK // (wide * loops.TILE), 1) * loops.TILE
    for first in range(0, units, step):
        block = np.zeros((min(step, units - first), wide))
        fill(first, first + len(block), block)
        run = (*key, np.uint32(purpose), block, np.int64(first), out)
        over_rows(partial(loop, *run), replicates, replicates * block.size, threads)
    return out[:, :columns]


def correlated(z: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Normal numbers (R, K) of this covariance, from independent standard ones z.

    By Cholesky's root in plain loops: a library's factorisation and product may differ by machine in their last bits.
    """
    root, out = covariance.copy(), z.copy()
    loops.semidefinite_root(root)
    loops.mix(root, out)
    return out
