"""Bin-free calibration errors by smoothing: smooth ECE, and the error of kernel densities.

Smooth ECE (Błasiok & Nakkiran 2024): the residuals are smoothed by a Gaussian kernel reflected at 0 and 1. With the
residual measure r = Σ_k (wy_k − w_k p_k) δ_{p_k}/Σw and r_σ its reflected convolution, smECE_σ = ∫|r_σ(t)| dt over
[0, 1] falls in σ; the smooth ECE is the value at which smECE_σ = σ. Reflected smoothing multiplies the cosine
coefficient of order k by exp(−(πkσ)²/2), so that residuals shared linearly among the midpoints of a grid are smoothed
by two cosine transforms.

Kernel densities (Zhang, Kailkhura & Han 2020): the triweight kernel's standard deviation is the bandwidth
std(p | y = 1)·(2N)^(−1/5), its half-width three times that. Values below ½ are mirrored at 0, others at 1, and
densities read on [0, 1] only, on a grid over [−0.6, 1.6]. accuracy(z) = P(y = 1) f(z | y = 1)/f(z), at most 1; the
error is (∫|z − accuracy(z)|^order f(z) dz / ∫f)^(1/order).
"""

from __future__ import annotations

import numpy as np

GRID = 4096
"""Midpoints on [0, 1]: with bandwidths above 1e-3, the grid does not change the first three digits."""
TOLERANCE = 1e-7
"""Distance of the smooth ECE from its fixed point."""
MOST_STEPS = 60
BLOCK = 1 << 20
"""Elements of a block of outcomes, which bounds the memory of many outcomes."""
LOW, HIGH = -0.6, 1.6
KDE_GRID = 1 << 14
THIN = 1e-6
"""Density below which there is nothing to integrate."""
NO_BANDWIDTH = 1e-9


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
    from scipy.fft import dct

    outcomes = np.atleast_2d(wy)
    values = np.empty(len(outcomes))
    for rows in blocks(len(outcomes), max(len(p), grid)):
        coefficients = dct(_residuals(p, w, outcomes[rows], grid), axis=-1)
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


def _smoothed(coefficients: np.ndarray, sigma: np.ndarray) -> np.ndarray:
    """∫|r_σ| of each row at its own bandwidth."""
    from scipy.fft import idct

    order = np.arange(coefficients.shape[-1])
    damped = coefficients * np.exp(-0.5 * (np.pi * sigma[:, None] * order) ** 2)
    return np.abs(idct(damped, axis=-1, overwrite_x=True)).sum(axis=-1)


def _fixed_points(residuals: np.ndarray, tolerance: float) -> np.ndarray:
    """The σ with smECE_σ = σ, by the secant method on log smECE over log σ, or bisection where that fails.

    smECE falls in σ, so that the fixed point lies between σ and smECE_σ for any σ: each evaluation bounds it on both
    sides, and the bounds close as the secant converges.
    """
    from scipy.fft import dct

    low, high = np.abs(residuals.sum(axis=-1)), np.abs(residuals).sum(axis=-1)
    coefficients = dct(residuals, axis=-1)
    sigma, other = np.sqrt(np.maximum(low, 1e-3 * high) * high), np.zeros_like(low)
    value, other_value = np.zeros_like(low), np.ones_like(low)
    open_ = np.flatnonzero(high - low > tolerance)
    for _ in range(MOST_STEPS):
        if open_.size == 0:
            break
        value[open_] = _smoothed(coefficients[open_], sigma[open_])
        low[open_] = np.maximum(low[open_], np.minimum(sigma[open_], value[open_]))
        high[open_] = np.minimum(high[open_], np.maximum(sigma[open_], value[open_]))
        with np.errstate(divide="ignore", invalid="ignore"):  # the line through two points of (log σ, log smECE)
            x, y = np.log(sigma[open_]), np.log(value[open_])
            slope = (y - np.log(other_value[open_])) / (x - np.log(other[open_]))
            slope = np.where(other[open_] > 0, slope, -0.5)  # of pure noise, smECE falls as σ^(−½)
            step = np.exp((y - slope * x) / (1.0 - slope))
        inside = (step > low[open_]) & (step < high[open_])
        step = np.where(inside, step, 0.5 * (low[open_] + high[open_]))
        other[open_], other_value[open_], sigma[open_] = sigma[open_], value[open_], step
        open_ = open_[high[open_] - low[open_] > tolerance]
    return 0.5 * (low + high)


# -------------------------------------------------------------------------------- kernel densities
def kde_tce(
    p: np.ndarray, w: np.ndarray, wy: np.ndarray, order: float = 2.0, grid: int = KDE_GRID, rows: float | None = None
) -> np.ndarray:
    """The error above; `rows` is the N of the bandwidth, Σw where none is given.

    Without hits, or with hits at one p only, there is no bandwidth: the value is then the limit of a vanishing one,
    (Σ_k w_k |p_k − ȳ_k|^order/Σw)^(1/order) over runs.
    """
    outcomes = np.atleast_2d(wy)
    total_hits = outcomes.sum(axis=-1)
    filled = np.where(total_hits > 0, total_hits, 1.0)
    mean = np.einsum("rk,k->r", outcomes, p) / filled
    variance = [np.einsum("k,k->", row, (p - m) ** 2) for row, m in zip(outcomes, mean, strict=True)]
    bandwidth = np.sqrt(np.array(variance) / filled) * (2.0 * (float(w.sum()) if rows is None else rows)) ** -0.2
    errors = np.empty(len(outcomes))
    mirrored = np.where(p < 0.5, -p, 2.0 - p)
    total = _binned(p, mirrored, w[None], grid)
    for part in blocks(len(outcomes), max(len(p), grid)):
        hits = _binned(p, mirrored, outcomes[part], grid)
        errors[part] = _errors(hits, total, bandwidth[part], order)
    for r in np.flatnonzero(np.isnan(errors)):
        accuracy = outcomes[r] / np.where(w > 0, w, 1.0)
        errors[r] = float((w * np.abs(p - accuracy) ** order).sum() / w.sum()) ** (1.0 / order)
    return errors if wy.ndim == 2 else errors[0]


def _binned(p: np.ndarray, mirrored: np.ndarray, values: np.ndarray, grid: int) -> np.ndarray:
    """Values (R, K) at p and at its mirror image, on the grid."""
    per_unit = (grid - 1) / (HIGH - LOW)
    out = onto_grid((p - LOW) * per_unit, values, grid)
    out += onto_grid((mirrored - LOW) * per_unit, values, grid)
    return out


def _errors(hits: np.ndarray, total: np.ndarray, bandwidth: np.ndarray, order: float) -> np.ndarray:
    """The error of each outcome from binned hits (R, G) and rows (1, G); NaN without bandwidth or without density."""
    from scipy.fft import irfft, next_fast_len, rfft

    grid = hits.shape[-1]
    z = np.linspace(LOW, HIGH, grid)
    inside = slice(*np.searchsorted(z, [0.0, 1.0], side="right"))
    reach = min(int(3.0 * bandwidth.max() / (z[1] - z[0])) + 1, grid - 1)
    length = next_fast_len(grid + reach, real=True)
    # the triweight kernel (R, length) of each bandwidth, wrapped around its centre at 0
    half = 3.0 * np.maximum(bandwidth, NO_BANDWIDTH)[:, None]
    u = np.arange(reach + 1) * (z[1] - z[0]) / half
    values = 35.0 / 32.0 * np.maximum(1.0 - u * u, 0.0) ** 3 / half
    triweight = np.zeros((len(bandwidth), length))
    triweight[:, : reach + 1] = values
    triweight[:, length - reach :] = values[:, :0:-1]
    kernel = rfft(triweight).real
    f_hits = irfft(rfft(hits, length) * kernel, length)[:, inside] / (0.5 * total.sum())  # P(y = 1) f(z | y = 1)
    f = irfft(rfft(total, length) * kernel, length)[:, inside] / (0.5 * total.sum())
    # (∫|z − accuracy|^order f/∫f)^(1/order) by the trapezoidal rule
    z, dense = z[inside], f > THIN
    accuracy = np.clip(np.divide(f_hits, f, out=np.zeros_like(f), where=dense), 0.0, 1.0)
    f = np.where(dense, f, 0.0)
    numerator = np.trapezoid(np.abs(z - accuracy) ** order * f, axis=-1)
    mass = np.trapezoid(f, axis=-1)
    defined = (bandwidth > NO_BANDWIDTH) & (mass > 0)
    return np.divide(numerator, mass, out=np.full(len(f), np.nan), where=defined) ** (1.0 / order)
