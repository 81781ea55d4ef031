"""Regression scores per row (N,).

References: Gneiting & Raftery (2007), JASA 102: 359-378, for proper scores, CRPS and the interval score; Dawid &
Sebastiani (1999), Annals of Statistics 27: 65-81; Koenker & Bassett (1978), Econometrica 46: 33-50, for the pinball
loss; Gneiting (2011), JASA 106: 746-762, for which point goes with which error.
"""

from __future__ import annotations

import numpy as np

from calibrant.kernels.regression_rows import RegressionRows, quantile_key

MEDIAN = 0.5


def _column(values: np.ndarray | None) -> np.ndarray:
    if values is None:
        raise AttributeError("these rows do not have this column")
    return values


def squared_error(rows: RegressionRows) -> np.ndarray:
    """(mean − y)²."""
    return np.square(_column(rows.mean) - _column(rows.y))


def absolute_error(rows: RegressionRows, point: str) -> np.ndarray:
    """|point − y|, the point being the predictive median or mean."""
    centre = _column(rows.mean) if point == "mean" else rows.extras[quantile_key(MEDIAN)]
    return np.abs(centre - _column(rows.y))


def nll(rows: RegressionRows) -> np.ndarray:
    """−log of the predictive density at y."""
    return _column(rows.nll)


def dss(rows: RegressionRows) -> np.ndarray:
    """(mean − y)²/variance + log variance; without variance, +∞ for a miss and −∞ for a hit."""
    variance, error = _column(rows.variance), squared_error(rows)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        score = error / variance + np.log(variance)
    return np.where(variance > 0, score, np.where(error > 0, np.inf, -np.inf))


def crps(rows: RegressionRows, fair: bool = True) -> np.ndarray:
    """E|X − y| − ½E|X − X'|; of samples, fair averages |X − X'| over pairs of different draws."""
    return _column(rows.crps if fair else rows.crps_plain)


def pinball(rows: RegressionRows, levels: tuple[float, ...]) -> np.ndarray:
    """Mean over levels τ of (τ − 1{y < q})·(y − q), q the quantile at τ."""
    y = _column(rows.y)
    total = np.zeros(rows.n)
    for level in levels:
        miss = y - rows.extras[quantile_key(level)]
        total += np.maximum(level * miss, (level - 1.0) * miss)
    return total / len(levels)


def interval_ends(level: float) -> tuple[float, float]:
    """The levels of the ends of the central interval: (1 − level)/2 and (1 + level)/2."""
    return (1.0 - level) / 2.0, (1.0 + level) / 2.0


def interval_score(rows: RegressionRows, level: float) -> np.ndarray:
    """u − l + 2/α·((l − y)₊ + (y − u)₊) of the central interval [l, u], α = 1 − level."""
    y = _column(rows.y)
    low, high = (rows.extras[quantile_key(end)] for end in interval_ends(level))
    outside = np.maximum(low - y, 0.0) + np.maximum(y - high, 0.0)
    return high - low + 2.0 / (1.0 - level) * outside


def within(rows: RegressionRows, level: float) -> np.ndarray:
    """1{l ≤ y ≤ u} of the central interval [l, u]."""
    y = _column(rows.y)
    low, high = (rows.extras[quantile_key(end)] for end in interval_ends(level))
    return ((low <= y) & (y <= high)).astype(np.float64)


def within_by_pit(rows: RegressionRows, level: float) -> np.ndarray:
    """The same of a continuous distribution: 1{(1 − level)/2 ≤ F(y) ≤ (1 + level)/2}."""
    low, high = interval_ends(level)
    return ((low <= pit(rows)) & (pit(rows) <= high)).astype(np.float64)


def width(rows: RegressionRows, level: float) -> np.ndarray:
    """u − l of the central interval [l, u]."""
    low, high = (rows.extras[quantile_key(end)] for end in interval_ends(level))
    return high - low


def variance(rows: RegressionRows) -> np.ndarray:
    """σ² of the predictive distribution; of samples with divisor S − 1."""
    return _column(rows.variance)


def error_to_variance(rows: RegressionRows) -> np.ndarray:
    """(mean − y)²/σ²; without variance, +∞ for a miss and undefined for a hit."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return squared_error(rows) / variance(rows)


def pit(rows: RegressionRows) -> np.ndarray:
    """F(y); of S samples, the middle of y's place among them: (below + ½ ties + ½)/(S + 1)."""
    return _column(rows.pit)


def aleatoric_variance(rows: RegressionRows) -> np.ndarray:
    """mean_m σ_m²."""
    return _column(rows.aleatoric)


def epistemic_variance(rows: RegressionRows) -> np.ndarray:
    """var_m μ_m, over the members."""
    return _column(rows.epistemic)
