"""Intervals of regression scores cover: in 95 of 100 samples of rows they hold what more rows would give."""

import math

import numpy as np
import pytest
from scipy import stats

import calibrant as cal

ROWS, SIMULATIONS, LEVEL = 200, 1000, 0.95
SLACK = 4 * math.sqrt(LEVEL * (1 - LEVEL) / SIMULATIONS)
SPECS = ["crps", "nll", "mse"]
FACTOR, SHIFT = 1.25, 0.3
"""How wrong the model is, in standard deviations: its scores are not those of a perfect one."""


def gaussian(rng, n):
    """Rows of unequal spread, N(mean, std²), predicted too wide and too high."""
    std = rng.uniform(0.5, 1.5, n)
    mean = rng.normal(size=n)
    return (mean + SHIFT * std)[None], (FACTOR * std)[None], mean + std * rng.normal(size=n)


def mixture(rng, n):
    """Three members that disagree; outcomes are of one of them, picked at random in each row."""
    mean, std = rng.normal(size=(3, n)), rng.uniform(0.5, 1.5, (3, n))
    member = rng.integers(0, 3, n), np.arange(n)
    return mean, std, mean[member] + std[member] * rng.normal(size=n)


def closed_form():
    """Expectations over z ~ N(0, 1) and σ ~ U(0.5, 1.5), in units of which every score of the Gaussian is."""
    mean_std, mean_square, mean_log = 1.0, 13 / 12, 1.5 * math.log(1.5) - 0.5 * math.log(0.5) - 1.0
    # E|X − y| of the difference N(SHIFT, 1 + FACTOR²), less half of E|X − X'| = 2·FACTOR/√π
    spread = math.hypot(1.0, FACTOR)
    away = SHIFT * (2 * stats.norm.cdf(SHIFT / spread) - 1) + 2 * spread * stats.norm.pdf(SHIFT / spread)
    return {
        "crps": mean_std * (away - FACTOR / math.sqrt(math.pi)),
        "nll": (1 + SHIFT**2) / (2 * FACTOR**2) + math.log(FACTOR) + mean_log + 0.5 * math.log(2 * math.pi),
        "mse": mean_square * SHIFT**2 + mean_square,
    }


def simulated(draw):
    """The mean over 400 000 rows: its own error is a fiftieth of half an interval."""
    mean, std, y = draw(np.random.default_rng(0), 400_000)
    return cal.measure(cal.Regression.from_gaussian(mean, std, y), SPECS)


def covered(draw, truth, units=None, copies=1):
    """Share of simulations whose interval holds the truth, by metric."""
    inside = dict.fromkeys(SPECS, 0)
    for k in range(SIMULATIONS):
        mean, std, y = (np.repeat(x, copies, axis=-1) for x in draw(np.random.default_rng([1, k]), ROWS // copies))
        columns = {"unit": np.repeat(np.arange(ROWS // copies), copies)}
        result = cal.evaluate(cal.Regression.from_gaussian(mean, std, y, columns=columns), SPECS, units=units)
        for spec in SPECS:
            inside[spec] += result[spec].low <= truth[spec] <= result[spec].high
    return {spec: count / SIMULATIONS for spec, count in inside.items()}


@pytest.fixture(scope="module")
def truth():
    return {gaussian: closed_form(), mixture: simulated(mixture)}


def test_the_closed_form_is_what_a_large_simulation_gives(truth):
    """An error in it would show as a lack of coverage."""
    assert simulated(gaussian) == pytest.approx(truth[gaussian], rel=0.01)


@pytest.mark.parametrize("draw", [gaussian, mixture])
def test_intervals_cover_independent_rows(draw, truth):
    shares = covered(draw, truth[draw])
    assert all(abs(share - LEVEL) < SLACK for share in shares.values()), shares


def test_intervals_cover_dependent_rows_with_units_only(truth):
    """Fifty rows four times each."""
    by_unit, plain = (covered(mixture, truth[mixture], units, copies=4) for units in ("unit", None))
    assert all(share > 0.91 for share in by_unit.values()), by_unit
    assert all(share < 0.80 for share in plain.values()), plain
