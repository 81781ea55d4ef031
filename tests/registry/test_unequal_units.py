"""Intervals of means of rows in units of unequal size."""

import math

import numpy as np
import pytest

from calibrant.intervals import studentised
from calibrant.registry.state.accumulators import Moments, satterthwaite_degrees


def moments_of(scores, units, weights=None):
    moments = Moments()
    moments.add(np.asarray(scores, float), weights, np.asarray(units))
    return moments


def sizes_of(kind, rng):
    return rng.integers(1, 9, 40) if kind == "1 to 8" else np.ceil(rng.pareto(1.2, 100) + 1).clip(max=3000).astype(int)


@pytest.mark.parametrize("kind", ["1 to 8", "Pareto"])
@pytest.mark.parametrize("common", [0.0, 0.5, 1.0])
def test_the_interval_of_unequal_units_covers(kind, common):
    rng, hits, many = np.random.default_rng(int(2 * common) + 10 * len(kind)), 0, 400
    for _ in range(many):
        sizes = sizes_of(kind, rng)
        units = np.repeat(np.arange(len(sizes)), sizes)
        shared, own = rng.standard_normal(len(sizes))[units], rng.standard_normal(len(units))
        moments = moments_of(common * shared + (1.0 - common) * own, units)
        interval = studentised(moments.mean(), *moments.error_and_skewness(), 0.95)
        hits += interval.low <= 0.0 <= interval.high
    assert hits / many == pytest.approx(0.955, abs=3 * math.sqrt(0.95 * 0.05 / many))


def test_the_degrees_are_those_of_the_quadratic_form():
    """2·mean²/variance of x'Mx is tr(MV)²/tr(MVMV)."""
    rng = np.random.default_rng(1)
    mass, v = rng.integers(1, 30, 12).astype(float), rng.random(12)
    h = mass / mass.sum()
    residuals = np.eye(12) - np.outer(np.ones(12), h)
    m = residuals.T @ np.diag(h**2 / (1 - h)) @ residuals @ np.diag(v)
    assert satterthwaite_degrees(mass, v) == pytest.approx(np.trace(m) ** 2 / np.trace(m @ m), rel=1e-10)
    assert satterthwaite_degrees(np.full(9, 3.0), np.ones(9)) == pytest.approx(8.0)


def test_units_of_one_size_count_each():
    rng = np.random.default_rng(2)
    scores, units = rng.random(60), np.arange(60) // 3
    error, _, terms = moments_of(scores, units).error_and_skewness()
    assert terms == 20
    assert error == pytest.approx(scores.reshape(20, 3).mean(axis=1).std(ddof=1) / math.sqrt(20))


def test_one_unit_of_nearly_all_rows_leaves_few_degrees():
    scores, units = np.random.default_rng(3).random(1000), np.maximum(np.arange(1000) - 980, 0)
    _, _, terms = moments_of(scores, units, np.ones(1000)).error_and_skewness()
    assert 1.0 < terms < 3.0


def test_the_error_allows_for_the_pull_of_a_large_unit():
    """Of independent rows the squared error is unbiased, 1/N (Bell & McCaffrey 2002)."""
    rng, sizes = np.random.default_rng(4), np.array([30, 10, 5, 3, 1, 1])
    units = np.repeat(np.arange(6), sizes)
    errors = [moments_of(rng.standard_normal(50), units).error_and_skewness()[0] for _ in range(2000)]
    assert np.mean(np.square(errors)) == pytest.approx(1 / 50, rel=0.08)
