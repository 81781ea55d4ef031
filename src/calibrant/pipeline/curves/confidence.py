"""Confidence and uncertainty: histograms, accuracy at high confidence, selective prediction, accuracy vs uncertainty.

- `confidence`: 20 bins of the confidence. lower, upper, n, correct, wrong.
- `entropy`: 20 bins from 0 to log C. The same columns.
- `mutual_information`: for M members that predict classes, 20 bins from 0 to log min(M, C), which it cannot exceed. The
  same columns.
- `accuracy_confidence`: the accuracy of the rows of at least some confidence. threshold, accuracy, n, share (of the
  weight); thresholds that no row reaches are left out. Ovadia et al. (2019), NeurIPS 32, figure 2.
- `rejection`: the accuracy of the remaining rows if the least confident share is rejected, rows of equal confidence
  being in random order: rejected (0, 0.01 … 0.99), accuracy. The area above it is the metric `aac`.
  `rejection(score=entropy)` and, with several members, `rejection(score=mutual_information)` order by these instead.
- `risk_coverage`: the error rate among rows of at least some confidence, at most 200 points: coverage (their share of
  the weight), risk, threshold (the confidence).
- `avu`: accuracy versus uncertainty at 21 thresholds from the lowest to the highest entropy: t, uncertainty, avu,
  p_accurate_certain, p_uncertain_inaccurate (left out if no row is wrong). For judged answers the uncertainty is one
  minus the confidence, and the name `avu(score=max_probability)`.

n counts rows. correct and wrong are sums of weights if rows have weights, and of shares if labels are soft; without
labels they are left out.

References: Nadeem, Zucker & Hanczar (2009); Geifman & El-Yaniv (2017), "Selective classification for deep neural
networks"; Krishnan & Tickoo (2020), "Improving model calibration with accuracy versus uncertainty optimization".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calibrant.calibration.binning import BinSums, equal_width
from calibrant.detection.accuracy_uncertainty import avu_curves
from calibrant.detection.selective import accuracy_of_kept, rejection_curve
from calibrant.pipeline.curves.base import KEPT, Columns, Curve, CurveState, MakeColumns, columns
from calibrant.predictions import Classification, Evaluable
from calibrant.registry.estimate import Settings
from calibrant.registry.state.accumulators import counting
from calibrant.registry.state.pairs import ErrorPairs, KeptPairs, Pairs, TopPairs
from calibrant.scores.uncertainty import mutual_information

BINS = 20
THRESHOLDS = np.append(np.arange(20) / 20, 0.99)
REJECTED = np.arange(100) / 100
MAX_POINTS = 200


def curves(example: Evaluable) -> Iterator[Curve]:
    """Histograms, which need no labels, and the curves of selective prediction by every uncertainty that there is."""
    classes = example.classes if isinstance(example, Classification) else 2
    yield _histogram("confidence", lambda rows: rows.confidence, 1.0, full_pass=False)
    highest = math.log(classes)
    yield _histogram("entropy", lambda rows: rows.entropy / highest, highest)
    has_information = example.task == "classification" and example.members > 1
    if has_information:
        bound = math.log(min(example.members, classes))
        yield _histogram("mutual_information", lambda rows: mutual_information(rows) / bound, bound)

    def accumulate_thresholds(example: Evaluable) -> CurveState:
        state = Counts(lambda rows: np.searchsorted(THRESHOLDS, rows.confidence, side="right") - 1, len(THRESHOLDS))
        return CurveState(("thresholds",), state, _above)

    yield Curve("accuracy_confidence", accumulate_thresholds)
    yield _of_kept_rows("rejection", TopPairs(), _rejection)
    yield _of_kept_rows("risk_coverage", TopPairs(), _risk_coverage)
    if example.task == "judged":
        yield _of_kept_rows("avu(score=max_probability)", ErrorPairs("max_probability"), _avu)
        return
    yield _of_kept_rows("rejection(score=entropy)", ErrorPairs("entropy"), _rejection_by, full_pass=True)
    yield _of_kept_rows("avu", ErrorPairs("entropy"), _avu, full_pass=True)
    if has_information:
        pairs = ErrorPairs("mutual_information")
        yield _of_kept_rows("rejection(score=mutual_information)", pairs, _rejection_by, full_pass=True)


@dataclass
class Counts:
    """Rows, weight, and weight of right rows, over bins."""

    place: Callable[[Any], np.ndarray]
    """The bin of each row."""
    bins: int
    sums: BinSums = field(init=False)
    has_labels: bool = False

    def __post_init__(self) -> None:
        self.sums = BinSums(self.bins, spread=False)

    def add(self, rows: Any, spread: bool = True) -> None:
        """Add rows."""
        self.has_labels = rows.hit is not None
        hit = rows.hit if self.has_labels else np.zeros(rows.n)
        hit, w, place = counting(rows.weights, hit, rows.weights, self.place(rows))
        self.sums.add(hit, hit, w, place)

    def merge(self, other: Counts) -> None:
        """Add the rows of another state."""
        self.has_labels |= other.has_labels
        self.sums.merge(other.sums)


def _histogram(name: str, share: Callable[[Any], np.ndarray], largest: float, full_pass: bool = True) -> Curve:
    """The histogram of a quantity from 0 to its largest value; share: the quantity divided by it."""

    def make_columns(state: Counts, settings: Settings) -> Columns:
        table = state.sums.table()
        edges = largest * np.arange(BINS + 1) / BINS
        right, wrong = (table.wy, table.w - table.wy) if state.has_labels else (None, None)
        return columns(lower=edges[:-1], upper=edges[1:], n=table.rows, correct=right, wrong=wrong)

    def accumulate(example: Evaluable) -> CurveState:
        counts = Counts(lambda rows: equal_width(share(rows), BINS), BINS)
        return CurveState(("histogram", name), counts, make_columns)

    return Curve(name, accumulate, needs=frozenset(), full_pass=full_pass)


def _above(state: Counts, settings: Settings) -> Columns:
    table = state.sums.table()
    rows, w, right = (x[::-1].cumsum()[::-1] for x in (table.rows, table.w, table.wy))
    some = w > 0  # small weights may vanish in rounding
    return columns(
        threshold=THRESHOLDS[some], accuracy=right[some] / w[some], n=rows[some], share=w[some] / w[0]
    )  # fmt: skip


# ------------------------------------------------------------------------------ selective prediction
def _of_kept_rows(name: str, pairs: Pairs, make_columns: MakeColumns, full_pass: bool = False) -> Curve:
    return Curve(
        name, lambda example: CurveState((KEPT, pairs), KeptPairs(pairs), make_columns), full_pass=full_pass
    )  # fmt: skip


def _sums(state: KeptPairs) -> tuple[np.ndarray, np.ndarray]:
    """Weight, and weight of wrong rows, down to each distinct confidence."""
    runs = state.runs()
    return runs.w[::-1].cumsum(), (runs.w - runs.wy)[::-1].cumsum()


def _rejection(state: KeptPairs, settings: Settings) -> Columns:
    return columns(rejected=REJECTED, accuracy=accuracy_of_kept(np.arange(100, 0, -1) / 100, *_sums(state)))


def _rejection_by(state: KeptPairs, settings: Settings) -> Columns:
    return columns(rejected=REJECTED, accuracy=rejection_curve(*state.arrays()[:3])[1][:-1])


def _risk_coverage(state: KeptPairs, settings: Settings) -> Columns:
    mass, wrong = _sums(state)
    coverage = mass / mass[-1]
    place = np.arange(len(mass))
    if len(mass) > MAX_POINTS:
        ends = np.searchsorted(coverage, np.arange(1, MAX_POINTS + 1) / MAX_POINTS)
        place = np.unique(np.minimum(ends, len(mass) - 1))
    threshold = state.runs().p[::-1]
    return columns(coverage=coverage[place], risk=(wrong / mass)[place], threshold=threshold[place])


def _avu(state: KeptPairs, settings: Settings) -> Columns:
    curve = avu_curves(*state.arrays()[:3])
    if not np.isfinite(curve.avu).all():  # uncertainties without a finite range
        return {}
    wrong = curve.p_uncertain_inaccurate
    return columns(
        t=curve.level,
        uncertainty=curve.threshold,
        avu=curve.avu,
        p_accurate_certain=curve.p_accurate_certain,
        p_uncertain_inaccurate=wrong if np.isfinite(wrong).all() else None,
    )
