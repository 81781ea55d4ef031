"""Deep-ensemble equivalents: the definition, censoring, simulated pools whose truth is known, and bad luck."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_softmax, softmax
from scipy.stats import binom

import calibrant as cal
from calibrant.comparison.cross_validation import CurveRows, calibrated
from calibrant.comparison.ensemble_equivalent import (
    Model,
    crossing,
    equivalents,
    mean_equivalents,
    model_of,
    models_of,
    pool_curve,
    shared_members,
    shares_of,
)
from calibrant.comparison.equivalent_intervals import central, member_std, pool_std, pool_variance, replicates
from calibrant.comparison.split_temperatures import splits_of
from calibrant.errors import CalibrantError, CalibrantWarning, LabelsError, ShapeError, UsageError
from calibrant.results.comparison import Equivalent

NUMBERS = st.floats(-3, 0, allow_nan=False)


# ---------------------------------------------------------------------------------------- definition
def plain_crossing(curve, level):
    """Walk along the running maximum until it is as high as the level."""
    best = [max(curve[: k + 1]) for k in range(len(curve))]
    if level < best[0]:
        return 1.0, "below"
    if level > best[-1]:
        return float(len(curve)), "above"
    for k, here in enumerate(best):
        if here >= level:
            before = best[k - 1] if k else here
            return (k + 1.0 if here == before else k + (level - before) / (here - before)), ""
    raise AssertionError


@pytest.mark.parametrize(
    ("curve", "level", "k", "censored"),
    [
        ([-1, -0.6, -0.5], -0.8, 1.5, ""),
        ([-1, -0.6, -0.5], -0.6, 2.0, ""),  # at a knot
        ([-1, -0.6, -0.5], -1.0, 1.0, ""),  # as good as one member is not below
        ([-1, -0.6, -0.5], -1.1, 1.0, "below"),
        ([-1, -0.6, -0.5], -0.5, 3.0, ""),
        ([-1, -0.6, -0.5], -0.4, 3.0, "above"),
        ([-1, -0.6, -0.6, -0.5], -0.6, 2.0, ""),  # a plateau is reached where it begins
        ([-1, -0.5, -0.9, -0.4], -0.45, 3.5, ""),  # where it falls, what was reached stays reached
        ([-1, -0.5, -0.9, -0.4], -0.6, 1.8, ""),
        ([-1, -2, -3], -0.5, 3.0, "above"),
        ([-1, -2, -3], -1.5, 1.0, "below"),
        ([-1], -1, 1.0, ""),
        ([-1], -0.9, 1.0, "above"),
        ([-np.inf, -np.inf, -0.5], -0.7, 3.0, ""),
        ([-1, -0.5], -np.inf, 1.0, "below"),
    ],
)
def test_exact_crossings(curve, level, k, censored):
    found = crossing(np.array(curve, float), level)
    assert found == (pytest.approx(k, abs=1e-12), censored)


@given(st.lists(NUMBERS, min_size=1, max_size=12), NUMBERS)
def test_crossing_is_that_of_the_plain_reference(curve, level):
    found, expected = crossing(np.array(curve), level), plain_crossing(curve, level)
    assert found == (pytest.approx(expected[0], abs=1e-9), expected[1])


@given(st.lists(NUMBERS, min_size=1, max_size=12), NUMBERS, NUMBERS)
def test_the_equivalent_grows_with_the_likelihood(curve, one, two):
    low, high = sorted([one, two])
    assert crossing(np.array(curve), low)[0] <= crossing(np.array(curve), high)[0]


@given(st.lists(NUMBERS, min_size=1, max_size=12), st.lists(st.floats(0, 1), min_size=12, max_size=12), NUMBERS)
def test_lower_is_below_and_upper_above(curve, std, level):
    curve, std = np.array(curve), np.array(std)[: len(curve)]
    lower, value, upper = (crossing(curve + s * std, level)[0] for s in (1, 0, -1))
    assert lower <= value <= upper


def test_a_level_or_curve_that_is_not_known():
    assert math.isnan(crossing(np.array([-1.0, -0.5]), math.nan)[0])
    for curve in ([], [[-1.0]], [-1.0, math.nan]):
        with pytest.raises(CalibrantError, match="curve"):
            crossing(np.array(curve), -0.5)


# ---------------------------------------------------------------------------------------- simulated pools
def simulated(n, members, rng, *, classes=3, noise=2.0, unequal=0.0, dtype=np.float64):
    """Labels follow `truth`; every member sees it through an error that all share and through noise of its own."""
    truth = 2.0 * rng.standard_normal((n, classes))
    labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
    shared = truth + 0.5 * rng.standard_normal(truth.shape)
    sizes = noise * np.exp(unequal * rng.standard_normal((members, 1, 1)))
    probs = softmax(shared + sizes * rng.standard_normal((members, *truth.shape)), axis=-1)
    return cal.Classification.from_probs(probs.astype(dtype), labels)


def of_members(predictions, chosen, name="predictions"):
    return cal.Classification.from_probs(predictions.scores[chosen], predictions.labels, name=name)


@pytest.fixture(scope="module")
def everything():
    return simulated(1000, 60, np.random.default_rng(5))


@pytest.fixture(scope="module")
def measured(everything):
    """The pool's curve, and the equivalents of the first k of 20 fresh members, each as if there were no others."""
    pool, fresh = of_members(everything, np.arange(40)), of_members(everything, np.arange(40, 60))
    splits = splits_of(1000, repeats=1, seed=3)
    found = pool_curve(pool, splits, draws=6, seed=3)
    models = [model_of(of_members(fresh, np.arange(k)), splits) for k in range(1, 21)]
    return pool, fresh, splits, found, equivalents(models, *found, shares_of(pool), resamples=500, seed=3)


def test_fresh_members_are_worth_their_number(measured):
    """Intervals of 95 %: of 19 more than four misses would have a probability of 0.002 if they were independent.

    They are nested, which makes it larger; `evidence/equivalents.py` has the coverage of several hundred pools.
    """
    found = measured[-1][1:]
    assert binom.sf(4, 19, 0.05) < 0.003
    assert sum(not item.low <= item.members <= item.high for item in found) <= 4
    for item in found:
        assert item.low <= item.value <= item.high
        assert item.lower <= item.value <= item.upper
        assert abs(math.log(item.value / item.members)) < 1.0


def test_intervals_widen_with_k(measured):
    """The curve flattens like 1/k², the noise falls like √k only: about k^1.5, until the pool ends."""
    width = [item.high - item.low for item in measured[-1]]
    assert np.mean(width[14:]) > 4 * np.mean(width[1:4])


def test_the_curve_rises_to_what_all_members_reach(measured):
    pool, _, splits, (curve, rows), _ = measured
    assert (np.diff(curve.mean)[:10] > 0).all()
    whole = calibrated(pool, splits).log_likelihood
    assert rows.rows[-1] == pytest.approx(whole, abs=1e-7)
    assert curve.mean[-1] == pytest.approx(whole.mean(), abs=1e-7)
    assert curve.std[-1] < 1e-7
    assert (curve.draws, curve.n, curve.repeats, curve.k[-1]) == (6, 1000, 1, 40)


def test_single_members_are_below_about_half_of_the_time(measured):
    _, fresh, splits, (curve, _), _ = measured
    below = [crossing(curve.mean, calibrated(fresh.member(m), splits).log_likelihood.mean())[1] for m in range(20)]
    count = sum(side == "below" for side in below)
    assert binom.ppf(0.001, 20, 0.5) <= count <= binom.ppf(0.999, 20, 0.5)


def test_spread_at_twenty_members(measured):
    """Twenty at random out of the sixty, of 1000 rows: by far the most lie within 10 and the size of the pool."""
    curve, splits = measured[3][0], measured[2]
    both = cal.Classification.from_probs(np.concatenate([measured[0].scores, measured[1].scores]), measured[0].labels)
    rng = np.random.default_rng(0)
    sets = [of_members(both, rng.choice(60, 20, replace=False)) for _ in range(15)]
    values = [crossing(curve.mean, calibrated(item, splits).log_likelihood.mean())[0] for item in sets]
    assert 15 < np.median(values) < 27
    assert np.mean([10 < value < 40 for value in values]) >= 0.8
    assert max(values) - min(values) > 2


# ---------------------------------------------------------------------------------------- the interval
def test_replicates_of_rows_are_those_of_a_plain_loop():
    """Exponential weights by Philox, shared by model and pool; noise of members last."""
    from scipy.special import ndtri, stdtrit

    from calibrant.kernels.philox import uniforms
    from calibrant.kernels.resampling import EQUIVALENTS

    rng = np.random.default_rng(0)
    n, most = 50, 6
    pool = -rng.gamma(2.0, size=(most, n)) / np.sqrt(np.arange(1, most + 1))[:, None]
    models = -rng.gamma(2.0, size=(2, n)) / 1.5
    shares = rng.random(n)
    shares[3] = 0.0
    models[0, 3] = -np.inf  # a row that does not count
    shares /= shares.sum()
    units = rng.integers(0, 20, n)
    stds, own, degrees = np.full(most, 0.01), np.array([0.02, 0.0]), np.array([3, 1000])
    found = replicates(pool, stds, models, own, degrees, shares, units=units, resamples=40, seed=9)
    for b in range(40):
        drawn = uniforms(9, EQUIVALENTS, b, units.max() + 4)
        weight = np.where(shares > 0, shares * -np.log(drawn[units]), 0.0)
        weight /= weight.sum()
        curve = pool @ weight + ndtri(drawn[-3]) * stds
        for j in range(2):
            level = sum(weight[i] * models[j, i] for i in range(n) if weight[i] > 0)
            level += stdtrit(degrees[j], drawn[-2 + j]) * own[j]
            k, side = plain_crossing(list(curve), level)
            at = found[b, j]
            assert side == ("below" if at == -np.inf else "above" if at == np.inf else "")
            assert side or at == pytest.approx(k, abs=1e-9)


def test_the_central_share_takes_ends_that_occurred():
    found = np.concatenate([np.full(50, -np.inf), np.linspace(1, 9, 900), np.full(50, np.inf)])
    assert central(found, 0.95) == (-np.inf, np.inf)
    low, high = central(found, 0.8)
    assert {low, high} <= set(found)
    assert 1 < low < 2 < 8 < high < 9
    assert all(math.isnan(end) for end in central(np.array([1.0, math.nan]), 0.9))


def test_what_members_do_to_all_rows_is_told_from_what_single_rows_add():
    """A linear score: the variance of k-subsets is known, with and without an effect of members on all rows."""
    rng, most, draws, n = np.random.default_rng(1), 40, 200, 300
    estimates = {}
    for effect in (0.0, 0.1):
        single = effect * rng.standard_normal((most, 1)) + rng.standard_normal((most, n))
        orders = np.argsort(rng.random((draws, most)), axis=1)
        means = np.stack([np.cumsum(single[o], axis=0) / np.arange(1, most + 1)[:, None] for o in orders])
        apart = means - means.mean(axis=0)
        noise = ((apart - apart.mean(axis=-1, keepdims=True)) ** 2).mean(axis=-1).mean(axis=0) / n
        nothing = np.zeros((draws, most))
        rows = CurveRows(means.mean(axis=-1), means.mean(axis=0), noise / (1 - 1 / draws), nothing, nothing)
        estimates[effect] = pool_variance(rows)
    assert estimates[0.0].max() < 0.004  # of single rows alone it would be 1/300 and more
    assert estimates[0.1][:20].mean() == pytest.approx(0.01, rel=0.6)
    assert pool_std(rows) == pytest.approx(np.sqrt(estimates[0.1] * (1 / 40 + (1 / np.arange(1, 41) - 1 / 40) / 200)))


def test_the_jackknife_sees_unequal_members():
    rng = np.random.default_rng(2)
    splits = splits_of(800, repeats=1)
    equal, unequal = (simulated(800, 12, rng, unequal=u) for u in (0.0, 0.4))
    found = []
    for item in (equal, unequal):
        rows = calibrated(item, splits).log_likelihood
        std, degrees = member_std(item, rows, splits, shares_of(item))
        assert degrees == 9
        found.append(std)
    assert found[1] > 2 * found[0]
    same = of_members(equal, np.zeros(5, int))
    rows = calibrated(same, splits).log_likelihood
    assert member_std(same, rows, splits, shares_of(same))[0] < 1e-9


def test_few_members_vary_as_those_of_the_pool_and_one_stands_for_itself():
    rng, n = np.random.default_rng(3), 400
    everything = simulated(n, 22, rng, unequal=0.5)
    splits = splits_of(n, repeats=1)
    found = pool_curve(of_members(everything, np.arange(20)), splits, draws=5)
    rows = calibrated(of_members(everything, [20, 21]), splits).log_likelihood
    wide, narrow = (
        equivalents([Model(2, rows, std)], *found, np.full(n, 1 / n), resamples=300)[0] for std in (math.nan, 0.0)
    )
    assert wide.value == narrow.value
    assert wide.high - wide.low > narrow.high - narrow.low
    one, known = (
        equivalents([Model(1, rows, std)], *found, np.full(n, 1 / n), resamples=300)[0] for std in (math.nan, 0.0)
    )
    assert one == known


# ---------------------------------------------------------------------------------------------- face
@pytest.fixture(scope="module")
def small():
    everything = simulated(150, 14, np.random.default_rng(8))
    return of_members(everything, np.arange(8), "pool"), of_members(everything, np.arange(8, 14), "model")


def test_one_model_and_its_curve(small):
    pool, model = small
    one = cal.comparison.equivalent(model, pool, draws=3, repeats=2, resamples=200, seed=4)
    curve = cal.comparison.equivalent(model, pool, draws=3, repeats=2, resamples=200, seed=4, curve=True)
    assert [item.members for item in curve] == [1, 2, 3, 4, 5, 6]
    assert curve[-1].value == pytest.approx(one.value, abs=1e-9)
    splits = splits_of(150, repeats=2, seed=4)
    for k, item in enumerate(curve, start=1):
        assert item.cll == pytest.approx(calibrated(of_members(model, np.arange(k)), splits).log_likelihood.mean())
        assert 1 <= item.low <= item.high <= 8
    by_pool = pool_curve(pool, splits, draws=3, seed=4)
    inner = equivalents(models_of(model, splits), *by_pool, shares_of(model), resamples=200, seed=4)
    assert inner == curve
    assert Equivalent.from_json(one.to_json()) == one


def test_plain_reference_of_the_whole(small):
    """Draws, halves, temperatures on a grid, running maximum, crossing: all by loops, of the orders that were drawn."""
    from calibrant.comparison.cross_validation import member_orders

    pool, model = small
    splits = splits_of(150, repeats=2, seed=1)
    betas = np.exp(np.linspace(-3, 3, 4001))

    def cll(members):
        logs, y = np.log(np.mean(members, axis=0)), pool.labels
        total = 0.0
        for half in splits.half:
            for h in (0, 1):
                fit, score = half == h, half != h
                likelihoods = [log_softmax(b * logs[fit], axis=1)[np.arange(fit.sum()), y[fit]].mean() for b in betas]
                best = betas[int(np.argmax(likelihoods))]
                total += log_softmax(best * logs[score], axis=1)[np.arange(score.sum()), y[score]].sum()
        return total / (len(splits.half) * pool.n)

    orders = member_orders(8, 2, 1)
    betas = betas[::20]
    curve = [np.mean([cll(pool.scores[order[:k]]) for order in orders]) for k in range(1, 9)]
    found = cal.comparison.equivalent(model, pool, draws=2, repeats=2, resamples=50, seed=1)
    level = cll(model.scores)
    assert found.cll == pytest.approx(level, abs=2e-3)
    expected = plain_crossing(curve, level)
    assert found.censored == expected[1]
    assert found.value == pytest.approx(expected[0], abs=0.35)  # the temperatures are on a grid


def test_results_do_not_depend_on_threads(small):
    pool, model = small
    rng = np.random.default_rng(0)
    big = -rng.gamma(2.0, size=(5, 9000))
    own = -rng.gamma(2.0, size=(1, 9000))
    one, two = (
        replicates(big, np.zeros(5), own, np.zeros(1), np.ones(1), np.full(9000, 1 / 9000), resamples=200, threads=t)
        for t in (1, 3)
    )
    assert (one == two).all()
    assert cal.comparison.equivalent(model, pool, draws=2, resamples=50, threads=1) == cal.comparison.equivalent(
        model, pool, draws=2, resamples=50, threads=2
    )


def test_one_draw_has_no_bounds(small):
    found = cal.comparison.equivalent(small[1], small[0], draws=1, repeats=1, resamples=50)
    assert all(math.isnan(bound) for bound in (found.lower, found.upper))
    assert 1 <= found.low <= found.value <= found.high <= 8


def test_a_pool_of_one(small):
    pool, model = small
    better = cal.comparison.equivalent(model, pool.member(0), draws=1, repeats=1, resamples=50)
    assert (better.value, better.censored, better.low, better.high) == (1.0, "above", 1.0, 1.0)
    assert better.high_censored
    flat = cal.Classification.from_probs(np.full((1, 150, 3), 1 / 3), pool.labels)
    worse = cal.comparison.equivalent(flat, pool, draws=2, repeats=1, resamples=50)
    assert (worse.value, worse.censored) == (1.0, "below")
    assert (worse.low_censored, worse.high_censored) == (True, False)


def test_weights_are_as_good_as_repeated_rows(small):
    """With halves by unit the two copies of a row stay together, and the point values are the same."""
    pool, model = small
    whole = [of_members(item, np.arange(item.members)) for item in (pool, model)]
    weights = np.random.default_rng(0).integers(0, 3, 150)
    weighted = [replace(item, info=replace(item.info, weights=weights.astype(float))) for item in whole]
    index = np.repeat(np.arange(150), weights)
    kept = weights > 0
    dropped = [item[kept] for item in weighted]
    one = cal.comparison.equivalent(weighted[1], weighted[0], draws=2, repeats=2, resamples=50)
    assert 1 <= one.low <= one.high <= 8
    units = np.unique(index, return_inverse=True)[1]
    splits = splits_of(len(index), repeats=2, units=units)
    by_unit = replace(splits, half=splits.half[:, np.unique(units, return_index=True)[1]])
    repeated = [item[index] for item in whole]
    values = []
    for (of_pool, of_model), halves in ((dropped, by_unit), (repeated, splits)):
        found = pool_curve(of_pool, halves, draws=2)
        values.append(equivalents([model_of(of_model, halves)], *found, shares_of(of_pool), resamples=20)[0])
    assert values[0].cll == pytest.approx(values[1].cll, abs=1e-7)
    assert values[0].value == pytest.approx(values[1].value, abs=1e-4)


def test_resampled_units_spread_as_wide_as_they_should():
    """Every row four times over says no more than once: twice the spread of what rows would give."""
    rng = np.random.default_rng(4)
    shared = -rng.gamma(2.0, size=100)
    pool = np.repeat(shared - 1.0 / np.arange(1, 31)[:, None], 4, axis=1)
    own = np.repeat(shared - 0.2 + 0.1 * rng.standard_normal(100), 4)[None]
    nothing, index = (np.zeros(30), own, np.zeros(1), np.ones(1), np.full(400, 1 / 400)), np.repeat(np.arange(100), 4)
    rows, units = (np.log(replicates(pool, *nothing, units=u)).std() for u in (None, index))
    assert 1.8 < units / rows < 2.3


def test_units_by_name(small):
    pool, model = small
    index = np.arange(150) // 3
    known = replace(pool, info=replace(pool.info, columns={"unit": index}))
    found = cal.comparison.equivalent(model, known, draws=2, repeats=2, resamples=50, units="unit")
    cll = calibrated(model, splits_of(150, repeats=2, units=index)).log_likelihood.mean()
    assert found.cll == pytest.approx(cll)
    with pytest.raises(UsageError, match="column"):
        cal.comparison.equivalent(model, pool, units="unit")


def test_judged_answers_have_equivalents():
    rng = np.random.default_rng(0)
    logit = 1.5 * rng.standard_normal(300)
    right = rng.random(300) < 1 / (1 + np.exp(-logit))
    confidence = 1 / (1 + np.exp(-(logit + 1.5 * rng.standard_normal((16, 300)))))
    pool, model = (cal.Judged.from_confidence(part, right) for part in (confidence[:10], confidence[10:]))
    found = cal.comparison.equivalent(model, pool, draws=4, repeats=1, resamples=200)
    assert found.low <= 6 <= found.high


def test_members_of_the_pool_are_noticed(small):
    pool, model = small
    assert shared_members(model, pool) == 0
    logs = cal.Classification.from_log_probs(np.log(pool.scores[[1, 5]]), pool.labels)
    assert shared_members(logs, pool) == 2
    near = pool.scores.copy()
    near[:, 77] = near[:, 76]  # all but one row
    assert shared_members(cal.Classification.from_probs(near, pool.labels), pool) == 0
    with pytest.warns(CalibrantWarning, match="2 of 2 members are also in the pool pool"):
        cal.comparison.equivalent(logs, pool, draws=2, repeats=1, resamples=20)


def test_the_pool_is_worth_its_own_number(small):
    pool = small[0]
    with pytest.warns(CalibrantWarning, match="8 of 8 members"):
        found = cal.comparison.equivalent(pool, pool, draws=3, repeats=2, resamples=20)
    assert (found.value, found.censored) == (pytest.approx(8.0), "")
    with pytest.warns(CalibrantWarning, match="1 of 1 members"):
        found = cal.comparison.equivalent(pool.member(2), pool.member(2), draws=3, repeats=2, resamples=20)
    assert (found.value, found.censored, found.low, found.high) == (1.0, "", 1.0, 1.0)


def test_impossible_labels_are_no_trouble(small):
    """A label of probability 0 has a very low, or infinite, likelihood at every temperature: far below the pool."""
    pool, _ = small
    probs = np.tile(np.array([0.5, 0.5, 0.0]), (150, 1))
    labels = pool.labels.copy()
    assert (labels == 2).any()
    found = cal.comparison.equivalent(
        cal.Classification.from_probs(probs, labels), pool, draws=2, repeats=1, resamples=50
    )
    assert (found.value, found.censored, found.low_censored) == (1.0, "below", True)


def test_rows_that_are_no_predictions_are_refused(small):
    pool, model = small
    broken = replace(model, scores=np.where(np.arange(150)[:, None] == 7, np.nan, model.scores))
    with pytest.raises(CalibrantError, match="row 7"):
        cal.comparison.equivalent(broken, pool, draws=2, repeats=1, resamples=20)


def test_infinite_rows():
    pool = np.array([[-2.0, -2.0, -2.0], [-1.0, -1.0, -1.0]])
    own = np.array([[-1.5, -np.inf, -1.5], [-1.5, -1.5, -1.5]])
    found = replicates(pool, np.zeros(2), own, np.zeros(2), np.ones(2), np.full(3, 1 / 3), resamples=30)
    assert (found[:, 0] == -np.inf).all()
    assert found[:, 1] == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (lambda p: p[:100], ShapeError, "the same number of rows"),
        (lambda p: replace(p, labels=(p.labels + 1) % 3), LabelsError, "the same labels.*first in row 0"),
        (lambda p: replace(p, labels=None), LabelsError, "labels for one of them only"),
        (lambda p: replace(p, info=replace(p.info, weights=np.ones(150))), LabelsError, "weights for one of them"),
        (
            lambda p: cal.Judged.from_confidence(np.full(150, 0.5), p.labels > 0),
            CalibrantError,
            "predictions for one task",
        ),
        (lambda p: cal.Regression.from_gaussian(np.zeros(150), np.ones(150), np.zeros(150)), CalibrantError, "classes"),
        (
            lambda p: cal.Classification.from_probs(np.full((150, 4), 0.25), p.labels),
            ShapeError,
            "the same number of classes.*4 and 3",
        ),
    ],
)
def test_what_is_not_of_the_same_rows_is_refused(small, change, error, words):
    pool, model = small
    with pytest.raises(error, match=words) as caught:
        cal.comparison.equivalent(change(model), pool)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("option", "value"), [("draws", 0), ("draws", 1.5), ("resamples", True), ("level", 1.0)])
def test_options_are_checked(small, option, value):
    with pytest.raises(UsageError, match=option):
        cal.comparison.equivalent(small[1], small[0], **{option: value})


# ------------------------------------------------------------------------------------------ data sets
def test_means_over_data_sets():
    def item(k, value, censored="", lower=1.0, upper=9.0):
        return Equivalent(k, -1.0, value, 1.0, 9.0, 0.95, lower, upper, censored)

    one = [item(1, 1.0, "below"), item(2, 1.5), item(3, 2.0, lower=math.nan)]
    two = [item(1, 1.2), item(2, 2.5)]
    found = mean_equivalents([one, two])
    assert [(m.members, m.value, m.datasets, m.below, m.above) for m in found] == [
        (1, pytest.approx(1.1), 2, 1, 0),
        (2, pytest.approx(2.0), 2, 0, 0),
        (3, pytest.approx(2.0), 1, 0, 0),
    ]
    assert math.isnan(found[2].lower)
    assert found[2].upper == 9.0
    assert mean_equivalents([]) == ()
