"""Calibration errors without fixed bins, of runs of equal p: KS, cutoff error, two-bin error, MMCE and ECE_sweep.

MMCE (Kumar, Sarawagi & Jain 2018): MMCE² = Σ_ij d_i d_j k(p_i, p_j)/N² with d = y − p and the Laplace kernel
k(a, b) = exp(−|a − b|/0.4). The kernel depends on p alone, so that Σd of each run is sufficient. It is also the
covariance of a Markov process, hence the double sum is a sum of squares over a first-order recurrence: no pairs are
formed and nothing cancels.

ECE_sweep (Roelofs et al. 2022): b* is the largest b for which every number of bins up to b has non-decreasing mean
outcomes. Bins are cut as in `binning.equal_mass_edges`: between runs only, nearest to the equal split (of two equally
near the lower); cuts that coincide count once. More bins than distinct predictions are useless, so b* is at most their
number, and at most `MOST_BINS`.
"""

from __future__ import annotations

import numpy as np

from calibrant.kernels.jit import over_rows
from calibrant.kernels.loops.runs import binned_gap, laplace_norms, prefix_sums, rising_bins

SCALE = 0.4
"""Distance over which the MMCE kernel falls by a factor e, as in the paper."""
MOST_BINS = 1 << 13
"""Maximum number of bins of a sweep, because the work grows with the square of b."""


def ks(p: np.ndarray, w: np.ndarray, wy: np.ndarray) -> np.ndarray:
    """max_k |Σ_{j≤k} (w_j p_j − wy_j)|/Σw over the ends of runs of equal p (Gupta et al. 2021).

    Inside a run the order of rows is arbitrary, so gaps inside it are ignored. Never less than |mean p − mean y|.
    """
    gap = w * p - wy
    np.cumsum(gap, axis=-1, out=gap)
    return np.maximum(gap.max(axis=-1), -gap.min(axis=-1)) / w.sum()


def mmce(p: np.ndarray, w: np.ndarray, wy: np.ndarray) -> np.ndarray:
    """(Σ_ij w_i w_j d_i d_j k(p_i, p_j))^½/Σw."""
    rate = np.full(len(np.atleast_2d(wy)), 1.0 / w.sum())
    return _norm(p, w, wy, rate, rate)


def weighted_mmce(p: np.ndarray, w: np.ndarray, wy: np.ndarray) -> np.ndarray:
    """The class-balanced form: hits add (1 − p)/Σ_hits w each, misses −p/Σ_misses w, and k joins every pair of them.

    With only hits or only misses, their term alone remains. An outcome y between 0 and 1 is a hit of weight
    wy and a miss of weight w(1 − y).
    """
    hits = np.atleast_2d(wy).sum(axis=-1)
    misses = (w - np.atleast_2d(wy)).sum(axis=-1)
    of_hits, of_misses = (np.divide(1.0, x, out=np.zeros_like(x), where=x > 0) for x in (hits, misses))
    return _norm(p, w, wy, of_hits, of_misses)


def _norm(p: np.ndarray, w: np.ndarray, wy: np.ndarray, of_hits: np.ndarray, of_misses: np.ndarray) -> np.ndarray:
    """(gᵀKg)^½ with g = of_hits·wy(1 − p) − of_misses·(w − wy)p for each outcome."""
    outcomes = np.ascontiguousarray(np.atleast_2d(wy), np.float64)
    apart = np.diff(p, prepend=p[0]) / -SCALE
    decay, fresh = np.exp(apart), np.ones(len(p))
    fresh[:-1] = -np.expm1(2.0 * apart[1:])
    squares = np.empty(len(outcomes))

    def work(start: int, stop: int) -> None:
        laplace_norms(p, w, outcomes, decay, fresh, of_hits, of_misses, squares, start, stop)

    over_rows(work, len(outcomes), outcomes.size)
    norms = np.sqrt(squares)
    return norms if wy.ndim == 2 else norms[0]


def sweep_ece(p: np.ndarray, w: np.ndarray, wy: np.ndarray, order: float = 1.0) -> np.ndarray:
    """(Σ_b share_b |ȳ_b − p̄_b|^order)^(1/order) over b* equal-mass bins."""
    return _swept(p, w, wy, order)[1]


def sweep_bins(p: np.ndarray, w: np.ndarray, wy: np.ndarray) -> np.ndarray:
    """b*, the number of bins before coinciding cuts are merged."""
    return _swept(p, w, wy, 1.0)[0]


def _swept(p: np.ndarray, w: np.ndarray, wy: np.ndarray, order: float) -> tuple[np.ndarray, np.ndarray]:
    """b* and the error for each outcome."""
    outcomes = np.ascontiguousarray(np.atleast_2d(wy), np.float64)
    below, mass, expected = w.cumsum(), _prefix(w), _prefix(w * p)
    bins, errors = np.empty(len(outcomes), np.int64), np.empty(len(outcomes))

    def work(start: int, stop: int) -> None:
        hits = np.empty(len(p) + 1)
        for r in range(start, stop):
            prefix_sums(outcomes[r], hits)
            bins[r] = rising_bins(below, mass, hits, MOST_BINS)
            errors[r] = binned_gap(below, mass, expected, hits, bins[r], order)

    over_rows(work, len(outcomes), outcomes.size)
    return (bins, errors) if wy.ndim == 2 else (bins[0], errors[0])


def _prefix(values: np.ndarray) -> np.ndarray:
    out = np.empty(len(values) + 1)
    prefix_sums(values, out)
    return out


def cutoff_error(p: np.ndarray, w: np.ndarray, wy: np.ndarray, threshold: float = 0.0) -> np.ndarray:
    """max over intervals I of |Σ_{p_k in I} (w_k p_k − wy_k)|/Σw, of the runs with p ≥ threshold.

    It is the range of the running sums, zero included (Kuiper's statistic): I from the lowest to the highest of them.
    """
    gap = np.where(p >= threshold, w * p - wy, 0.0)
    np.cumsum(gap, axis=-1, out=gap)
    return (np.maximum(gap.max(axis=-1), 0.0) - np.minimum(gap.min(axis=-1), 0.0)) / w.sum()


def two_bin_error(p: np.ndarray, w: np.ndarray, wy: np.ndarray) -> np.ndarray:
    """∫₀¹ (Σ_{p_k < q} g_k)² + (Σ_{p_k ≥ q} g_k)² dq/(Σw)² with the gaps g = w p − wy.

    Between two neighbouring p the sums are constant, so that the integral is a sum over runs.
    """
    gap = w * p - wy
    np.cumsum(gap, axis=-1, out=gap)
    total = gap[..., -1:]
    width = np.diff(np.append(p, 1.0))
    inside = ((gap**2 + (total - gap) ** 2) * width).sum(axis=-1)
    return (inside + p[0] * total[..., 0] ** 2) / w.sum() ** 2
