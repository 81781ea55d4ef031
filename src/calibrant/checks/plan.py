"""Who draws what: the reading of the members, the member of each replicate, and the rows that are checked together.

A replicate is a set of labels that the model could have seen. Read as *Bayesian*, one member drew all of them; read as
*independent*, each row was drawn by a member of its own, which is the same as drawing from the averaged prediction.
Reference: Gopal (2021), "Why calibration error is wrong given model uncertainty", algorithms 2 and 4.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from calibrant.kernels.philox import words
from calibrant.kernels.resampling import CHECK_BAYESIAN, CHECK_INDEPENDENT, CHECK_MEMBERS

BAYESIAN, INDEPENDENT, BOTH = "bayesian", "independent", "both"
EXACT = "exact"


@dataclass(frozen=True)
class Plan:
    """How the replicates of one reading are drawn; `draws` is 0 where laws are computed instead."""

    reading: str
    draws: int
    seed: int
    members: int
    threads: int | None = field(default=None, compare=False)
    whole: bool = True
    """Whether all rows come in one block."""

    @property
    def purpose(self) -> int:
        """What the random words of rows are for: the two readings share none."""
        return CHECK_BAYESIAN if self.reading == BAYESIAN else CHECK_INDEPENDENT

    @cached_property
    def source(self) -> np.ndarray:
        """The member (R,) that each replicate is drawn from; 0 where it is the averaged prediction."""
        if self.reading == INDEPENDENT or self.members == 1:
            return np.zeros(self.draws, np.int64)
        word = words(self.seed, CHECK_MEMBERS, 0, self.draws).astype(np.uint64)
        return (word * np.uint64(self.members) >> np.uint64(32)).astype(np.int64)

    @cached_property
    def order(self) -> np.ndarray:
        """The numbers of the replicates, those of one member side by side."""
        return np.argsort(self.source, kind="stable")


@dataclass(frozen=True)
class Targets:
    """What is checked: sets of cells, a cell being the rows that no grouping tells apart. The first set is all rows."""

    cells: int = 1
    parts: tuple[np.ndarray, ...] = (np.zeros(1, np.int64),)
    """The cells of each target."""
