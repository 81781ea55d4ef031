"""A few numbers of every row of a regression, kept whole for what cannot be reduced to sums."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from calibrant.kernels.regression_rows import RegressionRows


@dataclass
class KeptColumns:
    """Columns of numbers, in blocks as they came; a subclass says which."""

    n: int = 0
    by_unit: bool = False
    blocks: list[list[np.ndarray]] = field(default_factory=list)

    def columns_of(self, rows: RegressionRows) -> list[np.ndarray | None]:
        """What is kept of these rows; None where there is no such column."""
        raise NotImplementedError

    def add(self, rows: RegressionRows, spread: bool = True) -> None:
        """Take in more rows."""
        del spread
        self.n += rows.n
        self.by_unit |= rows.units is not None
        kept = self.columns_of(rows)
        self.blocks.append([np.array(part) for part in kept if part is not None])  # a view would keep all of its record

    def merge(self, other: KeptColumns) -> None:
        """Take in what another has seen."""
        self.n += other.n
        self.by_unit |= other.by_unit
        self.blocks += other.blocks

    def arrays(self) -> list[np.ndarray]:
        """The columns of all rows seen."""
        return [np.concatenate(parts) for parts in zip(*self.blocks, strict=True)]
