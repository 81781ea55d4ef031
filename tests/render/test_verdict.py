"""Verdicts on simulated models whose truth is known, and on the demonstration's files."""

import json
from dataclasses import replace

import numpy as np
import pytest
from evaluations import evaluate_with

import calibrant as cal
from calibrant.demo import demo_path
from calibrant.render.verdicts.api import verdict

METRICS = "accuracy,nll,ece,ks,misclassification_auroc"


def judged(evaluation):
    """The verdict, which is the same when the evaluation was stored and read back."""
    found = verdict(evaluation)
    assert found == verdict(cal.Evaluation.from_json(json.loads(evaluation.dumps())))
    for item in (found, *found.inputs):
        assert 0 < len(item.headline) <= 80
        assert item.tone in ("good", "warn", "bad", "neutral")
    return found


def topics(found, name):
    """The points on a topic."""
    return [p for item in found.inputs for p in item.points if p.topic == name]


def topic(found, name):
    """The one point on a topic."""
    (point,) = topics(found, name)
    return point


def classes(n=4000, scale=1.0, seed=0, **known):
    """Labels are drawn from softmax(z); the predictions are softmax(scale · z)."""
    rng = np.random.default_rng(seed)
    z = 2.0 * rng.normal(size=(n, 4))
    p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    labels = (p.cumsum(1) < rng.uniform(size=(n, 1))).sum(1)
    return cal.Classification.from_logits(scale * z, labels, **known)


def answers(confidence, chance, seed=0):
    """Answers of some confidence that are right with some chance."""
    rng = np.random.default_rng(seed)
    return cal.Judged.from_confidence(np.asarray(confidence), rng.uniform(size=len(confidence)) < chance)


def numbers(n=2000, spread=1.0, shift=0.0, seed=0):
    """Outcomes are N(m, s²); the predictions N(m + shift·s, (spread·s)²)."""
    rng = np.random.default_rng(seed)
    m, s = rng.normal(size=n), np.exp(0.3 * rng.normal(size=n))
    return cal.Regression.from_gaussian(m + shift * s, spread * s, m + s * rng.normal(size=n))


# -------------------------------------------------------------------------------------------- calibration
@pytest.mark.parametrize(("rows", "word"), [(1, "inconclusive"), (79, "inconclusive"), (81, "well calibrated")])
def test_few_rows_of_certain_answers_show_nothing(rows, word):
    found = judged(cal.evaluate(cal.Judged.from_confidence(np.ones(rows), np.ones(rows, bool)), METRICS))
    assert (1.0 - 0.98**rows >= 0.8) == (word == "well calibrated"), "power against an accuracy of 98%"
    assert found.inputs[0].word == word


def test_quantiles_without_an_interval_are_judged_in_whole_sentences():
    rng = np.random.default_rng(0)
    quantiles = np.sort(0.2 * rng.normal(size=(200, 2)), axis=1)
    found = judged(cal.evaluate(cal.Regression.from_quantiles(quantiles, [0.1, 0.6], 3.0 * rng.normal(size=200))))
    assert found.headline == "Predictive distributions have the wrong shape: MACE 0.2400"


def test_no_recalibration_is_not_called_a_failure():
    found = judged(cal.recalibrate(classes(n=300), classes(n=300, scale=3.0, seed=1), "none").evaluation)
    assert found.headline == "Nothing was recalibrated; still overconfident"


def test_a_calibrated_model_is_called_calibrated_with_its_rows():
    found = judged(cal.evaluate(classes(20_000), METRICS))
    assert found.headline == "Well calibrated: no significant miscalibration in 20000 rows"
    assert found.tone == "good"
    lines = [point.text for point in topics(found, "calibration")]
    assert [line.split()[0] for line in lines] == ["ECE", "CWCE", "NLL"]
    assert "80% power to detect 0.0" in lines[0]


@pytest.mark.parametrize(("scale", "word", "sign"), [(2.5, "overconfident", 1), (0.4, "underconfident", -1)])
def test_the_direction_and_size_of_the_error_are_reported(scale, word, sign):
    preds = classes(scale=scale)
    found = judged(cal.evaluate(preds, METRICS))
    p = np.exp(preds.scores[0] - preds.scores[0].max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    gap = p.max(1).mean() - (p.argmax(1) == preds.labels).mean()
    assert np.sign(gap) == sign
    assert found.tone == "bad"
    assert found.inputs[0].word == word
    assert topics(found, "calibration")[0].text.endswith("p = 0.002)")
    assert found.headline.startswith(f"{word.capitalize()}: mean confidence {100 * p.max(1).mean():.0f}%, ")


def test_opposite_errors_that_cancel_are_both_reported():
    confidence = np.repeat([0.61, 0.89], 2000)
    found = judged(cal.evaluate(answers(confidence, np.repeat([0.81, 0.69], 2000)), METRICS))
    assert found.tone == "bad"
    assert found.headline.startswith("Confidence is too extreme: calibration slope -0.3")
    lines = [point.text for point in topics(found, "calibration")]
    assert lines[0].startswith("mean confidence − accuracy −0.00")
    assert lines[2].startswith("ECE 0.19")


def test_a_calibrated_model_is_accused_in_at_most_a_twentieth_of_cases():
    accused = 0
    for seed in range(100):
        rng = np.random.default_rng(1000 + seed)
        confidence = rng.uniform(0.3, 1.0, 250)
        evaluation = cal.evaluate(answers(confidence, confidence, seed), "accuracy,ece,ks", resamples=200)
        accused += verdict(evaluation).inputs[0].word not in ("well calibrated", "inconclusive")
    assert accused <= 12  # more have a probability below 0.002


def test_too_few_rows_are_inconclusive():
    found = judged(cal.evaluate(classes(25), METRICS))
    assert found.tone == "neutral"
    assert found.headline.startswith("25 rows are too few to tell this model from a calibrated one")
    assert "n = 25 is a very small test set" in topic(found, "accuracy").text
    assert "80% power to detect" in topics(found, "calibration")[0].text
    assert topic(found, "next step").text.startswith("next: collect about ")


def test_what_was_not_requested_is_not_assessed():
    found = judged(cal.evaluate(classes(200), "accuracy,nll"))
    assert found.headline.endswith("calibration not tested")
    assert found.tone == "neutral"
    assert "calibration not tested" in judged(cal.evaluate(classes(200), "nll")).headline
    without = judged(evaluate_with(classes(200, scale=3.0), METRICS, intervals=False))
    assert without.headline.endswith("; calibration not tested")
    assert without.tone == "neutral"


def test_dependent_rows_are_judged_by_the_interval():
    rows = classes(600, scale=2.5)
    units = cal.Classification.from_logits(rows.scores[0], rows.labels, columns={"unit": np.arange(600) // 2})
    found = judged(cal.evaluate(units, METRICS, units="unit"))
    assert found.inputs[0].word == "overconfident"
    lines = [point.text for point in topics(found, "calibration")]
    assert all("95% interval" in line and "if calibrated" not in line for line in lines)
    assert [line.split()[0] for line in lines] == ["ECE", "CWCE", "NLL"]


def test_weights_count_in_the_mean_confidence():
    rows = classes(500, scale=2.0)
    weights = np.where(np.arange(500) < 250, 3.0, 1.0)
    weighted = cal.Classification.from_logits(rows.scores[0], rows.labels, weights=weights)
    p = np.exp(rows.scores[0]) / np.exp(rows.scores[0]).sum(1, keepdims=True)
    sure = np.average(p.max(1), weights=weights)
    found = judged(cal.evaluate(weighted, METRICS + ",o_e"))
    assert f"mean confidence {100 * sure:.1f}%" in topic(found, "accuracy").text


# ------------------------------------------------------------------------------------------------- errors
def test_the_effect_of_rejecting_uncertain_rows_is_that_of_the_curve():
    evaluation = cal.evaluate(classes(), METRICS)
    found, curve = topic(judged(evaluation), "errors"), evaluation.results[0].curves["rejection"]
    before, after = (100 * (1 - curve["accuracy"][k]) for k in (0, 10))
    assert f"lowers the error rate from {before:.1f}% to {after:.1f}%" in found.text
    assert found.tone == "good"


def test_uninformative_uncertainty_is_not_praised():
    rng = np.random.default_rng(3)
    found = judged(cal.evaluate(answers(rng.uniform(0.5, 0.9, 400), 0.7), METRICS))
    assert topic(found, "errors").text.startswith("inconclusive whether uncertainty identifies errors")
    upside_down = judged(cal.evaluate(answers(c := rng.uniform(0.2, 0.9, 400), 1.0 - c), METRICS))
    assert topic(upside_down, "errors").tone == "bad"
    assert "uncertainty is misleading" in upside_down.headline


def test_without_errors_error_detection_is_inconclusive():
    found = judged(cal.evaluate(answers(np.full(300, 0.99), 1.1), METRICS))
    assert topic(found, "errors").text.endswith("the model made no errors")


def test_impossible_outcomes_are_reported():
    probs = np.tile([1.0, 0.0], (50, 1))
    labels = np.zeros(50, int)
    labels[:3] = 1
    found = judged(cal.evaluate(cal.Classification.from_probs(probs, labels), METRICS))
    assert topic(found, "impossible outcomes").text == (
        "3 rows assign probability 0 to the observed outcome: NLL is infinite"
    )
    assert found.tone == "bad"


# --------------------------------------------------------------------------------------------- no labels
def test_without_labels_the_verdict_lists_what_cannot_be_assessed():
    found = judged(cal.evaluate(cal.Classification.from_logits(np.random.default_rng(0).normal(size=(3, 60, 4)))))
    assert found.headline == "No labels: confidence can be summarised, accuracy and calibration cannot"
    assert found.tone == "neutral"
    assert "cannot be assessed" in topic(found, "labels").text
    assert "3 members disagree" in topic(found, "members").text
    assert "the maximum is 1.3863" in topic(found, "uncertainty").text
    y = cal.Regression.from_gaussian(np.zeros(20), np.ones(20))
    assert judged(cal.evaluate(y)).headline.startswith("No outcomes")


def test_one_class_and_one_row_have_verdicts():
    sure = cal.Classification.from_probs(np.tile([1.0, 0.0], (400, 1)), np.zeros(400, int))
    found = judged(cal.evaluate(sure, METRICS))
    assert found.inputs[0].points[0].text == "accuracy 100.0%, mean confidence 100.0%"
    assert found.inputs[0].word == "well calibrated"
    likely = cal.Classification.from_probs(np.tile([0.9, 0.1], (20, 1)), np.zeros(20, int))
    assert judged(cal.evaluate(likely, METRICS)).inputs[0].word == "inconclusive"  # 0.9²⁰ = 0.12
    single = judged(cal.evaluate(classes(1)))
    assert single.headline == "1 row is too few to tell this model from a calibrated one"
    assert single.tone == "neutral"


# --------------------------------------------------------------------------------------------- regression
@pytest.mark.parametrize(
    ("known", "word", "said"),
    [
        ({"n": 4000}, "well calibrated", "Well calibrated: no significant miscalibration in 4000 rows"),
        ({"spread": 0.6}, "too narrow", "Too narrow (coverage averaged over all levels: 15."),
        ({"spread": 1.7}, "too wide", "Too wide (coverage averaged over all levels: 1"),
        ({"shift": -0.5}, "biased low", "Biased low (mean PIT 0.6"),
        ({"shift": 0.5}, "biased high", "Biased high (mean PIT 0.3"),
    ],
)
def test_regression_is_called_what_it_was_made(known, word, said):
    found = judged(cal.evaluate(numbers(**known)))
    assert found.inputs[0].word == word
    assert found.headline.startswith(said)
    assert found.tone == ("good" if "n" in known else "bad")


def test_the_coverage_of_regression_is_that_of_its_intervals():
    preds = numbers(spread=0.6)
    covered = np.abs(preds.y - preds.mean[0]) <= 1.959964 * preds.std[0]
    found = topic(judged(cal.evaluate(preds)), "coverage").text
    assert found.startswith(f"its 95% intervals cover {100 * covered.mean():.1f}% (")


def test_coverage_is_read_from_the_curve_if_the_metric_was_not_requested():
    narrow = judged(cal.evaluate(numbers(spread=0.6), "crps,pit"))
    assert narrow.headline.startswith("Too narrow (coverage averaged over all levels: 1")
    assert topic(narrow, "coverage").text.startswith("its 95% intervals cover 7")
    levels = np.array([0.1, 0.5, 0.9])
    quantiles = np.tile([-1.2816, 0.0, 1.2816], (400, 1))
    y = np.random.default_rng(0).normal(size=400)
    found = judged(cal.evaluate(cal.Regression.from_quantiles(quantiles, levels, y), "pinball"))
    assert "its 80% intervals cover" in topic(found, "coverage").text
    covered = (np.abs(y) <= 1.2816).mean()
    assert found.headline == f"80% intervals cover {100 * covered:.1f}% of outcomes (n = 400); calibration not tested"


def test_too_few_outcomes_are_inconclusive():
    found = judged(cal.evaluate(numbers(20)))
    assert found.tone == "neutral"
    assert "few" in found.headline


# ------------------------------------------------------------------------------- groups, shift, detection
def test_the_worst_group_is_named_after_correction_for_multiple_testing():
    parts = [classes(1500, scale=3.0 if k == 3 else 1.0, seed=5 + k) for k in range(5)]
    logits, labels = (np.concatenate([f(p) for p in parts]) for f in (lambda p: p.scores[0], lambda p: p.labels))
    site = np.repeat([f"site {k}" for k in range(5)], 1500)
    preds = cal.Classification.from_logits(logits, labels, columns={"site": site})
    point = topic(judged(cal.evaluate(preds, METRICS, by="site")), "groups")
    assert point.text.startswith(
        "1 of 5 groups by site is significantly miscalibrated (q < 0.05); worst: site = site 3, ECE 0.1"
    )
    even = cal.Classification.from_logits(logits[:3000], labels[:3000], columns={"site": site[:3000]})
    assert topic(judged(cal.evaluate(even, METRICS, by="site")), "groups").tone == "good"


def test_shift_says_what_happens_from_the_lowest_severity_to_the_highest():
    preds = cal.read(demo_path("shifted"))
    evaluation = evaluate_with(preds, "accuracy,ece,entropy", shift=True, intervals=False)
    points = [p for p in judged(evaluation).inputs[0].points if p.topic == "shift"]
    right = [100 * evaluation.shift[0].at("accuracy", s)["mean"] for s in (1, 5)]
    assert f"from severity 1 to 5, accuracy falls from {right[0]:.1f}% to {right[1]:.1f}%" in points[0].text
    assert points[0].tone == "warn"
    assert points[1].tone == "good"
    assert "grows with severity" in points[1].text


def test_ood_detection_is_judged_by_its_interval():
    rng = np.random.default_rng(0)
    inside = rng.normal(size=400)
    cases = {
        4.0: ("good", "OOD detection is good: AUROC 0.99"),
        1.0: ("warn", "OOD detection is partial: AUROC 0.7"),
        0.0: ("bad", "OOD detection is no better than chance: AUROC 0."),
        -2.0: ("bad", "OOD detection is inverted: uncertainty is lower on OOD rows"),
    }
    for shift, (tone, said) in cases.items():
        found = judged(cal.detect(inside, rng.normal(shift, 1, 300)))
        assert found.tone == tone
        assert found.headline.startswith(said)


# ------------------------------------------------------------------------------ checks, gains, comparison
def test_verdicts_on_the_demo_data():
    test, shifted, held = (cal.read(demo_path(name)) for name in ("test", "shifted", "validation"))
    both = judged(cal.check({"clean": test, "shifted": shifted}))
    assert both.headline == "2 inputs: 1 inconclusive, 1 overconfident"
    assert both.tone == "bad"
    assert both.inputs[0].headline == "5 of 5 checks pass, but 597 rows are too few to detect a relevant deviation"
    assert both.inputs[1].headline == "Overconfident: expected accuracy 89%, observed 74%"
    few = judged(cal.check(test, draws=200))
    assert few.headline == "200 draws are too few for a decision"
    assert few.inputs[0].points[-1].text == "next: use --draws 500, or --draws exact"
    improved = judged(cal.recalibrate(held, shifted, units="ids").evaluation)
    assert improved.headline == "Temperature scaling helps: NLL falls by 0.2605; still overconfident"
    assert improved.points[0].text.endswith("significantly better (n = 5000)")
    assert improved.tone == "warn"
    blind = cal.Classification.from_logits(shifted.scores[:, :50])
    assert judged(cal.recalibrate(held, blind).evaluation).headline.endswith("the improvement cannot be assessed")


def test_a_comparison_names_the_best_model_and_its_significance():
    models = {"sharp": classes(scale=3.0), "right": classes()}
    found = judged(cal.compare(models, scores="nll,accuracy", resamples=200))
    assert found.headline == "right is best by NLL, significantly better than all others"
    assert not found.inputs
    alike = {"one " * 40: classes(), "two " * 40: classes(scale=1.001)}
    long = judged(cal.compare(alike, scores="nll,accuracy", resamples=200))
    assert long.headline.endswith(" ranks first by NLL, but not significantly")


def test_gates_that_fail_are_bad_and_named():
    evaluation = cal.evaluate(classes(), METRICS)
    gates = tuple(cal.gates.gate(evaluation, fail_on=["nll>0.1"], require=["accuracy>0.2"]))
    found = judged(replace(evaluation, gates=gates))
    (point,) = [p for p in found.points if p.topic == "gates"]
    assert point.text == "1 of 2 gates passed; failed: nll>0.1"
    assert found.tone == "bad"


def test_many_inputs_are_counted():
    inputs = [classes(3000, scale=s, name=f"{s}") for s in (1.0, 2.5, 3.0)]
    assert judged(cal.evaluate(inputs, METRICS)).headline == "3 inputs: 2 overconfident, 1 inconclusive"
