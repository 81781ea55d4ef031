"""Smooth ECE (Błasiok & Nakkiran 2024): the residuals smoothed by a Gaussian kernel reflected at 0 and 1.

With the residual measure r = Σ_k (wy_k − w_k p_k) δ_{p_k}/Σw and r_σ its reflected convolution, smECE_σ = ∫|r_σ(t)| dt
over [0, 1] falls in σ; the smooth ECE is the value at which smECE_σ = σ. Reflected smoothing multiplies the cosine
coefficient of order k by exp(−(πkσ)²/2), so that residuals shared linearly among the midpoints of a grid are smoothed
by two cosine transforms.
"""

from __future__ import annotations

import numpy as np

GRID = 4096
"""Midpoints on [0, 1]: bandwidths above 1e-3 are free of it to three digits."""
TOLERANCE = 1e-7
"""Distance of the smooth ECE from its fixed point."""
MOST_STEPS = 60
BLOCK = 1 << 20
"""Elements of a block of outcomes, which bounds the memory of many outcomes."""


def smooth_ece(
    p: np.ndarray, w: np.ndarray, wy: np.ndarray, grid: int = GRID, tolerance: float = TOLERANCE
) -> np.ndarray:
    """The σ at which smECE_σ = σ, to within a tolerance; 0 where every residual is 0."""
    outcomes = np.atleast_2d(wy)
    values = np.empty(len(outcomes))
    for rows in blocks(len(outcomes), max(len(p), grid)):
        values[rows] = _fixed_points(_residuals(p, w, outcomes[rows], grid), tolerance)
    return values if wy.ndim == 2 else values[0]


def smooth_ece_at(p: np.ndarray, w: np.ndarray, wy: np.ndarray, sigma: float, grid: int = GRID) -> np.ndarray:
    """smECE_σ at a given bandwidth σ."""
    outcomes = np.atleast_2d(wy)
    values = np.empty(len(outcomes))
    for rows in blocks(len(outcomes), max(len(p), grid)):
        coefficients = _cosines(_residuals(p, w, outcomes[rows], grid))
        values[rows] = _smoothed(coefficients, np.full(len(coefficients), sigma))
    return values if wy.ndim == 2 else values[0]


def blocks(rows: int, width: int) -> list[slice]:
    """Spans of rows that hold about `BLOCK` elements each."""
    step = max(BLOCK // width, 1)
    return [slice(start, start + step) for start in range(0, rows, step)]


def onto_grid(position: np.ndarray, values: np.ndarray, size: int) -> np.ndarray:
    """Values (R, K) at positions (K,) in units of the spacing, each shared linearly between its two neighbours."""
    left = np.minimum(position.astype(np.int64), size - 2)
    part = position - left
    if (left[1:] < left[:-1]).any():
        order = np.argsort(left, kind="stable")
        left, part, values = left[order], part[order], values[:, order]
    first = np.flatnonzero(np.append(True, left[1:] != left[:-1]))
    places = left[first]
    right = values * part
    out = np.zeros((len(values), size))
    out[:, places] = np.add.reduceat(values - right, first, axis=-1)
    out[:, places + 1] += np.add.reduceat(right, first, axis=-1)
    return out


def _residuals(p: np.ndarray, w: np.ndarray, outcomes: np.ndarray, grid: int) -> np.ndarray:
    """The residual measure of each outcome on the midpoints of the grid."""
    return onto_grid(np.clip(p * grid - 0.5, 0.0, grid - 1.0), (outcomes - w * p) / w.sum(), grid)


def _cosines(residuals: np.ndarray) -> np.ndarray:
    from scipy.fft import dct

    return dct(residuals, axis=-1)


def _smoothed(coefficients: np.ndarray, sigma: np.ndarray) -> np.ndarray:
    """∫|r_σ| of each row at its own bandwidth."""
    from scipy.fft import idct

    order = np.arange(coefficients.shape[-1])
    damped = coefficients * np.exp(-0.5 * (np.pi * sigma[:, None] * order) ** 2)
    return np.abs(idct(damped, axis=-1, overwrite_x=True)).sum(axis=-1)


def _fixed_points(residuals: np.ndarray, tolerance: float) -> np.ndarray:
    """Where smECE_σ = σ, by the secant of log smECE over log σ.

    smECE falls in σ, so that the fixed point lies between σ and smECE_σ for any σ: each evaluation bounds it on both
    sides, and the bounds close as the secant converges.
    """
    low, high = np.abs(residuals.sum(axis=-1)), np.abs(residuals).sum(axis=-1)
    coefficients = _cosines(residuals)
    sigma, other = np.sqrt(np.maximum(low, 1e-3 * high) * high), np.zeros_like(low)
    value, other_value = np.zeros_like(low), np.ones_like(low)
    open_ = np.flatnonzero(high - low > tolerance)
    for _ in range(MOST_STEPS):
        if open_.size == 0:
            break
        value[open_] = _smoothed(coefficients[open_], sigma[open_])
        low[open_] = np.maximum(low[open_], np.minimum(sigma[open_], value[open_]))
        high[open_] = np.minimum(high[open_], np.maximum(sigma[open_], value[open_]))
        step = _secant(*(x[open_] for x in (sigma, value, other, other_value, low, high)))
        other[open_], other_value[open_], sigma[open_] = sigma[open_], value[open_], step
        open_ = open_[high[open_] - low[open_] > tolerance]
    return 0.5 * (low + high)


def _secant(
    sigma: np.ndarray, value: np.ndarray, other: np.ndarray, other_value: np.ndarray, low: np.ndarray, high: np.ndarray
) -> np.ndarray:
    """The next σ: on the line through two points of (log σ, log smECE), or between the bounds where that fails."""
    with np.errstate(divide="ignore", invalid="ignore"):
        x, y = np.log(sigma), np.log(value)
        slope = (y - np.log(other_value)) / (x - np.log(other))
        slope = np.where(other > 0, slope, -0.5)  # of pure noise, smECE falls as σ^(−½)
        step = np.exp((y - slope * x) / (1.0 - slope))
    return np.where((step > low) & (step < high), step, 0.5 * (low + high))
