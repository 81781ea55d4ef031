"""Workloads of posterior predictive checks of regression, beside NumPy and SciPy: no library that we know has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.special import ndtr

import calibrant as cal
from benchmarks.regression import gaussians
from calibrant.checks.gaussian_replicates import GaussianReplicates
from calibrant.checks.plan import Plan, Targets
from calibrant.checks.sample_replicates import SampleReplicates
from calibrant.checks.statistics import statistics_of
from calibrant.results.check import BAYESIAN

Contestants = dict[str, Callable[[], object]]
DRAWS = 1000
LEVELS = ("calibration_error", "picp")
SCORES = ("nll", "crps")


def workloads(threads: int, quick: bool) -> Iterator[tuple[str, Contestants, str, tuple[str, ...]]]:
    """Name, contestants, goal, and whom the goal speaks of."""
    yield f"Check of levels, M = 50, R = {DRAWS}, 1k rows", _levels(50, 1_000, threads), "10", ("plain NumPy",)
    yield f"Check of NLL + CRPS, M = 5, R = {DRAWS}, 1k rows", _scores(5, 1_000, threads), "", ()
    yield "Check of levels of 1000 samples, 5k rows", _samples(1_000, 5_000, threads), "", ("plain NumPy",)
    if not quick:
        for members in (1, 50):
            name = f"Check of levels, M = {members}, R = {DRAWS}, 100k rows: 1e8 draws"
            yield name, {"calibrant": _check(_mixture(members, 100_000), LEVELS, threads)}, "", ()


def _mixture(members: int, n: int) -> cal.Regression:
    mean, std, y = gaussians(members, n)
    return cal.Regression.from_gaussian(mean, std, y)


def _check(predictions: cal.Regression, names: tuple[str, ...], threads: int) -> Callable[[], dict[str, Any]]:
    engine: Any = GaussianReplicates if predictions.samples is None else SampleReplicates
    plan = Plan(BAYESIAN, DRAWS, 0, predictions.members, threads)

    def run() -> dict[str, Any]:
        made = engine(statistics_of(names, predictions), predictions, plan, Targets())
        if made.needs_preparing:
            made.prepare(predictions)
        made.add(predictions, None, np.zeros(predictions.n, np.int64), 0)
        return made.laws()[0]

    return run


def _same_law(ours: np.ndarray, theirs: np.ndarray) -> None:
    """Other draws, the same law: the means agree to what chance allows."""
    error = np.sqrt(ours.var() / len(ours) + theirs.var() / len(theirs))
    assert abs(ours.mean() - theirs.mean()) < 6 * error


def _levels(members: int, n: int, threads: int) -> Contestants:
    """Outcomes of all rows at a time, then the distribution functions of all members."""
    predictions = _mixture(members, n)
    mean, std = predictions.mean, predictions.std
    edges = np.arange(101) / 100

    def plain_numpy(draws: int = DRAWS) -> np.ndarray:
        rng, out = np.random.default_rng(0), np.empty(draws)
        for r in range(draws):
            m = rng.integers(members)
            y = mean[m] + std[m] * rng.standard_normal(n)
            pit = ndtr((y - mean) / std).mean(axis=0)
            shares = np.cumsum(np.histogram(pit, edges)[0]) / n
            out[r] = np.square(shares - edges[1:]).sum()
        return out

    run = _check(predictions, LEVELS, threads)
    _same_law(run()["calibration_error"].values, plain_numpy(200))
    return {"calibrant": run, "plain NumPy": plain_numpy}


def _scores(members: int, n: int, threads: int) -> Contestants:
    """The negative log density alone, of all rows at a time."""
    predictions = _mixture(members, n)
    mean, std = predictions.mean, predictions.std

    def plain_numpy(draws: int = DRAWS) -> np.ndarray:
        rng, out = np.random.default_rng(0), np.empty(draws)
        for r in range(draws):
            m = rng.integers(members)
            y = mean[m] + std[m] * rng.standard_normal(n)
            density = np.exp(-0.5 * np.square((y - mean) / std)) / std
            out[r] = -np.log(density.mean(axis=0)).mean() + 0.5 * np.log(2 * np.pi)
        return out

    run = _check(predictions, SCORES, threads)
    _same_law(run()["nll"].values, plain_numpy(200))
    return {"calibrant": run, "plain NumPy (NLL only)": plain_numpy}


def _samples(count: int, n: int, threads: int) -> Contestants:
    """The places of all values among all others by sorting, found to give the same numbers before it is timed."""
    mean, std, y = gaussians(1, n)
    draws = mean[0] + std[0] * np.random.default_rng(1).standard_normal((count, n))
    predictions = cal.Regression.from_samples(draws, y)
    levels = np.arange(1, 101) / 100

    def plain_numpy() -> np.ndarray:
        pool = np.concatenate([draws, y[None]])
        order, size = np.argsort(pool, axis=0), count + 1
        place = np.empty_like(order)
        np.put_along_axis(place, order, np.arange(size)[:, None], axis=0)
        at = place + size * np.arange(size)[:, None]
        slots = np.bincount(at.ravel(), minlength=size * size).reshape(size, size) / n
        inside = np.minimum((levels * size).astype(np.int64), count)
        before = np.cumsum(slots, axis=1) - slots
        shares = before[:, inside] + (levels * size - inside) * slots[:, inside]
        return np.square(shares - levels).sum(axis=1)

    run = _check(predictions, LEVELS, threads)
    law = run()["calibration_error"]
    np.testing.assert_allclose(plain_numpy(), np.append(law.values, law.observed), rtol=1e-6)
    return {"calibrant": run, "plain NumPy": plain_numpy}
