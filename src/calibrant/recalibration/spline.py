"""Spline calibration: what is missing in a cumulative curve is smoothed by a cubic spline, and its slope is added.

Scores s in rising order stand at fractiles t in [0, 1], the share of rows up to them. With H(t) the cumulative share of
hits and P(t) that of scores, calibrated scores have H = P, and the KS error is max |H − P|. A natural cubic spline D
with few evenly spaced knots and D(0) = 0 is fitted to H − P by least squares at the ends of runs of equal scores. The
calibrated probability of a score is s plus the slope of D, clipped to [0, 1]: of a fitted score, the mean slope over
its rows, which depends on D at the ends of the run alone; linear between fitted scores. Within long runs H − P is a
straight line, of which points of little weight are fitted too, so that D does not swing where nothing else holds it.

curve="gap" is this, which is what the authors' program does: D = 0 is among the splines, so that the mean squared gap
of the fitted rows cannot rise. curve="hits" is what their text says: a spline is fitted to H, and its slope alone is
the calibrated probability, whatever the score. With few knots it is coarse where the scores change fast.

of="top" replaces the probability of the predicted class, and the others share the rest in proportion. Where the
predicted class would fall behind another, its probability is raised to just above that: it stays the predicted class,
which is what was calibrated. of="classes" makes a curve for each class (see `one_vs_rest`), by which the predicted
class may change. Of two classes, and of judged answers, it is P(class 1) that is mapped. D' need not rise: the map is
not known to be injective, nor, of two classes, to leave the predicted class.

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
from calibrant.recalibration.one_vs_rest import (
    ENDS,
    OneVsRestMap,
    Pairs,
    Said,
    brier,
    check_pieces,
    class_notes,
    curved_classes,
    cut,
    end_notes,
    one_vs_rest,
    pairs_made,
    pairs_of,
    piece,
)
from calibrant.recalibration.report import Fit

OF = ("top", "classes")
CURVES = ("gap", "hits")
KEPT = 2048
"""Scores whose fractiles are kept, at most, for each curve: between them fractiles are interpolated."""
INSIDE = 16.0 / 3.0
"""Points that are fitted for each knot, at least."""
STRAIGHT = 0.01
"""What the points inside a run of equal scores weigh beside its end."""
NARROW = 1e-6
"""A share of rows over which D has one slope."""
ABOVE = 1e-12
"""By how much the predicted class stays above the next."""


# ----------------------------------------------------------------------------------------------- curves
@dataclass(frozen=True)
class Cumulative:
    """The cumulative curve of some pairs, at the ends of runs of equal scores."""

    scores: np.ndarray
    mass: np.ndarray
    hits: np.ndarray

    @classmethod
    def of(cls, pairs: Pairs) -> Cumulative:
        """The curve of pairs."""
        return cls(*pairs.by_score())

    @property
    def ends(self) -> np.ndarray:
        """The fractile at which each run of scores ends."""
        return np.minimum(self.mass.cumsum(), 1.0)

    @property
    def gap(self) -> np.ndarray:
        """H − P."""
        return (self.hits - self.mass * self.scores).cumsum()

    def runs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Scores, and the fractiles at which each one's rows start and end; of many, some that are evenly spread."""
        ends = self.ends
        starts = np.append(0.0, ends[:-1])
        if len(ends) <= KEPT:
            return self.scores, starts, ends
        middle = (starts + ends) / 2.0
        places = np.searchsorted(middle, np.linspace(middle[0], middle[-1], KEPT))
        places = np.unique(np.append(places.clip(0, len(middle) - 1), len(middle) - 1))
        return self.scores[places], starts[places], ends[places]

    def spline(self, target: np.ndarray, knots: int) -> tuple[np.ndarray, float, float]:
        """The values at the knots of the natural cubic spline from 0 that is nearest to target, how near, and the gap.

        Within a run of equal scores the target is a straight line, of which a long run has some points.
        """
        parts = np.maximum(1, np.ceil(self.mass * knots * INSIDE)).astype(np.int64)
        run = np.repeat(np.arange(len(parts)), parts)
        share = (np.arange(len(run)) - (parts.cumsum() - parts)[run] + 1) / parts[run]
        weights = self.mass[run] * np.where(share == 1.0, 1.0, STRAIGHT / parts[run])
        places, wanted, gap = (_between(curve, run, share) for curve in (self.ends, target, self.gap))
        basis = CubicSpline(np.linspace(0.0, 1.0, knots), np.eye(knots), bc_type="natural")(places)[:, 1:]
        root = np.sqrt(weights)
        values = np.linalg.lstsq(basis * root[:, None], wanted * root, rcond=None)[0]
        near, far = (float(exact_sum(weights * np.square(off))) for off in (basis @ values - wanted, gap))
        return np.append(0.0, values), near, far


def _between(curve: np.ndarray, run: np.ndarray, share: np.ndarray) -> np.ndarray:
    """A curve, which starts at 0 and is known at the ends of runs, after some share of a run."""
    start = np.append(0.0, curve[:-1])[run]
    return np.where(share == 1.0, curve[run], start + share * (curve[run] - start))


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
        check_pieces(self.sizes, self.scores, self.starts, self.ends)
        if self.values.ndim != 2 or self.values.shape[1] < 2 or not np.isfinite(self.values).all():
            raise ValueError(f"values at knots of shape {self.values.shape}")
        if len(self.values) != len(self.sizes) or self.of not in OF or self.form not in CURVES:
            raise ValueError("curves that do not belong together")
        if not 0.0 <= self.margin < 0.5:
            raise ValueError(f"a margin of {self.margin}")
        if not all((np.diff(piece) > 0).all() for piece in cut(self.scores, self.sizes)):
            raise ValueError("scores that do not rise")
        if not ((self.starts >= 0.0) & (self.starts <= self.ends) & (self.ends <= 1.0)).all():
            raise ValueError("fractiles that do not rise from 0 to 1")

    def is_for(self, classes: int) -> bool:
        """Whether there is one curve of the predicted class, or those of a map of each class."""
        return self.curves == 1 if self.of == "top" else super().is_for(classes)

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
            start, end = (piece(each, self.sizes, number) for each in (self.starts, self.ends))
            found = CubicSpline(np.linspace(0.0, 1.0, len(values)), values, bc_type="natural")
            wide = end - start > NARROW
            mean = (found(end) - found(start)) / np.where(wide, end - start, 1.0)
            out.append(np.where(wide, mean, found((start + end) / 2.0, 1)))
        return out

    def curve(self, number: int, scores: np.ndarray) -> np.ndarray:
        """The slope of the spline over the rows of each score, added to it where the gap was fitted."""
        slope = np.interp(scores, piece(self.scores, self.sizes, number), self.slopes[number])
        return np.clip(slope + scores if self.form == "gap" else slope, self.margin, 1.0 - self.margin)

    def apply(self, logs: np.ndarray) -> np.ndarray:
        """Rows with another probability of the predicted class, or of every class."""
        if self.of == "classes":
            return one_vs_rest(self, logs)
        rows, top = np.arange(len(logs)), logs.argmax(axis=1)
        others = logs.copy()
        others[rows, top] = -np.inf
        out = np.exp(others - logsumexp(others, axis=1, keepdims=True))
        largest = out.max(axis=1)
        least = largest / (1.0 + largest) + ABOVE
        made = np.clip(self.curve(0, np.exp(logs[rows, top])), least, 1.0)
        out *= (1.0 - made)[:, None]
        out[rows, top] = made
        return out


# ----------------------------------------------------------------------------------------------- method
@dataclass(eq=False, kw_only=True)
class SplineCalibration(ClassRecalibrator):
    """The slope of a smoothed cumulative curve, for the predicted class or for each."""

    name = "spline"
    title = "Spline calibration"
    reference = (
        "Gupta, Rahimi, Ajanthan, Mensink, Sminchisescu & Hartley (2021), Calibration of neural networks using "
        "splines, ICLR"
    )
    map_class = SplineMap
    promises_accuracy = False
    knots: int = option(6, "evenly spaced knots, both ends among them", at_least=2, at_most=1000)
    of: str = option("top", "of several classes: the predicted class, or each against the rest", choices=OF)
    curve: str = option("gap", "what is smoothed: cumulative hits less scores, or cumulative hits", choices=CURVES)
    ends: str = option("fitted", "values 0 and 1 as they are fitted, or kept half a row inside", choices=ENDS)

    def fit_rows(self, rows: ClassRows, threads: int | None) -> tuple[SplineMap, Fit]:
        """The spline of the predicted class, or of each class."""
        top = self.of == "top" and rows.classes > 2
        pairs = [_top_pairs(rows)] if top else [pairs_of(rows, k) for k in curved_classes(rows.classes)]
        curves = [Cumulative.of(each) for each in pairs]
        found = [each.spline(each.gap if self.curve == "gap" else each.hits.cumsum(), self.knots) for each in curves]
        runs = [curve.runs() for curve in curves]
        scores, starts, ends = (np.concatenate(each) for each in zip(*runs, strict=True))
        one_row = pairs[0].one_row
        made = SplineMap(
            scores=scores,
            starts=starts,
            ends=ends,
            sizes=np.array([len(each[0]) for each in runs], np.float64),
            values=np.stack([values for values, _, _ in found]),
            of="top" if top else "classes",
            form=self.curve,
            margin=0.5 * one_row / (1.0 + one_row) if self.ends == "inside" else 0.0,
        )
        before, after = sum(far for _, _, far in found), sum(near for _, near, _ in found)
        said = self._notes(rows, made, before, after)
        return made, Fit(n=rows.n, loss="squared cumulative gap", before=before, after=after, passes=1, said=said)

    def _notes(self, rows: ClassRows, made: SplineMap, before: float, after: float) -> Said:
        probs = made.apply(rows.logs)
        said = class_notes(rows) if made.of == "classes" else ()
        fewest = int(made.sizes.min())
        if fewest < self.knots - 1:
            known = f"there are only {fewest} distinct scores for a spline of {self.knots} knots"
            said += (("few-scores", f"{known}: each becomes about the share of its rows that came true"),)
        if after > before:
            said += (("hits-too-coarse", "cumulative hits take more knots; curve=gap is never worse on fitted rows"),)
        return said + _brier_notes(brier(rows, np.exp(rows.logs)), brier(rows, probs)) + end_notes(probs)


def _brier_notes(before: float, after: float) -> Said:
    """What is to be said where the Brier score, which is not what is fitted, rises."""
    if after <= before:
        return ()
    return (("brier-rose", f"the Brier score of the fitted rows rose from {before:.6g} to {after:.6g}"),)


def _top_pairs(rows: ClassRows) -> Pairs:
    kept = rows.shares > 0
    logs = rows.logs[kept]
    hits = logs.argmax(axis=1) == rows.labels[kept]
    return pairs_made(rows, logs.max(axis=1), hits, rows.shares[kept])
