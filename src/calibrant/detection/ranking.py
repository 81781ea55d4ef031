"""OOD detection by a score that is high for OOD rows; "inside" is in-distribution, "outside" is OOD.

One sort by decreasing score; equal scores are one step. If one side is empty or has no weight, all is undefined.

References: Hendrycks & Gimpel (2017), "A baseline for detecting misclassified and out-of-distribution examples"; Liang,
Li & Srikant (2018), "Enhancing the reliability of out-of-distribution image detection"; Krishnan & Tickoo (2020).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from calibrant.detection.ordering import relative, replicates_of
from calibrant.kernels.loops import detection as loops
from calibrant.kernels.ordering import order_of
from calibrant.kernels.resampling import DETECTION


class Scores(NamedTuple):
    """Scores of a ranking of OOD (outside) and in-distribution (inside) rows.

    auroc: probability that an OOD row scores above an in-distribution row, equal scores counting half.
    aupr_out: average precision with OOD rows as positives, Σ over thresholds of (recall gained)·precision.
    aupr_in: the same with in-distribution rows as positives and the score negated.
    detection_accuracy: largest ½(TPR + TNR) over all thresholds, including "none" and "all": at least ½.
    fpr95: share of in-distribution rows at or above the highest threshold t for which {score ≥ t} has 95% of the OOD
        rows.
    wasserstein: ∫|F_in − F_out|, W₁ between both samples of scores; infinite where a share of only one of them, or
        unequal shares, lie at ±∞. The other five use only the order of scores, in which ±∞ are allowed.
    """

    auroc: float
    aupr_out: float
    aupr_in: float
    detection_accuracy: float
    fpr95: float
    wasserstein: float


def detection_scores(
    score: np.ndarray, outside: np.ndarray, weights: np.ndarray | None = None, *, level: float = 0.95
) -> Scores:
    """The scores of a ranking without NaN; `level` is the TPR in (0, 1] of `fpr95`."""
    ranked, w, _ = _by_falling_score(score, outside, weights, None)
    out = np.full(len(Scores._fields), np.nan)
    loops.detection(*ranked, w, float(level), out)
    return Scores(*out.tolist())


def detection_replicates(
    score: np.ndarray,
    outside: np.ndarray,
    weights: np.ndarray | None,
    units: np.ndarray | None,
    *,
    replicates: int,
    seed: int,
    threads: int | None = None,
    level: float = 0.95,
) -> np.ndarray:
    """(replicates, 6) of `Scores` under Poisson resampling of rows, or of units numbered from 0."""
    ranked, w, unit = _by_falling_score(score, outside, weights, units)
    return replicates_of(
        loops.detection_replicates, DETECTION, w, unit, (*ranked, float(level)), len(Scores._fields),
        replicates=replicates, seed=seed, threads=threads,
    )  # fmt: skip


def _by_falling_score(
    score: np.ndarray, outside: np.ndarray, weights: np.ndarray | None, units: np.ndarray | None
) -> tuple[tuple[np.ndarray, np.ndarray, np.ndarray], np.ndarray, np.ndarray | None]:
    """(score, outside, tied), relative weights and units, all sorted."""
    falling = -np.asarray(score, np.float64)
    outside = np.asarray(outside, np.bool_)
    order, tied = order_of(falling, outside, weights, units)
    w = relative(weights, len(order))
    return (-falling[order], outside[order], tied), w[order], None if units is None else units[order]
