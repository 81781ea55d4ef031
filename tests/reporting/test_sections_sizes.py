"""The section on sizes and options: curves over the number of rows, and ranks under many settings."""

import math

import numpy as np
import pytest
from evaluations import evaluate_with

from calibrant.comparison.api import compare
from calibrant.pipeline.evaluate import evaluate
from calibrant.predictions import Classification
from calibrant.reporting.document import Details, Figure, Panel, Text
from calibrant.reporting.figures import svg
from calibrant.reporting.report_data import collect
from calibrant.reporting.sections.sizes import section
from calibrant.results.evaluation import Evaluation
from calibrant.results.rank_flips import RankFlips


def model(sharp=2.0, noise=0.0, rows=400, seed=0):
    rng = np.random.default_rng(seed)
    scores = rng.normal(0, 2, (rows, 4))
    labels = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    return Classification.from_logits(sharp * (scores + noise * rng.normal(size=scores.shape)), labels)


@pytest.fixture(scope="module")
def alone():
    return evaluate_with(model().named("sharp"), "ece,brier", sizes=[50, 200], repeats=5, resamples=50, intervals=False)


@pytest.fixture(scope="module")
def paired():
    inputs = {"before": model(2.0), "after": model(1.0)}
    return evaluate_with(inputs, "ece", sizes=[50, 200], repeats=5, pairs=True, resamples=50, intervals=False)


@pytest.fixture(scope="module")
def flipped():
    models = {f"net {k}": model(1.0 + k / 2, noise=k / 4) for k in range(9)}
    return compare(models, "cll,nll", flips=True, resamples=50)


def figures(evaluation):
    return {block.key: block for block in section(collect([evaluation])).blocks if isinstance(block, Figure)}


def test_there_is_no_section_without_sizes_or_flips():
    assert section(collect([evaluate(model(), "nll", resamples=50)])) is None


# ------------------------------------------------------------------------------------------------------ sizes
def test_the_last_point_is_the_value_of_the_evaluation_itself(alone):
    figure = figures(alone)["values"]
    assert [option.partition(" ")[0] for option in figure.controls[0].options] == ["rbs", "ece", "brier"]
    for (label,), data in figure.data.items():
        spec = label.partition(" ")[0]
        value = math.sqrt(alone["brier"].value) if spec == "rbs" else alone[spec].value
        assert data["x"] == [50, 200, 400]
        assert data["y"][-1] == pytest.approx(value)
        assert all(low <= high for low, high in zip(data["low"], data["high"], strict=True))


def test_ratios_end_at_one_and_include_the_root_of_the_brier_score(alone):
    figure = figures(alone)["relative"]
    assert figure.controls[0].options == ("all metrics", "ece", "brier")
    (sizes,) = alone.sizes
    for option, data in figure.data.items():
        ends = [y for x, y in zip(data["x"], data["y"], strict=True) if x == 400]
        assert ends == pytest.approx([1.0] * len(ends))
        assert "rbs" in data["name"]
        first = {name: y for name, x, y in zip(data["name"], data["x"], data["y"], strict=True) if x == 50}
        assert first == pytest.approx({name: sizes.drift(name) for name in first})
        assert option == ("all metrics",) or set(data["name"]) == {"rbs", *option}


def test_charts_have_a_sentence_and_a_table(alone):
    blocks = section(collect([alone])).blocks
    assert isinstance(blocks[0], Text)
    assert blocks[0].lines[0].lower().startswith(alone.sizes[0].reading()[:20])
    (fold,) = [block for block in blocks if isinstance(block, Details)]
    assert fold.blocks[0].table.heads[1:4] == ("50", "200", "400")


def test_an_improvement_is_before_minus_after(paired):
    drawn = figures(paired)
    assert list(drawn) == ["gained", "share", "values"]
    values = drawn["values"].data[("ece (lower is better)",)]
    mean = {(name, x): y for name, x, y in zip(values["name"], values["x"], values["y"], strict=True)}
    gained = drawn["gained"].data[("ece",)]
    for x, y in zip(gained["x"], gained["y"], strict=True):
        assert y == pytest.approx(mean["before", x] - mean["after", x])


def test_of_several_inputs_each_has_its_panel():
    inputs = {"one": model(1.0), "two": model(2.0)}
    found = evaluate_with(inputs, "ece", sizes=[50], repeats=3, resamples=50, intervals=False)
    report = collect([found])
    panels = [block for block in section(report).blocks if isinstance(block, Panel)]
    assert [report.subjects[panel.subject].name for panel in panels] == ["one", "two"]
    curves = [next(b for b in panel.blocks if isinstance(b, Figure)) for panel in panels]
    assert curves[0].data != curves[1].data


def test_a_single_size_has_a_table_and_no_line_of_one_point():
    found = evaluate_with(model(rows=20), "ece", sizes=[20], repeats=2, resamples=50, intervals=False)
    blocks = section(collect([found])).blocks
    assert not any(isinstance(block, Figure) for block in blocks)


# ------------------------------------------------------------------------------------------------------ flips
def test_ranks_are_those_of_the_values_under_every_setting(flipped):
    figure = figures(flipped)["flips"]
    assert figure.controls[0].options == tuple(f"threshold {t}" for t in ("0", "0.0001", "0.001", "0.01", "0.1"))
    seen = 0
    for data in figure.data.values():
        for bins in dict.fromkeys(data["x"]):
            rows = [
                (y, float(note)) for x, y, note in zip(data["x"], data["y"], data["note"], strict=True) if x == bins
            ]
            assert len(rows) == 9
            assert [value for _, value in sorted(rows)] == sorted(value for _, value in rows)
            seen += 1
    assert seen == len(flipped.flips.settings)


def test_with_more_models_than_colours_the_last_ones_share_a_name(flipped):
    data = figures(flipped)["flips"].data[("threshold 0.001",)]
    order = [item.model for item in flipped.comparison.ranking]
    named = list(dict.fromkeys(data["legend"]))
    assert named == [*(f"{k} {name}" for k, name in enumerate(order[:6], 1)), "others"]
    assert len(set(data["name"])) == 9
    assert svg(figures(flipped)["flips"]).count('aria-roledescription="line mark"') == 9


def test_one_setting_has_no_control():
    flips = RankFlips("ece", ("a", "<b>" * 50), ("ece(bins=5)", "ece(bins=10)"), ((0.1, 0.2), (0.3, 0.2)))
    found = Evaluation("0.1.0", {}, (), (), flips=flips)
    figure = figures(found)["flips"]
    assert figure.controls == ()
    assert figure.data[()]["y"] == [1, 2, 2, 1]
    text = next(b for b in section(collect([found])).blocks if isinstance(b, Text))
    assert len(text.lines[0]) < 400
