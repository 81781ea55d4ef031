"""Summaries over data sets: against SciPy and counts written out."""

import json
import math

import numpy as np
import pytest
from scipy import stats

from calibrant.comparison.datasets import friedman, summary, wilcoxon
from calibrant.comparison.paired import paired
from calibrant.errors import UsageError
from calibrant.results.comparison import Comparison, DatasetsSummary, Equivalent

NAMES = ("one", "two", "three")


def comparison(rows, rank_by="cll", **options):
    found = paired(rows, resamples=500, **options)
    return Comparison(rank_by, found.ranks[rank_by], found.pairs, found.ranks)


def many(datasets=8, n=100, models=NAMES, score="cll", seed=0):
    rng = np.random.default_rng(seed)
    out = {}
    for k in range(datasets):
        hard = rng.standard_normal(n)
        out[f"d{k}"] = {score: {m: hard + 0.2 * rng.standard_normal(n) + 0.05 * j for j, m in enumerate(models)}}
    return out


@pytest.fixture(scope="module")
def rows():
    return many()


@pytest.fixture(scope="module")
def compared(rows):
    return {name: comparison(some) for name, some in rows.items()}


@pytest.fixture(scope="module")
def found(compared):
    return summary(compared, "cll")


def means(rows, model):
    return np.array([some["cll"][model].mean() for some in rows.values()])


def test_ranks_and_values_of_models(rows, found):
    table = np.column_stack([means(rows, model) for model in NAMES])
    ranks = stats.rankdata(-table, axis=1)
    by_name = {item.model: item for item in found.models}
    for k, model in enumerate(NAMES):
        assert by_name[model].mean_rank == pytest.approx(ranks[:, k].mean())
        assert by_name[model].mean_value == pytest.approx(table[:, k].mean())
        assert by_name[model].best == (ranks[:, k] == 1).sum()
    order = [item.mean_rank for item in found.models]
    assert order == sorted(order)
    assert found.friedman == pytest.approx(stats.friedmanchisquare(*table.T).pvalue)


def test_wins_and_losses_are_counted(compared, found):
    for pair in found.pairs:
        each = [item.pair(pair.first, pair.second, "cll") for item in compared.values()]
        assert pair.wins == sum(one.difference > 0 for one in each)
        assert pair.losses == len(each) - pair.wins
        assert pair.wins_beyond_chance == sum(one.better == pair.first for one in each)
        assert pair.losses_beyond_chance == sum(one.better == pair.second for one in each)
    best = {item.model: item.best_beyond_chance for item in found.models}
    for model in NAMES:
        others = [other for other in NAMES if other != model]
        each = [all(item.pair(model, o, "cll").better == model for o in others) for item in compared.values()]
        assert best[model] == sum(each)
    assert sum(best.values()) > 0


def test_mean_differences_with_fixed_data_sets(rows, found):
    """Data sets of one size and spread: the interval is that of all rows, each data set about its own mean."""
    for pair in found.pairs:
        d = [some["cll"][pair.first] - some["cll"][pair.second] for some in rows.values()]
        error = math.sqrt(sum(x.var(ddof=1) / len(x) for x in d)) / len(d)
        assert pair.difference == pytest.approx(np.mean([x.mean() for x in d]))
        variances = np.array([x.var(ddof=1) / len(x) for x in d])
        degrees = variances.sum() ** 2 / (variances**2 / 99).sum()
        half = stats.t.ppf(0.975, degrees) * error
        assert (pair.low, pair.high) == pytest.approx((pair.difference - half, pair.difference + half))


def test_welch_where_there_are_two_data_sets():
    """The mean of differences in two data sets is half a Welch interval of the second against minus the first."""
    some = many(2, seed=4)
    (pair,) = summary({name: comparison({"cll": dict(list(rows["cll"].items())[:2])}) for name, rows in some.items()},
                      "cll").pairs  # fmt: skip
    one, two = (rows["cll"][pair.first] - rows["cll"][pair.second] for rows in some.values())
    ends = stats.ttest_ind(one, -two, equal_var=False).confidence_interval(0.95)
    assert (2 * pair.low, 2 * pair.high) == pytest.approx((ends.low, ends.high))


# ------------------------------------------------------------------------------- data sets as the sample
@pytest.mark.parametrize("n", [6, 9, 15, 40])
def test_wilcoxon_agrees_with_scipy(n):
    d = np.random.default_rng(n).standard_normal(n) + 0.4
    assert wilcoxon(d) == pytest.approx(stats.wilcoxon(d, method="exact").pvalue)


@pytest.mark.parametrize("d", [[1, 1, 1, -1, 2, 2, -3], [0, 0, 1, 2, 3, -4, 5], [1, 1, 1, 1, 1, 1]])
def test_wilcoxon_with_ties_and_zeros_is_that_of_all_flips(d):
    d = np.array(d, float)
    ranks = stats.rankdata(np.abs(d)) * np.sign(d)
    signs = 1 - 2 * ((np.arange(2 ** len(d))[:, None] >> np.arange(len(d))) & 1)
    assert wilcoxon(d) == pytest.approx(np.mean(np.abs(signs @ ranks) >= abs(ranks.sum()) - 1e-9))


def test_friedman_with_equal_ranks_agrees_with_scipy():
    table = np.random.default_rng(0).integers(0, 4, (12, 5)).astype(float)
    ranks = stats.rankdata(table, axis=1)
    assert friedman(ranks) == pytest.approx(stats.friedmanchisquare(*table.T).pvalue)


def test_too_few_data_sets_have_no_such_tests():
    few = {name: comparison(some) for name, some in many(4).items()}
    found = summary(few, "cll")
    assert math.isnan(found.friedman)
    assert all(math.isnan(pair.wilcoxon) for pair in found.pairs)
    assert math.isnan(wilcoxon(np.ones(5)))
    assert wilcoxon(np.ones(6)) == 2 / 2**6
    assert wilcoxon(np.zeros(6)) == 1.0
    assert friedman(np.full((6, 3), 2.0)) == 1.0
    assert math.isnan(friedman(np.tile([1.0, 2.0], (6, 1))))


# ------------------------------------------------------------------------------------------ odd inputs
def test_losses_are_better_when_lower():
    some = {name: comparison(rows, "nll") for name, rows in many(3, score="nll").items()}
    found = summary(some, "nll")
    assert found.models[0].model == "one"
    (pair,) = [p for p in found.pairs if (p.first, p.second) == ("one", "three")]
    assert (pair.wins, pair.losses) == (3, 0)
    assert pair.difference < 0


def test_models_that_a_data_set_lacks_are_left_out(rows):
    some = dict(rows)
    some["d3"] = {"cll": {m: x for m, x in rows["d3"]["cll"].items() if m != "two"}}
    found = summary({name: comparison(one) for name, one in some.items()}, "cll")
    assert found.left_out == {"two": ("d3",)}
    assert [item.model for item in found.models] == ["three", "one"]
    assert max(item.mean_rank for item in found.models) <= 2.0
    assert len(found.pairs) == 1


def test_the_order_of_models_may_differ_between_data_sets(rows, found):
    turned = {
        name: {"cll": dict(reversed(some["cll"].items()))} if k % 2 else some
        for k, (name, some) in enumerate(rows.items())
    }
    again = summary({name: comparison(one) for name, one in turned.items()}, "cll")
    for one, two in zip(found.pairs, again.pairs, strict=True):
        assert (one.first, one.second, one.wins, one.losses) == (two.first, two.second, two.wins, two.losses)
        assert (one.low, one.high) == pytest.approx((two.low, two.high))


def test_with_a_baseline_only_its_pairs_are_there(rows):
    found = summary({name: comparison(some, baseline="two") for name, some in rows.items()}, "cll")
    assert [(p.first, p.second) for p in found.pairs] == [("one", "two"), ("three", "two")]
    by_name = {item.model: item.best_beyond_chance for item in found.models}
    assert by_name["one"] is None
    assert by_name["two"] is not None


def test_infinite_values_are_the_worst_and_equal_models_add_nothing(rows):
    some = {name: {"cll": {m: x.copy() for m, x in one["cll"].items()}} for name, one in rows.items()}
    some["d0"]["cll"]["three"][0] = -np.inf
    some["d1"]["cll"]["one"] = some["d1"]["cll"]["two"]
    found = summary({name: comparison(one) for name, one in some.items()}, "cll")
    by_name = {item.model: item for item in found.models}
    assert by_name["three"].mean_value == -math.inf
    pairs = {(p.first, p.second): p for p in found.pairs}
    assert math.isnan(pairs["one", "three"].low)
    assert math.isfinite(pairs["one", "two"].low)
    assert pairs["one", "two"].wins + pairs["one", "two"].losses == len(rows) - 1
    read = DatasetsSummary.from_json(json.loads(json.dumps(found.to_json(), allow_nan=False)))
    assert {item.model: item for item in read.models}["three"].mean_value == -math.inf


def test_equivalents_are_averaged_and_censored_ones_counted(compared):
    def equivalent(value, censored=""):
        return Equivalent(1, -1.0, value, value, value, 0.95, value, value, censored)

    some = {
        name: Comparison(item.rank_by, item.ranking, item.pairs, item.ranks, equivalents={"one": equivalent(*how)})
        for (name, item), how in zip(list(compared.items())[:2], [(3.0,), (1.0, "below")], strict=True)
    }
    by_name = {item.model: item for item in summary(some, "cll").models}
    assert (by_name["one"].equivalent, by_name["one"].equivalents, by_name["one"].censored) == (2.0, 2, 1)
    assert math.isnan(by_name["two"].equivalent)


def test_a_summary_is_read_back_as_it_was(found):
    text = json.dumps(found.to_json(), allow_nan=False)
    again = DatasetsSummary.from_json(json.loads(text))
    assert again.to_json() == found.to_json()
    assert again.pairs == found.pairs


def test_other_scores_and_no_data_sets(compared):
    with pytest.raises(UsageError, match=r"rank_by.*cll"):
        summary(compared, "brier")
    with pytest.raises(UsageError, match="no data sets"):
        summary({}, "cll")
    with pytest.raises(UsageError, match="got none"):
        summary({name: comparison(many(1, models=(name, "x" + name))["d0"]) for name in "ab"}, "cll")
