"""The verdict that other commands store is the one that `evaluate` stores."""

import numpy as np
import pytest

import calibrant as cal
from calibrant.errors import UsageError
from calibrant.pipeline.evaluate import EvaluateOptions, calibration_verdict, run_evaluation
from calibrant.registry.estimate import Settings

N = 400


def classes(rng):
    labels = rng.integers(0, 3, N)
    return cal.Classification.from_logits(3.0 * np.eye(3)[labels] + 3.0 * rng.normal(size=(N, 3)), labels)


def binary(rng):
    p = rng.beta(1.0, 3.0, N)
    return cal.Classification.from_probs(np.minimum(2.0 * p, 0.99), (rng.random(N) < p).astype(int))


def judged(rng):
    p = rng.beta(4.0, 2.0, N)
    return cal.Judged.from_confidence(p, rng.random(N) < p, columns={"prompt": np.arange(N) // 4})


def regression(rng):
    return cal.Regression.from_gaussian(rng.normal(size=N), np.full(N, 0.6), rng.normal(size=N))


@pytest.mark.parametrize("make", [classes, binary, judged, regression])
@pytest.mark.parametrize("metrics", [None, "ece", "all"])
def test_the_family_alone_gives_the_verdict_of_evaluate(make, metrics):
    predictions = make(np.random.default_rng(1))
    if metrics == "ece" and make is regression:
        metrics = "mace"
    stored = cal.evaluate(predictions, metrics, curves=False).verdict
    assert stored.status != "not_tested"
    assert calibration_verdict(predictions, Settings()).to_json() == stored.to_json()


def test_units_and_the_relevant_error_reach_the_verdict():
    predictions = judged(np.random.default_rng(2))
    stored = cal.evaluate(predictions, "ece", units="prompt", relevant_error=0.3, curves=False).verdict
    own = calibration_verdict(predictions, Settings(), "prompt", 0.3)
    assert own.to_json() == stored.to_json()
    assert {test.relevant_error for test in own.evidence if test.relevant_error == test.relevant_error} == {0.3}


def test_a_large_relevant_error_makes_a_miscalibration_negligible():
    predictions = regression(np.random.default_rng(3))
    assert cal.evaluate(predictions, curves=False).verdict.status == "miscalibrated"
    assert cal.evaluate(predictions, curves=False, relevant_error=0.5).verdict.status == "negligible"


def test_the_relevant_error_is_checked():
    with pytest.raises(UsageError, match="relevant_error: expected"):
        cal.evaluate(judged(np.random.default_rng(2)), relevant_error=2.0)


def test_calibration_can_be_judged_without_a_calibration_error_among_the_metrics():
    predictions = classes(np.random.default_rng(1))
    options = EvaluateOptions(always_judge=True, curves=False)
    evaluation = run_evaluation([predictions], "nll", options)
    assert list(evaluation.results[0].metrics) == ["nll"]
    assert evaluation.verdict.to_json() == calibration_verdict(predictions, Settings()).to_json()
    assert cal.evaluate(predictions, "nll").verdict.status == "not_tested"


def test_without_labels_nothing_is_tested():
    predictions = cal.Classification.from_probs(np.full((20, 3), 1.0 / 3.0))
    verdict = calibration_verdict(predictions, Settings())
    assert (verdict.status, verdict.details) == ("not_tested", ("there are no labels",))


def test_verdicts_of_several_inputs_are_by_name():
    rng = np.random.default_rng(4)
    evaluation = cal.evaluate({"a": judged(rng), "b": judged(rng)}, "ece", curves=False)
    assert evaluation.verdict == {result.input: result.verdict for result in evaluation.results}
    assert list(evaluation.verdict) == ["a", "b"]
