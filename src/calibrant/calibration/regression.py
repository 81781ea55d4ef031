"""Calibration in regression: how often outcomes fall below predicted quantiles, or within predicted intervals.

Notation: F(y) the probability integral transform (PIT) of a row, p_j the levels, p̂_j the share of rows under level j.
"below": rows with F < p_j; "central": rows with |2F − 1| ≤ p_j. Either way the sets of rows are nested, so that p̂ is
the cumulated share of cells, and d_j = p̂_j − p_j is a bridge under calibration, whatever the predictions are.

References: Kuleshov, Fenner & Ermon (2018), ICML 35: 2796-2804; Czado, Gneiting & Held (2009), Biometrics 65:
1254-1261, for samples, whose rows are spread evenly over y's place among them; Levi, Gispan, Giladi & Fetaya (2022),
Sensors 22: 5540, for errors of variances over bins.
"""

from __future__ import annotations

import numpy as np

from calibrant.kernels.philox import normals, uniform_table
from calibrant.kernels.resampling import BIN_ERRORS, PIT_CELLS

MOST_NUMBERS = 1 << 22
"""Rows times replicates up to which every row is redrawn; above, counts are drawn from their normal limit."""
PSEUDO_ROWS = 2.0


def even_levels(count: int) -> np.ndarray:
    """p_j = j/B, j = 1 … B."""
    return np.arange(1, count + 1) / count


# ------------------------------------------------------------------------------------------- cells
def cells_below(pit: np.ndarray, count: int) -> np.ndarray:
    """How many of the levels j/B are at most F: row i is under level j where its cell is below j."""
    edges = np.append(np.arange(count + 1) / count, np.inf)
    cell = (pit * count).astype(np.int64)  # at most one off, by the rounding of the product
    cell += pit >= edges[cell + 1]
    cell -= pit < edges[cell]
    return cell


def cells_central(pit: np.ndarray, count: int) -> np.ndarray:
    """How many of the levels j/B are less than |2F − 1|: row i is within level j where its cell is below j."""
    edges = np.arange(count + 1) / count
    edges[0] = -np.inf
    away = np.abs(2.0 * pit - 1.0)
    cell = np.maximum(np.ceil(away * count).astype(np.int64) - 1, 0)
    cell += away > edges[np.minimum(cell + 1, count)]
    cell -= away <= edges[cell]
    return cell


def under_levels(cells: np.ndarray, levels: int) -> np.ndarray:
    """p̂ (…, B) from the shares (…, ≥ B) of cells."""
    return np.cumsum(cells, axis=-1)[..., :levels]


def under_levels_of_slots(slots: np.ndarray, levels: np.ndarray, coverage: str) -> np.ndarray:
    """p̂ (…, B) from the shares (…, S + 1) of the places among S samples, each spread evenly over its width."""
    if coverage == "central":
        return _cumulated(slots, (1.0 + levels) / 2.0) - _cumulated(slots, (1.0 - levels) / 2.0)
    return _cumulated(slots, levels)


def _cumulated(slots: np.ndarray, at: np.ndarray) -> np.ndarray:
    count = slots.shape[-1]
    before = np.cumsum(slots, axis=-1) - slots
    place = np.minimum((at * count).astype(np.int64), count - 1)
    return before[..., place] + (at * count - place) * slots[..., place]


# -------------------------------------------------------------------------------------- statistics
def mean_absolute(gaps: np.ndarray) -> np.ndarray:
    """mean_j |d_j|."""
    return np.abs(gaps).mean(axis=-1)


def root_mean_square(gaps: np.ndarray) -> np.ndarray:
    """(mean_j d_j²)^½."""
    return np.sqrt(np.square(gaps).mean(axis=-1))


def pearson(shares: np.ndarray, expected: np.ndarray, n: float) -> np.ndarray:
    """n·Σ_k (share_k − π_k)²/π_k (Pearson 1900)."""
    return n * (np.square(shares - expected) / expected).sum(axis=-1)


# ------------------------------------------------------------------------------ null distributions
def redrawn_cells(expected: np.ndarray, rows: float, *, replicates: int, seed: int) -> np.ndarray:
    """Shares (replicates, K) of cells of these probabilities among independent rows.

    An effective number of rows is rounded up, and the deviations widened to the variance that belongs to it.
    """
    whole, cells = int(np.ceil(rows)), len(expected)
    if whole * replicates > MOST_NUMBERS:
        white = normals(seed, PIT_CELLS, replicates, cells) * np.sqrt(expected)
        return expected + (white - expected * white.sum(axis=1, keepdims=True)) / np.sqrt(rows)
    u = uniform_table(seed, PIT_CELLS, replicates, whole)
    positive = int(np.count_nonzero(expected))
    if positive == len(np.trim_zeros(expected, "b")) and np.ptp(expected[:positive]) < 1e-12:
        place = (u * positive).astype(np.int64)
    else:
        inner = np.cumsum(expected)[: positive - 1] if positive < cells else np.cumsum(expected)[:-1]
        place = np.searchsorted(inner, u, side="right").astype(np.int64)
    place += cells * np.arange(replicates)[:, None]
    counts = np.bincount(place.ravel(), minlength=replicates * cells).reshape(replicates, cells)
    return expected + (counts / whole - expected) * np.sqrt(whole / rows)


def errors_of_shares(
    under: np.ndarray, squares: np.ndarray, levels: np.ndarray, rows: float, white: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Variance (B,) of p̂, and normal errors (R, B) of its covariance, from white noise (R, B + 1), one a cell.

    squares: the same shares with squared weights. Both are shrunk by two rows at the levels. The sets of rows are
    nested, so that errors are sums over cells. Rows that are spread over a place count as if they lay at random in it,
    which is a little wider.
    """
    centre, own = ((rows * share + PSEUDO_ROWS * levels) / (rows + PSEUDO_ROWS) for share in (under, squares))
    rising = np.maximum.accumulate(own)  # quantiles that cross may fall
    cells = np.diff(rising, prepend=0.0, append=max(1.0, rising[-1]))
    drawn = white * np.sqrt(np.maximum(cells, 0.0) / rows)
    errors = np.cumsum(drawn, axis=1)[:, :-1] - centre * drawn.sum(axis=1, keepdims=True)
    return (rising * (1.0 - 2.0 * centre) + centre * centre) / rows, errors


def shapes(levels: np.ndarray, coverage: str) -> tuple[np.ndarray, ...]:
    """The shape of d, to first order, for Gaussians that are too narrow, and for biased ones.

    With z the quantile at p: −z·φ(z) mirrored about the middle, and φ(z). Central levels do not show a bias.
    """
    from scipy.special import ndtri

    inner = np.clip(levels, 1e-12, 1.0 - 1e-12)
    z = ndtri((1.0 + inner) / 2.0 if coverage == "central" else inner)
    density = np.exp(-0.5 * z * z)
    return (z * density,) if coverage == "central" else (z * density, density)


# --------------------------------------------------------------------------------- variances of bins
def error_of_bins(variance: np.ndarray, error: np.ndarray) -> float:
    """mean_b |RMSE_b − RMV_b|/RMV_b, of sums of variances and of squared errors; infinite where a bin has no variance.

    Undefined where a bin has neither variance nor error.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.abs(np.sqrt(error / variance) - 1.0).mean())


def redrawn_error_of_bins(freedom: np.ndarray, *, replicates: int, seed: int) -> np.ndarray:
    """The same (replicates,) when errors are normal with the predicted variances.

    The squared errors of a bin are then Σσ²χ²₁, which is taken for a multiple of χ² with (Σσ²)²/Σσ⁴ degrees of freedom
    (Satterthwaite 1946): exact where σ is the same in all of the bin. The multiple does not matter.
    """
    from scipy.special import gammaincinv

    u = uniform_table(seed, BIN_ERRORS, replicates, len(freedom))
    return np.abs(np.sqrt(gammaincinv(freedom / 2.0, u) / (freedom / 2.0)) - 1.0).mean(axis=1)
