"""The probability integral transform: uniform where the model is right, of the right shape where it is not."""

import numpy as np
import pytest
from evaluations import evaluate_with
from scipy import stats

import calibrant as cal

Regression = cal.Regression
BINS = 20
UNLIKELY = 1e-3


def pit(made):
    return cal.score_rows(made, "pit")["pit"]


def curve(made, **settings):
    """The histogram of the evaluation: lower, upper and share of each bin."""
    columns = evaluate_with(made, "pit", **settings).results[0].curves["pit"]
    return {key: np.array(values) for key, values in columns.items()}


def gaussian(n=5000, factor=1.0, shift=0.0, seed=0, **known):
    """Outcomes of N(mean, std²), predicted with factor times the spread and so much too high."""
    rng = np.random.default_rng(seed)
    mean, std = rng.normal(size=n), np.exp(0.5 * rng.normal(size=n))
    y = mean + std * rng.normal(size=n)
    return Regression.from_gaussian(mean + shift * std, factor * std, y, **known)


def mixture(n=5000, members=3, seed=0, **known):
    """Outcomes of a member picked at random in each row."""
    rng = np.random.default_rng([seed, members])
    mean, std = 2 * rng.normal(size=(members, n)), np.exp(0.5 * rng.normal(size=(members, n)))
    member = rng.integers(0, members, n), np.arange(n)
    return Regression.from_gaussian(mean, std, mean[member] + std[member] * rng.normal(size=n), **known)


def samples(draws, n=20_000, factor=1.0, seed=0, **known):
    """Draws and outcome of the same Gaussian in each row."""
    rng = np.random.default_rng([seed, draws])
    mean, std = rng.normal(size=n), np.exp(0.5 * rng.normal(size=n))
    x = mean + factor * std * rng.normal(size=(draws, n))
    return Regression.from_samples(x, mean + std * rng.normal(size=n), **known)


# ------------------------------------------------------------------------------------- right models
@pytest.mark.parametrize("made", [gaussian(), mixture(), mixture(members=11)], ids=["one", "three", "eleven"])
def test_uniform_where_the_density_is_right(made):
    """By Kolmogorov and Smirnov, and in the bins of the curve."""
    assert stats.kstest(pit(made), "uniform").pvalue > UNLIKELY
    assert stats.chisquare(np.rint(made.n * curve(made)["share"])).pvalue > UNLIKELY
    estimate = cal.evaluate(made)["pit"]
    assert estimate.low < 0.5 < estimate.high


@pytest.mark.parametrize("draws", [1, 2, 9, 19, 50])
def test_ranks_among_samples_are_uniform_where_they_are_right(draws):
    """Each of the S + 1 places is as likely; the PIT is the middle of its place."""
    places = pit(samples(draws)) * (draws + 1) - 0.5
    ranks = np.rint(places).astype(int)
    assert np.abs(places - ranks).max() < 1e-12
    assert ranks.min() == 0
    assert ranks.max() == draws
    assert stats.chisquare(np.bincount(ranks, minlength=draws + 1)).pvalue > UNLIKELY


def test_the_members_alone_are_not_the_mixture():
    """One member judged by outcomes of all three is told apart: the test above can fail."""
    assert stats.kstest(pit(mixture().member(0)), "uniform").pvalue < 1e-12


# ------------------------------------------------------------------------------------- wrong models
def shares_of(made):
    share = curve(made)["share"]
    return share[[0, 1, -2, -1]].mean() * BINS, share[8:12].mean() * BINS


@pytest.mark.parametrize("make", [gaussian, lambda factor: samples(19, factor=factor)], ids=["gaussian", "samples"])
def test_over_confidence_is_a_u_and_under_confidence_a_hump(make):
    ends, middle = shares_of(make(factor=0.5))
    assert ends > 1.5
    assert middle < 0.8
    ends, middle = shares_of(make(factor=2.0))
    assert ends < 0.5
    assert middle > 1.3


@pytest.mark.parametrize(("shift", "side"), [(0.5, -1), (-0.5, 1)])
def test_the_mean_tells_predictions_that_are_too_high_or_too_low(shift, side):
    estimate = cal.evaluate(gaussian(shift=shift))["pit"]
    assert side * (estimate.value - 0.5) > 0
    assert not estimate.low < 0.5 < estimate.high


# ---------------------------------------------------------------------------------------------- ties
def test_ties_count_half():
    """(below + ½ ties + ½)/(S + 1), also at both ends and where all are equal."""
    x = np.array([[0.0, 1.0, 1.0, 2.0]]).T @ np.ones((1, 7))
    y = np.array([-1.0, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0])
    expected = np.array([0.5, 1.0, 1.5, 2.5, 3.5, 4.0, 4.5]) / 5
    assert pit(Regression.from_samples(x, y)) == pytest.approx(expected, abs=1e-15)
    assert pit(Regression.from_samples(np.full((6, 2), 3.0), [3.0, 3.0])) == pytest.approx([0.5, 0.5], abs=1e-15)


def test_discrete_outcomes_and_samples_keep_the_mean_at_a_half():
    """Ties counted as below, or as above, would push it off by the share of ties."""
    rng = np.random.default_rng(1)
    made = Regression.from_samples(rng.poisson(2.0, size=(9, 20_000)), rng.poisson(2.0, size=20_000))
    values = pit(made)
    assert abs(values.mean() - 0.5) < 4.5 * stats.sem(values)
    assert (made.samples == made.y).mean() > 0.1


# --------------------------------------------------------------------------------------- the curve
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "make", [gaussian, mixture, lambda **k: samples(19, 5000, **k)], ids=["gaussian", "mixture", "samples"]
)
def test_the_curve_is_the_histogram_of_numpy(make, weighted):
    """With S = 19 each place among the samples is one bin."""
    w = np.random.default_rng(2).exponential(size=5000) if weighted else None
    made = make(weights=w)
    found, values = curve(made), pit(made)
    edges = np.arange(BINS + 1) / BINS
    assert (found["lower"] == edges[:-1]).all()
    assert (found["upper"] == edges[1:]).all()
    assert found["share"] == pytest.approx(np.histogram(values, edges, weights=w)[0] / np.sum(w if weighted else 5000))
    assert found["share"].sum() == pytest.approx(1, abs=1e-12)


def test_the_curve_does_not_depend_on_blocks_or_order():
    made = gaussian(weights=np.random.default_rng(3).exponential(size=5000))
    whole = cal.evaluate(made, "pit").results[0].curves
    assert evaluate_with(made, "pit", block_rows=317).results[0].curves == whole
    shuffled = made[np.random.default_rng(4).permutation(5000)]
    assert cal.evaluate(shuffled, "pit").results[0].curves == whole


def test_a_value_at_an_edge_belongs_to_the_bin_below_it():
    """(0.45, 0.5] holds ½; 0 and 1 lie in the first and the last bin."""
    made = Regression.from_gaussian(np.zeros(3), np.ones(3), [0.0, -50.0, 50.0])
    assert pit(made).tolist() == [0.5, 0.0, 1.0]
    assert np.flatnonzero(curve(made)["share"]).tolist() == [0, 9, 19]


@pytest.mark.parametrize("draws", [2, 9, 52])
def test_the_curve_is_flat_for_samples_that_are_right(draws):
    """1/20 in each bin, whatever the number of samples: S + 1 places need not be a multiple of 20."""
    shares = curve(samples(draws, 40_000))["share"]
    assert shares == pytest.approx(np.full(BINS, 1 / BINS), abs=0.006)
    assert shares.sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_row_of_samples_is_spread_over_its_place(weighted):
    """Evenly from below/(S + 1) to (below + ties + 1)/(S + 1): the limit of ranks broken at random."""
    rng = np.random.default_rng(5)
    x, y = rng.poisson(2.0, size=(6, 400)), rng.poisson(2.0, size=400)
    w = rng.exponential(size=400) if weighted else np.ones(400)
    low, high = (x < y).sum(axis=0) / 7, ((x <= y).sum(axis=0) + 1) / 7
    inside = [np.clip(np.minimum(high, (b + 1) / BINS) - np.maximum(low, b / BINS), 0, None) for b in range(BINS)]
    expected = (w * inside / (high - low)).sum(axis=1) / w.sum()
    found = curve(Regression.from_samples(x, y, weights=w if weighted else None))["share"]
    assert found == pytest.approx(expected, abs=1e-12)


def test_without_outcomes_there_is_no_curve():
    made = gaussian()
    unknown = Regression.from_gaussian(made.mean, made.std)
    assert set(cal.evaluate(unknown).results[0].curves) == {"width"}, "how wide intervals are is known without y"
    with pytest.raises(cal.CalibrantError, match="it needs y"):
        cal.score_rows(unknown, "pit")
