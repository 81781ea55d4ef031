"""What a comparison says: it quotes the stored verdicts, names no winner by rounding, and doubts an unstable fit."""

import numpy as np
import pytest
from scipy.special import expit, softmax

import calibrant as cal
from calibrant.render.verdicts.api import verdict
from calibrant.results.evaluation import Evaluation

N = 2000


def draw(p, rng):
    return (p.cumsum(1) < rng.random((len(p), 1))).sum(1)


@pytest.fixture(scope="module")
def scores():
    """Logits of a calibrated model, and labels."""
    rng = np.random.default_rng(5)
    z = 2.0 * rng.normal(size=(N, 4))
    return z, draw(softmax(z, axis=1), rng)


def said(evaluation):
    known = verdict(evaluation)
    return [known.headline, *(point.text for point in known.points)]


# ------------------------------------------------------------------------------------- stored verdicts
def test_models_have_the_verdict_that_evaluate_stores(scores):
    z, labels = scores
    models = {name: cal.Classification.from_logits(s * z, labels) for name, s in {"sure": 2.0, "right": 1.0}.items()}
    compared = cal.compare(models, "nll", resamples=50, relevant_error=0.15)
    assert {name: compared.verdict[name].status for name in models} == {"sure": "miscalibrated", "right": "calibrated"}
    for name, model in models.items():
        assert (
            compared.verdict[name].to_json() == cal.evaluate(model, curves=False, relevant_error=0.15).verdict.to_json()
        )
    assert Evaluation.from_json(compared.to_json()).verdict["sure"].to_json() == compared.verdict["sure"].to_json()
    assert "sure is overconfident; right is well calibrated" in said(compared)


def test_all_models_with_one_verdict_share_a_sentence(scores):
    z, labels = scores
    models = {f"m{s:g}": cal.Classification.from_logits(s * z, labels) for s in (1.8, 2.2)}
    lines = said(cal.compare(models, "cll,nll", resamples=50))
    (line,) = [text for text in lines if "overconfident" in text]
    assert line.startswith("both models are overconfident (optimal temperature 1.")


def test_a_temperature_above_one_accuses_no_model_that_evaluate_calls_inconclusive():
    rng = np.random.default_rng(5)
    z = 2.0 * rng.normal(size=(100, 3))
    labels = draw(softmax(z, axis=1), rng)
    models = {name: cal.Classification.from_logits(s * z, labels) for name, s in {"a": 1.1, "b": 1.15}.items()}
    compared = cal.compare(models, "cll,nll", resamples=50)
    assert min(compared.comparison.best_temperature.values()) > 1.1
    assert {cal.evaluate(model, curves=False).verdict.status for model in models.values()} == {"inconclusive"}
    lines = said(compared)
    assert not [text for text in lines if "confident" in text]
    assert [text for text in lines if text.startswith("calibration is inconclusive for both models (optimal temp")]


def test_verdicts_are_on_the_relevant_error_and_the_units_that_were_named(scores):
    z, labels = scores
    columns = {"prompt": np.arange(N) // 3}
    model = cal.Classification.from_logits(1.5 * z, labels, columns=columns)
    compared = cal.compare({"a": model}, "nll", resamples=50, units="prompt", relevant_error=0.5)
    expected = cal.evaluate(model, units="prompt", relevant_error=0.5, curves=False).verdict
    assert compared.verdict.to_json() == expected.to_json()
    assert expected.status == "negligible"


def test_data_sets_have_verdicts_of_their_own(scores):
    z, labels = scores
    sure, right = (cal.Classification.from_logits(s * z, labels) for s in (2.0, 1.0))
    other = cal.Classification.from_logits(z[::-1], labels[::-1])
    sets = {"one": {"a": sure, "b": right}, "two": {"a": other, "b": other}}
    compared = cal.compare(sets, "nll", resamples=50, relevant_error=0.15)
    statuses = {name: item.status for name, item in compared.verdict.items()}
    assert statuses == {"one/a": "miscalibrated", "one/b": "calibrated", "two/a": "calibrated", "two/b": "calibrated"}
    assert "one/a is overconfident; one/b, two/a and two/b are well calibrated" in said(compared)


# --------------------------------------------------------------------------------------------- ties
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_one_model_at_four_temperatures_has_no_winner(scores, dtype):
    z, labels = scores
    factors = {"a": 1.0, "b": 2.0, "c": 0.5, "d": 1.3}
    models = {name: cal.Classification.from_logits((s * z).astype(dtype), labels) for name, s in factors.items()}
    compared = cal.compare(models, resamples=200)
    ranking = compared.comparison.ranking
    assert [item.rank for item in ranking] == [1, 1, 1, 1]
    assert [item.best for item in ranking] == [0.25] * 4
    for pair in compared.comparison.pairs:
        if pair.score == "cll":
            assert (pair.difference, pair.p_value, pair.better) == (0.0, 1.0, None)
    assert verdict(compared).headline == "a, b, c and d are identical by CLL"
    assert compared.comparison.ranks["nll"][0].model == "a"  # before temperature scaling they differ
    two = verdict(cal.compare({name: models[name] for name in "ab"}, resamples=200))
    as_given = "without temperature scaling a is significantly better by NLL"
    assert any(f"a and b are identical by CLL; {as_given}" in point.text for point in two.points)


def test_identical_models_share_first_place_and_beat_the_third(scores):
    z, labels = scores
    noisy = z + 2.0 * np.random.default_rng(6).normal(size=z.shape)
    logits = {"a": z, "b": 1.5 * z, "worse": noisy}
    compared = cal.compare(
        {name: cal.Classification.from_logits(own, labels) for name, own in logits.items()}, resamples=200
    )
    assert {item.model: item.rank for item in compared.comparison.ranking} == {"a": 1, "b": 1, "worse": 3}
    assert verdict(compared).headline == "a and b are identical by CLL, significantly better than all others"


def test_a_shared_outlier_hides_no_difference():
    rng = np.random.default_rng(7)
    y = rng.normal(size=300)
    y[0] = 1e7
    one = cal.Regression.from_gaussian(np.where(np.arange(300), y + 0.1, 0.0), np.ones(300), y)
    two = cal.Regression.from_gaussian(np.where(np.arange(300), y + 1.0, 0.0), np.ones(300), y)
    pair = cal.compare({"one": one, "two": two}, "mse", resamples=100).comparison.pairs[0]
    assert pair.difference < -0.9


# ---------------------------------------------------------------------------------- unstable temperature
@pytest.fixture(scope="module")
def forest():
    """A model with few errors, whose halves hardly have any, and a forest with four times as many, on 100 rows."""
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 2, 100)
    sign = 2.0 * labels - 1.0
    margin = np.abs(rng.normal(4.0, 1.2, 100))
    wrong = np.zeros(100, bool)
    wrong[rng.choice(100, 3, replace=False)] = True
    logistic = expit(sign * np.where(wrong, -0.3, margin))
    votes = np.clip(0.5 + sign * rng.normal(0.28, 0.2, 100), 0.02, 0.98)
    return {
        "forest": cal.Classification.from_probs(votes, labels),
        "logistic": cal.Classification.from_probs(logistic, labels),
    }


def test_a_fit_that_overfits_half_of_the_rows_names_no_winner(forest):
    compared = cal.compare(forest, resamples=500)
    comparison = compared.comparison
    assert comparison.unstable == ("logistic",)
    errors = {item.model: 1.0 - item.value for item in comparison.ranks["accuracy"]}
    assert errors["logistic"] < 0.5 * errors["forest"]
    lines = said(compared)
    assert lines[0] == "CLL is unstable on 100 rows; NLL and Brier: logistic is significantly better"
    assert not [text for text in lines if "best by CLL" in text or "first by CLL" in text]
    assert "unstable-temperature" in {note.code for note in compared.warnings}
    assert Evaluation.from_json(compared.to_json()).comparison.unstable == ("logistic",)


def test_a_fit_on_enough_rows_is_stable(scores):
    z, labels = scores
    models = {"a": cal.Classification.from_logits(2.0 * z, labels), "b": cal.Classification.from_logits(z, labels)}
    assert cal.compare(models, resamples=50).comparison.unstable == ()


def test_unstable_without_other_proper_scores_asks_for_them(forest):
    lines = said(cal.compare(forest, "cll", resamples=100))
    assert lines[0] == "CLL is unstable on 100 rows; add nll and brier to the scores"


# ----------------------------------------------------------------------------------- scores that mislead
def test_models_judged_on_their_own_answers_have_no_winner_by_likelihood():
    rng = np.random.default_rng(8)
    p, q = rng.beta(4, 2, 800), rng.beta(9, 1, 800)
    ids = np.arange(800)
    one = cal.Judged.from_confidence(p, rng.random(800) < p, ids=ids)
    two = cal.Judged.from_confidence(q, rng.random(800) < q, ids=ids)
    compared = cal.compare({"one": one, "two": two}, resamples=200)
    assert "own-answers" in {note.code for note in compared.warnings}
    lines = said(compared)
    assert lines[0] == "CLL cannot rank these models: each is judged on its own answers"
    assert not [text for text in lines if "better than" in text or "ranks first" in text or "is best" in text]


def test_a_biased_error_ranks_no_models(scores):
    z, labels = scores
    models = {name: cal.Classification.from_logits(s * z, labels) for name, s in {"a": 1.0, "b": 1.4}.items()}
    lines = said(cal.compare(models, "ece,nll", rank_by="ece", resamples=100))
    assert lines[0] == "ECE cannot rank models: its bias differs between them"


def test_a_score_that_ranks_differently_says_whether_that_is_significant(scores):
    z, labels = scores
    noisy = 3.0 * (z + 0.6 * np.random.default_rng(9).normal(size=z.shape))
    models = {
        "sharp": cal.Classification.from_logits(5.0 * z, labels),
        "dull": cal.Classification.from_logits(noisy, labels),
    }
    (line,) = [text for text in said(cal.compare(models, "cll,nll", resamples=200)) if text.startswith("ranked diff")]
    assert line == "ranked differently than by CLL: by NLL, dull is significantly better"
