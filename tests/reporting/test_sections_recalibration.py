"""The section on recalibration: gains, metrics and curves are the stored ones, and words say what may be concluded."""

from dataclasses import replace

import numpy as np
import pytest
from reported import as_html, blocks, drawn, draws_all, figures, rows

import calibrant as cal
from calibrant.evaluation.recalibrate import recalibrate
from calibrant.predictions.base import Note
from calibrant.reporting.document import Heading, Points, Shown, Text
from calibrant.reporting.gathering import gather
from calibrant.reporting.sections.recalibration import section
from calibrant.reporting.sections.recalibration_figures import ALL, AS_IT_IS, OF_BEFORE

METRICS = "accuracy,nll,brier,ece"


@pytest.fixture(scope="module")
def held_out(demo):
    return cal.read(demo["validation"]).named("held out")


@pytest.fixture(scope="module")
def shifted(demo):
    return cal.read(demo["shifted"])[np.arange(0, 5000, 12)].named("shifted")


@pytest.fixture(scope="module")
def mended(held_out, shifted):
    return recalibrate(held_out, shifted, metrics=METRICS, sizes=[50, 150], repeats=4, resamples=30).evaluation


def of(*evaluations):
    return section(gather(evaluations))


def test_gains_are_those_that_were_stored(mended):
    figure = figures(of(mended))["gains"]
    for score, gain in mended.improvement.gains.items():
        (plain,) = rows(figure.data[(AS_IT_IS,)], score=score)
        (share,) = rows(figure.data[(OF_BEFORE,)], score=score)
        assert (plain["at"], plain["at_low"], plain["at_high"]) == (gain.gain, gain.low, gain.high)
        assert share["at"] == pytest.approx(gain.relative)
        assert share["at_high"] * gain.before == pytest.approx(gain.high)
        assert (plain["kind"] == "better beyond chance") is (gain.low > 0)
    assert drawn(figure).count("interval from") == len(mended.improvement.gains)


def test_a_loss_is_told_by_shape_and_tone(mended):
    turned = {
        score: replace(gain, before=gain.after, after=gain.before, gain=-gain.gain, low=-gain.high, high=-gain.low)
        for score, gain in mended.improvement.gains.items()
    }
    made = of(replace(mended, improvement=replace(mended.improvement, gains=turned)))
    assert set(figures(made)["gains"].data[(AS_IT_IS,)]["kind"]) == {"worse beyond chance"}
    (points,) = blocks(made, Points)
    assert points.items[0][0] == "bad"


def test_metrics_before_and_after_are_those_of_the_results(mended):
    before, after = mended.results
    figure = figures(of(mended))["before-after"]
    for spec in ("accuracy", "nll", "brier", "ece"):
        shown = f"{spec} {'↑' if spec == 'accuracy' else '↓'}"
        first, second = rows(figure.data[(AS_IT_IS,)], metric=shown)
        assert (first["when"], first["at"]) == ("before", before.metrics[spec].value)
        assert (second["at"], second["high"]) == (after.metrics[spec].value, after.metrics[spec].high)
        first, second = rows(figure.data[(OF_BEFORE,)], metric=shown)
        assert first["at"] == 1.0
        assert second["at"] == pytest.approx(after.metrics[spec].value / before.metrics[spec].value)


def test_a_band_is_spoken_of_where_there_is_one(mended):
    assert "Shaded" in figures(of(mended))["reliability"].caption
    bare = [replace(r, curves={k: without_band(c) for k, c in r.curves.items()}) for r in mended.results]
    assert "Shaded" not in figures(of(replace(mended, results=tuple(bare))))["reliability"].caption


def without_band(curve):
    return {name: values for name, values in curve.items() if not name.startswith("band")}


def test_reliability_of_both_lies_over_each_other(mended):
    figure = figures(of(mended))["reliability"]
    before, after = (result.curves["reliability(bins=10,binning=mass)"] for result in mended.results)
    data = figure.data["equal mass", "10"]
    assert [row["y"] for row in rows(data, when="before")] == before["accuracy"]
    assert [row["x"] for row in rows(data, when="after")] == after["confidence"]
    assert [row["band_low"] for row in rows(data, when="after")] == after["band_low"]
    assert figure.first() == ("equal width", "15")
    assert drawn(figure).count('aria-roledescription="line mark"') == 2 + 1  # and the diagonal


def test_improvement_by_size_ends_at_the_whole(mended):
    (sizes,) = mended.sizes
    figure = figures(of(mended))["sizes"]
    for row in rows(figure.data[(ALL,)], size=sizes.sizes[-1]):
        assert row["at"] == 1.0
    (row,) = rows(figure.data[("ece",)], size=50)
    curve = sizes.improvement["ece"]
    assert (row["at"], row["low"], row["high"]) == (curve.mean[0], curve.q05[0], curve.q95[0])
    assert figure.controls[0].options[:2] == (ALL, next(iter(sizes.improvement)))


def test_words_and_tables_are_those_of_the_recalibration(mended):
    made = of(mended)
    (points,) = blocks(made, Points)
    said = [text for _, _, text in points.items]
    assert said[: len(mended.improvement.reading())] == list(mended.improvement.reading())
    assert mended.sizes[0].reading() in said
    assert points.items[0][0] == "good"
    (text,) = blocks(made, Text)
    assert "1 number fitted by nll on held out" in text.lines[0]
    assert [block.table.heads[0] for block in blocks(made, Shown)] == ["score", "fit"]


def test_every_choice_is_drawn(mended):
    draws_all(of(mended))


def test_what_should_be_known_of_the_fit_is_told(mended):
    notes = (Note("fit-at-bound", "the temperature ended at 64"), Note("units-without-band", "no band"))
    (points,) = blocks(of(replace(mended, warnings=notes)), Points)
    assert [text for tone, _, text in points.items if tone == "warn"] == ["the temperature ended at 64"]


def test_where_nothing_changed_there_is_nothing_to_draw(held_out, shifted):
    made = of(recalibrate(held_out, shifted, "none", metrics="nll", resamples=20).evaluation)
    (points,) = blocks(made, Points)
    assert figures(made) == {}
    assert points.items[0] == ("neutral", "What was gained", "unchanged: nll, brier, rbs")


def test_without_labels_the_fit_alone_is_told(held_out, demo):
    made = of(recalibrate(held_out, cal.read(demo["glyphs"])).evaluation)
    assert figures(made) == {}
    (points,) = blocks(made, Points)
    assert {topic for _, topic, _ in points.items} == {"About the fit"}
    assert any("there are no labels" in text for _, _, text in points.items)
    assert [block.table.heads[0] for block in blocks(made, Shown)] == ["fit"]


def test_several_stand_under_names_of_their_own(mended):
    script = "<script>alert(1)</script>"
    inputs = tuple(item | {"name": script + item["name"]} for item in mended.inputs)
    results = tuple(replace(result, input=script + result.input) for result in mended.results)
    found = replace(mended.improvement, before=results[0].input, after=results[1].input)
    other = replace(mended, inputs=inputs, results=results, improvement=found)
    made = of(mended, other)
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
    shares = {row["score"]: row["at"] for row in rows(everything["gains"].data[(OF_BEFORE,)])}
    stored = {row["score"]: row for row in rows(everything["gains"].data[(AS_IT_IS,)])}
    assert stored["nll"]["before"] < 0 < stored["crps"]["before"]
    assert {score: np.isfinite(share) for score, share in shares.items()} == {"dss": False, "nll": False, "crps": True}
    assert everything["coverage"].first() == ("inside the central interval",)
    draws_all(made)


def test_an_evaluation_alone_has_no_such_section(shifted):
    assert of(cal.evaluate(shifted, "nll", resamples=20)) is None
