"""Calibration errors of an input: values, the range expected of a calibrated model, and known biases."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from calibrant.registry.estimate import Estimate
from calibrant.render import evaluation as tables
from calibrant.render.formatting import format_interval, format_level, format_number
from calibrant.render.table import Table
from calibrant.reporting import document as doc
from calibrant.reporting.charts.base import altair, base, chart, list_chart, names_axis, tooltip, value_labels
from calibrant.reporting.charts.palette import BLUE, GREY, ORANGE, SOFT
from calibrant.reporting.document import Block, Columns, Figure, Section, TableBlock, Text
from calibrant.reporting.estimates import finite_band, metric_of, spec_columns, spec_label, split_by_scale
from calibrant.reporting.report_data import ReportData, ResultView, Subject
from calibrant.results.evaluation import Result

LADDER = "hierarchy, from √BS down to ECE"
KINDS = {"confidence": "top label", "all classes": "all classes", "distribution": "predictive distribution"}
"""Groups of errors in the chart, by axes of the registry."""
MAX_RATIO = 8.0
"""The largest ratio of errors on one axis, on which all bands must be visible."""
TESTED = ("calibration errors", "multiclass calibration errors", "calibration tests", "regression calibration")
"""Families of the metrics in the table."""
ABOVE, WITHIN, BELOW, UNKNOWN = "above the range", "within the range", "below the range", "no range"
CAPTION = (
    "Mark: the estimated error. Grey bar: the range of a calibrated model at this sample size, which is not zero. A "
    "mark to the right of its bar is evidence of miscalibration. Blue line: the interval of the true error; an "
    "estimate that is biased upwards may lie outside of it."
)
HEADS = {
    "name": "calibration error", "title": "meaning", "value": "estimate", "low": "true error from",
    "high": "true error to", "null_low": "if calibrated from", "null_high": "if calibrated to",
    "standing": "vs calibrated range", "p_value": "p-value", "n": "rows",
}  # fmt: skip


def section(report: ReportData) -> Section | None:
    """A panel for each input that has calibration errors, and the biases of all errors."""
    panels = report.panels(lambda subject: tuple(block for view in _views(subject) for block in _blocks(view)))
    if not panels:
        return None
    specs = (spec for subject in report.subjects for view in _views(subject) for spec in view.result.metrics)
    known = [metric_of(name) for name in dict.fromkeys(spec.partition("(")[0] for spec in specs if _is_tested(spec))]
    biases = tuple((f"{metric.title} ({metric.name})", metric.bias) for metric in known if metric and metric.bias)
    details = (doc.Details("Known biases of these errors", (doc.Definitions(biases),)),) if biases else ()
    lead = "How large are the calibration errors, and how much of that is expected by chance?"
    return Section("errors", "Calibration errors", (*panels, *details), lead)


def _views(subject: Subject) -> tuple[ResultView, ...]:
    """The result with the metrics, and the one with the error hierarchy if that is another."""
    views = (subject.metrics_view, subject.first_with(lambda result: result.ladder))
    return tuple({id(view): view for view in views if view is not None}.values())


def _blocks(view: ResultView) -> tuple[Block, ...]:
    """Chart, table, caveats, and the relations between errors with what zero would mean."""
    result, ladder = view.result, view.result.ladder
    tested = [spec for spec in result.metrics if _is_tested(spec)]
    if not tested:
        return ()
    figure = _figure(result)
    blocks: list[Block] = [] if figure is None else [figure]
    blocks += [doc.Details("Table with p-values", (TableBlock(_table(view, tested)),))]
    notes = tuple(f"{line.replace('`', '')}." for line in (*tables.power_note(result), *tables.caveats(result)))
    blocks += [Text(notes, note=True)] if notes else []
    if ladder is not None and ladder.rungs:
        blocks += [doc.Heading("Error hierarchy")]
        blocks += [TableBlock(tables.hierarchy_table("", ladder))] if ladder.standings else []
        symbols = ", ".join(f"{rung.symbol} is {rung.spec}" for rung in ladder.rungs)
        blocks += [Text((f"{symbols}.", *(f"{line}." for line in tables.hierarchy_lines(ladder))), note=True)]
    return tuple(blocks)


def _is_tested(spec: str) -> bool:
    metric = metric_of(spec)
    return metric is not None and metric.family in TESTED and (metric.has_null_band or not metric.comparable)


# ---------------------------------------------------------------------------------------------------------- chart
def _figure(result: Result) -> Figure | None:
    groups: dict[str, list[str]] = {}
    if result.ladder is not None and len(result.ladder.rungs) > 1:
        groups[LADDER] = [rung.spec for rung in result.ladder.rungs]
    known = {spec: metric for spec in result.metrics if (metric := metric_of(spec)) is not None}
    errors = {spec: metric for spec, metric in known.items() if metric.is_calibration_error}
    for axis, kind in KINDS.items():
        specs = [spec for spec, metric in errors.items() if metric.axis == axis]
        groups |= split_by_scale(kind, specs, result.metrics, MAX_RATIO)
    if not groups:
        return None

    def columns(specs: list[str]) -> Columns:
        estimates = [result.metrics[spec] for spec in specs]
        more: Columns = {"standing": list(map(standing, estimates)), "p_value": [e.p_value for e in estimates]}
        return {**spec_columns(result, specs, bands=True), **more}

    return Figure(
        key="errors",
        title="Calibration errors and the range of a calibrated model",
        chart=errors_chart(),
        data={(option,): columns(specs) for option, specs in groups.items()},
        heads=HEADS,
        description="Calibration errors with their intervals and the range expected of a calibrated model",
        caption=CAPTION,
        controls=(doc.Control("errors", tuple(groups)),),
    )


def standing(e: Estimate) -> str:
    """Whether the value lies above, within or below the range of a calibrated model."""
    low, high = finite_band(e)
    if low is None or high is None or math.isnan(e.value):
        return UNKNOWN
    return ABOVE if e.value > high else BELOW if e.value < low else WITHIN


@chart
def errors_chart() -> Any:
    """A row per error: the band as a bar, the value as a mark whose shape shows its standing, the interval below."""
    alt = altair()
    y = names_axis()
    x = alt.X("value:Q", title="calibration error", scale=alt.Scale(zero=True))
    names = [ABOVE, WITHIN, BELOW, UNKNOWN]
    legend, shapes = alt.Legend(columns=2), ["diamond", "circle", "triangle-left", "square"]
    colours = alt.Scale(domain=names, range=[ORANGE, BLUE, BLUE, SOFT])
    colour = alt.Color("standing:N", title=None, scale=colours, legend=legend)
    shape = alt.Shape("standing:N", title=None, scale=alt.Scale(domain=names, range=shapes), legend=legend)
    hover = tooltip(
        title__n="error", value="estimate", low="true error from", high="true error to", null_low="if calibrated from",
        null_high="if calibrated to", p_value="p-value", n__i="rows",
    )  # fmt: skip
    band = base().mark_bar(color=GREY, opacity=0.4, height=14, cornerRadius=2, aria=False).encode(
        y=y, x=alt.X("null_low:Q", title="calibration error"), x2="null_high:Q", tooltip=hover
    )  # fmt: skip
    line = base().mark_rule(color=BLUE, strokeWidth=2.5, yOffset=10, aria=False).encode(
        y=y, x=alt.X("low:Q", title="calibration error"), x2="high:Q", tooltip=hover
    )  # fmt: skip
    dots = base().mark_point(filled=True, size=90, opacity=1).encode(y=y, x=x, color=colour, shape=shape, tooltip=hover)
    return list_chart(value_labels(y), band, line, dots, step=30, right=64)


# --------------------------------------------------------------------------------------------------------- tables
def _table(view: ResultView, specs: Iterable[str]) -> Table:
    """Value, interval, null band, p-value and power of each error."""
    interval_head = format_level(float(view.evaluation.settings["level"]))
    heads = ("metric", "value", interval_head, "if calibrated", "p-value", "detectable")
    rows = []
    for spec in specs:
        e = view.result.metrics[spec]
        interval = format_interval(e.low, e.high) + tables.APPROXIMATE_MARK * tables.is_approximate(e)
        rest = (format_number(x) if math.isfinite(x) else "" for x in (e.p_value, e.detectable))
        band = format_interval(e.null_low, e.null_high)
        rows.append((spec_label(spec), format_number(e.value), interval, band, *rest))
    title = "p-value: two-sided, small is evidence of miscalibration; detectable: the true error with 80% power"
    return Table(title, heads, tuple(rows))
