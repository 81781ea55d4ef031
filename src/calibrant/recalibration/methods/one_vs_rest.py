"""Curves of single probabilities: one per class against the rest, and rows renormalised to sum to one.

With two classes the curve g maps P(class 1), and P(class 0) = 1 − g. With more, each class k has a curve of its own,
fitted to p_k and 1{y = k}, and the rows g_k(p_k) are divided by their sum; a row of zeros becomes uniform, as in
scikit-learn. Curves differ in their number of points: they are stored end to end, with the number of points of each.
Probabilities that were equal, which is common for forests and nearest neighbours, differ in their last digits after
normalisation. Differences of the size of such rounding count as ties.

Isotonic calibration is the increasing step function of P(class) with the lowest Brier score on the fitted rows. Rows of
equal probability are averaged first; neighbours that would decrease are pooled, with row weights (Ayer et al. 1955);
between the fitted points g is linear and beyond them constant, as in scikit-learn's
IsotonicRegression(out_of_bounds="clip"), with which it agrees. Since the identity is increasing, the Brier score
of each class cannot get worse on the fitted rows; after renormalisation it nearly always falls as well, and a warning
says where it does not. ends="fitted" leaves values 0 and 1, which occur wherever the lowest rows are all misses, or the
highest all hits. ends="inside" adds two pseudo-rows, a hit at the lowest probability and a miss at the highest, each of
the weight of a typical row, so that all values lie between 0 and 1 and the NLL of new rows is finite. Zadrozny & Elkan
(2002), Transforming classifier scores into accurate multiclass probability estimates, KDD.

Histogram binning gives all probabilities in one bin the observed frequency of the class among its rows. Bins are as for
calibration errors: of equal width, ((b − 1)/B, b/B] with 0 in the first, or of equal mass, cut between
distinct values nearest to the equal split so that ties stay together. Empty bins, which only equal width has, keep
their midpoint. The map is a step function, so it is never injective. With C classes a class has about n/C rows, and
equal mass spends most of its bins on those of the others: with 15 bins and 10 classes all rows of a class fall into one
or two bins, and much accuracy is lost. Equal mass is for two classes. The observed frequency has the lowest Brier score
among constants, but p itself may do better within a bin: unlike an isotonic fit, histogram binning may be worse than
the original predictions even on the fitted rows; a warning says so. ends="inside" adds to each bin one pseudo-row of
the weight of a typical row, which is a hit with the bin's midpoint as its share. Zadrozny & Elkan (2001), Obtaining
calibrated probability estimates from decision trees and naive Bayesian classifiers, ICML; Guo, Pleiss, Sun & Weinberger
(2017), On calibration of modern neural networks, ICML.

`MulticlassIsotonic` has one curve for all classes, which keeps their ranking. All pairs (p_ik, 1{y_i = k}) of rows i
and classes k make one increasing fit f; g = (1 − ε)·f + ε·p is strictly increasing, and the rows g(p_k) are divided by
their sum. The ranking of the classes of a row stays, and with it the predicted class. The map is injective: if rows p
and p' had one image, g(p_k) = s·g(p'_k) for all k with, say, s ≥ 1; then g(p_k) ≥ g(p'_k), so that p_k ≥ p'_k for all
k, and as both sum to one they are equal. Interpolation is in p, which is 1 in double precision beyond 1 − 1e-16: no
ranking is lost there, since two classes of a row cannot both be near 1. The predicted class stays on top by a margin of
a few units in the last place where rounding would lose it. The value 0 does not occur, since p > 0 and ε > 0: the NLL
of new rows is finite, if perhaps high. Predictions stored in single precision may lose a ranking that rests on
ε·(p_k − p_j): do not choose ε too small. Zhang, Kailkhura & Han (2020), Mix-n-Match: ensemble and compositional methods
for uncertainty calibration in deep learning, ICML (there IRM).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import log_softmax

from calibrant.calibration.binning import equal_mass_edges
from calibrant.kernels.exact import exact_sum
from calibrant.kernels.isotonic import joined_ties, rising_fit
from calibrant.recalibration.base import option
from calibrant.recalibration.class_rows import ClassMap, ClassRecalibrator, ClassRows, keep_top_class
from calibrant.recalibration.fit_report import FitReport, Messages

ENDS = ("fitted", "inside")
ROUNDING, ROUNDING_SINGLE = 2e-14, 2.0**-21
"""Relative difference up to which probabilities count as tied, in double and in single precision."""
MIN_CLASS_ROWS = 10
"""Rows of a class below which its curve comes with a warning."""
MIN_ROWS = 100
"""Rows below which a fit of one curve for all classes comes with a warning."""


# ---------------------------------------------------------------------------------------------- rows
@dataclass(frozen=True)
class ScoredRows:
    """Scores in [0, 1], whether the class was observed (0 or 1), and the weights of rows; without rows of weight 0."""

    scores: np.ndarray
    hits: np.ndarray
    row_weights: np.ndarray

    @classmethod
    def of(cls, rows: ClassRows, log_probs: np.ndarray, hits: np.ndarray, row_weights: np.ndarray) -> ScoredRows:
        """From log-probabilities, with ties joined."""
        given = rows.predictions
        single = given.kind != "logits" and given.scores.dtype.itemsize < 8
        scores = joined_ties(np.exp(log_probs), ROUNDING_SINGLE if single else ROUNDING)
        return cls(scores, hits.astype(np.float64), row_weights)

    @classmethod
    def of_class(cls, rows: ClassRows, k: int) -> ScoredRows:
        """P(class k) and 1{y = k}."""
        counted = rows.row_weights > 0
        return cls.of(rows, rows.log_probs[counted, k], rows.labels[counted] == k, rows.row_weights[counted])

    @property
    def typical_weight(self) -> float:
        """The weight of a pseudo-row: Σ row_weights², 1/n for equal rows, whatever the unit of weights."""
        return float(exact_sum(self.row_weights**2))

    def by_score(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The distinct scores in ascending order, the weight of their rows, and the weight of their hits."""
        values, inverse = np.unique(self.scores, return_inverse=True)
        mass = np.bincount(inverse, self.row_weights, len(values))
        return values, mass, np.bincount(inverse, self.row_weights * self.hits, len(values))


def curve_classes(classes: int) -> range:
    """The classes that have a curve: the second of two, otherwise all."""
    return range(1, 2) if classes == 2 else range(classes)


def brier(rows: ClassRows, probs: np.ndarray) -> float:
    """The weighted mean of Σ_c (p_c − 1{c = label})²."""
    terms = np.square(probs).sum(axis=1) - 2.0 * rows.at_label(probs) + 1.0
    return float(exact_sum(rows.row_weights * np.maximum(terms, 0.0)))


def brier_fit(rows: ClassRows, probs: np.ndarray, messages: Messages) -> FitReport:
    """The report of a map that is fitted in one pass: the Brier score before it, and of its predictions (n, C)."""
    before, after = brier(rows, np.exp(rows.log_probs)), brier(rows, probs)
    return FitReport(n=rows.n, loss="brier", before=before, after=after, passes=1, messages=messages)


# ----------------------------------------------------------------------------------------------- maps
@dataclass(frozen=True)
class OneVsRestMap(ClassMap):
    """A curve for class 1 of two, or for each class."""

    kind: ClassVar[str] = "probs"
    injective: ClassVar[bool] = False
    keeps_order: ClassVar[bool] = False

    @property
    def curves(self) -> int:
        """The number of curves: 1 or the number of classes."""
        return len(self.parameters()["sizes"])

    @property
    def n_parameters(self) -> int:
        """The number of points, or bins, of all curves."""
        return len(self.parameters()["values"])

    def matches_classes(self, classes: int) -> bool:
        """Whether there is a curve for the second of two classes, or for each."""
        return self.curves == len(curve_classes(classes))

    def curve(self, number: int, scores: np.ndarray) -> np.ndarray:
        """The value of one curve at scores (n,)."""
        raise NotImplementedError

    def apply(self, log_probs: np.ndarray) -> np.ndarray:
        """g_k(p_k), normalised."""
        classes = curve_classes(log_probs.shape[1])
        if self.curves != len(classes):
            raise ValueError(f"{self.curves} curves for {log_probs.shape[1]} classes")
        values = [self.curve(number, np.exp(log_probs[:, k])) for number, k in enumerate(classes)]
        output = np.stack(values, axis=1)
        if log_probs.shape[1] == 2:
            return np.concatenate([1.0 - output, output], axis=1)
        total = output.sum(axis=1, keepdims=True)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(total > 0, output / total, 1.0 / log_probs.shape[1])


def split_curves(flat: np.ndarray, sizes: np.ndarray) -> list[np.ndarray]:
    """The arrays of all curves, which are stored end to end."""
    return np.split(flat, np.cumsum(sizes.astype(np.int64))[:-1])


def curve_part(flat: np.ndarray, sizes: np.ndarray, number: int) -> np.ndarray:
    """The array of one curve."""
    stop = int(sizes[: number + 1].sum())
    return flat[stop - int(sizes[number]) : stop]


def check_curves(sizes: np.ndarray, *flat: np.ndarray) -> None:
    """Refuse stored arrays that do not match the sizes of the curves."""
    if sizes.ndim != 1 or not sizes.size or not (sizes >= 1).all() or (sizes != np.floor(sizes)).any():
        raise ValueError("sizes must be positive integers")
    for values in flat:
        if values.shape != (int(sizes.sum()),) or not np.isfinite(values).all():
            raise ValueError(f"expected {int(sizes.sum())} finite numbers for the points, got shape {values.shape}")


# ---------------------------------------------------------------------------------------------- messages
def class_messages(rows: ClassRows) -> Messages:
    """Warnings about classes with few rows, or none."""
    counts, messages = rows.class_counts, []
    none, few = np.flatnonzero(counts == 0), np.flatnonzero((counts > 0) & (counts < MIN_CLASS_ROWS))
    if none.size:
        text = f"{none.size} of {counts.size} classes, starting with class {none[0]}, have no rows"
        messages.append(("missing-classes", f"{text}: how often they occur is unknown"))
    if few.size:
        text = f"{few.size} of {counts.size} classes have fewer than {MIN_CLASS_ROWS} rows"
        text += f" (class {few[0]}: {counts[few[0]]}), too few for a free curve"
        messages.append(("few-rows", f"{text}; use a method with few parameters, such as temperature"))
    return tuple(messages)


def end_messages(values: np.ndarray) -> Messages:
    """A warning about curves that reach 0 or 1."""
    if not ((values <= 0.0) | (values >= 1.0)).any():
        return ()
    text = "the map predicts 0 or 1, so the NLL of new rows may be infinite"
    return (("probabilities-of-0-or-1", f"{text}; ends=inside keeps probabilities away from 0 and 1"),)


# ---------------------------------------------------------------------------------------- isotonic
def isotonic_points(rows: ScoredRows) -> tuple[np.ndarray, np.ndarray]:
    """The points (x, g(x)) between which the increasing fit is linear: both ends of each run of equal values."""
    x, mass, hits = rows.by_score()
    fit = np.clip(rising_fit(mass, hits), 0.0, 1.0)
    corners = np.ones(len(x), bool)
    corners[1:-1] = (fit[1:-1] != fit[:-2]) | (fit[1:-1] != fit[2:])
    return x[corners], fit[corners]


@dataclass(frozen=True)
class IsotonicMap(OneVsRestMap):
    """The points of each curve, end to end: x and values increase within a curve."""

    x: np.ndarray
    values: np.ndarray
    sizes: np.ndarray

    def __post_init__(self) -> None:
        check_curves(self.sizes, self.x, self.values)
        for x, values in zip(split_curves(self.x, self.sizes), split_curves(self.values, self.sizes), strict=True):
            if not ((np.diff(x) > 0).all() and (np.diff(values) >= 0).all() and 0.0 <= values[0] <= values[-1] <= 1.0):
                raise ValueError("curves must increase within [0, 1]")

    def curve(self, number: int, scores: np.ndarray) -> np.ndarray:
        """Linear between the points, constant beyond them."""
        x, values = (curve_part(each, self.sizes, number) for each in (self.x, self.values))
        return np.interp(scores, x, values)


@dataclass(eq=False, kw_only=True)
class IsotonicCalibration(ClassRecalibrator):
    """An increasing function of the probability of each class. It needs many rows, and predicts 0 and 1.

    Parameters
    ----------
    ends : {"fitted", "inside"}
        Whether values 0 and 1 stay as fitted, or two pseudo-rows keep values away from them.

    Examples
    --------
    >>> import calibrant as cal
    >>> p = cal.Classification.from_probs([0.1, 0.4, 0.6, 0.6, 0.9, 0.9] * 20, [0, 1, 0, 1, 1, 0] * 20)
    >>> isotonic = cal.recalibration.IsotonicCalibration(ends="inside").fit(p)
    >>> isotonic.maps[0].curve(0, p.scores[0, :3, 0]).round(3).tolist()
    [0.048, 0.594, 0.594]
    """

    name = "isotonic"
    title = "Isotonic calibration"
    reference = (
        "Zadrozny & Elkan (2002), Transforming classifier scores into accurate multiclass probability estimates, KDD"
    )
    map_class = IsotonicMap
    promises_accuracy = False
    ends: str = option("fitted", "values 0 and 1 as fitted, or kept inside by two pseudo-rows", choices=ENDS)

    def fit_rows(self, rows: ClassRows, threads: int | None) -> tuple[IsotonicMap, FitReport]:
        points = []
        for k in curve_classes(rows.classes):
            scored = ScoredRows.of_class(rows, k)
            if self.ends == "inside":
                scored = ScoredRows(
                    np.append(scored.scores, [scored.scores.min(), scored.scores.max()]),
                    np.append(scored.hits, [1.0, 0.0]),
                    np.append(scored.row_weights, [scored.typical_weight] * 2),
                )
            points.append(isotonic_points(scored))
        fitted = IsotonicMap(
            x=np.concatenate([x for x, _ in points]),
            values=np.concatenate([values for _, values in points]),
            sizes=np.array([len(x) for x, _ in points], np.float64),
        )
        messages = class_messages(rows) + end_messages(fitted.values)
        return fitted, brier_fit(rows, fitted.apply(rows.log_probs), messages)


# ---------------------------------------------------------------------------------------- histogram binning
@dataclass(frozen=True)
class HistogramMap(OneVsRestMap):
    """The upper edge and the value of each bin, the bins of all curves end to end; the last upper edge is 1."""

    edges: np.ndarray
    values: np.ndarray
    sizes: np.ndarray

    def __post_init__(self) -> None:
        check_curves(self.sizes, self.edges, self.values)
        if not ((self.values >= 0.0) & (self.values <= 1.0)).all():
            raise ValueError("values must be probabilities")
        for edges in split_curves(self.edges, self.sizes):
            if not ((np.diff(edges) > 0).all() and edges[-1] == 1.0):
                raise ValueError("edges must increase to 1")

    def curve(self, number: int, scores: np.ndarray) -> np.ndarray:
        """The value of the bin that each score is in."""
        inner = curve_part(self.edges, self.sizes, number)[:-1]
        return curve_part(self.values, self.sizes, number)[np.searchsorted(inner, scores, side="left")]


@dataclass(eq=False, kw_only=True)
class HistogramBinning(ClassRecalibrator):
    """Replace the probability of each class by the observed frequency in its bin.

    Parameters
    ----------
    bins : int
        The number of bins.
    binning : {"width", "mass"}
        Bins of equal width, or of equal mass.
    ends : {"fitted", "inside"}
        Whether values 0 and 1 stay as fitted, or a pseudo-row in each bin keeps values away from them.
    """

    name = "histogram"
    title = "Histogram binning"
    reference = (
        "Zadrozny & Elkan (2001), Obtaining calibrated probability estimates from decision trees and naive Bayesian "
        "classifiers, ICML"
    )
    map_class = HistogramMap
    promises_accuracy = False
    bins: int = option(15, "number of bins", at_least=1)
    binning: str = option("width", "bins of equal width, or of equal mass", choices=("width", "mass"))
    ends: str = option("fitted", "values 0 and 1 as fitted, or kept inside by pseudo-rows", choices=ENDS)

    def fit_rows(self, rows: ClassRows, threads: int | None) -> tuple[HistogramMap, FitReport]:
        weights = rows.predictions.weights
        weights = None if weights is None else weights[rows.row_weights > 0].astype(np.float64)
        all_edges, all_values, empty = [], [], 0
        for k in curve_classes(rows.classes):
            scored = ScoredRows.of_class(rows, k)
            if self.binning == "width":
                edges = np.arange(1, self.bins + 1) / self.bins
            else:
                edges = np.append(equal_mass_edges(scored.scores, self.bins, weights), 1.0)
            bins = np.searchsorted(edges[:-1], scored.scores, side="left")
            mass = np.bincount(bins, scored.row_weights, len(edges))
            hits = np.bincount(bins, scored.row_weights * scored.hits, len(edges))
            midpoints = (np.append(0.0, edges[:-1]) + edges) / 2
            pseudo = scored.typical_weight if self.ends == "inside" else 0.0
            with np.errstate(invalid="ignore", divide="ignore"):
                values = np.where(mass + pseudo > 0, (hits + pseudo * midpoints) / (mass + pseudo), midpoints)
            all_edges.append(edges)
            all_values.append(np.clip(values, 0.0, 1.0))
            empty += int((mass == 0).sum())
        sizes = np.array([len(edges) for edges in all_edges], np.float64)
        fitted = HistogramMap(np.concatenate(all_edges), np.concatenate(all_values), sizes)
        messages = class_messages(rows) + end_messages(fitted.values)
        if empty:
            text = f"{empty} of {fitted.n_parameters} bins have no rows and keep their midpoint"
            messages += (("empty-bins", f"{text}; binning=mass has no empty bins"),)
        return fitted, brier_fit(rows, fitted.apply(rows.log_probs), messages)


# ---------------------------------------------------------------------------------------- one curve for all classes
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
            raise ValueError("points must increase")
        if not ((np.diff(values) >= 0).all() and values[0] >= 0.0 and values[-1] <= 1.0):
            raise ValueError("values must increase within [0, 1]")
        if not 0.0 < self.identity <= 1.0:
            raise ValueError(f"identity must be above 0 and at most 1, got {self.identity}")

    @property
    def n_parameters(self) -> int:
        """The number of points."""
        return len(self.values)

    def apply(self, log_probs: np.ndarray) -> np.ndarray:
        p = np.exp(log_probs)
        fitted = np.interp(p, self.x, self.values)
        output = np.log((1.0 - self.identity) * fitted + self.identity * p)
        return log_softmax(keep_top_class(output, log_probs), axis=1)


@dataclass(eq=False, kw_only=True)
class MulticlassIsotonic(ClassRecalibrator):
    """One increasing function for the probabilities of all classes. It keeps every ranking of classes.

    Parameters
    ----------
    identity : float
        The share ε of the identity, which makes the function strictly increasing.
    """

    name = "isotonic_multiclass"
    title = "Multi-class isotonic calibration"
    reference = "Zhang, Kailkhura & Han (2020), Mix-n-Match, ICML"
    map_class = MulticlassIsotonicMap
    promises_accuracy = True
    identity: float = option(
        1e-3, "share of the identity, which makes the function strictly increasing", at_least=1e-9, at_most=1.0
    )

    def fit_rows(self, rows: ClassRows, threads: int | None) -> tuple[MulticlassIsotonicMap, FitReport]:
        """Fit an increasing curve to all pairs of rows and classes."""
        counted = rows.row_weights > 0
        hits = np.arange(rows.classes) == rows.labels[counted, None]
        weights = np.broadcast_to(rows.row_weights[counted, None], hits.shape)
        scored = ScoredRows.of(rows, rows.log_probs[counted].ravel(), hits.ravel(), weights.ravel())
        fitted = MulticlassIsotonicMap(*isotonic_points(scored), self.identity)
        text = f"{counted.sum()} rows are few for a free curve; use a method with few parameters, such as temperature"
        messages = (("few-rows", text),) if counted.sum() < MIN_ROWS else ()
        return fitted, brier_fit(rows, np.exp(fitted.apply(rows.log_probs)), messages)
