"""The one place with bins. Equal width: ((b − 1)/B, b/B], 0 in the first. Equal mass: cuts between distinct values."""

from __future__ import annotations

import numpy as np

from calibrant.kernels.loops.extras import width_bins


def equal_width(p: np.ndarray, bins: int) -> np.ndarray:
    """The bin of each p, counted from 0: clip(ceil(p·B) − 1, 0, B − 1)."""
    out = np.empty(len(p), np.int64)
    width_bins(np.ascontiguousarray(p, np.float64), bins, out)
    return out


def equal_mass_edges(p: np.ndarray, bins: int, weights: np.ndarray | None = None) -> np.ndarray:
    """Inner edges: midpoints of neighbouring distinct values nearest to the equal split, so that ties stay together."""
    w = np.ones(len(p)) if weights is None else weights
    order = np.lexsort((w, p))  # sums then do not depend on the order of rows
    values, inverse = np.unique(p[order], return_inverse=True)
    return edges_after(values, mass_cuts(np.bincount(inverse, w[order]), bins))


def mass_cuts(mass: np.ndarray, bins: int) -> np.ndarray:
    """The distinct values after which a bin ends, by their place; mass (K,) is the weight of each in rising order."""
    below = mass.cumsum()  # weight under the gap after each distinct value
    total, below = below[-1], below[:-1]
    if below.size == 0:
        return np.empty(0, np.int64)
    targets = total * np.arange(1, bins) / bins
    right = np.clip(np.searchsorted(below, targets), 0, below.size - 1)
    left = np.maximum(right - 1, 0)
    return np.unique(np.where(np.abs(below[left] - targets) <= np.abs(below[right] - targets), left, right))


def edges_after(values: np.ndarray, cuts: np.ndarray) -> np.ndarray:
    """The midpoint of each of these values and the next."""
    under, over = values[cuts], values[cuts + 1]
    middle = (under + over) / 2
    return np.where(middle < over, middle, under)  # the midpoint of neighbouring floats may be the upper of them


def assign(p: np.ndarray, bins: int, binning: str, weights: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The bin of each p and the edges of all bins."""
    if binning == "width":
        return equal_width(p, bins), np.arange(bins + 1) / bins
    edges = equal_mass_edges(p, bins, weights)
    return np.searchsorted(edges, p, side="left").astype(np.int64), np.concatenate([[0.0], edges, [1.0]])
