"""What the scores of regression need of each row: of normals, of their equally weighted mixtures, and of samples.

Predictions are read in blocks of rows, and what is not float64 in C order is copied to that block by block: the memory
taken beside input and output does not depend on N, whatever the type and layout of the input.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.special import ndtri

from calibrant.kernels.jit import over_rows
from calibrant.kernels.loops.regression import quantiles as quantile_loops
from calibrant.kernels.loops.regression import scores as loops

BLOCK = 1 << 17
"""Numbers of each of mean and std in a block: 1 MiB, as much as a core keeps near."""

SAMPLE_BLOCK = 1 << 19
"""Samples in a block: 4 MiB. More rows at a time make it faster to turn them on their side."""

SLACK = 1e-12
"""Share of the sample size by which a rank may be too high from rounding: 20·0.15 is to be 3."""

# How much longer than an element of the one pass, for which `over_rows` is tuned, these take.
PER_MEMBER, PER_PAIR, PER_QUANTILE = 8, 2, 16


def gaussian_scores(
    y: np.ndarray,
    mean: np.ndarray,
    std: np.ndarray,
    *,
    nll: bool = True,
    crps: bool = True,
    pit: bool = True,
    threads: int | None = None,
) -> dict[str, np.ndarray]:
    """Negative log density, CRPS and F(y) of N(mean, std²), or of the mixture where mean and std are (M, N)."""
    mean, std = np.atleast_2d(mean), np.atleast_2d(std)
    members, n = mean.shape
    requested = {"nll": nll, "crps": crps, "pit": pit}
    out = {name: np.empty(n if want else 0) for name, want in requested.items()}

    def work(start: int, stop: int) -> None:
        for a, b in _spans(start, stop, _tiles(members)):
            at, mu, sd = _plain(y[a:b]), _plain(mean[:, a:b]), _plain(std[:, a:b])
            part = [values[a:b] for values in out.values()]
            if members == 1:
                loops.gaussian_rows(at, mu[0], sd[0], *part, 0, b - a)
            else:
                loops.mixture_rows(at, mu, sd, *part, 0, b - a)

    cost = PER_MEMBER * members + (PER_PAIR * members**2 if crps else 0)
    over_rows(work, n, n * cost, threads)
    return {name: values for name, values in out.items() if requested[name]}


def level_counts(pit: np.ndarray, levels: int, central: bool) -> np.ndarray:
    """How many F are in each of the cells that the levels j/B make, or how many |2F − 1|; see `loops.count_levels`."""
    edges = np.append(np.arange(levels + 1) / levels, np.inf)
    counts = np.zeros((loops.LANE_COUNTS, levels + 1), np.int64)
    loops.count_levels(_plain(pit), edges, central, counts)
    return counts.sum(axis=0)


def mixture_quantiles(mean: np.ndarray, std: np.ndarray, levels: np.ndarray, threads: int | None = None) -> np.ndarray:
    """Quantiles (L, N) at the levels of N(mean, std²), or of the mixture where mean and std are (M, N)."""
    mean, std = np.atleast_2d(mean), np.atleast_2d(std)
    members, n = mean.shape
    order = np.argsort(levels, kind="stable")
    rising = np.asarray(levels, np.float64)[order]
    scores = ndtri(rising)
    out = np.empty((len(rising), n))

    def work(start: int, stop: int) -> None:
        for a, b in _spans(start, stop, _tiles(members + len(rising))):
            mu, sd = _plain(mean[:, a:b]), _plain(std[:, a:b])
            part = mu + sd * scores[:, None] if members == 1 else np.empty((len(rising), b - a))
            if members > 1:
                quantile_loops.mixture_quantiles(mu, sd, rising, scores, part, 0, b - a)
            out[order, a:b] = part

    over_rows(work, n, PER_QUANTILE * out.size * members, threads)
    return out


def sample_scores(
    samples: np.ndarray, y: np.ndarray | None = None, *, levels: np.ndarray | None = None, threads: int | None = None
) -> dict[str, np.ndarray]:
    """mean and variance of each row of samples (S, N); with y also error, spread, below and ties (`loops.sample_rows`).

    The CRPS is error − spread/S², the fair one error − spread/(S(S − 1)). With levels also quantiles (L, N), by the
    inverse of the empirical distribution function: the ⌈S·level⌉-th smallest.
    """
    count, n = samples.shape
    out = {name: np.empty(n) for name in ("mean", "variance")}
    if y is not None:
        out |= {"error": np.empty(n), "spread": np.empty(n)}
        out |= {"below": np.empty(n, np.int64), "ties": np.empty(n, np.int64)}
    ranks = quantile_ranks(count, () if levels is None else levels)
    quantiles = np.empty((len(ranks), n))
    kind = np.float32 if samples.dtype in (np.float16, np.float32) else np.float64  # float32 sorts much faster

    def work(start: int, stop: int) -> None:
        for a, b in _spans(start, stop, max(1, SAMPLE_BLOCK // count)):
            x = np.empty((b - a, count), kind)  # the values of a row side by side
            x[...] = samples[:, a:b].T
            part = {name: values[a:b] for name, values in out.items()}
            loops.moment_rows(x, part["mean"], part["variance"], 0, b - a)
            if y is not None or len(ranks):
                x.sort(axis=1)
            if y is not None:
                measured = (part["error"], part["spread"], part["below"], part["ties"])
                loops.sample_rows(x, _plain(y[a:b]), *measured, 0, b - a)
            quantiles[:, a:b] = x.T[ranks]

    over_rows(work, n, samples.size, threads)
    return out if levels is None else {**out, "quantiles": quantiles}


def quantile_ranks(count: int, levels: np.ndarray | tuple[()]) -> np.ndarray:
    """Places of the quantiles among the sorted values, from 0."""
    above = np.ceil(count * np.asarray(levels, np.float64) - SLACK * count)
    return np.clip(above, 1, count).astype(np.int64) - 1


def _tiles(width: int) -> int:
    """Rows of a width that make a block, in whole tiles."""
    return max(1, BLOCK // (width * loops.W)) * loops.W


def _spans(start: int, stop: int, step: int) -> Iterator[tuple[int, int]]:
    return ((a, min(a + step, stop)) for a in range(start, stop, step))


def _plain(x: np.ndarray) -> np.ndarray:
    """x in float64, C order and open to writing, copied where it is not: each other form is compiled for anew."""
    return np.require(x, np.float64, ["C", "A", "W", "E"])
