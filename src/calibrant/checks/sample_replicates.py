"""Replicates of samples: the outcome and the S draws of a row change places.

If the model is right, the observed outcomes and the S draws of all rows are S + 1 vectors that could have come in any
order. A replicate is one of the draws in the place of the outcomes: it is judged by the other S − 1 draws and the
observed outcomes, T(v_j; all but v_j), and the observed by the S draws. Among all S + 1 values the rank of the observed
one is then uniform, exactly, however few draws there are; judged by a pool that holds itself, a draw would look better
than it is. Read as Bayesian, a replicate takes the same draw in all rows; read as independent, one of each row's own.
Reference: Besag & Clifford (1989), "Generalized Monte Carlo significance tests", Biometrika 76: 633-642.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from calibrant.checks.draws import chosen_samples
from calibrant.checks.gaussian_replicates import EXTREMES, is_own, of_cells, refuse_far, row_weights, sum_of
from calibrant.checks.laws import Law, Replicates
from calibrant.checks.level_statistics import ERRORS, LEVEL_STATISTICS, error_over_levels, is_central, levels_of
from calibrant.checks.plan import INDEPENDENT, Plan, Targets
from calibrant.checks.statistics import Statistic
from calibrant.kernels.exact import GroupSums
from calibrant.kernels.regression import quantile_ranks
from calibrant.kernels.replicate_tables import Tables
from calibrant.kernels.sample_replicates import SUMS, Retake, empty_tables, retake_samples
from calibrant.predictions import Regression
from calibrant.scores.regression import interval_ends

FINEST = 50
"""Bits of the most that a row can add, and of the largest weight, where rows are few."""
ROOM = 62


def _sum_of(statistic: Statistic) -> str | None:
    """The sum over rows that a statistic is the mean of."""
    name = sum_of(statistic)
    if name == "crps":
        return "crps" if statistic.options["fair"] else "plain crps"
    return name if name in SUMS else None


class SampleReplicates:
    """Replicated levels, scores, means and extremes of samples."""

    wanted: frozenset[Hashable] = frozenset()
    needs_preparing: bool = True

    def __init__(self, statistics: Sequence[Statistic], example: Regression, plan: Plan, targets: Targets) -> None:
        """Nothing taken in yet; `prepare` is to see every block first."""
        if example.samples is None:
            raise AttributeError("these predictions have no samples")
        self.statistics, self.plan, self.targets = list(statistics), plan, targets
        self.size, self.weighted = len(example.samples), example.weights is not None
        self.sums = sorted({name for name in map(_sum_of, self.statistics) if name is not None})
        self.coverages = [s for s in self.statistics if s.name == "picp"]
        self.places = _places(self.statistics, self.size)
        self.prepared, self.added = 0, 0
        self.heaviest, self.widest = 0.0, 0.0
        self.retake: Retake | None = None
        self.tables: Tables | None = None
        self.mass, self.centre = GroupSums(), GroupSums()
        self.ranks = np.zeros(targets.cells, np.int64)

    @classmethod
    def takes(cls, statistic: Statistic, example: Any) -> bool:
        """Levels, scores, means and extremes of samples."""
        if example.task != "regression" or example.kind != "samples":
            return False
        if statistic.spec is None:
            return is_own(statistic)
        return statistic.name in LEVEL_STATISTICS or _sum_of(statistic) is not None

    # ---------------------------------------------------------------------------------------- units
    def prepare(self, block: Regression) -> None:
        """Take in how far the values of a row lie apart, and how heavy rows are."""
        self.prepared += block.n
        if self.weighted:
            self.heaviest = max(self.heaviest, float(row_weights(block).max()))
        if self.sums and block.samples is not None and block.y is not None:
            low = np.minimum(block.samples.min(axis=0), block.y)
            high = np.maximum(block.samples.max(axis=0), block.y)
            self.widest = max(self.widest, float((high.astype(np.float64) - low).max()))
            refuse_far(self.widest)

    @property
    def _bits(self) -> int:
        return min(FINEST, ROOM - self.prepared.bit_length())

    def _begin(self) -> tuple[Retake, Tables]:
        """What replicates take and what is kept, once units are known."""
        if self.retake is None or self.tables is None:
            heaviest = max(self.heaviest, 1e-20) if self.weighted else 1.0
            wide = min(max(self.widest, 1e-140), 1e140)
            scales = np.zeros(len(SUMS))
            for name in self.sums:
                bound = wide**2 if name == "mse" else 2.0 * wide
                scales[SUMS[name]] = math.ldexp(1.0, self._bits - math.frexp(bound * heaviest)[1])
            levels = [interval_ends(float(s.options["level"])) for s in self.coverages]
            ends = [quantile_ranks(self.size, np.array(pair)) for pair in levels]
            by_row = self.plan.reading == INDEPENDENT
            chosen = np.zeros(self.plan.draws, np.int64) if by_row else chosen_samples(self.size, self.plan)
            self.retake = Retake(
                self.plan.seed, self.plan.purpose, chosen, by_row, *_bins(self.places, self.size),
                np.array(ends, np.int64).reshape(-1, 2), scales, any(s.name in EXTREMES for s in self.statistics),
                self.plan.threads,
            )  # fmt: skip
            self.tables = empty_tables(self.retake, self.targets.cells)
        return self.retake, self.tables

    # ----------------------------------------------------------------------------------------- rows
    def add(self, block: Regression, rows: Any, cells: np.ndarray, first: int) -> None:
        """Judge the values of every row by each other, and add them to the replicates that take them."""
        del rows
        self.added += block.n
        if self.added > self.prepared:
            raise RuntimeError("rows are taken in that were not prepared for")
        if block.samples is None or block.y is None:
            raise AttributeError("these rows carry no samples and outcomes")
        retake, tables = self._begin()
        weights, cells = row_weights(block), np.asarray(cells, np.int64)
        unit = weights / max(self.heaviest, 1e-20) if self.weighted else weights
        ranks = np.rint(unit * 2.0**self._bits).astype(np.int64)
        y = block.y.astype(np.float64)
        retake_samples(retake, block.samples, y, weights, ranks, cells, first, tables)
        np.add.at(self.ranks, cells, ranks)
        self.mass.add(weights, cells)
        self.centre.add(weights * block.samples[0].astype(np.float64), cells)

    # ----------------------------------------------------------------------------------------- laws
    def laws(self) -> list[dict[str, Law]]:
        """For each target the replicated values of each statistic, and the observed one."""
        return [{s.key: self._law(s, part) for s in self.statistics} for part in self.targets.parts]

    def _law(self, statistic: Statistic, cells: np.ndarray) -> Law:
        retake, _ = self._begin()
        mass = of_cells(self.mass, cells)
        found = np.full(len(retake.chosen) + 1, np.nan)
        if mass > 0 and self.ranks[cells].sum() > 0:
            found = self._values(statistic, cells, mass)
        return Replicates(float(found[-1]), found[:-1])

    def _values(self, statistic: Statistic, cells: np.ndarray, mass: float) -> np.ndarray:
        """The values of the replicates, and behind them the observed one."""
        retake, tables = self._begin()
        if statistic.name in ERRORS:
            return self._error(statistic, tables.counts[cells].sum(axis=0), cells)
        if statistic.name == "picp":
            hits = tables.inside[cells, self.coverages.index(statistic)].sum(axis=0)
            return hits / self.ranks[cells].sum()
        if statistic.name in EXTREMES:
            extremes = tables.extremes[cells, EXTREMES[statistic.name]]
            return extremes.min(axis=0) if statistic.name == "min" else extremes.max(axis=0)
        name = str(_sum_of(statistic))
        totals = tables.sums[cells, SUMS[name]].sum(axis=0) / retake.scales[SUMS[name]]
        if name == "mean":
            totals += of_cells(self.centre, cells)
        means = totals / mass
        return np.sqrt(np.maximum(means, 0.0)) if statistic.options.get("root") else means

    def _error(self, statistic: Statistic, counts: np.ndarray, cells: np.ndarray) -> np.ndarray:
        retake, _ = self._begin()
        before, total = np.cumsum(counts, axis=1) - counts, self.ranks[cells].sum()

        def under(at: np.ndarray) -> np.ndarray:
            place = _place(at, self.size)
            b = retake.bins[place]
            return (before[:, b] + (at * (self.size + 1) - place) * counts[:, b]) / total

        levels = levels_of(statistic)
        if not is_central(statistic):
            return error_over_levels(statistic, under(levels))
        return error_over_levels(statistic, under((1.0 + levels) / 2.0) - under((1.0 - levels) / 2.0))


def _place(at: np.ndarray, size: int) -> np.ndarray:
    """The place among S + 1 in which a level lies."""
    return np.minimum((at * (size + 1)).astype(np.int64), size)


def _places(statistics: Sequence[Statistic], size: int) -> np.ndarray:
    """All places in which levels lie: those that a share has a part of."""
    found = [np.zeros(0, np.int64)]
    for statistic in statistics:
        if statistic.name in ERRORS:
            levels = levels_of(statistic)
            ends = ((1.0 + levels) / 2.0, (1.0 - levels) / 2.0) if is_central(statistic) else (levels,)
            found += [_place(at, size) for at in ends]
    return np.unique(np.concatenate(found))


def _bins(places: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The bin of each place, and the first place of each bin, with S + 1 behind: places with levels have their own."""
    if not len(places):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    starts = np.unique(np.concatenate([[0], places, places + 1, [size + 1]]))
    return np.searchsorted(starts, np.arange(size + 1), side="right") - 1, starts
