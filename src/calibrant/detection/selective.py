"""Selective prediction: the errors that remain when a model abstains on the most uncertain rows.

Rows are sorted by rising uncertainty u; e in [0, 1] is the error of a row (1 − hit; soft labels give shares). Rows of
equal u are in random order, and all values are exact expectations over it: within ties, errors grow linearly.

- AURC: mean over i = 1 … N of the error rate of the i most certain rows.
- e-AURC: AURC less that of the best order, errors rising.
- AAC: area between 1 and the accuracy-rejection curve, ∫₀¹ (1 − accuracy of the share 1 − r of most certain mass) dr,
  a row being split where the share ends within it.

With E the errors among the mass x of most certain rows, AURC is the mean of E(x)/x over x = 1, 2, … N and AAC over all
x from 0 to N. A run of equal u from mass a to b with mean error m adds (b − a)m + (E(a) − am)·L to both sums, with
L = H(b) − H(a) of harmonic numbers in AURC and L = log(b/a) in AAC: they differ by a half row in each step.

Weights: AAC does not depend on their unit and repeated rows are the same as weights. AURC counts in rows: its mass is
scaled to a total of n_eff = (Σw)²/Σw², with H(x) = ψ(x + 1) + γ between whole numbers. Equal weights of any size are
then no weights, but a row of weight 2 is not two rows; nor has every row, doubled, the same AURC as before.

References: Geifman, Uziel & El-Yaniv (2019), "Bias-reduced uncertainty estimation for deep neural classifiers"; Nadeem,
Zucker & Hanczar (2009), "Accuracy-rejection curves (ARCs) for comparing classification methods with a reject option".
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from calibrant.detection.ordering import relative
from calibrant.kernels.loops import detection as loops
from calibrant.kernels.ordering import order_of


class Areas(NamedTuple):
    """AURC, its excess over the best order, and the area above the accuracy-rejection curve; NaN without weight."""

    aurc: float
    e_aurc: float
    aac: float


class _Sorted(NamedTuple):
    """Rows by rising uncertainty; error = levels[rank]; the masses sum to the effective number of rows."""

    error: np.ndarray
    tied: np.ndarray
    rank: np.ndarray
    levels: np.ndarray
    mass: np.ndarray


def selective_areas(uncertainty: np.ndarray, error: np.ndarray, weights: np.ndarray | None = None) -> Areas:
    """All three from one sort; uncertainties may be infinite but not NaN."""
    rows = _sorted(uncertainty, error, weights)
    out = np.empty(len(Areas._fields))
    loops.selective(*rows, out)
    return Areas(*out.tolist())


def aurc(uncertainty: np.ndarray, error: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Mean over i of the error rate of the i most certain rows."""
    return selective_areas(uncertainty, error, weights).aurc


def e_aurc(uncertainty: np.ndarray, error: np.ndarray, weights: np.ndarray | None = None) -> float:
    """AURC less that of the best order, in which errors rise."""
    return selective_areas(uncertainty, error, weights).e_aurc


def aac(uncertainty: np.ndarray, error: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Area above the accuracy-rejection curve."""
    return selective_areas(uncertainty, error, weights).aac


def rejection_curve(
    uncertainty: np.ndarray, error: np.ndarray, weights: np.ndarray | None = None, points: int = 101
) -> tuple[np.ndarray, np.ndarray]:
    """Shares rejected, evenly from 0 to 1, and the accuracy of the retained rows.

    Where all rows are rejected it is the limit: the accuracy of the most certain rows.
    """
    rows = _sorted(uncertainty, error, weights)
    rejected = np.linspace(0.0, 1.0, points)
    mass = rows.mass.cumsum()
    ends = np.flatnonzero(~rows.tied & (mass > 0.0))
    if ends.size == 0:
        return rejected, np.full(points, np.nan)
    wrong = (rows.mass * rows.error).cumsum()
    return rejected, accuracy_of_kept(rejected[::-1], mass[ends], wrong[ends])  # 1 − r without its rounding


def accuracy_of_kept(share: np.ndarray, mass: np.ndarray, wrong: np.ndarray) -> np.ndarray:
    """The accuracy of each share of the most certain mass; where the share is 0, that of the most certain rows.

    mass, wrong: weight, and weight of errors, up to the end of each run of equal uncertainty, rising.
    """
    kept, errors = np.append(0.0, mass / mass[-1]), np.append(0.0, wrong / mass[-1])
    rate = np.full(len(share), wrong[0] / mass[0])
    rate[share > 0.0] = np.interp(share[share > 0.0], kept, errors) / share[share > 0.0]
    return 1.0 - rate


def _sorted(uncertainty: np.ndarray, error: np.ndarray, weights: np.ndarray | None) -> _Sorted:
    uncertainty, error = np.asarray(uncertainty, np.float64), np.asarray(error, np.float64)
    order, tied = order_of(uncertainty, error, weights)
    error, w = error[order], relative(weights, len(order))[order]
    squares = float((w * w).sum())
    mass = w * (float(w.sum()) / squares) if squares > 0.0 else w
    if ((error == 0.0) | (error == 1.0)).all():  # the rank of each error among the distinct ones, without a sort
        rank, levels = error.astype(np.int64), np.array([0.0, 1.0])
    else:
        levels, rank = np.unique(error, return_inverse=True)
    return _Sorted(error, tied, rank.astype(np.int64), levels, mass)
