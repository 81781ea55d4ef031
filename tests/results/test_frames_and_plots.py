"""`to_frame` has every number of a result, one row each; `plot` draws each chart, and files are what they claim."""

import math

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure

import calibrant as cal
from calibrant.errors import UsageError

matplotlib.use("Agg")


@pytest.fixture(scope="module")
def classes():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(2, 300, 3))
    return cal.Classification.from_logits(logits, rng.integers(0, 3, 300), columns={"site": np.arange(300) % 2})


@pytest.fixture(scope="module")
def evaluation(classes):
    return cal.evaluate(classes, by="site")


@pytest.fixture(scope="module")
def forecast():
    rng = np.random.default_rng(1)
    mean = rng.normal(size=300)
    return cal.evaluate(cal.Regression.from_gaussian(mean, np.ones(300), mean + rng.normal(size=300)))


# ------------------------------------------------------------------------------------------- frames
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frame_has_every_estimate_once(evaluation, library):
    frame = evaluation.to_frame(library)
    columns = {name: frame[name].to_list() for name in frame.columns}
    rows = list(zip(columns["by"], columns["group"], columns["metric"], columns["value"], columns["low"], strict=True))
    (result,) = evaluation.results
    expected = [("", "", spec, e.value, e.low) for spec, e in result.metrics.items()]
    expected += [("site", str(g.value), spec, e.value, e.low) for g in result.groups for spec, e in g.metrics.items()]
    assert len(rows) == len(expected)
    for row, want in zip(rows, expected, strict=True):
        assert row[:3] == want[:3]
        assert row[3] == want[3] or (math.isnan(row[3]) and math.isnan(want[3]))
        assert row[4] == want[4] or (math.isnan(row[4]) and math.isnan(want[4]))


def test_frames_of_every_kind(classes, forecast):
    check = cal.check(classes, draws=50)
    frame = check.to_frame()
    for name, item in check.results[0].checks.items():
        assert item.observed in frame[frame["statistic"] == name]["observed"].tolist()
    comparison = cal.compare({"both": classes, "one": classes.member(0)}, "brier")
    frame = comparison.to_frame()
    assert set(frame["kind"]) == {"model", "pair"}
    pair = comparison.comparison.pairs[0]
    assert frame[frame["kind"] == "pair"]["value"].tolist() == [pair.difference]
    assert len(forecast.to_frame()) == len(forecast.results[0].metrics)
    recalibrated = cal.recalibrate(classes[:150], classes[150:])
    assert len(recalibrated.evaluation.to_frame()) > 4
    detected = cal.detect(classes[:100], classes[100:200])
    assert set(detected.to_frame()["metric"]) == set(detected.results[0].metrics)


def test_unknown_library_is_refused(evaluation):
    with pytest.raises(UsageError, match="'pandas' or 'polars'"):
        evaluation.to_frame("dask")


# -------------------------------------------------------------------------------------------- plots
def test_charts_hold_the_stored_curve(evaluation):
    chart = evaluation.plot("reliability").to_dict()
    (rows,) = [rows for name, rows in chart["datasets"].items() if name == "rows"]
    curve = evaluation.results[0].curves["reliability"]
    drawn = sorted(round(row["accuracy"], 5) for row in rows if row.get("accuracy") is not None)
    assert drawn == pytest.approx(sorted(curve["accuracy"]), abs=1e-4)


@pytest.mark.parametrize(("suffix", "start"), [("png", b"\x89PNG"), ("svg", b"<svg"), ("pdf", b"%PDF")])
def test_charts_are_saved(evaluation, tmp_path, suffix, start):
    path = tmp_path / f"chart.{suffix}"
    evaluation.plot("risk_coverage").save(str(path))
    assert path.read_bytes().startswith(start)
    assert path.stat().st_size > 2000


def test_every_chart_has_a_name(evaluation, forecast, classes):
    names = ("reliability", "corp", "confidence", "risk-coverage", "rejection", "errors", "metrics", "entropy")
    for name in names:
        assert evaluation.plot(name).to_dict()["datasets"]["rows"]
    for name in ("pit", "coverage", "width"):
        assert forecast.plot(name).to_dict()["datasets"]["rows"]
    assert cal.check(classes, draws=50).plot("brier").to_dict()["datasets"]["rows"]
    both = cal.compare({"both": classes, "one": classes.member(0)}, "brier")
    assert both.plot("pairs").to_dict()["datasets"]["rows"]


def test_plot_functions_and_results_draw_the_same(classes, evaluation):
    one, two = cal.plot.reliability(classes).to_dict(), cal.evaluate(classes).plot("reliability").to_dict()
    assert one["datasets"] == two["datasets"]


def test_matplotlib_draws_the_stored_numbers(evaluation, forecast):
    curves = evaluation.results[0].curves
    axes = evaluation.plot("reliability", library="matplotlib")
    np.testing.assert_allclose(axes.lines[1].get_xydata()[:, 1], curves["reliability"]["accuracy"])
    own = Figure().add_subplot()
    assert evaluation.plot("risk_coverage", ax=own) is own
    np.testing.assert_allclose(own.lines[0].get_ydata(), curves["risk_coverage"]["risk"])
    bars = forecast.plot("pit", library="matplotlib").patches
    np.testing.assert_allclose([bar.get_height() for bar in bars], forecast.results[0].curves["pit"]["share"])
    line = forecast.plot("coverage", library="matplotlib").lines[1]
    np.testing.assert_allclose(line.get_ydata(), forecast.results[0].curves["central_coverage"]["observed"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "relability"}, "did you mean 'reliability'"),
        ({"name": "pit"}, "expected a chart of these results"),
        ({"name": "reliability", "result": "nobody"}, "the name of a result"),
        ({"name": "reliability", "library": "ggplot"}, "'altair' or 'matplotlib'"),
        ({"name": "corp", "library": "matplotlib"}, "for matplotlib"),
        ({"name": "pit", "library": "matplotlib"}, "the curve pit"),
    ],
)
def test_mistakes_name_the_choices(evaluation, arguments, message):
    with pytest.raises(UsageError, match=message):
        evaluation.plot(**arguments)
