"""What a recalibration says of calibration: the verdicts that `evaluate` stores, before and after."""

import numpy as np
import pytest
from scipy.special import expit, logit, softmax

import calibrant as cal
from calibrant.recalibration.api import shared_rows
from calibrant.render.verdicts.api import verdict

N = 3000


def draw(p, rng):
    return (p.cumsum(1) < rng.random((len(p), 1))).sum(1)


def label_shift(rng, n=N):
    """A binary model that predicts positives 3.3 times too often, which the top label hardly shows."""
    p = rng.beta(0.6, 4.0, n)
    return cal.Classification.from_probs(expit(logit(p) + 2.2), (rng.random(n) < p).astype(int))


def logits(scale, rng, n=N):
    z = 2.0 * rng.normal(size=(n, 3))
    return cal.Classification.from_logits(scale * z, draw(softmax(z, axis=1), rng))


def recalibrated(make, method="temperature", metrics=None, **settings):
    rng = np.random.default_rng(3)
    return cal.recalibrate(make(rng), make(rng), method, metrics=metrics, **settings)


def test_no_method_calls_a_model_calibrated_that_evaluate_accuses():
    done = recalibrated(label_shift, "none")
    said = verdict(done.evaluation).headline
    assert "well calibrated" not in said
    assert said == "Nothing was recalibrated; still overestimates risk"
    assert [item.status for item in done.evaluation.verdict.values()] == ["miscalibrated"] * 2


@pytest.mark.parametrize("metrics", [None, "nll", "accuracy,nll"])
def test_both_sides_have_the_verdict_of_evaluate_whatever_the_metrics(metrics):
    done = recalibrated(lambda rng: logits(2.0, rng), metrics=metrics, relevant_error=0.2)
    rng = np.random.default_rng(3)
    _, test = logits(2.0, rng), logits(2.0, rng)
    for rows, name in ((test, "before"), (done.predictions, "after")):
        own = cal.evaluate(rows, curves=False, relevant_error=0.2).verdict
        assert done.evaluation.verdict[name].to_json() == own.to_json()
    assert done.evaluation.verdict["before"].direction == ("overconfident",)
    said = verdict(done.evaluation).headline
    assert said.startswith("Temperature scaling helps: NLL falls by 0.")
    assert said.endswith("; now well calibrated")


def test_a_map_that_is_not_enough_says_what_is_still_wrong():
    done = recalibrated(label_shift, "temperature")
    assert verdict(done.evaluation).headline.endswith("; still overestimates risk")


def test_a_map_that_fits_too_few_rows_leaves_it_inconclusive():
    done = recalibrated(lambda rng: logits(3.0, rng, 120))
    assert done.evaluation.verdict["after"].status == "inconclusive"
    assert verdict(done.evaluation).headline.endswith("; calibration now inconclusive")


def test_shared_rows_need_ids_on_both_sides_or_equal_predictions():
    p = np.random.default_rng(0).uniform(0.1, 0.9, 40)
    with_ids = cal.Classification.from_probs(p, (p > 0.5).astype(int), ids=np.arange(40))
    other_ids = cal.Classification.from_probs(1.0 - p, (p > 0.5).astype(int), ids=np.arange(30, 70))
    without = cal.Classification.from_probs(p, (p > 0.5).astype(int))
    assert shared_rows(with_ids, other_ids) == 10
    assert shared_rows(with_ids, without) == shared_rows(without, with_ids) == 40
    assert shared_rows(other_ids, without) == shared_rows(without, other_ids) == 0
