"""Results never look surer than the data make them, and say what was left out."""

import math

import numpy as np
import pytest

import calibrant as cal
from calibrant.calibration import consistency
from calibrant.errors import ShapeError, UsageError


def all_right(n=60):
    labels = np.arange(n) % 2
    probs = np.where(labels[:, None] == np.arange(2), 0.9, 0.1)
    return cal.Classification.from_probs(probs, labels, columns={"unit": np.arange(n) // 3})


def test_declaring_dependence_never_makes_an_answer_surer():
    plain = cal.evaluate(all_right(), ["accuracy", "ece"])
    by_unit = cal.evaluate(all_right(), ["accuracy", "ece"], units="unit")
    for metric in ("accuracy", "ece"):
        assert by_unit[metric].high - by_unit[metric].low >= plain[metric].high - plain[metric].low > 0.02


@pytest.mark.parametrize("metric", ["nll", "brier", "rbs", "roc_auc", "average_precision"])
@pytest.mark.parametrize("units", [None, "unit"])
def test_no_spread_means_no_interval_rather_than_one_of_no_width(metric, units):
    estimate = cal.evaluate(all_right(), [metric], units=units)[metric]
    assert math.isnan(estimate.low)
    assert math.isnan(estimate.high)
    assert estimate.method == "none"


@pytest.mark.parametrize("metric", ["roc_auc", "average_precision"])
def test_one_positive_row_has_no_resampled_interval(metric):
    rng = np.random.default_rng(0)
    predictions = cal.Classification.from_probs(rng.random(40), (np.arange(40) == 7).astype(int))
    assert math.isnan(cal.evaluate(predictions, [metric])[metric].low)


def test_effective_rows_of_independent_units_are_about_the_rows():
    rng = np.random.default_rng(1)
    predictions = cal.Judged.from_confidence(rng.random(4000), rng.random(4000) < 0.7, columns={"u": np.arange(4000)})
    plain = cal.evaluate(predictions, ["accuracy"])["accuracy"]
    by_unit = cal.evaluate(predictions, ["accuracy"], units="u")["accuracy"]
    assert by_unit.high - by_unit.low == pytest.approx(plain.high - plain.low, rel=0.01)


@pytest.mark.parametrize("norm", ["l1", "max"])
def test_the_band_of_many_rows_agrees_with_redrawing_every_row(monkeypatch, norm):
    rng = np.random.default_rng(2)
    p = np.concatenate([rng.uniform(0.9, 1.0, 30_000), rng.uniform(0.0, 0.9, 12)])
    predictions = cal.Judged.from_confidence(p, rng.random(len(p)) < p)
    spec = "ece" if norm == "l1" else "ece(norm=max)"
    exact = cal.evaluate(predictions, [spec], resamples=4000)[spec]
    monkeypatch.setattr(consistency, "NORMAL_ABOVE", 100)
    fast = cal.evaluate(predictions, [spec], resamples=4000, seed=1)[spec]
    assert fast.null_high <= 1.0
    assert fast.null_high == pytest.approx(exact.null_high, rel=0.08)
    assert fast.null_low == pytest.approx(exact.null_low, rel=0.08)


def test_groups_by_label_have_no_null_and_a_note():
    rng = np.random.default_rng(3)
    p = rng.random(400)
    predictions = cal.Classification.from_probs(p, (rng.random(400) < p).astype(int), classes=["no", "yes"])
    evaluation = cal.evaluate(predictions, ["ece(of=yes)", "nll"], by="labels")
    assert [group.value for group in evaluation.results[0].groups] == ["no", "yes"]
    for group in evaluation.results[0].groups:
        assert math.isnan(group.metrics["ece(of=yes)"].p_value)
        assert math.isnan(group.metrics["ece(of=yes)"].low)
        assert math.isfinite(group.metrics["nll"].low)
    assert [note.code for note in evaluation.warnings] == ["by-labels"]


def test_labels_in_ranges_are_groups_by_label_too():
    predictions = cal.Classification.from_probs(np.full((60, 3), 1 / 3), np.arange(60) % 3, classes=["a", "b", "c"])
    evaluation = cal.evaluate(predictions, ["ece"], by="labels:2")
    assert [group.value for group in evaluation.results[0].groups] == ["1: 0 to 1", "2: 2 to 2"]
    assert [note.code for note in evaluation.warnings] == ["too-low", "by-labels"]


def test_no_interval_of_an_error_leaves_its_range():
    for n in (1, 2, 5):
        ece = cal.evaluate(cal.Judged.from_confidence(np.full(n, 0.2), np.ones(n, int)), ["ece"])["ece"]
        assert 0.0 <= ece.low <= ece.high <= 1.0


def test_an_impossible_label_is_counted_and_the_remedy_named():
    predictions = cal.Judged.from_confidence([1.0, 1.0, 0.5], [0, 1, 1])
    notes = cal.evaluate(predictions).warnings
    assert any("1 rows gave their label probability 0" in note.message and "clip" in note.message for note in notes)


def test_group_tables_show_what_was_asked_for():
    predictions = all_right()
    evaluation = cal.evaluate(predictions, ["nll", "ece(bins=10)", "margin"], by=["unit:3", "unit:2"])
    text = str(evaluation)
    assert "by unit:3" in text
    assert "by unit:2" in text
    assert text.count("ece(bins=10)") == 4  # the tables, and a note that it is of the top label
    assert text.count("margin") == 3


@pytest.mark.parametrize("write", ["as_text", "as_markdown", "as_latex", "as_html"])
def test_every_form_tells_what_was_skipped_and_noted(write):
    from calibrant.render import evaluation as tables
    from calibrant.render import terminal as printing

    predictions = cal.Judged.from_confidence([1.0, 0.5], [0, 1])
    said = (
        getattr(tables if write == "as_html" else printing, write)(cal.evaluate(predictions, ["nll", "margin"]))
        .replace("\\", "")
        .replace("\n", " ")
    )
    assert "margin (it is not defined for judged predictions)" in " ".join(said.split())
    assert "label probability 0" in " ".join(said.split())


def test_scores_on_their_side_are_told_from_short_labels():
    with pytest.raises(ShapeError, match="looks like"):
        cal.Classification.from_logits(np.zeros((4, 250)), np.zeros(250, int))
    with pytest.raises(ShapeError, match="looks like"):
        cal.Classification.from_logits(np.zeros((250, 3, 4)), np.zeros(250, int))


def test_probabilities_called_logits_and_labels_from_one_are_noted():
    probs = np.full((100, 4), 0.25)
    notes = cal.Classification.from_logits(probs, 1 + np.arange(100) % 3).notes()
    assert {note.code for note in notes} == {"logits-like-probs", "labels-from-one"}
    assert not cal.Classification.from_logits(4 * probs, np.arange(100) % 4).notes()


@pytest.mark.parametrize("wrong", [np.zeros((3, 2)), {"a": np.zeros((3, 2))}, [1, 2], [], 7])
def test_what_are_no_predictions_is_refused_in_words(wrong):
    with pytest.raises(UsageError, match="Classification, Judged or Regression"):
        cal.evaluate(wrong)
    with pytest.raises(UsageError, match="Classification, Judged or Regression"):
        cal.measure(wrong)
