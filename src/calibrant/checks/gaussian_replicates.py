"""Replicates of Gaussians and their mixtures: outcomes are redrawn, and only tables of them are kept.

Statistics over levels count outcomes between the quantiles that the mixture has in each row, so that a draw costs a
look at a table, not a distribution function of every member. Means are sums of whole units: no order of rows changes a
bit. The unit is found in a first round over the blocks, so that no sum of replicates can overflow: it is 2⁻⁴⁰ of the
most that a row can add, for four million rows, and a bit more or less for half or twice as many. What an observed
outcome adds beyond what a replicated one could is summed apart.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np

from calibrant.checks.laws import Law, Replicates
from calibrant.checks.level_statistics import LEVEL_STATISTICS, edges_of, values_of_counts
from calibrant.checks.plan import INDEPENDENT, Plan, Targets
from calibrant.checks.statistics import Statistic
from calibrant.errors import UsageError, ValuesError
from calibrant.kernels.exact import GroupSums
from calibrant.kernels.regression_replicates import SUMS, Drawn, Redraw, empty_tables, redraw_gaussians
from calibrant.kernels.replicate_tables import Tables
from calibrant.predictions import Regression
from calibrant.predictions.regression import mean_and_variance

FARTHEST = 6.4
"""No word gives a |z| of more: it is 6.34 for the first and the last."""
FINEST = 50
"""Bits of the most that a row can add, where rows are few."""
ROOM = 62
RANK_BITS = 30
"""Bits of the largest weight, where weights are counted in whole units: 2³³ rows fit."""
BLOCK = 1 << 20
FARTHEST_OF_ALL = 1e140
MOST_ENTRIES = 1 << 27
EXTREMES = {"min": 0, "max": 1}


def sum_of(statistic: Statistic) -> str | None:
    """The sum over rows that a statistic is the mean of."""
    if statistic.name == "mae":
        return "mae" if statistic.options["point"] == "median" else "mae of mean"
    return statistic.name if statistic.name in SUMS else None


def is_own(statistic: Statistic) -> bool:
    """Whether it is a mean or extreme of the outcomes themselves, and not a function of the user's of that name."""
    return statistic.spec is None and statistic.title != "" and statistic.name in ("mean", *EXTREMES)


class GaussianReplicates:
    """Replicated levels, scores, means and extremes of Gaussian predictions."""

    wanted: frozenset[Hashable] = frozenset()
    needs_preparing: bool = True

    def __init__(self, statistics: Sequence[Statistic], example: Regression, plan: Plan, targets: Targets) -> None:
        """Nothing taken in yet; where it needs preparing, `prepare` is to see every block first."""
        self.statistics, self.plan, self.targets = list(statistics), plan, targets
        self.edges = edges_of(self.statistics)
        self.sums = sorted({name for name in map(sum_of, self.statistics) if name is not None})
        self.members, self.weighted = example.members, example.weights is not None
        self.needs_preparing = bool(self.sums) or self.weighted
        self.prepared, self.added = 0, 0
        self.heaviest, self.farthest, self.sharpest = 0.0, 0.0, 0.0
        self.redraw: Redraw | None = None
        self.tables: Tables | None = None
        self.mass, self.centre = GroupSums(), GroupSums()
        self.beyond = {name: GroupSums() for name in self.sums}

    @classmethod
    def takes(cls, statistic: Statistic, example: Any) -> bool:
        """Levels, scores, means and extremes of Gaussians and their mixtures."""
        if example.task != "regression" or example.kind != "gaussian":
            return False
        if statistic.spec is None:
            return is_own(statistic)
        return statistic.name in LEVEL_STATISTICS or sum_of(statistic) is not None

    # ---------------------------------------------------------------------------------------- units
    def prepare(self, block: Regression) -> None:
        """Take in how far replicates can lie from the predicted means, and how heavy rows are."""
        self.prepared += block.n
        if self.weighted:
            self.heaviest = max(self.heaviest, float(row_weights(block).max()))
        for mean, std in _parts(block) if self.sums else ():
            away = np.abs(mean - mean_and_variance(mean)[0])
            self.farthest = max(self.farthest, float((away + FARTHEST * std).max()))
            self.sharpest = max(self.sharpest, float(np.abs(np.log(std)).max()))
        refuse_far(self.farthest)

    def _bounds(self) -> dict[str, float]:
        """The most that a replicated row can add to each sum, in absolute value."""
        far = min(self.farthest, 1e150)
        surprise = FARTHEST**2 / 2 + self.sharpest + math.log(self.members) + 1.0
        return {"mean": far, "mse": far**2, "nll": surprise, "crps": 2 * far, "mae": 2 * far, "mae of mean": far}

    def _begin(self) -> tuple[Redraw, Tables]:
        """What is drawn and kept, once units are known."""
        if self.redraw is None or self.tables is None:
            bounds, scales, most = np.zeros(len(SUMS)), np.zeros(len(SUMS)), self._bounds()
            bits = min(FINEST, ROOM - self.prepared.bit_length())
            for name in self.sums:
                bounds[SUMS[name]] = bound = max(most[name], 1e-280)
                heaviest = max(self.heaviest, 1e-20) if self.weighted else 1.0
                scales[SUMS[name]] = math.ldexp(1.0, bits - math.frexp(bound * heaviest)[1])
            levels = np.array([level for level, _ in self.edges])
            closed = np.array([at for _, at in self.edges], bool)
            numbers, segments = self._order()
            self.redraw = Redraw(
                self.plan.seed, self.plan.purpose, numbers.astype(np.uint32), segments, levels, closed, scales, bounds,
                any(s.name in EXTREMES for s in self.statistics), self.plan.threads,
            )  # fmt: skip
            refuse_large(self.targets.cells * (len(numbers) + 1) * (len(levels) + 1))
            self.tables = empty_tables(self.redraw, self.targets.cells)
        return self.redraw, self.tables

    def _order(self) -> tuple[np.ndarray, np.ndarray]:
        """The replicates, and where those of each member begin."""
        if self.plan.reading == INDEPENDENT or self.members == 1:
            return np.arange(self.plan.draws), np.array([0, self.plan.draws])
        order = self.plan.order
        return order, np.searchsorted(self.plan.source[order], np.arange(self.members + 1))

    # ----------------------------------------------------------------------------------------- rows
    def add(self, block: Regression, rows: Any, cells: np.ndarray, first: int) -> None:
        """Redraw the rows of a block, and add them to the tables of their cells."""
        del rows
        self.added += block.n
        if self.needs_preparing and self.added > self.prepared:
            raise RuntimeError("rows are taken in that were not prepared for")
        if block.mean is None or block.std is None or block.y is None:
            raise AttributeError("these rows carry no outcomes of Gaussians")
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
            odd = np.flatnonzero(beyond[:, SUMS[name]])
            self.beyond[name].add(beyond[odd, SUMS[name]], cells[odd])
        if "mean" in self.sums:
            centre = np.concatenate([mean_and_variance(mean)[0] for mean, _ in _parts(block)])
            self.centre.add(weights * centre, cells)

    # ----------------------------------------------------------------------------------------- laws
    def laws(self) -> list[dict[str, Law]]:
        """For each target the replicated values of each statistic, and the observed one."""
        self._begin()
        return [{s.key: self._law(s, part) for s in self.statistics} for part in self.targets.parts]

    def _law(self, statistic: Statistic, cells: np.ndarray) -> Law:
        redraw, _ = self._begin()
        mass = of_cells(self.mass, cells)
        found = self._values(statistic, cells, mass) if mass > 0 else np.full(len(redraw.numbers) + 1, np.nan)
        values = np.empty(len(redraw.numbers))
        values[redraw.numbers] = found[:-1]
        return Replicates(float(found[-1]), values)

    def _values(self, statistic: Statistic, cells: np.ndarray, mass: float) -> np.ndarray:
        """The values in the order of the tables, the observed one last."""
        redraw, tables = self._begin()
        if statistic.name in LEVEL_STATISTICS:
            return values_of_counts(statistic, self.edges, tables.counts[cells].sum(axis=0))
        if statistic.name in EXTREMES:
            extremes = tables.extremes[cells, EXTREMES[statistic.name]]
            return extremes.min(axis=0) if statistic.name == "min" else extremes.max(axis=0)
        name = str(sum_of(statistic))
        totals = tables.sums[cells, SUMS[name]].sum(axis=0) / redraw.scales[SUMS[name]]
        totals[-1] += of_cells(self.beyond[name], cells)
        if name == "mean":
            totals += of_cells(self.centre, cells)
        means = totals / mass
        return np.sqrt(np.maximum(means, 0.0)) if statistic.options.get("root") else means


def refuse_far(distance: float) -> None:
    """Squares of larger numbers are infinite."""
    if distance > FARTHEST_OF_ALL:
        raise ValuesError(
            "check",
            expected=f"outcomes that are at most {FARTHEST_OF_ALL:g} apart",
            came=f"they may be {distance:.3g} apart",
            do="give outcomes and predictions in larger units",
        )


def refuse_large(entries: int) -> None:
    """Tables that would not fit: they grow with groups, draws and levels."""
    if entries > MOST_ENTRIES:
        raise UsageError(
            "check",
            expected=f"at most {MOST_ENTRIES} counts, of groups times draws times levels",
            came=f"there would be {entries}",
            do="check fewer groups at a time, or with fewer draws",
        )


def row_weights(block: Regression) -> np.ndarray:
    """The weights of rows in the unit of the whole input; 1 where there are none."""
    return np.ones(block.n) if block.weights is None else block.weights / block.info.weight_unit


def _parts(block: Regression) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Means and standard deviations of some rows at a time, in float64."""
    mean: np.ndarray = block.mean  # type: ignore[assignment]
    std: np.ndarray = block.std  # type: ignore[assignment]
    step = max(1, BLOCK // len(mean))
    for start in range(0, block.n, step):
        yield mean[:, start : start + step].astype(np.float64), std[:, start : start + step].astype(np.float64)


def of_cells(sums: GroupSums, cells: np.ndarray) -> float:
    """The sum over some of the cells; those that no row came to have 0."""
    return float(sums.values()[cells[cells < sums.groups]].sum())
