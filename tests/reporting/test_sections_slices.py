"""Groups of rows: the worst come first, significant ones before them, with hostile names and with many groups."""

import re
from dataclasses import replace

import numpy as np
import pytest

import calibrant as cal
from calibrant.registry.estimate import Estimate
from calibrant.reporting.document import Details, Figure, Panel
from calibrant.reporting.figures import svg
from calibrant.reporting.report_data import collect
from calibrant.reporting.sections import slices
from calibrant.reporting.sections.slices import ALL, MAX_OPTIONS
from calibrant.results.evaluation import Group


@pytest.fixture(scope="module")
def evaluation():
    """Classes, by a column of 40 groups of which two are far too sure, and by ranges of another."""
    rng = np.random.default_rng(0)
    n = 4000
    place = rng.integers(0, 40, n)
    p = rng.uniform(0.3, 0.95, n)
    labels = (rng.random(n) < np.where(place < 2, 0.2, p)).astype(int)
    columns = {"place": np.array([f"place {k:02d}" for k in place]), "age": rng.uniform(20, 90, n)}
    model = cal.Classification.from_probs(np.stack([1 - p, p], axis=1), labels, columns=columns)
    return cal.evaluate(model, ["accuracy", "nll", "ece", "entropy"], by=["place", "age:3"], resamples=2000)


def figures(evaluation):
    section = slices.section(collect([evaluation]))
    panel = next(block for block in section.blocks if isinstance(block, Panel))
    return [block for block in panel.blocks if isinstance(block, Figure)], panel


def symbols(figure):
    """How many marks of points are drawn, without those of a legend."""
    parts = re.findall(r'<g class="mark-symbol role-mark[^>]*>(.*?)</g>', svg(figure))
    return sum(part.count("<path") for part in parts)


def with_groups(evaluation, groups):
    return replace(evaluation, results=(replace(evaluation.results[0], groups=tuple(groups)),))


def test_numbers_are_those_of_the_groups_and_of_all_rows(evaluation):
    result = evaluation.results[0]
    (figure, *_), _ = figures(evaluation)
    assert [control.label for control in figure.controls] == ["column", "metric"]
    assert figure.controls[0].options == ("place", "age:3")
    for (by, spec), data in figure.data.items():
        stored = {str(g.value): g for g in result.groups if g.by == by}
        for name, value, low, n, whole in zip(*(data[k] for k in ("name", "value", "low", "n", "whole")), strict=True):
            group = stored[name]
            assert (value, low, n) == (group.metrics[spec].value, group.metrics[spec].low, group.n)
            assert whole == result.metrics[spec].value


def test_the_worst_come_first_whichever_direction_is_better(evaluation):
    (figure, *_), _ = figures(evaluation)
    accuracy, nll = figure.data["place", "accuracy"]["value"], figure.data["place", "nll"]["value"]
    assert accuracy == sorted(accuracy)
    assert nll == sorted(nll, reverse=True)
    entropy = figure.data["place", "entropy"]
    far = [abs(value - whole) for value, whole in zip(entropy["value"], entropy["whole"], strict=True)]
    assert far == sorted(far, reverse=True)


def test_significant_groups_come_first_with_their_own_mark(evaluation):
    (figure, *_), _ = figures(evaluation)
    data = figure.data["place", "ece"]
    marked = [name for name, how in zip(data["name"], data["standing"], strict=True) if how == slices.SIGNIFICANT]
    stored = {g.value for g in evaluation.results[0].groups if g.metrics["ece"].q_value < 0.05 and g.by == "place"}
    assert {"place 00", "place 01"} <= set(marked) == stored
    assert data["name"][: len(marked)] == marked
    assert "q < 0.05" in figure.caption
    assert set(figure.data["place", "accuracy"]["standing"]) == {slices.UNTESTED}
    assert "diamond" in str(figure.chart)


def test_of_many_groups_thirty_are_drawn_and_all_are_in_the_table(evaluation):
    (figure, *_), panel = figures(evaluation)
    assert {by: len(data["name"]) for (by, _), data in figure.data.items()} == {"place": slices.MAX_DRAWN, "age:3": 3}
    assert "30 worst of 40 groups" in figure.caption
    tables = next(block for block in panel.blocks if isinstance(block, Details)).blocks
    assert [len(shown.table.rows) for shown in tables] == [40, 3]
    assert symbols(figure) == slices.MAX_DRAWN


def test_hostile_columns_and_values_stay_distinct(evaluation):
    """A separator in a name, names that differ at their ends, and one that is empty."""
    long = "x" * 10_000
    values = ["", f"{long}a", f"{long}b", "</script>", "a|b"]
    groups = [Group(by, value, 5, {"nll": Estimate(0.5, 5)}) for by in ("a|b", "c\n") for value in values]
    (figure,), _ = figures(with_groups(evaluation, groups))
    assert len(figure.data) == 2
    for key, data in figure.data.items():
        assert all("|" not in part and "\n" not in part for part in key)
        assert len(set(data["name"])) == len(values)
        assert max(map(len, data["name"])) < 40
    assert "<svg" in svg(figure)


def test_groups_without_finite_values_are_left_out(evaluation):
    groups = [Group("c", k, 5, {"nll": Estimate(value, 5)}) for k, value in enumerate((np.inf, np.nan))]
    section = slices.section(collect([with_groups(evaluation, groups)]))
    assert not [block for block in section.blocks[0].blocks if isinstance(block, Figure)]
    groups.append(Group("c", 3, 5, {"nll": Estimate(0.7, 5)}))
    (figure,), _ = figures(with_groups(evaluation, groups))
    assert figure.data["c", "nll"]["value"] == [0.7]


def test_no_groups_no_section(evaluation):
    assert slices.section(collect([with_groups(evaluation, ())])) is None


# ---------------------------------------------------------------------------------------------------------- curves
def test_reliability_of_a_group_is_chosen_among_the_worst(evaluation):
    curve = evaluation.results[0].curves["reliability"]
    curves = [{"reliability": {**curve, "n": [k] * len(curve["n"])}} for k in range(40)]
    groups = [Group("place", k, 9, {"nll": Estimate(float(k), 9)}, curves=curves[k]) for k in range(40)]
    (_, figure), _ = figures(with_groups(evaluation, groups))
    (control,) = figure.controls
    assert control.options == (ALL, *(f"place = {k}" for k in reversed(range(40 - MAX_OPTIONS, 40))))
    assert figure.data["place = 39",]["n"] == [39] * len(curve["n"])
    assert figure.data[ALL,]["accuracy"] == curve["accuracy"]
    assert "30 worst of 40" in figure.caption
    assert "<svg" in svg(figure)


def test_pit_of_groups_of_numbers():
    rng = np.random.default_rng(0)
    y = rng.normal(size=200)
    kind = np.array(["a", "b"])[rng.integers(0, 2, 200)]
    numbers = cal.Regression.from_gaussian(np.zeros(200), np.ones(200), y, columns={"kind": kind})
    found = cal.evaluate(numbers, by="kind", resamples=50)
    (_, figure), _ = figures(found)
    assert set(figure.controls[0].options) == {ALL, "kind = a", "kind = b"}
    for group in found.results[0].groups:
        assert figure.data[f"kind = {group.value}",]["share"] == group.curves["pit"]["share"]
    assert "<svg" in svg(figure)
