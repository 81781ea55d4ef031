"""Vector scaling: softmax(w∘ℓ + b), a slope w_c and an intercept b_c for each class, of the largest likelihood.

ℓ are the log-probabilities. The likelihood is concave in (w, b), so that there is one optimum; it has no penalty. Of
two classes it is beta calibration without a sign for its slopes. Guo, Pleiss, Sun & Weinberger (2017), On calibration
of modern neural networks, ICML.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import log_softmax

from calibrant.recalibration.class_rows import ClassMap, ClassRecalibrator, ClassRows
from calibrant.recalibration.linear_maps import TOLERANCE, DiagonalLoss, told
from calibrant.recalibration.report import Fit


@dataclass(frozen=True)
class VectorMap(ClassMap):
    """w∘ℓ + b, normalised."""

    slopes: np.ndarray
    intercepts: np.ndarray

    def __post_init__(self) -> None:
        for each in (self.slopes, self.intercepts):
            if each.ndim != 1 or each.shape != self.slopes.shape or not np.isfinite(each).all():
                raise ValueError("a slope and an intercept for each class")

    def is_for(self, classes: int) -> bool:
        """Whether there is a slope for each class."""
        return len(self.slopes) == classes

    def apply(self, logs: np.ndarray) -> np.ndarray:
        """log softmax(w∘ℓ + b)."""
        return log_softmax(logs * self.slopes + self.intercepts, axis=-1)

    @property
    def n_parameters(self) -> int:
        """A slope and an intercept for each class."""
        return 2 * len(self.slopes)

    @property
    def injective(self) -> bool:
        """Whether all slopes have one sign, or just one of them is zero.

        Two predictions with ℓ − ℓ' = δ have one image iff w∘δ = k1 for some number k, and δ ≠ 0 is a difference of two
        predictions iff it has entries of both signs: only then has Σ p e^(−δ) = Σ p a solution. With no slope zero,
        δ = k/w has both signs iff w has. With one zero, k is 0 and δ differs from 0 in one entry alone; with two, in
        two, which can be chosen of both signs.
        """
        zero = self.slopes == 0.0
        small = np.abs(self.slopes) <= TOLERANCE * np.abs(self.slopes).max()
        if (small & ~zero).any() or zero.sum() > 1:
            return False
        return bool(zero.any() or (self.slopes > 0).all() or (self.slopes < 0).all())

    @property
    def keeps_order(self) -> bool:
        """Whether all classes have the same slope, above 0, and the same intercept."""
        return bool(self.slopes[0] > 0 and np.ptp(self.slopes) == 0 and np.ptp(self.intercepts) == 0)


@dataclass(eq=False, kw_only=True)
class VectorScaling(ClassRecalibrator):
    """A slope and an intercept for each class. The predicted class can change."""

    name = "vector"
    title = "Vector scaling"
    reference = "Guo, Pleiss, Sun & Weinberger (2017), On calibration of modern neural networks, ICML"
    map_class = VectorMap
    promises_accuracy = False

    def fit_rows(self, rows: ClassRows, threads: int | None) -> tuple[VectorMap, Fit]:
        """The slopes and intercepts of the largest likelihood."""
        loss = DiagonalLoss(*rows_of(rows, rows.logs), penalty=np.zeros(2 * rows.classes))
        found = loss.least()
        slopes, intercepts = found.theta.reshape(2, -1)
        made = VectorMap(slopes.copy(), intercepts - intercepts.mean())
        held = np.asarray(loss.held(found).reshape(2, -1).any(axis=0))
        return made, told(rows, found, rows.nll(made.apply(rows.logs)), held, slopes)


def rows_of(rows: ClassRows, features: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(features, labels, shares) of the rows that count."""
    counted = rows.shares > 0
    if counted.all():
        return features, rows.labels, rows.shares
    return features[counted], rows.labels[counted], rows.shares[counted]
