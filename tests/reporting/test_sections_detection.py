"""The section on detection: histograms, metrics and mixes as they were stored."""

import numpy as np
import pytest

from calibrant.pipeline.evaluate import evaluate
from calibrant.pipeline.ood import detect
from calibrant.predictions import Classification
from calibrant.reporting.document import Figure, TableBlock
from calibrant.reporting.figures import full_spec, svg
from calibrant.reporting.report_data import collect
from calibrant.reporting.sections.detection import section


def inside(rows=300):
    rng = np.random.default_rng(0)
    scores = rng.normal(0, 3, (rows, 4))
    return Classification.from_logits(scores, (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)).named("known")


def outside(spread, rows=200):
    return Classification.from_logits(np.random.default_rng(1).normal(0, spread, (rows, 4)))


@pytest.fixture(scope="module")
def detected():
    return detect(inside(), {"near": outside(2.0), "far": outside(0.5)}, ["entropy", "max_probability"], resamples=50)


def figures(*evaluations):
    return {block.key: block for block in section(collect(evaluations)).blocks if isinstance(block, Figure)}


def test_there_is_no_section_without_outside_rows():
    assert section(collect([evaluate(inside(), "nll", resamples=50)])) is None


def test_histograms_sum_to_one_on_both_sides_and_are_those_of_the_scores(detected):
    figure = figures(detected)["densities"]
    assert figure.controls[0].options[0] == "near by entropy"
    assert figure.controls[1].options == ("linear", "square root")
    for data in figure.data.values():
        for side in ("in-distribution", "OOD"):
            shares = [share for share, of in zip(data["share"], data["side"], strict=True) if of == side]
            assert sum(shares) == pytest.approx(1.0)
    p = np.exp(inside().scores[0] - np.log(np.exp(inside().scores[0]).sum(axis=1, keepdims=True)))
    entropy = -(p * np.log(p)).sum(axis=1)
    data = figure.data["near by entropy", "linear"]
    edges = [data["lower"][0] - 1e-9, *data["lower"][1:50], data["upper"][49] + 1e-9]
    assert data["share"][:50] == pytest.approx(np.histogram(entropy, edges)[0] / 300)


def test_the_square_root_scale_draws_the_root_of_shares(detected):
    from calibrant.reporting.figures import converter

    figure = figures(detected)["densities"]
    heights = {}
    for scale in ("linear", "square root"):
        drawn = converter().vegalite_to_svg(full_spec(figure, ("near by entropy", scale)))
        tops = [line for line in drawn.split("<path") if 'aria-roledescription="rect mark"' in line]
        heights[scale] = np.array([float(line.split('d="')[1].split("v")[1].split("h")[0]) for line in tops])
    shares = np.array(figure.data["near by entropy", "linear"]["share"])
    for scale, power in (("linear", 1.0), ("square root", 0.5)):
        drawn = np.abs(heights[scale]) / np.abs(heights[scale]).max()
        assert drawn == pytest.approx((shares / shares.max()) ** power, abs=1e-6)


def test_metrics_have_their_intervals_in_a_chart_and_in_tables(detected):
    figure = figures(detected)["metrics"]
    data = figure.data[("auroc (higher is better)",)]
    stored = [result.metrics["auroc"] for result in detected.results]
    assert data["value"] == [estimate.value for estimate in stored]
    assert data["low"] == [estimate.low for estimate in stored]
    names = ("auroc", "aupr_in", "aupr_out", "detection_accuracy", "fpr95", "wasserstein")
    assert tuple(option.partition(" ")[0] for option in figure.controls[0].options) == names
    table = section(collect([detected])).blocks[0].table
    assert table.heads == ("OOD data", *names)
    assert [row[0] for row in table.rows] == data["label"]
    assert [row[1] for row in table.rows] == [f"{e.value:.3f} ({e.low:.3f}–{e.high:.3f})" for e in stored]


def test_a_single_set_has_its_table_first_and_no_chart_of_one_row():
    blocks = section(collect([detect(inside(), outside(1.0), resamples=50)])).blocks
    assert isinstance(blocks[0], TableBlock)
    assert blocks[0].table.rows[0][0].startswith("auroc")
    assert [block.key for block in blocks if isinstance(block, Figure)] == ["densities", "mix"]


def test_mixes_do_not_depend_on_the_score_and_count_outside_rows_as_wrong(detected):
    data = figures(detected)["mix"].data[()]
    assert list(dict.fromkeys(data["name"])) == ["near", "far"]
    known = inside()
    right = (known.scores[0].argmax(axis=1) == known.labels).sum()
    for x, y in zip(data["x"], data["y"], strict=True):
        if x == 0.0:
            assert y == pytest.approx(right / 500)


def test_scores_without_a_spread_or_a_finite_value_do_not_break_it():
    found = detect(np.zeros(10), {"<script>": np.zeros(3), "far": np.array([np.inf])}, resamples=50)
    for figure in figures(found).values():
        assert "<svg" in svg(figure)
    endless = detect(np.full(4, np.inf), np.full(3, np.inf), resamples=50)
    assert "densities" not in figures(endless)
