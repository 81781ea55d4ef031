"""What the engines of replicated outcomes share: statistics over quantile levels, weighted sums, and extremes.

Statistics over levels are the registry's formulas for many replicates at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from calibrant.calibration.regression import even_levels, mean_absolute, root_mean_square
from calibrant.checks.label_statistics import MAX, MEAN, MIN
from calibrant.checks.plan import Engine, Plan, Targets
from calibrant.checks.statistics import Statistic
from calibrant.errors import ValuesError
from calibrant.kernels.exact import GroupSums
from calibrant.kernels.replicates.tables import Tables
from calibrant.predictions import Regression
from calibrant.registry.metrics.regression import MAE
from calibrant.registry.metrics.regression_calibration import CALIBRATION_ERROR, MACE, RMSCE
from calibrant.registry.metrics.regression_spread import PICP
from calibrant.registry.state.level_coverage import CENTRAL
from calibrant.scores.regression import interval_ends

ERRORS = (CALIBRATION_ERROR, MACE, RMSCE)
LEVEL_STATISTICS = (*ERRORS, PICP)
EXTREMES = (MIN, MAX)
"""In the order of `Tables.extremes`."""
FINEST = 50
"""Bits of the largest contribution of a row, and of the largest weight, for few rows."""
ROOM = 62
FARTHEST_OF_ALL = 1e140
Edge = tuple[float, bool]
"""A level, and whether an outcome equal to its quantile counts as below."""


def error_over_levels(statistic: Statistic, shares: np.ndarray) -> np.ndarray:
    """The error (…) of shares p̂ (…, B) under the levels j/B."""
    gaps = shares - even_levels(shares.shape[-1])
    if statistic.entry is MACE:
        return mean_absolute(gaps)
    root = root_mean_square(gaps)
    return root if statistic.entry is RMSCE else shares.shape[-1] * root * root


def levels_of(statistic: Statistic) -> np.ndarray:
    """The levels p_j = j/B of a statistic."""
    return even_levels(int(statistic.options["levels"]))


def is_central(statistic: Statistic) -> bool:
    """Whether it uses central intervals."""
    return statistic.options["coverage"] == CENTRAL


def _intervals(statistic: Statistic) -> list[tuple[Edge | None, Edge | None]]:
    """The lower and upper edge of each interval whose coverage is needed; None for an infinite edge."""
    if statistic.entry is PICP:
        low, high = interval_ends(float(statistic.options["level"]))
        return [((low, False), (high, True))]
    levels = levels_of(statistic).tolist()
    if not is_central(statistic):
        return [(None, (level, False)) for level in levels]
    ends = [interval_ends(level) for level in levels]
    return [((low, False), (high, True)) if high < 1.0 else (None, None) for low, high in ends]


def edges_of(statistics: Iterable[Statistic]) -> list[Edge]:
    """All edges that the statistics over levels need, in increasing order."""
    over_levels = [statistic for statistic in statistics if statistic.entry in LEVEL_STATISTICS]
    pairs = [pair for statistic in over_levels for pair in _intervals(statistic)]
    return sorted({edge for pair in pairs for edge in pair if edge is not None})


def values_of_counts(statistic: Statistic, edges: list[Edge], counts: np.ndarray) -> np.ndarray:
    """The statistic (R,) from integer weighted counts (R, E + 1) between the edges."""
    index = {edge: k for k, edge in enumerate(edges)}
    below = np.cumsum(counts, axis=1)
    total = below[:, -1:]
    zero = np.zeros_like(total)
    pairs = _intervals(statistic)
    low = [zero if edge is None else below[:, [index[edge]]] for edge, _ in pairs]
    high = [total if edge is None else below[:, [index[edge]]] for _, edge in pairs]
    with np.errstate(invalid="ignore"):
        shares = (np.concatenate(high, axis=1) - np.concatenate(low, axis=1)) / total
    return shares[:, 0] if statistic.entry is PICP else error_over_levels(statistic, shares)


class OutcomeReplicates(Engine):
    """Replicates of coverage, scores, means and extremes of outcomes."""

    needs_preparing = True
    kind: str
    columns: Mapping[str, int]
    """The sums over rows that the kernel knows, by name, with their columns."""

    def __init__(self, statistics: Sequence[Statistic], example: Regression, plan: Plan, targets: Targets) -> None:
        super().__init__(statistics, example, plan, targets)
        self.sums = sorted({name for name in map(self.sum_of, self.statistics) if name is not None})
        self.weighted = example.weights is not None
        self.extremes = any(s.entry in EXTREMES for s in self.statistics)
        self.prepared, self.added, self.heaviest = 0, 0, 0.0
        self.mass, self.centre = GroupSums(), GroupSums()

    @classmethod
    def supports(cls, statistic: Statistic, example: Any) -> bool:
        """Whether it is a coverage, score, mean or extreme of such predictions."""
        if example.task != "regression" or example.kind != cls.kind:
            return False
        return statistic.entry in (*LEVEL_STATISTICS, *EXTREMES) or cls.sum_of(statistic) is not None

    @classmethod
    def sum_of(cls, statistic: Statistic) -> str | None:
        """The name of the sum over rows whose mean is the statistic; None if there is none."""
        name = statistic.name + " of mean" * (statistic.entry is MAE and statistic.options["point"] != "median")
        return name if statistic.entry is not None and name in cls.columns else None

    def prepare(self, block: Regression) -> None:
        """Update the number of rows and the largest weight."""
        self.prepared += block.n
        if self.weighted:
            self.heaviest = max(self.heaviest, float(row_weights(block).max()))

    @property
    def bits(self) -> int:
        """Bits of the largest contribution of a row, such that no sum can overflow."""
        return min(FINEST, ROOM - self.prepared.bit_length())

    def mean_or_extreme(
        self, statistic: Statistic, cells: np.ndarray, tables: Tables, scales: np.ndarray, beyond: float | None = None
    ) -> np.ndarray:
        """The values (R + 1,) of a statistic that is none of levels; beyond: observed contributions outside tables."""
        if statistic.entry in EXTREMES:
            extremes = tables.extremes[cells, EXTREMES.index(statistic.entry)]
            return extremes.min(axis=0) if statistic.entry is MIN else extremes.max(axis=0)
        column = self.columns[str(self.sum_of(statistic))]
        totals = tables.sums[cells, column].sum(axis=0) / scales[column]
        if beyond is not None:
            totals[-1] += beyond
        if statistic.entry is MEAN:
            totals += of_cells(self.centre, cells)
        means = totals / of_cells(self.mass, cells)
        return np.sqrt(np.maximum(means, 0.0)) if statistic.options.get("root") else means


def refuse_far(distance: float) -> None:
    """Refuse distances whose squares overflow."""
    if distance > FARTHEST_OF_ALL:
        expected, hint = f"outcomes at most {FARTHEST_OF_ALL:g} apart", "give outcomes and predictions in larger units"
        raise ValuesError("check", expected=expected, got=f"{distance:.3g}", hint=hint)


def row_weights(block: Regression) -> np.ndarray:
    """The weights of rows in the unit of the whole input; 1 without weights."""
    return np.ones(block.n) if block.weights is None else block.weights / block.info.weight_unit


def of_cells(sums: GroupSums, cells: np.ndarray) -> float:
    """The sum over some of the cells; 0 for cells without rows."""
    return float(sums.values()[cells[cells < sums.groups]].sum())
