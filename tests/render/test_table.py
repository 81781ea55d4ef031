"""Evaluations as text, HTML, CSV, Markdown and LaTeX: every format escapes names, and lines fit a terminal."""

import csv
import io
import unicodedata

import numpy as np
import pytest
from evaluations import evaluate_with

import calibrant as cal
from calibrant.render import evaluation as tables
from calibrant.render import terminal as printing
from calibrant.render.formatting import format_number

HOSTILE = [
    "<script>alert(1)</script>",
    "=cmd|' /C calc'!A0",
    "+1", "-1", "@SUM(A1)", "\t=1", "\r=1",
    "a|b", "*bold* _it_ `code` [x](y)", "100 % & $x_1^2$ ~ # {} \\input{secret}",
    "\x1b[31mred\x1b[0m", "line\nbreak", "[bold]rich[/bold]", "‮evil", 'quote " and \' quote, comma',
    "名前の長い入力" * 8, "n" * 300, "a\r=1+1",
]  # fmt: skip
hostile = pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))


def made(name="predictions", members=1, n=90, group=None, classes=3):
    rng = np.random.default_rng(0)
    z = rng.normal(size=(members, n, classes))
    columns = {"group": np.full(n, group)} if group is not None else {"group": np.arange(n) % 2}
    return cal.Classification.from_logits(z, rng.integers(0, classes, n), name=name, columns=columns)


def evaluated(name="predictions", group=None, metrics="accuracy,nll,ece", **known):
    return cal.evaluate(made(name, group=group, **known), metrics, by="group", resamples=40)


def width(line):
    """Terminal columns."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)


# --------------------------------------------------------------------------------------------- text
@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("classes", [2, 3, 10])
def test_every_default_metric_fits_eighty_columns(members, classes):
    result = cal.evaluate(made(members=members, classes=classes), by="group", resamples=40)
    assert max(width(line) for line in str(result).splitlines()) <= 80


@hostile
def test_names_fit_eighty_columns_and_carry_no_control_characters(name):
    text = str(evaluated(name, group=name))
    assert max(width(line) for line in text.splitlines()) <= 80
    assert all(c.isprintable() or c == "\n" for c in text)


def test_long_lists_of_metrics_fit_eighty_columns():
    specs = [f"brier_{part}(bins=20)" for part in ("reliability", "resolution", "uncertainty", "within")]
    specs += ["corp_miscalibration(of=2)", "ece(bins=10,binning=mass,norm=l2,of=1)"]
    assert max(width(line) for line in str(evaluated(metrics=specs)).splitlines()) <= 80


def test_many_rows_and_members_fit_eighty_columns():
    result = evaluate_with(made(members=2, n=200_000), "accuracy,nll,brier,ece,entropy,mutual_information",
                          by="group", intervals=False)  # fmt: skip
    assert max(width(line) for line in str(result).splitlines()) <= 80


def test_notes_fit_eighty_columns():
    odd = cal.Classification.from_probs([[0.3, 0.7005]], [0], label_probs=[[0.5, 0.5]], name="a_long_name_" * 4)
    text = str(cal.evaluate(odd, "nll"))
    assert "note: " in text
    assert max(width(line) for line in text.splitlines()) <= 80


def test_text_shows_title_interval_band_and_directions():
    text = str(cal.evaluate(made(members=2), "report", resamples=40))
    assert "predictions · 90 rows · 2 members · 3 classes" in text
    assert "95% interval" in text
    assert "if calibrated" in text
    assert "nll ↓" in text
    assert "accuracy ↑" in text
    assert "roc_auc, average_precision (it needs two classes)" in " ".join(text.split())


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.12345, "0.1235"), (0.0, "0.0000"), (-0.5, "−0.5000"), (1e-7, "1e−07"), (123456.0, "1.23e+05"),
     (np.inf, "infinite"), (-np.inf, "−infinite"), (np.nan, "undefined")],
)  # fmt: skip
def test_numbers(value, shown):
    assert format_number(value) == shown


# --------------------------------------------------------------------------------------------- HTML
@hostile
def test_html_escapes_names(name):
    shown = evaluated(name, group=name)._repr_html_()
    for bad in ("<script", "\x1b", "\n<", "onerror=", "‮"):
        assert bad not in shown
    from html.parser import HTMLParser

    tags = set()
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attributes: tags.add(tag)
    parser.feed(shown)
    drawn = {"figure", "figcaption", "svg", "g", "path", "line", "rect", "text"}
    assert tags <= {"table", "caption", "li", "strong", "ul", "thead", "tbody", "tr", "th", "td", "p", "wbr"} | drawn


def test_html_tables_are_accessible():
    shown = evaluated()._repr_html_()
    assert shown.count("<caption>") == shown.count("<table>") == 2
    assert '<th scope="col">' in shown
    assert '<th scope="row">' in shown


# ---------------------------------------------------------------------------------------------- CSV
@hostile
def test_csv_runs_no_formula_and_keeps_names(name):
    """Control characters may be replaced by blanks; a carriage return must not begin a new row."""
    text = tables.as_csv(evaluated(name, group=name))
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [row["metric"] for row in rows] == ["accuracy", "nll", "ece"] * 2
    for cell in (rows[0]["input"], rows[-1]["group"]):
        assert not cell.startswith(("=", "+", "-", "@", "\t", "\r"))
        assert (
            cell.removeprefix("'").split() == name.replace("\x1b", " ").replace("\u202e", " ").split() or cell == name
        )


def test_csv_has_full_precision():
    evaluation = evaluated()
    row = next(r for r in csv.DictReader(io.StringIO(tables.as_csv(evaluation))) if r["metric"] == "nll")
    assert float(row["value"]) == evaluation["nll"].value
    assert float(row["low"]) == evaluation["nll"].low
    assert row["null_low"] == ""


# ------------------------------------------------------------------------------- Markdown and LaTeX
@hostile
def test_markdown_keeps_its_columns(name):
    shown = printing.as_markdown(evaluated(name, group=name))
    bars = [line.replace("\\\\", "").replace("\\|", "").count("|") for line in shown.splitlines() if line[:1] == "|"]
    assert bars == [5] * 5 + [6] * 3
    assert "<script" not in shown
    assert "\x1b" not in shown


def test_markdown_escapes():
    shown = printing.as_markdown(evaluated("a|b *c* _d_ <e> `f` [g]"))
    assert r"a\|b \*c\* \_d\_ &lt;e&gt; \`f\` \[g\]" in shown


@hostile
def test_latex_runs_no_command(name):
    shown = printing.as_latex(evaluated(name, group=name))
    assert shown.count(r"\begin{tabular}") == shown.count(r"\end{tabular}") == 2
    body = [line for line in shown.splitlines() if not line.startswith("%")]
    assert not any(r"\input" in line for line in body)
    for line in body:
        if line.endswith(r"\\"):
            cells = line.removesuffix(r"\\").replace(r"\&", "")
            assert cells.count("&") in (3, 4)
            assert "%" not in cells.replace(r"\%", "")


def test_latex_uses_what_latex_has():
    """Arrows and the minus sign are commands: plain LaTeX has no such characters."""
    shown = printing.as_latex(evaluated(metrics="accuracy,nll,energy"))
    body = "\n".join(line for line in shown.splitlines() if not line.startswith("%"))
    assert body.isascii(), {c for c in body if ord(c) > 127}


def test_groups_of_other_columns_stand_in_tables_of_their_own():
    rng = np.random.default_rng(0)
    columns = {"a": np.arange(30) % 2, "b": np.arange(30) % 3}
    p = cal.Classification.from_probs(rng.dirichlet([1, 1, 1], 30), rng.integers(0, 3, 30), columns=columns)
    shown = cal.evaluate(p, "nll", by=["a", "b"])
    assert [table.title for table in tables.tables(shown)][1:] == ["by a", "by b"]
    assert [len(table.rows) for table in tables.tables(shown)] == [1, 2, 3]
