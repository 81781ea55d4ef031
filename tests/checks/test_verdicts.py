"""The verdict on checks: one decision for the family, in the same words as `evaluate` about the same file."""

import math

import numpy as np
import pytest
from scipy.special import expit, logit, softmax
from scipy.stats import binom

import calibrant as cal
from calibrant.results.check import LEVEL
from calibrant.results.verdict import CALIBRATED, INCONCLUSIVE, MISCALIBRATED


def drawn(p, rng):
    return np.minimum((p.cumsum(1) < rng.random((len(p), 1))).sum(1), p.shape[1] - 1)


def classes(n, seed, factor=1.0):
    rng = np.random.default_rng(seed)
    z = 1.5 * rng.normal(size=(n, 3))
    return cal.Classification.from_logits(factor * z, drawn(softmax(z, axis=1), rng))


def label_shift(n, seed=0):
    """P(1) is about three times too high; the top label is hardly off."""
    rng = np.random.default_rng(seed)
    p = rng.beta(0.6, 4.0, n)
    return cal.Classification.from_probs(expit(logit(p) + 2.2), (rng.random(n) < p).astype(int))


def test_label_shift_of_a_binary_model_is_seen():
    verdict = cal.check(label_shift(2000), draws=1000).results[0].verdict
    assert verdict.status == MISCALIBRATED
    assert verdict.direction == ("overestimates",)
    assert verdict.headline.startswith("Overestimates risk: predicts 4")
    assert {"ece(of=1)", "class_frequency(of=1)"} <= {test.metric for test in verdict.evidence if test.rejected}


def test_the_class_is_that_of_the_option():
    predictions = label_shift(2000)
    verdict = cal.check(predictions, of=0).results[0].verdict
    assert verdict.direction == ("underestimates",)
    with pytest.raises(cal.CalibrantError, match="of"):
        cal.check(cal.Judged.from_confidence([0.3, 0.7], [True, False]), of=1)
    with pytest.raises(cal.CalibrantError):
        cal.check(predictions, of=7)


def test_classes_that_are_off_are_not_called_overconfident():
    """Predicted class 0 is right 15 points less often than said, class 1 more often: the top label hides it."""
    rng = np.random.default_rng(3)
    p = softmax(1.5 * rng.normal(size=(20_000, 3)), axis=1)
    truth, top = p.copy(), p.argmax(1)
    moved = np.where(top < 2, np.minimum(0.15, p[:, 0]), 0.0)
    truth[:, 0] -= moved
    truth[:, 1] += moved
    verdict = cal.check(cal.Classification.from_probs(p, drawn(truth, rng))).results[0].verdict
    assert verdict.status == MISCALIBRATED
    assert verdict.direction == ()
    assert verdict.headline.startswith("Not as the model expects: cwce 0.1")
    assert "--method vector" in verdict.next_step


@pytest.mark.parametrize(("factor", "direction"), [(1.8, "overconfident"), (0.5, "underconfident")])
def test_evaluate_and_check_agree_on_the_direction(factor, direction):
    predictions = classes(3000, 4, factor)
    said = [cal.evaluate(predictions, "ece").verdict, cal.check(predictions).results[0].verdict]
    assert [(verdict.status, verdict.direction) for verdict in said] == [(MISCALIBRATED, (direction,))] * 2


def test_numbers_adjusted_by_holm_decide():
    result = cal.check(classes(300, 1), draws=400).results[0]
    p = sorted(check.test_p for check in result.checks.values())
    adjusted = np.maximum.accumulate([min(1.0, (len(p) - k) * x) for k, x in enumerate(p)])
    assert sorted(check.p_adjusted for check in result.checks.values()) == pytest.approx(adjusted)
    for check in result.checks.values():
        assert check.passed() == (check.p_adjusted > LEVEL)


def test_a_right_model_is_seldom_accused():
    accused = surprised = 0
    for seed in range(150):
        result = cal.check(classes(200, seed), draws="exact").results[0]
        accused += result.verdict.status == MISCALIBRATED
        surprised += any(not check.passed() for check in result.checks.values())
    assert accused <= surprised <= binom.ppf(0.9999, 150, LEVEL)


def test_a_right_model_is_called_calibrated_with_enough_rows_only():
    assert cal.check(classes(20_000, 2)).results[0].verdict.status == CALIBRATED
    few = cal.check(classes(600, 2)).results[0].verdict
    assert few.status == INCONCLUSIVE
    assert few.rows_needed > 600
    assert "collect about" in few.next_step


def test_an_incomplete_family_is_never_green():
    verdict = cal.check(classes(20_000, 2), "accuracy").results[0].verdict
    assert verdict.status == INCONCLUSIVE
    assert verdict.headline == "As the model expects: 1 of 1 checks pass"


def test_few_draws_are_said_and_do_not_hide_what_is_hopeless():
    found = cal.check(classes(600, 2), draws=60)
    assert found.results[0].verdict.headline == "60 draws are too few for a decision"
    assert [note.code for note in found.warnings if "draws" in note.code] == ["too-few-draws"]
    assert cal.check(classes(2000, 2, 3.0), draws=60).results[0].verdict.status == MISCALIBRATED


@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_members_disagree_and_one_is_right(shift):
    """Labels of one member: the Bayesian reading explains them; labels of none: neither does."""
    rng = np.random.default_rng(6)
    z = rng.normal(size=(2000, 3)) * 1.5 + np.array([-1.0, 0.0, 1.0])[:, None, None] * np.array([1.0, 0.0, 0.0])
    truth = softmax(z[0] + shift * np.array([-3.0, 0.0, 0.0]), axis=1)
    result = cal.check(cal.Classification.from_logits(z, drawn(truth, rng))).results[0]
    assert (result.verdict.status == MISCALIBRATED) == bool(shift)
    assert (result.supported == "neither") == bool(shift)


def test_the_relevant_error_decides_between_negligible_and_miscalibrated():
    rng = np.random.default_rng(7)
    z = 1.5 * rng.normal(size=(40_000, 3))
    predictions = cal.Classification.from_logits(1.25 * z, drawn(softmax(z, axis=1), rng))
    found = [cal.check(predictions, relevant_error=x).results[0].verdict.status for x in (0.001, 0.2)]
    assert found == [MISCALIBRATED, "negligible"]
    with pytest.raises(cal.CalibrantError, match="relevant_error"):
        cal.check(predictions, relevant_error=2.0)


@pytest.mark.parametrize(("width", "shift", "direction"), [
    (0.7, 0.0, "too_narrow"), (1.5, 0.0, "too_wide"), (1.0, 0.4, "biased_high"), (1.0, -0.4, "biased_low"),
])  # fmt: skip
def test_regression_directions(width, shift, direction):
    rng = np.random.default_rng(8)
    m = rng.normal(size=2000)
    y = m + rng.normal(size=2000)
    verdict = cal.check(cal.Regression.from_gaussian(m + shift, np.full(2000, width), y)).results[0].verdict
    assert (verdict.status, verdict.direction) == (MISCALIBRATED, (direction,))
    assert verdict.headline.startswith(f"Predictive distributions are {direction.replace('_', ' ')}")


def test_the_verdict_is_stored_and_read_again(tmp_path):
    found = cal.check(label_shift(300))
    found.save(tmp_path / "check.json")
    again = cal.Evaluation.load(tmp_path / "check.json")
    assert str(again.results[0].verdict) == str(found.results[0].verdict)
    assert again.verdict.status == found.verdict.status
    assert not math.isnan(again.results[0].checks["accuracy"].p_adjusted)
    assert str(again) == str(found)
