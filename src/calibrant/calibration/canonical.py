"""The calibration error of the whole predicted distribution, by Dirichlet kernels.

CE_p = (E ‖f(X) − P(Y | f(X))‖_p^p)^(1/p), with P(Y | f(X) = p_j) estimated from the other rows:

    Ê_j = Σ_{i≠j} k(p_j; p_i) e_{y_i} / Σ_{i≠j} k(p_j; p_i),   k(·; p_i) the Dirichlet density of α = p_i/h + 1.

The bandwidth h maximises the leave-one-out likelihood of the predictions over a grid. Reference: Popordanoska, Sayer &
Blaschko (2022), NeurIPS 35: 7933-7946.
"""

from __future__ import annotations

import numpy as np

from calibrant.intervals import NONE, Interval
from calibrant.kernels.dirichlet import dirichlet_log_likelihood, dirichlet_redrawn
from calibrant.kernels.pairwise import redrawn_labels
from calibrant.kernels.resampling import CANONICAL

BANDWIDTHS = np.logspace(-5.0, 0.0, 21)
"""Four a decade, from what fits very confident predictions to a kernel that is nearly flat."""
MOST_FOR_BANDWIDTH = 5000
"""Rows from which the bandwidth is chosen: more hardly move it."""
PAIR_DRAWS = 8e9
FEWEST_DRAWS = 100


def bandwidth_of(p: np.ndarray, threads: int | None = None) -> float:
    """The bandwidth of the grid with the highest leave-one-out likelihood; the first of equals.

    Of many rows, every second, third … in their order is taken.
    """
    few = np.ascontiguousarray(p[:: -(-len(p) // MOST_FOR_BANDWIDTH)])
    return float(BANDWIDTHS[int(np.argmax(dirichlet_log_likelihood(few, BANDWIDTHS, threads)))])


def gaps_to_error(p: np.ndarray, expected: np.ndarray, order: float) -> float:
    """(mean_j ‖p_j − Ê_j‖_p^p)^(1/p)."""
    return float(np.mean(np.sum(np.abs(p - expected) ** order, axis=1)) ** (1.0 / order))


def replicates_of(n: int, wanted: int) -> int:
    """How often labels are redrawn: as wanted, less often where n² pairs are many."""
    return int(min(wanted, max(FEWEST_DRAWS, PAIR_DRAWS / n**2)))


def redrawn_errors(
    p: np.ndarray,
    truth: np.ndarray,
    bandwidth: float,
    order: float,
    *,
    replicates: int,
    seed: int,
    purpose: int = CANONICAL,
    threads: int | None = None,
) -> np.ndarray:
    """The error (R,) of labels that are drawn from `truth` (N, C)."""
    labels = redrawn_labels(truth, replicates, seed, purpose, threads)
    return dirichlet_redrawn(p, labels, bandwidth, order, threads) ** (1.0 / order)


def inverted(value: float, null: np.ndarray, fitted: np.ndarray, level: float) -> Interval:
    """The true errors θ for which the observed one is neither too large nor too small.

    At θ = 0 labels are drawn from the predictions, at θ = value from Ê; quantiles of the estimate are taken to be
    linear in θ between them and beyond. Ê is smooth, so a truth that is not may be larger than the interval says.
    """
    tails = (0.5 - level / 2, 0.5 + level / 2)
    if not value > 0:
        return NONE

    def reach(tail: float) -> float:
        at_zero, at_value = (float(np.quantile(drawn, tail)) for drawn in (null, fitted))
        if at_value <= at_zero:
            return value
        return max(0.0, value * (value - at_zero) / (at_value - at_zero))

    low = 0.0 if value <= float(np.quantile(null, tails[1])) else reach(tails[1])
    return Interval(low, max(low, reach(tails[0])), "test-inversion")
