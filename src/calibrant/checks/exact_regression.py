"""Exact distributions of statistics of replicated outcomes: Gaussian predictions and their mixtures.

Given a member, outcomes are independent normals: the number inside the intervals of the averaged prediction is
Poisson-binomial, and means and mean squared errors have exact moments. In the independent reading a row's outcome comes
from the mixture of the members.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import ndtr

from calibrant.checks.distributions import Law, by_cell, mixture_of_sums, share_law
from calibrant.checks.label_statistics import MEAN
from calibrant.checks.plan import Engine, Plan, Targets
from calibrant.checks.statistics import Statistic
from calibrant.kernels.exact import GroupSums
from calibrant.kernels.regression_rows import PIT, quantile_key
from calibrant.predictions.arrays import mean_over_members
from calibrant.registry.metrics.regression import MSE
from calibrant.registry.metrics.regression_spread import PICP
from calibrant.results.check import INDEPENDENT
from calibrant.scores import regression

MEANS = (MEAN, MSE)


class ExactGaussians(Engine):
    """Coverage of the central interval, mean, and mean squared error."""

    def __init__(self, statistics: Sequence[Statistic], example: Any, plan: Plan, targets: Targets) -> None:
        super().__init__(statistics, example, plan, targets)
        self.averaged = plan.reading == INDEPENDENT or plan.members == 1
        self.levels = sorted({float(s.options["level"]) for s in statistics if s.entry is PICP})
        ends = {quantile_key(end) for level in self.levels for end in regression.interval_ends(level)}
        self.required_columns = frozenset({PIT, *ends}) if self.levels else frozenset()
        self.cells: list[np.ndarray] = []
        self.inside: dict[float, list[tuple[np.ndarray, np.ndarray]]] = {level: [] for level in self.levels}
        self.weight = GroupSums()
        self.observed = [GroupSums() for _ in MEANS]
        self.moments = [[GroupSums() for _ in range(3)] for _ in MEANS]

    @classmethod
    def supports(cls, statistic: Statistic, example: Any) -> bool:
        """Whether the exact distribution of the statistic is known."""
        if example.task != "regression" or example.kind != "gaussian":
            return False
        if statistic.entry is MSE:
            return not statistic.options["root"]
        return statistic.entry is MEAN or (statistic.entry is PICP and example.weights is None)

    def add(self, block: Any, rows: Any, cells: np.ndarray, first: int) -> None:
        """Add a block: coverage probabilities are kept in row order; moments are summed."""
        mean, std = (np.asarray(x, np.float64) for x in (block.mean, block.std))
        if self.levels:
            self.cells.append(np.array(cells))
        for level in self.levels:
            low, high = (rows.extras[quantile_key(end)] for end in regression.interval_ends(level))
            chance = ndtr((high - mean) / std) - ndtr((low - mean) / std)
            chance = mean_over_members(chance)[None] if self.averaged else chance
            self.inside[level].append((regression.within_by_pit(rows, level), chance))
        weights = np.ones(rows.n) if rows.weights is None else rows.weights
        self.weight.add(weights, cells)
        entries = [s.entry for s in self.statistics]
        if MEAN in entries:
            self._add(0, rows.y, (mean, std**2, np.zeros_like(mean)), weights, cells)
        if MSE in entries:
            centre = mean_over_members(mean)
            off, variance = (mean - centre) ** 2, std**2
            square = (variance + off, 2 * variance * (variance + 2 * off), 8 * variance**2 * (variance + 3 * off))
            self._add(1, (centre - rows.y) ** 2, square, weights, cells)

    def _add(
        self, which: int, observed: np.ndarray, moments: tuple[np.ndarray, ...], weights: np.ndarray, cells: np.ndarray
    ) -> None:
        """Add mean, variance and third central moment (M, n) of a row's value by member, or of their mixture."""
        self.observed[which].add(weights * observed, cells)
        if self.averaged:  # the moments (1, n) of the equal mixture
            mean, variance, third = moments
            centre = mean_over_members(mean)
            off = mean - centre
            spread = mean_over_members(variance + off**2)
            moments = (centre[None], spread[None], mean_over_members(third + 3 * variance * off + off**3)[None])
        members = len(moments[0])
        groups = (cells * members + np.arange(members)[:, None]).ravel()
        for power, (sums, values) in enumerate(zip(self.moments[which], moments, strict=True), 1):
            sums.add((values * weights**power).ravel(), groups)

    def law(self, statistic: Statistic, part: np.ndarray) -> Law:
        """The distribution of a statistic over these cells."""
        if statistic.entry in MEANS:
            which = MEANS.index(statistic.entry)
            members, cells = 1 if self.averaged else self.plan.members, self.targets.cells
            weight, observed = (math.fsum(by_cell(sums, cells)[part]) for sums in (self.weight, self.observed[which]))
            tables = [by_cell(sums, cells * members).reshape(-1, members)[part] for sums in self.moments[which]]
            moments = np.array([[math.fsum(column) for column in table.T] for table in tables]).T
            return mixture_of_sums(observed, moments, weight)
        chosen = np.zeros(self.targets.cells, bool)
        chosen[part] = True
        rows = chosen[np.concatenate(self.cells)]
        blocks = self.inside[float(statistic.options["level"])]
        inside, chance = (np.concatenate(values, axis=-1)[..., rows] for values in zip(*blocks, strict=True))
        return share_law(float(inside.sum()), int(rows.sum()), chance, self.plan.threads)
