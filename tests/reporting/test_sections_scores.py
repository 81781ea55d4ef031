"""Scores and the overview: charts show stored estimates, one axis numbers of like size, and best is marked fairly."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import calibrant as cal
from calibrant.registry.estimate import Estimate
from calibrant.registry.lookup import find
from calibrant.reporting.document import Definitions, Details, Figure, Panel, Points, TableBlock, Text, figures_of
from calibrant.reporting.estimates import MAX_RATIO, magnitude, split_by_scale
from calibrant.reporting.figures import svg
from calibrant.reporting.report import document_of
from calibrant.reporting.report_data import collect
from calibrant.reporting.sections import overview, scores


def model(n=200, seed=0, sharp=1.0, signal=2.0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, n)
    z = rng.normal(size=(n, 3)) + signal * np.eye(3)[labels]
    return cal.Classification.from_logits(sharp * z, labels)


@pytest.fixture(scope="module")
def evaluation():
    return cal.evaluate({"one": model(), "other": model(seed=1, signal=0.5)}, "report", resamples=50)


@pytest.fixture(scope="module")
def numbers():
    rng = np.random.default_rng(0)
    y = 1000 * rng.normal(size=150)
    return cal.evaluate(cal.Regression.from_gaussian(np.zeros(150), np.full(150, 700.0), y), "report", resamples=50)


def blocks(section, subject=0):
    panel = next(block for block in section.blocks if isinstance(block, Panel) and block.subject == subject)
    return panel.blocks


def drawn(figure):
    """(choice, row) by row of the chart."""
    return [
        (key, dict(zip(data, row, strict=True)))
        for key, data in figure.data.items()
        for row in zip(*data.values(), strict=True)
    ]


def symbols(figure):
    """How many marks of points are drawn, without those of a legend."""
    parts = re.findall(r'<g class="mark-symbol role-mark[^>]*>(.*?)</g>', svg(figure))
    return sum(part.count("<path") for part in parts)


def spec_of(row):
    return row["name"].partition(" ")[0]


# ---------------------------------------------------------------------------------------------------------- scores
@pytest.mark.parametrize("which", ["evaluation", "numbers"])
def test_the_chart_shows_stored_estimates_without_calibration_errors(which, request):
    result = request.getfixturevalue(which).results[0]
    section = scores.section(collect([request.getfixturevalue(which)]))
    figure = next(block for block in blocks(section) if isinstance(block, Figure))
    rows = drawn(figure)
    assert {"nll", "crps", "accuracy"} & {spec_of(row) for _, row in rows}
    assert len({spec_of(row) for _, row in rows}) == len(rows)  # each once
    for _, row in rows:
        e = result.metrics[spec_of(row)]
        assert (row["value"], row["low"], row["high"], row["n"]) == (e.value, e.low, e.high, e.n)
        assert row["title"] == find(spec_of(row)).title
        assert not find(spec_of(row)).has_null_band
        assert e.method != "none"
    assert set(figure.controls[0].options) == {key for key, *_ in figure.data}
    assert symbols(figure) == len(figure.data[figure.default_choice()]["name"])


def test_errors_of_numbers_and_their_squares_have_axes_of_their_own(numbers):
    """A mean squared error of a million beside an absolute one of hundreds."""
    figure = next(b for b in blocks(scores.section(collect([numbers]))) if isinstance(b, Figure))
    place = {spec_of(row): key for key, row in drawn(figure)}
    assert place["mse"] != place["mae"] == place["crps"]
    assert place["mse"][0].startswith("scores, up to ")


@given(st.lists(st.floats(0, 1e6), max_size=40))
def test_an_axis_has_estimates_of_similar_size_and_all_nonzero_ones(values):
    known = {f"m{k}": Estimate(value, 9) for k, value in enumerate(values)}
    parts = split_by_scale("kind", list(known), known)
    shown = [spec for part in parts.values() for spec in part]
    assert len(shown) == len(set(shown))
    assert {spec for spec, e in known.items() if e.value} <= set(shown)
    for part in parts.values():
        sizes = [size for spec in part if (size := magnitude(known[spec]))]
        assert max(sizes) <= MAX_RATIO * min(sizes)
        assert part == sorted(part, key=list(known).index)


def test_few_metrics_are_one_table_and_of_many_the_main_ones_come_first(evaluation):
    tables = [
        block for block in blocks(scores.section(collect([evaluation]))) if isinstance(block, TableBlock | Details)
    ]
    assert isinstance(tables[0], TableBlock)
    assert len(tables[0].table.rows) < scores.MAX_OPEN
    assert len(tables[1].blocks[0].table.rows) == len(evaluation.results[0].metrics)
    few = cal.evaluate(model(), ["nll", "ece"], resamples=50)
    assert [
        row[0] for b in blocks(scores.section(collect([few]))) if isinstance(b, TableBlock) for row in b.table.rows
    ] == [
        "nll ↓",
        "ece ↓",
    ]


def test_definitions_and_skipped_metrics_are_shown(evaluation):
    section = scores.section(collect([evaluation]))
    told = dict(section.blocks[-1].blocks[0].items)
    for spec in evaluation.results[0].metrics:
        metric = find(spec.partition("(")[0])
        said = told[f"{metric.title} ({metric.name})"]
        assert metric.definition in said
        assert metric.bias in said
        assert metric.reference in said
    fold = next(b for b in blocks(section) if isinstance(b, Details) and isinstance(b.blocks[0], Definitions))
    assert sum(len(names.split(", ")) for names, _ in fold.blocks[0].items) == len(evaluation.results[0].skipped)
    assert any("it needs two classes" in why for _, why in fold.blocks[0].items)


def test_infinite_values_are_in_the_table_and_break_no_chart():
    certain = cal.Classification.from_probs([[1.0, 0.0], [0.0, 1.0]], [1, 1])
    document = document_of([cal.evaluate(certain, "report", resamples=20)])
    shown = [figure for key, figure, _ in figures_of(document) if key == "scores"]
    assert "nll" not in {spec_of(row) for figure in shown for _, row in drawn(figure)}
    section = next(section for section in document.sections if section.key == "scores")
    table = next(block for block in blocks(section) if isinstance(block, TableBlock)).table
    assert next(row[1] for row in table.rows if row[0] == "nll ↓") == "infinite"
    assert all("<svg" in svg(figure) for _, figure, _ in figures_of(document))


def test_there_is_no_section_without_metrics(evaluation):
    nothing = replace(evaluation, results=tuple(replace(result, metrics={}) for result in evaluation.results))
    assert scores.section(collect([nothing])) is None
    assert overview.section(collect([nothing])) is None


# -------------------------------------------------------------------------------------------------------- overview
def test_overview_needs_two_inputs(evaluation):
    alone = replace(evaluation, inputs=evaluation.inputs[:1], results=evaluation.results[:1])
    assert overview.section(collect([alone])) is None
    assert overview.section(collect([evaluation])).title == "Overview"


def test_inputs_that_share_no_metric_with_others_are_not_in_it(evaluation):
    told = cal.detect(model(n=50), model(n=40), "entropy", resamples=20)
    section = overview.section(collect([evaluation, told]))
    table = next(block for block in section.blocks if isinstance(block, TableBlock)).table
    assert {row[0] for row in table.rows} == {result.input for result in evaluation.results}


def test_the_best_is_marked_only_for_metrics_that_rank_models(evaluation):
    section = overview.section(collect([evaluation]))
    table = next(block for block in section.blocks if isinstance(block, TableBlock)).table
    heads = [head.partition(" ")[0] for head in table.heads]
    values = {result.input: result.metrics for result in evaluation.results}
    for column, spec in enumerate(heads[2:], start=2):
        marked = [row[0] for row in table.rows if row[column].endswith("★")]
        metric = find(spec)
        if not metric.comparable or metric.direction == "none":
            assert marked == []
            continue
        pick = max if metric.direction == "higher" else min
        assert marked == [pick(values, key=lambda name: values[name][spec].value)]
    assert {"accuracy", "nll", "brier", "ece"} <= set(heads)


def test_inputs_of_other_rows_are_not_ranked_against_each_other():
    both = cal.evaluate({"few": model(100), "more": model(300, sharp=0.2)}, ["accuracy", "brier"], resamples=20)
    section = overview.section(collect([both]))
    table = next(block for block in section.blocks if isinstance(block, TableBlock)).table
    assert not any("★" in cell for row in table.rows for cell in row)
    assert not [block for block in section.blocks if isinstance(block, Text)]


def test_inputs_that_are_equal_are_not_best():
    same = cal.evaluate({"a": model(), "b": model()}, ["accuracy", "brier"], resamples=20)
    table = next(b for b in overview.section(collect([same])).blocks if isinstance(b, TableBlock)).table
    assert not any("★" in cell for row in table.rows for cell in row)


def test_warns_that_intervals_are_no_test_and_errors_no_ranking(evaluation):
    points = next(b for b in overview.section(collect([evaluation])).blocks if isinstance(b, Points))
    told = {topic: text for _, topic, text in points.items}
    assert "calibrant compare" in told["Not a significance test"]
    assert "Do not rank models" in told["ece, smooth_ece, ks"]
    assert find("nll").bias in told["nll"]


def test_chart_of_inputs_ranks_only_where_it_is_fair(evaluation):
    figure = next(b for b in overview.section(collect([evaluation])).blocks if isinstance(b, Figure))
    for (spec,), data in figure.data.items():
        values = {result.input: result.metrics[spec] for result in evaluation.results}
        assert [values[name].value for name in data["name"]] == data["value"]
        assert [values[name].low for name in data["name"]] == data["low"]
        metric = find(spec)
        if metric.comparable and metric.direction != "none":
            assert data["value"] == sorted(data["value"], reverse=metric.direction == "higher")
        else:
            assert data["name"] == ["one", "other"]


def test_three_hundred_inputs_are_a_chart_of_forty_and_a_table_of_all(evaluation):
    first = evaluation.results[0]
    names = [f"<script>{k}</script>|{'x' * k}" for k in range(300)]
    many = replace(
        evaluation,
        results=tuple(replace(first, input=name) for name in names),
        inputs=tuple({**evaluation.inputs[0], "name": name} for name in names),
    )
    section = overview.section(collect([many]))
    figure = next(block for block in section.blocks if isinstance(block, Figure))
    assert {len(data["name"]) for data in figure.data.values()} == {overview.MAX_DRAWN}
    assert all(len(set(data["name"])) == overview.MAX_DRAWN for data in figure.data.values())
    assert max(len(name) for data in figure.data.values() for name in data["name"]) < 40
    assert "first 40 of 300" in figure.caption
    fold = next(block for block in section.blocks if isinstance(block, Details))
    assert len(fold.blocks[0].table.rows) == 300


def test_inputs_without_finite_values_are_left_out_of_the_chart(evaluation):
    broken = {spec: replace(e, value=math.inf) for spec, e in evaluation.results[0].metrics.items()}
    both = replace(evaluation, results=(replace(evaluation.results[0], metrics=broken), evaluation.results[1]))
    figure = next(b for b in overview.section(collect([both])).blocks if isinstance(b, Figure))
    assert all(data["name"] == ["other"] for data in figure.data.values())
