"""The distribution of a statistic under the model: replicated values, or the law they would be drawn from.

A share of hits has a Poisson-binomial law: Hong (2013), "On computing the distribution function for the Poisson
binomial distribution", Computational Statistics & Data Analysis 59: 41-51. It is computed by convolution of halves
instead of the characteristic function: all terms are positive, so probabilities keep their relative accuracy in the
tails.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from calibrant.kernels.exact import GroupSums
from calibrant.kernels.jit import over_rows
from calibrant.kernels.poisson_binomial import RunLaws, laws_of_runs

PER_ROW = 64
"""Cost of a row relative to an element of the one pass."""


@dataclass(frozen=True)
class Replicates:
    """The values (R,) of a statistic on replicated labels, by replicate number, and the observed value."""

    observed: float
    values: np.ndarray
    slack: float = 0.0
    """Largest difference that rounding of rows gives two equal values."""


@dataclass(frozen=True)
class Lattice:
    """A discrete distribution: increasing values (K,) with their probabilities, and the observed value.

    error: bound of the error of a probability (0 if exact to rounding). members: mean and standard deviation (M,) of
    the distribution of each member, if known.
    """

    observed: float
    values: np.ndarray
    probability: np.ndarray
    error: float = 0.0
    method: str = "exact"
    members: tuple[np.ndarray, np.ndarray] | None = None


@dataclass(frozen=True)
class Mixture:
    """An equal mixture of nearly normal distributions with exact mean, standard deviation and skewness (M,).

    The distribution function of a component is Φ(z) − φ(z)·skewness·(z² − 1)/6, the first Edgeworth correction, whose
    error is of the order of the squared skewness. least: a lower bound of the statistic.
    """

    observed: float
    mean: np.ndarray
    sd: np.ndarray
    skewness: np.ndarray
    method: str = "moments"
    least: float = -math.inf

    @property
    def error(self) -> float:
        """Approximate error of a probability; large for few rows or nearly certain labels.

        For the sum of squares of k normals the true error is at most this for every k, and half of it for k > 12.
        """
        return float(min(0.5, np.square(self.skewness).max(initial=0.0) / 25.0))


Law = Replicates | Lattice | Mixture
UNDEFINED = Lattice(np.nan, np.array([np.nan]), np.ones(1))
"""The distribution without rows."""


def pmf(p: np.ndarray) -> tuple[int, np.ndarray]:
    """The smallest non-negligible number of hits of rows with probabilities p (N,), and P(hits = first + j).

    The probability omitted on either side is below 1e-20 per row.
    """
    p = np.asarray(p, np.float64).ravel()
    laws = laws_of_runs(p, np.array([0, len(p)]))
    return int(laws.least[0]), laws.law(0)


def member_laws(p: np.ndarray, edges: np.ndarray, threads: int | None = None) -> list[RunLaws]:
    """The distributions of the hits of runs of rows, by each member's probabilities p (M, N)."""
    laws: dict[int, RunLaws] = {}

    def work(start: int, stop: int) -> None:
        for m in range(start, stop):
            laws[m] = laws_of_runs(p[m], edges)

    over_rows(work, len(p), PER_ROW * p.size, threads)
    return [laws[m] for m in range(len(p))]


def side_by_side(laws: list[RunLaws], g: int) -> tuple[int, np.ndarray]:
    """The distributions of run g by all members over one range of hits: its start, and probabilities (M, W)."""
    first = min(int(law.least[g]) for law in laws)
    last = max(int(law.least[g] + law.width[g]) for law in laws)
    out = np.zeros((len(laws), last - first))
    for row, law in zip(out, laws, strict=True):
        at = int(law.least[g]) - first
        row[at : at + int(law.width[g])] = law.law(g)
    return first, out


def share_law(hits: float, rows: int, p: np.ndarray, threads: int | None = None) -> Lattice:
    """The distribution of the fraction of hits among `rows`, `hits` of them observed.

    Rows with probabilities p (M, n) can hit, the others cannot. An equal mixture over members.
    """
    if rows == 0:
        return UNDEFINED
    first, chances = side_by_side(member_laws(p, np.array([0, p.shape[1]]), threads), 0)
    values = np.arange(first, first + chances.shape[1]) / rows
    p = np.ascontiguousarray(p, np.float64)  # sums of another layout may differ in the last bit
    each = (p.sum(axis=1) / rows, np.sqrt((p * (1.0 - p)).sum(axis=1)) / rows)
    return Lattice(hits / rows, values, chances.mean(axis=0), members=each)


def mixture_of_sums(observed: float, moments: np.ndarray, total: float, least: float = -np.inf) -> Mixture:
    """The distribution of a sum divided by `total`, from its mean, variance and third central moment (M, 3)."""
    if not total > 0.0:
        undefined = np.full(len(moments), np.nan)
        return Mixture(np.nan, undefined, undefined, undefined)
    mean, variance, third = moments.T
    variance = np.maximum(variance, 0.0)
    spread = np.sqrt(variance)
    cube = variance * spread
    skewness = np.where(cube > 0, third / np.where(cube > 0, cube, 1.0), 0.0)
    return Mixture(observed / total, mean / total, spread / total, skewness, least=least)


def by_cell(sums: GroupSums, groups: int) -> np.ndarray:
    """The sums of all groups; 0 for groups without rows."""
    values = sums.values()
    return np.append(values, np.zeros(groups - len(values)))
