"""Distribution shift: box plots by severity over types (Ovadia et al. 2019, figure 2), pass rates of checks by severity
(Gopal 2021, figure 7), and the rank correlation of every metric with severity (Krishnan & Tickoo 2020)."""

from __future__ import annotations

import itertools
import math
from typing import Any

from calibrant.registry.lookup import with_role
from calibrant.render.checks import pass_rate_tables
from calibrant.render.evaluation import shift_tables
from calibrant.render.formatting import format_number
from calibrant.render.table import Table
from calibrant.reporting.charts.base import altair, base, chart, layered, tooltip
from calibrant.reporting.charts.line_charts import has_points, line_rows, lines_chart
from calibrant.reporting.charts.palette import INK, SERIES
from calibrant.reporting.document import Block, Choices, Control, Details, Figure, Section, TableBlock, present
from calibrant.reporting.labels import MAX_COLOURS, MAX_LABEL, distinct, first_of, label_with_direction, short
from calibrant.reporting.report_data import ReportData
from calibrant.results.check import INTERVAL, RANGE
from calibrant.results.pass_rates import PassTable
from calibrant.results.shift import QUARTILES, ShiftSummary

LEAD = "How do accuracy and calibration degrade under distribution shift?"
BOXES = (
    "Each box summarises the types of shift at one severity: quartiles, median, and whiskers from the lowest to the "
    "highest type. Dots are single types. Severity 0 is clean data."
)
CHECKS = (
    "Share of shift types for which the observed value is as expected, by assumption about the members (figure 7 of "
    "Gopal 2021). A model whose uncertainty grows with the shift keeps passing."
)
RULES = {INTERVAL: "within 95% of replicates", RANGE: "within all replicates"}
MAX_INPUTS, MAX_METRICS, MAX_COLUMNS, MAX_STATISTICS = MAX_COLOURS, 12, 8, 24
BOX, TYPE = "box", "type"


def section(report: ReportData) -> Section | None:
    """All inputs in common charts and tables."""
    every = [item for evaluation in report.evaluations for item in evaluation.shift]
    summaries = dict(zip(distinct((item.input for item in every), MAX_LABEL), every, strict=True))
    blocks: list[Block] = list(present((_boxes(summaries), pass_rate_figure(report))))
    if summaries:
        blocks += [TableBlock(spearman_table(summaries))]
    tables = [table for evaluation in report.evaluations for table in shift_tables(evaluation)]
    tables += [table for evaluation in report.evaluations for table in pass_rate_tables(evaluation)]
    blocks += [Details(f"Tables by severity ({len(tables)})", tuple(map(TableBlock, tables)))] if tables else []
    return Section("shift", "Distribution shift", tuple(blocks), LEAD) if blocks else None


# ------------------------------------------------------------------------------------------------------ boxes
def _boxes(summaries: dict[str, ShiftSummary]) -> Figure | None:
    """A row for each box, and one for each type in it, by metric."""
    every = list(dict.fromkeys(spec for summary in summaries.values() for spec in summary.specs))
    main = (*with_role("row_loss"), *with_role("main"))
    specs = sorted(every, key=lambda spec: main.index(spec) if spec in main else len(main))[:MAX_METRICS]
    shown = dict(list(summaries.items())[:MAX_INPUTS])
    keys = ("name", "place", "severity", "shift", "kind", "value", "types", "mean", *QUARTILES)
    data: Choices = {}
    for spec in specs:
        rows: list[dict[str, Any]] = []
        for place, (label, summary) in enumerate(shown.items()):
            for severity in summary.severities:
                cells = [c for c in summary.cells if c.severity == severity and spec in c.values]
                row = {"name": label, "place": place, "severity": severity}
                rows += [{**row, "kind": BOX, "shift": "all", **summary.at(spec, severity)}] if cells else []
                rows += [{**row, "kind": TYPE, "shift": short(c.shift), "value": c.values[spec]} for c in cells]
        if any(math.isfinite(row.get("value", math.nan)) for row in rows):
            data[(label_with_direction(spec),)] = {key: [row.get(key) for row in rows] for key in keys}
    if not data:
        return None
    several = len(shown) > 1
    cut = first_of(MAX_INPUTS, len(summaries), "inputs") + first_of(MAX_METRICS, len(every), "metrics")
    heads = {
        "severity": "severity", "shift": "type of shift", "value": "value", "types": "types", "mean": "mean",
        "min": "minimum", "q25": "lower quartile", "median": "median", "q75": "upper quartile", "max": "maximum",
    }  # fmt: skip
    return Figure(
        key="boxes",
        title="Metrics by shift severity",
        chart=boxes_chart(several),
        data=data,
        heads={"name": "input", **heads} if several else heads,
        description="Box plots of a metric over types of shift by severity",
        caption=BOXES + cut,
        controls=(Control("metric", tuple(key[0] for key in data)),),
    )


@chart
def boxes_chart(several: bool) -> Any:
    """Whiskers, boxes, medians, and types as dots; boxes of several inputs next to each other."""
    alt = altair()
    boxes, types = (base().transform_filter(f"datum.kind === '{kind}'") for kind in (BOX, TYPE))
    x = alt.X("severity:O", title="shift severity (0: clean)", axis=alt.Axis(labelAngle=0))
    free, bands = alt.Scale(zero=False), alt.Scale(type="band", padding=0.15)
    y = {name: alt.Y(f"{name}:Q", title="value", scale=free) for name in ("min", "q25", "median", "value")}
    offset = alt.XOffset("name:N", sort=None, bandPosition=0.5, scale=bands)
    where: dict[str, Any] = {"x": x} | ({"xOffset": offset} if several else {})
    wide = {"band": 1.0 if several else 0.6}
    legend = alt.Legend(columns=1) if several else None
    fill = alt.Fill("name:N", sort=None, title=None, scale=alt.Scale(range=SERIES), legend=legend)
    colour = alt.Color("place:N", sort=None, scale=alt.Scale(range=SERIES), legend=None)
    hover = tooltip(
        name__n="input", severity="severity", types__i="types", mean="mean", min="minimum", q25="lower quartile",
        median="median", q75="upper quartile", max="maximum",
    )  # fmt: skip
    whisker = boxes.mark_rule(strokeWidth=1.5).encode(**where, y=y["min"], y2="max:Q", color=colour)
    box = boxes.mark_bar(fillOpacity=0.45, width=wide).encode(
        **where, y=y["q25"], y2="q75:Q", fill=fill, tooltip=hover
    )  # fmt: skip
    median = boxes.mark_tick(color=INK, thickness=2.5, width=wide).encode(**where, y=y["median"], tooltip=hover)
    dot = types.mark_circle(size=22, opacity=0.75).encode(
        **where, y=y["value"], color=colour,
        tooltip=tooltip(name__n="input", shift__n="type", severity="severity", value="value"),
    )  # fmt: skip
    return layered(whisker, box, median, dot, height=320)


# --------------------------------------------------------------------------------------------------- Spearman
def spearman_table(summaries: dict[str, ShiftSummary]) -> Table:
    """ρ of every metric; for a single input also its values at the lowest and the highest severity."""
    shown = dict(list(summaries.items())[:MAX_COLUMNS])
    specs = list(dict.fromkeys(spec for summary in shown.values() for spec in summary.specs))
    over = next(iter(shown.values())).over
    more = f" · the first {MAX_COLUMNS} of {len(summaries)} inputs" if len(summaries) > MAX_COLUMNS else ""
    title = f"Spearman's ρ of severity and the {over} over types; +1: always rises, −1: always falls{more}"
    heads, rows = ["metric", *shown], []
    for spec in specs:
        values = [summary.rho(spec) if spec in summary.specs else math.nan for summary in shown.values()]
        rows.append([spec, *("" if math.isnan(rho) else f"{rho:+.3f}".replace("-", "−") for rho in values)])
    if len(shown) == 1:
        (summary,) = shown.values()
        ends = (summary.severities[0], summary.severities[-1])
        heads = ["metric", "ρ", *(f"at severity {s:g}" for s in ends)]
        rows = [[*row, *(format_number(summary.at(row[0], s)[over]) for s in ends)] for row in rows]
    return Table(title, tuple(heads), tuple(map(tuple, rows)))


# ------------------------------------------------------------------------------------------------- pass rates
def pass_rate_figure(report: ReportData) -> Figure | None:
    """Pass rates of checks by severity: a line for each input and assumption about the members."""
    every = [table for evaluation in report.evaluations for table in evaluation.passed][:MAX_COLOURS]
    several = len({table.input for table in every}) > 1
    names = (f"{table.input}, {table.members}" if several else table.members for table in every)
    tables = dict(zip(distinct(names, MAX_LABEL), every, strict=True))
    keys = list(dict.fromkeys(key for table in every for key in table.keys))
    chosen = [e.settings.get("rule") for e in report.evaluations if e.passed]
    rules = sorted(RULES, key=lambda rule: rule not in chosen[:1])

    def points(table: PassTable, key: str, rule: str) -> list[dict[str, Any]]:
        counts = ((severity, *table.passed(key, severity, rule)) for severity in table.severities)
        return [
            {"x": severity, "y": passed / known if known else None, "note": f"{passed} of {known}"}
            for severity, passed, known in counts
        ]

    data: Choices = {}
    for key, rule in itertools.product(keys[:MAX_STATISTICS], rules):
        columns = line_rows({name: points(table, key, rule) for name, table in tables.items()})
        if has_points(columns):
            data[key, RULES[rule]] = columns
    if not data:
        return None
    statistics, shown = (tuple(dict.fromkeys(option[k] for option in data)) for k in (0, 1))
    return Figure(
        key="passed",
        title="Pass rate of checks by shift severity",
        chart=lines_chart("severity", "pass rate", kind="ordered", share=True),
        data=data,
        heads={"name": "member assumption", "x": "severity", "y": "pass rate", "note": "types that pass"},
        description="The share of shift types that pass a check, by severity",
        caption=CHECKS + first_of(MAX_STATISTICS, len(keys), "statistics"),
        controls=(Control("statistic", statistics), Control("rule", shown)),
    )
