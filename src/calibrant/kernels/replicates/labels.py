"""Replicated labels of classifiers, and the sums and counts that statistics of them are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from calibrant.kernels.jit import SERIAL_BELOW, available_threads, over_rows
from calibrant.kernels.loops.replicates import labels as loops
from calibrant.kernels.loops.vectors import LANES
from calibrant.kernels.philox import key_of

SCORE_UNIT = 1.0 / loops.SCORE
FARTHEST = 40.0
"""Log scores of observed labels from which on they are not taken from the table of classes: none of it is drawn."""
NLL, BRIER = loops.NLL, loops.BRIER
CONFIDENCE = loops.CONFIDENCE
"""Sums of probabilities in bins are integers in units of its inverse."""
WEIGHT = 2.0**29
"""Weights, which lie below 2, are counted in units of its inverse."""

PRIVATE_BYTES = 1 << 28
"""What the tables of all threads may take together."""


@dataclass(frozen=True)
class Lanes:
    """Replicates in the order in which they are drawn: those of one member side by side."""

    order: np.ndarray
    """The place of each lane's replicate among those asked for."""
    numbers: np.ndarray
    """The number of each lane's replicate."""
    edges: np.ndarray
    """Member m draws the lanes edges[m] … edges[m + 1]."""
    starts: np.ndarray
    owner: np.ndarray
    """Steps of lanes that cover all of them, and the member of each."""
    key: tuple[np.uint32, np.uint32, np.uint32]

    @classmethod
    def of(cls, source: np.ndarray, numbers: np.ndarray, members: int, seed: int, purpose: int) -> Lanes:
        """Of the replicates with these numbers, drawn by the members `source`."""
        order = np.argsort(source, kind="stable")
        edges = np.searchsorted(source[order], np.arange(members + 1)).astype(np.int64)
        steps = [(first, m) for m in range(members) for first in range(edges[m], edges[m + 1], LANES)]
        starts, owner = np.array(steps, np.int64).reshape(-1, 2).T.copy()
        given = np.ascontiguousarray(numbers[order], np.uint32)
        return cls(order, given, edges, starts, owner, (*key_of(seed), np.uint32(purpose)))

    @property
    def members(self) -> int:
        """How many predictions are drawn from."""
        return len(self.edges) - 1

    def in_order(self, values: np.ndarray) -> np.ndarray:
        """Values (…, R) of lanes, in the order of the replicates."""
        out = np.empty_like(values)
        out[..., self.order] = values
        return out


@dataclass(frozen=True)
class Drawn:
    """Rows of a block that labels are drawn for: scores (M, n, C), and what the record knows of each row."""

    scores: np.ndarray
    is_probs: bool
    limits: np.ndarray
    predicted: np.ndarray
    first: int
    """The number of the first row among all."""

    def arguments(self, lanes: Lanes) -> tuple[object, ...]:
        """As the loops take them."""
        averaged = lanes.members < self.scores.shape[0]
        drawn = (self.scores, self.is_probs, averaged, self.limits, self.predicted, *lanes.key, self.first)
        return (*drawn, lanes.numbers, lanes.edges, lanes.starts, lanes.owner)


def thresholds(p: np.ndarray, threads: int | None = None) -> np.ndarray:
    """⌊p·2³¹⌋ (n, M) of probabilities (M, n), 2³¹ where p is 1 to the rounding of float32."""
    out = np.empty(p.shape[::-1], np.uint32)
    over_rows(lambda a, b: loops.thresholds(p, out, a, b), len(out), out.size, threads)
    return out


def draw(drawn: Drawn, lanes: Lanes, threads: int | None = None) -> np.ndarray:
    """The labels (R, n) of the replicates."""
    n = len(drawn.limits)
    out = np.empty((n, len(lanes.numbers)), np.int32)
    run = drawn.arguments(lanes)
    over_rows(lambda a, b: loops.draw_rows(*run, out, a, b), n, drawn.scores.size + out.size, threads)
    return lanes.in_order(out).T


def add_hits(
    table: np.ndarray,
    lanes: Lanes,
    limits: np.ndarray,
    rows: np.ndarray,
    places: np.ndarray,
    hits: np.ndarray,
    weights: np.ndarray | None,
    threads: int | None = None,
) -> None:
    """Add the weights of rows that hit to table[place, lane], those observed to its last column.

    limits (n, M) of the rows with these numbers; places (B, n): each row is counted in B places. Without weights the
    table is of int32, with them of int64 in units of 2⁻²⁹.
    """
    given = (np.ones(len(rows)) if weights is None else units_of(weights)).astype(np.int32)
    run = (limits, rows, places, hits.astype(np.int64), given, *lanes.key, lanes.numbers, lanes.starts, lanes.owner)
    work = len(rows) * len(lanes.numbers)
    _summed([table], len(rows), work, threads, lambda t, a, b: loops.hit_rows(*run, t[0], a, b))


def add_labels(
    sums: np.ndarray,
    counts: np.ndarray,
    lanes: Lanes,
    drawn: Drawn,
    observed: np.ndarray,
    finite: np.ndarray,
    weights: np.ndarray | None,
    cells: np.ndarray,
    chosen: np.ndarray,
    slots: np.ndarray,
    threads: int | None = None,
) -> None:
    """Add scores of replicated and observed labels to sums (2, cells, R + 1), and count labels in counts.

    Scores are in units of 2⁻²⁴; for chosen and slots see `loops.sum_rows`.
    """
    n = len(cells)
    given = np.ones(n) if weights is None else weights
    units = np.ones(n, np.int64) if weights is None else units_of(weights)
    run = (*drawn.arguments(lanes), observed, finite, given, units, cells)
    work = drawn.scores.size + n * len(lanes.numbers)
    tables = [sums, counts]
    _summed(tables, n, work, threads, lambda t, a, b: loops.sum_rows(*run, t[0], chosen, slots, t[1], a, b))


def add_class_bins(
    mass: np.ndarray,
    total: np.ndarray,
    table: np.ndarray,
    lanes: Lanes,
    drawn: Drawn,
    observed: np.ndarray,
    weights: np.ndarray | None,
    cells: np.ndarray,
    index: np.ndarray,
    bins: int,
    threads: int | None = None,
) -> None:
    """Count replicated and observed labels in the bins of their probability: see `loops.class_bin_rows`.

    Without weights the table is of int32, with them of int64 in units of 2⁻²⁹, as are the masses.
    """
    n = len(cells)
    given = np.ones(n) if weights is None else weights
    units = np.ones(n, table.dtype) if weights is None else units_of(weights)
    run = (*drawn.arguments(lanes), observed, given, units, cells, index, bins)
    work = drawn.scores.size + n * len(lanes.numbers)
    _summed([mass, total, table], n, work, threads, lambda t, a, b: loops.class_bin_rows(*run, *t, a, b))


def units_of(weights: np.ndarray) -> np.ndarray:
    """Weights as whole numbers of 2⁻²⁹."""
    return np.rint(weights * WEIGHT).astype(np.int64)


def affordable(threads: int | None, nbytes: int) -> int:
    """Threads whose tables of their own are not too large together."""
    return max(1, min(threads or available_threads(), PRIVATE_BYTES // max(nbytes, 1)))


def _summed(
    tables: list[np.ndarray], n: int, work: int, threads: int | None, add: Callable[[list[np.ndarray], int, int], None]
) -> None:
    """Let `add(tables, start, stop)` fill tables; each thread has its own until they are added up."""
    count = affordable(threads, sum(table.nbytes for table in tables))
    if min(count, n) <= 1 or work < SERIAL_BELOW:
        add(tables, 0, n)
        return
    private: list[list[np.ndarray]] = []

    def run(a: int, b: int) -> None:
        own = [np.zeros_like(table) for table in tables]
        add(own, a, b)
        private.append(own)

    over_rows(run, n, work, count)
    for own in private:
        for table, part in zip(tables, own, strict=True):
            table += part
