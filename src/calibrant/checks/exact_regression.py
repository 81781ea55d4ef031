"""Laws of statistics of replicated outcomes, computed instead of sampled: Gaussians and their mixtures.

Given a member, outcomes are independent normals: how many fall into the intervals of the averaged prediction is
Poisson-binomial, and means and mean squared errors have exact moments. Read as independent, a row's outcome is of the
mixture of its members.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from scipy.special import ndtr

from calibrant.checks.laws import Law, Mixture
from calibrant.checks.moments import by_cell, mixture_of_sums
from calibrant.checks.own import OWN
from calibrant.checks.plan import INDEPENDENT, Plan, Targets
from calibrant.checks.poisson_binomial import share_law
from calibrant.checks.statistics import Statistic
from calibrant.kernels.exact import GroupSums
from calibrant.kernels.regression_rows import PIT, quantile_key
from calibrant.predictions.arrays import mean_over_members
from calibrant.scores import regression

MEANS = ("mean", "mse")


class ExactGaussians:
    """Coverage of the central interval, mean, and mean squared error."""

    def __init__(self, statistics: Sequence[Statistic], example: Any, plan: Plan, targets: Targets) -> None:
        """Nothing taken in yet."""
        del example
        self.statistics, self.plan, self.targets = statistics, plan, targets
        self.averaged = plan.reading == INDEPENDENT or plan.members == 1
        self.levels = sorted({float(s.options["level"]) for s in statistics if s.name == "picp"})
        ends = {quantile_key(end) for level in self.levels for end in regression.interval_ends(level)}
        self.wanted: frozenset[Hashable] = frozenset({PIT, *ends}) if self.levels else frozenset()
        self.cells: list[np.ndarray] = []
        self.inside: dict[float, list[tuple[np.ndarray, np.ndarray]]] = {level: [] for level in self.levels}
        self.weight = GroupSums()
        self.observed = {name: GroupSums() for name in MEANS}
        self.moments = {name: [GroupSums() for _ in range(3)] for name in MEANS}

    @classmethod
    def takes(cls, statistic: Statistic, example: Any) -> bool:
        """Whether the law of the statistic can be computed."""
        if example.task != "regression" or example.kind != "gaussian":
            return False
        if statistic.spec is None:
            return statistic.name == "mean" and statistic.title == OWN["mean"].title
        if statistic.name == "mse":
            return not statistic.options["root"]
        return statistic.name == "picp" and example.weights is None

    # --------------------------------------------------------------------------------------- taking in
    def add(self, block: Any, rows: Any, cells: np.ndarray, first: int) -> None:
        """Take in a block: chances of covered rows are kept, in the order of rows; moments are summed."""
        del first
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
        names = {s.name for s in self.statistics}
        if "mean" in names:
            self._add("mean", rows.y, (mean, std**2, np.zeros_like(mean)), weights, cells)
        if "mse" in names:
            centre = mean_over_members(mean)
            off, variance = (mean - centre) ** 2, std**2
            square = (variance + off, 2 * variance * (variance + 2 * off), 8 * variance**2 * (variance + 3 * off))
            self._add("mse", (centre - rows.y) ** 2, square, weights, cells)

    def _add(
        self, name: str, observed: np.ndarray, moments: tuple[np.ndarray, ...], weights: np.ndarray, cells: np.ndarray
    ) -> None:
        """Add mean, variance and third central moment (M, n) of a row's value by each member, or by their mixture."""
        self.observed[name].add(weights * observed, cells)
        if self.averaged:
            moments = _mixed(*moments)
        members = len(moments[0])
        groups = (cells * members + np.arange(members)[:, None]).ravel()
        for power, (sums, values) in enumerate(zip(self.moments[name], moments, strict=True), 1):
            sums.add((values * weights**power).ravel(), groups)

    # -------------------------------------------------------------------------------------------- laws
    def laws(self) -> list[dict[str, Law]]:
        """For each target, the law of each statistic by its key."""
        return [{s.key: self._law(s, part) for s in self.statistics} for part in self.targets.parts]

    def _law(self, statistic: Statistic, part: np.ndarray) -> Law:
        if statistic.name in MEANS:
            return self._mean(statistic.name, part)
        chosen = np.zeros(self.targets.cells, bool)
        chosen[part] = True
        rows = chosen[np.concatenate(self.cells)]
        found = self.inside[float(statistic.options["level"])]
        inside, chance = (np.concatenate(values, axis=-1)[..., rows] for values in zip(*found, strict=True))
        return share_law(float(inside.sum()), int(rows.sum()), chance, self.plan.threads)

    def _mean(self, name: str, part: np.ndarray) -> Mixture:
        members, cells = 1 if self.averaged else self.plan.members, self.targets.cells
        weight, observed = (math.fsum(by_cell(sums, cells)[part]) for sums in (self.weight, self.observed[name]))
        tables = [by_cell(sums, cells * members).reshape(-1, members)[part] for sums in self.moments[name]]
        moments = np.array([[math.fsum(column) for column in table.T] for table in tables]).T
        return mixture_of_sums(observed, moments, weight)


def _mixed(mean: np.ndarray, variance: np.ndarray, third: np.ndarray) -> tuple[np.ndarray, ...]:
    """Mean, variance and third central moment (1, n) of the equal mixture of laws that have these (M, n)."""
    centre = mean_over_members(mean)
    off = mean - centre
    spread = mean_over_members(variance + off**2)
    return centre[None], spread[None], mean_over_members(third + 3 * variance * off + off**3)[None]
