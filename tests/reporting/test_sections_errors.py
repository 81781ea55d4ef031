"""Calibration errors: charts show the stored numbers, marks how they stand to the band; caveats are texts."""

import math

import numpy as np
import pytest
from scipy.special import softmax

import calibrant as cal
from calibrant.registry.estimate import Estimate
from calibrant.registry.lookup import find
from calibrant.render.evaluation import hierarchy_lines
from calibrant.reporting.document import Details, Figure, Heading, Panel, TableBlock, Text
from calibrant.reporting.figures import svg
from calibrant.reporting.report_data import collect
from calibrant.reporting.sections import errors


def model(sharp, n=400, seed=0):
    """Calibrated where sharp is 1; too sure above."""
    rng = np.random.default_rng(seed)
    z = 2 * rng.normal(size=(n, 3))
    labels = (softmax(z, axis=1).cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    return cal.Classification.from_logits(sharp * z, labels)


@pytest.fixture(scope="module")
def both():
    return cal.evaluate({"calibrated": model(1.0), "too sure": model(4.0)}, "report", resamples=100)


@pytest.fixture(scope="module")
def ladder():
    return cal.error_hierarchy(model(2.0, 150), resamples=50)


def blocks(section, subject=0):
    panel = next(block for block in section.blocks if isinstance(block, Panel) and block.subject == subject)
    return panel.blocks


def drawn(section, subject=0):
    figure = next(block for block in blocks(section, subject) if isinstance(block, Figure))
    rows = [
        dict(zip(data, row, strict=True)) for data in figure.data.values() for row in zip(*data.values(), strict=True)
    ]
    return figure, {row["name"].partition(" ")[0]: row for row in rows}


def test_chart_has_each_error_with_its_interval_and_band(both):
    section = errors.section(collect([both]))
    for subject, result in enumerate(both.results):
        _, rows = drawn(section, subject)
        for spec, row in rows.items():
            e = result.metrics[spec]
            assert row["value"] == e.value
            for column, stored in (("low", e.low), ("high", e.high), ("null_low", e.null_low), ("p_value", e.p_value)):
                assert row[column] == stored or (math.isnan(stored) and not (row[column] or 0) > 0)
        assert {"ece", "ks", "cwce", "smooth_ece", "ici", "mmce"} <= set(rows)
        assert not {"accuracy", "brier", "slope", "hosmer_lemeshow"} & set(rows)


def test_marks_distinguish_a_calibrated_from_an_overconfident_model(both):
    section = errors.section(collect([both]))
    calibrated, sure = (drawn(section, k)[1] for k in (0, 1))
    assert {sure[spec]["standing"] for spec in ("ece", "tce", "ks", "smooth_ece", "cwce")} == {errors.ABOVE}
    assert calibrated["ece"]["standing"] == calibrated["ks"]["standing"] == errors.WITHIN


def test_standing_compares_the_value_with_the_band():
    band = {"null_low": 0.1, "null_high": 0.2}
    assert [errors.standing(Estimate(value, 9, **band)) for value in (0.05, 0.1, 0.2, 0.3, math.nan)] == [
        errors.BELOW,
        errors.WITHIN,
        errors.WITHIN,
        errors.ABOVE,
        errors.UNKNOWN,
    ]
    assert errors.standing(Estimate(0.3, 9)) == errors.UNKNOWN


def test_errors_of_one_axis_keep_their_order_where_some_have_no_band(ladder):
    """√BS has no band, and stands first all the same."""
    figure, _ = drawn(errors.section(collect([ladder])))
    assert figure.default_choice() == (errors.LADDER,)
    names = [name.partition(" ")[0] for name in figure.data[errors.LADDER,]["name"]]
    assert names == ["rbs", "ce(p=2)", "cwce", "tce", "ks", "ece"]
    text = svg(figure)
    places = [text.index(f">{name} ↓<") for name in names]
    assert places == sorted(places)
    for mark in ("diamond", "circle", "square"):
        assert mark in str(figure.chart)


def test_table_has_p_values_and_detectable_errors(both):
    fold = next(block for block in blocks(errors.section(collect([both])), 1) if isinstance(block, Details))
    table = fold.blocks[0].table
    assert table.heads[-2:] == ("p-value", "detectable")
    row = next(row for row in table.rows if row[0] == "ece ↓")
    e = both.results[1].metrics["ece"]
    assert row[-2:] == (f"{e.p_value:.4f}", f"{e.detectable:.4f}")
    assert {"slope", "spiegelhalter_z ", "hosmer_lemeshow ↓"} & {row[0] for row in table.rows}


def test_each_input_has_its_caveats(both):
    for subject, result in enumerate(both.results):
        shown = blocks(errors.section(collect([both])), subject)
        texts = [line for block in shown if isinstance(block, Text) for line in block.lines]
        e = result.metrics["ece"]
        known = next(test.detectable for test in result.verdict.evidence if test.metric == "ece")
        assert known >= e.detectable  # at the corrected level of the verdict
        assert f"80% power to detect a true ECE of {known:.4f} with {e.n} rows." in texts
        above = [spec for spec, e in result.metrics.items() if e.value > e.high * (1 + 1e-9)]
        said = f"{', '.join(above)}: the value is biased upwards; the interval is for the true error."
        assert (said in texts) is bool(above)
    assert any(e.value > e.high for e in both.results[0].metrics.values())


def test_biases_are_those_of_the_registry(both):
    texts = dict(errors.section(collect([both])).blocks[-1].blocks[0].items)
    assert texts["Expected calibration error (ece)"] == find("ece").bias
    assert not any("Accuracy" in term for term in texts)


def test_the_hierarchy_is_shown_if_computed(ladder, both):
    shown = blocks(errors.section(collect([ladder])))
    assert Heading("Error hierarchy") in shown
    links = next(block for block in shown if isinstance(block, TableBlock)).table
    assert len(links.rows) == len(ladder.results[0].ladder.standings)
    texts = [line for block in shown if isinstance(block, Text) for line in block.lines]
    assert {f"{line}." for line in hierarchy_lines(ladder.results[0].ladder)} <= set(texts)
    assert not any(isinstance(block, Heading) for block in blocks(errors.section(collect([both]))))


def test_regression_has_its_own_errors_and_other_tasks_may_have_none():
    y = np.random.default_rng(0).normal(size=120)
    numbers = cal.evaluate(cal.Regression.from_gaussian(np.zeros(120), np.full(120, 0.4), y), "report", resamples=50)
    figure, rows = drawn(errors.section(collect([numbers])))
    assert {"calibration_error", "mace", "rmsce"} <= set(rows)
    assert rows["mace"]["standing"] == errors.ABOVE
    assert "<svg" in svg(figure)
    assert errors.section(collect([cal.evaluate(model(1.0), ["accuracy", "nll"], resamples=20)])) is None
