"""The law of a number of hits, where each row hits or misses by a chance of its own.

Reference: Hong (2013), "On computing the distribution function for the Poisson binomial distribution", Computational
Statistics & Data Analysis 59: 41-51. It is computed by convolution of halves rather than by its characteristic
function: all terms are positive, so that probabilities keep their relative accuracy in the tails too.
"""

from __future__ import annotations

import numpy as np

from calibrant.checks.laws import Lattice
from calibrant.kernels.jit import over_rows
from calibrant.kernels.poisson_binomial import RunLaws, laws_of_runs

PER_ROW = 64
"""How much longer than an element of the one pass a row takes."""
UNDEFINED = Lattice(np.nan, np.array([np.nan]), np.ones(1))
"""Of no rows."""


def pmf(p: np.ndarray) -> tuple[int, np.ndarray]:
    """The least number of hits of rows with chances p (N,) that is not negligible, and P(hits = first + j).

    What is left out on either side has a probability of less than 1e-20 for each row.
    """
    p = np.asarray(p, np.float64).ravel()
    laws = laws_of_runs(p, np.array([0, len(p)]))
    return int(laws.least[0]), laws.law(0)


def member_laws(p: np.ndarray, edges: np.ndarray, threads: int | None = None) -> list[RunLaws]:
    """The laws of the hits of runs of rows, by each member's chances p (M, N)."""
    found: dict[int, RunLaws] = {}

    def work(start: int, stop: int) -> None:
        for m in range(start, stop):
            found[m] = laws_of_runs(p[m], edges)

    over_rows(work, len(p), PER_ROW * p.size, threads)
    return [found[m] for m in range(len(p))]


def side_by_side(laws: list[RunLaws], g: int) -> tuple[int, np.ndarray]:
    """The laws of run g by all members over the same numbers of hits: the least of them, and chances (M, W)."""
    first = min(int(law.least[g]) for law in laws)
    last = max(int(law.least[g] + law.width[g]) for law in laws)
    out = np.zeros((len(laws), last - first))
    for row, law in zip(out, laws, strict=True):
        at = int(law.least[g]) - first
        row[at : at + int(law.width[g])] = law.law(g)
    return first, out


def share_law(hits: float, rows: int, p: np.ndarray, threads: int | None = None) -> Lattice:
    """The law of the share of hits among `rows`, of which those with chances p (M, n) can hit; `hits` came true.

    It is the equal mixture of the members' laws.
    """
    if rows == 0:
        return UNDEFINED
    first, chances = side_by_side(member_laws(p, np.array([0, p.shape[1]]), threads), 0)
    values = np.arange(first, first + chances.shape[1]) / rows
    p = np.ascontiguousarray(p, np.float64)  # sums of another layout may differ in the last bit
    each = (p.sum(axis=1) / rows, np.sqrt((p * (1.0 - p)).sum(axis=1)) / rows)
    return Lattice(hits / rows, values, chances.mean(axis=0), members=each)
