"""Class-wise statistics of replicated labels: labels are counted in bins of the probability of their class.

One table of labels per number of bins gives every gap of every class, and so the class-wise errors and those of single
classes. Each table has a row for every cell, class and bin, and a column for every replicate and a last one for the
observed labels. Reference: Gopal (2021), algorithms 2 and 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calibrant.calibration.norms import norm, power_norm
from calibrant.checks.distributions import Law, Replicates
from calibrant.checks.draws import lanes_of, limits_of, parts
from calibrant.checks.plan import Engine, Plan, Targets
from calibrant.checks.statistics import CLASSWISE, GAPS, Statistic
from calibrant.kernels.replicates.labels import CONFIDENCE, WEIGHT, add_class_bins

MOST_ENTRIES = 1 << 26
"""Entries of a table up to which labels are counted in it."""
MOST_BY_DEFAULT = 1 << 24
"""The same where no statistics were named."""
AT_A_TIME = 1 << 22
"""Gaps of replicates that are reduced at a time."""


def table_entries(statistic: Statistic, example: Any, cells: int, draws: int) -> int:
    """The entries of the table that a class-wise statistic needs; 0 for others."""
    classes = example.classes if statistic.entry in CLASSWISE else 0
    return int(classes * int(statistic.options.get("bins", 0)) * cells * (draws + 1))


class LabelBins:
    """The bins of some classes, for one number of bins."""

    def __init__(self, classes: Sequence[int], total: int, bins: int, plan: Plan, targets: Targets) -> None:
        self.classes, self.bins, self.plan = list(classes), bins, plan
        self.index = np.full(total, -1, np.int64)
        self.index[self.classes] = np.arange(len(self.classes))
        self.lanes = lanes_of(plan, np.arange(plan.draws))
        self.shape = (targets.cells, len(self.classes), bins)
        size = int(np.prod(self.shape))
        self.mass, self.total = np.zeros(size, np.int64), np.zeros(size, np.int64)
        self.table: np.ndarray | None = None

    def add(self, block: Any, rows: Any, limits: np.ndarray, cells: np.ndarray, first: int) -> None:
        """Add a block; limits are the thresholds of its predicted classes."""
        if self.table is None:
            kind = np.int32 if rows.weights is None else np.int64
            self.table = np.zeros((self.mass.size + 1, self.plan.draws + 1), kind)
        for drawn in parts(block, rows, self.plan, first, limits):
            these = slice(drawn.first - first, drawn.first - first + len(drawn.limits))
            weights = None if rows.weights is None else rows.weights[these]
            tables = (self.mass, self.total, self.table)
            labels = block.labels[these].astype(np.int64)
            add_class_bins(
                *tables, self.lanes, drawn, labels, weights, cells[these], self.index, self.bins, self.plan.threads
            )

    def gaps(self, which: Sequence[int], part: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """The shares (K,) of filled bins of these classes and their signed gaps (R + 1, K); None without weight."""
        if self.table is None or not part.size:
            return None
        rows = self.index[list(which)]
        unit = 1.0 / WEIGHT if self.table.dtype == np.int64 else 1.0
        mass, total = (x.reshape(self.shape)[part][:, rows].sum(axis=0).ravel() for x in (self.mass, self.total))
        weight = float(mass.sum()) * unit / len(rows)
        if not weight:
            return None
        filled = np.flatnonzero(mass)
        counts = self.table[:-1].reshape(*self.shape, -1)[part][:, rows].sum(axis=0, dtype=np.int64)
        counts = counts.reshape(len(mass), -1)[filled]
        counts = np.concatenate([self.lanes.in_order(counts[:, :-1]), counts[:, -1:]], axis=1)
        signed = (counts * unit - total[filled, None] / CONFIDENCE) / weight
        return mass[filled] * unit / weight, np.ascontiguousarray(signed.T)


class ClasswiseReplicates(Engine):
    """Replicates of errors over the bins of every class, or of one class of several."""

    def __init__(self, statistics: Sequence[Statistic], example: Any, plan: Plan, targets: Targets) -> None:
        super().__init__(statistics, example, plan, targets)
        needed: dict[int, set[int]] = {}
        for statistic in statistics:
            needed.setdefault(int(statistic.options["bins"]), set()).update(self._classes(statistic))
        self.by_bins = {
            bins: LabelBins(sorted(classes), example.classes, bins, plan, targets) for bins, classes in needed.items()
        }

    def _classes(self, statistic: Statistic) -> list[int]:
        of = statistic.class_of(self.example)
        return list(range(self.example.classes)) if of is None else [of]

    @classmethod
    def supports(cls, statistic: Statistic, example: Any) -> bool:
        """Whether it is a class-wise error over bins of equal width, with hard labels."""
        if example.task != "classification" or not example.has_labels or example.soft:
            return False
        if statistic.entry in GAPS:
            options = statistic.options
            by_class = statistic.class_of(example) is not None
            return by_class and options["binning"] == "width" and not options.get("debias", False)
        return statistic.entry in CLASSWISE

    @classmethod
    def fits(cls, statistic: Statistic, example: Any, plan: Plan, targets: Targets) -> bool:
        """Whether its table is not too large."""
        return table_entries(statistic, example, targets.cells, plan.draws) <= MOST_ENTRIES

    def add(self, block: Any, rows: Any, cells: np.ndarray, first: int) -> None:
        """Add a block."""
        limits, cells = limits_of(rows, self.plan), np.asarray(cells, np.int64)
        for bins in self.by_bins.values():
            bins.add(block, rows, limits, cells, first)

    def law(self, statistic: Statistic, part: np.ndarray) -> Law:
        """The replicates of a statistic over these cells; they are NaN without rows of positive weight."""
        bins = self.by_bins[int(statistic.options["bins"])]
        found = bins.gaps(self._classes(statistic), part)
        if found is None:
            return Replicates(np.nan, np.full(self.plan.draws, np.nan))
        share, signed = found
        if statistic.entry in GAPS:
            reduce, factor = norm(share, statistic.gap_power), 1.0
        else:
            power = float(statistic.options.get("p", 1.0))
            divisor = self.example.classes if statistic.options.get("average", True) else 1
            reduce, factor = power_norm(share, power), (1.0 / divisor) ** (1.0 / power)
        step = max(1, AT_A_TIME // len(share))
        values = factor * np.concatenate([reduce(signed[k : k + step]) for k in range(0, len(signed), step)])
        return Replicates(float(values[-1]), values[:-1], slack=self.example.classes / CONFIDENCE)
