"""Linear maps of rows and columns as matrices: filters with their treatment of edges, zooms and boxes.

A separable filter of images X is A X Bᵀ with one matrix for columns and one for rows; any other filter is a sum of such
products, by the singular value decomposition of its kernel. Each image is multiplied on its own, so that its pixels do
not depend on the batch.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import numpy as np

from calibrant.shift.backend import Array, Backend

Pair = tuple[np.ndarray, np.ndarray]


def fold(index: np.ndarray, size: int, edge: str) -> np.ndarray:
    """Indices outside 0 … size − 1 mapped inside: "nearest", "mirror" (edge repeated), "reflect101" (not repeated)."""
    if edge == "nearest":
        return np.clip(index, 0, size - 1)
    if edge == "mirror":
        index = index % (2 * size)
        return np.minimum(index, 2 * size - 1 - index)
    period = max(2 * size - 2, 1)
    index = index % period
    return np.minimum(index, period - index)


def filter_matrix(size: int, weights: np.ndarray, edge: str) -> np.ndarray:
    """The matrix of a correlation with an odd number of weights, in float32."""
    matrix = np.zeros((size, size))
    at = np.arange(size)
    for offset, weight in zip(range(-(len(weights) // 2), len(weights) // 2 + 1), weights, strict=True):
        np.add.at(matrix, (at, fold(at + offset, size, edge)), weight)
    return matrix.astype(np.float32)


def gaussian_weights(sigma: float, truncate: float) -> np.ndarray:
    """Normal weights up to `truncate` standard deviations, of sum one."""
    radius = int(truncate * sigma + 0.5)
    weights = np.exp(-0.5 * (np.arange(-radius, radius + 1) / sigma) ** 2) if sigma > 0 else np.ones(1)
    return weights / weights.sum()


@lru_cache(maxsize=64)
def gaussian(height: int, width: int, sigma: float, edge: str = "nearest", truncate: float = 4.0) -> tuple[Pair]:
    """A Gaussian filter."""
    weights = gaussian_weights(sigma, truncate)
    return ((filter_matrix(height, weights, edge), filter_matrix(width, weights, edge)),)


@lru_cache(maxsize=64)
def zoom(size: int, factor: float) -> np.ndarray:
    """The centre ceil(size/factor) pixels, enlarged linearly (end to end) and cut to `size`."""
    part = int(np.ceil(size / factor))
    start, enlarged = (size - part) // 2, round(part * factor)
    at = (np.arange(size) + (enlarged - size) // 2) * ((part - 1) / max(enlarged - 1, 1))
    lower = np.minimum(np.floor(at).astype(int), max(part - 2, 0))
    matrix = np.zeros((size, size))
    rows = np.arange(size)
    np.add.at(matrix, (rows, start + lower), 1.0 - (at - lower))
    np.add.at(matrix, (rows, start + np.minimum(lower + 1, part - 1)), at - lower)
    return matrix.astype(np.float32)


def box(size: int, to: int) -> np.ndarray:
    """Pillow's box filter from `size` to `to` pixels: the mean of the pixels whose centres lie in the box."""
    scale = size / to
    reach = max(scale, 1.0) * 0.5
    matrix = np.zeros((to, size))
    for row in range(to):
        centre = (row + 0.5) * scale
        low, high = max(int(centre - reach + 0.5), 0), min(int(centre + reach + 0.5), size)
        at = (np.arange(low, high) + 0.5 - centre) / max(scale, 1.0)
        inside = ((at > -0.5) & (at <= 0.5)).astype(float)
        matrix[row, low:high] = inside / inside.sum()
    return matrix.astype(np.float32)


def decompose(kernel: np.ndarray, height: int, width: int, edge: str) -> tuple[Pair, ...]:
    """The pairs of matrices of a correlation with a square kernel of odd size."""
    left, values, right = np.linalg.svd(kernel)
    return tuple(
        (filter_matrix(height, left[:, k] * value, edge), filter_matrix(width, right[k], edge))
        for k, value in enumerate(values)
        if value > 1e-7 * values[0]
    )


def apply(arrays: Backend, x: Array, pairs: Iterable[Pair]) -> Array:
    """Σ A X Bᵀ for images (N, C, H, W)."""
    xp = arrays.xp
    n, c, h, w = x.shape
    rows, total = x.reshape(n, c * h, w), None
    for left, right in pairs:
        across = xp.matmul(rows, arrays.put(right.T)).reshape(n, c, h, right.shape[0])
        product = xp.matmul(arrays.put(left), across)
        total = product if total is None else total + product
    return total
