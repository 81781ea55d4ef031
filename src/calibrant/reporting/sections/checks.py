"""Posterior predictive checks as box plots with the observed values.

As in figures 5 and 6 of Gopal (2021): the box is the interquartile range of the replicates, whiskers are the 5% and 95%
quantiles, the bar is the median, and a thin line is the range of all replicates.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from calibrant.render.checks import check_tables, temperature_lines
from calibrant.render.verdicts.check_sentences import NEITHER, describe_check
from calibrant.reporting import document as doc
from calibrant.reporting.charts.base import altair, base, chart, layered, tooltip
from calibrant.reporting.charts.palette import BLUE, GREEN, GREY, INK, ORANGE, SOFT
from calibrant.reporting.document import Block, Choices, Columns, Figure, Section
from calibrant.reporting.labels import as_sentence, distinct, first_of
from calibrant.reporting.report_data import ReportData, ResultView, Subject
from calibrant.results.check import AS_EXPECTED, HIGHER, INDEPENDENT, LOWER, UNKNOWN, Check

LEAD = "Are the observed values plausible under the model?"
MAX_FIGURES = 6
"""Statistics with a figure each; more of them share one figure with a control."""
MAX_OPEN = 12
"""Rows of a table that is not collapsed."""
ENDS = ("min", "q05", "q25", "q50", "q75", "q95", "max", "observed")
"""Fields that must be finite for a check to be drawn."""
HEADS = {
    "name": "", "finding": "finding", "observed": "observed", "q025": "expected 2.5%", "q05": "expected 5%",
    "q25": "expected 25%", "q50": "expected median", "q75": "expected 75%", "q95": "expected 95%",
    "q975": "expected 97.5%", "min": "expected minimum", "max": "expected maximum", "test_p": "p-value",
}  # fmt: skip
LEGEND = (
    "Box: interquartile range expected by the model. Bar: median. Whiskers: 5% to 95%. Thin line: all replicates. "
    "Cross: observed value."
)
FINDINGS = {
    AS_EXPECTED: "as expected", LOWER: "lower than expected", HIGHER: "higher than expected", UNKNOWN: "undefined",
}  # fmt: skip
STEP = 42
MAX_BOXES = 24
JOINT = " · "
"""Separates a name from its finding, which are two lines of the axis label."""


def section(report: ReportData) -> Section | None:
    """A panel for each checked input, and a comparison of inputs if there are several."""
    views = {subject.name: subject.checks_view for subject in report.subjects if subject.checks_view is not None}
    compared: tuple[Block, ...] = ()
    if len(views) > 1:
        known = [_by_assumption(view) for view in views.values()]
        assumptions = dict.fromkeys(name for each in known for name in each)
        checks = {name: [each.get(name, {}) for each in known] for name in assumptions}
        rule = str(next(iter(views.values())).evaluation.settings["rule"])
        figure = _comparison(checks, distinct(views, 32), rule, "inputs", "Comparison of inputs", "input")
        compared = doc.present([figure])

    def blocks(subject: Subject) -> Iterator[Block | None]:
        if subject.checks_view is not None:
            yield doc.Heading(subject.name) if compared else None
            for view in subject.check_views():
                yield from _blocks(view)

    panels = report.panels(blocks)
    return Section("checks", "Posterior predictive checks", (*compared, *panels), LEAD) if panels else None


def _blocks(view: ResultView) -> Iterator[Block | None]:
    """Conclusions, one figure per statistic or one for all, figures by group, and tables."""
    result, checks, rule = view.result, view.result.checks, str(view.evaluation.settings["rule"])
    drawn = [key for key in checks if len(checks) <= MAX_FIGURES and can_be_drawn(checks[key])]
    by_assumption = _by_assumption(view)
    facts = next((item for item in view.evaluation.inputs if item["name"] == result.input), {})
    sentences = {
        key: as_sentence(describe_check(key, check, rule).removeprefix(f"{key}: ")) for key, check in checks.items()
    }

    def rows(key: str) -> list[tuple[str, Check]]:
        """The checks of a statistic by assumption about the members, which does not matter for a single member."""
        known = {name: each[key] for name, each in by_assumption.items() if key in each}
        single = len(known) == 1 and facts.get("members") == 1
        return [("the model" if single else name, check) for name, check in known.items()]

    points = []
    for key, check in checks.items():
        if key not in drawn:
            tone = {None: "neutral", False: "bad", True: "warn" if check.between else "good"}[check.passed(rule)]
            points.append((tone, key, sentences[key]))
    for line in result.reading[len(checks) :]:
        if line == result.reading[-1] and result.supported is not None:
            tone = "bad" if result.supported == NEITHER else "good"
            points.append((tone, "Member assumption", as_sentence(line)))
        else:
            points.append(("neutral", "Calibration error alone", as_sentence(line)))
    points += [("neutral", "Temperatures", as_sentence(line)) for line in temperature_lines(view.evaluation, result)]
    yield doc.Points(tuple(points)) if points else None
    yield doc.Text((LEGEND,), note=True) if drawn else None
    if len(checks) > MAX_FIGURES:
        labels = zip(checks, distinct(checks), strict=True)
        data: Choices = {(label,): box_columns(rows(key), rule) for key, label in labels}
        yield Figure(
            key="statistics",
            title="Expected and observed values",
            chart=box_chart(max_boxes(data.values())),
            data=data,
            heads=HEADS | {"name": "member assumption"},
            description="Box plots of a statistic under the model, with a cross at the observed value",
            caption=LEGEND,
            controls=(doc.Control("statistic", tuple(label for (label,) in data)),),
        )
    for place, key in enumerate(drawn, 1):
        columns = box_columns(rows(key), rule)
        yield Figure(
            key=f"statistic-{place}",
            title=key,
            chart=box_chart(max_boxes([columns])),
            data={(): columns},
            heads=HEADS | {"name": "member assumption"},
            description="; ".join(f"{name}: {describe_check(key, check, rule)}" for name, check in rows(key)),
            caption=f"{sentences[key]}.",
        )
    for place, by in enumerate(dict.fromkeys(group.by for group in result.groups if group.checks), 1):
        groups = [group for group in result.groups if group.by == by]
        names = distinct((group.value for group in groups), 24)
        first, *others = by_assumption
        known = {first: [group.checks for group in groups]}
        known |= {name: [group.independent for group in groups] for name in others}
        yield _comparison(known, names, rule, f"groups-{place}", f"By {by}", "group")
    for table in check_tables(view.evaluation, result):
        block = doc.TableBlock(table)
        yield block if len(table.rows) <= MAX_OPEN else doc.Details(f"Table {table.title}", (block,))


def _by_assumption(view: ResultView) -> Mapping[str, Mapping[str, Check]]:
    """The checks by assumption about the members."""
    first = "independent" if view.evaluation.settings["members"] == INDEPENDENT else "Bayesian"
    independent = view.result.independent
    return {first: view.result.checks} | ({"independent": independent} if independent else {})


def _comparison(
    checks: Mapping[str, list[Mapping[str, Check]]], names: list[str], rule: str, key: str, title: str, noun: str
) -> Figure | None:
    """A figure with a row for each name; `checks` has those of all names by assumption about the members."""
    data: Choices = {}
    for assumption, every in checks.items():
        statistics = list(dict.fromkeys(statistic for known in every for statistic in known))
        for statistic, label in zip(statistics, distinct(statistics), strict=True):
            rows = [(name, known[statistic]) for name, known in zip(names, every, strict=True) if statistic in known]
            if len(rows) > 1 and any(can_be_drawn(check) for _, check in rows):
                data[label, assumption] = box_columns(rows, rule)
    if not data:
        return None
    statistics, assumptions = (list(dict.fromkeys(option[k] for option in data)) for k in (0, 1))
    return Figure(
        key=key,
        title=title,
        chart=box_chart(max_boxes(data.values())),
        data=data,
        heads=HEADS | {"name": noun},
        description=f"Box plots of a statistic under the model for each {noun}, with crosses at the observed values",
        caption=LEGEND + first_of(MAX_BOXES, len(names), f"{noun}s"),
        controls=(doc.Control("statistic", tuple(statistics)), doc.Control("member assumption", tuple(assumptions))),
    )


# ------------------------------------------------------------------------------------------------------ box plots
def can_be_drawn(check: Check) -> bool:
    """Whether all numbers of the box are finite."""
    return all(math.isfinite(getattr(check, end)) for end in ENDS)


def box_columns(named: Iterable[tuple[str, Check]], rule: str) -> Columns:
    """One row per check; of many the first are drawn, and the data have all of them."""
    rows: list[Mapping[str, Any]] = []
    for name, check in named:
        finding = FINDINGS[check.surprise(rule)]
        numbers = {key: getattr(check, key) for key in HEADS if key not in ("name", "finding")}
        drawn = can_be_drawn(check) and sum(row["drawn"] for row in rows) < MAX_BOXES
        rows.append({"name": name, "finding": finding, "label": f"{name}{JOINT}{finding}", "drawn": drawn} | numbers)
    return {key: [row[key] for row in rows] for key in rows[0]} if rows else {}


def max_boxes(data: Iterable[Columns]) -> int:
    """The largest number of boxes in one chart."""
    return max((sum(columns["drawn"]) for columns in data), default=1)


@chart
def box_chart(rows: int) -> Any:
    """One box per row."""
    alt = altair()
    cut = f"lastindexof(datum.value, '{JOINT}')"
    lines = f"[slice(datum.value, 0, {cut}), slice(datum.value, {cut} + {len(JOINT)})]"
    size = {"labelLimit": 150, "labelLineHeight": 14, "labelOffset": -6}
    axis = alt.Axis(title=None, labelExpr=lines, grid=False, ticks=False, **size)
    y = alt.Y("label:N", sort=None, axis=axis)
    drawn = base().transform_filter("datum.drawn")

    def x(field: str) -> Any:
        return alt.X(
            f"{field}:Q", scale=alt.Scale(zero=False, nice=False, padding=14), axis=alt.Axis(title=None, tickCount=6)
        )

    every = drawn.mark_rule(color=SOFT, strokeWidth=1).encode(x=x("min"), x2="max:Q", y=y)
    whiskers = drawn.mark_rule(color=BLUE, strokeWidth=2).encode(x=x("q05"), x2="q95:Q", y=y)
    ends = [drawn.mark_tick(color=BLUE, thickness=2, size=12).encode(x=x(end), y=y) for end in ("q05", "q95")]
    box = drawn.mark_bar(color=BLUE, fillOpacity=0.35, stroke=BLUE, strokeWidth=1, size=20).encode(
        x=x("q25"), x2="q75:Q", y=y
    )
    median = drawn.mark_tick(color=INK, thickness=2.5, size=20).encode(x=x("q50"), y=y)
    colours = alt.Scale(domain=list(FINDINGS.values()), range=[GREEN, ORANGE, ORANGE, GREY])  # repeats the axis label
    shown = ("observed", "q025", "q25", "q50", "q75", "q975", "min", "max", "test_p")
    hover = tooltip(name__n="name", finding__n="finding", **{name: HEADS[name] for name in shown})
    cross = drawn.mark_point(
        shape="M-1,-1L1,1M-1,1L1,-1", size=110, strokeWidth=3, filled=False, opacity=1
    ).encode(x=x("observed"), y=y, color=alt.Color("finding:N", scale=colours, legend=None), tooltip=hover)  # fmt: skip
    return layered(every, whiskers, *ends, box, median, cross, height=STEP * rows)
