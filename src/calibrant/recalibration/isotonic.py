"""Isotonic calibration: the rising step function of P(class) that has the least Brier score on the fitted rows.

Rows of equal probability are averaged first; neighbours that would fall are pooled, with the weights of rows (Ayer et
al. 1955); between the fitted points g is linear and beyond them constant, as scikit-learn's
IsotonicRegression(out_of_bounds="clip") predicts, with which it agrees. Several classes: see `one_vs_rest`.

Since the identity rises too, the Brier score of each class alone cannot be worse than before on the fitted rows; that
of the rows divided by their sums nearly always falls as well, and a note says where it does not.

ends="fitted" leaves values 0 and 1, which stand wherever the lowest rows are all misses, or the highest all hits.
ends="inside" adds two pseudo-rows, a hit at the lowest probability and a miss at the highest, each as heavy as a
typical row, so that all values lie between 0 and 1 and the NLL of new rows is finite.

Zadrozny & Elkan (2002), Transforming classifier scores into accurate multiclass probability estimates, KDD.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant.kernels.isotonic import rising_fit
from calibrant.recalibration.base import option
from calibrant.recalibration.class_rows import ClassRecalibrator, ClassRows
from calibrant.recalibration.one_vs_rest import (
    ENDS,
    OneVsRestMap,
    Pairs,
    brier_fit,
    check_pieces,
    class_notes,
    curved_classes,
    cut,
    end_notes,
    pairs_of,
    piece,
)
from calibrant.recalibration.report import Fit


def rising_points(pairs: Pairs) -> tuple[np.ndarray, np.ndarray]:
    """The points (x, g(x)) between which the rising fit is linear: the two ends of each run of equal values."""
    x, mass, hits = pairs.by_score()
    fit = np.clip(rising_fit(mass, hits), 0.0, 1.0)
    kept = np.ones(len(x), bool)
    kept[1:-1] = (fit[1:-1] != fit[:-2]) | (fit[1:-1] != fit[2:])
    return x[kept], fit[kept]


def with_pseudo_rows(pairs: Pairs) -> Pairs:
    """The pairs and a hit at the lowest score, a miss at the highest."""
    ends = [pairs.scores.min(), pairs.scores.max()]
    return Pairs(
        np.append(pairs.scores, ends), np.append(pairs.hits, [1.0, 0.0]), np.append(pairs.shares, [pairs.one_row] * 2)
    )


@dataclass(frozen=True)
class IsotonicMap(OneVsRestMap):
    """The points of each curve, end to end: x rises within a curve, and so do values."""

    x: np.ndarray
    values: np.ndarray
    sizes: np.ndarray

    def __post_init__(self) -> None:
        check_pieces(self.sizes, self.x, self.values)
        for x, values in zip(cut(self.x, self.sizes), cut(self.values, self.sizes), strict=True):
            if not ((np.diff(x) > 0).all() and (np.diff(values) >= 0).all() and 0.0 <= values[0] <= values[-1] <= 1.0):
                raise ValueError("a curve that does not rise from 0 to 1")

    def curve(self, number: int, scores: np.ndarray) -> np.ndarray:
        """Linear between the points, constant beyond them."""
        return np.interp(scores, piece(self.x, self.sizes, number), piece(self.values, self.sizes, number))


@dataclass(eq=False, kw_only=True)
class IsotonicCalibration(ClassRecalibrator):
    """A rising function of the probability of each class. It needs many rows, and predicts 0 and 1."""

    name = "isotonic"
    title = "Isotonic calibration"
    reference = (
        "Zadrozny & Elkan (2002), Transforming classifier scores into accurate multiclass probability estimates, KDD"
    )
    map_class = IsotonicMap
    promises_accuracy = False
    ends: str = option("fitted", "values 0 and 1 as they are fitted, or kept inside by two pseudo-rows", choices=ENDS)

    def fit_rows(self, rows: ClassRows, threads: int | None) -> tuple[IsotonicMap, Fit]:
        """The rising fit of each class."""
        points = []
        for k in curved_classes(rows.classes):
            pairs = pairs_of(rows, k)
            points.append(rising_points(with_pseudo_rows(pairs) if self.ends == "inside" else pairs))
        made = IsotonicMap(
            x=np.concatenate([x for x, _ in points]),
            values=np.concatenate([values for _, values in points]),
            sizes=np.array([len(x) for x, _ in points], np.float64),
        )
        return made, brier_fit(rows, made.apply(rows.logs), class_notes(rows) + end_notes(made.values))
