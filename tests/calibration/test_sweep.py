"""ECE_sweep against a plain sweep over bins of `binning.assign`."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrant.calibration.bin_free import MOST_BINS, sweep_bins, sweep_ece
from calibrant.calibration.binning import assign
from calibrant.calibration.runs import Runs

EXAMPLES = settings(max_examples=250, deadline=None, derandomize=True, database=None)


def runs_of(p, y, w=None):
    runs = Runs.of(np.asarray(p, float), np.asarray(y, float), w)
    return runs.p, runs.w, runs.wy


def table(p, y, w, bins):
    """Σw, Σwp and Σwy of the equal-mass bins, one after another."""
    bin_of, _ = assign(p, bins, "mass", w)
    filled = np.unique(bin_of)
    return np.array([[w[bin_of == b].sum(), (w * p)[bin_of == b].sum(), (w * y)[bin_of == b].sum()] for b in filled]).T


def plain_sweep(p, y, w, order=1.0):
    best = 1
    for bins in range(2, len(np.unique(p)) + 1):
        mass, _, hits = table(p, y, w, bins)
        if np.any(np.diff(hits / mass) < -1e-12):
            break
        best = bins
    mass, expected, hits = table(p, y, w, best)
    return best, ((mass * np.abs((hits - expected) / mass) ** order).sum() / w.sum()) ** (1 / order)


@st.composite
def rows(draw):
    """Outcomes that rise with p more or less, so that sweeps end early and late."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.integers(1, 60))
    p = np.round(rng.random(n), draw(st.sampled_from([1, 2, 9])))
    kind = draw(st.sampled_from(["noise", "sharp", "soft", "few"]))
    y = {
        "noise": (rng.random(n) < p) * 1.0,
        "sharp": (rng.normal(p, 0.05) > 0.5) * 1.0,
        "soft": np.clip(rng.normal(p, 0.01), 0, 1),
        "few": (rng.random(n) < 0.04) * 1.0,
    }[kind]
    return p, y, rng.exponential(size=n) if draw(st.booleans()) else np.ones(n)


@EXAMPLES
@given(rows(), st.sampled_from([1.0, 2.0, 1.5]))
def test_against_a_plain_sweep(problem, order):
    bins, error = plain_sweep(*problem, order)
    runs = runs_of(*problem)
    assert sweep_bins(*runs) == bins
    assert sweep_ece(*runs, order) == pytest.approx(error, abs=1e-12)


@EXAMPLES
@given(rows(), st.integers(0, 2**32 - 1))
def test_rows_may_come_in_any_order_and_be_split(problem, seed):
    p, y, w = problem
    order = np.random.default_rng(seed).permutation(2 * len(p)) % len(p)
    split = runs_of(p[order], y[order], w[order] / 2)
    whole = runs_of(*problem)
    mean = abs(np.average(p, weights=w) - np.average(y, weights=w))
    assert sweep_ece(*split) == pytest.approx(sweep_ece(*whole), abs=1e-10)
    assert sweep_ece(*whole) >= mean - 1e-12


def test_unit_of_weights_does_not_show():
    """Bins of equal accuracy stay equal when the weights are tenths, which floats cannot hold."""
    rng = np.random.default_rng(0)
    p = np.sort(rng.random(4000))
    for _ in range(20):
        y = (rng.random(4000) < 0.5) * 1.0
        assert sweep_bins(p, np.full(4000, 0.1), 0.1 * y) == sweep_bins(p, np.ones(4000), y)


def test_many_outcomes_at_once():
    rng = np.random.default_rng(1)
    p, w = np.sort(rng.random(500)), np.ones(500)
    wy = (rng.random((20, 500)) < p) * 1.0
    assert sweep_bins(p, w, wy).tolist() == [sweep_bins(p, w, row) for row in wy]
    assert sweep_ece(p, w, wy).tolist() == [sweep_ece(p, w, row) for row in wy]
    assert len(set(sweep_bins(p, w, wy).tolist())) > 3


@pytest.mark.parametrize("y", [0.0, 1.0])
def test_outcomes_that_never_fall_have_a_bin_for_every_value(y):
    p = np.linspace(0, 1, 50)
    runs = runs_of(p, np.full(50, y))
    assert sweep_bins(*runs) == 50
    assert sweep_ece(*runs) == pytest.approx(np.abs(p - y).mean())


@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
def test_one_run(p):
    runs = runs_of([p, p], [1, 0])
    assert sweep_bins(*runs) == 1
    assert sweep_ece(*runs) == pytest.approx(abs(p - 0.5))


def test_sweeps_end():
    """A single miss near the lower end would be seen after many thousands of bins only."""
    n = 300_000
    y = np.ones(n)
    y[5] = 0.0
    assert sweep_bins(np.arange(n) / n, np.ones(n), y) == MOST_BINS
