"""Replicates of binned counts and of ranking scores, spread over threads by replicate."""

from __future__ import annotations

import numpy as np

from calibrant.kernels.jit import over_rows
from calibrant.kernels.loops import resampling as loops
from calibrant.kernels.philox import key_of

# Purposes: what a random word is for, so that two uses never share their words.
CONSISTENCY = 1
INVERSION = 2
RANKING = 3
RARE = 4
DETECTION = 5
SELECTIVE = 6
ACCURACY_UNCERTAINTY = 7
CELLS = 8
DETECTABLE = 9
SKCE = 10
CANONICAL = 11
SAMPLE = 12
BLOCKS = 13
SIZES = 14
PIT_CELLS = 15
PIT_PLACE = 16
BIN_ERRORS = 17
CHECK_MEMBERS = 18
CHECK_BAYESIAN = 19
CHECK_INDEPENDENT = 20
CHECK_PLACE = 21
CONFORMAL = 22
FOLDS = 23
HALVES = 24
PAIRED = 25
SIGNS = 26
MEMBER_ORDERS = 27
EQUIVALENTS = 28
GROUPS = 29


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
    ordered = _by_falling_score(score, positive, weights)
    return loops.ranking(*ordered[:3])


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
    run = (
        *key_of(seed),
        np.uint32(RANKING),
        *ordered,
        unit.astype(np.int64),
        int(unit.max()) + 1,
        out,
    )
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
