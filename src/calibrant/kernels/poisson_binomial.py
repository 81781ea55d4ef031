"""Laws of numbers of hits of independent rows with chances of their own (Poisson-binomial)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant.kernels.loops import poisson_binomial as loops


@dataclass(frozen=True)
class RunLaws:
    """The laws of the hits of G runs of rows: P(hits of run g = least[g] + j) = law(g)[j]."""

    edges: np.ndarray
    least: np.ndarray
    width: np.ndarray
    flat: np.ndarray

    def law(self, g: int) -> np.ndarray:
        """The probabilities of run g, from its least number of hits that is not negligible on."""
        at = int(self.edges[g]) + g
        return self.flat[at : at + int(self.width[g])]


def laws_of_runs(p: np.ndarray, edges: np.ndarray) -> RunLaws:
    """The law of the hits of each run of rows edges[g] … edges[g + 1], row i hitting with chance p[i].

    Tails are cut off where they hold less than 1e-20 for every half that was convolved. Chances that rounding has put
    outside of 0 … 1 are put back.
    """
    edges = np.ascontiguousarray(edges, np.int64)
    runs = len(edges) - 1
    least, width, flat = np.empty(runs, np.int64), np.empty(runs, np.int64), np.empty(len(p) + runs)
    loops.laws_of_runs(np.clip(p, 0.0, 1.0, dtype=np.float64), edges, least, width, flat)
    return RunLaws(edges, least, width, flat)
