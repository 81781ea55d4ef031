"""What a verdict may rest on: every error tested, directions beyond noise, and power, also for sharp predictions."""

from collections import Counter

import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import binom

import calibrant as cal
from calibrant.calibration.null_mean import detectable_shift
from calibrant.render.verdicts.api import verdict as judged
from evidence.truth_table import MODELS


def judge(predictions, metrics="ece", **options):
    return cal.evaluate(predictions, metrics, curves=False, threads=1, **options).verdict


def check(predictions, **options):
    return cal.check(predictions, threads=1, **{"draws": 1000, **options}).results[0].verdict


# ------------------------------------------------------------------------------------ errors of classes
def classes_off(n=6000, seed=0, off=True):
    """The top label is calibrated; class 2 is predicted at 17% and occurs at 4%, unless `off` is False."""
    rng = np.random.default_rng(seed)
    a = rng.uniform(0.4, 0.9, n)
    p = np.c_[a, (1 - a) / 2, (1 - a) / 2]
    truth = np.c_[a, (1 - a) * 0.9, (1 - a) * 0.1] if off else p
    labels = np.minimum((truth.cumsum(1) < rng.random((n, 1))).sum(1), 2)
    return p, truth, labels, rng


CLASSES = ("Overpredicts class 2 (18% predicted, 4% observed)", "Underpredicts class 1 (18% predicted, 32% observed)")


def with_rows(kind, p, truth, labels, rng):
    n = len(p)
    if kind == "weights":
        return cal.Classification.from_probs(p, labels, weights=rng.choice([1.0, 1.5], n)), {}
    if kind == "soft labels":
        return cal.Classification.from_probs(p, label_probs=np.array([rng.dirichlet(50 * q) for q in truth])), {}
    units = np.arange(2 * n) // 2
    twice = cal.Classification.from_probs(np.repeat(p, 2, 0), np.repeat(labels, 2), columns={"u": units})
    return twice, {"units": "u"}


@pytest.mark.parametrize("kind", ["weights", "units", "soft labels"])
def test_classes_are_tested_with_weights_units_and_soft_labels(kind):
    predictions, options = with_rows(kind, *classes_off())
    found = judge(predictions, **options)
    assert found.status == "miscalibrated"
    assert found.headline in CLASSES
    predictions, options = with_rows(kind, *classes_off(20_000, off=False))
    assert judge(predictions, **options).status == "calibrated"


def test_weighted_classwise_errors_have_the_p_value_of_redrawn_labels():
    """Of perfect predictions it is below 0.1 in about a tenth of data sets, with weights and with units."""
    p_values = {"weights": [], "units": []}
    for seed in range(60):
        for kind, found in p_values.items():
            predictions, options = with_rows(kind, *classes_off(400, seed, off=False))
            tests = {test.metric: test for test in judge(predictions, resamples=400, **options).evidence}
            found.append(tests["cwce"].p_value)
    for kind, found in p_values.items():
        assert 0 <= sum(np.array(found) < 0.1) <= 14, kind  # more have a probability below 0.2%


def test_units_of_many_rows_do_not_hide_errors_of_classes():
    """Ten classes, units of eight independent rows: the p-value by units is that of rows, about."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(4000, 10))
    labels = (z + rng.gumbel(size=z.shape)).argmax(1)
    predictions = cal.Classification.from_logits(3 * z, labels, columns={"u": np.arange(4000) // 8})
    found = {test.metric: test for test in judge(predictions, units="u").evidence}["cwce"]
    assert found.rejected
    assert found.smallest > 0.05


def test_many_classes_with_weights_are_not_called_calibrated():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(20_000, 30))
    labels = (z + rng.gumbel(size=z.shape)).argmax(1)
    found = judge(cal.Classification.from_logits(z, labels, weights=rng.choice([1.0, 2.0], len(z))))
    assert found.status == "inconclusive"
    assert found.headline.startswith("Inconclusive: classes not tested")
    assert found.notion.endswith("classes not tested")


def test_soft_labels_equal_to_the_predictions_are_no_evidence():
    p = np.random.default_rng(0).dirichlet(np.ones(3), 3000)
    evaluation = cal.evaluate(cal.Classification.from_probs(p, label_probs=p))
    assert evaluation.verdict.status in ("inconclusive", "not_tested")
    points = judged(evaluation).inputs[0].points
    assert not any("not tested" in point.text and point.tone == "good" for point in points)


# ---------------------------------------------------------------------------------------------- units
def test_errors_that_cancel_are_found_with_units_as_without():
    rng = np.random.default_rng(0)
    levels, gaps = np.array([0.5, 0.6, 0.7, 0.8, 0.9]), np.array([-0.06, 0.12, 0.0, -0.12, 0.06])
    k = rng.integers(5, size=3000)
    right = rng.random(3000) < (levels + gaps)[k]
    columns = {"u": np.arange(6000) // 2}
    found = judge(cal.Judged.from_confidence(np.repeat(levels[k], 2), np.repeat(right, 2), columns=columns), units="u")
    assert found.status == "miscalibrated"
    error = next(test for test in found.evidence if test.metric == "ece")
    assert error.rejected
    assert 0.0 < error.p_value < 0.01


def test_a_larger_error_does_not_ask_for_more_rows():
    """The rows needed with units follow from the width of the interval, not from its upper end."""
    rng = np.random.default_rng(1)
    p = rng.uniform(0.5, 0.95, 150)
    needed = []
    for gap in (0.0, 0.05):
        right = rng.random(150) < p - gap
        rows = cal.Judged.from_confidence(np.repeat(p, 4), np.repeat(right, 4), columns={"u": np.arange(600) // 4})
        found = judge(rows, units="u")
        needed.append(found.rows_needed if found.status == "inconclusive" else needed[0])
    assert 5_000 < needed[0] < 60_000
    assert needed[1] < 1.5 * needed[0]


# ------------------------------------------------------------------------------------------ direction
@pytest.mark.parametrize("name", ["too narrow (0.7)", "risk too extreme"])
def test_unbiased_models_are_not_called_biased(name):
    """The null of a rejected model does not give the standard error of its mean."""
    model = next(item for item in MODELS if item.name == name)
    wrong = Counter()
    for n, repeats in ((200, 25), (2000, 15)):
        for seed in range(repeats):
            predictions = model.make(n, np.random.default_rng([seed, n, 3]))
            for command, found in (("evaluate", judge(predictions, "pit" if "narrow" in name else "ece")),
                                   ("check", check(predictions))):  # fmt: skip
                wrong[command] += any(word.startswith(("biased", "over", "under")) for word in found.direction)
    assert max(wrong.values(), default=0) <= 3, wrong


def test_the_headline_is_about_the_larger_error():
    rng = np.random.default_rng(0)
    p = rng.beta(2.0, 2.0, 20_000)
    right = rng.random(20_000) < expit(0.07 * logit(p)) - 0.02
    found = judge(cal.Judged.from_confidence(p, right))
    assert found.direction[0] == "too_extreme"
    assert found.headline.startswith("Confidence is too extreme: calibration slope 0.0")
    assert (found.predicted, found.observed) == pytest.approx((p.mean(), right.mean()))


def test_biased_and_too_narrow_has_one_advice():
    rng = np.random.default_rng(0)
    y = rng.normal(size=4000)
    predictions = cal.Regression.from_gaussian(np.full(4000, 0.3), np.full(4000, 0.6), y)
    for found in (judge(predictions, "pit"), check(predictions)):
        assert {"biased_high", "too_narrow"} <= set(found.direction)
        assert "--method levels" in found.next_step


# --------------------------------------------------------------------------------------------- too low
def test_errors_below_chance_are_a_warning_and_no_accusation():
    rng = np.random.default_rng(0)
    x = rng.random(400)
    y, place = (rng.random(400) < x).astype(int), (10 * x).astype(int)
    fitted = np.array([y[place == k].mean() for k in range(10)])[place]
    predictions = cal.Classification.from_probs(np.clip(fitted, 0.001, 0.999), y)
    for evaluation in (cal.evaluate(predictions, "ece"), cal.check(predictions)):
        assert evaluation.results[0].verdict.status != "miscalibrated"
        assert any(note.code == "too-low" and "fitted to these rows" in note.message for note in evaluation.warnings)


# ------------------------------------------------------------------------------------ sharp, small sets
def test_the_detectable_shift_is_that_of_an_exact_binomial_power():
    for variance, n in ((0.0, 80), (0.05, 50), (2.0, 400), (40.0, 4000)):
        shift, level = detectable_shift(variance, n, 0.01), 0.01
        critical = binom.isf(level / 2, n, variance / n) + 1 if variance else 1
        assert binom.sf(critical - 1, n, variance / n + shift) == pytest.approx(0.8, abs=0.03)


def sharp(n, seed, accuracy, confidence=0.999):
    rng = np.random.default_rng([seed, n])
    top, p = rng.integers(3, size=n), np.full((n, 3), (1 - confidence) / 2)
    p[np.arange(n), top] = confidence
    wrong = rng.random(n) >= accuracy
    return cal.Classification.from_probs(p, np.where(wrong, (top + rng.integers(1, 3, size=n)) % 3, top))


def test_few_sharp_predictions_are_not_called_calibrated():
    """At 50 rows, one error more or less decides: an accuracy of 98% beside 99.9% confidence cannot be excluded."""
    for seed in range(12):
        found = {judge(sharp(50, seed, 0.979)).status, check(sharp(50, seed, 0.979)).status}
        assert "calibrated" not in found


def test_sharp_perfect_predictions_are_seldom_accused():
    accused = sum(judge(sharp(50, seed, 0.999)).status == "miscalibrated" for seed in range(100))
    assert accused <= 8  # of 3%, more have a probability below 1%


# --------------------------------------------------------------------------------------------- wording
def test_too_few_resamples_are_named():
    rng = np.random.default_rng(0)
    p = rng.uniform(0.5, 1.0, 600)
    found = judge(cal.Judged.from_confidence(p, rng.random(600) < p), resamples=20)
    assert found.headline == "20 resamples are too few for a decision"


def test_a_headline_quotes_a_test_that_was_rejected():
    """The slope alone is rejected: the ECE is not quoted."""
    for seed in range(200):
        rng = np.random.default_rng([1, seed])
        p = rng.uniform(0.3, 0.95, 300)
        found = judge(cal.Judged.from_confidence(p, rng.random(300) < expit(0.6 * logit(p) + 0.2)))
        rejected = [test.metric for test in found.evidence if test.rejected]
        if rejected == ["slope"]:
            assert "ECE" not in found.headline
            return
    pytest.fail("no data set rejects the slope alone")
