"""Replicates of samples: the outcome and one of the S draws of a row are exchanged.

If the model is right, the observed outcomes and the S draws of all rows are S + 1 exchangeable vectors. A replicate is
one of the draws in place of the outcomes: it is scored by the other S − 1 draws and the observed outcomes,
T(v_j; all but v_j), and the observed outcomes by the S draws. The rank of the observed value among all S + 1 values is
then exactly uniform for any S; a draw scored by samples that contain it would look better than it is. In the Bayesian
reading a replicate takes the same draw in all rows, in the independent reading a draw of its own in every row.
Reference: Besag & Clifford (1989), "Generalized Monte Carlo significance tests", Biometrika 76: 633-642.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from calibrant.checks.distributions import Law, Replicates
from calibrant.checks.draws import chosen_samples
from calibrant.checks.outcome_replicates import (
    ERRORS,
    OutcomeReplicates,
    error_over_levels,
    is_central,
    levels_of,
    of_cells,
    refuse_far,
    row_weights,
)
from calibrant.checks.plan import Plan, Targets
from calibrant.checks.statistics import Statistic
from calibrant.kernels.regression import quantile_ranks
from calibrant.kernels.replicates.samples import SUMS, Retake, empty_tables, retake_samples
from calibrant.kernels.replicates.tables import Tables
from calibrant.predictions import Regression
from calibrant.registry.metrics.regression import CRPS_METRIC, MSE
from calibrant.registry.metrics.regression_spread import PICP
from calibrant.results.check import INDEPENDENT
from calibrant.scores.regression import interval_ends


class SampleReplicates(OutcomeReplicates):
    """Replicates of coverage, scores, means and extremes of samples."""

    kind = "samples"
    columns = SUMS

    def __init__(self, statistics: Sequence[Statistic], example: Regression, plan: Plan, targets: Targets) -> None:
        """Start without rows; `prepare` must see every block before `add`."""
        if example.samples is None:
            raise AttributeError("these predictions have no samples")
        super().__init__(statistics, example, plan, targets)
        self.size = len(example.samples)
        self.coverages = [s for s in self.statistics if s.entry is PICP]
        ranks = [np.zeros(0, np.int64)]
        for statistic in (s for s in self.statistics if s.entry in ERRORS):
            levels = levels_of(statistic)
            ends = ((1.0 + levels) / 2.0, (1.0 - levels) / 2.0) if is_central(statistic) else (levels,)
            ranks += [self._rank_of_level(at) for at in ends]
        self.level_ranks = np.unique(np.concatenate(ranks))
        """All ranks that contain a level."""
        self.widest = 0.0
        self.retake: Retake | None = None
        self.tables: Tables | None = None
        self.ranks = np.zeros(targets.cells, np.int64)

    @classmethod
    def sum_of(cls, statistic: Statistic) -> str | None:
        """The name of the sum over rows whose mean is the statistic; None if there is none."""
        name = super().sum_of(statistic)
        return f"plain {name}" if statistic.entry is CRPS_METRIC and not statistic.options["fair"] else name

    def _rank_of_level(self, at: np.ndarray) -> np.ndarray:
        """The rank among S + 1 values that contains a level."""
        return np.minimum((at * (self.size + 1)).astype(np.int64), self.size)

    def prepare(self, block: Regression) -> None:
        """Update the largest spread of the values of a row, and the largest weight."""
        super().prepare(block)
        if self.sums and block.samples is not None and block.y is not None:
            low = np.minimum(block.samples.min(axis=0), block.y)
            high = np.maximum(block.samples.max(axis=0), block.y)
            self.widest = max(self.widest, float((high.astype(np.float64) - low).max()))
            refuse_far(self.widest)

    def _begin(self) -> tuple[Retake, Tables]:
        """The draws of replicates and their tables, made when units are known."""
        if self.retake is None or self.tables is None:
            heaviest = max(self.heaviest, 1e-20) if self.weighted else 1.0
            wide = min(max(self.widest, 1e-140), 1e140)
            scales = np.zeros(len(SUMS))
            for name in self.sums:
                bound = wide**2 if name == MSE.name else 2.0 * wide
                scales[SUMS[name]] = math.ldexp(1.0, self.bits - math.frexp(bound * heaviest)[1])
            levels = [interval_ends(float(s.options["level"])) for s in self.coverages]
            ends = [quantile_ranks(self.size, np.array(pair)) for pair in levels]
            by_row = self.plan.reading == INDEPENDENT
            chosen = np.zeros(self.plan.draws, np.int64) if by_row else chosen_samples(self.size, self.plan)
            ranks, size = self.level_ranks, self.size
            starts = place = np.zeros(0, np.int64)
            if len(ranks):  # bins of ranks: ranks with levels have their own
                starts = np.unique(np.concatenate([[0], ranks, ranks + 1, [size + 1]]))
                place = np.searchsorted(starts, np.arange(size + 1), side="right") - 1
            self.retake = Retake(
                self.plan.seed, self.plan.purpose, chosen, by_row, place, starts,
                np.array(ends, np.int64).reshape(-1, 2), scales, self.extremes, self.plan.threads,
            )  # fmt: skip
            self.tables = empty_tables(self.retake, self.targets.cells)
        return self.retake, self.tables

    def add(self, block: Regression, rows: Any, cells: np.ndarray, first: int) -> None:
        """Score the values of every row by each other and add them to the replicates that take them."""
        self.added += block.n
        if self.added > self.prepared:
            raise RuntimeError("rows were added that were not prepared")
        if block.samples is None or block.y is None:
            raise AttributeError("these rows have no samples with outcomes")
        retake, tables = self._begin()
        weights, cells = row_weights(block), np.asarray(cells, np.int64)
        unit = weights / max(self.heaviest, 1e-20) if self.weighted else weights
        ranks = np.rint(unit * 2.0**self.bits).astype(np.int64)
        y = block.y.astype(np.float64)
        retake_samples(retake, block.samples, y, weights, ranks, cells, first, tables)
        np.add.at(self.ranks, cells, ranks)
        self.mass.add(weights, cells)
        self.centre.add(weights * block.samples[0].astype(np.float64), cells)

    def law(self, statistic: Statistic, part: np.ndarray) -> Law:
        """The replicated values of a statistic over these cells, and the observed one."""
        retake, tables = self._begin()
        values = np.full(len(retake.chosen) + 1, np.nan)  # the observed value is the last
        total = self.ranks[part].sum()
        if of_cells(self.mass, part) > 0 and total > 0:
            if statistic.entry in ERRORS:
                values = self._error(statistic, tables.counts[part].sum(axis=0), total)
            elif statistic.entry is PICP:
                values = tables.inside[part, self.coverages.index(statistic)].sum(axis=0) / total
            else:
                values = self.mean_or_extreme(statistic, part, tables, retake.scales)
        return Replicates(float(values[-1]), values[:-1])

    def _error(self, statistic: Statistic, counts: np.ndarray, total: int) -> np.ndarray:
        retake, _ = self._begin()
        before = np.cumsum(counts, axis=1) - counts

        def under(at: np.ndarray) -> np.ndarray:
            rank = self._rank_of_level(at)
            b = retake.bins[rank]
            return (before[:, b] + (at * (self.size + 1) - rank) * counts[:, b]) / total

        levels = levels_of(statistic)
        if not is_central(statistic):
            return error_over_levels(statistic, under(levels))
        return error_over_levels(statistic, under((1.0 + levels) / 2.0) - under((1.0 - levels) / 2.0))
