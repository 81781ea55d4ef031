"""Isotonic regression (Ayer et al. 1955, pool adjacent violators) of one outcome or many on the same cells."""

from __future__ import annotations

import numpy as np

from calibrant.kernels.jit import over_rows
from calibrant.kernels.loops import runs as loops


def rising_fit(weights: np.ndarray, sums: np.ndarray, threads: int | None = None) -> np.ndarray:
    """The rising fit (…, K) of the means sums/weights of cells in their order; weights (K,) are above 0."""
    out = np.array(sums, np.float64, ndmin=2, order="C")
    weights = np.ascontiguousarray(weights, np.float64)
    over_rows(lambda a, b: loops.pool(weights, out, a, b), len(out), out.size, threads)
    return out.reshape(np.shape(sums))


def joined_ties(x: np.ndarray, share: float) -> np.ndarray:
    """x (n,), above 0, with values that differ by no more than a share of themselves made equal: those of a run."""
    order = np.argsort(x, kind="stable")
    runs, out = np.empty(len(x)), np.empty(len(x))
    loops.near_runs(np.ascontiguousarray(x[order], np.float64), share, runs)
    out[order] = runs
    return out
