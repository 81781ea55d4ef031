"""Influence of rows on rankings and risk-coverage areas: how a value changes with the weight of each row.

A term is a row's weight times the derivative of the value by that weight; terms sum to 0. The variance of the value is
the sum of squared terms, of rows or of units that are drawn whole (the infinitesimal jackknife: Efron 1982). Everything
comes from one sort and a few cumulated sums; rows are in sorted order, so that sums do not depend on that of the input.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from calibrant.detection.ordering import relative
from calibrant.kernels.ordering import order_of

PSEUDO_ROWS = 2.0
"""Pseudo-rows that stabilise the variance of tied rows."""


class RankingTerms(NamedTuple):
    """Terms (N,) of ROC AUC and average precision, and the order that sorts rows into theirs."""

    auc: np.ndarray
    precision: np.ndarray
    order: np.ndarray


class AreaTerms(NamedTuple):
    """Terms (N,) of AURC and of its excess, the order that sorts rows into theirs, and floors of both variances.

    A floor, for the variance times the squared number of rows, is that of two pseudo-rows which are wrong by chance,
    each among the rows of one uncertainty by their share: a run without an error may have had one. It vanishes where
    no uncertainties are equal.
    """

    aurc: np.ndarray
    e_aurc: np.ndarray
    order: np.ndarray
    floors: tuple[float, float]


class _Runs(NamedTuple):
    """Runs of equal keys: their first rows, their last rows, and the run of each row."""

    starts: np.ndarray
    ends: np.ndarray
    of: np.ndarray

    @classmethod
    def of_ties(cls, tied: np.ndarray) -> _Runs:
        ends = np.flatnonzero(~tied)
        starts = np.append(0, ends[:-1] + 1)
        return cls(starts, ends, np.repeat(np.arange(len(ends)), ends - starts + 1))

    def sum(self, x: np.ndarray) -> np.ndarray:
        return np.add.reduceat(x, self.starts)


def ranking_terms(score: np.ndarray, positive: np.ndarray, weights: np.ndarray | None = None) -> RankingTerms:
    """Terms of both scores of a ranking; each side needs a row of positive weight."""
    order, tied = order_of(-score, positive, weights)
    y, w = positive[order].astype(np.float64), relative(weights, len(order))[order]
    runs = _Runs.of_ties(tied)
    gained, lost = runs.sum(w * y), runs.sum(w * (1.0 - y))
    found, false = gained.cumsum(), lost.cumsum()
    positives, negatives, seen = found[-1], false[-1], np.maximum(found + false, np.finfo(np.float64).tiny)
    below, above = (negatives - false + 0.5 * lost) / negatives, (found - 0.5 * gained) / positives
    auc = float((gained * below).sum() / positives)
    precision = found / seen
    average = float((gained * precision).sum() / positives)
    share = gained / seen
    by_positive = precision + _from_here(share * false / seen) - average
    by_negative = -_from_here(share * precision)
    ranked = np.where(y > 0.0, (below[runs.of] - auc) / positives, (above[runs.of] - auc) / negatives)
    recalled = np.where(y > 0.0, by_positive[runs.of], by_negative[runs.of]) / positives
    return RankingTerms(w * ranked, w * recalled, order)


def area_terms(uncertainty: np.ndarray, error: np.ndarray, weights: np.ndarray | None = None) -> AreaTerms:
    """Terms of AURC and of its excess over the best order, in which the errors themselves sort the rows."""
    aurc, slope, order, share = _area(uncertainty, error, weights)
    best, _, best_order, _ = _area(error, error, weights)
    optimum = np.empty(len(order))
    optimum[best_order] = best
    least, most = best_order[0], best_order[-1]
    wide = float(error[most] - error[least])
    saved = float(best[-1] - best[0]) / wide if wide > 0.0 else 0.0
    w = relative(weights, len(order))[order]
    total = float(w.sum())
    floors = [float((PSEUDO_ROWS * (share * by) ** 2).sum()) for by in (slope, slope - saved)]
    return AreaTerms(w * aurc / total, w * (aurc - optimum[order]) / total, order, (floors[0], floors[1]))


def _area(
    key: np.ndarray, error: np.ndarray, weights: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Influence (N,) of a row on its area, the derivative (K,) by its error in each run, the order, and shares (K,)."""
    order, tied = order_of(key, error, weights)
    e, w = error[order].astype(np.float64), relative(weights, len(order))[order]
    runs = _Runs.of_ties(tied)
    mass = np.maximum(runs.sum(w), np.finfo(np.float64).tiny)
    seen = np.maximum(w.cumsum(), np.finfo(np.float64).tiny)
    mean = (runs.sum(w * e) / mass)[runs.of]
    risk = (w * mean).cumsum() / seen
    within = (seen - (seen[runs.ends] - mass)[runs.of]) / mass[runs.of]
    step, total = w / seen, float(seen[-1])
    slope = runs.sum(within * step) + _after(runs.sum(step))
    fall = runs.sum(within * step * risk) + _after(runs.sum(step * risk))
    level = runs.sum(w * risk) / mass - float((w * risk).sum()) / total
    return e * slope[runs.of] + (level - fall)[runs.of], slope, order, mass / total


def _from_here(x: np.ndarray) -> np.ndarray:
    """Sums of x from each place to the end."""
    return x[::-1].cumsum()[::-1]


def _after(x: np.ndarray) -> np.ndarray:
    """Sums of x after each place."""
    return np.append(_from_here(x)[1:], 0.0)
