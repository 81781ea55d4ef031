"""The section on uncertainties of rows: histograms add up, lines are the stored curves, means have intervals."""

from dataclasses import replace

import numpy as np
import pytest
from reported import blocks, drawn, draws_all, figures, rows

import calibrant as cal
from calibrant.render.formatting import format_interval, format_number
from calibrant.reporting.charts.histograms import ROWS, SHARES
from calibrant.reporting.document import TableBlock
from calibrant.reporting.report_data import collect
from calibrant.reporting.sections.uncertainty import section

METRICS = "entropy,expected_entropy,mutual_information,variation_ratio,avu_auc"


@pytest.fixture(scope="module")
def evaluated(demo):
    return cal.evaluate(cal.read(demo["shifted"])[np.arange(0, 5000, 16)], METRICS, resamples=30)


def of(*evaluations):
    return section(collect(evaluations))


def with_curves(evaluation, **curves):
    result = evaluation.results[0]
    return replace(evaluation, results=(replace(result, curves={**result.curves, **curves}),))


def test_correct_rows_are_above_the_line_and_wrong_ones_below(evaluated):
    curve, figure = evaluated.results[0].curves["entropy"], figures(of(evaluated))["entropy"]
    shares = figure.data[(SHARES,)]
    heights = {kind: [row["height"] for row in rows(shares, kind=kind)] for kind in ("correct", "wrong")}
    assert sum(heights["correct"]) == pytest.approx(1)
    assert sum(heights["wrong"]) == pytest.approx(-1)
    right, wrong = sum(curve["correct"]), sum(curve["wrong"])
    by_hand = np.array(curve["correct"]) / right
    assert heights["correct"] == pytest.approx(by_hand[: len(heights["correct"])])
    counted = figure.data[(ROWS,)]
    assert sum(x for x in counted["height"] if x > 0) == right
    assert sum(x for x in counted["height"] if x < 0) == -wrong
    assert sum(counted["rows"]) == right + wrong == sum(curve["n"])


def test_bins_behind_the_last_row_are_left_out(evaluated):
    bins = {"lower": [k / 20 for k in range(20)], "upper": [(k + 1) / 20 for k in range(20)]}
    counts = {"correct": [5, 1] + [0] * 18, "wrong": [0] * 9 + [2] + [0] * 10, "n": [5, 1] + [0] * 7 + [2] + [0] * 10}
    made = of(with_curves(evaluated, mutual_information=bins | counts))
    figure = figures(made)["mutual-information"]
    assert max(figure.data[(ROWS,)]["upper"]) == 0.5
    assert "disagreement" in figure.title
    draws_all(made)


def test_means_are_in_a_table_with_their_intervals(evaluated):
    (shown,) = (block for block in blocks(of(evaluated), TableBlock) if block.table.title == "Mean uncertainty")
    for name in ("entropy", "expected_entropy", "mutual_information", "variation_ratio"):
        (row,) = (row for row in shown.table.rows if row[0] == name)
        e = evaluated[name]
        assert row[2:4] == (format_number(e.value), format_interval(e.low, e.high))


def test_lines_are_those_of_accuracy_versus_uncertainty(evaluated):
    curve, figure = evaluated.results[0].curves["avu"], figures(of(evaluated))["avu"]
    data = dict(figure.data[()])
    assert data.pop("x") == curve["t"]
    assert data == {name: values for name, values in curve.items() if name != "t"}
    assert drawn(figure).count('aria-roledescription="line mark"') == 3


def test_without_wrong_rows_there_is_no_line_of_them(evaluated):
    curve = {key: value for key, value in evaluated.results[0].curves["avu"].items() if "inaccurate" not in key}
    figure = figures(of(with_curves(evaluated, avu=curve)))["avu"]
    assert list(figure.heads.values())[2:] == ["AvU", "p(accurate | certain)"]
    assert drawn(figure).count('aria-roledescription="line mark"') == 2


def test_without_labels_all_rows_are_above_the_line(demo):
    evaluation = cal.evaluate(cal.read(demo["glyphs"])[np.arange(90)], "entropy", resamples=20)
    made = of(evaluation)
    figure = figures(made)["entropy"]
    assert list(figure.data) == [(ROWS,)]
    assert sum(figure.data[(ROWS,)]["height"]) == 90
    assert "no labels" in figure.caption
    draws_all(made)


def test_judged_answers_have_the_uncertainty_of_their_confidence():
    rng = np.random.default_rng(1)
    confidence = rng.uniform(size=60)
    made = of(
        cal.evaluate(
            cal.Judged.from_confidence(confidence, rng.uniform(size=60) < confidence), "accuracy", resamples=20
        )
    )
    assert figures(made)["avu"].heads["uncertainty"] == "1 − confidence"
    draws_all(made)


def test_numbers_have_no_such_section():
    numbers = cal.Regression.from_gaussian(np.zeros(20), np.ones(20), np.linspace(-1, 1, 20))
    assert of(cal.evaluate(numbers, "mse", resamples=20)) is None
