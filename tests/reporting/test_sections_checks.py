"""The section of posterior predictive checks: boxes are those of the checks, and words stand beside each."""

import re
from dataclasses import replace

import numpy as np
import pytest
from reported import as_html, blocks, drawn, draws_all, figures, rows

import calibrant as cal
from calibrant.reporting.document import Panel, Points, TableBlock
from calibrant.reporting.labels import as_sentence
from calibrant.reporting.report_data import collect
from calibrant.reporting.sections.checks import ENDS, MAX_BOXES, section

SCRIPT = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def checked(demo):
    shifted = cal.read(demo["shifted"])[np.arange(0, 5000, 16)].named("shifted")
    return cal.check(shifted, draws=60, by="severity")


def of(*evaluations):
    return section(collect(evaluations))


def with_result(evaluation, **changed):
    return replace(evaluation, results=(replace(evaluation.results[0], **changed),))


def test_each_statistic_has_its_box_and_its_sentence(checked):
    (result,), made = checked.results, figures(of(checked))
    for place, (key, check) in enumerate(result.checks.items()):
        figure = made[f"statistic-{place + 1}"]
        assert figure.title == key
        assert f"{result.reading[place]}." == f"{key}: {figure.caption[0].lower()}{figure.caption[1:]}"
        first, second = rows(figure.data[()])
        assert (first["name"], second["name"]) == ("Bayesian", "independent")
        assert {end: first[end] for end in ENDS} == {end: getattr(check, end) for end in ENDS}
        assert second["q95"] == result.independent[key].q95
        assert ("than expected" in first["finding"]) is (check.passed("interval") is False)


def test_conclusions_of_all_checks_are_shown(checked):
    (result,) = checked.results
    (points,) = blocks(of(checked), Points)
    assert [text for _, _, text in points.items] == [as_sentence(line) for line in result.reading[len(result.checks) :]]
    tone = points.items[-1][0]
    assert tone == ("bad" if result.supported == "neither" else "good")


def test_a_cross_is_drawn_for_every_row(checked):
    figure = figures(of(checked))["statistic-1"]
    crosses = re.findall(r'<path aria-label="[^"]*observed[^"]*"', drawn(figure))
    assert len(crosses) == 2
    assert all("finding" in cross for cross in crosses)


def test_groups_have_a_figure_for_every_statistic_and_reading(checked):
    (result,) = checked.results
    figure = figures(of(checked))["groups-1"]
    assert [control.options for control in figure.controls] == [tuple(result.checks), ("Bayesian", "independent")]
    for group in result.groups:
        (row,) = rows(figure.data["nll", "independent"], name=str(group.value))
        assert row["observed"] == group.checks["nll"].observed
        assert row["q50"] == group.independent["nll"].q50


def test_every_choice_is_drawn(checked):
    draws_all(of(checked))


def test_tables_are_those_of_the_checks(checked):
    heads = [block.table.heads[0] for block in blocks(of(checked), TableBlock)]
    assert heads == ["statistic", "severity", "member assumption"]


def test_infinite_statistics_are_described_and_not_drawn(checked):
    checks = dict(checked.results[0].checks)
    checks["nll"] = replace(checks["nll"], observed=float("inf"), passed_range=False, passed_interval=False)
    made = of(with_result(checked, checks=checks))
    assert "nll" not in {figure.title for figure in figures(made).values()}
    told = {topic: tone for points in blocks(made, Points) for tone, topic, _ in points.items}
    assert told["nll"] == "bad"
    draws_all(made)


def test_many_statistics_share_a_figure(checked):
    check = checked.results[0].checks["ece"]
    many = {f"statistic {k}": replace(check, observed=k / 100) for k in range(12)}
    lines = tuple(f"{key}: …" for key in many)
    made = of(with_result(checked, checks=many, independent={}, groups=(), reading=lines, supported=None))
    figure = figures(made)["statistics"]
    assert list(figures(made)) == ["statistics"]
    assert [figure.data[(key,)]["observed"] for key in figure.controls[0].options] == [[k / 100] for k in range(12)]
    (points,) = blocks(made, Points)
    assert [topic for _, topic, _ in points.items] == list(many)


def test_inputs_are_compared(checked, demo):
    clean = cal.check(cal.read(demo["test"])[np.arange(100)].named("clean"), draws=60)
    made = of(checked, clean)
    figure = figures(made)["inputs"]
    data = figure.data["accuracy", "Bayesian"]
    both = [item.results[0].checks["accuracy"].observed for item in (checked, clean)]
    assert (data["name"], data["observed"]) == (["shifted", "clean"], both)
    assert [block.subject for block in made.blocks if isinstance(block, Panel)] == [0, 1]
    assert "inputs" not in figures(of(checked))


def test_one_reading_is_called_by_its_name(demo):
    alone = cal.check(cal.read(demo["test"])[np.arange(60)], "accuracy", draws=40, members="independent")
    assert figures(of(alone))["statistic-1"].data[()]["name"] == ["independent"]


def test_one_member_is_the_model(demo):
    alone = cal.check(cal.read(demo["test"])[np.arange(60)].member(0), "accuracy", draws=40)
    assert figures(of(alone))["statistic-1"].data[()]["name"] == ["the model"]


def test_of_many_groups_the_first_are_drawn_and_all_are_numbers(checked):
    (result,) = checked.results
    groups = tuple(replace(result.groups[0], value=f"{SCRIPT} {k}" * 40) for k in range(MAX_BOXES + 6))
    made = of(with_result(checked, groups=groups))
    figure = figures(made)["groups-1"]
    data = figure.data["nll", "Bayesian"]
    assert len(set(data["name"])) == len(groups)
    assert sum(data["drawn"]) == MAX_BOXES
    assert f"first {MAX_BOXES} of {len(groups)}" in figure.caption
    assert drawn(figure, "nll", "Bayesian").count("observed") >= MAX_BOXES
    assert "<script>alert" not in as_html(made)
    assert "script" not in str(figure.chart)


def test_without_checks_there_is_no_section(demo):
    assert of(cal.evaluate(cal.read(demo["test"])[np.arange(50)], "accuracy", resamples=20)) is None
