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
    NUMBERS,
    C,
    N,
    alike,
    answers,
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
    stacked,
    tree,
    turned,
    twice,
    with_ids,
)
from evaluations import evaluate_with
from scipy.special import log_softmax, ndtr

import calibrant as cal
from calibrant.comparison.pitfalls import PITFALLS, Setup, guard, guard_sets
from calibrant.comparison.pitfalls.scores import code_of, least_units, rows_needed, smallest_p
from calibrant.comparison.sign_flip_test import exact, holm
from calibrant.registry.lookup import metrics
from calibrant.results.comparison import Comparison, Pair, Ranked

USUAL = ("cll", "nll", "brier_ts", "brier", "accuracy")


def setup(models=None, **given):
    models = {"a": made(1), "b": made(2)} if models is None else models
    given.setdefault("scores", USUAL)
    given.setdefault("rank_by", given["scores"][0])
    return Setup(models=models, **given)


def compared(difference, p, detectable=math.nan, ranks=None, n=1000):
    pair = Pair("cll", "a", "b", difference, difference - 0.02, difference + 0.02, 0.95, p, p, p, n, detectable)
    ranking = tuple(Ranked(name, k + 1, 0.0, 0.0, 0.0, 1, 2, 0.5) for k, name in enumerate("ab"))
    return Comparison("cll", ranking, (pair,), ranks=ranks or {})


def many(count, n, baseline=None):
    """A comparison of many models on so many units, none of which differ."""
    names = [f"m{k}" for k in range(count)]
    pairs = [(one, two) for k, one in enumerate(names) for two in names[k + 1 :] if baseline in (None, one, two)]
    told = tuple(Pair("cll", one, two, 0.01, -0.02, 0.04, 0.95, 0.5, 0.5, 1.0, n) for one, two in pairs)
    return Comparison("cll", ranked(*names), told, baseline=baseline)


def ranked(*names):
    return tuple(Ranked(name, k + 1, 0.0, 0.0, 0.0, 1, 2, 0.5) for k, name in enumerate(names))


def units(of, **more):
    return {"columns": {"u": np.arange(N) // of}, **more}


def several(seed):
    """Judged answers with the confidences of three members."""
    correct = np.random.default_rng(3).random(N) < 0.7
    return cal.Judged.from_confidence(np.random.default_rng(seed).uniform(0.3, 1.0, (3, N)), correct)


def shifted(cells, labels=None, **given):
    return setup({"a": stacked(cells, labels)}, shift=("shift", "severity"), **given)


def padded(model, labels=None):
    scores = np.pad(model.scores[0], ((0, 0), (0, 1)))
    return cal.Classification.from_logits(scores, model.labels if labels is None else labels)


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
        "one more": lambda: setup({"a": made(1), "b": padded(made(2))}),
        "one more, and other labels": lambda: setup({"a": made(1), "b": padded(made(2), (made(2).labels + 1) % 5)}),
        "other names": lambda: setup({"a": named(made(1), "wxyz"), "b": named(made(2), "wxyv")}),
    },
    "same-rows-twice": {
        "predictions": lambda: {"d1": {"a": made(1), "b": made(2)}, "d2": {"a": made(1), "b": made(3)}},
        "a part of them": lambda: {"d1": {"a": made(1)}, "d2": {"a": made(1)[:60]}},
        "other labels": lambda: {"d1": {"a": made(1)}, "d2": {"a": replace(made(1), labels=np.zeros(N, int))}},
        "ids and labels": lambda: {"d1": {"a": made(1, ids=IDS)}, "d2": {"a": made(2, ids=IDS)[BACK]}},
        "judged": lambda: {"d1": {"a": rounded(1)}, "d2": {"a": rounded(1)}},
        "the first and the third": lambda: {"d1": {"a": gaussian(1)}, "d2": {"a": other(1)}, "d3": {"a": gaussian(1)}},
    },
    "own-answers": {"two models": lambda: setup({"a": judged(1, ids=IDS), "b": judged(2, flip=9, ids=IDS)})},
    "different-members": {
        "1, 5": lambda: setup({"a": made(1), "b": FIVE}),
        "members, and another": lambda: setup({"a": FIVE.member(0), "b": made(1), "all": FIVE}),
        "members of two ensembles": lambda: setup(
            {"a": FIVE.member(0), "all": FIVE, "b": made(3, members=3).member(1), "three": made(3, members=3)}
        ),
    },
    "pool-of-one": {
        "by name": lambda: setup({"a": made(1), "pool": made(2)}, pool="pool"),
        "apart": lambda: setup(pool="pool", pool_predictions=made(3)),
    },
    "pool-overlap": {
        "one member": lambda: setup({"a": FIVE.member(2), "pool": FIVE}, pool="pool"),
        "pool apart": lambda: setup({"a": FIVE.member(2), "b": made(1)}, pool="p", pool_predictions=FIVE),
        "as probabilities": lambda: setup({"a": FIVE.member(0).as_probs(), "pool": FIVE}, pool="pool"),
    },
    "identical-models": {
        "same logits": lambda: setup({"a": made(1), "b": made(1)}),
        "once as probabilities": lambda: setup({"a": made(1), "b": made(1).as_probs()}),
        "an ensemble and its average": lambda: setup({"avg": FIVE.average(), "all": FIVE}),
        "stored in float32": lambda: setup({"all": FIVE, "avg": mean_probs(FIVE)}),
        "members in another order": lambda: setup({"a": FIVE, "b": FIVE.subset(range(4, -1, -1))}),
        "members twice": lambda: setup({"a": FIVE, "b": replace(FIVE, scores=np.repeat(FIVE.scores, 2, axis=0))}),
        "judged by several": lambda: setup({"a": several(1), "b": several(1).average()}),
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
        "clean are numbered anew": lambda: setup(
            {"a": made(1, ids=NUMBERS)}, clean={"a": with_ids(made(1)[BACK], NUMBERS)}
        ),
        "judged ones, too": lambda: setup(
            {"a": judged(1, ids=NUMBERS)}, clean={"a": with_ids(judged(1), N + NUMBERS)[:60]}
        ),
        "judged ones by ids": lambda: setup({"a": judged(1, ids=IDS)}, clean={"a": judged(2, ids=IDS)[BACK]}),
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
    "too-few-units": {
        "18 models": lambda: setup(units="u", comparison=many(18, 10)),
        "one unit": lambda: setup(units="u", comparison=compared(0.01, 1.0, n=1)),
        "five rows": lambda: setup(comparison=many(2, 5)),
        "a baseline": lambda: setup(comparison=many(18, 9, "m0")),
    },
    "different-units": {
        "finer": lambda: setup({"a": made(1, **units(4)), "b": made(2, **units(8))}, units="u"),
        "another order": lambda: setup(
            {"a": made(1, ids=IDS, **units(4)), "b": made(2, ids=IDS, columns={"u": np.arange(N) % 100})[BACK]},
            units="u",
        ),
    },
    "dependent-rows": {
        "ids repeat": lambda: setup({"a": made(1, ids=np.arange(N) // 2), "b": made(2, ids=np.arange(N) // 2)}),
        "patients": lambda: setup({"a": made(1, columns={"patient_id": np.arange(N) // 4}), "b": made(2)}),
        "copies": lambda: setup({"a": twice(made(1)), "b": twice(made(2))}),
        "one set of cases under three severities": lambda: shifted([made(k) for k in (1, 2, 3)]),
        "the first of them": lambda: shifted([made(1), made(2)[:60]]),
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
    "same-rows-twice": {
        "other rows": lambda: {"d1": {"a": made(1), "b": made(2)}, "d2": {"a": other(1), "b": other(2)}},
        "one model elsewhere": lambda: {"d1": {"a": made(1), "b": made(2)}, "d2": {"a": other(1), "c": made(2)}},
        "row numbers are no ids": lambda: {
            "d1": {"a": made(1, ids=np.arange(N))}, "d2": {"a": other(1, ids=np.arange(N))}
        },
        "one label in nearly all rows": lambda: {
            f"d{k}": {"a": replace(made(k, ids=np.arange(N)), labels=np.zeros(N, int))} for k in (1, 2)
        },
        "a tree": lambda: {"d1": {"a": tree(1)}, "d2": {"a": tree(1)[BACK]}},
        "a constant": lambda: {
            f"d{k}": {"a": cal.Classification.from_probs(np.full((N, 4), 0.25), made(0, start=500 * k).labels)}
            for k in (1, 2)
        },
        "numbers and classes": lambda: {"d1": {"a": made(1)}, "d2": {"a": gaussian(1)}},
    },
    "own-answers": {
        "one answer, two confidences": lambda: setup({"a": judged(1, ids=IDS), "b": judged(2, ids=IDS)}),
        "by accuracy": lambda: setup(
            {"a": judged(1, ids=IDS), "b": judged(2, flip=9, ids=IDS)}, scores=("accuracy", "aurc")
        ),
    },
    "different-members": {
        "as many": lambda: setup({"a": made(1, members=3), "b": made(2, members=3)}),
        "a pool counts them": lambda: setup({"a": made(1), "b": made(2, members=3), "pool": FIVE}, pool="pool"),
        "its average": lambda: setup({"all": FIVE, "avg": FIVE.average()}),
        "its average and its members": lambda: setup({"all": FIVE, "avg": FIVE.average(), "m": FIVE.member(1)}),
        "members of the ensemble": lambda: setup({"all": FIVE, **{f"m{k}": FIVE.member(k) for k in range(5)}}),
        "two of them, in another order": lambda: setup(
            {"all": with_ids(FIVE), "a": with_ids(FIVE).member(1)[BACK], "b": with_ids(FIVE).member(3).as_probs()}
        ),
    },
    "pool-of-one": {
        "five": lambda: setup({"a": made(1), "pool": FIVE}, pool="pool"),
        "no pool": setup,
    },
    "pool-overlap": {
        "of its own": lambda: setup({"a": made(1), "pool": FIVE}, pool="pool"),
        "no pool": lambda: setup({"a": FIVE.member(2), "b": FIVE}),
    },
    "identical-models": {
        "another row": lambda: setup({"a": made(1), "b": nudged(made(1))}),
        "an ensemble and its average logits": lambda: setup({"a": mean_logits(FIVE), "b": FIVE}),
        "an ensemble and the average of some": lambda: setup({"a": FIVE.subset(range(4)).average(), "b": FIVE}),
        "judged by others": lambda: setup({"a": several(1), "b": several(2).average()}),
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
        "cross-fitted": lambda: setup({"a": cal.recalibration.cross_fit(made(1)).predictions, "b": made(2)}),
        "clean are others": lambda: setup(clean={"a": other(1), "b": other(2)}),
        "row numbers are no ids": lambda: setup(
            {"a": made(1, ids=np.arange(N)), "b": made(2, ids=np.arange(N))},
            clean={"a": other(1, ids=np.arange(N)), "b": other(2, ids=np.arange(N))},
        ),
        "row numbers of other answers": lambda: setup(
            {"a": answers(1, 0.7), "b": answers(2, 0.96)}, clean={"a": answers(3, 0.7), "b": answers(4, 0.96)}
        ),
        "one label in nearly all rows": lambda: setup(
            {"a": replace(made(1, ids=NUMBERS), labels=np.zeros(N, int))},
            clean={"a": replace(other(1, ids=NUMBERS), labels=np.zeros(N, int))},
        ),
        "a tree on other rows": lambda: setup(
            {"a": with_ids(tree(1), NUMBERS)}, clean={"a": with_ids(tree(1)[BACK], N + NUMBERS)}
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
        "infinite": lambda: setup(comparison=compared(math.inf, math.nan)),
        "both infinite": lambda: setup(comparison=compared(math.nan, math.nan)),
        "too few units to tell anything": lambda: setup(comparison=many(18, 10)),
        "pairs with a baseline only": lambda: setup(comparison=replace(compared(0.005, 0.6), pairs=())),
        "no results": setup,
    },
    "too-few-units": {
        "13 units": lambda: setup(units="u", comparison=many(18, 13)),
        "a baseline": lambda: setup(units="u", comparison=many(18, 10, "m0")),
        "six rows of two models": lambda: setup(comparison=many(2, 6)),
        "no results": setup,
    },
    "different-units": {
        "equal": lambda: setup({"a": made(1, **units(4)), "b": made(2, **units(4))}, units="u"),
        "only one has them": lambda: setup({"a": made(1), "b": made(2, **units(4))}, units="u"),
        "other names of the same": lambda: setup(
            {"a": made(1, **units(4)), "b": made(2, columns={"u": [f"p{999 - k // 4}" for k in range(N)]})}, units="u"
        ),
        "not asked for": lambda: setup({"a": made(1, **units(4)), "b": made(2, **units(8))}),
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
        "other cases under each severity": lambda: shifted([made(1), other(1), made(2, start=2000)]),
        "labels in order": lambda: shifted([made(1), other(1)], np.tile(np.sort(made(1).labels), 2)),
        "labels in turn": lambda: shifted([made(1), other(1)], np.arange(2 * N) % C),
        "few rows": lambda: shifted([made(1)[:20], made(2)[:20]]),
        "units of cases": lambda: shifted([made(1), made(2)], units="severity"),
        "no shift": lambda: setup({"a": stacked([made(1), made(2)])}),
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


def notes_of(given):
    """Of one comparison, or of data sets by name."""
    return guard(given) if isinstance(given, Setup) else guard_sets(given)


def codes(given):
    return {note.code for note in notes_of(given)}


@pytest.mark.parametrize(("code", "make"), cases(TRIGGERS))
def test_a_pitfall_is_noticed(code, make):
    found = [note for note in notes_of(make()) if note.code == code]
    assert found
    for note in found:
        assert "\n" not in note.message
        assert len(note.message) <= 250
        assert note.message.count("(") == note.message.count(")")
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


def test_the_page_names_every_other_note_of_a_comparison():
    root = Path(__file__).parents[2]
    sources = [*(root / "src/calibrant/comparison").glob("*.py"), *(root / "src/calibrant/predictions").rglob("*.py")]
    sources += (root / "src/calibrant/comparison/pitfalls").glob("*.py")
    codes = {code for path in sources for code in re.findall(r'Note\(\s*"([a-z-]+)"', path.read_text(encoding="utf-8"))}
    page = (root / "docs" / "pitfalls.md").read_text(encoding="utf-8").partition("## Other notes")[2]
    assert codes >= {"temperature-at-bound", "infinite-score", "left-out"}
    assert [code for code in sorted(codes - set(PITFALLS)) if f"`{code}`" not in page] == []


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
    from calibrant.comparison.pitfalls.scores import AT_THRESHOLDS

    result = evaluate_with(made(1), intervals=False).results[0]
    assert set(AT_THRESHOLDS) <= set(result.curves)


# --------------------------------------------------------------------------------------------------- results
@pytest.mark.parametrize(
    ("by_nll", "said"),
    [("ab", "the ranking by cll is the same here"), ("ba", "2 of 2 models change place, and a is the best, not b")],
)
def test_ranks_by_nll_are_held_against_those_by_cll(by_nll, said):
    comparison = compared(0.05, 0.001, ranks={"nll": ranked(*by_nll), "cll": ranked("a", "b")})
    (note,) = [n for n in guard(setup(rank_by="nll", comparison=comparison)) if n.code == "uncalibrated-likelihood"]
    assert said in note.message


@pytest.mark.parametrize("pairs", [1, 28])
def test_rows_that_are_needed_are_those_of_a_power_of_four_fifths(pairs):
    """A normal mean of as many rows as are said to be needed passes Holm's first step in four of five samples."""
    rng = np.random.default_rng(0)
    n, difference, spread = 1000, 0.01, 0.4
    pair = compared(difference, 0.4).pairs[0]
    error = spread / math.sqrt(n)
    pair = replace(pair, low=difference - 1.959964 * error, high=difference + 1.959964 * error)
    needed = rows_needed(pair, pairs)
    assert rows_needed(replace(pair, detectable=2.801585 * error), pairs) == pytest.approx(needed)
    z = (difference + spread / math.sqrt(needed) * rng.normal(size=20000)) / (spread / math.sqrt(needed))
    assert (pairs * 2.0 * ndtr(-np.abs(z)) <= 0.05).mean() == pytest.approx(0.8, abs=0.01)


def small(comparison, **given):
    (note,) = [n for n in guard(setup(comparison=comparison, **given)) if n.code in ("too-small", "too-few-units")]
    return note.message


def test_the_note_of_a_small_set_says_how_many_rows():
    said = small(compared(0.005, 0.6, detectable=0.05))
    assert "on 1000 rows: about 100,000 rows are needed; do not call" in said
    assert "no difference was observed" in small(compared(0.0, 1.0))
    assert "no difference" not in small(compared(1e-9, 1.0, detectable=math.inf))


@pytest.mark.parametrize(("n", "detectable"), [(1249, 0.010001), (1249, 0.0099), (999, 0.0100001), (123456, 0.01001)])
def test_more_rows_are_needed_than_there_are(n, detectable):
    said = small(compared(0.01, 0.06, detectable=detectable, n=n))
    number = re.search(r"about ([\d,]+) rows", said)
    assert int(number[1].replace(",", "")) > n if number else "slightly more rows" in said


@pytest.mark.parametrize(
    ("comparison", "said"),
    [
        (many(18, 10), "10 units allow p ≥ 0.0020, and 0.30 after correction for 153 pairs: no pair can be "
         "significant; name a baseline (17 pairs), compare fewer models, or collect at least 13 units"),
        (many(18, 9), "153 pairs: no pair can be significant; compare fewer models, or collect at least 13 units"),
        (many(18, 9, "m0"), "for 17 pairs: no pair can be significant; compare fewer models, "
         "or collect at least 10 units"),
        (many(2, 5), "5 units allow p ≥ 0.0625: no pair can be significant; collect at least 6 units"),
        (many(2, 1), "one unit allows p ≥ 1.00: no pair can be significant; collect at least 6 units"),
    ],
)  # fmt: skip
def test_the_note_of_few_units_says_what_would_do(comparison, said):
    assert small(comparison, units="u").endswith(said)


@pytest.mark.parametrize("pairs", [1, 3, 17, 153])
def test_the_least_units_are_those_at_which_the_clearest_difference_passes(pairs):
    """By the tests themselves: the first pair differs in one direction in every unit, the others not at all."""

    def corrected(m):
        clear = exact(np.arange(1.0, m + 1.0), 1 << m)
        assert clear == pytest.approx(smallest_p(m))
        return holm(np.array([clear] + [1.0] * (pairs - 1)))[0]

    least = least_units(pairs, 0.95)
    assert corrected(least) <= 0.05 < corrected(least - 1)


# ------------------------------------------------------------------------------------------------- many models
def test_notes_of_many_models_with_long_names_are_short():
    names = [f"resnet50-augmented-and-distilled-from-a-larger-model-run-{k:02}" for k in range(18)]
    columns = {"prompt": np.arange(N) // 4}
    models = {name: made(k, members=1 + k % 6, columns=columns) for k, name in enumerate(names)}
    models[names[3]] = models[names[4]]
    models |= {name: fitted(made(0), made(k)) for k, name in enumerate(names[10:17])}
    scores = ("ece", "tace", "mce", "classwise_ece", "skce", "nll", "misclassification_auroc", "avu")
    found = [
        *guard(
            setup(models, scores=scores, clean=models, comparison=replace(many(2, 1000), ranking=ranked("m0", "m1")))
        ),
        *guard(setup(models, units="prompt", pool=names[5])),
        *guard(setup({name: made(k, ids=IDS)[: N - k] for k, name in enumerate(names)})),
        *guard(setup({name: made(k, classes=4 + k % 7) for k, name in enumerate(names)})),
    ]
    assert len({note.code for note in found}) >= 10
    for note in found:
        assert len(note.message) <= 260, note.message
        assert note.message.count(names[0][:14]) <= 5


def test_members_are_counted_by_number():
    models = {**{f"m{k}": made(k) for k in range(16)}, "human": made(20, members=8), "control": made(21, members=8)}
    (note,) = guard(setup(models))
    assert "differ (1: 16 models; 8: human, control): compare" in note.message


def test_a_pool_is_one_that_was_named():
    assert codes(setup({"": FIVE.member(0), "b": FIVE})) == set()
    assert codes(setup({"": FIVE, "b": FIVE.member(1)}, pool="")) == {"pool-overlap"}
