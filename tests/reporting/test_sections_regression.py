"""The section on predicted distributions: bars and lines are the stored curves, with their bands."""

from dataclasses import replace

import numpy as np
import pytest
from reported import as_html, blocks, drawn, draws_all, figures, rows

import calibrant as cal
from calibrant.render.formatting import format_number
from calibrant.reporting.charts.histograms import ROWS, SHARES
from calibrant.reporting.document import TableBlock
from calibrant.reporting.report_data import collect
from calibrant.reporting.sections.regression import section

SCRIPT = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def evaluated():
    rng = np.random.default_rng(0)
    x = np.linspace(-3, 3, 150)
    mean = np.sin(x) + 0.2 * rng.normal(size=(4, 1)) * x
    y = np.sin(x) + 0.5 * rng.normal(size=150)
    members = cal.Regression.from_gaussian(mean, np.full((4, 150), 0.3), y)
    return cal.evaluate(members.named("members"), "picp,width,sharpness,mace", resamples=30)


def of(*evaluations):
    return section(collect(evaluations))


def with_curves(evaluation, facts=None, **curves):
    result = evaluation.results[0]
    inputs = (dict(evaluation.inputs[0]) | (facts or {}),)
    return replace(evaluation, inputs=inputs, results=(replace(result, curves={**result.curves, **curves}),))


def test_bars_and_lines_are_the_stored_curves(evaluated):
    curves, made = evaluated.results[0].curves, figures(of(evaluated))
    pit = made["pit"].data[()]
    assert {name: pit[name] for name in curves["pit"]} == curves["pit"]
    assert sum(pit["share"]) == pytest.approx(1)
    inside, below = (made["coverage"].data[(shown,)] for shown in made["coverage"].controls[0].options)
    assert inside["observed"] == curves["central_coverage"]["observed"]
    assert below["observed"] == curves["calibration"]["observed"]
    assert below["band_high"] == curves["calibration"]["band_high"]


def test_every_bar_has_its_band_and_there_is_a_line_at_their_even_height(evaluated):
    svg = drawn(figures(of(evaluated))["pit"])
    assert svg.count("F(y) from") == 20
    assert svg.count('class="mark-rule role-mark') == 1


def test_metrics_are_in_a_table(evaluated):
    (shown,) = blocks(of(evaluated), TableBlock)
    assert {row[0]: row[2] for row in shown.table.rows} == {
        name + " ↓" * (name == "mace"): format_number(evaluated[name].value)
        for name in ("picp", "width", "sharpness", "mace")
    }


def test_widths_are_split_by_coverage(evaluated):
    edges = [2.0**k for k in range(11)]
    curve = {"lower": edges[:-1], "upper": edges[1:], "covered": [9, 5, 1] + [0] * 7, "missed": [1] + [0] * 9}
    curve["level"] = [0.9] * 10
    curve["n"] = [a + b for a, b in zip(curve["covered"], curve["missed"], strict=True)]
    made = of(with_curves(evaluated, width=curve))
    figure = figures(made)["width"]
    assert rows(figure.data[(ROWS,)], kind="covered", lower=1.0)[0]["height"] == 9
    assert rows(figure.data[(SHARES,)], kind="missed", lower=1.0)[0]["height"] == -1.0
    assert figure.title == "Interval width of nominal level 90%"
    assert "'log'" in str(figure.chart)
    draws_all(made)


def functions(members, size=12):
    x = np.linspace(0, 1, size)
    each = {f"member_{k + 1}": (x * k).tolist() for k in range(members)}
    mean = np.mean(list(each.values()), axis=0)
    known = {"x": x, "y": x**2, "mean": mean, "low": mean - 1, "high": mean + 1}
    return {name: values.tolist() for name, values in known.items()} | each


def test_each_member_is_a_line_of_its_own(evaluated):
    curve = functions(5)
    made = of(with_curves(evaluated, {"along": SCRIPT}, functions=curve))
    figure = figures(made)["functions"]
    assert {name: figure.data[()][name] for name in curve} == curve
    svg = drawn(figure)
    assert svg.count('aria-roledescription="line mark"') == 5 + 1
    assert svg.count("observed: ") == 12
    assert figure.heads["x"] == SCRIPT
    assert "<script>alert" not in as_html(made)
    assert "script" not in str(figure.chart)


def test_functions_without_outcomes_have_lines_and_no_points(evaluated):
    curve = {name: values for name, values in functions(3).items() if name != "y"}
    svg = drawn(figures(of(with_curves(evaluated, functions=curve)))["functions"])
    assert svg.count('aria-roledescription="line mark"') == 4
    assert "observed: " not in svg


def test_a_function_of_one_row_is_none(evaluated):
    assert "functions" not in figures(of(with_curves(evaluated, functions=functions(3, size=1))))


def test_quantiles_have_the_levels_that_were_given():
    rng = np.random.default_rng(2)
    levels = np.array([0.1, 0.5, 0.9])
    quantiles = np.tile([-1.28, 0.0, 1.28], (90, 1))
    made = of(cal.evaluate(cal.Regression.from_quantiles(quantiles, levels, rng.normal(size=90)), resamples=20))
    figure = figures(made)["coverage"]
    assert figure.data[("quantile",)]["level"] == [0.1, 0.5, 0.9]
    assert figure.data[("central interval",)]["level"] == pytest.approx([0.8])
    assert "pit" not in figures(made)
    draws_all(made)


@pytest.mark.parametrize("size", [1, 2])
def test_few_rows_are_drawn(size):
    few = cal.Regression.from_gaussian(np.zeros(size), np.ones(size), np.full(size, 0.3))
    draws_all(of(cal.evaluate(few, "mace,picp", resamples=20)))


def test_samples_of_a_real_forecast(data_folder):
    path = data_folder / "regression_ensembles" / "precip_frankfurt_ecmwf_ens.npz"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    with np.load(path, allow_pickle=False) as stored:
        rain = cal.Regression.from_samples(stored["ens_lead1"][:400].T.astype(float), stored["obs_lead1"][:400])
    made = of(cal.evaluate(rain, "picp,mace", resamples=20))
    covered = figures(made)["coverage"].data[("central interval",)]
    assert max(np.array(covered["level"]) - covered["observed"]) > 0.2  # members are known to be too near each other
    draws_all(made)


def test_classes_have_no_such_section(demo):
    assert of(cal.evaluate(cal.read(demo["test"])[np.arange(30)], "accuracy", resamples=20)) is None
