"""Spline calibration: the calibration gap of the cumulative curve is smoothed by a cubic spline, and its slope added.

Scores s in ascending order lie at fractiles t in [0, 1], the share of rows up to them. With H(t) the cumulative share
of hits and P(t) that of scores, calibrated scores have H = P, and the KS error is max |H − P|. A natural cubic spline D
with few evenly spaced knots and D(0) = 0 is fitted to H − P by least squares at the ends of runs of equal scores. The
calibrated probability of a score is s plus the slope of D, clipped to [0, 1]: for a fitted score the mean slope over
its rows, which depends on D at the ends of the run alone; linear between fitted scores. Within long runs H − P is a
straight line, to which points of small weight are added, so that D does not oscillate there.

curve="gap" is this, the method of the authors' program: D = 0 is among the splines, so that the mean squared gap of the
fitted rows cannot rise. curve="hits" is the method of their text: a spline is fitted to H, and its slope alone is the
calibrated probability, whatever the score. With few knots it is coarse where the scores change fast.

of="top" replaces the probability of the predicted class, and the others share the rest in proportion. Where the
predicted class would fall behind another, its probability is raised to just above that: it stays the predicted class,
whose probability was calibrated. of="classes" makes a curve for each class (see `one_vs_rest`), which may change the
predicted class. With two classes, and for judged answers, P(class 1) is mapped. The slope of D need not be positive:
the map is not known to be injective, nor, with two classes, to keep the predicted class.

Gupta, Rahimi, Ajanthan, Mensink, Sminchisescu & Hartley (2021), Calibration of neural networks using splines, ICLR.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.special import logsumexp

from calibrant.kernels.exact import exact_sum
from calibrant.recalibration.base import option
from calibrant.recalibration.class_rows import ClassRecalibrator, ClassRows
from calibrant.recalibration.fit_report import FitReport, Messages
from calibrant.recalibration.methods.one_vs_rest import (
    ENDS,
    OneVsRestMap,
    ScoredRows,
    brier,
    check_curves,
    class_messages,
    curve_classes,
    curve_part,
    end_messages,
    split_curves,
)

OF = ("top", "classes")
CURVES = ("gap", "hits")
MAX_SCORES = 2048
"""Scores whose fractiles are stored for each curve, at most; fractiles between them are interpolated."""
POINTS_PER_KNOT = 16.0 / 3.0
"""Points that are fitted for each knot, at least."""
INNER_WEIGHT = 0.01
"""The weight of the points inside a run of equal scores, relative to its end."""
NARROW = 1e-6
"""A share of rows over which D has one slope."""
ABOVE = 1e-12
"""By how much the predicted class stays above the next."""


# ----------------------------------------------------------------------------------------------- curves
@dataclass(frozen=True)
class CumulativeCurve:
    """The cumulative curve of scored rows, at the ends of runs of equal scores."""

    scores: np.ndarray
    mass: np.ndarray
    hits: np.ndarray

    @property
    def ends(self) -> np.ndarray:
        """The fractile at which each run of scores ends."""
        return np.minimum(self.mass.cumsum(), 1.0)

    @property
    def gap(self) -> np.ndarray:
        """H − P."""
        return (self.hits - self.mass * self.scores).cumsum()

    def runs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Scores, and the fractiles at which their rows start and end; an evenly spread selection if there are many."""
        ends = self.ends
        starts = np.append(0.0, ends[:-1])
        if len(ends) <= MAX_SCORES:
            return self.scores, starts, ends
        middle = (starts + ends) / 2.0
        rows = np.searchsorted(middle, np.linspace(middle[0], middle[-1], MAX_SCORES))
        rows = np.unique(np.append(rows.clip(0, len(middle) - 1), len(middle) - 1))
        return self.scores[rows], starts[rows], ends[rows]

    def spline(self, target: np.ndarray, knots: int) -> tuple[np.ndarray, float, float]:
        """The knot values of the least-squares natural cubic spline from 0, its squared error, and the squared gap.

        Within a run of equal scores the target is a straight line, on which a long run has several points.
        """
        parts = np.maximum(1, np.ceil(self.mass * knots * POINTS_PER_KNOT)).astype(np.int64)
        run = np.repeat(np.arange(len(parts)), parts)
        share = (np.arange(len(run)) - (parts.cumsum() - parts)[run] + 1) / parts[run]
        weights = self.mass[run] * np.where(share == 1.0, 1.0, INNER_WEIGHT / parts[run])
        starts = [np.append(0.0, curve[:-1])[run] for curve in (self.ends, target, self.gap)]
        pairs = zip(starts, (self.ends, target, self.gap), strict=True)
        x, y, gap = (np.where(share == 1.0, end[run], start + share * (end[run] - start)) for start, end in pairs)
        basis = CubicSpline(np.linspace(0.0, 1.0, knots), np.eye(knots), bc_type="natural")(x)[:, 1:]
        root = np.sqrt(weights)
        values = np.linalg.lstsq(basis * root[:, None], y * root, rcond=None)[0]
        after, before = (float(exact_sum(weights * np.square(error))) for error in (basis @ values - y, gap))
        return np.append(0.0, values), after, before


# -------------------------------------------------------------------------------------------------- map
@dataclass(frozen=True)
class SplineMap(OneVsRestMap):
    """Scores of each curve, end to end, the fractiles at which their rows start and end, and the spline's values
    (curves, knots) at its knots.

    margin: how far from 0 and 1 values are kept.
    """

    scores: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    sizes: np.ndarray
    values: np.ndarray
    of: str
    form: str
    margin: float

    def __post_init__(self) -> None:
        check_curves(self.sizes, self.scores, self.starts, self.ends)
        if self.values.ndim != 2 or self.values.shape[1] < 2 or not np.isfinite(self.values).all():
            raise ValueError(f"values must be finite, (curves, knots), got shape {self.values.shape}")
        if len(self.values) != len(self.sizes) or self.of not in OF or self.form not in CURVES:
            raise ValueError("curves, of and form do not belong together")
        if not 0.0 <= self.margin < 0.5:
            raise ValueError(f"margin must be in [0, 0.5), got {self.margin}")
        if not all((np.diff(scores) > 0).all() for scores in split_curves(self.scores, self.sizes)):
            raise ValueError("scores must increase")
        if not ((self.starts >= 0.0) & (self.starts <= self.ends) & (self.ends <= 1.0)).all():
            raise ValueError("fractiles must increase from 0 to 1")

    def matches_classes(self, classes: int) -> bool:
        """Whether there is one curve of the predicted class, or one for each class."""
        return self.curves == 1 if self.of == "top" else super().matches_classes(classes)

    @property
    def n_parameters(self) -> int:
        """The values at the knots, of which the first is 0."""
        return int(self.values.size - len(self.values))

    @property
    def keeps_order(self) -> bool:  # type: ignore[override]
        """Whether the predicted class is raised where it would not stay predicted."""
        return self.of == "top"

    @cached_property
    def slopes(self) -> list[np.ndarray]:
        """The mean slope of each spline over the rows of each score."""
        out = []
        for number, values in enumerate(self.values):
            start, end = (curve_part(each, self.sizes, number) for each in (self.starts, self.ends))
            spline = CubicSpline(np.linspace(0.0, 1.0, len(values)), values, bc_type="natural")
            wide = end - start > NARROW
            mean = (spline(end) - spline(start)) / np.where(wide, end - start, 1.0)
            out.append(np.where(wide, mean, spline((start + end) / 2.0, 1)))
        return out

    def curve(self, number: int, scores: np.ndarray) -> np.ndarray:
        """The slope of the spline over the rows of each score, added to the score where the gap was fitted."""
        slope = np.interp(scores, curve_part(self.scores, self.sizes, number), self.slopes[number])
        return np.clip(slope + scores if self.form == "gap" else slope, self.margin, 1.0 - self.margin)

    def apply(self, log_probs: np.ndarray) -> np.ndarray:
        """Replace the probability of the predicted class, or of every class."""
        if self.of == "classes":
            return super().apply(log_probs)
        rows, top = np.arange(len(log_probs)), log_probs.argmax(axis=1)
        others = log_probs.copy()
        others[rows, top] = -np.inf
        out = np.exp(others - logsumexp(others, axis=1, keepdims=True))
        largest = out.max(axis=1)
        least = largest / (1.0 + largest) + ABOVE
        calibrated = np.clip(self.curve(0, np.exp(log_probs[rows, top])), least, 1.0)
        out *= (1.0 - calibrated)[:, None]
        out[rows, top] = calibrated
        return out


# ----------------------------------------------------------------------------------------------- method
@dataclass(eq=False, kw_only=True)
class SplineCalibration(ClassRecalibrator):
    """Add the slope of a smoothed cumulative calibration gap, for the predicted class or for each class.

    Parameters
    ----------
    knots : int
        The number of evenly spaced knots, including both ends.
    of : {"top", "classes"}
        With several classes: calibrate the predicted class, or each class against the rest.
    curve : {"gap", "hits"}
        Smooth cumulative hits minus scores, or cumulative hits.
    ends : {"fitted", "inside"}
        Whether values 0 and 1 stay as fitted, or are kept half a row inside.
    """

    name = "spline"
    title = "Spline calibration"
    reference = (
        "Gupta, Rahimi, Ajanthan, Mensink, Sminchisescu & Hartley (2021), Calibration of neural networks using "
        "splines, ICLR"
    )
    map_class = SplineMap
    promises_accuracy = False
    knots: int = option(6, "evenly spaced knots, including both ends", at_least=2, at_most=1000)
    of: str = option("top", "with several classes: the predicted class, or each against the rest", choices=OF)
    curve: str = option("gap", "what is smoothed: cumulative hits minus scores, or cumulative hits", choices=CURVES)
    ends: str = option("fitted", "values 0 and 1 as fitted, or kept half a row inside", choices=ENDS)

    def fit_rows(self, rows: ClassRows, threads: int | None) -> tuple[SplineMap, FitReport]:
        top = self.of == "top" and rows.classes > 2
        if top:
            counted = rows.row_weights > 0
            log_probs = rows.log_probs[counted]
            hits = log_probs.argmax(axis=1) == rows.labels[counted]
            scored = [ScoredRows.of(rows, log_probs.max(axis=1), hits, rows.row_weights[counted])]
        else:
            scored = [ScoredRows.of_class(rows, k) for k in curve_classes(rows.classes)]
        curves = [CumulativeCurve(*each.by_score()) for each in scored]
        splines = [each.spline(each.gap if self.curve == "gap" else each.hits.cumsum(), self.knots) for each in curves]
        runs = [curve.runs() for curve in curves]
        scores, starts, ends = (np.concatenate(each) for each in zip(*runs, strict=True))
        one_row = scored[0].typical_weight
        fitted = SplineMap(
            scores=scores, starts=starts, ends=ends, sizes=np.array([len(each[0]) for each in runs], np.float64),
            values=np.stack([values for values, _, _ in splines]), of="top" if top else "classes", form=self.curve,
            margin=0.5 * one_row / (1.0 + one_row) if self.ends == "inside" else 0.0,
        )  # fmt: skip
        before, after = sum(far for _, _, far in splines), sum(near for _, near, _ in splines)
        probs = fitted.apply(rows.log_probs)
        messages: Messages = () if top else class_messages(rows)
        fewest = int(fitted.sizes.min())
        if fewest < self.knots - 1:
            text = f"only {fewest} distinct scores for a spline of {self.knots} knots"
            messages += (("few-scores", f"{text}: each is mapped to about its observed frequency"),)
        if after > before:
            messages += (("hits-too-coarse", "curve=hits needs more knots; curve=gap never worsens the fitted rows"),)
        brier_before, brier_after = brier(rows, np.exp(rows.log_probs)), brier(rows, probs)
        if brier_after > brier_before:
            text = f"the Brier score of the fitted rows rose from {brier_before:.6g} to {brier_after:.6g}"
            messages += (("brier-rose", text),)
        messages += end_messages(probs)
        loss = "squared cumulative gap"
        return fitted, FitReport(n=rows.n, loss=loss, before=before, after=after, passes=1, messages=messages)
