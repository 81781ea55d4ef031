"""What checks say in words: each of the cases that a reader must be able to tell apart."""

from dataclasses import replace

import numpy as np
import pytest

from calibrant.checks.distributions import Replicates
from calibrant.checks.p_values import check_against
from calibrant.render.verdicts.check_sentences import describe_check, interpret


def at(place):
    """A check whose observed value lies at a place among replicates 0 … 1000, expected from 25 to 975."""
    return check_against(Replicates(place, np.arange(1001.0)), 10, 0.5)


IN, LOW, HIGH = at(500.0), at(-1.0), at(2000.0)


@pytest.mark.parametrize(("check", "said"), [
    (IN, "ece: observed 500, expected 25 to 975: as expected"),
    (HIGH, "ece: observed 2000, above the expected 25 to 975"),
    (LOW, "ece: observed −1, below the expected 25 to 975"),
])  # fmt: skip
def test_observed_expected_and_direction(check, said):
    assert describe_check("ece", check).startswith(said)


@pytest.mark.parametrize(("key", "check", "meaning"), [
    ("accuracy", LOW, "accuracy is lower than expected"), ("accuracy", HIGH, "accuracy is higher than expected"),
    ("nll", HIGH, "worse than expected"), ("brier", LOW, "better than expected"),
    ("picp(level=0.9)", LOW, "cover less"), ("ece(bins=5)", HIGH, "miscalibrated by more"),
    ("calibration_error", LOW, "fitted to these rows, or dependent rows"),
])  # fmt: skip
def test_what_a_surprise_means(key, check, meaning):
    assert meaning in describe_check(key, check)


def test_the_rule_decides():
    outer = at(990.0)
    assert "as expected" not in describe_check("nll", outer)
    assert "0 to 1000: as expected" in describe_check("nll", outer, "range")


@pytest.mark.parametrize(("model", "alone", "said"), [
    (IN, HIGH, "does not contradict the members"),
    (LOW, IN, "but its members do not expect this value"),
    (HIGH, IN, "but its members do not expect this value"),
    (IN, IN, "call the model calibrated; the check of the members agrees"),
    (HIGH, HIGH, "call the model miscalibrated; the check of the members agrees"),
    (LOW, HIGH, "call the model miscalibrated; the check of the members disagrees"),
])  # fmt: skip
def test_what_calibration_error_alone_would_have_said(model, alone, said):
    lines = interpret({"ece": model}, {"ece": alone}, "bayesian").lines
    assert said in lines[1]


@pytest.mark.parametrize(("ours", "theirs", "supported"), [
    ([IN, IN], [IN, HIGH], "bayesian"), ([LOW, IN], [IN, IN], "independent"), ([IN, IN], [IN, IN], "both"),
    ([LOW, IN], [IN, HIGH], "neither"), ([LOW, LOW], [HIGH, IN], "neither"),
])  # fmt: skip
def test_which_reading_the_data_support(ours, theirs, supported):
    checks, independent = (dict(zip(("accuracy", "nll"), part, strict=True)) for part in (ours, theirs))
    found = interpret(checks, independent, "bayesian")
    assert found.supported == supported
    word = {"both": "both readings fit", "neither": "neither reading"}.get(supported, f"the {supported}")
    assert word.lower() in found.lines[-1].lower()


def test_what_is_not_significant_after_correction_speaks_against_neither_reading():
    """The sentences count as the table does: a value outside its interval passes unless Holm's correction rejects."""
    outside = replace(at(979.0), p_adjusted=0.2)
    assert outside.passed()
    assert outside.passed_interval is False
    assert "outside the expected 25 to 975, but not significant after correction" in describe_check("ece", outside)
    found = interpret({"ece": IN}, {"ece": outside}, "bayesian")
    assert found.supported == "both"
    assert "call the model calibrated" in found.lines[1]
    assert "1 of 1 pass when one member" in found.lines[-1]
    assert "1 of 1 pass when every row" in found.lines[-1]
    rejected = replace(at(979.0), p_adjusted=0.01)
    assert interpret({"ece": IN}, {"ece": rejected}, "bayesian").supported == "bayesian"


def test_one_reading_alone_supports_nothing():
    found = interpret({"ece": IN}, {}, "independent")
    assert found.supported is None
    assert len(found.lines) == 1


def test_what_is_undefined_is_not_counted():
    nothing = check_against(Replicates(float("nan"), np.arange(3.0)), 1, 0.5)
    found = interpret({"ece": nothing, "nll": IN}, {"ece": nothing, "nll": HIGH}, "bayesian")
    assert found.supported == "bayesian"
    assert "undefined on these rows" in found.lines[0]
    assert "1 of 1 pass when one member draws all rows (Bayesian)" in found.lines[-1]


@pytest.mark.parametrize(("place", "close"), [(500.0, False), (20.0, True), (30.0, True), (975.0, True), (5.0, False)])
def test_a_close_call_is_called_one(place, close):
    assert ("borderline at 1001 draws" in describe_check("nll", at(place))) == close
