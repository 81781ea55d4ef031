"""The section on recalibration: gains, metrics and curves are the stored ones, and words say what may be concluded."""

from dataclasses import replace

import numpy as np
import pytest
from reported import as_html, blocks, drawn, draws_all, figures, rows

import calibrant as cal
from calibrant.predictions.base import Note
from calibrant.recalibration.api import recalibrate
from calibrant.reporting.document import Heading, Points, TableBlock, Text
from calibrant.reporting.labels import as_sentence
from calibrant.reporting.report_data import collect
from calibrant.reporting.sections.recalibration import ABSOLUTE, ALL, RELATIVE, section

METRICS = "accuracy,nll,brier,ece"


@pytest.fixture(scope="module")
def held_out(demo):
    return cal.read(demo["validation"]).named("held out")


@pytest.fixture(scope="module")
def shifted(demo):
    return cal.read(demo["shifted"])[np.arange(0, 5000, 12)].named("shifted")


@pytest.fixture(scope="module")
def recalibrated(held_out, shifted):
    return recalibrate(held_out, shifted, metrics=METRICS, sizes=[50, 150], repeats=4, resamples=30).evaluation


def of(*evaluations):
    return section(collect(evaluations))


def test_gains_equal_the_stored_gains(recalibrated):
    figure = figures(of(recalibrated))["gains"]
    for score, gain in recalibrated.improvement.gains.items():
        (plain,) = rows(figure.data[(ABSOLUTE,)], score=score)
        (share,) = rows(figure.data[(RELATIVE,)], score=score)
        assert (plain["at"], plain["at_low"], plain["at_high"]) == (gain.gain, gain.low, gain.high)
        assert share["at"] == pytest.approx(gain.relative)
        assert share["at_high"] * gain.before == pytest.approx(gain.high)
        assert (plain["kind"] == "significantly better") is (gain.low > 0)
    assert drawn(figure).count("interval from") == len(recalibrated.improvement.gains)


def test_a_loss_has_its_kind_and_tone(recalibrated):
    turned = {
        score: replace(gain, before=gain.after, after=gain.before, gain=-gain.gain, low=-gain.high, high=-gain.low)
        for score, gain in recalibrated.improvement.gains.items()
    }
    made = of(replace(recalibrated, improvement=replace(recalibrated.improvement, gains=turned)))
    assert set(figures(made)["gains"].data[(ABSOLUTE,)]["kind"]) == {"significantly worse"}
    (points,) = blocks(made, Points)
    assert points.items[0][0] == "bad"


def test_metrics_before_and_after_are_those_of_the_results(recalibrated):
    before, after = recalibrated.results
    figure = figures(of(recalibrated))["before-after"]
    for spec in ("accuracy", "nll", "brier", "ece"):
        shown = f"{spec} {'↑' if spec == 'accuracy' else '↓'}"
        first, second = rows(figure.data[(ABSOLUTE,)], metric=shown)
        assert (first["when"], first["at"]) == ("before", before.metrics[spec].value)
        assert (second["at"], second["high"]) == (after.metrics[spec].value, after.metrics[spec].high)
        first, second = rows(figure.data[(RELATIVE,)], metric=shown)
        assert first["at"] == 1.0
        assert second["at"] == pytest.approx(after.metrics[spec].value / before.metrics[spec].value)


def test_the_caption_mentions_a_band_only_if_there_is_one(recalibrated):
    assert "Shaded" in figures(of(recalibrated))["reliability"].caption
    bare = [replace(r, curves={k: without_band(c) for k, c in r.curves.items()}) for r in recalibrated.results]
    assert "Shaded" not in figures(of(replace(recalibrated, results=tuple(bare))))["reliability"].caption


def without_band(curve):
    return {name: values for name, values in curve.items() if not name.startswith("band")}


def test_reliability_diagrams_are_overlaid(recalibrated):
    figure = figures(of(recalibrated))["reliability"]
    before, after = (result.curves["reliability(bins=10,binning=mass)"] for result in recalibrated.results)
    data = figure.data["equal mass", "10"]
    assert [row["y"] for row in rows(data, when="before")] == before["accuracy"]
    assert [row["x"] for row in rows(data, when="after")] == after["confidence"]
    assert [row["band_low"] for row in rows(data, when="after")] == after["band_low"]
    assert figure.default_choice() == ("equal width", "15")
    assert drawn(figure).count('aria-roledescription="line mark"') == 2 + 1  # and the diagonal


def test_improvement_by_size_ends_at_the_whole(recalibrated):
    (sizes,) = recalibrated.sizes
    figure = figures(of(recalibrated))["sizes"]
    for row in rows(figure.data[(ALL,)], size=sizes.sizes[-1]):
        assert row["at"] == 1.0
    (row,) = rows(figure.data[("ece",)], size=50)
    curve = sizes.improvement["ece"]
    assert (row["at"], row["low"], row["high"]) == (curve.mean[0], curve.q05[0], curve.q95[0])
    assert figure.controls[0].options[:2] == (ALL, next(iter(sizes.improvement)))


def test_words_and_tables_are_those_of_the_recalibration(recalibrated):
    made = of(recalibrated)
    (points,) = blocks(made, Points)
    said = [text for _, _, text in points.items]
    assert said[: len(recalibrated.improvement.reading())] == [
        as_sentence(line) for line in recalibrated.improvement.reading()
    ]
    assert as_sentence(recalibrated.sizes[0].reading()) in said
    assert points.items[0][0] == "good"
    (text,) = blocks(made, Text)
    assert "1 parameter fitted by nll on held out" in text.lines[0]
    assert [block.table.heads[0] for block in blocks(made, TableBlock)] == ["score", "fit"]


def test_every_choice_is_drawn(recalibrated):
    draws_all(of(recalibrated))


def test_warnings_about_the_fit_are_shown(recalibrated):
    notes = (Note("fit-at-bound", "the temperature ended at 64"), Note("units-without-band", "no band"))
    (points,) = blocks(of(replace(recalibrated, warnings=notes)), Points)
    assert [text for tone, _, text in points.items if tone == "warn"] == ["The temperature ended at 64"]


def test_nothing_is_drawn_if_nothing_changed(held_out, shifted):
    made = of(recalibrate(held_out, shifted, "none", metrics="nll", resamples=20).evaluation)
    (points,) = blocks(made, Points)
    assert figures(made) == {}
    assert points.items[0] == ("neutral", "Gain", "unchanged: nll, brier, rbs")


def test_without_labels_only_the_fit_is_described(held_out, demo):
    made = of(recalibrate(held_out, cal.read(demo["glyphs"])).evaluation)
    assert figures(made) == {}
    (points,) = blocks(made, Points)
    assert {topic for _, topic, _ in points.items} == {"Fit"}
    assert any("without labels the gain cannot be measured" in text for _, _, text in points.items)
    assert [block.table.heads[0] for block in blocks(made, TableBlock)] == ["fit"]


def test_several_recalibrations_have_headings(recalibrated):
    script = "<script>alert(1)</script>"
    inputs = tuple(item | {"name": script + item["name"]} for item in recalibrated.inputs)
    results = tuple(replace(result, input=script + result.input) for result in recalibrated.results)
    found = replace(recalibrated.improvement, before=results[0].input, after=results[1].input)
    other = replace(recalibrated, inputs=inputs, results=results, improvement=found)
    made = of(recalibrated, other)
    assert [block.text for block in blocks(made, Heading)][1].startswith(script)
    assert {"gains-1", "gains-2"} <= set(figures(made))
    assert "<script>alert" not in as_html(made)


def test_numbers_have_coverage_and_scores_below_zero_no_shares():
    rng = np.random.default_rng(3)
    mean = rng.normal(size=120)
    y = mean + 0.1 * rng.normal(size=120)
    rows_of = [
        cal.Regression.from_gaussian(mean[part], np.full(60, 0.08), y[part]) for part in (slice(60), slice(60, 120))
    ]
    made = of(recalibrate(*rows_of, "std", metrics="nll,crps,mace", resamples=20).evaluation)
    everything = figures(made)
    shares = {row["score"]: row["at"] for row in rows(everything["gains"].data[(RELATIVE,)])}
    stored = {row["score"]: row for row in rows(everything["gains"].data[(ABSOLUTE,)])}
    assert stored["nll"]["before"] < 0 < stored["crps"]["before"]
    assert {score: np.isfinite(share) for score, share in shares.items()} == {"dss": False, "nll": False, "crps": True}
    assert everything["coverage"].default_choice() == ("central interval",)
    draws_all(made)


def test_an_evaluation_alone_has_no_such_section(shifted):
    assert of(cal.evaluate(shifted, "nll", resamples=20)) is None
