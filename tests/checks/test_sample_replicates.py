"""Replicates of samples, against the metrics themselves where a draw and the outcome changed places."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from checks.engines import replicated, value
from scipy.stats import chisquare

import calibrant as cal
from calibrant.checks.draws import chosen_samples, draw_outcomes, replicates_of
from calibrant.checks.plan import Plan, Targets
from calibrant.checks.sample_replicates import SampleReplicates
from calibrant.checks.statistics import statistics_of
from calibrant.results.check import BAYESIAN, INDEPENDENT

ALL = [
    "calibration_error", "calibration_error(levels=1)", "mace(levels=7,coverage=central)", "rmsce(levels=13)",
    "picp", "picp(level=0.5)", "mse", "mse(root=true)", "crps", "crps(fair=false)", "mae", "mae(point=mean)", "mean",
    "min", "max",
]  # fmt: skip
READINGS = (BAYESIAN, INDEPENDENT)


def samples(count: int, n: int, seed: int = 0, decimals: int | None = None, **known: Any) -> cal.Regression:
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((count, n)), 1.5 * rng.standard_normal(n)
    if decimals is not None:
        x, y = x.round(decimals), y.round(decimals)
    return cal.Regression.from_samples(x, y, **known)


run = partial(replicated, SampleReplicates)


def swapped(p: cal.Regression, y: np.ndarray) -> cal.Regression:
    """The outcomes in the place of the draws that they changed places with."""
    x = p.samples.astype(np.float64)  # type: ignore[union-attr]
    place, every = (x == y).argmax(axis=0), np.arange(p.n)
    np.testing.assert_array_equal(x[place, every], y)
    x[place, every] = p.y
    return cal.Regression.from_samples(x, y, weights=p.weights)


def compare(p: cal.Regression, law: dict[str, Any], drawn: np.ndarray, rows: Any = slice(None)) -> None:
    part = p[rows]
    for statistic in statistics_of(ALL, p):
        found = law[statistic.key]
        want = [value(statistic, swapped(part, y)) for y in drawn[:, rows]]
        np.testing.assert_allclose(found.values, want, rtol=1e-9, atol=1e-10, err_msg=statistic.key)
        np.testing.assert_allclose(found.observed, value(statistic, part), rtol=1e-9, atol=1e-10)


# ------------------------------------------------------------------------------------ statistics
@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize(("count", "n", "decimals"), [(7, 20, None), (30, 12, 1), (12, 15, 0), (9, 1, 0), (2, 6, None)])
def test_every_statistic_is_that_of_a_draw_judged_by_the_others(
    reading: str, count: int, n: int, decimals: int | None
) -> None:
    p, plan = samples(count, n, decimals=decimals), Plan(reading, 8, 5, 1)
    drawn = draw_outcomes(p, None, plan, np.arange(replicates_of(p, plan)), 0)
    compare(p, run(p, plan, ALL)[0], drawn)


def test_weights_count_and_targets_are_sets_of_cells() -> None:
    rng = np.random.default_rng(2)
    p, plan = samples(8, 40, weights=rng.integers(0, 4, 40) * rng.random(40)), Plan(BAYESIAN, 8, 1, 1)
    cells = rng.integers(0, 3, 40)
    targets = Targets(4, (np.arange(4), np.array([0]), np.array([1, 2]), np.array([3])))
    laws = run(p, plan, ALL, targets, cells)
    drawn = draw_outcomes(p, None, plan, np.arange(8), 0)
    for law, rows in zip(laws, (cells >= 0, cells == 0, cells > 0), strict=False):
        compare(p, law, drawn, np.flatnonzero(rows))
    for found in laws[3].values():
        assert np.isnan(found.observed)
        assert np.isnan(found.values).all()


def test_all_samples_equal_and_float32() -> None:
    p = cal.Regression.from_samples(np.full((5, 3), 2.5, np.float32), np.array([2.5, 2.5, 4.0]))
    plan = Plan(BAYESIAN, 5, 0, 1)
    law = run(p, plan, ALL)[0]
    for statistic in statistics_of(ALL, p):
        assert law[statistic.key].observed == pytest.approx(value(statistic, p), abs=1e-10)
        assert len(np.unique(law[statistic.key].values)) == 1


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("decimals", [None, 1])
def test_blocks_and_threads_change_no_bit(reading: str, decimals: int | None) -> None:
    n = 1501
    rng = np.random.default_rng(3)
    p = samples(90, n, decimals=decimals, weights=rng.random(n))
    cells, targets = rng.integers(0, 2, n), Targets(2, (np.arange(2), np.array([1])))
    plans = [Plan(reading, 90, 4, 1, threads) for threads in (1, 2)]
    laws = [run(p, plans[0], ALL, targets, cells), run(p, plans[1], ALL, targets, cells)]
    laws.append(run(p, plans[0], ALL, targets, cells, step=67))
    for other in laws[1:]:
        for one, two in zip(laws[0], other, strict=True):
            for key, law in one.items():
                assert law.observed == two[key].observed, key
                np.testing.assert_array_equal(law.values, two[key].values, err_msg=key)


# --------------------------------------------------------------------------------- what is drawn
def test_fewer_draws_than_samples_are_different_ones_and_more_are_all() -> None:
    plan = Plan(BAYESIAN, 40, 3, 1)
    chosen = chosen_samples(100, plan)
    assert len(set(chosen.tolist())) == 40
    assert chosen.max() < 100
    assert set(chosen.tolist()) != set(chosen_samples(100, Plan(BAYESIAN, 40, 4, 1)).tolist())
    np.testing.assert_array_equal(chosen_samples(30, plan), np.arange(30))
    assert len(run(samples(6, 5), plan, "mse")[0]["mse"].values) == 6
    assert len(run(samples(6, 5), Plan(INDEPENDENT, 40, 3, 1), "mse")[0]["mse"].values) == 40


def test_every_sample_is_chosen_as_often_in_every_row() -> None:
    p = cal.Regression.from_samples(np.repeat(np.arange(5.0)[:, None], 7, 1), np.zeros(7))
    drawn = draw_outcomes(p, None, Plan(INDEPENDENT, 4000, 0, 1), np.arange(4000), 0)
    for row in range(7):
        assert chisquare(np.bincount(drawn[:, row].astype(int), minlength=5)).pvalue > 1e-3


# --------------------------------------------------------------------------------- exchangeability
def test_the_rank_of_the_observed_is_uniform_where_outcomes_and_draws_are_exchangeable() -> None:
    """Nine joint draws that share what is not known; a draw that is judged by a pool with itself looks too good."""
    rng = np.random.default_rng(11)
    plan, names = Plan(BAYESIAN, 9, 0, 1), ("mse", "crps")
    ranks = {name: np.zeros(10) for name in (*names, "with itself")}
    for _ in range(600):
        pool = 0.3 * rng.standard_normal((10, 1)) + rng.standard_normal((10, 12))
        p = cal.Regression.from_samples(pool[1:], pool[0])
        law = run(p, plan, names)[0]
        for name in names:
            ranks[name][(law[name].values < law[name].observed).sum()] += 1
        errors = np.square(pool - pool[1:].mean(axis=0)).mean(axis=1)
        ranks["with itself"][(errors[1:] < errors[0]).sum()] += 1
    for name in names:
        assert chisquare(ranks[name]).pvalue > 1e-3
    assert chisquare(ranks["with itself"]).pvalue < 1e-6
