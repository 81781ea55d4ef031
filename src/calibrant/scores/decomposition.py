"""Decompositions of the Brier score.

Binned (Murphy 1973; Stephenson, Coelho & Jolliffe 2008 for the terms within bins), per class c and bin b of p_c:
    BS = UNC − RES + REL + WITHIN
    REL = Σ n_b/N (p̄_b − ȳ_b)²,  RES = Σ n_b/N (ȳ_b − ȳ)²,  UNC = ȳ(1 − ȳ),
    WITHIN = Σ_i (p_i − p̄_b)²/N − 2·Σ_i (p_i − p̄_b)(y_i − ȳ_b)/N,
each summed over classes; the parts add up to rounding.

Bin-free (CORP; Dimitriadis, Gneiting & Jordan 2021), of the pairs (p, y) and S = mean (p − y)²:
    S = MCB − DSC + UNC,  MCB = S(p) − S(p̂),  DSC = S(ȳ) − S(p̂),  UNC = S(ȳ),
with p̂ the isotonic fit of y on p; the parts add up exactly, and MCB and DSC are never negative.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

RESOLUTION = 2.0**-36
"""Rounding error per class of a class-wise table, whose unit is 2⁻⁴⁰."""


@dataclass(frozen=True)
class BrierParts:
    """The parts of a binned decomposition: score = uncertainty − resolution + reliability + within."""

    reliability: float
    resolution: float
    uncertainty: float
    within: float

    @property
    def score(self) -> float:
        """The Brier score that the parts add up to."""
        return self.uncertainty - self.resolution + self.reliability + self.within


@dataclass(frozen=True)
class CorpParts:
    """The parts of the bin-free decomposition: score = miscalibration − discrimination + uncertainty."""

    miscalibration: float
    discrimination: float
    uncertainty: float


def from_table(table: np.ndarray) -> BrierParts:
    """Parts from class-wise sums: table[layer, class, bin] of Σw, Σwp, Σwp², Σwy, Σwpy."""
    count, p, p_squared, y, p_y = table.astype(np.float64)
    total = count.sum(axis=1, keepdims=True)
    filled = np.where(count > 0, count, 1.0)
    mean_p, mean_y = p / filled, y / filled
    base = y.sum(axis=1, keepdims=True) / total
    share = count / total
    spread = (p_squared - p * mean_p - 2.0 * (p_y - p * mean_y)) / total
    within = float(spread.sum())
    return BrierParts(
        reliability=float((share * (mean_p - mean_y) ** 2).sum()),
        resolution=float((share * (mean_y - base) ** 2).sum()),
        uncertainty=float((base * (1.0 - base)).sum()),
        within=within if abs(within) > RESOLUTION * len(count) else 0.0,
    )


def by_predicted_class(table: np.ndarray) -> BrierParts:
    """Grouped by predicted class, as in the public code of Ovadia et al. (2019); its three parts do not add up.

    table[0, k, c] = Σ p_c and table[1, k, c] = number of labels c, over the rows whose predicted class is k.
    """
    p, joint = table.astype(np.float64)
    count = joint.sum(axis=1)
    filled = np.where(count > 0, count, 1.0)[:, None]
    share = (count / count.sum())[:, None]
    frequency, base = joint / filled, joint.sum(axis=0) / count.sum()
    return BrierParts(
        reliability=float((share * (p / filled - frequency) ** 2).sum()),
        resolution=float((share * (frequency - base) ** 2).sum()),
        uncertainty=float((base * (1.0 - base)).sum()),
        within=float("nan"),
    )


def corp(p: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None) -> CorpParts:
    """Bin-free parts of the pairs (p, y)."""
    from scipy.optimize import isotonic_regression

    w = np.ones(len(p)) if weights is None else weights
    order = np.lexsort((w, y, p))  # sums then do not depend on the order of rows
    p, y, w = p[order], y[order], w[order]
    values, inverse = np.unique(p, return_inverse=True)
    mass = np.bincount(inverse, w)
    keep = mass > 0
    hits = np.bincount(inverse, w * y)[keep] / mass[keep]
    fitted = np.empty(len(values))
    fitted[keep] = isotonic_regression(hits, weights=mass[keep]).x
    fitted[~keep] = 0.0
    recalibrated = fitted[inverse]
    base = float(np.average(y, weights=w))
    score = float(np.average((p - y) ** 2, weights=w))
    refined = float(np.average((recalibrated - y) ** 2, weights=w))
    uncertainty = float(np.average((base - y) ** 2, weights=w))
    return CorpParts(score - refined, uncertainty - refined, uncertainty)
