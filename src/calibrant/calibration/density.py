"""Calibration error by kernel densities (Zhang, Kailkhura & Han 2020), bin-free.

The triweight kernel's standard deviation is the bandwidth std(p | y = 1)·(2N)^(−1/5), its half-width three times that.
Values below ½ are mirrored at 0, others at 1, and densities read on [0, 1] only, on a grid over [−0.6, 1.6].
accuracy(z) = P(y = 1) f(z | y = 1)/f(z), at most 1; the error is (∫|z − accuracy(z)|^order f(z) dz / ∫f)^(1/order).
"""

from __future__ import annotations

import numpy as np

from calibrant.calibration.smooth import blocks, onto_grid

LOW, HIGH = -0.6, 1.6
GRID = 1 << 14
THIN = 1e-6
"""Density below which there is nothing to integrate."""
NO_BANDWIDTH = 1e-9


def kde_tce(
    p: np.ndarray,
    w: np.ndarray,
    wy: np.ndarray,
    order: float = 2.0,
    grid: int = GRID,
    rows: float | None = None,
) -> np.ndarray:
    """The error above; `rows` is the N of the bandwidth, Σw where none is given.

    Without hits, or with hits at one p only, there is no bandwidth: the value is then the limit of a vanishing one,
    (Σ_k w_k |p_k − ȳ_k|^order/Σw)^(1/order) over runs.
    """
    outcomes = np.atleast_2d(wy)
    bandwidth = _bandwidths(p, outcomes, float(w.sum()) if rows is None else rows)
    errors = np.empty(len(outcomes))
    mirrored = np.where(p < 0.5, -p, 2.0 - p)
    total = _binned(p, mirrored, w[None], grid)
    for part in blocks(len(outcomes), max(len(p), grid)):
        hits = _binned(p, mirrored, outcomes[part], grid)
        errors[part] = _errors(hits, total, bandwidth[part], order)
    bare = np.flatnonzero(np.isnan(errors))
    errors[bare] = [_error_of_runs(p, w, outcomes[r], order) for r in bare]
    return errors if wy.ndim == 2 else errors[0]


def _bandwidths(p: np.ndarray, outcomes: np.ndarray, rows: float) -> np.ndarray:
    """std(p | hit)·(2N)^(−1/5) of each outcome, 0 without hits."""
    hits = outcomes.sum(axis=-1)
    filled = np.where(hits > 0, hits, 1.0)
    mean = np.einsum("rk,k->r", outcomes, p) / filled
    variance = [np.einsum("k,k->", row, (p - m) ** 2) for row, m in zip(outcomes, mean, strict=True)]
    return np.sqrt(np.array(variance) / filled) * (2.0 * rows) ** -0.2


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
    kernel = rfft(_triweight(bandwidth, z[1] - z[0], reach, length)).real
    smooth_hits = irfft(rfft(hits, length) * kernel, length)[:, inside]
    smooth_total = irfft(rfft(total, length) * kernel, length)[:, inside] / (0.5 * total.sum())
    return _integrated(z[inside], smooth_hits / (0.5 * total.sum()), smooth_total, bandwidth, order)


def _triweight(bandwidth: np.ndarray, spacing: float, reach: int, length: int) -> np.ndarray:
    """The kernel (R, length) of each bandwidth, wrapped around its centre at 0."""
    half = 3.0 * np.maximum(bandwidth, NO_BANDWIDTH)[:, None]
    u = np.arange(reach + 1) * spacing / half
    values = 35.0 / 32.0 * np.maximum(1.0 - u * u, 0.0) ** 3 / half
    out = np.zeros((len(bandwidth), length))
    out[:, : reach + 1] = values
    out[:, length - reach :] = values[:, :0:-1]
    return out


def _integrated(z: np.ndarray, hits: np.ndarray, f: np.ndarray, bandwidth: np.ndarray, order: float) -> np.ndarray:
    """(∫|z − accuracy|^order f/∫f)^(1/order) by trapezoids from P(y = 1) f(z | y = 1) and f(z)."""
    dense = f > THIN
    accuracy = np.clip(np.divide(hits, f, out=np.zeros_like(f), where=dense), 0.0, 1.0)
    f = np.where(dense, f, 0.0)
    numerator = np.trapezoid(np.abs(z - accuracy) ** order * f, axis=-1)
    mass = np.trapezoid(f, axis=-1)
    defined = (bandwidth > NO_BANDWIDTH) & (mass > 0)
    return np.divide(numerator, mass, out=np.full(len(f), np.nan), where=defined) ** (1.0 / order)


def _error_of_runs(p: np.ndarray, w: np.ndarray, wy: np.ndarray, order: float) -> float:
    accuracy = wy / np.where(w > 0, w, 1.0)
    return float((w * np.abs(p - accuracy) ** order).sum() / w.sum()) ** (1.0 / order)
