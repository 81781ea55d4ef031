"""Calibration errors: charts show the stored numbers, marks how they stand to the band; caveats are told."""

import math

import numpy as np
import pytest
from scipy.special import softmax

import calibrant as cal
from calibrant.evaluation.ladder_tables import ladder_lines
from calibrant.registry import find
from calibrant.registry.estimate import Estimate
from calibrant.reporting.document import Figure, Fold, Heading, Panel, Shown, Text
from calibrant.reporting.figures import svg
from calibrant.reporting.gathering import gather
from calibrant.reporting.sections import errors


def model(sharp, n=400, seed=0):
    """Calibrated where sharp is 1; too sure above."""
    rng = np.random.default_rng(seed)
    z = 2 * rng.normal(size=(n, 3))
    labels = (softmax(z, axis=1).cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    return cal.Classification.from_logits(sharp * z, labels)


@pytest.fixture(scope="module")
def both():
    return cal.evaluate({"calibrated": model(1.0), "too sure": model(4.0)}, resamples=100)


@pytest.fixture(scope="module")
def ladder():
    return cal.evaluate(model(2.0, 150), ladder=True, resamples=50)


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
    section = errors.section(gather([both]))
    for subject, result in enumerate(both.results):
        _, rows = drawn(section, subject)
        for spec, row in rows.items():
            e = result.metrics[spec]
            assert row["value"] == e.value
            for column, stored in (("low", e.low), ("high", e.high), ("null_low", e.null_low), ("p_value", e.p_value)):
                assert row[column] == stored or (math.isnan(stored) and not (row[column] or 0) > 0)
        assert {"ece", "ks", "cwce", "smooth_ece", "ici", "mmce"} <= set(rows)
        assert not {"accuracy", "brier", "slope", "hosmer_lemeshow"} & set(rows)


def test_marks_tell_a_calibrated_model_from_one_that_is_too_sure(both):
    section = errors.section(gather([both]))
    calibrated, sure = (drawn(section, k)[1] for k in (0, 1))
    assert {sure[spec]["standing"] for spec in ("ece", "tce", "ks", "smooth_ece", "cwce")} == {errors.ABOVE}
    assert calibrated["ece"]["standing"] == calibrated["ks"]["standing"] == errors.WITHIN


def test_standing_is_where_the_value_is_beside_the_band():
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
    figure, _ = drawn(errors.section(gather([ladder])))
    assert figure.first() == (errors.LADDER,)
    names = [name.partition(" ")[0] for name in figure.data[errors.LADDER,]["name"]]
    assert names == ["rbs", "ce(p=2)", "cwce", "tce", "ks", "ece"]
    text = svg(figure)
    places = [text.index(f">{name} ↓<") for name in names]
    assert places == sorted(places)
    for mark in ("diamond", "circle", "square"):
        assert mark in str(figure.chart)


def test_table_has_p_values_and_what_would_be_seen(both):
    fold = next(block for block in blocks(errors.section(gather([both])), 1) if isinstance(block, Fold))
    table = fold.blocks[0].table
    assert table.heads[-2:] == ("p-value", "would be seen")
    row = next(row for row in table.rows if row[0] == "ece ↓")
    e = both.results[1].metrics["ece"]
    assert row[-2:] == (f"{e.p_value:.4f}", f"{e.detectable:.4f}")
    assert {"slope", "spiegelhalter_z ", "hosmer_lemeshow ↓"} & {row[0] for row in table.rows}


def test_caveats_are_told_of_each_input(both):
    for subject, result in enumerate(both.results):
        shown = blocks(errors.section(gather([both])), subject)
        told = [line for block in shown if isinstance(block, Text) for line in block.lines]
        e = result.metrics["ece"]
        assert f"{e.n} rows would show a true ECE of {e.detectable:.4f} in four of five cases." in told
        above = [spec for spec, e in result.metrics.items() if e.value > e.high * (1 + 1e-9)]
        said = f"{', '.join(above)}: the value is biased upwards, and the interval is of the true error."
        assert (said in told) is bool(above)
    assert any(e.value > e.high for e in both.results[0].metrics.values())


def test_biases_are_those_of_the_registry(both):
    told = dict(errors.section(gather([both])).blocks[-1].blocks[0].items)
    assert told["Expected calibration error (ece)"] == find("ece").bias
    assert not any("Accuracy" in term for term in told)


def test_ladder_is_there_where_it_was_asked_for(ladder, both):
    shown = blocks(errors.section(gather([ladder])))
    assert Heading("The ladder of calibration errors") in shown
    links = next(block for block in shown if isinstance(block, Shown)).table
    assert len(links.rows) == len(ladder.results[0].ladder.standings)
    told = [line for block in shown if isinstance(block, Text) for line in block.lines]
    assert {f"{line}." for line in ladder_lines(ladder.results[0].ladder)} <= set(told)
    assert not any(isinstance(block, Heading) for block in blocks(errors.section(gather([both]))))


def test_regression_has_its_own_errors_and_other_tasks_may_have_none():
    y = np.random.default_rng(0).normal(size=120)
    numbers = cal.evaluate(cal.Regression.from_gaussian(np.zeros(120), np.full(120, 0.4), y), resamples=50)
    figure, rows = drawn(errors.section(gather([numbers])))
    assert {"calibration_error", "mace", "rmsce"} <= set(rows)
    assert rows["mace"]["standing"] == errors.ABOVE
    assert "<svg" in svg(figure)
    assert errors.section(gather([cal.evaluate(model(1.0), ["accuracy", "nll"], resamples=20)])) is None
