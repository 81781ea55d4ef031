"""Terminal output: the verdict before the tables, bars that agree with the numbers, harmless names."""

import csv
import io
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import calibrant as cal
from calibrant.render import evaluation as tables
from calibrant.render import terminal as printing
from calibrant.render.formatting import format_interval, format_short
from calibrant.render.table import (
    BAND,
    BOTH,
    INTERVAL,
    OUTSIDE,
    VALUE,
    Bar,
    Table,
    bar_legend,
    columns_of,
    draw_bar,
    escape_markdown,
    on_shared_scale,
    text,
    wrap,
)
from calibrant.results.evaluation import Group

PARTS = [
    "<script>alert(1)</script>", "[/nope]", "[bold]", '"', "'", "\u202e", "\u200f", "\n", "\r", "\t", "\x1b[31m",
    "$", "&", "%", "#", "_", "{", "}", "~", "^", "\\", "|", "`", "*", "=1+1", "-", "@", "+", "é", "e\u0301",
    "\\input{x}", "\\\\", "--", "- x", "1. x", "> q", "!", "|---|", "名前", "x" * 90, "n" * 10_000, "",
]  # fmt: skip
names = st.lists(st.one_of(st.sampled_from(PARTS), st.text(max_size=12)), max_size=6).map("".join)


@pytest.fixture(scope="module")
def evaluation():
    """Few metrics, a group, a note, a gate that failed."""
    rng = np.random.default_rng(0)
    predictions = cal.Classification.from_logits(
        rng.normal(size=(120, 3)), rng.integers(0, 3, 120), columns={"group": np.arange(120) % 2}
    )
    found = cal.evaluate(predictions, "accuracy,nll,ece,ks,misclassification_auroc", by="group", resamples=60)
    return replace(found, gates=tuple(cal.gates.gate(found, fail_on="nll>0.1", require="accuracy>0.01")))


def renamed(evaluation, name):
    """The same with another name of its input, of its column and of a group."""
    (result,) = evaluation.results
    groups = tuple(Group(name, f"{name} {k}", g.n, g.metrics) for k, g in enumerate(result.groups))
    (facts,) = evaluation.inputs
    return replace(
        evaluation, results=(replace(result, input=name, groups=groups),), inputs=({**facts, "name": name},)
    )  # fmt: skip


# --------------------------------------------------------------------------------------------- the verdict
def test_the_verdict_comes_first_in_every_form(evaluation):
    head = printing.verdict(evaluation).headline
    assert str(evaluation).startswith(f"{head}\n  · accuracy ")
    assert printing.as_markdown(evaluation).startswith(f"**{escape_markdown(head)}**\n\n- accuracy ")
    assert printing.as_latex(evaluation).startswith(f"% {head}\n% accuracy ")
    assert head not in tables.as_csv(evaluation)


def test_the_headline_is_not_repeated():
    models = {name: cal.Classification.from_probs(np.tile([p, 1 - p], (60, 1)), np.zeros(60, int))
              for name, p in (("a", 0.9), ("b", 0.6))}  # fmt: skip
    shown = str(cal.compare(models, "nll", resamples=100))
    assert shown.startswith("a is best by NLL, significantly better than all others\n")
    assert shown.count("is best by NLL") == 1


def test_of_several_inputs_each_has_a_line():
    rng = np.random.default_rng(1)
    inputs = [cal.Judged.from_confidence(rng.uniform(0.5, 1, 50), rng.uniform(size=50) < 0.7, name=f"input {k}")
              for k in range(15)]  # fmt: skip
    lines = str(cal.evaluate(inputs, "accuracy,ece", resamples=50)).splitlines()
    assert lines[0].startswith("15 inputs: ")
    assert [line[2:].split(":")[0][2:] for line in lines[1:13]] == [f"input {k}" for k in range(12)]
    assert lines[13] == "  · … and 3 more inputs"


def test_styles_show_the_tone_and_gates(evaluation):
    lines = printing.text_lines(evaluation)
    said = {"".join(text for text, _ in line): [style for _, style in line] for line in lines}
    assert lines[0][0][1] == f"bold {printing.verdict(evaluation).tone}"
    assert [styles for text, styles in said.items() if text.startswith("gate failed")] == [["bad"]]
    assert [styles for text, styles in said.items() if text.startswith("gate passed")] == [["good"]]
    assert [styles for text, styles in said.items() if text.startswith("bars: ")] == [["dim"]]


# ---------------------------------------------------------------------------------------------------- bars
finite = st.floats(-1e6, 1e6, allow_nan=False)


@given(st.lists(finite, min_size=2, max_size=2), st.lists(finite, min_size=2, max_size=2), finite, st.integers(8, 12))
def test_a_bar_agrees_with_the_numbers(interval, band, value, cells):
    bar = Bar(value, min(interval), max(interval), min(band), max(band))
    shown = draw_bar(bar, cells)
    assert len(shown) == cells
    assert sum(shown.count(sign) for sign in (VALUE, OUTSIDE)) == 1
    slack = 1e-6 * max(map(abs, (*band, value)))
    if value > max(band) + slack or value < min(band) - slack:
        assert OUTSIDE in shown
    if min(band) <= value <= max(band):
        assert VALUE in shown


@given(finite, finite, finite, st.integers(8, 12))
def test_a_value_beyond_its_band_does_not_touch_it_in_the_bar(low, length, above, cells):
    low, high = low, low + abs(length) + 1.0
    shown = draw_bar(Bar(high + abs(above) + 1.0, band_low=low, band_high=high), cells)
    assert shown.rstrip().endswith(OUTSIDE)
    assert BAND not in shown[shown.index(OUTSIDE) :]


def test_bars_of_known_numbers():
    assert draw_bar(Bar(0.5, 0.0, 1.0), 9) == "────┃────"
    assert draw_bar(Bar(1.0, 0.5, 1.0, 0.0, 0.5), 9) == "░░░░▒───█"
    assert draw_bar(Bar(0.0, zero=0.0), 9) == " " * 9
    assert draw_bar(Bar(0.25, 0.0, 1.0, zero=-1.0), 9) == "┊   ─┃───"
    assert draw_bar(Bar(math.inf, 0.0, 1.0), 9) == " " * 9
    assert draw_bar(Bar(2.0, 2.0, 2.0, 2.0, 2.0), 9).strip() == VALUE


def test_bars_that_are_compared_share_a_scale():
    one, two = on_shared_scale([Bar(1.0, 0.0, 2.0), Bar(9.0, 8.0, 10.0)])
    assert draw_bar(one, 11) == "─┃─        "
    assert draw_bar(two, 11) == "        ─┃─"


def test_bars_keep_their_blanks_on_both_sides():
    pictured = on_shared_scale([Bar(1.0, 0.0, 2.0), Bar(9.0, 8.0, 10.0)])
    table = Table("", ("name", "value"), (("one", "1"), ("two", "9")), bars=pictured)
    lines = text(table).splitlines()[2:]
    assert [line[17:] for line in lines] == [draw_bar(bar, 12).rstrip() for bar in pictured]


def test_bars_stand_in_text_of_eighty_columns_alone(evaluation):
    signs = {VALUE, OUTSIDE, BAND, BOTH}
    table = tables.main_table(evaluation, evaluation.results[0])
    assert signs & set(text(table, 80))
    assert not signs & set(text(table, 79))
    assert "bars: " not in printing.as_text(evaluation, 79)
    others = [printing.as_markdown, printing.as_latex, tables.as_csv, tables.as_html, cal.Evaluation.dumps]
    assert not any(signs & set(write(evaluation)) for write in others)


def test_the_legend_has_the_signs_that_are_there():
    assert bar_legend("───\na ░┃░") == f"bars: {BAND} if calibrated, {VALUE} value"
    assert (
        bar_legend("a ░─█", "expected") == f"bars: {INTERVAL} interval, {BAND} expected, {OUTSIDE} value outside {BAND}"
    )
    assert bar_legend("───") == ""


def test_the_default_table_has_bars_and_whole_names_at_eighty_columns():
    rng = np.random.default_rng(0)
    found = cal.evaluate(
        cal.Classification.from_logits(rng.normal(size=(3, 60, 4)), rng.integers(0, 4, 60)), resamples=40
    )
    shown = text(tables.main_table(found, found.results[0]))
    assert max(map(columns_of, shown.splitlines())) <= 80
    assert VALUE in shown
    assert all(f"\n{spec}" in shown for spec in found.results[0].metrics)


# ------------------------------------------------------------------------------------------ numbers, lines
@given(st.floats(-1e300, 1e300))
def test_short_numbers_are_short_and_near(value):
    shown = format_short(value)
    assert len(shown) <= 6 or "e" in shown
    scale = max(abs(value), 1e-4)
    assert abs(float(shown.replace("−", "-")) - value) <= 0.5 * max(scale, 1.0 if scale < 1e5 else scale)
    assert len(format_interval(0.5, value, short=True)) <= 17 or "e" in shown


@settings(max_examples=50, deadline=None)
@given(names, st.integers(12, 120))
def test_wrapped_lines_fit_and_lose_nothing(name, width):
    said = f"a word, {name} 95 % and more"
    lines = wrap(said, width)
    assert all(columns_of(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(printing.plain(said, 1 << 16).split())
    assert not any(line.lstrip().startswith("% and") for line in lines)


# ------------------------------------------------------------------------------------------- hostile names
@settings(max_examples=60, deadline=None)
@given(names, st.integers(40, 120))
def test_any_name_fits_the_width_and_sends_nothing_to_the_terminal(evaluation, name, width):
    shown = printing.as_text(renamed(evaluation, name), width)
    assert all(c.isprintable() or c == "\n" for c in shown)
    assert max(map(columns_of, shown.splitlines())) <= width


@settings(max_examples=60, deadline=None)
@given(names)
def test_any_name_is_text_in_markdown(evaluation, name):
    shown = printing.as_markdown(renamed(evaluation, name))
    assert "<" not in shown
    rows = [line for line in shown.splitlines() if line.startswith("| ")]
    counts = [len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) for line in rows]
    assert set(counts) == {counts[0], counts[-1]}
    assert not re.search(r"(?<!\\)(?:\\\\)*[`_\[\]$~]", shown)
    assert not any(re.match(r"#|\+ |=", line) for line in shown.splitlines())


COMMANDS = re.compile(
    r"\\(?:textbackslash|textasciitilde|textasciicircum|textless|textgreater|dots|textbar|textquotedbl|textasciigrave)\{\}"
    r"|\$(?:-|\^2|_2|\\(?:downarrow|uparrow|cdot|pm|le|ge|to|times|rho|surd))\$|\\[&%$#_{}]|\{[\[\]*-]\}"
)


@settings(max_examples=60, deadline=None)
@given(names)
def test_any_name_is_text_in_latex(evaluation, name):
    """Behind comments, the frame and the escapes that we write, no sign is left that LaTeX would read."""
    shown = printing.as_latex(renamed(evaluation, name))
    frame = r"\\(?:begin|end)\{tabular\}(?:\{[lr]+\})?|\\(?:toprule|midrule|bottomrule|addlinespace)"
    for line in filter(None, shown.splitlines()):
        if line.startswith("%") or re.fullmatch(frame, line):
            continue
        assert line.endswith(r" \\")
        cells = line.removesuffix(r" \\").split(" & ")
        assert len(cells) in (4, 7)
        for cell in cells:
            assert not set(COMMANDS.sub("", cell)) & set('\\{}$&#^_~%[]*|"`'), cell


@settings(max_examples=60, deadline=None)
@given(names)
def test_any_name_is_text_in_csv(evaluation, name):
    shown = tables.as_csv(renamed(evaluation, name))
    rows = list(csv.reader(io.StringIO(shown, newline="")))
    assert len(rows) == 1 + 3 * 5
    assert len({len(row) for row in rows}) == 1
    for row in rows[1:]:
        for cell in row[:3]:
            assert not cell.lstrip().startswith(("=", "+", "-", "@", "＝", "＋", "－", "＠"))
            assert not any(c in cell for c in "\r\n\t\x1b")
