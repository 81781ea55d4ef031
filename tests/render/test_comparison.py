"""Comparisons as tables, sentences and CSV: pairs stay distinguishable, hostile names are harmless."""

import csv
import io
import json
import math
import re
import unicodedata
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrant.comparison.datasets import summary
from calibrant.registry.estimate import Estimate
from calibrant.registry.lookup import metric_label
from calibrant.render import evaluation as tables
from calibrant.render.comparison import comparison_tables, select_pairs
from calibrant.render.comparison_text import (
    comparison_legend,
    describe_comparison,
    describe_rank_changes,
    describe_shift,
)
from calibrant.render.formatting import format_p_value
from calibrant.render.table import Table, latex, text
from calibrant.render.terminal import as_latex, as_markdown
from calibrant.results.comparison import Comparison, Equivalent, Pair, Ranked, ShiftedCll
from calibrant.results.evaluation import Evaluation, Result

NAN = math.nan
LONG = [
    f"resnet_preactivation_bottleneck_{k}_cutout_{tail}" for k in (1, 2, 3) for tail in ("first", "second", "third")
]
HOSTILE = ["<script>alert(1)</script>", 'a"b\'c', "\u202eevil", "new\nline\r=1", "n" * 10_000, "", "=1+1", "a − b",
           "100 % & $x_1$ \\input{x}", "\x1b[31mred", "名前" * 40]  # fmt: skip


def ranked(names, values, ranks=None):
    ranks = ranks or range(1, len(names) + 1)
    rows = zip(names, values, ranks, strict=True)
    return tuple(Ranked(n, r, v, v - 0.01, v + 0.01, r, r + 1, 0.5) for n, v, r in rows)


def pair(first, second, difference, p=0.0002, score="cll"):
    return Pair(score, first, second, difference, difference - 0.001, difference + 0.001, 0.95, p, p, p, 500)


def compared(names, **more):
    """Models whose CLL falls in the order of their names, with all pairs of them, the later one first."""
    values = [-0.1 - 0.05 * k for k in range(len(names))]
    pairs = tuple(pair(names[j], names[i], values[j] - values[i]) for j in range(len(names)) for i in range(j))
    ranking = ranked(names, values)
    known = {"ranks": {"cll": ranking, "nll": ranked(names, [-v for v in values])}, "pairs": pairs}
    comparison = Comparison("cll", ranking, **{**known, "best_temperature": dict.fromkeys(names, 1.5), **more})
    results = tuple(Result(name, {"cll": Estimate(v, 500)}) for name, v in zip(names, values, strict=True))
    inputs = tuple({"name": name, "sha256": None, "n": 500, "members": 1} for name in names)
    return Evaluation(
        "0.1",
        {"level": 0.95, "metrics": "default", "by": []},
        inputs,
        results,
        comparison=comparison,
        kind="comparison",
    )


def width(line):
    return sum(0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF") for c in line)


# ------------------------------------------------------------------------------------------------- pairs
def test_every_pair_of_alike_names_is_a_line_of_its_own_at_eighty_columns():
    shown = str(compared(LONG))
    assert max(map(width, shown.splitlines())) <= 80
    lines = [line for line in shown.splitlines() if re.match(r" *\d+ − \d+ ", line)]
    assert len({line[:14] for line in lines}) == len(lines) == 15
    assert "……" not in shown


def test_names_lose_their_middle_in_text_and_nothing_elsewhere():
    evaluation = compared(LONG)
    lines = text(comparison_tables(evaluation)[0]).splitlines()[3:12]
    assert [line.split()[0] for line in lines] == [str(k) for k in range(1, 10)]
    assert all(line.split()[1].endswith(name[-4:]) for line, name in zip(lines, LONG, strict=True))
    escaped = [name.replace("_", r"\_") for name in LONG]
    assert all(name in as_markdown(evaluation) and name in as_latex(evaluation) for name in escaped)


def test_the_better_one_is_named_by_its_number_and_the_better_rank_comes_first():
    table = comparison_tables(compared(["a", "b", "c"]))[2]
    assert [row[0] for row in table.rows] == ["1 − 2", "1 − 3", "2 − 3"]
    assert [row[-1] for row in table.rows] == ["1", "1", "2"]
    assert [row[4] for row in table.rows] == ["<0.001"] * 3


def test_with_a_baseline_every_pair_ends_with_it_and_sentences_name_the_better_models():
    three = {"pairs": (pair("b", "a", -0.05), pair("b", "c", 0.05), pair("b", "d", 0.001, p=0.7))}
    evaluation = compared(["a", "b", "c", "d"], baseline="b", **three)
    assert [p.second for p in select_pairs(evaluation.comparison)] == ["b"] * 3
    outcomes = "a is significantly better; c is significantly worse; d is not significantly different"
    assert describe_comparison(evaluation.comparison)[0] == f"compared with baseline b by CLL: {outcomes}"


def test_differences_of_losses_say_which_sign_is_good():
    evaluation = compared(["a", "b"], pairs=(pair("a", "b", -0.05, score="nll"),))
    by_loss = replace(evaluation, comparison=replace(evaluation.comparison, rank_by="nll"))
    assert any("(negative: first is better)" in table.title for table in comparison_tables(by_loss))
    assert not any("negative" in table.title for table in comparison_tables(evaluation))


@pytest.mark.parametrize(
    ("p", "shown"), [(0.0004, "<0.001"), (0.001, "0.001"), (0.9996, ">0.999"), (1.0, "1.000"), (NAN, "")]
)
def test_p_values(p, shown):
    assert format_p_value(p) == shown


def test_p_values_in_sentences_have_their_symbol():
    assert [format_p_value(p, "p") for p in (0.0004, 0.0311, NAN)] == ["p < 0.001", "p = 0.031", ""]


# ------------------------------------------------------------------------------------------------- words
def test_equal_ranks_are_no_other_order_and_moved_models_are_counted():
    own = compared(["a", "b", "c"]).comparison
    tie = replace(own, ranks={"accuracy": ranked(["b", "a", "c"], [0.9, 0.9, 0.8], [1, 1, 3])})
    assert describe_rank_changes(tie) == []
    turned = replace(own, ranks={"nll": ranked(["b", "a", "c"], [0.1, 0.2, 0.3])})
    assert describe_rank_changes(turned) == ["ranked differently than by CLL: by NLL, b has the best value, not tested"]


def test_equal_models_tie():
    even = replace(compared(["a", "b"]).comparison, ranking=ranked(["a", "b"], [0.1, 0.1], [1, 1]), ranks={})
    assert describe_comparison(even) == ["a and b tie by CLL"]


def test_the_legend_has_only_what_is_shown():
    evaluation = compared(["a", "b"])
    assert [line.partition(":")[0] for line in comparison_legend(evaluation)] == ["T", "rank (3–4)"]
    unsure = replace(evaluation.comparison, pairs=(pair("a", "b", 0.0, p=0.8),), best_temperature={})
    legend = comparison_legend(replace(evaluation, comparison=unsure))
    assert [line.partition(":")[0] for line in legend] == ["rank (3–4)", "n.s."]


@pytest.mark.parametrize(("score", "shown"), [("cll", "CLL"), ("ece(bins=5)", "ECE(bins=5)"), ("energy", "energy")])
def test_scores_have_one_name_everywhere(score, shown):
    assert metric_label(score) == shown


def test_scores_that_only_repeat_the_ranking_have_no_table():
    evaluation = compared(["a", "b"])
    own = evaluation.comparison
    one = replace(own, ranks={"cll": own.ranking})
    assert not any("brackets" in t.title for t in comparison_tables(replace(evaluation, comparison=one)))
    two = replace(own, rank_by="crps", ranks={"crps": own.ranking, "mse": own.ranking})
    titles = [t.title for t in comparison_tables(replace(evaluation, comparison=two))]
    assert "All scores; rank in brackets" in titles


# ------------------------------------------------------------------------------------------------- shift
def shifted(clean=True):
    cells = []
    for severity in (1.0, 2.0, 3.0):
        for name, same, by_clean in (("a", -severity, -severity), ("b", -severity - 0.1, 1.5 - 2 * severity)):
            after = (same, by_clean, 1.0 + severity, 1.5) if clean else (same, NAN, 1.0 + severity, NAN)
            cells += [ShiftedCll(name, kind, severity, 10, -3 * severity, *after) for kind in ("blur", "noise")]
    return tuple(cells)


def test_under_shift_likelihoods_temperatures_and_the_best_are_shown():
    evaluation = compared(["a", "b"], shifted=shifted())
    table = next(t for t in comparison_tables(evaluation) if t.title.startswith("Under shift, mean over 2 shift types"))
    assert table.heads == ("severity", "model", "NLL", "NLL (T clean)", "T clean", "NLL (T same)", "T same")
    assert table.rows[0] == ("1", "1 a", "* 3.0000", "1.0000", "1.500", "* 1.0000", "2.000")
    assert table.rows[1][3] == "* 0.5000"
    clean = "b has the best CLL at severity 1, a at severities 2 and 3 (temperature from clean rows)"
    same = "a has the best CLL at every severity (temperature from the same rows)"
    assert describe_shift(evaluation.comparison) == [f"under shift, {clean}; {same}; not tested by severity"]
    assert "all severities pooled" in comparison_tables(evaluation)[0].title


def test_without_clean_rows_their_columns_are_left_out():
    comparison = compared(["a", "b"], shifted=shifted(clean=False))
    table = next(t for t in comparison_tables(comparison) if t.title.startswith("Under shift"))
    assert table.heads == ("severity", "model", "NLL", "NLL (T same)", "T same")


# --------------------------------------------------------------------------------------------- data sets
def test_over_data_sets_the_best_is_named_and_what_is_left_out():
    each = {"one": compared(["a", "b", "c"]).comparison, "two": compared(["a", "b"]).comparison}
    found = summary(each, "cll")
    over = replace(each["two"], datasets=each, summary=found, ranks={})
    evaluation = replace(compared(["a", "b"]), comparison=over)
    shown = str(evaluation)
    assert "Ranking by CLL over 2 data sets · 2 models present in all" in shown
    assert re.search(r"^1 − 2 +a − b +0\.0500", shown, re.MULTILINE)
    best = "a has the best mean rank by CLL (1.00); it is significantly better than all others on 2 of 2 data sets"
    assert best in " ".join(shown.split())
    assert "excluded from the summary: c (not in two)" in shown
    rows = list(csv.DictReader(io.StringIO(tables.as_csv(evaluation))))
    assert {"a", "one/a", "two/b"} <= {row["input"] for row in rows}


# ------------------------------------------------------------------------------------------------- forms
def test_wide_tables_stand_in_blocks_and_lose_no_column():
    heads = ("#", "model", *(f"score {k}" for k in range(9)))
    rows = tuple((str(r), name, *(f"{k}.{r}000 (10)" for k in range(9))) for r, name in enumerate(LONG))
    shown = text(Table("t", heads, rows, left=0, names=1))
    assert max(map(width, shown.splitlines())) <= 80
    assert all(shown.count(f" {k}.{r}000 (10)") == 1 for k in range(9) for r in range(9))


def test_latex_has_no_character_that_it_lacks():
    assert latex(Table("", ("a", "b"), (("x…y", "1–2 ± 3 ≤ 4"),))).isascii()


def test_values_have_full_precision_and_columns_of_their_own():
    worth = Equivalent(2, -0.1, 4.123456, 1.0, 8.0, 0.95, 3.0, 5.0, "", True, True)
    evaluation = compared(["a", "b"], pool="b", equivalents={"a": worth})
    rows = list(csv.DictReader(io.StringIO(tables.as_csv(evaluation))))
    assert [row["kind"] for row in rows] == ["model"] * 4 + ["pair", "equivalent"]
    assert {"input": "b", "other": "a", "p_holm": "0.0002", "better": "a"}.items() <= rows[4].items()
    assert {"input": "a", "other": "b", "value": "4.123456", "members": "2"}.items() <= rows[5].items()
    assert rows[0]["temperature"] == "1.5"
    assert rows[2]["temperature"] == ""


def test_records_are_read_in_one_line():
    worth = Equivalent(2, -0.1, 4.123456, 1.0, 18.0, 0.95, 3.0, 5.0, "", True, True)
    assert repr(worth) == "2 members: scores as well as 4.1 of the pool (< 1.0 to > 18.0)"
    assert (
        repr(Equivalent(1, NAN, NAN, NAN, NAN, 0.95, NAN, NAN))
        == "1 member: scores as well as an undefined number of the pool"
    )
    told = "a − b by cll: 0.0500 (0.0490 to 0.0510), p < 0.001 after Holm: a is better"
    assert repr(pair("a", "b", 0.05)) == told
    assert repr(pair("a", "b", 0.0, p=0.5)).endswith("p 0.5000 after Holm: not significantly different")
    comparison = compared(["a", "b"]).comparison
    assert str(comparison).splitlines()[:2] == ["Ranked by cll", str(comparison.ranking[0])]
    assert str(comparison.ranking[0]).startswith("1 (1–2) a: -0.1000 (-0.1100 to -0.0900), best in 0.500")


# -------------------------------------------------------------------------------------------------- names
@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_odd_names_are_harmless_everywhere(name):
    names = [name, "second", "third"]
    evaluation = compared(names, pool=name, equivalents={"third": Equivalent(1, -0.1, 2, 1, 3, 0.95, 1, 3)})
    shown = str(evaluation)
    assert max(width(line) for table in comparison_tables(evaluation) for line in text(table).splitlines()) <= 80
    assert max(map(len, shown.splitlines())) <= 80
    assert len(shown) < 5000
    assert all(c.isprintable() or c == "\n" for c in shown)
    rows = list(csv.reader(io.StringIO(tables.as_csv(evaluation))))
    assert len({len(row) for row in rows}) == 1
    assert not any(cell.startswith(("=", "@", "\t", "\r")) for row in rows for cell in row)
    body = [line for line in as_latex(evaluation).splitlines() if line and not line.startswith("%")]
    assert not any(r"\input" in line for line in body)
    back = Evaluation.from_json(json.loads(json.dumps(evaluation.to_json())))
    assert str(back) == shown


@settings(max_examples=25, deadline=None)
@given(st.lists(st.text(max_size=60), min_size=2, max_size=4, unique=True))
def test_any_names_make_lines_that_fit(names):
    evaluation = compared(names)
    assert max(map(width, text(comparison_tables(evaluation)[0]).splitlines())) <= 80
