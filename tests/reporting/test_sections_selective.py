"""The section on leaving rows out: lines are the stored curves, and the numbers stand beside them."""

import numpy as np
import pytest
from reported import blocks, drawn, draws_all, figures

import calibrant as cal
from calibrant.render.formatting import format_number
from calibrant.reporting.document import TableBlock
from calibrant.reporting.report_data import collect
from calibrant.reporting.sections.selective import section


@pytest.fixture(scope="module")
def evaluated(demo):
    shifted = cal.read(demo["shifted"])[np.arange(0, 5000, 16)]
    return cal.evaluate(shifted, "accuracy,aurc,e_aurc,aac", resamples=30)


def of(*evaluations):
    return section(collect(evaluations))


def test_lines_are_the_stored_curves(evaluated):
    curves, made = evaluated.results[0].curves, figures(of(evaluated))
    data = made["rejection"].data[()]
    assert data["x"] == curves["rejection"]["rejected"]
    assert data["confidence"] == curves["rejection"]["accuracy"]
    for score in ("entropy", "mutual_information"):
        assert data[score] == curves[f"rejection(score={score})"]["accuracy"]
    risk = made["risk-coverage"].data[()]
    assert (risk["risk"], risk["threshold"]) == (curves["risk_coverage"]["risk"], curves["risk_coverage"]["threshold"])


def test_rejection_begins_at_the_accuracy_and_risk_ends_at_the_error(evaluated):
    accuracy, made = evaluated["accuracy"].value, figures(of(evaluated))
    starts = [made["rejection"].data[()][score][0] for score in ("confidence", "entropy", "mutual_information")]
    assert starts == pytest.approx([accuracy] * 3)
    assert made["risk-coverage"].data[()]["risk"][-1] == pytest.approx(1 - accuracy)


def test_each_series_is_a_line_of_its_own_with_a_legend(evaluated):
    svg = drawn(figures(of(evaluated))["rejection"])
    assert svg.count('aria-roledescription="line mark"') == 3
    assert "mutual information" in svg


def test_metrics_are_in_a_table(evaluated):
    (shown,) = blocks(of(evaluated), TableBlock)
    values = {row[0]: row[2] for row in shown.table.rows}
    assert values == {f"{name} ↓": format_number(evaluated[name].value) for name in ("aurc", "e_aurc", "aac")}


def test_accuracy_above_thresholds_warns_of_comparing(evaluated):
    figure = figures(of(evaluated))["accuracy-confidence"]
    curve = evaluated.results[0].curves["accuracy_confidence"]
    assert {name: figure.data[()][name] for name in ("share", "accuracy")} == {
        name: curve[name] for name in ("share", "accuracy")
    }
    assert drawn(figure).count('aria-roledescription="line mark"') == 2
    assert "Not for comparing models" in figure.caption


def test_judged_answers_have_the_line_of_their_confidence():
    rng = np.random.default_rng(0)
    confidence = rng.uniform(size=80)
    made = of(
        cal.evaluate(
            cal.Judged.from_confidence(confidence, rng.uniform(size=80) < confidence), "accuracy,aurc", resamples=20
        )
    )
    assert set(figures(made)["rejection"].data[()]) == {"x", "confidence"}
    draws_all(made)


def test_rows_that_are_all_right_are_drawn():
    probs = np.full((30, 3), 0.05)
    probs[:, 1] = np.linspace(0.5, 0.9, 30)
    labels = np.ones(30, int)
    evaluation = cal.evaluate(cal.Classification.from_probs(probs / probs.sum(1, keepdims=True), labels), resamples=20)
    made = of(evaluation)
    assert set(figures(made)["rejection"].data[()]["confidence"]) == {1.0}
    draws_all(made)


def test_one_row_has_no_line_of_risk():
    made = of(cal.evaluate(cal.Classification.from_probs(np.array([[0.2, 0.8]]), np.array([1])), resamples=20))
    assert "risk-coverage" not in figures(made)
    draws_all(made)


def test_without_labels_there_is_no_section():
    assert of(cal.evaluate(cal.Classification.from_probs(np.array([[0.2, 0.8]])), resamples=20)) is None
