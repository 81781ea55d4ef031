"""Gates on the stored verdict: which words match, what an inconclusive verdict shows, and what is refused."""

import json

import numpy as np
import pytest
from gates.comparison_cases import evaluation

import calibrant as cal
from calibrant.errors import UsageError
from calibrant.gates.grammar import VerdictIs, parse_condition
from calibrant.results.evaluation import Evaluation, Result
from calibrant.results.verdict import Verdict


def of(status, *direction, name="model"):
    return Result(name, {}, verdict=Verdict(status, direction, headline="Said so"))


OVER = evaluation(of("miscalibrated", "overconfident", "too_extreme"))
GREEN, SMALL, OPEN = (evaluation(of(status)) for status in ("calibrated", "negligible", "inconclusive"))


def gate(stored, **gates):
    return cal.gates.gate(stored, **gates)


@pytest.mark.parametrize(("text", "words", "equal"), [
    ("verdict=overconfident", ("overconfident",), True),
    ("verdict = overconfident", ("overconfident",), True),
    ("verdict == calibrated", ("calibrated",), True),
    ("verdict!=miscalibrated", ("miscalibrated",), False),
    ("verdict ≠ miscalibrated", ("miscalibrated",), False),
    ("verdict = calibrated, negligible", ("calibrated", "negligible"), True),
    ("verdict = calibrated|negligible", ("calibrated", "negligible"), True),
    ("verdict = 'well calibrated'", ("calibrated",), True),
    ("verdict = Too Narrow", ("too_narrow",), True),
    ("verdict = not-tested", ("not_tested",), True),
])  # fmt: skip
def test_words_are_read_in_every_spelling(text, words, equal):
    assert parse_condition(text) == VerdictIs(None, words, equal)


def test_an_input_may_be_named():
    assert parse_condition("digits: verdict = calibrated") == VerdictIs("digits", ("calibrated",))


@pytest.mark.parametrize(("text", "hint"), [
    ("verdict = overconfidant", "did you mean 'overconfident'?"),
    ("verdict = calibrated, to_wide", "did you mean 'too_wide'?"),
    ("verdict != miscalibratd", "did you mean 'miscalibrated'?"),
])  # fmt: skip
def test_an_unknown_word_is_an_error_with_the_similar_one(text, hint):
    with pytest.raises(UsageError) as caught:
        parse_condition(text)
    assert caught.value.expected == "the status or a direction of a verdict"
    assert caught.value.hint == hint
    assert "\n" not in str(caught.value)


def test_a_misspelt_verdict_says_how_to_write_one():
    with pytest.raises(UsageError, match="'verdict = overconfident'"):
        parse_condition("verdct = overconfident")


@pytest.mark.parametrize(("stored", "text", "shown"), [
    (OVER, "verdict = overconfident", True),
    (OVER, "verdict = too_extreme", True),
    (OVER, "verdict = miscalibrated", True),
    (OVER, "verdict = underconfident", False),
    (OVER, "verdict = calibrated", False),
    (OVER, "verdict != miscalibrated", False),
    (OVER, "verdict != underconfident", True),
    (GREEN, "verdict = calibrated", True),
    (GREEN, "verdict != miscalibrated", True),
    (GREEN, "verdict = overconfident", False),
    (SMALL, "verdict = calibrated", False),
    (SMALL, "verdict = calibrated, negligible", True),
    (OPEN, "verdict = inconclusive", True),
])  # fmt: skip
def test_status_and_direction_decide(stored, text, shown):
    for held in (stored, Evaluation.from_json(json.loads(stored.dumps()))):
        assert bool(gate(held, require=text)) == shown
        assert bool(gate(held, fail_on=text)) == (not shown)
        assert not next(iter(gate(held, require=text))).undecided


@pytest.mark.parametrize("text", ["verdict = calibrated", "verdict = overconfident", "verdict != miscalibrated"])
def test_an_inconclusive_verdict_stops_no_build_and_proves_nothing(text):
    (lenient,), (strict,) = gate(OPEN, fail_on=text), gate(OPEN, require=text)
    assert lenient.passed
    assert lenient.undecided
    assert not strict.passed
    assert strict.undecided
    assert strict.reason == "verdict: inconclusive (Said so)"


def test_every_input_is_tested():
    two = evaluation(of("calibrated", name="a"), of("miscalibrated", "overconfident", name="b"))
    assert not gate(two, require="verdict = calibrated")
    (failed,) = gate(two, fail_on="verdict = overconfident").failed
    assert failed.reason == "b: verdict: miscalibrated and overconfident (Said so)"
    assert gate(two, require="a: verdict = calibrated")


def test_an_evaluation_without_a_verdict_is_an_error_of_one_line():
    with pytest.raises(UsageError, match="expected a verdict on calibration, got none stored of 'model'") as caught:
        gate(evaluation(Result("model", {})), fail_on="verdict = overconfident")
    assert "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gated")
    rng = np.random.default_rng(0)
    p = rng.uniform(0.6, 0.9, 2000)
    sure = cal.Judged.from_confidence(p, rng.random(2000) < p - 0.15)
    cal.write(sure, folder / "sure.npz")
    return folder


def test_the_commands_gate_the_verdict_whatever_the_metrics(files, run_here):
    sure, stored = files / "sure.npz", files / "sure.json"
    gated = ("--fail-on", "verdict=overconfident", "--quiet")
    ran = run_here("evaluate", sure, "-m", "nll", *gated, "--json", stored)
    assert ran.code == 1
    assert "verdict: miscalibrated and overconfident" in ran.err
    assert run_here("gate", stored, *gated).code == 1
    assert run_here("gate", stored, "--require", "verdict=overconfident", "--quiet").code == 0
    assert run_here("compare", f"a={sure}", "-s", "accuracy", *gated).code == 1
    fixed = ("recalibrate", "--fit", sure, "-m", "nll", "--quiet", "--fail-on")
    assert run_here(*fixed, "verdict=overconfident").code == 0
    assert run_here(*fixed, "before: verdict=overconfident").code == 1


def test_the_relevant_error_is_an_option_of_the_commands(files, run_here):
    sure = files / "sure.npz"
    for command in (["evaluate", sure], ["compare", f"a={sure}", "-s", "nll"]):
        accused = [*command, "--require", "verdict=negligible", "--quiet"]
        assert run_here(*accused).code == 1
        assert run_here(*accused, "--relevant-error", "0.4").code == 0
    before = ["recalibrate", "--fit", sure, "--require", "before: verdict=negligible", "--quiet"]
    assert run_here(*before).code == 1
    assert run_here(*before, "--relevant-error", "0.4").code == 0
