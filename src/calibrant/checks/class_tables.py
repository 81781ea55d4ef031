"""What replicated labels of classifiers leave behind: hits of bins of confidence, sums of scores, counts of labels.

All are integers of a target's cells, with one column for each replicate and a last one for what was observed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calibrant.calibration.binning import assign, equal_width
from calibrant.checks.labels import lanes_of, parts
from calibrant.checks.plan import Plan, Targets
from calibrant.kernels.exact import ExactSum
from calibrant.kernels.replicates import FARTHEST, WEIGHT, Drawn, Lanes, add_hits, add_labels, units_of
from calibrant.predictions import Classification, Judged

CONFIDENCE = 2.0**30
"""Sums of confidences are integers of units of its inverse."""
TABLE = 1 << 23
"""Entries of a table of hits beyond which rows are kept and replicates are drawn a few at a time."""
FEWEST = 16
"""Replicates that are drawn at a time then, at least."""


@dataclass(frozen=True)
class Binned:
    """Weights (B,), sums of confidences (B,) and hits (B, R + 1) of the bins of one target, the last those observed."""

    mass: np.ndarray
    confidence: np.ndarray
    hits: np.ndarray

    @property
    def share(self) -> np.ndarray:
        """The weight of each bin, of all."""
        return self.mass / self.mass.sum()

    def signed(self) -> np.ndarray:
        """n_b/N·(ȳ_b − p̄_b), (R + 1, B)."""
        total = self.mass.sum()
        return np.ascontiguousarray(((self.hits - self.confidence[:, None]) / total).T)

    def accuracy(self) -> np.ndarray:
        """The share of hits (R + 1,)."""
        return self.hits.sum(axis=0) / self.mass.sum()


class WidthHits:
    """Hits in bins of equal width, of several numbers of bins at a time."""

    def __init__(self, bins: Sequence[int], plan: Plan, targets: Targets) -> None:
        self.bins, self.plan, self.targets = list(bins), plan, targets
        self.lanes = lanes_of(plan, np.arange(plan.draws))
        self.offsets = np.concatenate([[0], np.cumsum(self.bins) * targets.cells]).tolist()
        self.mass = np.zeros(self.offsets[-1], np.int64)
        self.confidence = np.zeros(self.offsets[-1], np.int64)
        self.table: np.ndarray | None = None

    def add(self, rows: Any, limits: np.ndarray, cells: np.ndarray, first: int) -> None:
        """Take in a block; limits are the thresholds of its predicted classes."""
        weights = rows.weights
        if self.table is None:
            kind = np.int32 if weights is None else np.int64
            self.table = np.zeros((self.offsets[-1], self.plan.draws + 1), kind)
        within = [
            offset + cells * bins + equal_width(rows.confidence, bins)
            for offset, bins in zip(self.offsets, self.bins, strict=False)
        ]
        places = np.stack(within)
        confidence = np.rint(rows.confidence * (CONFIDENCE if weights is None else weights * CONFIDENCE))
        for place in places:
            np.add.at(self.mass, place, 1 if weights is None else units_of(weights))
            np.add.at(self.confidence, place, confidence.astype(np.int64))
        numbers = np.arange(first, first + rows.n)
        add_hits(self.table, self.lanes, limits, numbers, places, rows.hit, weights, self.plan.threads)

    def of(self, bins: int, part: np.ndarray) -> Iterator[Binned]:
        """The bins of a target, all replicates at once; nothing where it has no weight."""
        where = self.bins.index(bins)
        span = slice(self.offsets[where], self.offsets[where + 1])
        if self.table is None or not part.size:
            return
        weighted = self.table.dtype == np.int64
        mass, confidence = (x[span].reshape(-1, bins)[part].sum(axis=0) for x in (self.mass, self.confidence))
        hits = self.table[span].reshape(-1, bins, self.table.shape[1])[part].sum(axis=0, dtype=np.int64)
        if mass.any():
            yield _binned(mass, confidence, hits, weighted, self.lanes)


def _binned(mass: np.ndarray, confidence: np.ndarray, hits: np.ndarray, weighted: bool, lanes: Lanes) -> Binned:
    unit = 1.0 / WEIGHT if weighted else 1.0
    hits = np.concatenate([lanes.in_order(hits[:, :-1]), hits[:, -1:]], axis=1)
    return Binned(mass * unit, confidence / CONFIDENCE, hits * unit)


@dataclass
class KeptHits:
    """Rows that are kept, because their bins depend on all of them: labels are drawn at the end."""

    plan: Plan
    targets: Targets
    columns: list[tuple[np.ndarray, ...]] = field(default_factory=list)
    weighted: bool = False

    def add(self, rows: Any, limits: np.ndarray, cells: np.ndarray, first: int) -> None:
        """Keep what is needed of a block; rows without weight count nowhere."""
        self.weighted = rows.weights is not None
        weights = np.ones(rows.n) if rows.weights is None else rows.weights
        numbers = np.arange(first, first + rows.n)
        kept = (rows.confidence, rows.hit, weights, cells, numbers, limits)
        self.columns.append(tuple(column[weights > 0] for column in kept))

    def of(self, bins: int, binning: str, part: np.ndarray) -> Iterator[Binned]:
        """The bins of a target, a few replicates at a time; nothing where it has no weight."""
        if len(self.columns) > 1:
            self.columns = [tuple(np.concatenate(column) for column in zip(*self.columns, strict=True))]
        chosen = np.zeros(self.targets.cells, bool)
        chosen[part] = True
        if not self.columns or not (inside := chosen[self.columns[0][3]]).any():
            return
        p, hit, weights, _, numbers, limits = (column[inside] for column in self.columns[0])
        given = weights if self.weighted else None
        place, edges = assign(p, bins, binning, given)
        mass, confidence = np.zeros(len(edges) - 1, np.int64), np.zeros(len(edges) - 1, np.int64)
        np.add.at(mass, place, 1 if given is None else units_of(given))
        np.add.at(confidence, place, np.rint(weights * p * CONFIDENCE).astype(np.int64))
        step = max(FEWEST, TABLE // len(mass))
        for start in range(0, self.plan.draws if mass.any() else 0, step):
            lanes = lanes_of(self.plan, np.arange(start, min(start + step, self.plan.draws)))
            table = np.zeros((len(mass), len(lanes.numbers) + 1), np.int32 if given is None else np.int64)
            add_hits(table, lanes, limits, numbers, place[None], hit, given, self.plan.threads)
            yield _binned(mass, confidence, table, self.weighted, lanes)


@dataclass(frozen=True)
class Counters:
    """Which labels are counted: a row of predicted class k counts label c in slots[chosen[g, k], c], for each g."""

    chosen: np.ndarray
    slots: np.ndarray
    count: int

    @classmethod
    def of(cls, classes: Sequence[int], pairs: Sequence[tuple[int, int]], total: int) -> Counters:
        """Count these classes, and these pairs of label and predicted class; a last slot takes all other labels."""
        predicted = sorted({k for _, k in pairs})
        count = len(classes) + len(pairs)
        chosen = np.full((2, total), -1, np.int64)
        slots = np.full((1 + len(predicted), total), count, np.int64)
        chosen[0] = 0 if classes else -1
        slots[0, list(classes)] = np.arange(len(classes))
        chosen[1, predicted] = 1 + np.arange(len(predicted))
        for place, (label, k) in enumerate(pairs):
            slots[chosen[1, k], label] = len(classes) + place
        return cls(chosen, slots, count)


class LabelSums:
    """Sums of the log and the Brier score of labels, and counts of labels."""

    def __init__(self, scored: bool, counters: Counters, plan: Plan, targets: Targets) -> None:
        cells, self.counters, self.plan, self.scored = targets.cells, counters, plan, scored
        self.lanes = lanes_of(plan, np.arange(plan.draws))
        self.mass = np.zeros(cells, np.int64)
        self.sums = np.zeros((2, cells if scored else 0, plan.draws + 1), np.int64)
        slots = counters.count + 1 if counters.count else 0
        self.counts = np.zeros((cells, slots, plan.draws + 1), np.int64)
        self.far = [ExactSum() for _ in range(cells)]
        self.unit = 1.0

    def add(self, block: Classification | Judged, rows: Any, limits: np.ndarray, cells: np.ndarray, first: int) -> None:
        """Take in a block; limits are the thresholds of its predicted classes."""
        weights = rows.weights
        self.unit = 1.0 if weights is None else 1.0 / WEIGHT
        np.add.at(self.mass, cells, 1 if weights is None else units_of(weights))
        near = -rows.log_label < FARTHEST
        if self.scored and not near.all():
            self._add_far(rows, near, cells)
        labels = rows.hit.astype(np.int64) if isinstance(block, Judged) else block.labels
        for drawn in parts(block, rows, self.plan, first, limits):
            start = drawn.first - first
            self._add(drawn, slice(start, start + len(drawn.limits)), labels, near, weights, cells)

    def _add(self, drawn: Drawn, these: slice, labels: Any, near: np.ndarray, weights: Any, cells: np.ndarray) -> None:
        weights = None if weights is None else weights[these]
        observed = (labels[these].astype(np.int64), near[these], weights, cells[these])
        counting = (self.counters.chosen, self.counters.slots)
        add_labels(self.sums, self.counts, self.lanes, drawn, *observed, *counting, self.plan.threads)

    def _add_far(self, rows: Any, near: np.ndarray, cells: np.ndarray) -> None:
        """Log scores that no drawn label can have, infinite ones among them, to every bit."""
        counting = ~near if rows.weights is None else ~near & (rows.weights > 0)
        for cell in np.unique(cells[counting]).tolist():
            inside = counting & (cells == cell)
            self.far[cell].add(-rows.log_label[inside] * (1.0 if rows.weights is None else rows.weights[inside]))

    def total(self, part: np.ndarray) -> float:
        """The weight of a target."""
        return float(self.mass[part].sum() * self.unit)

    def score(self, which: int, part: np.ndarray) -> np.ndarray:
        """The sum of a score over a target (R + 1,), in units of 2⁻²⁴; for far observed ones see `far_sum`."""
        return self._in_order(self.sums[which, part].sum(axis=0))

    def far_sum(self, part: np.ndarray) -> float:
        """The sum of observed log scores that are beyond any drawn one."""
        total = ExactSum()
        for cell in part.tolist():
            total.merge(self.far[cell])
        return total.value()

    def count(self, slots: Sequence[int], part: np.ndarray) -> np.ndarray:
        """The weight of labels in these slots (slots, R + 1)."""
        return self._in_order(self.counts[part[:, None], np.array(slots)].sum(axis=0) * self.unit)

    def _in_order(self, values: np.ndarray) -> np.ndarray:
        return np.concatenate([self.lanes.in_order(values[..., :-1]), values[..., -1:]], axis=-1)
