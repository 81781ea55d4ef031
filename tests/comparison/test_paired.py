"""Paired comparisons: against SciPy, enumeration and formulas written out; what turning, scaling and weights may do."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from calibrant.comparison.paired import paired
from calibrant.errors import CalibrantError
from calibrant.kernels.loops.resampling import POISSON_WORDS
from calibrant.kernels.philox import words
from calibrant.kernels.resampling import PAIRED, SIGNS

RNG = np.random.default_rng(8)


def rows_of(n, models=3, scores=("nll", "brier"), seed=0):
    rng = np.random.default_rng(seed)
    hard = rng.exponential(size=n)
    return {s: {f"m{k}": hard + 0.3 * rng.standard_normal(n) + 0.02 * k for k in range(models)} for s in scores}


def only(a, b, score="nll", **options):
    return paired({score: {"a": np.asarray(a, float), "b": np.asarray(b, float)}}, **options).pairs[0]


def same(one, two, rel=1e-9):
    """Two pairs in every number."""
    for name in ("difference", "low", "high", "p_value", "p_bootstrap", "p_holm", "detectable"):
        assert getattr(one, name) == pytest.approx(getattr(two, name), rel=rel, abs=1e-14, nan_ok=True), name


# ------------------------------------------------------------------------------------- flips of signs
@pytest.mark.parametrize("m", [1, 2, 5, 8])
def test_few_differences_are_enumerated(m):
    d = np.zeros(40)
    d[:m] = RNG.standard_normal(m) + 0.5
    every = np.array(list(itertools.product([-1.0, 1.0], repeat=m))) @ d[:m]
    expected = np.mean(np.abs(every) >= abs(d.sum()) - 1e-12)
    assert only(d, np.zeros(40)).p_value == pytest.approx(expected)


def test_enumeration_agrees_with_scipy():
    a, b = RNG.standard_normal(9), RNG.standard_normal(9) + 0.7
    test = stats.permutation_test((a, b), lambda x, y: np.mean(x - y), permutation_type="samples", n_resamples=10_000)
    assert only(a, b).p_value == pytest.approx(test.pvalue)


@pytest.mark.parametrize(("b", "c"), [(0, 0), (3, 0), (7, 2), (5, 5), (40, 22), (300, 240)])
def test_accuracy_is_the_exact_test_of_mcnemar(b, c):
    one, two = np.zeros(1000), np.zeros(1000)
    one[:b] = 1.0
    two[b : b + c] = 1.0
    expected = stats.binomtest(b, b + c).pvalue if b + c else 1.0
    assert only(one, two, "accuracy").p_value == pytest.approx(expected, rel=1e-9)


def test_random_flips_are_those_of_the_words():
    n, flips = 70, 500
    d = RNG.standard_normal(n) + 0.1
    at = np.arange(n)
    count = 0
    for r in range(flips):
        bits = (words(3, SIGNS, r, 3)[at // 32] >> (at % 32).astype(np.uint32)) & 1
        count += abs(d @ (1.0 - 2.0 * bits)) >= abs(d.sum())
    assert only(d, np.zeros(n), seed=3, resamples=flips).p_value == (1 + count) / (1 + flips)


def test_random_flips_agree_with_a_normal_limit():
    d = RNG.standard_normal(3000) + 0.035
    expected = 2 * stats.norm.sf(abs(d.sum()) / np.sqrt((d**2).sum()))
    found = only(d, np.zeros(3000), resamples=9999).p_value
    assert abs(found - expected) < 5 * np.sqrt(expected * (1 - expected) / 9999)


# -------------------------------------------------------------------------------------------- bootstrap
def plainly(d, mass, level, resamples, seed):
    """The bootstrap-t of the module's head, one replicate after the other."""
    n, total, differ = len(d), mass.sum(), (d != 0).sum()
    value = d.sum() / total
    e = d - value * mass
    variance = n / (n - 1) * (e**2).sum() / total**2
    found = []
    for r in range(resamples):
        v = (words(seed, PAIRED, r, n)[:, None] >= POISSON_WORDS).sum(axis=1)
        if not v.any():
            continue
        again = (v * d).sum() / (v * mass).sum()
        own = (v * (d - again * mass) ** 2).sum() / (v * mass).sum() ** 2 * v.sum() / max(v.sum() - 1, 1)
        found.append(abs(again - value) / math.sqrt(own + variance / differ))
    found = np.sort(found)[::-1]
    wide, degrees = math.sqrt(variance * (1 + 1 / differ)), min(differ, n - 1)
    quantile = found[math.ceil((1 - level) * (1 + len(found))) - 2]
    t = abs(value) / wide
    p = max((1 + (found >= t).sum()) / (1 + len(found)), 2 * stats.t.sf(t, degrees))
    return max(quantile, stats.t.ppf(0.5 + level / 2, degrees)) * wide, p


@pytest.mark.parametrize("kind", ["rows", "weights", "units", "both", "few"])
def test_intervals_are_those_of_a_plain_bootstrap(kind):
    n = 60
    a, b = RNG.exponential(size=n), RNG.exponential(size=n)
    if kind == "few":
        b[5:] = a[5:]
    weights = RNG.random(n) + 0.1 if kind in ("weights", "both") else None
    units = RNG.integers(0, 25, n) if kind in ("units", "both") else None
    w = np.ones(n) if weights is None else weights
    codes = np.arange(n) if units is None else np.unique(units, return_inverse=True)[1]
    half, p = plainly(np.bincount(codes, w * (a - b)), np.bincount(codes, w), 0.9, 300, 4)
    found = only(a, b, weights=weights, units=units, level=0.9, resamples=300, seed=4)
    assert found.difference == pytest.approx(np.average(a - b, weights=w))
    assert (found.low, found.high) == pytest.approx((found.difference - half, found.difference + half), rel=1e-9)
    assert found.p_bootstrap == pytest.approx(p, rel=1e-9)
    assert found.n == codes.max() + 1


def test_intervals_are_near_those_of_student_and_of_scipy():
    d = RNG.standard_normal(2000) + 0.3
    found = only(d, np.zeros(2000))
    student = stats.ttest_1samp(d, 0.0)
    ends = student.confidence_interval(0.95)
    width = ends.high - ends.low
    assert (found.low, found.high) == pytest.approx((ends.low, ends.high), abs=0.06 * width)
    other = stats.bootstrap((d,), np.mean, n_resamples=2000, method="BCa", rng=np.random.default_rng(0))
    assert found.high == pytest.approx(other.confidence_interval.high, abs=0.1 * width)
    z = stats.norm.ppf(0.975) + stats.norm.ppf(0.8)
    assert found.detectable == pytest.approx(z * stats.sem(d))


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 40), st.integers(0, 10**6), st.sampled_from([0.8, 0.95]), st.booleans())
def test_an_interval_leaves_zero_out_where_its_p_value_is_small(n, seed, level, few):
    rng = np.random.default_rng(seed)
    d = rng.standard_normal(n) + rng.choice([0.0, 0.5, 2.0])
    d = np.sign(np.round(d)) if few else d
    found = only(d, np.zeros(n), level=level, resamples=199, seed=seed)
    if math.isnan(found.low):
        assert math.isnan(found.p_bootstrap) or found.p_bootstrap >= 1 - level
    elif min(abs(found.low), abs(found.high)) > 1e-9:  # an end at 0 is decided by rounding
        assert (found.low > 0 or found.high < 0) == (found.p_bootstrap < 1 - level - 1e-12)


def test_validity_of_both_p_values_and_power():
    """Exchangeable models with heavy tails: 600 comparisons, as scores of one call each."""
    rng = np.random.default_rng(5)
    names = [f"s{k}" for k in range(600)]
    d = rng.standard_t(2.5, (600, 60))
    rows = {name: {"a": x, "b": np.zeros(60)} for name, x in zip(names, d, strict=True)}
    pairs = paired(rows, resamples=399).pairs
    spread = 3 * math.sqrt(0.05 * 0.95 / 600)
    assert abs(np.mean([p.p_value <= 0.05 for p in pairs]) - 0.05) < spread
    assert np.mean([p.p_bootstrap <= 0.05 for p in pairs]) < 0.05 + spread
    shifted = {name: {"a": x + 1.5, "b": np.zeros(60)} for name, x in list(zip(names, d, strict=True))[:100]}
    assert np.mean([p.p_value <= 0.05 for p in paired(shifted, resamples=399).pairs]) > 0.8


def test_after_fitted_temperatures_the_larger_p_value_decides():
    d = RNG.standard_t(2, 40) + 1.0
    plain, fitted = only(d, np.zeros(40)), only(d, np.zeros(40), "cll")
    assert fitted.p_value == max(plain.p_value, plain.p_bootstrap)
    assert plain.p_value != plain.p_bootstrap


# --------------------------------------------------------------------------------------- what must hold
def test_turned_pairs_turn():
    rows = rows_of(50)
    found = paired(rows).pairs
    turned = paired({s: dict(reversed(m.items())) for s, m in rows.items()}).pairs
    for pair in found:
        (other,) = [p for p in turned if p.score == pair.score and {p.first, p.second} == {pair.first, pair.second}]
        same(other.turned(), pair)


def test_order_of_pairs_and_those_with_a_baseline():
    rows = rows_of(50, models=4)
    found = paired(rows).pairs
    names = list(itertools.combinations([f"m{k}" for k in range(4)], 2))
    assert [(p.score, p.first, p.second) for p in found] == [(s, *two) for s in rows for two in names]
    based = paired(rows, baseline="m1").pairs
    assert [(p.first, p.second) for p in based[:3]] == [("m0", "m1"), ("m2", "m1"), ("m3", "m1")]
    every = {(p.first, p.second): p for p in found if p.score == "nll"}
    assert based[0].p_value == every["m0", "m1"].p_value
    assert based[1].low == pytest.approx(-every["m1", "m2"].high)


def test_scaled_scores_have_scaled_differences():
    rows = rows_of(80)
    scaled = {s: {m: 4.0 * x for m, x in models.items()} for s, models in rows.items()}
    for one, two in zip(paired(rows).pairs, paired(scaled).pairs, strict=True):
        assert (two.difference, two.low, two.high) == (4 * one.difference, 4 * one.low, 4 * one.high)
        assert (two.p_value, two.p_bootstrap, two.p_holm) == (one.p_value, one.p_bootstrap, one.p_holm)


def test_what_all_models_share_cancels():
    rows = rows_of(80, scores=("nll",))
    shift = 2.0 ** RNG.integers(0, 4, 80)
    moved = {"nll": {m: x + shift for m, x in rows["nll"].items()}}
    for one, two in zip(paired(rows).pairs, paired(moved).pairs, strict=True):
        same(one, two, rel=1e-7)


def test_a_weight_is_a_number_of_dependent_rows():
    rows, times = rows_of(40), RNG.integers(1, 4, 40)
    again = {s: {m: np.repeat(x, times) for m, x in models.items()} for s, models in rows.items()}
    weighted, repeated = paired(rows, weights=times), paired(again, units=np.repeat(np.arange(40), times))
    for one, two in zip(weighted.pairs, repeated.pairs, strict=True):
        same(one, two)
        assert one.n == two.n == 40
    for one, two in zip(weighted.ranks["nll"], repeated.ranks["nll"], strict=True):
        assert (one.model, one.rank, one.best) == (two.model, two.rank, two.best)


def test_rows_of_weight_zero_were_never_there():
    rows, weights = rows_of(40), np.ones(40)
    weights[[3, 17]] = 0.0
    units = np.arange(40) // 2
    kept = {s: {m: x[weights > 0] for m, x in models.items()} for s, models in rows.items()}
    odd = {s: {m: np.where(weights > 0, x, np.inf) for m, x in models.items()} for s, models in rows.items()}
    for one, two in zip(paired(odd, weights=weights).pairs, paired(kept).pairs, strict=True):
        same(one, two)
    by_unit = paired(odd, weights=weights, units=units).pairs[0]
    same(by_unit, paired(kept, units=units[weights > 0]).pairs[0])


def test_names_of_units_do_not_matter():
    rows, units = rows_of(60), np.sort(RNG.integers(0, 20, 60))
    assert paired(rows, units=units) == paired(rows, units=units * 1000 - 7)


def test_threads_and_blocks_do_not_matter(monkeypatch):
    from calibrant.kernels import jit
    from calibrant.kernels import resampling as kernels

    rows = rows_of(1003, models=4)
    one = paired(rows, threads=1)
    monkeypatch.setattr(jit, "SERIAL_BELOW", 0)
    assert paired(rows, threads=3) == one
    monkeypatch.setattr(kernels, "BLOCK", 1)
    assert paired(rows, threads=2) == one


def test_pairs_in_batches_are_the_same(monkeypatch):
    from calibrant.comparison import paired as module
    from calibrant.comparison import sign_flip_test as flips

    rows = rows_of(50, models=5)
    whole = paired(rows)
    monkeypatch.setattr(module, "TOGETHER", 3)
    monkeypatch.setattr(flips, "TOGETHER", 3)
    assert paired(rows) == whole


def test_dependent_rows_taken_for_independent_say_too_much():
    rng = np.random.default_rng(1)
    d = np.repeat(rng.standard_normal(30), 20)
    units = np.repeat(np.arange(30), 20)
    plain, by_unit = only(d, np.zeros(600)), only(d, np.zeros(600), units=units)
    assert (by_unit.high - by_unit.low) > 3 * (plain.high - plain.low)


# ------------------------------------------------------------------------------------------------- Holm
def test_holm_over_the_pairs_of_a_score():
    found = paired(rows_of(60, models=4, seed=3)).pairs
    for score in ("nll", "brier"):
        some = sorted((p for p in found if p.score == score), key=lambda p: p.p_value)
        running = 0.0
        for k, pair in enumerate(some):
            running = max(running, (len(some) - k) * pair.p_value)
            assert pair.p_holm == pytest.approx(min(running, 1.0))


def test_many_pairs_get_flips_enough_for_holm():
    rows = {"nll": {f"m{k}": RNG.standard_normal(40) + 3.0 * k for k in range(16)}}
    found = paired(rows, resamples=200)
    assert all(pair.different for pair in found.pairs)
    assert found.notes == ()


def test_it_is_said_where_flips_cannot_be_enough(monkeypatch):
    from calibrant.comparison import paired as module

    monkeypatch.setattr(module, "MOST_FOR_PAIRS", 100)
    rows = {"nll": {f"m{k}": RNG.standard_normal(40) + 3.0 * k for k in range(8)}}
    found = paired(rows, resamples=100)
    assert "too few for 28 pairs" in found.notes[0].message


# ------------------------------------------------------------------------------------------------ ranks
def test_ranks_are_those_of_resampled_means():
    rows = {"cll": {f"m{k}": RNG.standard_normal(50) + 0.1 * k for k in range(4)}}
    ranked = paired(rows, resamples=400, seed=2).ranks["cll"]
    x = np.stack(list(rows["cll"].values()))
    v = np.stack([(words(2, PAIRED, r, 50)[:, None] >= POISSON_WORDS).sum(axis=1) for r in range(400)])
    places = stats.rankdata(-(v @ x.T / v.sum(axis=1, keepdims=True)), axis=1)
    for item in ranked:
        k = int(item.model[1])
        assert item.value == pytest.approx(x[k].mean())
        assert item.best == pytest.approx(np.mean(places[:, k] == 1))
        assert (item.rank_low, item.rank_high) == tuple(
            np.quantile(places[:, k], [0.025, 0.975], method="inverted_cdf")
        )
    assert [item.rank for item in ranked] == [1, 2, 3, 4]
    assert sum(item.best for item in ranked) == pytest.approx(1.0)
    assert ranked[0].value > ranked[-1].value


def test_losses_are_ranked_from_the_smallest_and_equal_models_share():
    x = RNG.exponential(size=60)
    ranked = paired({"nll": {"poor": x + 1.0, "one": x, "two": x.copy()}}).ranks["nll"]
    assert [(item.model, item.rank) for item in ranked] == [("one", 1), ("two", 1), ("poor", 3)]
    assert [item.best for item in ranked] == [0.5, 0.5, 0.0]
    assert [(item.rank_low, item.rank_high) for item in ranked] == [(1, 1), (1, 1), (3, 3)]


def test_ties_of_accuracy_are_exact():
    """Two models that are right in different rows, in equal numbers: what is tied must not be decided by rounding."""
    one, two = np.zeros(3), np.zeros(3)
    one[0] = two[1] = 1.0
    best = {
        item.model: item.best for item in paired({"accuracy": {"a": one, "b": two}}, resamples=3000).ranks["accuracy"]
    }
    v = np.stack([(words(0, PAIRED, r, 3)[:, None] >= POISSON_WORDS).sum(axis=1) for r in range(3000)])
    v = v[v.any(axis=1)]
    assert best["a"] == pytest.approx(np.mean((v[:, 0] > v[:, 1]) + 0.5 * (v[:, 0] == v[:, 1])), abs=1e-12)


def test_values_have_the_intervals_of_an_evaluation():
    import calibrant as cal
    from calibrant.pipeline.measure import score_rows

    logits, labels = RNG.standard_normal((200, 4)), RNG.integers(0, 4, 200)
    predictions = cal.Classification.from_logits(logits, labels)
    rows = {metric: {"m": next(iter(score_rows(predictions, metric).values()))} for metric in ("nll", "accuracy")}
    result = cal.evaluate(predictions, ["nll", "accuracy"], curves=False)
    for metric, (ranked,) in paired(rows).ranks.items():
        expected = result[metric]
        assert (ranked.value, ranked.low, ranked.high) == pytest.approx((expected.value, expected.low, expected.high))


def test_eight_real_networks(data_folder):
    """28 pairs on 10 000 rows: McNemar's exact test of each, Student's interval within a few per cent."""
    path = data_folder / "predictions" / "cifar10_test_8cnn_logits.npz"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    with np.load(path, allow_pickle=False) as stored:
        logits, labels, names = stored["logits"].astype(float), stored["labels"], stored["model_names"]
    logs = logits - np.logaddexp.reduce(logits, axis=2, keepdims=True)
    nll = -np.take_along_axis(logs, labels[None, :, None].astype(int), axis=2)[..., 0]
    right = (logits.argmax(axis=2) == labels).astype(float)
    rows = {"accuracy": dict(zip(names, right, strict=True)), "nll": dict(zip(names, nll, strict=True))}
    found = paired(rows, resamples=500)
    for pair in found.pairs:
        d = rows[pair.score][pair.first] - rows[pair.score][pair.second]
        ends = stats.ttest_1samp(d, 0.0).confidence_interval(0.95)
        assert (pair.low, pair.high) == pytest.approx((ends.low, ends.high), abs=0.2 * (ends.high - ends.low))
        if pair.score == "accuracy":
            ahead = int((d > 0).sum())
            assert pair.p_value == pytest.approx(stats.binomtest(ahead, int((d != 0).sum())).pvalue, rel=1e-9)
    assert found.ranks["accuracy"][0].model == "shake_shake_26_2x64d_SSI_cutout16"
    assert found.ranks["accuracy"][0].best == 1.0


# -------------------------------------------------------------------------------------------- odd inputs
def test_infinite_scores():
    rows = rows_of(50, models=4, scores=("nll",))
    clean = paired({"nll": {m: x for m, x in rows["nll"].items() if m in ("m0", "m1")}})
    rows["nll"]["m2"][7] = rows["nll"]["m3"][9] = np.inf
    found = paired(rows)
    pairs = {(p.first, p.second): p for p in found.pairs}
    same(pairs["m0", "m1"], clean.pairs[0])
    assert pairs["m0", "m2"].difference == -math.inf
    assert math.isnan(pairs["m2", "m3"].difference)
    for key in (("m0", "m2"), ("m1", "m3"), ("m2", "m3")):
        one = pairs[key]
        assert all(math.isnan(x) for x in (one.low, one.high, one.p_value, one.p_bootstrap, one.p_holm))
    assert pairs["m0", "m2"].better == "m0"
    assert pairs["m1", "m3"].turned().better == "m1"
    assert not pairs["m2", "m3"].different
    assert pairs["m2", "m3"].better is None
    assert "Holm" in found.notes[0].message
    worst = found.ranks["nll"][2:]
    assert [(r.rank, r.best, r.rank_low, r.value) for r in worst] == [(3, 0.0, 3, math.inf)] * 2


def test_calibrated_likelihood_of_minus_infinity_is_worst():
    ranked = paired({"cll": {"a": np.array([-np.inf, 0.0, 0.0]), "b": np.array([-9.0, -5.0, -6.0])}}).ranks["cll"]
    assert [item.model for item in ranked] == ["b", "a"]
    assert ranked[0].best == 1.0


def test_a_mean_of_both_infinities_is_worst():
    x = RNG.random(20)
    odd = np.concatenate([[np.inf, -np.inf], x[2:]])
    found = paired({"nll": {"odd": odd, "a": x, "b": x + 1.0}})
    assert [(item.model, item.rank) for item in found.ranks["nll"]] == [("a", 1), ("b", 2), ("odd", 3)]
    assert found.ranks["nll"][2].best == 0.0
    assert math.isnan(found.pairs[0].difference)


def test_equal_models_do_not_differ():
    found = only(np.arange(9.0), np.arange(9.0))
    assert (found.difference, found.p_value, found.p_bootstrap, found.p_holm) == (0.0, 1.0, 1.0, 1.0)
    assert math.isnan(found.low)
    assert not found.different


def test_the_same_difference_in_every_row_has_no_interval():
    x = RNG.exponential(size=20)
    found = only(x + 0.1, x)
    assert math.isnan(found.low)
    assert math.isnan(found.p_bootstrap)
    assert found.p_value == pytest.approx(2.0**-19)


@pytest.mark.parametrize("options", [{}, {"units": np.array([4])}, {"weights": np.array([3.0])}])
def test_one_row(options):
    found = only([1.0], [2.0], **options)
    assert (found.difference, found.p_value, found.n) == (-1.0, 1.0, 1)
    assert math.isnan(found.low)
    found = paired({"nll": {"a": np.ones(1), "b": np.zeros(1)}}, resamples=1, **options)
    assert [item.model for item in found.ranks["nll"]] == ["b", "a"]


def test_rows_of_one_unit_are_one():
    found = only(RNG.random(9), RNG.random(9), units=np.full(9, 3))
    assert (found.n, found.p_value) == (1, 1.0)
    assert math.isnan(found.low)


@pytest.mark.parametrize("differing", [1, 2, 3])
def test_few_rows_that_differ_have_wide_finite_intervals(differing):
    """A replicate that draws none of them says that the models are equal, infinitely surely."""
    one, two = np.ones(200), np.ones(200)
    two[:differing] = 0.0
    found = only(one, two, "accuracy")
    assert found.low < 0.0 < found.high < 0.15
    assert found.high > stats.binomtest(differing, 200).proportion_ci(0.9).high


def test_one_model_has_a_rank_and_no_pairs():
    found = paired({"nll": {"a": RNG.random(20)}})
    assert found.pairs == ()
    assert (found.ranks["nll"][0].rank, found.ranks["nll"][0].best) == (1, 1.0)


X = np.zeros(4)


@pytest.mark.parametrize(
    ("rows", "options", "said"),
    [
        ({"nll": {"a": X, "b": np.array([0.0, np.nan, 0.0, 0.0])}}, {}, "nll of b.*NaN in row 1"),
        ({"nll": {"a": X, "b": np.zeros(5)}}, {}, "same rows"),
        ({"nll": {"a": np.zeros(0)}}, {}, "at least one"),
        ({}, {}, "at least one"),
        ({"nll": {"a": np.zeros((2, 2))}}, {}, "one score per row"),
        ({"nll": {"a": X, "b": X}}, {"weights": np.zeros(4)}, "weights"),
        ({"nll": {"a": X, "b": X}}, {"weights": -np.ones(4)}, "weights"),
        ({"nll": {"a": X, "b": X}}, {"weights": np.ones(3)}, "weights"),
        ({"nll": {"a": X, "b": X}}, {"units": np.zeros(4)}, "units"),
        ({"nll": {"a": X, "b": X}}, {"baseline": "c"}, "baseline.*a, b"),
        ({"nll": {"a": X, "b": X}}, {"level": 95}, "level"),
        ({"nll": {"a": X, "b": X}}, {"resamples": 0}, "resamples"),
        ({"nll": {"a": X, "b": X}}, {"seed": -1}, "seed"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(rows, options, said):
    with pytest.raises(CalibrantError, match=said) as caught:
        paired(rows, **options)
    assert "\n" not in str(caught.value)


def test_groups_of_many_units_say_what_the_units_say(monkeypatch):
    """Random groups keep the variance of a mean; what is left is the noise of 1000 groups for 4000 rows."""
    from calibrant.comparison import paired as module

    rows = rows_of(4000, models=2, scores=("nll",))
    rows["nll"]["m1"] = rows["nll"]["m0"] + 0.02 + 0.5 * np.random.default_rng(0).normal(size=4000)
    one = paired(rows, seed=1).pairs[0]
    monkeypatch.setattr(module, "MOST_UNITS", 1000)
    two = paired(rows, seed=1).pairs[0]
    assert two.difference == pytest.approx(one.difference, abs=1e-12)
    assert two.n == one.n == 4000
    assert two.high - two.low == pytest.approx(one.high - one.low, rel=0.2)
    assert two.p_value == pytest.approx(one.p_value, abs=0.03)
    weights = np.random.default_rng(2).uniform(0.5, 1.5, 4000)
    assert paired(rows, weights=weights).pairs[0].difference == pytest.approx(
        np.average(rows["nll"]["m0"] - rows["nll"]["m1"], weights=weights), abs=1e-12
    )
