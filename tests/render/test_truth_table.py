"""Verdicts on simulated models of known truth, a part of `python -m evidence.truth_table`, and former errors."""

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import t

import calibrant as cal
from evidence.truth_table import (
    MODELS,
    ONE,
    OPEN,
    RIGHT,
    SIZES,
    Said,
    by_predicted_class,
    contradictions,
    draw,
    judge,
    simulate,
    verdicts,
)

NAMES = [model.name for model in MODELS]


@pytest.mark.parametrize("place", range(len(MODELS)), ids=NAMES)
def test_no_command_is_wrong_or_contradicts_another(place):
    """Faulty models are found at n = 2000, and right ones called calibrated at 20,000; none is judged wrongly."""
    for n in SIZES:
        outcome = simulate((place, n, 0))
        judged = dict(outcome.judged)
        assert not outcome.opposite
        assert not outcome.contradictions
        assert set(judged.values()) <= {RIGHT, OPEN}
        if MODELS[place].perfect:
            found = {judged[name] for name in ("evaluate", "check", "report") if name in judged}
            assert n < 20_000 or found == {RIGHT}
        else:
            found = {judged[name] for name in ("evaluate", "recalibrate") if name in judged}
            assert n < (20_000 if MODELS[place].small else 2_000) or found == {RIGHT}


def test_right_models_are_seldom_accused():
    """By `evaluate` or `check`: at most 5% in law; the bound is exceeded with probability 0.2%."""
    accused = total = 0
    for place in (k for k, model in enumerate(MODELS) if model.perfect):
        for seed in range(20):
            predictions = MODELS[place].make(600, np.random.default_rng([7, seed, place]))
            model = MODELS[place]
            said = verdicts(predictions, None, seed, ONE if model.commands == ONE else (), model.units)
            accused += any(judge(MODELS[place], item) == "wrong" for item in said)
            total += 1
    assert accused <= 20, f"{accused} of {total}"


def test_what_counts_as_a_contradiction():
    evaluate, check = Said("evaluate", "miscalibrated", ("overestimates",)), Said("check", "miscalibrated", ())
    assert not contradictions([evaluate, check])
    assert contradictions([evaluate, Said("check", "miscalibrated", ("underestimates",))])
    assert contradictions([evaluate, Said("check", "calibrated", ())])
    assert contradictions([evaluate, Said("compare", "miscalibrated", ())])
    assert not contradictions([evaluate, Said("check", "inconclusive", ())])
    assert contradictions([evaluate, Said("check", "negligible", ())])
    assert not contradictions([evaluate, Said("check", "negligible", ("overestimates",))])


# ------------------------------------------------------------------------- what was once said wrongly
def label_shift(n=4000):
    """Binary predictions with P(1) 3.3 times too high, of which the top label is right as often as it says.

    Confidence is always 75%: a quarter of the rows are called positive, and 22.5% of them are; 7.5% of the others are.
    """
    rng = np.random.default_rng(0)
    high = rng.random(n) < 0.25
    p, risk = np.where(high, 0.75, 0.25), np.where(high, 0.225, 0.075)
    return cal.Classification.from_probs(p, (rng.random(n) < risk).astype(int))


def test_the_top_label_does_not_show_a_label_shift():
    result = cal.evaluate(label_shift(), "ece,ece(of=1)", curves=False)
    assert result["ece"].p_value > 0.05
    assert result["ece(of=1)"].value == pytest.approx(0.2625, abs=0.02)


@pytest.mark.parametrize("metrics", ["default", "ece", "ks", "ece(of=1)", "smooth_ece"])
def test_label_shift_is_found_whatever_metrics_are_requested(metrics):
    verdict = cal.evaluate(label_shift(), metrics, curves=False).verdict
    assert (verdict.status, verdict.direction[0]) == ("miscalibrated", "overestimates")
    assert "% positives" in verdict.headline


@pytest.mark.parametrize("metrics", ["default", "ece", "cwce", "accuracy,sce"])
def test_errors_of_classes_are_found_whatever_metrics_are_requested(metrics):
    """Confidence in class 0 is 15 points too high, in class 1 too low: the errors of the top label cancel."""
    predictions = by_predicted_class(6000, np.random.default_rng(1))
    result = cal.evaluate(predictions, metrics, curves=False)
    assert result.verdict.status == "miscalibrated"
    assert "predicts class" in result.verdict.headline
    assert "--method vector" in result.verdict.next_step


def test_a_headline_about_classes_quotes_their_error_and_advice_agrees():
    """All but the top class have the probability of another one: no class is too likely, and confidence is right."""
    rng = np.random.default_rng(3)
    p = np.sort(softmax(1.5 * rng.normal(size=(8000, 4)), axis=1))  # the top class comes last
    classes = rng.permuted(np.tile(np.arange(4), (8000, 1)), axis=1)
    truth, said = np.empty_like(p), np.empty_like(p)
    np.put_along_axis(truth, classes, p, axis=1)
    np.put_along_axis(said, classes, p[:, [2, 0, 1, 3]], axis=1)
    predictions = cal.Classification.from_probs(said, draw(truth, rng))
    verdict = cal.evaluate(predictions, "ece", curves=False).verdict
    check = cal.check(predictions, draws=1000).results[0].verdict
    error = cal.measure(predictions, "cwce")["cwce"]
    assert verdict.headline == f"Miscalibrated by class; no single class stands out: CWCE {error:.4f}"
    assert verdict.direction == check.direction == ()
    assert "--method vector" in verdict.next_step
    assert check.next_step == verdict.next_step


def test_classes_are_named_however_many_there_are():
    """Of 60 classes the gap of each is small, also where half of the probability is on the wrong classes."""
    rng = np.random.default_rng(4)
    z, bias = 0.3 * rng.normal(size=(12_000, 60)), np.repeat([0.9, 0.0], 30)
    predictions = cal.Classification.from_logits(z + bias, draw(softmax(z, axis=1), rng))
    verdict = cal.evaluate(predictions, "ece", curves=False).verdict
    shares = verdict.classes
    assert all((int(item.name) < 30) == (item.predicted > item.observed) for item in shares)
    assert len(shares) > 30
    assert verdict.headline.startswith("Overpredicts class")
    assert "--method vector" in verdict.next_step


def rare_risk(n=20_000, factor=0.5):
    """Risks of an event of 2%, halved by default: no error is above 0.02, and the risk is off by its half."""
    rng = np.random.default_rng(5)
    p = rng.beta(0.3, 15.0, n)
    return cal.Classification.from_probs(factor * p, (rng.random(n) < p).astype(int))


@pytest.mark.parametrize("factor", [0.1, 0.5])
def test_errors_of_rare_risks_are_relevant_beside_their_rate(factor):
    predictions = rare_risk(factor=factor)
    verdict, check = cal.evaluate(predictions, "ece", curves=False).verdict, cal.check(predictions).results[0].verdict
    for found in (verdict, check):
        assert (found.status, found.direction[0]) == ("miscalibrated", "underestimates")
    rate = predictions.labels.mean()
    assert [test.relevant_error for test in verdict.evidence if test.relevant_error > 0] == pytest.approx(
        [rate / 4] * 2
    )
    assert cal.evaluate(predictions, "ece", curves=False, relevant_error=0.05).verdict.status == "negligible"


def test_advice_for_regression_is_a_method_for_regression():
    rng = np.random.default_rng(6)
    y = rng.normal(size=2000)
    verdict = cal.evaluate(cal.Regression.from_gaussian(np.zeros(2000), np.full(2000, 0.6), y), curves=False).verdict
    assert "--method variance" in verdict.next_step
    assert verdict.headline.startswith("Too narrow (coverage averaged over all levels: ")


def test_the_slope_of_dependent_rows_is_tested_by_its_interval():
    rng = np.random.default_rng(7)
    p = np.repeat(rng.uniform(0.5, 1.0, 400), 2)
    right = np.repeat(rng.random(400), 2) < p
    judged = cal.Judged.from_confidence(p, right, columns={"prompt": np.arange(800) // 2})
    result = cal.evaluate(judged, "slope,ece", units="prompt", curves=False)
    slope = next(test for test in result.verdict.evidence if test.metric == "slope")
    error = (slope.estimate.high - slope.estimate.low) / 2 / 1.959964
    assert slope.p_value == pytest.approx(2 * t.sf(abs(slope.estimate.value - 1) / error, 399), rel=1e-6)


def test_rows_that_may_depend_on_each_other_are_noticed(tmp_path):
    rng = np.random.default_rng(8)
    p = rng.uniform(0.5, 1.0, 200)
    judged = cal.Judged.from_confidence(p, rng.random(200) < p, columns={"prompt": np.arange(200) // 2})
    noticed = lambda evaluation: any(note.code == "dependent-rows" for note in evaluation.warnings)  # noqa: E731
    assert noticed(cal.evaluate(judged, "ece"))
    assert noticed(cal.check(judged, "ece"))
    assert not noticed(cal.evaluate(judged, "ece", units="prompt"))
    assert noticed(cal.evaluate(judged, "ece", by="prompt:2"))  # groups are no units
    cal.write(judged, tmp_path / "x.npz")
    assert noticed(cal.evaluate(cal.scan(tmp_path / "x.npz"), "ece"))
    both = cal.recalibrate(judged, judged.named("again"), "none", resamples=100).evaluation.warnings
    assert sum(note.code == "dependent-rows" for note in both) == 1


def test_a_metric_of_the_top_label_beside_a_verdict_on_the_positive_class_says_so():
    text = str(cal.evaluate(rare_risk(2000), "mean_gap,o_e(of=1)"))
    assert "mean_gap: of the top label; the verdict is about the positive class: use mean_gap(of=1)" in " ".join(
        text.split()
    )
    assert "of the top label" not in str(cal.evaluate(rare_risk(2000), "mean_gap(of=1),nll"))
    bins = " ".join(str(cal.evaluate(rare_risk(2000), "ece(bins=10)")).split())
    assert "ece(bins=10): of the top label; the verdict is about the positive class: use ece(bins=10,of=1)" in bins
    for quiet in ("ece(bins=10),ece(bins=10,of=1)", "report", None):
        assert "of the top label" not in str(cal.evaluate(rare_risk(2000), quiet, curves=False))


def test_binary_models_are_compared_and_recalibrated_without_notes_on_the_default_metrics():
    """Scores of comparisons such as cll are no metrics with options."""
    first, second = rare_risk(600, 1.0), rare_risk(600, 0.5)
    compared, fixed = (
        cal.compare({"a": first, "b": second}, resamples=100),
        cal.recalibrate(first, second, resamples=100),
    )
    for shown in (str(compared), compared._repr_html_(), str(fixed)):
        assert "of the top label" not in shown


def test_a_check_of_a_few_statistics_knows_the_rate_of_a_rare_class():
    tests = cal.check(rare_risk(), "accuracy,ece(of=1)").results[0].verdict.evidence
    rate = rare_risk().labels.mean()
    assert [test.relevant_error for test in tests] == pytest.approx([rate / 4] * 2)


def test_the_slope_is_tested_at_its_level_with_few_units_or_not_at_all():
    """By Student's t from 20 units on: a perfect model is rejected at 5% in at most 9% of 200 data sets."""
    rejected = []
    for seed in range(200):
        rng = np.random.default_rng([11, seed])
        units = 12 if seed == 0 else 24
        who = np.repeat(np.arange(units), 6)
        p = np.repeat(rng.uniform(0.5, 1.0, units), 6)
        judged = cal.Judged.from_confidence(p, np.repeat(rng.random(units), 6) < p, columns={"prompt": who})
        family = {
            test.metric: test for test in cal.evaluate(judged, "slope", units="prompt", curves=False).verdict.evidence
        }
        if seed == 0:
            assert family["slope"].reason == "12 units are too few"
        elif family["slope"].tested:
            rejected.append(family["slope"].p_value < 0.05)
    assert len(rejected) > 150
    assert np.mean(rejected) < 0.09


def test_advice_is_the_same_in_evaluate_and_check():
    """One class too likely: a temperature cannot fix it, whatever the headline is about."""
    model = next(item for item in MODELS if "label shift" in item.name)
    predictions = model.make(6000, np.random.default_rng(3))
    steps = {
        cal.evaluate(predictions, "ece", curves=False).verdict.next_step,
        cal.check(predictions).results[0].verdict.next_step,
    }
    assert len(steps) == 1
    assert "--method vector" in steps.pop()


def test_a_p_value_is_small_exactly_where_an_error_lies_above_its_band():
    """Two-sided, in the upper tail only: `within the range` beside p = 0.034 is impossible."""
    rng = np.random.default_rng(2)
    seen = set()
    for seed in range(40):
        p = rng.uniform(0.5, 1.0, 300)
        judged = cal.Judged.from_confidence(p, rng.random(300) < p - rng.choice([0.0, 0.05]))
        result = cal.evaluate(judged, "ece,ks,tce", resamples=500, seed=seed, curves=False)
        for name in ("ece", "ks", "tce"):
            e = result[name]
            above = e.value > e.null_high
            assert above == (e.p_value < 0.05) or abs(e.p_value - 0.05) < 0.005, (name, e)
            seen.add(above)
    assert seen == {True, False}
