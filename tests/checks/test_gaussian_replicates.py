"""Replicates of Gaussians and mixtures, against the metrics themselves on outcomes drawn one by one."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

import numpy as np
import pytest
from checks.engines import replicated, value
from scipy.special import ndtr, ndtri
from scipy.stats import chisquare, kstest

import calibrant as cal
from calibrant.checks.draws import draw_outcomes, replicates_of
from calibrant.checks.gaussian_replicates import GaussianReplicates
from calibrant.checks.plan import Plan, Targets
from calibrant.checks.statistics import Statistic, statistics_of
from calibrant.errors import NotApplicable
from calibrant.kernels.replicates.regression import level_quantiles, normal_quantiles
from calibrant.results.check import BAYESIAN, INDEPENDENT

ALL = [
    "calibration_error", "calibration_error(levels=1)", "mace(levels=7,coverage=central)", "rmsce(levels=13)",
    "picp", "picp(level=0.5)", "mse", "mse(root=true)", "nll", "crps", "mae", "mae(point=mean)", "mean", "min", "max",
]  # fmt: skip
READINGS = (BAYESIAN, INDEPENDENT)


def mixture(members: int, n: int, seed: int = 0, **known: Any) -> cal.Regression:
    rng = np.random.default_rng(seed)
    mean = rng.standard_normal(n) + 0.7 * rng.standard_normal((members, n))
    std = 0.3 + rng.random((members, n))
    return cal.Regression.from_gaussian(mean, std, 2 * rng.standard_normal(n), **known)


run = partial(replicated, GaussianReplicates)


def compare(p: cal.Regression, plan: Plan, law: dict[str, Any], drawn: np.ndarray, rows: Any = slice(None)) -> None:
    part = p[rows]
    for statistic in statistics_of(ALL, p):
        found = law[statistic.key]
        want = [value(statistic, dataclasses.replace(part, y=y)) for y in drawn[:, rows]]
        np.testing.assert_allclose(found.values, want, rtol=1e-8, atol=1e-9, err_msg=statistic.key)
        np.testing.assert_allclose(found.observed, value(statistic, part), rtol=1e-8, atol=1e-9, err_msg=statistic.key)


# --------------------------------------------------------------------------------- what is drawn
def test_normal_quantiles_are_those_of_scipy_for_every_kind_of_word() -> None:
    rng = np.random.default_rng(0)
    low = np.unique(np.geomspace(1, 2**31, 20_000).astype(np.uint32))
    words = np.concatenate([[0], low, 2**32 - 1 - low.astype(np.uint64), [2**32 - 1], rng.integers(0, 2**32, 200_000)])
    words = words.astype(np.uint32)
    u = (words + 0.5) / 2.0**32
    want = np.where(u < 0.5, ndtri(u), -ndtri((2.0**32 - 0.5 - words) / 2.0**32))
    np.testing.assert_allclose(normal_quantiles(words), want, rtol=1e-9)


def test_a_bayesian_replicate_is_drawn_by_one_member_and_an_independent_one_by_all() -> None:
    far = np.array([0.0, 1e3, 2e3])
    p = cal.Regression.from_gaussian(np.repeat(far[:, None], 40, 1), np.ones((3, 40)), np.zeros(40))
    for reading in READINGS:
        plan = Plan(reading, 60, 3, 3)
        member = np.rint(draw_outcomes(p, None, plan, np.arange(60), 0) / 1e3).astype(int)
        if reading == BAYESIAN:
            assert (member == plan.source[:, None]).all()
        else:
            counts = np.bincount(member.ravel(), minlength=3)
            assert ((counts - 800) ** 2 / 800).sum() < 20


@pytest.mark.parametrize("reading", READINGS)
def test_drawn_outcomes_have_the_moments_and_the_distribution_of_the_mixture(reading: str) -> None:
    p = mixture(5, 4)
    drawn = draw_outcomes(p, None, Plan(reading, 20_000, 1, 5), np.arange(20_000), 0)
    matched = p.moment_matched()
    mean, std = matched.mean[0], matched.std[0]  # type: ignore[index]
    np.testing.assert_allclose(drawn.mean(axis=0), mean, atol=5 * std.max() / np.sqrt(20_000))
    np.testing.assert_allclose(drawn.std(axis=0), std, rtol=0.03)
    for i in range(p.n):
        pit = ndtr((drawn[:, i, None] - p.mean[:, i]) / p.std[:, i]).mean(axis=1)  # type: ignore[index]
        assert kstest(pit, "uniform").pvalue > 1e-3


def test_draws_belong_to_replicate_and_row_not_to_blocks() -> None:
    p = mixture(3, 21)
    for reading in READINGS:
        plan = Plan(reading, 9, 7, 3)
        whole = draw_outcomes(p, None, plan, np.arange(9), 0)
        np.testing.assert_array_equal(whole[[7, 2], 6:19], draw_outcomes(p[6:19], None, plan, np.array([7, 2]), 6))
        other = draw_outcomes(p, None, dataclasses.replace(plan, seed=8), np.arange(9), 0)
        assert not np.isclose(whole, other).any()
        assert replicates_of(p, plan) == 9


def test_quantiles_cannot_be_drawn_from() -> None:
    p = cal.Regression.from_quantiles(np.array([[0.0, 1.0]]), [0.1, 0.9], [0.5])
    with pytest.raises(NotApplicable, match="quantiles"):
        draw_outcomes(p, None, Plan(BAYESIAN, 2, 0, 1), np.arange(2), 0)


# ------------------------------------------------------------------------------------- quantiles
@pytest.mark.parametrize(("apart", "narrow"), [(0.5, 0.5), (3.0, 0.2), (30.0, 0.01), (0.0, 1.0)])
def test_many_quantiles_at_once_solve_for_their_levels(apart: float, narrow: float) -> None:
    rng = np.random.default_rng(0)
    mean, std = apart * rng.standard_normal((6, 50)), narrow * np.exp(rng.standard_normal((6, 50)))
    levels = np.sort(np.append(np.arange(1, 100) / 100, [0.0005, 0.9995]))
    found = level_quantiles(mean, std, levels)
    at = ndtr((found[:, :, None] - mean.T[:, None]) / std.T[:, None]).mean(axis=2)
    np.testing.assert_allclose(at, np.broadcast_to(levels, at.shape), rtol=0, atol=1e-11)
    assert (np.diff(found, axis=1) > 0).all()


# ------------------------------------------------------------------------------------ statistics
@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize(("members", "n"), [(1, 30), (4, 30), (3, 1)])
def test_every_statistic_is_the_metric_of_the_drawn_outcomes(reading: str, members: int, n: int) -> None:
    p, plan = mixture(members, n), Plan(reading, 12, 5, members)
    drawn = draw_outcomes(p, None, plan, np.arange(12), 0)
    compare(p, plan, run(p, plan, ALL)[0], drawn)


def test_weights_count_in_levels_and_in_means_and_targets_are_sets_of_cells() -> None:
    rng = np.random.default_rng(2)
    p, plan = mixture(3, 40, weights=rng.integers(0, 4, 40) * rng.random(40)), Plan(BAYESIAN, 6, 1, 3)
    cells = rng.integers(0, 3, 40)
    targets = Targets(4, (np.arange(4), np.array([0]), np.array([1, 2]), np.array([3])))
    laws = run(p, plan, ALL, targets, cells)
    drawn = draw_outcomes(p, None, plan, np.arange(6), 0)
    for law, rows in zip(laws, (cells >= 0, cells == 0, cells > 0), strict=False):
        compare(p, plan, law, drawn, np.flatnonzero(rows))
    for found in laws[3].values():
        assert np.isnan(found.observed)
        assert np.isnan(found.values).all()


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("weighted", [False, True])
def test_blocks_and_threads_change_no_bit(reading: str, weighted: bool) -> None:
    n, draws = 701, 190
    rng = np.random.default_rng(3)
    p = mixture(3, n, weights=rng.random(n) if weighted else None)
    cells, targets = rng.integers(0, 2, n), Targets(2, (np.arange(2), np.array([1])))
    plans = [Plan(reading, draws, 4, 3, threads) for threads in (1, 2)]
    laws = [run(p, plans[0], ALL, targets, cells), run(p, plans[1], ALL, targets, cells)]
    laws.append(run(p, plans[0], ALL, targets, cells, step=67))
    for other in laws[1:]:
        for one, two in zip(laws[0], other, strict=True):
            for key, law in one.items():
                assert law.observed == two[key].observed, key
                np.testing.assert_array_equal(law.values, two[key].values, err_msg=key)


def test_float32_and_tiny_spread_and_far_outliers_are_as_the_metrics_have_them() -> None:
    rng = np.random.default_rng(4)
    mean = (1e3 + rng.standard_normal((2, 20))).astype(np.float32)
    std = np.full((2, 20), 1e-3, np.float32)
    y = 1e3 + rng.standard_normal(20)
    y[3] = 1e9
    p, plan = cal.Regression.from_gaussian(mean, std, y), Plan(BAYESIAN, 5, 0, 2)
    compare(p, plan, run(p, plan, ALL)[0], draw_outcomes(p, None, plan, np.arange(5), 0))


def test_an_outcome_between_members_that_lie_far_apart_is_neither_below_nor_above_the_level_there() -> None:
    mean = np.array([[-100.0, 0.0, 100.0, 100.5], [0.0, 50.0, 0.0, 0.0]]).T
    y = np.array([-40.0, 20.0])
    p, plan = cal.Regression.from_gaussian(mean, np.ones((4, 2)), y), Plan(BAYESIAN, 5, 0, 4)
    compare(p, plan, run(p, plan, ALL)[0], draw_outcomes(p, None, plan, np.arange(5), 0))


def test_what_is_counted_does_not_depend_on_what_else_is_asked_for() -> None:
    p, plan = mixture(4, 60), Plan(BAYESIAN, 40, 2, 4)
    together = run(p, plan, ALL)[0]
    for name in ("picp", "nll", "max", "mae"):
        np.testing.assert_array_equal(run(p, plan, name)[0][name].values, together[name].values)


def test_rows_that_were_not_prepared_for_are_refused() -> None:
    p, plan = mixture(2, 5), Plan(BAYESIAN, 3, 0, 2)
    engine = GaussianReplicates(statistics_of("mse", p), p, plan, Targets())
    with pytest.raises(RuntimeError, match="prepared"):
        engine.add(p, None, np.zeros(5, np.int64), 0)


def test_functions_of_a_known_name_are_left_to_others() -> None:
    p = mixture(2, 5)
    (own,), (mine,) = statistics_of("mean", p), statistics_of(Statistic(lambda y, q: 0.0, "mean"), p)
    assert GaussianReplicates.supports(own, p)
    assert not GaussianReplicates.supports(mine, p)
    assert not GaussianReplicates.supports(statistics_of("quantile(level=0.1)", p)[0], p)
    assert not GaussianReplicates.supports(statistics_of("dss", p)[0], p)


@pytest.mark.parametrize("reading", READINGS)
def test_the_rank_of_the_observed_is_uniform_where_the_model_drew_it(reading: str) -> None:
    """Nineteen replicates of what one member, or each row's own, drew; the other reading is not uniform."""
    rng = np.random.default_rng(6)
    mean, std, every = 0.8 * np.arange(4.0)[:, None] * np.ones(25), np.full((4, 25), 0.5), np.arange(25)
    ranks = {name: np.zeros(20) for name in READINGS}
    for seed in range(400):
        member = np.full(25, rng.integers(4)) if reading == BAYESIAN else rng.integers(4, size=25)
        y = mean[member, every] + std[member, every] * rng.standard_normal(25)
        p = cal.Regression.from_gaussian(mean, std, y)
        for name in READINGS:
            law = run(p, Plan(name, 19, seed, 4), "crps")[0]["crps"]
            ranks[name][(law.values < law.observed).sum()] += 1
    for name, counts in ranks.items():
        assert (chisquare(counts).pvalue > 1e-3) == (name == reading)
