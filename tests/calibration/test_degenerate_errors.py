"""Every metric of one-probability, class-wise, selective and detection kind on input that gives it little or nothing.

A value is finite, or it is infinite or undefined for a reason that stands in `NOT_FINITE`; never by accident.
"""

import json
import math

import numpy as np
import pytest

import calibrant as cal
from calibrant.registry.lookup import parse

Classification, Judged, Detection = cal.Classification, cal.Judged, cal.Detection
INF, NAN = math.inf, math.nan
THREE = [[0.2, 0.5, 0.3], [0.6, 0.3, 0.1], [0.1, 0.1, 0.8]]
EYE = np.eye(3)[[0, 1, 2, 0, 1, 2]]


def dirichlet(rows, classes, concentration=1.0, seed=0):
    return np.random.default_rng(seed).dirichlet(np.full(classes, concentration), rows)


CASES = {
    "one row": Classification.from_probs([[0.2, 0.5, 0.3]], [1]),
    "one binary row": Classification.from_probs([0.7], [1]),
    "one row of members": Classification.from_logits(np.random.default_rng(0).normal(size=(3, 1, 4)), [2]),
    "two rows": Classification.from_probs(THREE[:2], [1, 2]),
    "two binary rows": Classification.from_probs([0.7, 0.4], [1, 1]),
    "one class present": Classification.from_probs([0.1, 0.6, 0.8, 0.3], [1, 1, 1, 1]),
    "all right": Classification.from_probs(THREE, [1, 0, 2]),
    "all wrong": Classification.from_probs(THREE, [0, 1, 0]),
    "certain and right": Classification.from_probs(EYE, [0, 1, 2, 0, 1, 2]),
    "certain and wrong": Classification.from_probs(EYE, [1, 2, 0, 1, 2, 0]),
    "certain": Classification.from_probs([0.0, 1.0, 0.0, 1.0, 1.0], [0, 1, 1, 1, 0]),
    "equal confidences": Classification.from_probs(np.full((6, 3), 1 / 3), [0, 1, 2, 0, 1, 1]),
    "halves": Classification.from_probs([0.5] * 4, [0, 1, 1, 0]),
    "fewer rows than bins": Classification.from_probs(dirichlet(5, 3), [0, 1, 2, 1, 0]),
    "five hundred classes": Classification.from_probs(dirichlet(3, 500, 0.05), [0, 1, 2]),
    "soft labels": Classification.from_probs(dirichlet(6, 3), label_probs=dirichlet(6, 3, seed=1)),
    "soft binary labels": Classification.from_probs(dirichlet(6, 2), label_probs=dirichlet(6, 2, seed=1)),
    "one weight": Classification.from_probs([0.1, 0.6, 0.8, 0.3], [0, 1, 1, 1], weights=[0.0, 1.0, 0.0, 0.0]),
    "two weights": Classification.from_probs([0.1, 0.6, 0.8, 0.3], [0, 1, 1, 1], weights=[0.0, 1.0, 0.5, 0.0]),
    "one unit": Classification.from_probs([0.1, 0.6, 0.8, 0.7], [0, 1, 0, 1], columns={"unit": [7] * 4}),
    "two units": Classification.from_probs([0.1, 0.6, 0.8, 0.7], [0, 1, 0, 1], columns={"unit": [7, 7, 8, 8]}),
    "impossible label": Classification.from_logits([[0.0, -np.inf], [1.0, 2.0]], [1, 0]),
    "neighbouring floats": Classification.from_probs([0.5, 0.6, np.nextafter(0.6, 1.0), 0.1], [0, 1, 0, 1]),
    "one answer": Judged.from_confidence([0.4], [1]),
    "one answer of members": Judged.from_confidence([[0.4], [0.6]], [1]),
    "two answers": Judged.from_confidence([0.4, 0.6], [1, 0]),
    "right answers": Judged.from_confidence([0.4, 0.6, 0.9], [1, 1, 1]),
    "wrong answers": Judged.from_confidence([0.4, 0.6, 0.9], [0, 0, 0]),
    "equal answers": Judged.from_confidence([0.4] * 5, [1, 0, 0, 1, 1]),
    "certain answers": Judged.from_confidence([1.0, 1.0, 0.0, 0.0], [1, 0, 0, 1]),
    "no confidence": Judged.from_confidence([0.0, 0.0, 0.0], [0, 0, 0]),
    "no confidence, but right": Judged.from_confidence([0.0, 0.0, 0.0], [1, 1, 0]),
    "weighted answers": Judged.from_confidence([0.4, 0.6, 0.9], [1, 1, 0], weights=[0, 1, 1]),
    "one unit of answers": Judged.from_confidence([0.4, 0.6, 0.9], [1, 1, 0], columns={"unit": ["a"] * 3}),
    "equal scores": Detection.from_scores([1.0] * 4, [1.0] * 3),
    "one inside, one outside": Detection.from_scores([0.0], [1.0]),
    "infinite scores": Detection.from_scores([0.0, 1.0, -np.inf], [np.inf, 2.0, np.inf]),
    "infinite scores alone": Detection.from_scores([np.inf] * 2, [np.inf] * 3),
    "as many infinite scores": Detection.from_scores([np.inf, 0.0], [np.inf, 1.0]),
    "scores with few weights": Detection.from_scores([0.0, 1.0], [2.0, 3.0], weights=[0, 1, 1, 0]),
    "inside without weight": Detection.from_scores([0.0, 1.0], [2.0, 3.0], weights=[0, 0, 1, 1]),
    "one unit of scores": Detection.from_scores([0.0, 1.0, 3.0], [2.0, 3.0, 4.0], columns={"unit": [1] * 6}),
    "huge scores": Detection.from_scores([-1e308, 0.0], [1e308, 1.0]),
}
VARIANTS = [
    "ece(binning=mass)", "ece(norm=max)", "tce(debias=true)", "tce(p=100)", "sweep_ece(p=2)", "mmce(weighted=true)",
    "cwce(p=1)", "cwce(p=100,average=true)", "cwce(bins=1)", "ace(weights=kept)", "tace(printed=true)",
    "tace(threshold=1)", "tace(threshold=0.5,weights=kept)", "intercept(slope=one)", "ici(summary=median)",
    "ici(summary=p90)", "ici(summary=max)", "ici(degree=1,span=0.05)", "hosmer_lemeshow(groups=1000)",
    "top_k_ece(k=1)", "top_k_ece(k=2,form=rank)", "avu(threshold=0)", "aurc(score=margin)",
]  # fmt: skip

ONLY_HITS = {"slope": NAN, "intercept": INF, "intercept(slope=one)": INF}
"""The likelihood of the line rises for ever with the intercept."""
ONLY_MISSES = {"slope": NAN, "intercept": -INF, "intercept(slope=one)": -INF}
RISING = {"slope": INF, "intercept": NAN}
"""A threshold on p separates hits from misses."""
FALLING = {"slope": -INF, "intercept": NAN}
ONE_P = {"slope": NAN, "intercept": NAN}
"""No line through a single p."""
NO_ERRORS = {"misclassification_auroc": NAN, "misclassification_aupr": NAN, "p_uncertain_inaccurate": NAN}
NO_HITS = {"misclassification_auroc": NAN, "misclassification_aupr": NAN}
"""Nothing to tell the errors from."""
ONE_CLASS = {"roc_auc": NAN, "average_precision": NAN}
NO_VARIANCE = {"spiegelhalter_z": NAN}
"""Every p is 0, ½ or 1."""
NO_PAIRS = {"ce": NAN, "skce": NAN}
"""One row has no other beside it."""
DEPENDENT = {"log_e_value": NAN}
FORBIDDEN = {"hosmer_lemeshow": INF, "hosmer_lemeshow(groups=1000)": INF, "log_e_value": INF}
IMPOSSIBLE = {"nll": INF, "upper_bound(score=nll)": INF, "entropy_gap": INF} | FORBIDDEN
"""What had probability 0 has happened."""


def of_class_1(expected):
    """The same of class 1."""
    return {(f"{s[:-1]},of=1)" if s.endswith(")") else f"{s}(of=1)"): value for s, value in expected.items()}


NOT_FINITE = {
    "one row": ONLY_HITS | NO_ERRORS | NO_VARIANCE | NO_PAIRS,
    "one binary row": ONLY_HITS | of_class_1(ONLY_HITS) | NO_ERRORS | ONE_CLASS | NO_PAIRS,
    "one row of members": ONLY_HITS | NO_ERRORS | NO_PAIRS,
    "two rows": FALLING,
    "two binary rows": RISING | of_class_1(ONLY_HITS) | ONE_CLASS,
    "one class present": of_class_1(ONLY_HITS) | ONE_CLASS,
    "all right": ONLY_HITS | NO_ERRORS,
    "all wrong": ONLY_MISSES | NO_HITS,
    "certain and right": ONLY_HITS | NO_ERRORS | NO_VARIANCE,
    "certain and wrong": ONLY_MISSES | NO_HITS | NO_VARIANCE | IMPOSSIBLE,
    "certain": ONE_P | NO_VARIANCE | IMPOSSIBLE | of_class_1(
        NO_VARIANCE | FORBIDDEN
    ),
    "equal confidences": ONE_P,
    "halves": ONE_P | NO_VARIANCE | of_class_1(ONE_P | NO_VARIANCE),
    "five hundred classes": ONLY_MISSES | NO_HITS,
    "one weight": ONLY_HITS | of_class_1(ONLY_HITS) | NO_ERRORS | ONE_CLASS,
    "two weights": ONLY_HITS | of_class_1(ONLY_HITS) | NO_ERRORS | ONE_CLASS,
    "impossible label": ONLY_MISSES | NO_HITS | IMPOSSIBLE | of_class_1(
        FALLING | FORBIDDEN
    ),
    "neighbouring floats": FALLING,
    "one answer": ONLY_HITS | NO_HITS,
    "one answer of members": ONLY_HITS | NO_HITS | NO_VARIANCE,
    "two answers": FALLING,
    "right answers": ONLY_HITS | NO_HITS,
    "wrong answers": ONLY_MISSES | NO_HITS,
    "equal answers": ONE_P,
    "certain answers": NO_VARIANCE | IMPOSSIBLE,
    "no confidence": ONLY_MISSES | NO_HITS | NO_VARIANCE | {"o_e": NAN},
    "no confidence, but right": ONE_P | NO_VARIANCE | IMPOSSIBLE | {"o_e": INF},
    "weighted answers": FALLING,
    "one unit of answers": FALLING | DEPENDENT,
    "one unit": DEPENDENT | of_class_1(DEPENDENT),
    "two units": DEPENDENT | of_class_1(DEPENDENT),
    "infinite scores": {"wasserstein": INF},
    "inside without weight": dict.fromkeys(
        ("auroc", "aupr_in", "aupr_out", "detection_accuracy", "fpr95", "fpr95(level=1)", "wasserstein"), NAN
    ),
}  # fmt: skip


def specs_of(predictions):
    """Every metric of the task, and variants; of two classes also of class 1."""
    names = [name for name, metric in cal.metrics().items() if predictions.task in metric.tasks]
    if predictions.task == "detection":
        return [*names, "fpr95(level=1)"]
    specs = [*names, *VARIANTS, "upper_bound(score=nll)"]
    if getattr(predictions, "classes", 0) == 2:
        specs += of_class_1({s: 0 for s in specs if "of" in parse(s).options})
    return specs


@pytest.fixture(scope="module", params=CASES)
def case(request):
    predictions = CASES[request.param]
    units = "unit" if "unit" in predictions.columns else None
    return request.param, cal.evaluate(predictions, specs_of(predictions), resamples=20, units=units)


BY_STUDENTS_T = ("mean_gap", "entropy_gap", "pit", "coverage_gap")
"""Means that have a p-value without a band for units and soft labels."""


def test_values_are_finite_or_not_for_a_reason(case):
    name, evaluation = case
    found = {s: e.value for s, e in evaluation.results[0].metrics.items() if not math.isfinite(e.value)}
    expected = {s: v for s, v in NOT_FINITE.get(name, {}).items() if s in evaluation.results[0].metrics}
    assert str(dict(sorted(found.items()))) == str(dict(sorted(expected.items())))


def test_what_stands_beside_them_is_in_order(case):
    _, evaluation = case
    json.loads(evaluation.dumps())  # allows no NaN
    for spec, e in evaluation.results[0].metrics.items():
        low, high = cal.metrics()[spec.split("(")[0]].limits
        if math.isfinite(e.value):
            assert low <= e.value <= high, (spec, e)
        else:
            assert e.method == "none", (spec, e)
        assert math.isnan(e.low) == math.isnan(e.high) == (e.method == "none"), (spec, e)
        assert math.isnan(e.low) or low <= e.low <= e.high <= high, (spec, e)
        assert math.isnan(e.null_low) == math.isnan(e.null_high), (spec, e)
        assert math.isnan(e.null_low) == math.isnan(e.p_value) or (
            (
                spec.startswith(BY_STUDENTS_T)
                or e.method == "test-inversion"  # units and soft labels: no band, but a test
            )
            and e.p_value > 0.0
        )
        assert math.isnan(e.null_low) or (e.null_low <= e.null_high and e.p_value <= 1.0), (spec, e)
        impossible = e.null_low == e.null_high or e.value == INF  # what the model excludes has happened
        assert e.p_value != 0.0 or (impossible and spec.startswith((*BY_STUDENTS_T, "log_e_value"))), (spec, e)
        assert math.isnan(e.detectable) or 0.0 <= e.detectable <= high, (spec, e)


def test_one_unit_tells_nothing_of_how_far_a_value_may_vary():
    for name in ("one unit", "one unit of answers", "one unit of scores"):
        result = cal.evaluate(CASES[name], specs_of(CASES[name]), units="unit", resamples=20).results[0]
        assert {spec: e for spec, e in result.metrics.items() if e.method != "none"} == {}


# ------------------------------------------------------------------------------------- by hand
SQ = math.sqrt
BY_HAND = [
    ("one row", {"ece": 0.5, "tce": 0.5, "mce": 0.5, "ks": 0.5, "mmce": 0.5, "smooth_ece": 0.5, "sweep_ece": 0.5}),
    ("one row", {"cwce": SQ(0.38), "cwce(p=1)": 1.0, "sce": 1 / 3, "ace": 1 / 3, "kde_tce": 0.5, "ici": 0.5}),
    ("one row", {"o_e": 2.0, "hosmer_lemeshow": 1.0, "aurc": 0, "e_aurc": 0, "avu": 1, "tce(debias=true)": 0}),
    ("one binary row", {"cwce": SQ(0.18), "ece(of=1)": 0.3, "ks(of=0)": 0.3, "spiegelhalter_z(of=1)": -SQ(3 / 7)}),
    ("two rows", {"ece": 0.55, "tce": SQ(0.305), "mce": 0.6, "ks": 0.25, "o_e": 1 / 1.1}),
    ("two rows", {"ece(bins=1)": 0.05, "mmce": SQ(0.61 - 0.6 * math.exp(-0.25)) / 2}),
    ("two rows", {"aurc": 0.75, "e_aurc": 0.5, "misclassification_auroc": 0}),
    ("all right", {"o_e": 3 / 1.9, "ece": 1.1 / 3, "ks": 1.1 / 3, "aurc": 0, "aac": 0, "sweep_ece": 1.1 / 3}),
    ("all wrong", {"o_e": 0, "ece": 1.9 / 3, "ks": 1.9 / 3, "aurc": 1, "e_aurc": 0, "aac": 1}),
    ("certain and wrong", {"cwce": SQ(1.5), "cwce(p=1)": 2, "sce": 2 / 3, "ace": 1 / 3, "ks": 1, "mmce": 1, "o_e": 0}),
    ("certain", {"ece(of=1)": 0.4, "ks(of=1)": 0.2, "cwce(p=1)": 0.8, "slope(clip=0.01)": NAN}),
    ("equal confidences", {"ece": 0, "cwce": SQ((1 / 6) ** 2 * 2), "ks": 0, "hosmer_lemeshow": 0, "aurc": 2 / 3}),
    ("halves", {"cwce": 0, "ks": 0, "avu": 0.5, "avu_auc": 0.5, "uce": 0.5, "roc_auc": 0.5}),
    ("one weight", {"ece": 0.4, "ks": 0.4, "mmce": 0.4, "cwce": SQ(0.32), "o_e": 1 / 0.6, "aurc": 0}),
    ("certain answers", {"o_e": 1, "slope": 0, "intercept": 0, "ece": 0.5, "ks": 0.25, "tce": 0.5}),
    ("no confidence, but right", {"ece": 2 / 3, "ks": 2 / 3, "intercept(slope=one)": math.log(2) - math.log(1e-7)}),
    ("equal scores", {"auroc": 0.5, "aupr_out": 3 / 7, "aupr_in": 4 / 7, "fpr95": 1, "detection_accuracy": 0.5}),
    ("one inside, one outside", {"auroc": 1, "aupr_in": 1, "fpr95": 0, "detection_accuracy": 1, "wasserstein": 1}),
    ("infinite scores", {"auroc": 1, "fpr95": 0, "detection_accuracy": 1, "aupr_out": 1}),
    ("infinite scores alone", {"auroc": 0.5, "wasserstein": 0}),
    ("as many infinite scores", {"auroc": 0.625, "wasserstein": 0.5, "fpr95": 0.5}),
    ("scores with few weights", {"auroc": 1, "wasserstein": 1}),
    ("huge scores", {"auroc": 1, "aupr_out": 1}),
]


@pytest.mark.parametrize(("name", "expected"), BY_HAND, ids=lambda x: x if isinstance(x, str) else "")
def test_values_by_hand(name, expected):
    measured = cal.measure(CASES[name], list(expected))
    assert measured == pytest.approx(expected, abs=1e-6, nan_ok=True)


def test_bins_of_both_classes_are_their_own():
    """.2 and .25 are in two bins of five, .8 and .75 in one: the second class is not the mirror image of the first."""
    predictions = Classification.from_probs([[0.8, 0.2], [0.75, 0.25]], [0, 1])
    v = cal.measure(
        predictions, "cwce(p=1,bins=5),ece(of=0,bins=5),ece(of=1,bins=5),cwce(bins=5),brier_reliability(bins=5)"
    )
    first, second = abs(0.2 - 0.75) / 2, (0.2 + 0.75) / 2
    assert list(v.values())[:3] == pytest.approx([first + second, first, second], abs=1e-9)
    assert v["cwce(bins=5)"] ** 2 == pytest.approx(v["brier_reliability(bins=5)"], abs=1e-9)


def test_neighbouring_floats_leave_no_empty_bin_of_equal_mass():
    """The midpoint of neighbouring floats is one of them: the upper would leave nothing above the edge."""
    for start in (0.6, 0.3, 0.1):
        ladder = [start]
        for _ in range(7):
            ladder.append(np.nextafter(ladder[-1], 1.0))
        judged = Judged.from_confidence(ladder, [0, 1] * 4)
        for spec in ("ks", "smooth_ece", "mmce", "ece(binning=mass)", "ici"):
            e = cal.evaluate(judged, spec, resamples=20)[spec]
            assert 0 <= e.low <= e.high <= 1, (spec, e)


def test_weights_of_all_sizes():
    """Some vanish beside others: cells that they fill alone have no weight, and only hits may be left."""
    weights = [1e-300, 1e-300, 1.0, 1e-20, 0.5, 1e-300, 1.0]
    predictions = Classification.from_probs(
        [0.1, 0.6, 0.8, 0.3, 0.45, 0.9, 0.2], [0, 1, 1, 1, 0, 0, 1], weights=weights
    )
    result = cal.evaluate(predictions, "all", resamples=20).results[0]
    for spec in ("ks", "mmce", "smooth_ece", "ici", "ece", "o_e"):
        assert result[spec].low <= result[spec].high
    assert result["accuracy"].value == pytest.approx(1.5 / 2.5)


def test_redrawn_outcomes_of_tied_rows_with_unequal_weights_stay_possible():
    """The number of hits of a run is scaled to the variance of its weights, and may not leave 0 … Σw."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        p, w = rng.choice([0.02, 0.03, 0.05, 0.9, 0.97], 15), rng.exponential(size=15) ** 3
        judged = Judged.from_confidence(p, rng.random(15) < 0.3, weights=w)
        result = cal.evaluate(judged, "o_e,intercept(slope=one),slope", resamples=30).results[0]
        assert math.isnan(result["o_e"].null_low) or result["o_e"].null_low >= 0.0
