"""Gates of comparisons: better, worse, not worse, best; infinite and undefined values, files, data sets."""

import json
import math
from dataclasses import replace
from itertools import permutations

import pytest
from gates.comparison_cases import COMPARED, estimate, evaluation, pair, ranked
from hypothesis import given, settings
from hypothesis import strategies as st

import calibrant as cal
from calibrant.errors import UsageError
from calibrant.gates.api import Gate
from calibrant.results.comparison import Comparison, Equivalent, Pair, Ranked
from calibrant.results.evaluation import Evaluation, Result

INF, NAN = math.inf, math.nan
ALONE = evaluation(Result("a", {"nll": estimate(0.2, 0.1, 0.25)}))
KINDS = ("fail_on", "require")


def passes(held, **gates):
    return bool(cal.gates.gate(held, **gates))


def stored(held):
    return Evaluation.from_json(json.loads(held.dumps()))


def of_pair(found):
    return replace(COMPARED, comparison=replace(COMPARED.comparison, pairs=(found,)))


def judged(held, text):
    """What a condition is: shown, shown not to hold, or neither."""
    fail, must = (Gate.parse(text, kind).judge(held) for kind in KINDS)
    assert fail.passed != must.passed or fail.undecided
    return None if fail.undecided or must.undecided else must.passed


@pytest.mark.parametrize(("text", "shown"), [
    ("new better than old by nll", True),
    ("new better than old by cll", True),
    ("new better than old", True),
    ("old is worse than new", True),
    ("old no worse than new margin 0.06", True),
    ("old worse than new by nll", True),
    ("new worse than old by nll", False),
    ("old better than new by cll", False),
    ("new worse than old by accuracy", None),
    ("old better than new by accuracy", None),
    ("new not worse than old by nll", True),
    ("old not worse than new by nll", False),
    ("old not worse than new by nll margin 0.05", None),
    ("old not worse than new by nll margin 0.06", True),
    ("old not worse than new by cll margin 0.06", True),
    ("old not worse than new by cll margin 0.03", False),
    ("new not worse than old by accuracy", None),
    ("new not worse than old by accuracy margin 0.02", True),
    ("new not worse than old by accuracy margin 1e-2", None),
    ("new not worse than old by brier", True),
    ("new best", True),
    ("new is best", True),
    ("old best", False),
    ("old best by accuracy", None),
    ("new: cll > -0.31", True),
    ("old: cll > -0.31", False),
    ("new: dee >= 3", True),
    ("new: dee > 3.5", None),
])  # fmt: skip
def test_comparisons(text, shown):
    for held in (COMPARED, Evaluation.from_json(json.loads(COMPARED.dumps()))):
        (fail,) = cal.gates.gate(held, fail_on=text)
        (must,) = cal.gates.gate(held, require=text)
        assert fail.passed == (shown is not True)
        assert must.passed == (shown is True)
        assert fail.undecided == (shown is None)
        assert must.undecided == (shown is None)


@pytest.mark.parametrize(("text", "said"), [
    ("newer worse than old by nll", "did you mean 'new'"),
    ("new worse than old by ece", "choose from accuracy, brier, cll, nll"),
    ("new worse than new by nll", "two models, got 'new' twice"),
    ("none best", "a model of this comparison"),
    ("new best by brier", "choose from accuracy, cll"),
])  # fmt: skip
def test_what_was_not_compared(text, said):
    with pytest.raises(UsageError, match=said):
        cal.gates.gate(COMPARED, require=text)
    with pytest.raises(UsageError, match="a comparison, got an evaluation without one"):
        cal.gates.gate(ALONE, require=text)


def test_a_comparison_is_told_with_its_interval_and_p():
    said = str(cal.gates.gate(COMPARED, fail_on="old worse than new by nll"))
    assert said == (
        "gate failed: fail-on old worse than new by nll: nll of old minus new 0.0500, "
        "95% interval 0.0400 to 0.0600, p 0.0010 corrected for all pairs"
    )


def test_an_equivalent_beyond_the_pool_goes_on_without_end():
    large = Equivalent(1, -0.2, NAN, 9.0, NAN, 0.95, NAN, NAN, censored="above", high_censored=True)
    known = replace(large, value=10.0)
    for item, shown in ((known, True), (large, False)):
        held = replace(COMPARED, comparison=replace(COMPARED.comparison, equivalents={"new": item}))
        assert passes(held, require="dee > 5") == shown
        assert not passes(held, require="dee < 20")


@pytest.mark.parametrize(
    ("item", "told"),
    [
        (Equivalent(1, -0.2, 2.4637, 1.0, 6.0, 0.95, NAN, NAN, "", True, True),
         "2.4637, 95% interval < 1.0 to > 6.0"),
        (Equivalent(1, -0.2, 1.0, 1.0, 1.6774, 0.95, NAN, NAN, "below", True),
         "< 1.0, 95% interval < 1.0 to 1.6774"),
        (Equivalent(1, -0.2, 6.0, 1.005, 6.0, 0.95, NAN, NAN, "above", False, True),
         "> 6.0, 95% interval 1.0050 to > 6.0"),
        (Equivalent(1, -0.2, 2.0, NAN, NAN, 0.95, NAN, NAN), "2.0000, 95% interval unbounded"),
    ],
)  # fmt: skip
def test_an_equivalent_is_told_as_the_tables_have_it(item, told):
    held = replace(COMPARED, comparison=replace(COMPARED.comparison, equivalents={"new": item}))
    (found,) = cal.gates.gate(held, require="dee > 1.01")
    assert found.reason == f"new: dee {told} contains 1.01"


# --------------------------------------------------------------------- what decides: the pair, or the interval
@pytest.mark.parametrize(("score", "difference"), [("nll", INF), ("cll", -INF), ("brier", INF)])
def test_an_infinite_difference_decides(score, difference):
    """A model that held what came true impossible is worse, whatever else: new is the worse one here."""
    held = of_pair(Pair(score, "new", "old", difference, NAN, NAN, 0.95, NAN, NAN, NAN, 400))
    for found in (held, stored(held)):
        assert judged(found, f"new worse than old by {score}") is True
        assert judged(found, f"old better than new by {score}") is True
        assert judged(found, f"new better than old by {score}") is False
        assert judged(found, f"old not worse than new by {score}") is True
        assert judged(found, f"new not worse than old by {score} margin 1.5") is False
        assert "infinite" in str(cal.gates.gate(found, fail_on=f"new worse than old by {score}"))


def test_two_infinite_losses_tell_nothing():
    held = of_pair(Pair("nll", "new", "old", NAN, NAN, NAN, 0.95, NAN, NAN, 0.001, 400))
    for text in ("new worse than old by nll", "new better than old by nll", "new not worse than old by nll"):
        assert judged(held, text) is None
        assert "undefined" in cal.gates.gate(held, fail_on=text).results[0].reason


@pytest.mark.parametrize(("low", "high", "p", "better"), [
    (0.01, 0.09, 0.01, True), (0.01, 0.09, 0.06, None), (-0.01, 0.11, 0.01, None), (-0.01, 0.11, 0.2, None),
])  # fmt: skip
def test_better_needs_both_the_interval_and_the_corrected_p(low, high, p, better):
    held = of_pair(pair("cll", 0.05, low, high, p))
    assert judged(held, "new better than old by cll") is better
    assert judged(held, "old worse than new by cll") is better
    assert judged(held, "new not worse than old by cll") is (True if low > 0 else None)  # the interval alone
    (said,) = cal.gates.gate(held, fail_on="new not worse than old by cll")
    for part in ("0.0500", "95% interval", f"p {p:.4f} corrected for all pairs", "margin 0"):
        assert part in said.reason


def test_the_same_predictions_are_neither_better_nor_worse():
    """No row differs, so that there is no interval; of hits, which models share that differ, nothing is said."""
    same = Pair("nll", "new", "old", 0.0, NAN, NAN, 0.95, 1.0, 1.0, 1.0, 400)
    held = of_pair(same)
    assert judged(held, "new worse than old by nll") is False
    assert judged(held, "new better than old by nll") is False
    assert passes(held, require="new not worse than old by nll", fail_on="new worse than old by nll")
    assert not passes(of_pair(replace(same, score="accuracy")), require="new not worse than old by accuracy")
    assert not passes(of_pair(replace(same, n=1)), require="new not worse than old by nll")


numbers = st.one_of(st.sampled_from([0.0, INF, -INF, NAN, 0.5, -0.5]), st.floats(-2, 2))
shares = st.one_of(st.just(NAN), st.floats(0, 1))


@st.composite
def ends(draw):
    """Both ends of an interval, or none; the lower may be −∞ and the upper ∞, and not the other way round."""
    low, high = sorted((draw(numbers), draw(numbers)), key=lambda x: (math.isnan(x), x))
    return (NAN, NAN) if math.isnan(high) or low == math.inf or high == -math.inf else (low, high)


@st.composite
def rankings(draw, model):
    near, far = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    return Ranked(model, draw(st.integers(1, 2)), draw(numbers), *draw(ends()), near, far, draw(shares))


@st.composite
def pairs(draw, score="nll", first="new", second="old"):
    return Pair(score, first, second, draw(numbers), *draw(ends()), 0.95, draw(shares), draw(shares), draw(shares), 9)


@given(pairs(), st.sampled_from(["nll", "cll"]), st.floats(0, 3))
def test_what_is_better_is_the_pair_s_word_and_never_also_worse(found, score, margin):
    found = replace(found, score=score)
    held = of_pair(found)
    better, worse = judged(held, f"new better than old by {score}"), judged(held, f"new worse than old by {score}")
    if not math.isnan(found.difference):
        assert (better is True, worse is True) == (found.better == "new", found.better == "old")
    if better:
        assert passes(held, require=f"new not worse than old by {score} margin {margin!r}")
    if worse:
        assert not passes(held, require=f"new not worse than old by {score}")


@st.composite
def comparisons(draw):
    """Two models by three scores, with anything for a number."""
    ranks = {}
    for score in ("cll", "nll", "brier_ts"):
        ranks[score] = tuple(draw(rankings(model)) for model in ("new", "old"))
    censored = draw(st.booleans()), draw(st.booleans())
    dee = Equivalent(2, draw(numbers), draw(numbers), *draw(ends()), 0.95, NAN, INF, "", *censored)
    found = tuple(draw(pairs(score)) for score in ranks)
    return Comparison("cll", ranks["cll"], found, ranks, equivalents={"new": dee}, pool="old")


QUESTIONS = [
    *(f"{a} {how} {b} by {s}" for a, b in permutations(("new", "old")) for s in ("cll", "nll", "brier_ts")
      for how in ("better than", "worse than", "not worse than")),
    *(f"{a}: {s} {op} -0.5" for a in ("new", "old") for s in ("cll", "nll") for op in ("<", ">")),
    "new best", "old best by nll", "new not worse than old by nll margin 0.5", "new: dee > 1.5", "dee < 2",
    "brier_ts.value > 0.5", "cll.value > -0.5",
]  # fmt: skip


@settings(max_examples=60)
@given(comparisons(), numbers, ends())
def test_a_stored_comparison_answers_as_the_live_one(comparison, value, interval):
    """Every gate, of infinite, undefined and ordinary numbers, in the same words."""
    results = (Result("new", {"nll": estimate(value, *interval)}), Result("old", {}))
    live = evaluation(*results, comparison=comparison)
    read = stored(live)
    for text in QUESTIONS:
        for kind in KINDS:
            gate = Gate.parse(text, kind)
            assert gate.judge(live) == gate.judge(read), text


def test_the_level_of_a_ranked_score_is_that_of_the_evaluation():
    for held in (COMPARED, stored(COMPARED)):
        assert "95% interval" in str(cal.gates.gate(held, fail_on="new: cll > -1"))


def test_a_rank_without_resampled_ranks_shows_nothing():
    alone = tuple(Ranked(m, k, 0.1 * k, NAN, NAN, k, k, NAN) for k, m in ((1, "new"), (2, "old")))
    held = replace(COMPARED, comparison=replace(COMPARED.comparison, ranks={"ece": alone}))
    (refused,) = cal.gates.gate(held, require="new best by ece")
    assert not refused.passed
    assert "without an interval of ranks" in refused.reason
    assert ".value" not in refused.reason
    assert not passes(held, fail_on="new best by ece")


@pytest.mark.parametrize(("text", "said"), [
    ("old: dee > 2", "a comparison without a pool; compare with --pool"),
    ("new worse than old by ece", "a score with paired differences, got ece, which is not a mean over rows"),
    ("new worse than old by dee", "a score with paired differences, got dee"),
    ("new worse than mid by nll", "'new' and 'mid'; leave --baseline out"),
])  # fmt: skip
def test_what_a_comparison_lacks_is_told(text, said):
    alone = tuple(Ranked(m, 1, 0.1, NAN, NAN, 1, 1, NAN) for m in ("new", "old", "mid"))
    comparison = replace(COMPARED.comparison, ranks={"ece": alone}, equivalents={}, baseline="old")
    with pytest.raises(UsageError, match=said):
        cal.gates.gate(replace(COMPARED, comparison=comparison), require=text)


# ------------------------------------------------------------------------------------------------- data sets
def one_set(value, difference, p):
    ranking = (ranked("new", 1, 1, 1 if p < 0.05 else 2, value), ranked("old", 2, 1, 2, value - difference))
    found = pair("cll", difference, difference - 0.02, difference + 0.02, p)
    return Comparison("cll", ranking, (found,), {"cll": ranking}, equivalents={
        "new": Equivalent(1, value, 3.5, 3.0, 4.0, 0.95, 3.2, 3.8)})  # fmt: skip


SETS = {"d": one_set(-0.3, 0.05, 0.001), "e": one_set(-0.6, 0.01, 0.3)}
MANY = evaluation(
    *(Result(f"{name}/{model}", {}) for name in SETS for model in ("new", "old")),
    comparison=Comparison(
        "cll", (ranked("new", 1, 1, 1, -0.45), ranked("old", 2, 2, 2, -0.48)), (pair("cll", 0.03, 0.01, 0.05, 0.01),),
        datasets=SETS,
    ),
)  # fmt: skip


@pytest.mark.parametrize(("text", "shown"), [
    ("new better than old by cll", True),  # the mean over data sets
    ("d/new better than d/old by cll", True),
    ("d/old worse than d/new", True),
    ("e/new better than e/old by cll", None),
    ("e/new not worse than e/old by cll margin 0.011", True),
    ("d/new best", True),
    ("e/new best", None),
    ("d/new: cll > -0.5", True),
    ("d/new: dee > 2", True),
])  # fmt: skip
def test_data_sets(text, shown):
    for held in (MANY, stored(MANY)):
        assert judged(held, text) is shown


def test_a_model_of_data_sets_is_meant_on_each_of_them():
    assert passes(MANY, require=["new: cll > -0.7", "dee > 2"], fail_on="old: cll > -0.1")
    for text in ("new: cll > -0.5", "new best"):
        (refused,) = cal.gates.gate(MANY, require=text)
        assert not refused.passed
        assert "e/new" in refused.reason
        assert "d/new" not in refused.reason
    assert not passes(MANY, fail_on="new: cll > -0.5")


@pytest.mark.parametrize(("text", "said"), [
    ("d/new better than e/old by cll", "two models of one dataset"),
    ("d/new better than old by cll", "two models of one dataset"),
    ("f/new better than d/old by cll", "did you mean 'd/new'|did you mean 'e/new'"),
    ("mid best", "a model of this comparison"),
])  # fmt: skip
def test_models_of_different_data_sets_are_not_compared(text, said):
    with pytest.raises(UsageError, match=said):
        cal.gates.gate(MANY, require=text)
