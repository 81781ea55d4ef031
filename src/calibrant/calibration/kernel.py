"""Maximum mean calibration errors (Kumar, Sarawagi & Jain 2018), exact in one sweep over runs.

MMCE² = Σ_ij d_i d_j k(p_i, p_j)/N² with d = y − p and the Laplace kernel k(a, b) = exp(−|a − b|/0.4). The kernel
depends on p alone, so that Σd of each run is all it takes. It is also the covariance of a Markov process, hence the
double sum is a sum of squares over a first-order recurrence: no pairs are formed and nothing cancels.
"""

from __future__ import annotations

import numpy as np

from calibrant.kernels.jit import over_rows
from calibrant.kernels.loops.kernel_error import laplace_norms

SCALE = 0.4
"""Distance over which the kernel falls by a factor e, as in the paper."""


def mmce(p: np.ndarray, w: np.ndarray, wy: np.ndarray) -> np.ndarray:
    """(Σ_ij w_i w_j d_i d_j k(p_i, p_j))^½/Σw."""
    rate = np.full(len(np.atleast_2d(wy)), 1.0 / w.sum())
    return _norm(p, w, wy, rate, rate)


def weighted_mmce(p: np.ndarray, w: np.ndarray, wy: np.ndarray) -> np.ndarray:
    """The class-balanced form: hits add (1 − p)/Σ_hits w each, misses −p/Σ_misses w, and k joins every pair of them.

    Where there are only hits or only misses, their term alone is left. An outcome y between 0 and 1 is a hit of weight
    wy and a miss of weight w(1 − y).
    """
    hits = np.atleast_2d(wy).sum(axis=-1)
    misses = (w - np.atleast_2d(wy)).sum(axis=-1)
    return _norm(p, w, wy, _inverse(hits), _inverse(misses))


def _inverse(mass: np.ndarray) -> np.ndarray:
    """1/mass, 0 where there is none."""
    return np.divide(1.0, mass, out=np.zeros_like(mass), where=mass > 0)


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
