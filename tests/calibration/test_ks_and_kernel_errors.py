"""KS and MMCE against double loops and netcal, and what they may not depend on."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrant.calibration.bin_free import ks, mmce, weighted_mmce
from calibrant.calibration.runs import Runs

EXAMPLES = settings(max_examples=60, deadline=None, derandomize=True, database=None)
ERRORS = [ks, mmce, weighted_mmce]


def runs_of(p, y, w=None):
    runs = Runs.of(np.asarray(p, float), np.asarray(y, float), w)
    return runs.p, runs.w, runs.wy


@st.composite
def rows(draw):
    """Rows with ties, exact zeros and ones, outcomes that may be fractions, and weights."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.integers(1, 80))
    p = rng.random(n)
    p = draw(st.sampled_from([p, np.round(p, 1), np.round(p)]))
    y = rng.random(n) if draw(st.booleans()) else (rng.random(n) < draw(st.sampled_from([0.0, 0.4, 1.0]))) * 1.0
    return p, y, rng.exponential(size=n) if draw(st.booleans()) else np.ones(n)


def ks_by_rows(p, y, w):
    """The largest gap of cumulated sums over every threshold."""
    return max(abs((w * (p - y))[p <= t].sum()) for t in p) / w.sum()


def mmce_by_pairs(p, y, w):
    total = 0.0
    for i in range(len(p)):
        for j in range(len(p)):
            total += w[i] * w[j] * (y[i] - p[i]) * (y[j] - p[j]) * np.exp(-abs(p[i] - p[j]) / 0.4)
    return np.sqrt(max(total, 0.0)) / w.sum()


def weighted_mmce_by_pairs(p, y, w):
    """The three sums of the paper's formula."""
    k = np.exp(-np.abs(p[:, None] - p) / 0.4)
    hit, miss = w * y, w * (1 - y)
    m, rest = hit.sum(), miss.sum()
    right, wrong = hit * (1 - p), miss * p
    total = 0.0
    if m > 0:
        total += right @ k @ right / m**2
    if rest > 0:
        total += wrong @ k @ wrong / rest**2
    if m > 0 and rest > 0:
        total -= 2 * (right @ k @ wrong) / (m * rest)
    return np.sqrt(max(total, 0.0))


@EXAMPLES
@given(rows())
def test_against_double_loops(problem):
    runs = runs_of(*problem)
    assert ks(*runs) == pytest.approx(ks_by_rows(*problem), abs=1e-12)
    assert mmce(*runs) == pytest.approx(mmce_by_pairs(*problem), abs=1e-7)  # the double loop cancels under a root
    assert weighted_mmce(*runs) == pytest.approx(weighted_mmce_by_pairs(*problem), abs=1e-7)


@EXAMPLES
@given(rows())
def test_bounds(problem):
    p, y, w = problem
    runs = runs_of(*problem)
    mean = abs(np.average(p, weights=w) - np.average(y, weights=w))
    assert 1.0 + 1e-12 >= ks(*runs) >= mean - 1e-12
    assert mean * np.exp(-1.25) - 1e-12 <= mmce(*runs) <= np.average(np.abs(y - p), weights=w) + 1e-12


@EXAMPLES
@given(rows(), st.integers(0, 2**32 - 1))
def test_rows_may_come_in_any_order_and_be_split(problem, seed):
    p, y, w = problem
    rng = np.random.default_rng(seed)
    order = rng.permutation(2 * len(p)) % len(p)
    for error in ERRORS:
        assert error(*runs_of(p[order], y[order], w[order] / 2)) == pytest.approx(error(*runs_of(*problem)), abs=1e-10)


@pytest.mark.parametrize("error", ERRORS)
def test_many_outcomes_at_once(error):
    rng = np.random.default_rng(0)
    p, w, _ = runs_of(np.round(rng.random(300), 2), np.zeros(300), rng.exponential(size=300))
    wy = w * rng.random((7, len(p)))
    wy[0], wy[1] = 0.0, w
    together = error(p, w, wy)
    assert together.shape == (7,)
    assert together.tolist() == [error(p, w, row) for row in wy]


def test_mmce_is_that_of_netcal():
    from netcal.metrics import MMCE

    rng = np.random.default_rng(1)
    p = rng.dirichlet([0.5, 0.5, 0.5], 400)
    labels = rng.integers(0, 3, 400)
    hit = p.argmax(1) == labels
    assert mmce(*runs_of(p.max(1), hit)) == pytest.approx(MMCE().measure(p, labels), abs=1e-12)


def test_threads_do_not_show(monkeypatch):
    rng = np.random.default_rng(2)
    p = np.sort(rng.random(3000))
    wy = (rng.random((400, 3000)) < p) * 1.0
    values = []
    for threads in ("1", "3"):
        monkeypatch.setenv("CALIBRANT_THREADS", threads)
        values.append(mmce(p, np.ones(3000), wy).tolist())
    assert values[0] == values[1]


@pytest.mark.parametrize("error", ERRORS)
def test_nothing_is_wrong_with_certain_predictions_that_come_true(error):
    assert error(*runs_of([0, 0, 1, 1, 1], [0, 0, 1, 1, 1])) == 0.0


@pytest.mark.parametrize(("p", "y", "value"), [([0.3], [1], 0.7), ([0.3, 0.3], [0, 0], 0.3), ([1.0], [0], 1.0)])
@pytest.mark.parametrize("error", ERRORS)
def test_one_run_of_one_outcome_has_its_gap(error, p, y, value):
    assert error(*runs_of(p, y)) == pytest.approx(value, abs=1e-15)


def test_balanced_classes_weigh_the_rare_one():
    """One run: hits and misses count as much as each other, whatever their numbers."""
    y = np.array([1.0] * 9 + [0.0])
    assert mmce(*runs_of(np.full(10, 0.9), y)) == pytest.approx(0.0, abs=1e-15)
    assert weighted_mmce(*runs_of(np.full(10, 0.9), y)) == pytest.approx(0.8, abs=1e-15)
