"""Every pitfall is noticed where it is, and not where it only looks like it."""

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from compared_models import (
    BACK,
    FIVE,
    IDS,
    N,
    alike,
    fitted,
    gaussian,
    half,
    judged,
    made,
    mean_logits,
    mean_probs,
    named,
    nudged,
    other,
    rounded,
    run,
    saturated,
    tree,
    turned,
    twice,
    with_ids,
)
from scipy.special import log_softmax

import calibrant as cal
from calibrant.comparison.pitfalls import PITFALLS, Setup, guard
from calibrant.comparison.records import Pair, Ranked
from calibrant.comparison.result import Comparison
from calibrant.comparison.rules_scores import code_of, rows_needed
from calibrant.registry import metrics

USUAL = ("cll", "nll", "brier_ts", "brier", "accuracy")


def setup(models=None, **given):
    models = {"a": made(1), "b": made(2)} if models is None else models
    given.setdefault("scores", USUAL)
    given.setdefault("rank_by", given["scores"][0])
    return Setup(models=models, **given)


def compared(difference, p, detectable=math.nan, ranks=None):
    pair = Pair("cll", "a", "b", difference, difference - 0.02, difference + 0.02, 0.95, p, p, p, 1000, detectable)
    ranking = tuple(Ranked(name, k + 1, 0.0, 0.0, 0.0, 1, 2, 0.5) for k, name in enumerate("ab"))
    return Comparison("cll", ranking, (pair,), ranks=ranks or {})


# code: name → (a setup that falls into it), and near misses that do not
TRIGGERS = {
    "biased-errors": {
        "ranked by ece": lambda: setup(scores=("ece", "cll")),
        "tace beside cll": lambda: setup(scores=("cll", "tace(threshold=0.01)")),
        "skce": lambda: setup(scores=("cll", "skce")),
        "brier reliability": lambda: setup(scores=("cll", "brier_reliability")),
        "ence": lambda: setup({"a": gaussian(1), "b": gaussian(2)}, scores=("crps", "ence")),
    },
    "misclassification-auc": {
        "auroc": lambda: setup(scores=("cll", "misclassification_auroc")),
        "aupr": lambda: setup(scores=("misclassification_aupr(score=entropy)",)),
        "excess aurc": lambda: setup(scores=("cll", "e_aurc")),
    },
    "confidence-thresholds": {
        "curve": lambda: setup(curves=("accuracy_confidence",)),
        "avu": lambda: setup(scores=("cll", "avu(threshold=0.5)")),
        "p_accurate_certain": lambda: setup(scores=("cll", "p_accurate_certain")),
    },
    "uncalibrated-likelihood": {
        "nll alone": lambda: setup(scores=("accuracy", "nll")),
        "ranked by nll beside cll": lambda: setup(scores=("nll", "cll")),
        "brier alone": lambda: setup(scores=("accuracy", "brier")),
        "judged": lambda: setup({"a": judged(1), "b": judged(2)}, scores=("nll",)),
    },
    "spread-alone": {
        "sharpness": lambda: setup({"a": gaussian(1), "b": gaussian(2)}, scores=("sharpness",)),
        "width": lambda: setup({"a": gaussian(1), "b": gaussian(2)}, scores=("crps", "width")),
    },
    "no-direction": {"entropy": lambda: setup(rank_by="entropy")},
    "different-rows": {
        "some ids only": lambda: setup({"a": made(1, ids=IDS), "b": made(2, ids=IDS)[:300]}),
        "other numbers": lambda: setup({"a": made(1), "b": made(2)[:300]}),
        "no id shared": lambda: setup({"a": made(1, ids=IDS), "b": made(2, ids=np.char.add("x", IDS))}),
        "weights": lambda: setup({"a": made(1, weights=np.ones(N)), "b": made(2, weights=np.arange(1, N + 1))}),
    },
    "different-labels": {
        "by ids": lambda: setup(
            {"a": made(1, ids=IDS), "b": replace(made(2, ids=IDS), labels=np.roll(made(2).labels, 1))}
        ),
        "by place": lambda: setup({"a": made(1), "b": made(2)[BACK]}),
        "none in one": lambda: setup({"a": made(1), "b": replace(made(2), labels=None)}),
    },
    "different-classes": {
        "one more": lambda: setup(
            {
                "a": made(1),
                "b": cal.Classification.from_logits(np.pad(made(2).scores[0], ((0, 0), (0, 1))), made(2).labels),
            }
        ),
        "other names": lambda: setup({"a": named(made(1), "wxyz"), "b": named(made(2), "wxyv")}),
    },
    "own-answers": {"two models": lambda: setup({"a": judged(1, ids=IDS), "b": judged(2, flip=9, ids=IDS)})},
    "different-members": {"1, 5": lambda: setup({"a": made(1), "b": FIVE})},
    "pool-overlap": {
        "one member": lambda: setup({"a": FIVE.member(2), "pool": FIVE}, pool="pool"),
        "pool apart": lambda: setup({"a": FIVE.member(2), "b": made(1)}, pool="p", pool_predictions=FIVE),
        "as probabilities": lambda: setup({"a": FIVE.member(0).as_probs(), "pool": FIVE}, pool="pool"),
    },
    "identical-models": {
        "same logits": lambda: setup({"a": made(1), "b": made(1)}),
        "once as probabilities": lambda: setup({"a": made(1), "b": made(1).as_probs()}),
        "judged": lambda: setup({"a": judged(1), "b": judged(1)}),
        "gaussian": lambda: setup({"a": gaussian(1), "b": gaussian(1)}, scores=("crps",)),
    },
    "averaged-logits": {
        "logits": lambda: setup({"a": mean_logits(FIVE), "b": FIVE}),
        "float32 log-probabilities of the pool": lambda: setup(
            {"a": cal.Classification.from_log_probs(log_softmax(FIVE.scores.mean(axis=0), axis=1), FIVE.labels)},
            pool="pool",
            pool_predictions=FIVE,
        ),
        "float16": lambda: setup({"a": half(mean_logits(FIVE)), "b": half(FIVE)}),
        "geometric mean of probabilities": lambda: setup({"a": mean_logits(FIVE), "b": FIVE.as_probs()}),
        "rows in another order": lambda: setup({"a": mean_logits(FIVE, ids=IDS)[BACK], "b": with_ids(FIVE)}),
    },
    "scored-on-fitted-rows": {
        "all": lambda: setup({"a": fitted(made(1), made(1)), "b": made(2)}),
        "a third": lambda: setup({"a": fitted(made(1)[:150], made(1)), "b": made(2)}),
        "part of them": lambda: setup({"a": fitted(made(1), made(1))[100:], "b": made(2)[100:]}),
        "twice": lambda: setup({"a": fitted(other(1), fitted(made(1), made(1))), "b": made(2)}),
        "averaged after": lambda: setup({"a": fitted(FIVE, FIVE, members="each").average(), "b": made(2)}),
        "clean are scored": lambda: setup(clean={"a": made(1), "b": made(2)}),
        "clean share ids": lambda: setup(
            {"a": made(1, ids=IDS), "b": made(2, ids=IDS)},
            clean={"a": made(3, ids=IDS)[:50], "b": made(4, ids=IDS)[:50]},
        ),
        "gaussian": lambda: setup(
            {"a": cal.recalibration.StdScaling().fit(gaussian(1)).transform(gaussian(1)), "b": gaussian(2)},
            scores=("crps",),
        ),
    },
    "uneven-recalibration": {
        "one of two": lambda: setup({"a": fitted(other(1), made(1)), "b": made(2)}, scores=("nll", "cll")),
    },
    "too-small": {
        "not different": lambda: setup(comparison=compared(0.005, 0.6)),
        "equal": lambda: setup(comparison=compared(0.0, 1.0)),
    },
    "dependent-rows": {
        "ids repeat": lambda: setup({"a": made(1, ids=np.arange(N) // 2), "b": made(2, ids=np.arange(N) // 2)}),
        "patients": lambda: setup({"a": made(1, columns={"patient_id": np.arange(N) // 4}), "b": made(2)}),
        "copies": lambda: setup({"a": twice(made(1)), "b": twice(made(2))}),
        "copies of numbers": lambda: setup({"a": twice(gaussian(1)), "b": twice(gaussian(2))}, scores=("crps",)),
    },
    "single-seed": {"two methods": lambda: setup({"a": run("swag", 1), "b": run("sgld", 1)})},
}

NEAR_MISSES = {
    "biased-errors": {
        "proper scores": setup,
        "accuracy": lambda: setup(scores=("cll", "accuracy")),
        "one model": lambda: setup({"a": made(1)}, scores=("ece",)),
    },
    "misclassification-auc": {
        "inside against outside": lambda: setup(scores=("auroc", "aupr_in", "fpr95")),
        "rejected by share": lambda: setup(scores=("cll", "aurc", "aac")),
        "of a class": lambda: setup(scores=("cll", "roc_auc")),
    },
    "confidence-thresholds": {
        "rejection curve": lambda: setup(curves=("rejection", "risk_coverage")),
        "tace has another threshold": lambda: setup(scores=("tace(threshold=0.1)",)),
    },
    "uncalibrated-likelihood": {
        "nll beside cll": lambda: setup(scores=("cll", "nll", "brier")),
        "brier beside brier_ts": lambda: setup(scores=("brier_ts", "brier")),
        "numbers have no temperature": lambda: setup({"a": gaussian(1), "b": gaussian(2)}, scores=("nll",)),
    },
    "spread-alone": {"crps": lambda: setup({"a": gaussian(1), "b": gaussian(2)}, scores=("crps", "picp"))},
    "no-direction": {"shown, not ranked by": lambda: setup(scores=("cll", "entropy"))},
    "different-rows": {
        "another order": lambda: setup({"a": made(1, ids=IDS), "b": made(2, ids=IDS)[BACK]}),
        "ids repeat alike": lambda: setup({"a": made(1, ids=np.arange(N) // 2), "b": made(2, ids=np.arange(N) // 2)}),
        "weights alike": lambda: setup({"a": made(1, weights=np.ones(N)), "b": made(2, weights=np.ones(N, "f4"))}),
    },
    "different-labels": {
        "another order": lambda: setup({"a": made(1, ids=IDS), "b": made(2, ids=IDS)[BACK]}),
        "classes in another order": lambda: setup({"a": named(made(1), "wxyz"), "b": turned(named(made(2), "wxyz"))}),
        "y rounded to float32": lambda: setup(
            {"a": gaussian(1), "b": replace(gaussian(2), y=gaussian(2).y.astype(np.float32))}, scores=("crps",)
        ),
    },
    "different-classes": {
        "another order": lambda: setup({"a": named(made(1), "wxyz"), "b": turned(named(made(2), "wxyz"))}),
    },
    "own-answers": {
        "one answer, two confidences": lambda: setup({"a": judged(1, ids=IDS), "b": judged(2, ids=IDS)}),
        "by accuracy": lambda: setup(
            {"a": judged(1, ids=IDS), "b": judged(2, flip=9, ids=IDS)}, scores=("accuracy", "aurc")
        ),
    },
    "different-members": {
        "as many": lambda: setup({"a": made(1, members=3), "b": made(2, members=3)}),
        "the pool excepted": lambda: setup({"a": made(1), "b": made(2), "pool": FIVE}, pool="pool"),
    },
    "pool-overlap": {
        "of its own": lambda: setup({"a": made(1), "pool": FIVE}, pool="pool"),
        "no pool": lambda: setup({"a": FIVE.member(2), "b": FIVE}),
    },
    "identical-models": {
        "another row": lambda: setup({"a": made(1), "b": nudged(made(1))}),
        "another temperature": lambda: setup({"a": made(1), "b": replace(made(1), scores=made(1).scores * 2)}),
    },
    "averaged-logits": {
        "mean of probabilities": lambda: setup({"a": mean_probs(FIVE), "b": FIVE}),
        "another network": lambda: setup({"a": made(9), "b": FIVE}),
        "members that agree": lambda: setup({"a": mean_logits(alike()), "b": alike()}),
    },
    "scored-on-fitted-rows": {
        "other rows": lambda: setup({"a": fitted(other(1), made(1)), "b": made(2)}),
        "the other half": lambda: setup({"a": fitted(made(1)[:200], made(1))[200:], "b": made(2)[200:]}),
        "cross-fitted": lambda: setup({"a": cal.cross_fit(made(1)).predictions, "b": made(2)}),
        "clean are others": lambda: setup(clean={"a": other(1), "b": other(2)}),
        "row numbers are no ids": lambda: setup(
            {"a": made(1, ids=np.arange(N)), "b": made(2, ids=np.arange(N))},
            clean={"a": other(1, ids=np.arange(N)), "b": other(2, ids=np.arange(N))},
        ),
        "round confidences": lambda: setup(
            {"a": fitted(rounded(1), rounded(1)[BACK[:200]])[:150], "b": rounded(2)[BACK[:200]][:150]}
        ),
    },
    "uneven-recalibration": {
        "both": lambda: setup({"a": fitted(other(1), made(1)), "b": fitted(other(2), made(2))}, scores=("nll", "cll")),
        "ranked by cll": lambda: setup({"a": fitted(other(1), made(1)), "b": made(2)}),
    },
    "too-small": {
        "beyond chance": lambda: setup(comparison=compared(0.05, 0.001)),
        "pairs with a baseline only": lambda: setup(comparison=replace(compared(0.005, 0.6), pairs=())),
        "no results": setup,
    },
    "dependent-rows": {
        "unique ids": lambda: setup({"a": made(1, ids=IDS), "b": made(2, ids=IDS)}),
        "units given": lambda: setup(
            {"a": made(1, columns={"patient": np.arange(N) // 4}), "b": made(2)}, units="patient"
        ),
        "a column to slice by": lambda: setup(
            {"a": made(1, columns={"class": np.arange(N) % 4, "severity": np.arange(N) % 5, "group": np.arange(N) % 2}),
             "b": made(2)}
        ),
        "one value a row": lambda: setup({"a": made(1, columns={"patient": np.arange(N)}), "b": made(2)}),
        "a tree: equal predictions of other cases": lambda: setup({"a": tree(1), "b": tree(2)}),
        "saturated": lambda: setup({"a": saturated(1), "b": saturated(2)}),
        "only one model repeats": lambda: setup({"a": tree(1), "b": replace(made(2), labels=tree(1).labels)}),
    },
    "single-seed": {
        "several seeds": lambda: setup({"a": run("swag", 1), "b": run("swag", 2), "c": run("sgld", 1)}),
        "one method": lambda: setup({"a": run("swag", 1), "b": run("swag", 2)}),
        "nothing is told": setup,
    },
}  # fmt: skip


def cases(table):
    return [
        pytest.param(code, make, id=f"{code}-{name}") for code, each in table.items() for name, make in each.items()
    ]


def codes(given):
    return {note.code for note in guard(given)}


@pytest.mark.parametrize(("code", "make"), cases(TRIGGERS))
def test_a_pitfall_is_noticed(code, make):
    found = [note for note in guard(make()) if note.code == code]
    assert found
    for note in found:
        assert "\n" not in note.message
        assert note.message.count(":") >= 1  # what is wrong: what to do
        assert note.reference.startswith(PITFALLS[code].reference[:10])


@pytest.mark.parametrize(("code", "make"), cases(NEAR_MISSES))
def test_a_near_miss_is_none(code, make):
    assert code not in codes(make())


def test_every_pitfall_has_both():
    assert set(TRIGGERS) == set(NEAR_MISSES) == set(PITFALLS)
    assert all(TRIGGERS.values())
    assert all(NEAR_MISSES.values())


def test_the_page_of_pitfalls_has_a_section_for_each():
    page = Path(__file__).parents[2] / "docs" / "pitfalls.md"
    assert re.findall(r"^## (\S+)$", page.read_text(encoding="utf-8"), re.MULTILINE) == list(PITFALLS)


def test_a_comparison_that_is_in_order_has_no_note():
    models = {name: made(seed, members=3, ids=IDS) for name, seed in zip("abc", (1, 2, 3), strict=True)}
    assert guard(setup(models)) == ()


def test_notes_come_once_in_the_order_of_the_table():
    found = guard(setup({"a": made(1), "b": FIVE}, scores=("ece", "tace", "nll", "misclassification_auroc")))
    places = [list(PITFALLS).index(note.code) for note in found]
    assert places == sorted(places)
    assert len(set(found)) == len(found)
    (biased,) = [note for note in found if note.code == "biased-errors"]
    assert "ranked by ece and tace" in biased.message


# --------------------------------------------------------------------------------------------- the registry
def test_what_is_not_comparable_has_a_pitfall_and_the_pitfall_is_known():
    for name, metric in metrics().items():
        code = code_of(metric)
        assert code == "" or code in PITFALLS, name
        assert bool(code) or metric.comparable, name


def test_curves_over_thresholds_are_those_of_an_evaluation():
    from calibrant.comparison.rules_scores import AT_THRESHOLDS

    result = cal.evaluate(made(1), intervals=False).results[0]
    assert set(AT_THRESHOLDS) <= set(result.curves)


# --------------------------------------------------------------------------------------------------- results
def ranked(*names):
    return tuple(Ranked(name, k + 1, 0.0, 0.0, 0.0, 1, 2, 0.5) for k, name in enumerate(names))


@pytest.mark.parametrize(
    ("by_nll", "said"),
    [("ab", "the order is the same here"), ("ba", "2 of 2 models change place, and a is the best, not b")],
)
def test_ranks_by_nll_are_held_against_those_by_cll(by_nll, said):
    comparison = compared(0.05, 0.001, ranks={"nll": ranked(*by_nll), "cll": ranked("a", "b")})
    (note,) = [n for n in guard(setup(rank_by="nll", comparison=comparison)) if n.code == "uncalibrated-likelihood"]
    assert said in note.message


def test_rows_that_are_needed_are_those_of_a_power_of_four_fifths():
    """A normal mean of as many rows as are said to be needed is found different in four of five samples."""
    rng = np.random.default_rng(0)
    n, difference, spread = 1000, 0.01, 0.4
    pair = compared(difference, 0.4).pairs[0]
    error = spread / math.sqrt(n)
    pair = replace(pair, low=difference - 1.959964 * error, high=difference + 1.959964 * error)
    needed = rows_needed(pair)
    assert rows_needed(replace(pair, detectable=2.801585 * error)) == pytest.approx(needed)
    means = difference + spread / math.sqrt(needed) * rng.normal(size=20000)
    assert (np.abs(means) > 1.959964 * spread / math.sqrt(needed)).mean() == pytest.approx(0.8, abs=0.01)


def test_the_note_of_a_small_set_says_how_many_rows():
    (note,) = guard(setup(comparison=compared(0.005, 0.6, detectable=0.05)))
    assert "on 1000 rows: about 100000 rows would be needed" in note.message
    (note,) = guard(setup(comparison=compared(0.0, 1.0)))
    assert "no difference was seen at all" in note.message
