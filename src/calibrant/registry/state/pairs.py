"""Pairs (p, y) of rows: which pairs a metric reads, and reductions that keep them (equal mass, runs, rankings, CORP).

Pairs of equal settings are equal. Rows are sorted before anything random is drawn or any float is summed, so that their
order does not matter.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import numpy as np

from calibrant import intervals
from calibrant.calibration.binning import assign
from calibrant.calibration.runs import Runs, redraw
from calibrant.detection.influence import ranking_terms
from calibrant.kernels.binary_rows import DetectionRows
from calibrant.kernels.resampling import ranking_scores
from calibrant.kernels.rows import RANK, Rows
from calibrant.predictions import Classification, Judged
from calibrant.registry.estimate import Estimate, Settings
from calibrant.registry.metric import Option, Spec
from calibrant.registry.state.accumulators import Reduced, State, counting
from calibrant.registry.state.binned_state import BinnedPairs, MakeStatistic, error_of_bins
from calibrant.scores import proper
from calibrant.scores.decomposition import CorpParts, corp
from calibrant.scores.uncertainty import ROW_SCORES

CLASSES = frozenset({"classification"})
INFINITE = math.inf
OF = Option("of", "top", "the pairs: top = (confidence, correct), or a class by name or number")


class Pairs:
    """The p and y of each row; equal settings make equal pairs."""

    def __call__(self, rows: Any) -> tuple[np.ndarray, np.ndarray]:
        """p and y (N,), in float64."""
        raise NotImplementedError

    def given(self, rows: Any) -> tuple[np.ndarray, np.ndarray]:
        """The same in the type of the input, if that saves time."""
        return self(rows)

    def chance(self, rows: Any) -> np.ndarray | None:
        """P(y = 1) (N,) if the predictions are right; None where it is p."""
        del rows
        return None


@dataclass(frozen=True)
class TopPairs(Pairs):
    """(confidence, correct)."""

    def __call__(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        return rows.confidence, proper.accuracy(rows)

    def given(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        """As they came."""
        return rows.pairs()


@dataclass(frozen=True)
class ClassPairs(Pairs):
    """(p_k, 1{label = k})."""

    k: int

    def __call__(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        return rows.extras["class", self.k], rows.extras["label", self.k]

    def given(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        """As they came."""
        return rows.pairs(self.k)


@dataclass(frozen=True)
class TopMassPairs(Pairs):
    """(mass of the k most probable classes, label is among them)."""

    k: int

    def __call__(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        return rows.extras["top_mass", self.k], (rows.extras[RANK] < self.k).astype(np.float64)


@dataclass(frozen=True)
class RankedPairs(Pairs):
    """(probability of the k-th most probable class, label is that class)."""

    k: int

    def __call__(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        return rows.extras["ranked", self.k], (rows.extras[RANK] == self.k - 1).astype(np.float64)


@dataclass(frozen=True)
class UncertaintyPairs(Pairs):
    """(entropy/log C, wrong); if calibrated, a prediction is wrong with probability 1 − confidence, not its entropy."""

    classes: int

    def __call__(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        return np.minimum(rows.entropy / math.log(self.classes), 1.0), 1.0 - proper.accuracy(rows)

    def chance(self, rows: Rows) -> np.ndarray | None:
        """One minus the confidence."""
        return 1.0 - rows.confidence


@dataclass(frozen=True)
class ErrorPairs(Pairs):
    """(a row's uncertainty by name, wrong)."""

    score: str

    def __call__(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        return ROW_SCORES[self.score].of(rows), 1.0 - proper.accuracy(rows)


@dataclass(frozen=True)
class ScorePairs(Pairs):
    """(score, OOD)."""

    def __call__(self, rows: DetectionRows) -> tuple[np.ndarray, np.ndarray]:
        return rows.score, rows.outside


def of_class(spec: Spec, predictions: Classification | Judged) -> int | None:
    """The class that `of` selects, or None for the top label."""
    if spec["of"] == "top" or isinstance(predictions, Judged):
        return None
    return predictions.class_index(str(spec["of"]))


def class_columns(spec: Spec, predictions: Classification | Judged) -> frozenset[Hashable]:
    """The columns that the pairs of this spec need."""
    k = of_class(spec, predictions)
    return frozenset() if k is None else frozenset({("class", k)})


def pairs_of(spec: Spec, predictions: Classification | Judged) -> Pairs:
    """(confidence, correct), or the pairs of the class that `of` names."""
    k = of_class(spec, predictions)
    return TopPairs() if k is None else ClassPairs(k)


NULL_CELLS, FEWEST_CELLS = 2048, 256
"""Maximum and minimum number of joined runs for redrawing labels; fewer distinct p are not joined."""
MOST_REDRAWN = 1 << 24
"""Maximum number of redrawn values in memory: with many replicates, runs are joined further."""
Arrays = tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray | None]


@dataclass
class KeptPairs(State):
    """The pairs (p, y) of all rows, for metrics that cannot be reduced to sums."""

    pairs: Pairs
    p: list[np.ndarray] = field(default_factory=list)
    y: list[np.ndarray] = field(default_factory=list)
    w: list[np.ndarray | None] = field(default_factory=list)
    units: list[np.ndarray | None] = field(default_factory=list)
    MERGED: ClassVar = ("p", "y", "w", "units")

    def collect(self, rows: Rows, spread: bool) -> None:
        """Keep the pairs of these rows."""
        p, y, w, units = counting(rows.weights, *self.pairs.given(rows), rows.weights, rows.units)
        self.p.append(np.array(p))  # a view would keep all of its record alive
        if y.dtype != bool and ((y == 0) | (y == 1)).all():
            y = y.astype(bool)  # an eighth of the memory
        self.y.append(y)
        self.w.append(w)
        self.units.append(units)

    def arrays(self) -> Arrays:
        """p, y, weights and units of all rows."""
        p, y, w, units = self.given()
        return np.asarray(p, np.float64), np.asarray(y, np.float64), w, units

    def given(self) -> Arrays:
        """The same, in the type of the input."""
        p, y = (parts[0] if len(parts) == 1 else np.concatenate(parts) for parts in (self.p, self.y))
        w, units = (
            parts[0] if len(parts) == 1 or parts[0] is None else np.concatenate([x for x in parts if x is not None])
            for parts in (self.w, self.units)
        )
        return p, y, w, units

    @property
    def binary(self) -> bool:
        """Whether every y was 0 or 1."""
        return all(part.dtype == bool for part in self.y)

    @property
    def weighted(self) -> bool:
        """Whether rows have weights."""
        return bool(self.w) and self.w[0] is not None

    def runs(self) -> Runs:
        """The runs of equal p."""
        return self.once("runs", lambda: Runs.of(*self.arrays()[:3]))

    def redrawn(self, settings: Settings) -> tuple[Runs, np.ndarray] | None:
        """Joined runs and Σwy (R, K) of redrawn labels, or None where labels cannot be redrawn."""
        if not self.binary or self.by_unit:
            return None

        def make() -> tuple[Runs, np.ndarray]:
            replicates = min(settings.resamples, MOST_REDRAWN // FEWEST_CELLS)
            cells = self.runs().joined(min(NULL_CELLS, max(FEWEST_CELLS, MOST_REDRAWN // replicates)))
            drawn = redraw(cells.rows, cells.p, cells.w, cells.variance, replicates=replicates, seed=settings.seed)
            return cells, drawn

        return self.once(("redrawn", settings), make)

    def mass_bins(self, bins: int, spread: bool) -> BinnedPairs:
        """The same rows over bins of equal mass."""

        def make() -> BinnedPairs:
            p, y, w, units = self.arrays()
            place, edges = assign(p, bins, "mass", w)
            binned = BinnedPairs(self.pairs, bins=len(edges) - 1, n=self.n)
            binned.add_pairs(p, y, w, units, place, spread)
            return binned

        return self.once(("mass", bins, spread), make)


def kept(pairs: Pairs, reduce: Any) -> Reduced:
    """The accumulator of a metric that needs the pairs of all rows."""
    return Reduced(("kept", pairs), KeptPairs(pairs), reduce)


def mass_binned_error(pairs: Pairs, bins: int, make: MakeStatistic, inverted: MakeStatistic | None) -> Reduced:
    """An error over bins of equal mass, which need all rows to be defined."""

    def reduce(state: KeptPairs, settings: Settings) -> Estimate:
        return error_of_bins(state.mass_bins(bins, settings.intervals), settings, make, inverted)

    return kept(pairs, reduce)


MOST_DRAWN, FEWEST = 1 << 26, 200


def replicates_of_rows(rows: int, requested: int) -> int:
    """The number of replicates: as requested, fewer above about 60 000 rows."""
    return min(requested, max(FEWEST, MOST_DRAWN // rows))


# ---------------------------------------------------------------------------------------- rankings
def ranking(pairs: Pairs, which: int) -> Reduced:
    """ROC AUC (which = 0) or average precision (which = 1) of scores p and positives y."""
    return kept(pairs, partial(_ranking, which=which))


def _ranking(state: KeptPairs, settings: Settings, which: int) -> Estimate:
    """The score with its interval; one of two metrics of the same rows."""
    p, y, w, _ = state.arrays()
    value = state.once("ranking_scores", lambda: ranking_scores(p, y == 1, w))[which]
    interval = ranking_interval(state, settings, value, ("auc", "precision")[which])
    return Estimate.of(value, state.n, interval, settings, (0.0, 1.0))


FEW_NEGATIVES = 20
"""Negatives below which an average precision near 1 may have too short an interval."""
AUC_INTERVAL = (
    "DeLong on the logit scale; with weights or units Student's t from the influence of each row or unit, on the logit "
    "scale"
)
PRECISION_INTERVAL = (
    "Student's t from the influence of each row or unit, on the logit scale; marked approximate with fewer than "
    f"{FEW_NEGATIVES} negatives"
)


def ranking_interval(
    state: KeptPairs, settings: Settings, value: float, name: str, negated: bool = False
) -> intervals.Interval:
    """Of ROC AUC ("auc") or average precision ("precision"); negated: with y = 0 as positive and −p as score."""
    p, y, w, units = state.arrays()
    score, positive = (-p, y != 1) if negated else (p, y == 1)
    if not settings.intervals or math.isnan(value) or too_few(positive, units):
        return intervals.NONE
    if name == "auc" and w is None and units is None:
        return intervals.delong(score, positive, value, settings.level)
    terms = state.once(("terms", negated), lambda: ranking_terms(score, positive, w))
    sides = [effective_count(w, units, side) for side in (positive, ~positive)]
    floor = value * (1.0 - value) * sum(side**-2.0 for side in sides[: 2 if name == "auc" else 1])
    by = None if units is None else units[terms.order]
    variance = intervals.Variance.of(getattr(terms, name), by, floor)
    interval = intervals.logit_interval(value, variance, settings.level)
    return intervals.approximate(interval) if name == "precision" and sides[1] < FEW_NEGATIVES else interval


def effective_count(w: np.ndarray | None, units: np.ndarray | None, rows: np.ndarray) -> float:
    """(Σm)²/Σm² of the masses of these rows, or of their units."""
    mass = np.ones(int(rows.sum())) if w is None else w[rows] / w[rows].max()
    if units is not None:
        order = np.argsort(mass)
        mass = np.bincount(np.unique(units[rows][order], return_inverse=True)[1], mass[order])
    mass = np.sort(mass)  # units are numbered in the order of rows
    return float(mass.sum() ** 2 / (mass**2).sum())


def too_few(positive: np.ndarray, units: np.ndarray | None) -> bool:
    """Whether fewer than two rows (or units) are positive, or negative, which is too few for an interval."""
    if units is None:
        count = int(np.count_nonzero(positive))
        return min(count, len(positive) - count) < 2
    return min(len(np.unique(units[positive])), len(np.unique(units[~positive]))) < 2


# -------------------------------------------------------------------------------------------- CORP
def corp_part(pairs: Pairs, part: str) -> Reduced:
    """One part of the bin-free decomposition of mean (p − y)²; its plug-in has no interval that covers."""

    def reduce(state: KeptPairs, settings: Settings) -> Estimate:
        del settings
        p, y, w, _ = state.arrays()
        parts: CorpParts = state.once("corp", lambda: corp(p, y, w))
        return Estimate.of(getattr(parts, part), state.n)

    return kept(pairs, reduce)
