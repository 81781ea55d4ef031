"""Bins: where values at edges land, and what equal mass means when values are tied."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import calibrant as cal
from calibrant.calibration.binning import assign, equal_width

EXAMPLES = settings(max_examples=150, deadline=None, derandomize=True, database=None)
TIED = st.lists(st.integers(0, 12), min_size=1, max_size=60).map(lambda ks: np.array(ks) / 12)
DISTINCT = st.integers(1, 60).map(lambda n: (np.random.default_rng(n).permutation(n) + 0.5) / n)
BINS = st.integers(1, 70)


@pytest.mark.parametrize("bins", [1, 2, 5, 10, 15, 20, 30])
def test_an_edge_belongs_to_the_bin_below_it(bins):
    """Bins are ((b − 1)/B, b/B]; 0 is in the first, 1 in the last."""
    edges = np.arange(bins + 1) / bins
    assert equal_width(edges, bins).tolist() == [0, *range(bins)]
    assert equal_width(edges[:-1] + 1e-9, bins).tolist() == list(range(bins))
    assert equal_width(edges[1:] - 1e-9, bins).tolist() == list(range(bins))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_edges_through_the_whole_evaluation(dtype):
    """0 and 1/15 share the first bin, k/15 closes bin k; a float32 is taken as the number that it is."""
    confidence = (np.arange(16) / 15).astype(dtype)
    curve = cal.evaluate(cal.Judged.from_confidence(confidence, np.ones(16, int)), "ece").results[0].curves
    expected = np.clip(np.ceil(confidence.astype(np.float64) * 15), 1, 15)
    upper, n = np.unique(expected, return_counts=True)
    assert curve["reliability"]["upper"] == pytest.approx(upper / 15)
    assert curve["reliability"]["n"] == n.tolist()
    if dtype is np.float64:
        assert n.tolist() == [2] + [1] * 14


@pytest.mark.parametrize("sixteenth", range(17))
def test_edges_of_class_probabilities(sixteenth):
    """p(class 1) = k/16 lies in bin k of 16 of the class-wise tables and of ece(of=1) alike."""
    p = np.array([sixteenth / 16, 1.0, 0.5])
    predictions = cal.Classification.from_probs(p, [0, 1, 1])
    split = {k: [] for k in range(1, 17)}
    for value, y in zip(p, (0, 1, 1), strict=True):
        split[max(round(value * 16), 1)].append((value, y))
    gaps = [np.subtract(*np.sum(rows, axis=0)) for rows in split.values() if rows]
    specs = "ece(bins=16,of=1),brier_reliability(bins=16)"
    ece, reliability = cal.measure(predictions, specs).values()
    assert ece == pytest.approx(np.abs(gaps).sum() / 3)
    sizes = [len(rows) for rows in split.values() if rows]
    one_class = sum(gap**2 / size for gap, size in zip(gaps, sizes, strict=True)) / 3
    mirrored = _reliability(1 - p, np.array([1, 0, 0]), 16)
    assert reliability == pytest.approx(one_class + mirrored)


def _reliability(p, y, bins):
    place = np.clip(np.ceil(p * bins), 1, bins)
    return sum((p - y)[place == b].sum() ** 2 / (place == b).sum() for b in np.unique(place)) / len(p)


# -------------------------------------------------------------------------------------- equal mass
@EXAMPLES
@given(TIED | DISTINCT, BINS)
@example(np.array([0.3]), 15)
def test_equal_values_stay_together_and_order_is_kept(p, bins):
    place = assign(p, bins, "mass")[0]
    order = np.argsort(p, kind="stable")
    rises = np.diff(p[order]) > 0
    assert not np.diff(place[order])[~rises].any()
    assert (np.diff(place[order]) >= 0).all()
    assert len(np.unique(place)) <= min(bins, len(np.unique(p)))
    assert set(place) == set(range(place.max() + 1))


@EXAMPLES
@given(DISTINCT, BINS)
def test_distinct_values_are_split_evenly(p, bins):
    sizes = np.bincount(assign(p, bins, "mass")[0])
    assert sizes.max() - sizes.min() <= 1
    assert len(sizes) == min(bins, len(p))


@EXAMPLES
@given(TIED, BINS)
def test_cuts_are_the_possible_ones_nearest_to_the_equal_split(p, bins):
    """Cuts lie between distinct values only; each wanted cut k·N/B has none nearer than the one taken."""
    possible = np.cumsum(np.unique(p, return_counts=True)[1])[:-1]
    taken = np.cumsum(np.bincount(assign(p, bins, "mass")[0]))[:-1]
    assert set(taken) <= set(possible)
    for k in range(1, bins):
        wanted = k * len(p) / bins
        if possible.size:
            assert np.abs(taken - wanted).min() == pytest.approx(np.abs(possible - wanted).min())


@EXAMPLES
@given(TIED, BINS)
def test_edges_are_midpoints_that_contain_their_rows(p, bins):
    place, edges = assign(p, bins, "mass")
    assert edges[0] == 0.0
    assert edges[-1] == 1.0
    assert (np.diff(edges) > 0).all() or len(edges) == 2
    assert (p >= edges[place]).all()
    assert (p <= edges[place + 1]).all()


def test_one_value_makes_one_bin():
    predictions = cal.Judged.from_confidence(np.full(50, 0.7), np.arange(50) % 2)
    assert cal.measure(predictions, "ece(binning=mass)")["ece(binning=mass)"] == pytest.approx(0.2)


def test_equal_mass_bins_follow_the_weights():
    """A row of weight w counts as w rows: the cut halves the weight, not the rows."""
    p = np.repeat([0.1, 0.2, 0.8, 0.9], [1, 1, 1, 9])
    y = np.r_[0, 1, 0, np.ones(9)].astype(int)
    whole = cal.measure(cal.Judged.from_confidence(p, y), "ece(bins=2,binning=mass)")
    counted = cal.Judged.from_confidence([0.1, 0.2, 0.8, 0.9], [0, 1, 0, 1], weights=[1, 1, 1, 9])
    assert cal.measure(counted, "ece(bins=2,binning=mass)") == pytest.approx(whole)
