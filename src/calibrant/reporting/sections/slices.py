"""Groups of rows: the worst groups, which of them are significantly miscalibrated, and the curve of each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from calibrant.errors import plain
from calibrant.registry.estimate import Estimate
from calibrant.registry.lookup import find, with_role
from calibrant.render.evaluation import false_discovery_rate, group_table, verdict_error
from calibrant.reporting.charts.base import altair, base, chart, list_chart, names_axis, tooltip, value_labels
from calibrant.reporting.charts.palette import BLUE, GREY, INK, ORANGE, SOFT
from calibrant.reporting.document import Block, Choices, Columns, Control, Details, Figure, Section, TableBlock
from calibrant.reporting.estimates import estimate_columns, metric_of
from calibrant.reporting.labels import distinct
from calibrant.reporting.report_data import ReportData, ResultView, Subject, has_band, select_columns
from calibrant.reporting.sections.regression import PIT_HEADS, pit_chart
from calibrant.reporting.sections.reliability import HEADS as RELIABILITY_HEADS
from calibrant.reporting.sections.reliability import reliability_chart
from calibrant.results.evaluation import Group, Result

MAX_DRAWN = 30
"""Groups of a column in the chart."""
MAX_METRICS, FEWER_METRICS, MANY_INPUTS = 8, 4, 20
"""Metrics to select from, and fewer for many inputs, which keeps the page small."""
MAX_NAME = 28
"""Maximum characters of a name next to the chart."""
SIGNIFICANT, NOT_SIGNIFICANT, UNTESTED = "significant", "not significant", "not tested"
HEADS = {
    "name": "group", "n": "rows", "value": "value", "low": "interval from", "high": "interval to",
    "null_low": "if calibrated from", "null_high": "if calibrated to", "whole": "all rows",
    "standing": "miscalibration", "q_value": "q-value",
}  # fmt: skip
MAX_OPTIONS = 30
"""Groups whose curve can be selected."""
ALL = "all rows"
TEXTS = {
    "reliability": (
        "Reliability diagram by group",
        "Accuracy against mean confidence of bins, with the line of perfect calibration",
        "The reliability diagram of one group: points below the dashed line are overconfident.",
        " Shaded: the range of a calibrated model, which is wide for small groups.",
    ),
    "pit": (
        "PIT histogram by group",
        "Histogram of the probability integral transform",
        "The predicted CDF at the observed outcomes of one group. Flat: calibrated. U-shaped: overconfident. Hump- "
        "shaped: underconfident.",
        " Shaded: the range of a calibrated model.",
    ),
}
"""Title, description, caption and the sentence on the band of each kind of curve."""


def section(report: ReportData) -> Section | None:
    """A panel for each input with groups."""
    max_metrics = MAX_METRICS if len(report.subjects) <= MANY_INPUTS else FEWER_METRICS

    def blocks(subject: Subject) -> tuple[Block | None, ...]:
        view = subject.first_with(lambda result: any(group.metrics for group in result.groups))
        if view is None:
            return ()
        groups = [group for group in view.result.groups if group.metrics]
        columns = dict.fromkeys(group.by for group in groups)
        tables = tuple(TableBlock(group_table(view.evaluation, view.result, by)) for by in columns)
        details = Details(f"Table of all {len(groups)} groups", tables)
        return (_figure(view, groups, max_metrics), curves_figure(view.result, groups), details)

    panels = report.panels(blocks)
    return Section("slices", "Groups", panels, "Are accuracy and calibration equal across groups?") if panels else None


# ---------------------------------------------------------------------------------------------------------- chart
def _figure(view: ResultView, groups: Sequence[Group], max_metrics: int) -> Figure | None:
    """The worst groups, by column and by metric."""
    by = list(dict.fromkeys(group.by for group in groups))
    specs = _specs(view.result, groups)[:max_metrics]
    rate = false_discovery_rate(view.evaluation)
    data: Choices = {
        (label, spec): columns
        for label, column in zip(distinct(name.replace("|", "¦") for name in by), by, strict=True)
        for spec in specs
        if (columns := _columns(view.result, [group for group in groups if group.by == column], spec, rate))
    }
    if not data:
        return None
    largest = max(sum(group.by == column for group in groups) for column in by)
    few = f" Shows the {MAX_DRAWN} worst of {largest} groups." if largest > MAX_DRAWN else ""
    return Figure(
        key="groups",
        title="Worst groups",
        chart=groups_chart(),
        data=data,
        heads=HEADS,
        description="The value of each group with its interval, and the value of all rows",
        caption=(
            "Mark and line: value of a group and its interval. Vertical line: all rows. Grey bar, for calibration "
            "errors: the range of a calibrated model of this group size. Diamonds: significant after correction for "
            "the number "
            f"of groups (q < {rate:g}, Benjamini & Hochberg 1995). They come first, then the worst values, which small "
            f"groups may have by chance.{few}"
        ),
        controls=(
            Control("column", tuple(dict.fromkeys(key[0] for key in data))),
            Control("metric", tuple(spec for spec in specs if any(key[1] == spec for key in data))),
        ),
    )


def _specs(result: Result, groups: Sequence[Group]) -> list[str]:
    """The main metrics of groups, tested ones first; without any of them, all metrics."""
    known = list(dict.fromkeys(spec for group in groups for spec in group.metrics))
    names = dict.fromkeys((*with_role("group_column"), *with_role("main")))
    main = [spec for spec in names if spec in known]
    others = [spec for spec in known if spec.partition("(")[0] in names and spec not in main]
    tested = {spec for group in groups for spec, e in group.metrics.items() if math.isfinite(e.q_value)}
    first = verdict_error(result, tested)
    return list(dict.fromkeys([*([first] if first else []), *main, *others])) or known


def _columns(result: Result, groups: Sequence[Group], spec: str, rate: float) -> Columns:
    """The worst groups, significant ones first."""
    whole = result.metrics[spec].value if spec in result.metrics else math.nan
    known = [(g, e) for g in groups if (e := g.metrics.get(spec)) is not None and math.isfinite(e.value)]
    known.sort(key=lambda item: (not item[1].q_value < rate, -badness(spec, item[1], whole)))
    drawn = known[:MAX_DRAWN]
    if not drawn:
        return {}
    names = (plain(str(g.value), 10_000) or "(empty)" for g, _ in drawn)
    columns = estimate_columns(distinct(names, MAX_NAME), [e for _, e in drawn], bands=True)
    columns |= {"n": [g.n for g, _ in drawn], "whole": [whole] * len(drawn)}
    q_values = [e.q_value for _, e in drawn]
    tested = {True: SIGNIFICANT, False: NOT_SIGNIFICANT}
    columns["standing"] = [UNTESTED if math.isnan(q) else tested[q < rate] for q in q_values]
    columns["q_value"] = q_values
    return {name: values for name, values in columns.items() if any(x is not None and x == x for x in values)}


def badness(spec: str, e: Estimate, whole: float) -> float:
    """Larger is worse; for metrics without a better direction, the distance from the value of all rows."""
    direction = metric.direction if (metric := metric_of(spec)) is not None else "none"
    if direction == "none":
        return abs(e.value - whole) if math.isfinite(whole) else e.value
    return -e.value if direction == "higher" else e.value


@chart
def groups_chart() -> Any:
    """A row per group: the band of a calibrated model, the interval, and a mark whose shape shows significance."""
    alt = altair()
    y, x = names_axis(), alt.X("value:Q", title=None, scale=alt.Scale(zero=False))
    names, legend = [SIGNIFICANT, NOT_SIGNIFICANT, UNTESTED], alt.Legend(columns=2)
    colours = alt.Scale(domain=names, range=[ORANGE, BLUE, SOFT])
    colour = alt.Color("standing:N", title=None, scale=colours, legend=legend)
    shapes = alt.Scale(domain=names, range=["diamond", "circle", "square"])
    shape = alt.Shape("standing:N", title=None, scale=shapes, legend=legend)
    hover = tooltip(
        name__n="group", n__i="rows", value="value", low="interval from", high="interval to",
        null_low="if calibrated from", null_high="if calibrated to", whole="all rows", q_value="q-value",
    )  # fmt: skip
    band = base().mark_bar(color=GREY, opacity=0.4, height=12, cornerRadius=2, aria=False).encode(
        y=y, x=alt.X("null_low:Q", title=None), x2="null_high:Q", tooltip=hover
    )  # fmt: skip
    known = base().transform_filter("isValid(datum.whole)")
    whole = known.mark_rule(color=INK, strokeDash=[5, 4], aria=False).encode(x=alt.X("mean(whole):Q", title=None))
    lines = base().mark_rule(color=BLUE, strokeWidth=4, opacity=0.45, strokeCap="round", aria=False).encode(
        y=y, x=alt.X("low:Q", title=None), x2="high:Q", tooltip=hover
    )  # fmt: skip
    dots = base().mark_point(filled=True, size=70, opacity=1).encode(y=y, x=x, color=colour, shape=shape, tooltip=hover)
    return list_chart(value_labels(y), band, lines, whole, dots, step=24, right=64)


# ------------------------------------------------------------------------------------------------ curves
def curves_figure(result: Result, groups: Sequence[Group]) -> Figure | None:
    """The diagram of all rows and of the worst groups; None if no group has a curve."""
    kind = next((kind for kind in TEXTS if any(kind in group.curves for group in groups)), None)
    if kind is None:
        return None
    having = [group for group in groups if kind in group.curves]
    spec = _worst_by(having)
    losses = [(group, group.metrics.get(spec)) for group in having]
    losses.sort(key=lambda item: math.inf if item[1] is None or math.isnan(item[1].value) else -item[1].value)
    worst = [group for group, _ in losses[:MAX_OPTIONS]]
    names = distinct(f"{plain(group.by, 200)} = {plain(str(group.value), 200)}".replace("|", "¦") for group in worst)
    curves = {name: group.curves[kind] for name, group in zip(names, worst, strict=True)}
    if kind in result.curves:
        curves = {ALL: result.curves[kind]} | curves
    heads = RELIABILITY_HEADS if kind == "reliability" else PIT_HEADS
    title, description, caption, shaded = TEXTS[kind]
    few = f" Lists the {MAX_OPTIONS} worst of {len(having)} groups." if len(having) > MAX_OPTIONS else ""
    return Figure(
        key=f"{kind}-of-groups",
        title=title,
        chart=reliability_chart() if kind == "reliability" else pit_chart(len(next(iter(curves.values()))["lower"])),
        data={(name,): select_columns(curve, heads, "lower") for name, curve in curves.items()},
        heads=heads,
        description=description,
        caption=caption + shaded * has_band(curves.values()) + few,
        controls=(Control("group", tuple(curves)),),
    )


def _worst_by(groups: Sequence[Group]) -> str:
    """The loss that ranks groups: one that ranks rows, or else a proper score or any other loss that they have."""
    known = dict.fromkeys(spec for group in groups for spec in group.metrics)
    losses = [spec for spec in known if (metric := metric_of(spec)) is not None and metric.direction == "lower"]
    losses.sort(key=lambda spec: not find(spec.partition("(")[0]).proper)
    return next((spec for spec in (*with_role("row_loss"), *losses) if spec in known), "")
