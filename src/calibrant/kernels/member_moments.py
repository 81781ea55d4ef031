"""What each member expects of the log score and the Brier score of the averaged prediction: moments, not draws."""

from __future__ import annotations

import numpy as np

from calibrant.kernels.jit import over_rows
from calibrant.kernels.loops.softmax import NARROW
from calibrant.kernels.loops.temperature import moments as loops


def moment_table(
    scores: np.ndarray,
    kind: str,
    cells: np.ndarray,
    count: int,
    *,
    averaged: bool = False,
    weights: np.ndarray | None = None,
    threads: int | None = None,
) -> np.ndarray:
    """Sums over the rows of each cell (count, members, 6) of mean, variance and third central moment, whole numbers.

    scores (M, n, C) as `Classification.score_blocks` gives them; the first three are of −log q(label), the others of
    Σ_k (q(k) − 1{k = label})², q the average and the label drawn from each member, or from q where `averaged`. Moments
    of rows count w, w² and w³. They are in units of 1/`UNITS`; order, blocks and threads do not change them.
    """
    members, n, classes = scores.shape
    moments = loops.narrow_moments if classes < NARROW else loops.long_moments
    w = np.empty(0) if weights is None else np.ascontiguousarray(weights, np.float64)
    run = (scores, kind == "probs", averaged, w, np.ascontiguousarray(cells, np.int64))
    tables: list[np.ndarray] = []

    def work(start: int, stop: int) -> None:
        table = np.zeros((count, 1 if averaged else members, loops.MOMENTS, 2), np.int64)
        tables.append(table)
        moments(*run, table, start, stop)

    over_rows(work, n, scores.size, threads)
    total = sum(table.astype(object) for table in tables)
    return np.asarray((total[..., 0] << 32) + total[..., 1])  # type: ignore[index]


def moments_of(table: np.ndarray) -> np.ndarray:
    """The sums as floats, rounded once."""
    return table.astype(object) / loops.UNITS.astype(int).astype(object)


def member_classes(scores: np.ndarray, kind: str, which: np.ndarray, threads: int | None = None) -> np.ndarray:
    """The probabilities (M, K, n) that each member gives to the classes `which` (K,)."""
    members, n, _ = scores.shape
    out = np.empty((members, len(which), n), scores.dtype)
    run = (scores, kind == "probs", np.ascontiguousarray(which, np.int64), out)
    over_rows(lambda a, b: loops.member_classes(*run, a, b), n, scores.size, threads)
    return out
