"""`report`: what it takes, what it writes, what it refuses; gathering, figures as files, notebooks."""

from __future__ import annotations

import builtins
import csv
import io
import json
import re
from html import escape
from xml.etree import ElementTree

import numpy as np
import pytest
from evaluations import evaluate_with

import calibrant as cal
from calibrant.demo import demo_path
from calibrant.errors import MissingExtra, UsageError, WriteError
from calibrant.render.verdicts.api import verdict
from calibrant.reporting.charts.palette import DARK, LIGHT, themed
from calibrant.reporting.document import Document, Section, figures_of, rounded, slug
from calibrant.reporting.figures import FORMS, svg, write_figures
from calibrant.reporting.figures import csv as figure_csv
from calibrant.reporting.report import document_of
from calibrant.reporting.report_data import collect, curve_options

SVG = "{http://www.w3.org/2000/svg}"


# ---------------------------------------------------------------------------------------------------- the page
def test_the_page_is_one_file_that_needs_nothing(page_path):
    text = page_path.read_text(encoding="utf-8")
    assert not re.search(r"""(?:src|href)\s*=\s*["']?(?:https?:)?//""", text.split("<script>")[0])
    assert (
        "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; img-src data:" in text
    )
    assert text.count("vegaEmbed=") == 1, "the drawing library stands in it once"
    assert len(text) < 2_500_000


def test_the_same_evaluations_make_the_same_page(everything, page_path, tmp_path):
    again = cal.report(everything, tmp_path / "again.html", title="All that can be shown")
    assert again.read_bytes() == page_path.read_bytes()


def test_stored_evaluations_make_the_same_page(everything, page_path, tmp_path):
    paths = [item.save(tmp_path / f"{k}.json") for k, item in enumerate(everything)]
    again = cal.report(paths, tmp_path / "again.html", title="All that can be shown")
    assert again.read_bytes() == page_path.read_bytes()


def test_each_chart_is_written_once(everything, page_path):
    figures = [figure for _, figure, _ in figures_of(document_of(everything))]
    shared = json.loads(re.search(r'id="shared">(.*?)</script>', page_path.read_text(encoding="utf-8")).group(1))
    assert len(shared["charts"]) == len({json.dumps(figure.chart, sort_keys=True) for figure in figures})
    assert len(shared["charts"]) < len(figures)


@pytest.mark.parametrize("given", [[], 3, [None], {}])
def test_other_types_are_refused(given, tmp_path):
    with pytest.raises(UsageError, match="expected evaluations"):
        cal.report(given, tmp_path / "x.html")
    assert not list(tmp_path.iterdir())


def test_a_page_that_cannot_be_written_leaves_nothing(made, tmp_path):
    with pytest.raises(WriteError):
        cal.report(made.judged, tmp_path / "no" / "folder.html")
    with pytest.raises(WriteError):
        cal.report(made.judged, tmp_path)


def test_without_the_extra_the_error_names_it(made, tmp_path, monkeypatch):
    real = builtins.__import__

    def without(name, *rest, **more):
        if name in ("altair", "vl_convert"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtra, match=r"pip install 'calibrant\[report\]'"):
        cal.report(made.judged, tmp_path / "x.html")
    assert "<table>" in made.judged._repr_html_(), "a notebook has tables alone"
    assert "<svg" not in made.judged._repr_html_()


# --------------------------------------------------------------------------------------------------- gathering
def test_metrics_and_checks_of_one_input_are_merged(made):
    (subject,) = collect([made.clean, made.checked]).subjects
    assert subject.metrics_view.evaluation is made.clean
    assert subject.checks_view.evaluation is made.checked


def test_inputs_of_one_name_are_distinguished(made):
    other = cal.evaluate(cal.Judged.from_confidence([0.5, 0.9], [True, False]).named("answers"), "nll")
    assert [subject.name for subject in collect([made.judged, other]).subjects] == ["answers", "answers (2)"]


def test_the_evaluation_with_more_metrics_describes_an_input(made):
    few = cal.Evaluation.from_json(made.clean.to_json())
    few.results[0].metrics.pop("nll")
    for order in ([few, made.clean], [made.clean, few]):
        (subject,) = collect(order).subjects
        assert subject.metrics_view.evaluation is made.clean


def test_models_without_a_name_are_distinguished_by_their_values():
    first, second = (
        cal.Judged.from_confidence([0.6, 0.7, 0.8, sure], [True, True, False, True]) for sure in (0.9, 0.4)
    )
    found = [cal.evaluate(item, "nll,accuracy") for item in (first, second)]
    assert [subject.metrics_view.evaluation for subject in collect(found).subjects] == found
    again = cal.evaluate(first, "nll,brier")
    assert [len(subject.views) for subject in collect([*found, again]).subjects] == [2, 1]


def test_members_of_one_file_are_distinguished():
    rows = cal.read(demo_path("test"))[:200]
    found = [cal.evaluate(rows.member(k), "nll") for k in range(2)]
    assert found[0].inputs == found[1].inputs
    assert len(collect(found).subjects) == 2


def test_checks_of_other_predictions_are_not_merged():
    rng = np.random.default_rng(0)
    first, second = (
        cal.Classification.from_logits(rng.normal(size=(2, 50, 3)), rng.integers(0, 3, 50)) for _ in range(2)
    )
    scored = cal.evaluate(first, "accuracy,nll")
    assert len(collect([scored, cal.check(first, draws=20)]).subjects) == 1
    assert len(collect([scored, cal.check(second, draws=20)]).subjects) == 2


def test_a_second_evaluation_of_an_input_adds_its_parts():
    rng = np.random.default_rng(0)
    columns = {"side": np.repeat(["left", "right"], 50)}
    rows = cal.Classification.from_logits(rng.normal(size=(2, 100, 3)), rng.integers(0, 3, 100), columns=columns)
    whole = evaluate_with(rows, resamples=20, worst_rows=0, curves=False)
    more = [
        cal.error_hierarchy(rows, "nll,ece", by="side", resamples=20),
        cal.check(rows, "accuracy", draws=20),
        cal.check(rows, "nll,brier", by="side", draws=20),
    ]
    for order in ([whole, *more], [*more[::-1], whole]):
        document = document_of(order)
        assert len(document.subjects) == 1
        keys = {section.key for section in document.sections}
        assert {"scores", "slices", "rows", "errors", "checks", "reliability"} <= keys
        figures = [(key, figure) for key, figure, _ in figures_of(document)]
        assert {"accuracy", "nll", "brier", "By side"} <= {figure.title for key, figure in figures if key == "checks"}
        offered = [option for key, figure in figures if key == "errors" for option in figure.controls[0].options]
        assert any(option.startswith("hierarchy") for option in offered)


def test_options_of_curves_are_read():
    assert curve_options("reliability") == ("reliability", {})
    assert curve_options("reliability(bins=10,binning=mass)") == ("reliability", {"bins": "10", "binning": "mass"})


# ----------------------------------------------------------------------------------------------------- figures
def test_progress_is_reported_while_figures_are_drawn(made, tmp_path):
    told = []
    cal.report(
        made.judged, tmp_path / "x.html", figures=tmp_path / "f", forms="csv", progress=lambda *said: told.append(said)
    )
    count = len(list((tmp_path / "f").iterdir()))
    assert [done for _, done, _ in told] == list(range(count))
    assert {total for _, _, total in told} == {count}


def test_every_figure_becomes_files(made, tmp_path):
    document = document_of([made.clean])
    found = write_figures(document, tmp_path / "figures")
    names = {path.stem for path in found}
    assert len(names) == len(figures_of(document))
    assert {path.suffix[1:] for path in found} == set(FORMS)
    starts = {".svg": b"<svg", ".png": b"\x89PNG", ".pdf": b"%PDF"}
    assert all(path.read_bytes().startswith(starts[path.suffix]) for path in found if path.suffix in starts)
    assert all(path.stat().st_size for path in found)


def test_figures_of_one_name_have_distinct_files(made, tmp_path):
    first = figures_of(document_of([made.clean]))[0][1]
    document = Document("twice", (Section("a", "A", (first, first)),))
    names = [path.name for path in write_figures(document, tmp_path, ("csv",))]
    assert len(set(names)) == 2


def test_the_csv_of_a_figure_has_every_choice(made):
    figure = next(f for _, f, _ in figures_of(document_of([made.clean])) if f.title == "Reliability diagram")
    lines = list(csv.reader(io.StringIO(figure_csv(figure))))
    assert lines[0][:2] == ["binning", "bins"]
    curve = made.clean.results[0].curves["reliability(bins=10,binning=mass)"]
    own = [line for line in lines if line[:2] == ["equal mass", "10"]]
    assert [float(line[2 + list(figure.heads).index("accuracy")]) for line in own] == curve["accuracy"]


def test_every_chart_is_drawn_without_a_browser(everything):
    for section, figure, _ in figures_of(document_of(everything)):
        drawn = ElementTree.fromstring(svg(figure))  # noqa: S314
        marks = [e for e in drawn.iter() if "mark-" in e.get("class", "")]
        assert len(marks) >= 2, (section, figure.key)
        assert "NaN" not in ElementTree.tostring(drawn, encoding="unicode"), (section, figure.key)


def test_unknown_forms_are_refused_before_anything_is_written(made, tmp_path):
    with pytest.raises(UsageError, match="did you mean 'svg'"):
        cal.report(made.judged, tmp_path / "x.html", figures=tmp_path / "f", forms=["svgg"])
    assert not list(tmp_path.iterdir())


# ------------------------------------------------------------------------------------------------- plain values
def test_names_of_files_are_safe_anywhere():
    assert slug("../../etc/passwd") == "etc-passwd"
    assert slug("Zürich, <b>") == "zurich-b"
    assert slug("\u202e日本") == "unnamed"
    assert len(slug("x" * 10_000)) <= 48


def test_numbers_of_charts_are_short_and_finite():
    assert rounded(0.123456789) == 0.123457
    assert rounded(float("inf")) is None
    assert rounded(float("nan")) is None
    assert rounded(True) is True
    assert rounded(12_345_678) == 12_345_678


def test_colours_become_variables_of_the_page():
    assert themed({"a": [LIGHT["blue"], "x"]}) == {"a": ["var(--blue)", "x"]}
    assert LIGHT.keys() == DARK.keys()


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_colours_have_contrast_with_their_paper(colours):
    """WCAG 2.1: 4.5 to 1 for text, 3 to 1 for what charts are drawn with."""
    for name in set(colours) - {"paper", "card", "line"}:
        least = 4.5 if name in ("ink", "soft", "blue") else 3.0
        assert min(contrast(colours[name], colours[paper]) for paper in ("paper", "card")) >= least, name


def contrast(one, other):
    bright, dim = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


def luminance(colour):
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


# ---------------------------------------------------------------------------------------------------- notebooks
@pytest.mark.parametrize("kind", ["clean", "checked", "compared", "numbers", "detected"])
def test_notebooks_show_tables_and_charts(made, kind):
    shown = getattr(made, kind)._repr_html_()
    assert "<table>" in shown
    assert shown.count("<svg") >= 1
    assert "<script" not in shown


def test_a_page_of_one_input_has_its_name(demo):
    (one, two) = (cal.evaluate(cal.read(demo["test"])[:40].named(n), "accuracy", resamples=20) for n in ("<a>", "b"))
    assert document_of([one]).title == "Calibrant report: <a>"
    assert document_of([one, two]).title == "Calibrant report"
    assert document_of([one], "Mine").title == "Mine"


def test_a_notebook_has_the_verdict_first(made):
    shown = made.judged._repr_html_()
    assert 0 <= shown.index(escape(verdict(made.judged).headline)) < shown.index("<table>")
