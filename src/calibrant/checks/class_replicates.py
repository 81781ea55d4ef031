"""Statistics of replicated labels of classifications and judged answers, from integer tables of draws.

A replicate of accuracy or of a top-label calibration error needs only the hits in bins of confidence. For one class of
two, rows that predict the other class have bins of their own: without a hit, such a row is one of the class. A proper
score needs the sum of a score of the label; the others count labels. Observed values go through the same tables and
formulas, and values closer than the rounding of rows are ties. Each table has a row for every cell, and a column for
every replicate and a last one for the observed labels. Reference: Gopal (2021), algorithms 2 and 4.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calibrant.calibration.binning import assign, equal_width
from calibrant.calibration.norms import norm
from calibrant.checks.distributions import Law, Replicates
from calibrant.checks.draws import lanes_of, limits_of, parts
from calibrant.checks.label_statistics import CLASS_FREQUENCY, CONFUSION, ENTROPY
from calibrant.checks.plan import Engine, Plan, Targets
from calibrant.checks.statistics import GAPS, Statistic
from calibrant.kernels.exact import ExactSum
from calibrant.kernels.replicates import labels as kernels
from calibrant.kernels.replicates.labels import (
    CONFIDENCE,
    FARTHEST,
    SCORE_UNIT,
    WEIGHT,
    Lanes,
    add_hits,
    add_labels,
    units_of,
)
from calibrant.kernels.rows import HITS_ONLY
from calibrant.predictions import Classification, Judged
from calibrant.registry.metrics.proper import ACCURACY, BRIER, NLL, RBS
from calibrant.scores.proper import rbs_factor

COUNTS = (CLASS_FREQUENCY, CONFUSION, ENTROPY)
WIDTH, KEPT = "width", "kept "
SLACK = {np.dtype(np.float32): 4.0, np.dtype(np.float64): 1.0}
"""Units by which rounding can separate equal sums of scores, per row: half a unit on either side, and that of p."""
TABLE = 1 << 23
"""Entries of a table of hits above which rows are kept and replicates are drawn a few at a time."""
FEWEST = 16
"""Smallest number of replicates drawn at a time in that case."""


@dataclass(frozen=True)
class Binned:
    """Weights (B,), sums of confidences (B,) and hits (B, R + 1) of one target; the last column is observed."""

    mass: np.ndarray
    confidence: np.ndarray
    hits: np.ndarray

    @property
    def share(self) -> np.ndarray:
        """The weight of each bin as a fraction of all."""
        return self.mass / self.mass.sum()

    def signed(self) -> np.ndarray:
        """n_b/N·(ȳ_b − p̄_b), (R + 1, B)."""
        total = self.mass.sum()
        return np.ascontiguousarray(((self.hits - self.confidence[:, None]) / total).T)

    def accuracy(self) -> np.ndarray:
        """The fraction of hits (R + 1,)."""
        return self.hits.sum(axis=0) / self.mass.sum()


Source = tuple[int, int | None]
"""A number of bins, and the class of two whose pairs are binned; None for the top label."""


class WidthHits:
    """Hits in bins of equal width, for several numbers of bins and kinds of pairs at a time."""

    def __init__(self, sources: Sequence[Source], plan: Plan, targets: Targets) -> None:
        self.sources, self.plan, self.targets = list(sources), plan, targets
        self.lanes = lanes_of(plan, np.arange(plan.draws))
        sizes = [bins * (1 if of is None else 2) * targets.cells for bins, of in self.sources]
        self.offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64).tolist()
        self.mass = np.zeros(self.offsets[-1], np.int64)
        self.confidence = np.zeros(self.offsets[-1], np.int64)
        self.table: np.ndarray | None = None

    def add(self, rows: Any, limits: np.ndarray, cells: np.ndarray, first: int) -> None:
        """Add a block; limits are the thresholds of its predicted classes."""
        weights = rows.weights
        if self.table is None:
            kind = np.int32 if weights is None else np.int64
            self.table = np.zeros((self.offsets[-1], self.plan.draws + 1), kind)
        within = []
        for offset, (bins, of) in zip(self.offsets, self.sources, strict=False):
            p = rows.confidence if of is None else rows.extras["class", of]
            part = cells if of is None else 2 * cells + (rows.predicted != of)
            at = offset + part * bins + equal_width(p, bins)
            confidence = np.rint(p * (CONFIDENCE if weights is None else weights * CONFIDENCE))
            np.add.at(self.mass, at, 1 if weights is None else units_of(weights))
            np.add.at(self.confidence, at, confidence.astype(np.int64))
            within.append(at)
        bin_of_row = np.stack(within)
        numbers = np.arange(first, first + rows.n)
        add_hits(self.table, self.lanes, limits, numbers, bin_of_row, rows.hit, weights, self.plan.threads)

    def of(self, source: Source, part: np.ndarray) -> Iterator[Binned]:
        """The bins of a target, all replicates at once; nothing if it has no weight."""
        where, bins = self.sources.index(source), source[0]
        span = slice(self.offsets[where], self.offsets[where + 1])
        if self.table is None or not part.size:
            return
        weighted = self.table.dtype == np.int64
        width = bins if source[1] is None else 2 * bins
        mass, confidence = (x[span].reshape(-1, width)[part].sum(axis=0) for x in (self.mass, self.confidence))
        hits = self.table[span].reshape(-1, width, self.table.shape[1])[part].sum(axis=0, dtype=np.int64)
        if mass.any():
            yield _binned(*_of_class(bins, mass, confidence, hits), weighted, self.lanes)


def _of_class(
    bins: int, mass: np.ndarray, confidence: np.ndarray, hits: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Join the bins of rows that predict a class of two with those of rows that predict the other one."""
    if len(mass) == bins:
        return mass, confidence, hits
    one, other = slice(bins), slice(bins, None)
    of_class = hits[one] + mass[other, None] - hits[other]
    return mass[one] + mass[other], confidence[one] + confidence[other], of_class


def _binned(mass: np.ndarray, confidence: np.ndarray, hits: np.ndarray, weighted: bool, lanes: Lanes) -> Binned:
    unit = 1.0 / WEIGHT if weighted else 1.0
    hits = np.concatenate([lanes.in_order(hits[:, :-1]), hits[:, -1:]], axis=1)
    return Binned(mass * unit, confidence / CONFIDENCE, hits * unit)


@dataclass
class KeptHits:
    """Rows whose bins depend on all rows: they are kept, and labels are drawn at the end."""

    plan: Plan
    targets: Targets
    of_class: int | None = None
    """The class of two whose pairs are binned; None for the top label."""
    columns: list[tuple[np.ndarray, ...]] = field(default_factory=list)
    weighted: bool = False

    def add(self, rows: Any, limits: np.ndarray, cells: np.ndarray, first: int) -> None:
        """Keep the needed columns of a block; rows of weight 0 are dropped."""
        self.weighted = rows.weights is not None
        weights = np.ones(rows.n) if rows.weights is None else rows.weights
        numbers = np.arange(first, first + rows.n)
        p = rows.confidence if self.of_class is None else rows.extras["class", self.of_class]
        other = np.zeros(rows.n, bool) if self.of_class is None else rows.predicted != self.of_class
        columns = (p, rows.hit, weights, cells, numbers, limits, other)
        self.columns.append(tuple(column[weights > 0] for column in columns))

    def of(self, bins: int, binning: str, part: np.ndarray) -> Iterator[Binned]:
        """The bins of a target, a few replicates at a time; nothing if it has no weight."""
        if len(self.columns) > 1:
            self.columns = [tuple(np.concatenate(column) for column in zip(*self.columns, strict=True))]
        chosen = np.zeros(self.targets.cells, bool)
        chosen[part] = True
        if not self.columns or not (inside := chosen[self.columns[0][3]]).any():
            return
        p, hit, weights, _, numbers, limits, other = (column[inside] for column in self.columns[0])
        row_weights = weights if self.weighted else None
        place, edges = assign(p, bins, binning, row_weights)
        width = (len(edges) - 1) * (1 if self.of_class is None else 2)
        place = place + other * (len(edges) - 1)
        mass, confidence = np.zeros(width, np.int64), np.zeros(width, np.int64)
        np.add.at(mass, place, 1 if row_weights is None else units_of(row_weights))
        np.add.at(confidence, place, np.rint(weights * p * CONFIDENCE).astype(np.int64))
        step = max(FEWEST, TABLE // len(mass))
        for start in range(0, self.plan.draws if mass.any() else 0, step):
            lanes = lanes_of(self.plan, np.arange(start, min(start + step, self.plan.draws)))
            table = np.zeros((len(mass), len(lanes.numbers) + 1), np.int32 if row_weights is None else np.int64)
            add_hits(table, lanes, limits, numbers, place[None], hit, row_weights, self.plan.threads)
            yield _binned(*_of_class(len(edges) - 1, mass, confidence, table), self.weighted, lanes)


@dataclass(frozen=True)
class Counters:
    """The labels to count: a row of predicted class k counts label c in slots[chosen[g, k], c], for each g."""

    chosen: np.ndarray
    slots: np.ndarray
    count: int

    @classmethod
    def of(cls, classes: Sequence[int], pairs: Sequence[tuple[int, int]], total: int) -> Counters:
        """Count these classes and these pairs of label and predicted class; the last slot counts all other labels."""
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
    """Sums of the log and Brier scores of labels, and counts of labels."""

    def __init__(self, scored: bool, counters: Counters, plan: Plan, targets: Targets) -> None:
        cells, self.counters, self.plan, self.scored = targets.cells, counters, plan, scored
        self.lanes = lanes_of(plan, np.arange(plan.draws))
        self.mass = np.zeros(cells, np.int64)
        self.sums = np.zeros((2, cells if scored else 0, plan.draws + 1), np.int64)
        slots = counters.count + 1 if counters.count else 0
        self.counts = np.zeros((cells, slots, plan.draws + 1), np.int64)
        self.far = [ExactSum() for _ in range(cells)]
        self.unit = 1.0
        self.slack = 0.0
        """Units by which rounding can separate equal sums of scores, per row."""

    def add(self, block: Classification | Judged, rows: Any, limits: np.ndarray, cells: np.ndarray, first: int) -> None:
        """Add a block; limits are the thresholds of its predicted classes."""
        weights = rows.weights
        self.unit = 1.0 if weights is None else 1.0 / WEIGHT
        np.add.at(self.mass, cells, 1 if weights is None else units_of(weights))
        near = -rows.log_label < FARTHEST
        if self.scored and not near.all():
            self._add_far(rows, near, cells)
        labels = rows.hit.astype(np.int64) if isinstance(block, Judged) else block.labels
        counting = (self.counters.chosen, self.counters.slots)
        for drawn in parts(block, rows, self.plan, first, limits):
            start = drawn.first - first
            self.slack = max(self.slack, SLACK.get(drawn.scores.dtype, 4.0))
            these = slice(start, start + len(drawn.limits))
            own_weights = None if weights is None else weights[these]
            observed = (labels[these].astype(np.int64), near[these], own_weights, cells[these])  # type: ignore[index]
            add_labels(self.sums, self.counts, self.lanes, drawn, *observed, *counting, self.plan.threads)

    def _add_far(self, rows: Any, near: np.ndarray, cells: np.ndarray) -> None:
        """Observed log scores beyond those of any drawn label, including infinite ones, summed exactly."""
        counting = ~near if rows.weights is None else ~near & (rows.weights > 0)
        for cell in np.unique(cells[counting]).tolist():
            inside = counting & (cells == cell)
            self.far[cell].add(-rows.log_label[inside] * (1.0 if rows.weights is None else rows.weights[inside]))

    def total(self, part: np.ndarray) -> float:
        """The weight of a target."""
        return float(self.mass[part].sum() * self.unit)

    def score(self, which: int, part: np.ndarray) -> np.ndarray:
        """The sum of a score over a target (R + 1,) in units of 2⁻²⁴, without the observed ones of `far_sum`."""
        return self._in_order(self.sums[which, part].sum(axis=0))

    def far_sum(self, part: np.ndarray) -> float:
        """The sum of observed log scores beyond those of any drawn label."""
        total = ExactSum()
        for cell in part.tolist():
            total.merge(self.far[cell])
        return total.value()

    def count(self, slots: Sequence[int], part: np.ndarray) -> np.ndarray:
        """The weight of labels in these slots (slots, R + 1)."""
        return self._in_order(self.counts[part[:, None], np.array(slots)].sum(axis=0) * self.unit)

    def _in_order(self, values: np.ndarray) -> np.ndarray:
        return np.concatenate([self.lanes.in_order(values[..., :-1]), values[..., -1:]], axis=-1)


class ClassReplicates(Engine):
    """Replicates of hit statistics, of mean proper scores and of label counts."""

    def __init__(self, statistics: Sequence[Statistic], example: Any, plan: Plan, targets: Targets) -> None:
        super().__init__(statistics, example, plan, targets)
        self.classes = getattr(example, "classes", 2)
        self.binnings: dict[str, tuple[Source, str]] = {}
        """Bins and their kind of each hit statistic; accuracy shares the bins of another one, or has one bin."""
        for statistic in (s for s in statistics if s.entry in GAPS):
            bins, binning = int(statistic.options["bins"]), str(statistic.options["binning"])
            large = bins * targets.cells * plan.draws > TABLE
            source = bins, statistic.class_of(example)
            self.binnings[statistic.key] = source, (KEPT if large and binning == WIDTH else "") + binning
        by_width = [source for source, binning in self.binnings.values() if binning == WIDTH]
        shared = next((source for source in by_width if source[1] is None), (1, None))
        self.binnings |= {s.key: (shared, WIDTH) for s in statistics if s.entry is ACCURACY}
        every = list(dict.fromkeys(self.binnings.values()))
        width = [source for source, binning in every if binning == WIDTH]
        self.width = WidthHits(width, plan, targets) if width else None
        of_kept = dict.fromkeys(source[1] for source, binning in every if binning != WIDTH)
        self.kept = {of: KeptHits(plan, targets, of) for of in of_kept}

        scored = any(s.entry in (NLL, BRIER, RBS) for s in statistics)
        classes = sorted({_class(s, "of") for s in statistics if s.entry is CLASS_FREQUENCY})
        if any(s.entry is ENTROPY for s in statistics):
            classes = list(range(self.classes))
        pairs = [(_class(s, "true"), _class(s, "predicted")) for s in statistics if s.entry is CONFUSION]
        self.slots: dict[str, list[int]] = {}
        """The slots of each statistic that counts labels."""
        for statistic in statistics:
            if statistic.entry is ENTROPY:
                self.slots[statistic.key] = list(range(self.classes))
            elif statistic.entry is CLASS_FREQUENCY:
                self.slots[statistic.key] = [classes.index(_class(statistic, "of"))]
            elif statistic.entry is CONFUSION:
                pair = _class(statistic, "true"), _class(statistic, "predicted")
                self.slots[statistic.key] = [len(classes) + pairs.index(pair)]
        counters = Counters.of(classes, pairs, self.classes)
        self.labels = LabelSums(scored, counters, plan, targets) if scored or counters.count else None
        pairs_of_class = {source[1] for source, _ in self.binnings.values()} - {None}
        light = self.labels is None and not pairs_of_class
        self.required_columns = frozenset({HITS_ONLY} if light else {("class", of) for of in pairs_of_class})

    @classmethod
    def supports(cls, statistic: Statistic, example: Any) -> bool:
        """Whether it is a top-label hit statistic, a mean proper score or a label count, with hard labels."""
        if example.task not in ("classification", "judged") or not example.has_labels:
            return False
        if getattr(example, "soft", False):
            return False
        entry, options = statistic.entry, statistic.options
        if entry in COUNTS:
            return bool(example.task == "classification")
        if entry in GAPS:
            known = statistic.class_of(example) is None or example.classes == 2
            return known and not options.get("debias", False)
        return entry in (ACCURACY, BRIER, RBS) or (entry is NLL and options["clip"] == 0)

    def add(self, block: Any, rows: Any, cells: np.ndarray, first: int) -> None:
        """Add a block."""
        limits, cells = limits_of(rows, self.plan), np.asarray(cells, np.int64)
        if self.width is not None:
            self.width.add(rows, limits, cells, first)
        for kept in self.kept.values():
            kept.add(rows, limits, cells, first)
        if self.labels is not None:
            self.labels.add(block, rows, limits, cells, first)

    def laws(self) -> list[dict[str, Law]]:
        """The replicates of each statistic, for each target; they are NaN without rows of positive weight."""
        laws: list[dict[str, Law]] = []
        for part in self.targets.parts:
            every = self._hit_values(part)
            for statistic in self.statistics:
                if statistic.key not in self.binnings and self.labels is not None and self.labels.total(part):
                    every[statistic.key] = self._label_values(statistic, self.labels, part)
            undefined = np.full(self.plan.draws + 1, np.nan)
            of_target: dict[str, Law] = {}
            for statistic in self.statistics:
                own = every.get(statistic.key, undefined)
                of_target[statistic.key] = Replicates(float(own[-1]), own[:-1], self._slack(statistic, float(own[-1])))
            laws.append(of_target)
        return laws

    def _slack(self, statistic: Statistic, observed: float) -> float:
        """The largest difference that rounding gives two equal values: scores and confidences are whole units."""
        if statistic.entry in GAPS:
            return 1.0 / CONFIDENCE
        if statistic.entry not in (NLL, BRIER, RBS) or self.labels is None or not math.isfinite(observed):
            return 0.0
        slack = self.labels.slack * SCORE_UNIT
        if statistic.entry is BRIER and statistic.options["per_class"]:
            return slack / self.classes
        if statistic.entry is RBS:
            factor = rbs_factor(self.classes, float(statistic.options["p"]))
            square = (observed / factor) ** 2
            return float(factor * (math.sqrt(square + slack) - math.sqrt(max(square - slack, 0.0))))
        return slack

    def _hit_values(self, part: np.ndarray) -> dict[str, np.ndarray]:
        """The replicated values of every hit statistic, and the observed one last."""
        pieces: dict[str, list[np.ndarray]] = {}
        for source, binning in dict.fromkeys(self.binnings.values()):
            statistics = [s for s in self.statistics if self.binnings.get(s.key) == (source, binning)]
            if binning == WIDTH and self.width is not None:
                tables = self.width.of(source, part)
            else:
                tables = self.kept[source[1]].of(source[0], binning.removeprefix(KEPT), part)
            for binned in tables:
                for statistic in statistics:
                    if statistic.entry is ACCURACY:
                        values = binned.accuracy()
                    else:
                        values = norm(binned.share, statistic.gap_power)(binned.signed())
                    pieces.setdefault(statistic.key, []).append(values)
        ends = {key: values[-1][-1:] for key, values in pieces.items()}
        return {key: np.concatenate([*(v[:-1] for v in values), ends[key]]) for key, values in pieces.items()}

    def _label_values(self, statistic: Statistic, labels: LabelSums, part: np.ndarray) -> np.ndarray:
        """A mean score, or a function of counts, of every replicate, and of the observed labels last."""
        total = labels.total(part)
        if statistic.entry in COUNTS:
            shares = labels.count(self.slots[statistic.key], part) / total
            if statistic.entry is not ENTROPY:
                return shares[0]
            shares = np.sort(shares, axis=0)  # smallest first, so that permuted classes give the same bits
            return -(shares * np.log(np.where(shares > 0, shares, 1.0))).sum(axis=0)
        mean = labels.score(kernels.NLL if statistic.entry is NLL else kernels.BRIER, part) * SCORE_UNIT / total
        if statistic.entry is NLL:
            mean[-1] += labels.far_sum(part) / total
        elif statistic.entry is BRIER:
            mean /= self.classes if statistic.options["per_class"] else 1.0
        else:
            mean = rbs_factor(self.classes, float(statistic.options["p"])) * np.sqrt(mean)
        return mean


def _class(statistic: Statistic, option: str) -> int:
    return int(statistic.options[option])
