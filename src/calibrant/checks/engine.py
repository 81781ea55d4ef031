"""What turns rows into the laws of statistics. Each engine takes the statistics it knows."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Protocol

import numpy as np

from calibrant.checks.laws import Law
from calibrant.checks.plan import Plan, Targets
from calibrant.checks.statistics import Statistic


class Engine(Protocol):
    """Statistics of one reading of one input, taken in block by block."""

    wanted: frozenset[Hashable]
    """What it needs of the record of a block, as for `rows_of`."""

    def __init__(self, statistics: Sequence[Statistic], example: Any, plan: Plan, targets: Targets) -> None:
        """Nothing taken in yet; `example` are predictions of the same make."""
        ...

    @classmethod
    def takes(cls, statistic: Statistic, example: Any) -> bool:
        """Whether this engine knows the statistic of such predictions."""
        ...

    def add(self, block: Any, rows: Any, cells: np.ndarray, first: int) -> None:
        """Take in a block: its record, the cell of each row, and the number of its first row among all."""
        ...

    def laws(self) -> list[dict[str, Law]]:
        """For each target, the law of each statistic by its key."""
        ...
