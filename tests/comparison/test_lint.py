"""`lint`: the guard alone, over predictions and over stored evaluations."""

import json

import numpy as np
import pytest
from compared_models import FIVE, IDS, gaussian, judged, made, other
from evaluations import evaluate_with

import calibrant as cal
from calibrant.errors import UsageError
from calibrant.predictions.base import Note
from calibrant.results.comparison import Comparison, Pair, Ranked

PAIR = {"a": made(1, ids=IDS), "b": made(2, ids=IDS)}


def evaluated(metrics=None, models=PAIR, **settings):
    return evaluate_with(models, metrics, intervals=False, curves=False, **settings)


def test_nothing_to_say():
    found = cal.comparison.lint(PAIR)
    assert found.clean
    assert list(found) == []
    assert len(found) == 0
    assert str(found) == "no pitfall was found"
    assert found.to_json()["warnings"] == []


def test_what_was_found_is_told_in_every_form():
    found = cal.comparison.lint({"a": made(1), "b": FIVE}, scores="ece(bins=10),nll")
    assert found.codes == ("biased-errors", "uncalibrated-likelihood", "different-members")
    assert not found.clean
    assert [note.code for note in found] == list(found.codes)
    lines = str(found).splitlines()
    assert len(lines) == len(found) == 3
    assert all(line.startswith(note.code) and note.reference in line for line, note in zip(lines, found, strict=True))
    data = json.loads(json.dumps(found.to_json()))
    assert set(data["warnings"][0]) == {"code", "message", "reference"}


def test_names_come_as_they_may():
    assert cal.comparison.lint([made(1), made(2)], scores=["cll", "tace"]).codes == ("biased-errors",)
    assert cal.comparison.lint(PAIR, rank_by="nll").codes == ("uncalibrated-likelihood",)
    assert cal.comparison.lint(made(1), scores="ece").clean  # one model is not compared
    assert cal.comparison.lint({"a": gaussian(1), "b": gaussian(2)}).clean
    assert cal.comparison.lint({"a": judged(1), "b": judged(2)}).clean


def test_curves_are_looked_at_where_they_are_named(tmp_path):
    """Every evaluation has curves, and to compare by them is another matter."""
    found = evaluate_with(PAIR, intervals=False)
    assert {"accuracy_confidence", "avu", "rejection", "risk_coverage"} <= set(found.results[0].curves)
    back = cal.Evaluation.load(found.save(tmp_path / "e.json"))
    for what in (found, back, PAIR):
        assert cal.comparison.lint(what).clean
        assert cal.comparison.lint(what, curves=["rejection", "risk_coverage"]).clean
        (note,) = cal.comparison.lint(what, curves=["accuracy_confidence", "rejection"])
        assert note.code == "confidence-thresholds"
        assert "(accuracy_confidence)" in note.message
        assert cal.comparison.lint(what, curves="avu").codes == ("confidence-thresholds",)
        assert cal.comparison.lint(what, scores="cll,accuracy_confidence").codes == ("confidence-thresholds",)
        assert cal.comparison.lint(what, scores="cll,rejection(score=entropy)").clean
    assert cal.comparison.lint(made(1), curves="avu").clean  # one model is not compared


def test_every_curve_of_an_evaluation_can_be_named():
    one = gaussian(1)
    known = {"y": one.y, "columns": {"x": one.y}}
    several = cal.Regression.from_gaussian(np.stack([one.mean[0], one.y]), np.ones((2, one.n)), **known)
    for model in (made(1), made(1, members=2), judged(1), one, several):
        made_of = evaluate_with(model, intervals=False).results[0].curves
        assert cal.comparison.lint(model, curves=list(made_of)).clean


def test_data_sets_are_looked_at_one_by_one_and_together():
    sets = {"d1": {"a": made(1), "b": FIVE}, "d2": {"a": other(1), "b": other(2)}}
    (note,) = cal.comparison.lint(sets)
    assert note.message.startswith("d1: numbers of members differ")
    assert cal.comparison.lint({"d1": sets["d1"]}).codes == ("different-members",)
    twice = cal.comparison.lint({"d1": PAIR, "d2": PAIR})
    assert twice.codes == ("same-rows-twice",)
    assert "d1 and d2" in str(twice)
    with pytest.raises(UsageError, match="of every data set"):
        cal.comparison.lint(sets, pool=FIVE)
    with pytest.raises(UsageError, match="none of 'd1'"):
        cal.comparison.lint(sets, clean=PAIR)
    assert cal.comparison.lint(sets, pool="b", clean={"d1": {"a": made(1)}, "d2": {}}).codes == (
        "scored-on-fitted-rows",
        "pool-of-one",
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"curves": "rejections"}, "did you mean 'rejection'"),
        ({"scores": "eec"}, "did you mean 'ece'"),
        ({"pool": "poll"}, "name of a model"),
        ({"rank_by": "nope"}, "metric"),
    ],
)
def test_what_does_not_exist_is_an_error(given, said):
    with pytest.raises(UsageError, match=said):
        cal.comparison.lint(PAIR, **given)


def test_detection_scores_are_refused():
    inside = cal.Detection.from_scores(np.arange(10.0), np.arange(10.0) + 2)
    with pytest.raises(UsageError, match="detection"):
        cal.comparison.lint(inside)


def test_rows_that_cannot_be_matched_are_a_note_and_no_error():
    found = cal.comparison.lint({"a": made(1), "b": made(2)[:300]})
    assert found.codes == ("different-rows",)
    assert "got 400 and 300 rows" in str(found)
    assert cal.comparison.lint({"a": made(1), "b": judged(2)}).codes == ("different-rows",)


def test_units_pool_and_clean_rows_are_looked_at():
    of_patients = {"a": made(1, columns={"patient": np.arange(400) // 4}), "b": made(2)}
    assert cal.comparison.lint(of_patients).codes == ("dependent-rows",)
    assert cal.comparison.lint(of_patients, units="patient").clean
    assert cal.comparison.lint({"a": FIVE.member(0), "b": made(2)}, pool=FIVE).codes == ("pool-overlap",)
    assert cal.comparison.lint({"a": FIVE.member(0), "p": FIVE}, pool="p").codes == ("pool-overlap",)
    assert cal.comparison.lint(PAIR, clean=PAIR).codes == ("scored-on-fitted-rows",)


def test_files_are_read(tmp_path):
    cal.write(made(1), tmp_path / "a.npz")
    assert cal.comparison.lint({"a": cal.scan(tmp_path / "a.npz"), "b": made(1)}).codes == ("identical-models",)


def odd_models():
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(3), 6)
    yield "no labels", [cal.Classification.from_probs(p) for p in (probs, probs[::-1])]
    yield "one row", [cal.Classification.from_probs(p, [0]) for p in (probs[:1], probs[1:2])]
    yield "soft labels", [cal.Classification.from_probs(p, label_probs=probs) for p in (probs, probs[::-1])]
    yield "one number", [cal.Classification.from_logits(rng.normal(size=6), [0, 1] * 3) for _ in "ab"]
    yield "certain", [cal.Classification.from_probs(np.eye(3)[k], [0, 1, 2]) for k in ([0, 1, 2], [2, 1, 0])]
    yield "−∞", [cal.Classification.from_log_probs(np.where(np.eye(3)[[0, 1]] > 0, 0.0, -np.inf), [0, 1]) for _ in "ab"]
    yield "members of one number", [cal.Classification.from_probs(rng.random((m, 6, 1)), [0, 1] * 3) for m in (1, 4)]
    yield "no judgement", [cal.Judged.from_confidence(rng.random(6)) for _ in "ab"]
    yield "samples", [cal.Regression.from_samples(rng.normal(size=(9, 6)), np.arange(6.0)) for _ in "ab"]
    yield "quantiles", [cal.Regression.from_quantiles(rng.random((6, 2)), [0.1, 0.9], np.arange(6.0)) for _ in "ab"]
    yield "no y", [cal.Regression.from_gaussian(rng.random(6), np.ones(6)) for _ in "ab"]


@pytest.mark.parametrize(
    ("name", "models"), list(odd_models()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_odd_predictions_are_looked_at_without_complaint(name, models):
    del name
    named = dict(zip("ab", models, strict=True))
    for given in ({}, {"pool": "a"}, {"clean": named}, {"pool": models[0]}):
        found = cal.comparison.lint(named, **given)
        assert all(note.reference for note in found)


# ----------------------------------------------------------------------------------------------- evaluations
def test_several_inputs_are_not_compared_unless_metrics_were_named():
    assert cal.comparison.lint(evaluated()).clean
    assert cal.comparison.lint(evaluated("accuracy,aurc")).clean
    assert cal.comparison.lint(evaluated(["ece", "accuracy"])).codes == ("biased-errors",)
    assert cal.comparison.lint(evaluated("ece", {"a": made(1)})).clean
    assert cal.comparison.lint(evaluated("nll")).codes == ("uncalibrated-likelihood",)
    assert cal.comparison.lint(evaluated("nll", {"a": gaussian(1), "b": gaussian(2)})).clean
    assert cal.comparison.lint(evaluated(), scores="tace").codes == ("biased-errors",)
    assert cal.comparison.lint(evaluated("accuracy", {"a": made(1), "b": FIVE})).clean


def test_inputs_that_are_one_model_under_shift_are_not_compared():
    shifted = {f"s{k}": made(k, meta={"shift": "blur", "severity": k}) for k in (1, 2)}
    assert cal.comparison.lint(evaluated("ece", shifted, shift=True)).clean


def test_an_evaluation_takes_no_predictions_beside_it():
    with pytest.raises(UsageError, match="an evaluation alone"):
        cal.comparison.lint(evaluated(), clean=PAIR)


@pytest.mark.parametrize("p", [0.4, 0.001])
def test_a_comparison_tells_what_it_noticed_and_whether_the_best_differ(p, tmp_path):
    ranking = tuple(Ranked(name, k + 1, 0.0, 0.0, 0.0, 1, 2, 0.5) for k, name in enumerate("ab"))
    pair = Pair("cll", "a", "b", 0.01, 0.01 - (0.02 if p > 0.05 else 0.005), 0.03, 0.95, p, p, p, 400)
    plain = evaluated("accuracy,ece")
    notes = (Note("different-labels", "said before", "somewhere"), Note("other", "not a pitfall"))
    found = cal.Evaluation(
        plain.version, {**plain.settings, "metrics": ["cll", "ece"]}, plain.inputs, plain.results, notes,
        comparison=Comparison("cll", ranking, (pair,)), kind="comparison",
    )  # fmt: skip
    expected = ["different-labels", "biased-errors", *(["too-small"] if p > 0.05 else [])]
    back = cal.Evaluation.load(found.save(tmp_path / "e.json"))
    for each in (found, back):
        assert list(cal.comparison.lint(each).codes) == expected
