"""Isotonic calibration of all classes by one function, which leaves the order of classes as it is.

All pairs (p_ik, 1{y_i = k}) of rows i and classes k make one rising fit f (see `isotonic`); g = (1 − ε)·f + ε·p rises
strictly, and the rows g(p_k) are divided by their sum. The order of the classes of a row stays, and with it the
predicted class. The map is injective: if rows p and p' had one image, g(p_k) = s·g(p'_k) for all k with, say, s ≥ 1;
then g(p_k) ≥ g(p'_k), so that p_k ≥ p'_k for all k, and as both sum to one they are equal.

Interpolation is in p, which is 1 in double precision beyond 1 − 1e-16: no order is lost there, since two classes of a
row cannot both be near 1. The class that was predicted stays so by a margin of a few units in the last place where
rounding would lose it. Values 0 do not come out, since p > 0 and ε > 0: the NLL of new rows is finite, if perhaps high.
Predictions that are kept in single precision may lose an order that ε·(p_k − p_j) upholds: do not choose ε too small.

Zhang, Kailkhura & Han (2020), Mix-n-Match: ensemble and compositional methods for uncertainty calibration in deep
learning, ICML (there IRM).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import log_softmax

from calibrant.recalibration.base import option
from calibrant.recalibration.class_rows import ClassMap, ClassRecalibrator, ClassRows
from calibrant.recalibration.isotonic import rising_points
from calibrant.recalibration.one_vs_rest import Said, brier_fit, pairs_made
from calibrant.recalibration.report import Fit

FEW_ROWS = 100
"""Rows that a free curve should have."""
MARGIN = 4e-15
"""By how much, relative to max(1, |log g|), the predicted class is above those before it."""


@dataclass(frozen=True)
class MulticlassIsotonicMap(ClassMap):
    """The points (x, values) of f, and the share ε of the identity."""

    x: np.ndarray
    values: np.ndarray
    identity: float

    injective: ClassVar[bool] = True
    keeps_order: ClassVar[bool] = True

    def __post_init__(self) -> None:
        x, values = self.x, self.values
        if x.ndim != 1 or x.shape != values.shape or not x.size or not (np.diff(x) > 0).all():
            raise ValueError("points that do not rise")
        if not ((np.diff(values) >= 0).all() and values[0] >= 0.0 and values[-1] <= 1.0):
            raise ValueError("values that do not rise from 0 to 1")
        if not 0.0 < self.identity <= 1.0:
            raise ValueError(f"a share of {self.identity} of the identity")

    @property
    def n_parameters(self) -> int:
        """The number of points."""
        return len(self.values)

    def apply(self, logs: np.ndarray) -> np.ndarray:
        """log g(p_k), normalised."""
        p = np.exp(logs)
        fitted = np.interp(p, self.x, self.values)
        return log_softmax(kept_on_top(np.log((1.0 - self.identity) * fitted + self.identity * p), logs), axis=1)


def kept_on_top(out: np.ndarray, logs: np.ndarray) -> np.ndarray:
    """out (n, C), the first of the highest of logs being above what stands before it, should rounding hide that."""
    top, at = logs.argmax(axis=1), np.arange(len(logs))
    before = np.where(np.arange(logs.shape[1]) < top[:, None], out, -np.inf).max(axis=1)
    highest = out.max(axis=1)
    margin = MARGIN * np.maximum(1.0, np.abs(highest))
    low = (out[at, top] < before + margin) | (out[at, top] < highest)
    out[at[low], top[low]] = (highest + margin)[low]
    return out


@dataclass(eq=False, kw_only=True)
class MulticlassIsotonic(ClassRecalibrator):
    """One rising function for the probabilities of all classes. It keeps every ranking of classes."""

    name = "isotonic_multiclass"
    title = "Isotonic, order of classes kept"
    reference = "Zhang, Kailkhura & Han (2020), Mix-n-Match, ICML"
    map_class = MulticlassIsotonicMap
    promises_accuracy = True
    identity: float = option(1e-3, "share of the identity that makes the fit rise strictly", at_least=1e-9, at_most=1.0)

    def fit_rows(self, rows: ClassRows, threads: int | None) -> tuple[MulticlassIsotonicMap, Fit]:
        """The rising fit of all pairs of rows and classes."""
        kept = rows.shares > 0
        hits = np.arange(rows.classes) == rows.labels[kept, None]
        shares = np.broadcast_to(rows.shares[kept, None], hits.shape)
        x, values = rising_points(pairs_made(rows, rows.logs[kept].ravel(), hits.ravel(), shares.ravel()))
        made = MulticlassIsotonicMap(x, values, self.identity)
        return made, brier_fit(rows, np.exp(made.apply(rows.logs)), _few_notes(int(kept.sum())))


def _few_notes(n: int) -> Said:
    if n >= FEW_ROWS:
        return ()
    said = f"{n} rows are few for a free curve; a method with few parameters, temperature, needs fewer"
    return (("few-rows", said),)
