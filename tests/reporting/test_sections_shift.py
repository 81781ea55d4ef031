"""The section on shift: boxes are quartiles over types, shares are counts of checks that pass."""

import numpy as np
import pytest
from evaluations import evaluate_with

from calibrant.checks.api import check
from calibrant.predictions import Classification
from calibrant.reporting.document import Details, Figure, TableBlock
from calibrant.reporting.figures import svg
from calibrant.reporting.report_data import collect
from calibrant.reporting.sections.shift import section
from calibrant.results.evaluation import Evaluation
from calibrant.results.shift import ShiftCell, ShiftSummary

TYPES = ("blur", "fog", "noise", "rain", "snow")


def model(name, sharp=1.0, members=3, rows=600):
    rng = np.random.default_rng(0)
    severity = np.arange(rows) % 4
    scores = rng.normal(0, 2, (rows, 4))
    labels = (scores / (1 + severity[:, None]) + rng.gumbel(size=scores.shape)).argmax(axis=1)
    columns = {"shift": np.array(TYPES)[np.arange(rows) // 4 % 5], "severity": severity}
    members = sharp * scores + 0.5 * rng.normal(size=(members, *scores.shape))
    return Classification.from_logits(members, labels, columns=columns).named(name)


@pytest.fixture(scope="module")
def evaluated():
    return [evaluate_with(model(name, sharp), "nll,accuracy,ece", shift=True, resamples=50, intervals=False)
            for name, sharp in (("calm", 1.0), ("sure", 3.0))]  # fmt: skip


@pytest.fixture(scope="module")
def checked():
    return check(model("calm"), shift=True, draws=100)


def figures(*evaluations):
    return {block.key: block for block in section(collect(evaluations)).blocks if isinstance(block, Figure)}


def rows_of(data):
    return [dict(zip(data, values, strict=True)) for values in zip(*data.values(), strict=True)]


def test_there_is_no_section_without_shift():
    assert section(collect([evaluate_with(model("calm"), "nll", resamples=50, intervals=False)])) is None


def test_boxes_are_the_quartiles_of_the_types_within_them(evaluated):
    figure = figures(*evaluated)["boxes"]
    assert figure.controls[0].options == (
        "nll (lower is better)",
        "accuracy (higher is better)",
        "ece (lower is better)",
    )
    for data in figure.data.values():
        rows = rows_of(data)
        boxes = [row for row in rows if row["kind"] == "box"]
        assert [(row["name"], row["severity"]) for row in boxes] == [(n, s) for n in ("calm", "sure") for s in range(4)]
        for box in boxes:
            own = [r["value"] for r in rows
                   if r["kind"] == "type" and (r["name"], r["severity"]) == (box["name"], box["severity"])]  # fmt: skip
            assert len(own) == box["types"] == (1 if box["severity"] == 0 else 5)
            found = [box[key] for key in ("min", "q25", "median", "q75", "max")]
            assert found == pytest.approx(np.percentile(own, [0, 25, 50, 75, 100]))


def test_boxes_of_models_are_next_to_each_other(evaluated):
    several, one = (figures(*evaluated[:k])["boxes"] for k in (2, 1))
    assert "xOffset" in str(several.chart)
    assert "xOffset" not in str(one.chart)
    assert "name" in several.heads
    assert "name" not in one.heads
    assert svg(several).count('aria-roledescription="bar"') == 2 * 4


def test_rank_correlations_are_those_of_another_library(evaluated):
    from scipy.stats import spearmanr

    table = next(b.table for b in section(collect(evaluated)).blocks if isinstance(b, TableBlock))
    assert table.heads == ("metric", "calm", "sure")
    for spec, *shown in table.rows:
        for text, evaluation in zip(shown, evaluated, strict=True):
            summary = evaluation.shift[0]
            means = [summary.at(spec, s)["mean"] for s in summary.severities]
            assert float(text.replace("−", "-")) == pytest.approx(spearmanr(summary.severities, means)[0], abs=5e-4)


def test_shares_that_pass_are_counts_over_types(checked):
    figure = figures(checked)["passed"]
    assert figure.controls[1].options == ("within 95% of replicates", "within all replicates")
    by_reading = {table.members: table for table in checked.passed}
    assert set(figure.data[figure.default_choice()]["name"]) == set(by_reading) == {"bayesian", "independent"}
    for (statistic, rule), data in figure.data.items():
        for row in rows_of(data):
            cells = [c.checks[statistic] for c in by_reading[row["name"]].cells if c.severity == row["x"]]
            ends = [(c.min, c.max) if rule.endswith("all replicates") else (c.q025, c.q975) for c in cells]
            inside = [low <= c.observed <= high for c, (low, high) in zip(cells, ends, strict=True)]
            assert row["y"] == pytest.approx(np.mean(inside))
            assert row["note"] == f"{sum(inside)} of {len(inside)}"


def test_tables_by_severity_are_collapsed(evaluated, checked):
    folds = [b for b in section(collect([*evaluated, checked])).blocks if isinstance(b, Details)]
    titles = [shown.table.title for fold in folds for shown in fold.blocks]
    assert sum("over 5 shift types" in title for title in titles) == 6
    assert sum("that pass at each severity" in title for title in titles) == 1


def by_hand(name, values):
    cells = tuple(ShiftCell(f"type {k}", 1.0, 10, {"nll": value}) for k, value in enumerate(values))
    return Evaluation("0.1.0", {"metrics": "default"}, (), (), shift=(ShiftSummary(name, "mean", cells),))


def test_infinite_metrics_are_not_drawn_and_a_single_type_is():
    assert "boxes" not in figures(by_hand("a", [float("inf"), float("nan")]))
    (data,) = figures(by_hand("a", [0.5]))["boxes"].data.values()
    assert [row["median"] for row in rows_of(data) if row["kind"] == "box"] == [0.5]


def test_inputs_of_one_name_are_distinct_and_only_the_first_are_drawn():
    figure = figures(*(by_hand("<b>", [k, k + 1.0]) for k in range(9)))["boxes"]
    (data,) = figure.data.values()
    assert list(dict.fromkeys(data["name"])) == ["<b>", *(f"<b> ({k})" for k in range(2, 8))]
    assert "the first 7 of 9 inputs" in figure.caption
