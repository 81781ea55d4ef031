"""The plan of a check: the reading of the members, the member of each replicate, the sets of rows, and the engines.

A replicate is a set of labels drawn from the model. In the *Bayesian* reading one member draws all of its rows; in the
*independent* reading every row draws its own member, which is the same as drawing from the averaged prediction.
Reference: Gopal (2021), "Why calibration error is wrong given model uncertainty", algorithms 2 and 4.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from calibrant.checks.distributions import Law
from calibrant.checks.statistics import Statistic
from calibrant.kernels.philox import words
from calibrant.kernels.resampling import CHECK_BAYESIAN, CHECK_INDEPENDENT, CHECK_MEMBERS
from calibrant.results.check import BAYESIAN, INDEPENDENT


@dataclass(frozen=True)
class Plan:
    """How the replicates of one reading are drawn; `draws` is 0 if distributions are computed instead."""

    reading: str
    draws: int
    seed: int
    members: int
    threads: int | None = field(default=None, compare=False)
    whole: bool = True
    """Whether all rows come in one block."""

    @property
    def purpose(self) -> int:
        """The purpose of the random words of rows: the two readings share none."""
        return CHECK_BAYESIAN if self.reading == BAYESIAN else CHECK_INDEPENDENT

    @cached_property
    def source(self) -> np.ndarray:
        """The member (R,) that each replicate is drawn from; 0 for the averaged prediction."""
        if self.reading == INDEPENDENT or self.members == 1:
            return np.zeros(self.draws, np.int64)
        word = words(self.seed, CHECK_MEMBERS, 0, self.draws).astype(np.uint64)
        return (word * np.uint64(self.members) >> np.uint64(32)).astype(np.int64)


@dataclass(frozen=True)
class Targets:
    """The sets of rows that are checked, as sets of cells. The first set is all rows."""

    cells: int = 1
    parts: tuple[np.ndarray, ...] = (np.zeros(1, np.int64),)
    """The cells of each target."""


class Engine:
    """Accumulates the rows of one input for some statistics by one reading of the members."""

    required_columns: frozenset[Hashable] = frozenset()
    """The optional columns of `rows_of` that it uses."""
    needs_preparing: bool = False
    """Whether `prepare` must see every block before `add`."""

    def __init__(self, statistics: Sequence[Statistic], example: Any, plan: Plan, targets: Targets) -> None:
        """Start without rows; `example` has the type and settings of the predictions to come."""
        self.statistics, self.example, self.plan, self.targets = list(statistics), example, plan, targets

    @classmethod
    def supports(cls, statistic: Statistic, example: Any) -> bool:
        """Whether this engine can compute the statistic for such predictions."""
        raise NotImplementedError

    @classmethod
    def fits(cls, statistic: Statistic, example: Any, plan: Plan, targets: Targets) -> bool:
        """Whether its tables are not too large."""
        return True

    def prepare(self, block: Any) -> None:
        """Read a block in the first pass, if there are two."""

    def add(self, block: Any, rows: Any, cells: np.ndarray, first: int) -> None:
        """Add a block: its row record, the cell of each row, and the number of its first row among all."""
        raise NotImplementedError

    def law(self, statistic: Statistic, part: np.ndarray) -> Law:
        """The distribution of a statistic over these cells."""
        raise NotImplementedError

    def laws(self) -> list[dict[str, Law]]:
        """For each target, the distribution of each statistic by its key."""
        return [{s.key: self.law(s, part) for s in self.statistics} for part in self.targets.parts]
