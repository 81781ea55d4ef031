"""Tables of replicates: what rows add to each, cell by cell, in whole units that no order of rows changes."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from threading import Lock

import numpy as np

from calibrant.kernels.jit import over_rows

PER_DRAW = 8
"""How much longer a draw takes than an element of the one pass, for which `over_rows` is tuned."""


class Tables:
    """Counts in bins, hits of intervals, sums and extremes of each cell, of replicates and of the observed, the last.

    counts (cells, R + 1, bins), inside (cells, intervals, R + 1), sums (cells, kinds, R + 1) and extremes
    (cells, 2, R + 1); those that nobody wants are empty.
    """

    def __init__(
        self, cells: int, replicates: int, *, bins: int = 0, intervals: int = 0, sums: int = 0, extremes: bool = False
    ) -> None:
        """Nothing drawn yet."""
        self.shape = {"bins": bins, "intervals": intervals, "sums": sums, "extremes": extremes}
        width = self.width = replicates + 1
        self.counts = np.zeros((cells, width if bins else 0, bins), np.int64)
        self.inside = np.zeros((cells, intervals, width), np.int64)
        self.sums = np.zeros((cells, sums, width), np.int64)
        self.extremes = np.empty((cells, 2, width if extremes else 0))
        self.extremes[:, 0], self.extremes[:, 1] = np.inf, -np.inf

    def one(self) -> Tables:
        """Empty tables of one cell."""
        return Tables(1, self.width - 1, **self.shape)  # type: ignore[arg-type]

    def add(self, cell: int, other: Tables) -> None:
        """Take in the only cell of another."""
        self.counts[cell] += other.counts[0]
        self.inside[cell] += other.inside[0]
        self.sums[cell] += other.sums[0]
        np.minimum(self.extremes[cell, 0], other.extremes[0, 0], out=self.extremes[cell, 0])
        np.maximum(self.extremes[cell, 1], other.extremes[0, 1], out=self.extremes[cell, 1])


def add_rows(
    tables: Tables, cells: np.ndarray, step: int, add: Callable[[np.ndarray, Tables], None], threads: int | None = None
) -> None:
    """Call `add(rows, one cell's tables)` with at most `step` rows of one cell at a time, and take in what it adds.

    Rows of a cell go together, so that one table at a time is written to; threads have tables of their own.
    """
    order, lock, n = np.argsort(cells, kind="stable"), Lock(), len(cells)

    def work(start: int, stop: int) -> None:
        ranked = cells[order[start:stop]]
        for first, last in itertools.pairwise([0, *(1 + np.flatnonzero(np.diff(ranked))).tolist(), len(ranked)]):
            cell, a, b = int(ranked[first]), start + first, start + last
            part = tables.one()
            for at in range(a, b, step):
                add(order[at : min(at + step, b)], part)
            with lock:
                tables.add(cell, part)

    over_rows(work, n, n * tables.width * PER_DRAW, threads)
