"""Verdicts on simulated models whose truth is known, and on the demonstration's files."""

import json
from dataclasses import replace

import numpy as np
import pytest

import calibrant as cal
from calibrant.demo import demo_path
from calibrant.evaluation.verdict import verdict

METRICS = "accuracy,nll,ece,ks,misclassification_auroc"


def judged(evaluation):
    """The verdict, which is the same when the evaluation was stored and read back."""
    found = verdict(evaluation)
    assert found == verdict(cal.Evaluation.from_json(json.loads(evaluation.dumps())))
    for item in (found, *found.inputs):
        assert 0 < len(item.headline) <= 80
        assert item.tone in ("good", "warn", "bad", "neutral")
    return found


def topic(found, name):
    """The one point on a topic."""
    (point,) = [p for item in found.inputs for p in item.points if p.topic == name]
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
@pytest.mark.parametrize(("rows", "word"), [(1, "not told from calibrated"), (31, "not told from calibrated"),
                                            (32, "well calibrated")])  # fmt: skip
def test_few_rows_of_certain_answers_show_nothing(rows, word):
    found = judged(cal.evaluate(cal.Judged.from_confidence(np.ones(rows), np.ones(rows, bool)), METRICS))
    assert (1.0 - 0.95**rows >= 0.8) == (word == "well calibrated"), "how often rows of 95 % right show a miss"
    assert found.inputs[0].word == word


def test_quantiles_without_an_interval_are_judged_in_whole_sentences():
    rng = np.random.default_rng(0)
    quantiles = np.sort(0.2 * rng.normal(size=(200, 2)), axis=1)
    found = judged(cal.evaluate(cal.Regression.from_quantiles(quantiles, [0.1, 0.6], 3.0 * rng.normal(size=200))))
    assert found.headline.endswith(("too narrow", "too wide", "the wrong shape"))


def test_no_recalibration_is_not_said_to_fail():
    found = judged(cal.recalibrate(classes(n=300), classes(n=300, scale=3.0, seed=1), "none").evaluation)
    assert found.headline == "Nothing was recalibrated; still over-confident"


def test_a_calibrated_model_is_called_so_with_its_rows():
    found = judged(cal.evaluate(classes(), METRICS))
    assert found.headline == "Well calibrated as far as 4000 rows can tell; its uncertainty finds its errors"
    assert found.tone == "good"
    assert "within what chance gives" in topic(found, "calibration").text


@pytest.mark.parametrize(("scale", "word", "sign"), [(2.5, "over-confident", 1), (0.4, "under-confident", -1)])
def test_the_side_and_the_size_of_the_error_are_told(scale, word, sign):
    preds = classes(scale=scale)
    found = judged(cal.evaluate(preds, METRICS))
    p = np.exp(preds.scores[0] - preds.scores[0].max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    gap = p.max(1).mean() - (p.argmax(1) == preds.labels).mean()
    assert np.sign(gap) == sign
    assert found.tone == "bad"
    assert found.inputs[0].word == word
    assert f"{word} by {abs(100 * gap):.1f} points" in topic(found, "calibration").text
    assert found.headline.startswith(f"{word.capitalize()}: {100 * p.max(1).mean():.0f} % sure, ")


def test_two_signs_that_cancel_are_seen_and_told_apart():
    confidence = np.repeat([0.61, 0.89], 2000)
    found = judged(cal.evaluate(answers(confidence, np.repeat([0.81, 0.69], 2000)), METRICS))
    assert found.tone == "bad"
    assert found.headline.startswith("Miscalibrated: ECE 0.19")
    text = topic(found, "calibration").text
    assert "too sure between 87 % and 93 % (89 % sure, " in text
    assert "not sure enough between 60 % and 67 % (61 % sure, " in text


def test_a_calibrated_model_is_accused_in_at_most_a_twentieth_of_cases():
    accused = 0
    for seed in range(100):
        rng = np.random.default_rng(1000 + seed)
        confidence = rng.uniform(0.3, 1.0, 250)
        evaluation = cal.evaluate(answers(confidence, confidence, seed), "accuracy,ece,ks", resamples=200)
        accused += verdict(evaluation).inputs[0].word not in ("well calibrated", "not told from calibrated")
    assert accused <= 12  # more have a probability below 0.002


def test_few_rows_are_said_to_be_few():
    found = judged(cal.evaluate(classes(25), METRICS))
    assert found.tone == "neutral"
    assert found.headline.startswith("Not told from calibrated by 25 rows, too few to tell")
    assert "a test set of 25 rows is tiny" in topic(found, "accuracy").text
    assert "25 rows would show only a true ECE of" in topic(found, "calibration").text


def test_what_was_not_asked_for_is_not_judged():
    found = judged(cal.evaluate(classes(200), "accuracy,nll"))
    assert found.headline.endswith("calibration was not tested")
    assert found.tone == "neutral"
    assert "calibration was not tested" in judged(cal.evaluate(classes(200), "nll")).headline
    assert judged(cal.evaluate(classes(200, scale=3.0), "accuracy,nll")).headline.startswith("Over-confident: ")
    without = judged(cal.evaluate(classes(200, scale=3.0), METRICS, intervals=False))
    assert without.headline == "Calibration was not tested"
    assert without.tone == "neutral"


def test_dependent_rows_are_judged_by_the_interval():
    rows = classes(600, scale=2.5)
    units = cal.Classification.from_logits(rows.scores[0], rows.labels, columns={"unit": np.arange(600) // 2})
    found = judged(cal.evaluate(units, METRICS, units="unit"))
    assert found.inputs[0].word == "over-confident"
    assert "the 95 % interval of the true error is" in topic(found, "calibration").text


def test_weights_count_in_how_sure_it_is():
    rows = classes(500, scale=2.0)
    weights = np.where(np.arange(500) < 250, 3.0, 1.0)
    weighted = cal.Classification.from_logits(rows.scores[0], rows.labels, weights=weights)
    p = np.exp(rows.scores[0]) / np.exp(rows.scores[0]).sum(1, keepdims=True)
    sure = np.average(p.max(1), weights=weights)
    found = judged(cal.evaluate(weighted, METRICS + ",o_e"))
    assert f"{100 * sure:.1f} % sure on average" in topic(found, "accuracy").text


# ------------------------------------------------------------------------------------------------- errors
def test_leaving_uncertain_rows_out_is_told_as_the_curve_has_it():
    evaluation = cal.evaluate(classes(), METRICS)
    found, curve = topic(judged(evaluation), "errors"), evaluation.results[0].curves["rejection"]
    before, after = (100 * (1 - curve["accuracy"][k]) for k in (0, 10))
    assert f"lowers the error from {before:.1f} % to {after:.1f} %" in found.text
    assert found.tone == "good"


def test_uncertainty_that_says_nothing_is_not_praised():
    rng = np.random.default_rng(3)
    found = judged(cal.evaluate(answers(rng.uniform(0.5, 0.9, 400), 0.7), METRICS))
    assert topic(found, "errors").text.startswith("whether its uncertainty finds its errors is not told")
    upside_down = judged(cal.evaluate(answers(c := rng.uniform(0.2, 0.9, 400), 1.0 - c), METRICS))
    assert topic(upside_down, "errors").tone == "bad"
    assert "misleads about errors" in upside_down.headline


def test_without_an_error_nothing_is_said_of_finding_them():
    found = judged(cal.evaluate(answers(np.full(300, 0.99), 1.1), METRICS))
    assert topic(found, "errors").text.endswith("it made no error")


def test_impossible_labels_are_said_plainly():
    probs = np.tile([1.0, 0.0], (50, 1))
    labels = np.zeros(50, int)
    labels[:3] = 1
    found = judged(cal.evaluate(cal.Classification.from_probs(probs, labels), METRICS))
    assert topic(found, "impossible").text == "3 rows have probability 0 for what came true: NLL is infinite"
    assert found.tone == "bad"


# --------------------------------------------------------------------------------------------- no labels
def test_without_labels_it_says_what_cannot_be_judged():
    found = judged(cal.evaluate(cal.Classification.from_logits(np.random.default_rng(0).normal(size=(3, 60, 4)))))
    assert found.headline == "No labels: it can be told how sure it is, not whether it is right"
    assert found.tone == "neutral"
    assert "could not be judged" in topic(found, "labels").text
    assert "that its 3 members disagree" in topic(found, "members").text
    assert "of at most 1.3863" in topic(found, "uncertainty").text
    y = cal.Regression.from_gaussian(np.zeros(20), np.ones(20))
    assert judged(cal.evaluate(y)).headline.startswith("No outcomes")


def test_one_class_and_one_row_have_verdicts():
    sure = cal.Classification.from_probs(np.tile([1.0, 0.0], (400, 1)), np.zeros(400, int))
    found = judged(cal.evaluate(sure, METRICS))
    assert found.inputs[0].points[0].text == "right in 100.0 % of rows, 100.0 % sure on average"
    assert found.inputs[0].word == "well calibrated"
    likely = cal.Classification.from_probs(np.tile([0.9, 0.1], (20, 1)), np.zeros(20, int))
    assert judged(cal.evaluate(likely, METRICS)).inputs[0].word == "not told from calibrated"  # 0.9²⁰ = 0.12
    single = judged(cal.evaluate(classes(1)))
    assert single.headline == "Not told from calibrated by 1 row, too few to tell"
    assert single.tone == "neutral"


# --------------------------------------------------------------------------------------------- regression
@pytest.mark.parametrize(
    ("known", "word", "said"),
    [
        ({}, "well calibrated", "Well calibrated as far as 2000 rows can tell: 95 % intervals hold 9"),
        ({"spread": 0.6}, "over-confident", "Over-confident: its 95 % intervals hold 7"),
        ({"spread": 1.7}, "under-confident", "Under-confident: its 95 % intervals hold 100.0 % of outcomes"),
        ({"shift": -0.5}, "biased", "Biased: outcomes lie above what is predicted too often (mean PIT 0.6"),
        ({"shift": 0.5}, "biased", "Biased: outcomes lie below what is predicted too often (mean PIT 0.3"),
    ],
)
def test_regression_is_called_what_it_was_made(known, word, said):
    found = judged(cal.evaluate(numbers(**known)))
    assert found.inputs[0].word == word
    assert found.headline.startswith(said)
    assert found.tone == ("good" if not known else "bad")


def test_the_coverage_of_regression_is_that_of_its_intervals():
    preds = numbers(spread=0.6)
    held = np.abs(preds.y - preds.mean[0]) <= 1.959964 * preds.std[0]
    found = topic(judged(cal.evaluate(preds)), "coverage").text
    assert found.startswith(f"its 95 % intervals hold {100 * held.mean():.1f} % (")


def test_the_coverage_of_the_curve_stands_in_for_a_metric_that_was_not_asked_for():
    right, narrow = (judged(cal.evaluate(numbers(spread=s), "crps,pit")) for s in (1.0, 0.6))
    assert right.headline.startswith("Its 95 % intervals hold 9")
    assert right.headline.endswith("as they should")
    assert narrow.headline.startswith("Over-confident: its 95 % intervals hold 7")
    levels = np.array([0.1, 0.5, 0.9])
    quantiles = np.tile([-1.2816, 0.0, 1.2816], (400, 1))
    y = np.random.default_rng(0).normal(size=400)
    found = judged(cal.evaluate(cal.Regression.from_quantiles(quantiles, levels, y), "pinball"))
    assert "80 % intervals hold" in found.headline


def test_few_outcomes_are_said_to_be_few():
    found = judged(cal.evaluate(numbers(20)))
    assert found.tone == "neutral"
    assert "few" in found.headline


# ------------------------------------------------------------------------------- groups, shift, detection
def test_the_worst_group_is_named_when_all_are_counted():
    parts = [classes(1500, scale=3.0 if k == 3 else 1.0, seed=5 + k) for k in range(5)]
    logits, labels = (np.concatenate([f(p) for p in parts]) for f in (lambda p: p.scores[0], lambda p: p.labels))
    site = np.repeat([f"site {k}" for k in range(5)], 1500)
    preds = cal.Classification.from_logits(logits, labels, columns={"site": site})
    point = topic(judged(cal.evaluate(preds, METRICS, by="site")), "groups")
    assert point.text.startswith("1 of 5 groups by site are off beyond chance (q < 0.025), most site site 3: ECE 0.1")
    even = cal.Classification.from_logits(logits[:3000], labels[:3000], columns={"site": site[:3000]})
    assert topic(judged(cal.evaluate(even, METRICS, by="site")), "groups").tone == "good"


def test_shift_says_what_happens_from_the_lowest_severity_to_the_highest():
    preds = cal.read(demo_path("shifted"))
    evaluation = cal.evaluate(preds, "accuracy,ece,entropy", shift=True, intervals=False)
    points = [p for p in judged(evaluation).inputs[0].points if p.topic == "shift"]
    right = [100 * evaluation.shift[0].at("accuracy", s)["mean"] for s in (1, 5)]
    assert f"from severity 1 to 5 accuracy falls from {right[0]:.1f} % to {right[1]:.1f} %" in points[0].text
    assert points[0].tone == "warn"
    assert points[1].tone == "good"
    assert "grows with severity" in points[1].text


def test_detection_is_told_by_its_interval():
    rng = np.random.default_rng(0)
    inside = rng.normal(size=400)
    cases = {
        4.0: ("good", "Outside is told well"),
        1.0: ("warn", "Outside is told in part"),
        0.0: ("bad", "Outside is not told from inside"),
        -2.0: ("bad", "Its uncertainty is lower outside"),
    }
    for shift, (tone, said) in cases.items():
        found = judged(cal.detect(inside, rng.normal(shift, 1, 300)))
        assert found.tone == tone
        assert found.headline.startswith(said)


# ------------------------------------------------------------------------------ checks, gains, comparison
def test_the_demo_is_called_what_its_numbers_say():
    test, shifted, held = (cal.read(demo_path(name)) for name in ("test", "shifted", "validation"))
    both = judged(cal.check({"clean": test, "shifted": shifted}))
    assert both.headline == "2 inputs: 1 as expected, 1 surprised"
    assert both.tone == "bad"
    assert both.inputs[0].headline == "What was observed is what the model expects: 4 of 4 checks pass"
    few = judged(cal.check(test, draws=200))
    assert few.headline == "Not settled by these draws whether the model expects its ece; the rest it does"
    mended = judged(cal.recalibrate(held, shifted, units="ids").evaluation)
    assert mended.headline == "Temperature scaling helps: NLL falls by 0.2605; still over-confident"
    assert mended.points[0].text.endswith("better beyond chance by 5000 rows")
    assert mended.tone == "warn"
    blind = cal.Classification.from_logits(shifted.scores[:, :50])
    assert judged(cal.recalibrate(held, blind).evaluation).headline.endswith("what it gained cannot be judged")


def test_a_comparison_says_who_is_first_and_how_sure_that_is():
    models = {"sharp": classes(scale=3.0), "right": classes()}
    found = judged(cal.compare(models, scores="nll,accuracy", resamples=200))
    assert found.headline == "right is the best by NLL, beyond chance"
    assert not found.inputs
    alike = {"one " * 40: classes(), "two " * 40: classes(scale=1.001)}
    long = judged(cal.compare(alike, scores="nll,accuracy", resamples=200))
    assert "do not tell it from" in long.headline


def test_gates_that_fail_are_bad_and_named():
    evaluation = cal.evaluate(classes(), METRICS)
    gates = tuple(cal.gate(evaluation, fail_on=["nll>0.1"], require=["accuracy>0.2"]))
    found = judged(replace(evaluation, gates=gates))
    (point,) = [p for p in found.points if p.topic == "gates"]
    assert point.text == "1 of 2 gates passed; failed: nll>0.1"
    assert found.tone == "bad"


def test_many_inputs_are_counted():
    inputs = [classes(3000, scale=s, name=f"{s}") for s in (1.0, 2.5, 3.0)]
    assert judged(cal.evaluate(inputs, METRICS)).headline == "3 inputs: 2 over-confident, 1 well calibrated"
