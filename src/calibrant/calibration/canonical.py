"""The calibration error of the whole predicted distribution, by Dirichlet kernels.

CE_p = (E ‖f(X) − P(Y | f(X))‖_p^p)^(1/p), with P(Y | f(X) = p_j) estimated from the other rows:

    Ê_j = Σ_{i≠j} k(p_j; p_i) e_{y_i} / Σ_{i≠j} k(p_j; p_i),   k(·; p_i) the Dirichlet density of α = p_i/h + 1.

The bandwidth h maximises the leave-one-out likelihood of the predictions over a grid. Reference: Popordanoska, Sayer &
Blaschko (2022), NeurIPS 35: 7933-7946.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp, softmax

from calibrant.intervals import NONE, Interval
from calibrant.kernels.dirichlet import dirichlet_log_likelihood, dirichlet_redrawn
from calibrant.kernels.kernel_pairs import redrawn_labels
from calibrant.kernels.resampling import CANONICAL

BANDWIDTHS = np.logspace(-5.0, 0.0, 21)
"""Four per decade, from a fit for very confident predictions to a nearly flat kernel."""
MOST_FOR_BANDWIDTH = 5000
"""Maximum number of rows for choosing the bandwidth: more hardly change it."""
PAIR_DRAWS = 1e11
FEWEST_DRAWS = 100
SMALLEST = 1e-12
SHARES = (0.5, 1.0, 1.5, 2.5)
"""Fractions of the fitted power at which labels are drawn for the interval; 0 is the calibrated model."""
FURTHER = 1.5
"""Multiple of the estimated gaps for the second law of the kernel profile."""
NEAREST, FARTHEST = 0.1, 3.0
"""Logarithms of powers: the smallest and the largest to consider."""
MOST_OFFSETS, RIDGE = 100, 1e-4
"""Maximum number of classes with an offset each; and the ridge penalty that bounds those of empty classes."""
GRID = 2001


def bandwidth_of(p: np.ndarray, threads: int | None = None) -> float:
    """The bandwidth of the grid with the highest leave-one-out likelihood; the first of equals.

    With many rows, only every second, third … row is used.
    """
    few = np.ascontiguousarray(p[:: -(-len(p) // MOST_FOR_BANDWIDTH)])
    return float(BANDWIDTHS[int(np.argmax(dirichlet_log_likelihood(few, BANDWIDTHS, threads)))])


def gaps_to_error(p: np.ndarray, expected: np.ndarray, order: float) -> float:
    """(mean_j ‖p_j − Ê_j‖_p^p)^(1/p)."""
    return float(np.mean(np.sum(np.abs(p - expected) ** order, axis=1)) ** (1.0 / order))


def replicates_of(n: int, requested: int) -> int:
    """The number of replicates: as requested, or fewer if there are many pairs."""
    return int(min(requested, max(FEWEST_DRAWS, PAIR_DRAWS / n**2)))


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


@dataclass(frozen=True)
class Profile:
    """Laws at increasing distance from the predictions, each with its true error θ."""

    errors: list[float]
    laws: list[np.ndarray]

    @classmethod
    def of(cls, p: np.ndarray, laws: list[np.ndarray], order: float) -> Profile:
        """With the error of each law."""
        return cls([gaps_to_error(p, law, order) for law in laws], laws)


def scaled(p: np.ndarray, power: float, offsets: np.ndarray) -> np.ndarray:
    """p^power·e^offsets, normalised."""
    return softmax(power * np.log(np.maximum(p, SMALLEST)) + offsets, axis=1)


def best_scaling(p: np.ndarray, y: np.ndarray, free: int) -> tuple[float, np.ndarray]:
    """log b and a (C,) under which the labels are most probable given p^b·e^a, the first `free` of a being free.

    Both are 0 for a calibrated model, up to noise.
    """
    from scipy.optimize import minimize

    logs, classes = np.log(np.maximum(p, SMALLEST)), p.shape[1]
    counts = np.bincount(y, minlength=classes) / len(y)
    chosen = float(logs[np.arange(len(y)), y].mean())

    def loss(at: np.ndarray) -> tuple[float, np.ndarray]:
        power, offsets = math.exp(at[0]), np.append(at[1:], np.zeros(classes - free))
        scores = power * logs + offsets
        law = softmax(scores, axis=1)
        value = float(logsumexp(scores, axis=1).mean()) - power * chosen - float(counts @ offsets)
        slope = power * (float(np.einsum("nc,nc->n", law, logs).mean()) - chosen)
        by_offset = (law.mean(axis=0) - counts)[:free] + RIDGE * at[1:]
        return value + RIDGE / 2 * float(at[1:] @ at[1:]), np.append(slope, by_offset)

    bounds = [(-FARTHEST, FARTHEST)] * (1 + free)
    found = minimize(loss, np.zeros(1 + free), jac=True, bounds=bounds, method="L-BFGS-B", options={"maxiter": 50}).x
    return float(found[0]), np.append(found[1:], np.zeros(classes - free))


def profiles_of(p: np.ndarray, y: np.ndarray, expected: np.ndarray, order: float) -> list[Profile]:
    """Three fits of miscalibration: of confidence, of confidence and classes, and the estimate of the kernels."""
    classes = p.shape[1]
    alone, none = best_scaling(p, y, 0)
    step = math.copysign(max(abs(alone), NEAREST), alone)
    profiles = [[scaled(p, math.exp(step * share), none) for share in SHARES]]
    if classes <= MOST_OFFSETS:
        log_power, offsets = best_scaling(p, y, classes)
        profiles.append([scaled(p, math.exp(log_power * share), offsets * share) for share in SHARES])
    beyond = np.maximum(p + FURTHER * (expected - p), 0.0)
    profiles.append([expected, beyond / beyond.sum(axis=1, keepdims=True)])
    return [Profile.of(p, laws, order) for laws in profiles]


def inverted(
    value: float, null: np.ndarray, drawn: Sequence[tuple[Profile, Sequence[np.ndarray]]], level: float
) -> Interval:
    """The union, over profiles, of true errors θ for which the observed value is neither too large nor too small.

    Quantiles of the estimate are interpolated linearly in θ between the laws that labels were drawn from.
    """
    kept, tails = [], (0.5 - level / 2, 0.5 + level / 2)
    for profile, estimates in drawn:
        errors = np.array([0.0, *profile.errors])
        order, fine = np.argsort(errors, kind="stable"), np.linspace(0.0, errors.max(), GRID)
        ends = np.array([np.quantile(found, tails) for found in (null, *estimates)])[order]
        low, high = (np.interp(fine, errors[order], ends[:, k]) for k in (0, 1))
        kept.append(fine[(low <= value) & (value <= high)])
    found = np.concatenate(kept)
    return Interval(float(found.min()), float(found.max()), "test-inversion") if len(found) else NONE
