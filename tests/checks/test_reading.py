"""What checks say in words: each of the cases that a reader must be able to tell apart."""

import numpy as np
import pytest

from calibrant.checks.check import Check
from calibrant.checks.laws import Replicates
from calibrant.checks.reading import reading_of, sentence


def at(place):
    """A check whose observed value lies at a place among replicates 0 … 1000, expected from 25 to 975."""
    return Check.of(Replicates(place, np.arange(1001.0)), 10, 0.5)


IN, LOW, HIGH = at(500.0), at(-1.0), at(2000.0)


@pytest.mark.parametrize(("check", "said"), [
    (IN, "ece: 500 was observed, and the model expected 25 to 975: no surprise"),
    (HIGH, "ece: 2000 was observed, more than the 25 to 975 that the model expected"),
    (LOW, "ece: −1 was observed, less than the 25 to 975 that the model expected"),
])  # fmt: skip
def test_observed_expected_and_direction(check, said):
    assert sentence("ece", check).startswith(said)


@pytest.mark.parametrize(("key", "check", "meaning"), [
    ("accuracy", LOW, "right less often"), ("accuracy", HIGH, "right more often"),
    ("nll", HIGH, "worse than it believes"), ("brier", LOW, "better than it believes"),
    ("picp(level=0.9)", LOW, "hold less"), ("ece(bins=5)", HIGH, "further off"),
    ("calibration_error", LOW, "fit better"),
])  # fmt: skip
def test_what_a_surprise_means(key, check, meaning):
    assert meaning in sentence(key, check)


def test_the_rule_decides():
    outer = at(990.0)
    assert "no surprise" not in sentence("nll", outer)
    assert "0 to 1000: no surprise" in sentence("nll", outer, "range")


@pytest.mark.parametrize(("model", "alone", "said"), [
    (IN, HIGH, "no ground for mistrust"), (LOW, IN, "no ground for trust"), (HIGH, IN, "no ground for trust"),
    (IN, IN, "called the model calibrated; the check of the members agrees"),
    (HIGH, HIGH, "called the model miscalibrated; the check of the members agrees"),
    (LOW, HIGH, "called the model miscalibrated; the members say otherwise"),
])  # fmt: skip
def test_what_calibration_error_alone_would_have_said(model, alone, said):
    lines = reading_of({"ece": model}, {"ece": alone}, "bayesian").lines
    assert said in lines[1]


@pytest.mark.parametrize(("ours", "theirs", "supported"), [
    ([IN, IN], [IN, HIGH], "bayesian"), ([LOW, IN], [IN, IN], "independent"), ([IN, IN], [IN, IN], "both"),
    ([LOW, IN], [IN, HIGH], "neither"), ([LOW, LOW], [HIGH, IN], "neither"),
])  # fmt: skip
def test_which_reading_the_data_support(ours, theirs, supported):
    checks, independent = (dict(zip(("accuracy", "nll"), part, strict=True)) for part in (ours, theirs))
    found = reading_of(checks, independent, "bayesian")
    assert found.supported == supported
    word = {"both": "both readings fit", "neither": "neither reading"}.get(supported, f"the {supported}")
    assert word.lower() in found.lines[-1].lower()


def test_one_reading_alone_supports_nothing():
    found = reading_of({"ece": IN}, {}, "independent")
    assert found.supported is None
    assert len(found.lines) == 1


def test_what_is_undefined_is_not_counted():
    nothing = Check.of(Replicates(float("nan"), np.arange(3.0)), 1, 0.5)
    found = reading_of({"ece": nothing, "nll": IN}, {"ece": nothing, "nll": HIGH}, "bayesian")
    assert found.supported == "bayesian"
    assert "it has no value here" in found.lines[0]
    assert "1 of 1 statistics" in found.lines[-1]


@pytest.mark.parametrize(("place", "close"), [(500.0, False), (20.0, True), (30.0, True), (975.0, True), (5.0, False)])
def test_a_close_call_is_called_one(place, close):
    assert ("a close call: 1001 draws" in sentence("nll", at(place))) == close
