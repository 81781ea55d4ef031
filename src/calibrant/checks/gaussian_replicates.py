"""Replicates of Gaussian predictions and their mixtures: outcomes are redrawn, and only tables of them are kept.

Statistics over levels count outcomes between the quantiles of the mixture in each row, so a draw costs one table
lookup, not a distribution function of every member. Sums are integers in fixed units, so the order of rows changes no
bit. A first pass over the blocks determines the unit such that no sum can overflow: 2⁻⁴⁰ of the largest contribution of
a row for four million rows, and one bit more or less for half or twice as many. The excess of an observed outcome over
the largest replicated contribution is summed separately.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from calibrant.checks.distributions import Law, Replicates
from calibrant.checks.label_statistics import MEAN
from calibrant.checks.outcome_replicates import (
    LEVEL_STATISTICS,
    OutcomeReplicates,
    edges_of,
    of_cells,
    refuse_far,
    row_weights,
    values_of_counts,
)
from calibrant.checks.plan import Plan, Targets
from calibrant.checks.statistics import Statistic
from calibrant.errors import UsageError
from calibrant.kernels.exact import GroupSums
from calibrant.kernels.replicates.regression import SUMS, Drawn, Redraw, empty_tables, redraw_gaussians
from calibrant.kernels.replicates.tables import Tables
from calibrant.predictions import Regression
from calibrant.predictions.regression import mean_and_variance
from calibrant.results.check import INDEPENDENT

FARTHEST = 6.4
"""Bound of |z|: the first and the last random word give 6.34."""
RANK_BITS = 30
"""Bits of the largest weight in integer counts: 2³³ rows fit."""
BLOCK = 1 << 20
MOST_ENTRIES = 1 << 27


class GaussianReplicates(OutcomeReplicates):
    """Replicates of coverage, scores, means and extremes of Gaussian predictions."""

    kind = "gaussian"
    columns = SUMS

    def __init__(self, statistics: Sequence[Statistic], example: Regression, plan: Plan, targets: Targets) -> None:
        """Start without rows; if `needs_preparing`, `prepare` must see every block before `add`."""
        super().__init__(statistics, example, plan, targets)
        self.edges = edges_of(self.statistics)
        self.needs_preparing = bool(self.sums) or self.weighted
        self.farthest, self.sharpest = 0.0, 0.0
        self.redraw: Redraw | None = None
        self.tables: Tables | None = None
        self.beyond = {name: GroupSums() for name in self.sums}

    def prepare(self, block: Regression) -> None:
        """Update the bounds of replicated outcomes and of weights."""
        super().prepare(block)
        for mean, std in _parts(block) if self.sums else ():
            away = np.abs(mean - mean_and_variance(mean)[0])
            self.farthest = max(self.farthest, float((away + FARTHEST * std).max()))
            self.sharpest = max(self.sharpest, float(np.abs(np.log(std)).max()))
        refuse_far(self.farthest)

    def _begin(self) -> tuple[Redraw, Tables]:
        """The draws and their tables, made when units are known."""
        if self.redraw is None or self.tables is None:
            far = min(self.farthest, 1e150)
            nll = FARTHEST**2 / 2 + self.sharpest + math.log(self.example.members) + 1.0
            # bounds of what a replicated row adds to each sum, in absolute value
            most = {"mean": far, "mse": far**2, "nll": nll, "crps": 2 * far, "mae": 2 * far, "mae of mean": far}
            bounds, scales = np.zeros(len(SUMS)), np.zeros(len(SUMS))
            for name in self.sums:
                bounds[SUMS[name]] = bound = max(most[name], 1e-280)
                heaviest = max(self.heaviest, 1e-20) if self.weighted else 1.0
                scales[SUMS[name]] = math.ldexp(1.0, self.bits - math.frexp(bound * heaviest)[1])
            levels = np.array([level for level, _ in self.edges])
            closed = np.array([at for _, at in self.edges], bool)
            numbers, segments = np.arange(self.plan.draws), np.array([0, self.plan.draws])
            if (
                self.plan.reading != INDEPENDENT and self.example.members > 1
            ):  # replicates by member, and where each one begins
                numbers = np.argsort(self.plan.source, kind="stable")
                segments = np.searchsorted(self.plan.source[numbers], np.arange(self.example.members + 1))
            self.redraw = Redraw(
                self.plan.seed, self.plan.purpose, numbers.astype(np.uint32), segments, levels, closed, scales, bounds,
                self.extremes, self.plan.threads,
            )  # fmt: skip
            entries = self.targets.cells * (len(numbers) + 1) * (len(levels) + 1)
            if entries > MOST_ENTRIES:
                expected = f"at most {MOST_ENTRIES} counts (groups x draws x levels)"
                hint = "check fewer groups at a time, or use fewer draws"
                raise UsageError("check", expected=expected, got=f"{entries}", hint=hint)
            self.tables = empty_tables(self.redraw, self.targets.cells)
        return self.redraw, self.tables

    def add(self, block: Regression, rows: Any, cells: np.ndarray, first: int) -> None:
        """Redraw the rows of a block and add them to the tables of their cells."""
        self.added += block.n
        if self.needs_preparing and self.added > self.prepared:
            raise RuntimeError("rows were added that were not prepared")
        if block.mean is None or block.std is None or block.y is None:
            raise AttributeError("these rows have no Gaussian predictions with outcomes")
        redraw, tables = self._begin()
        weights = row_weights(block)
        ranks = np.ones(block.n, np.int64)
        if self.weighted:
            ranks = np.rint(weights / max(self.heaviest, 1e-20) * 2.0**RANK_BITS).astype(np.int64)
        cells = np.asarray(cells, np.int64)
        y = np.ascontiguousarray(block.y, np.float64)
        beyond = redraw_gaussians(redraw, Drawn(block.mean, block.std, y, weights, ranks, cells, first), tables)
        self.mass.add(weights, cells)
        for name in self.sums:
            nonzero = np.flatnonzero(beyond[:, SUMS[name]])
            self.beyond[name].add(beyond[nonzero, SUMS[name]], cells[nonzero])
        if any(s.entry is MEAN for s in self.statistics):
            centre = np.concatenate([mean_and_variance(mean)[0] for mean, _ in _parts(block)])
            self.centre.add(weights * centre, cells)

    def law(self, statistic: Statistic, part: np.ndarray) -> Law:
        """The replicated values of a statistic over these cells, and the observed one."""
        redraw, tables = self._begin()
        computed = np.full(len(redraw.numbers) + 1, np.nan)  # in the order of the tables, the observed value last
        if of_cells(self.mass, part) > 0:
            if statistic.entry in LEVEL_STATISTICS:
                computed = values_of_counts(statistic, self.edges, tables.counts[part].sum(axis=0))
            else:
                sums = self.beyond.get(str(self.sum_of(statistic)))
                beyond = None if sums is None else of_cells(sums, part)
                computed = self.mean_or_extreme(statistic, part, tables, redraw.scales, beyond)
        values = np.empty(len(redraw.numbers))
        values[redraw.numbers] = computed[:-1]
        return Replicates(float(computed[-1]), values)


def _parts(block: Regression) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Means and standard deviations in float64, some rows at a time."""
    mean: np.ndarray = block.mean  # type: ignore[assignment]
    std: np.ndarray = block.std  # type: ignore[assignment]
    step = max(1, BLOCK // len(mean))
    for start in range(0, block.n, step):
        yield mean[:, start : start + step].astype(np.float64), std[:, start : start + step].astype(np.float64)
