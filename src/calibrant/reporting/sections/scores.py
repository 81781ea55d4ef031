"""All metrics of an input with their intervals, and their definitions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from calibrant.registry.comparison_scores import COMPARISON_SCORES
from calibrant.registry.lookup import metrics, with_role
from calibrant.render.evaluation import by_reason, main_table
from calibrant.render.formatting import count
from calibrant.render.references import facts_used
from calibrant.reporting.document import Block, Control, Definitions, Details, Figure, Section, TableBlock
from calibrant.reporting.estimates import intervals_chart, metric_of, spec_columns, split_by_scale
from calibrant.reporting.report_data import ReportData, Subject
from calibrant.results.evaluation import Result

MAX_OPEN = 14
"""Metrics of a table that is not collapsed."""
CAPTION = (
    "Dots: values. Lines: confidence intervals. ↓ lower is better, ↑ higher is better; metrics without an arrow have "
    "no better direction. Calibration errors have a section of their own."
)


def section(report: ReportData) -> Section | None:
    """A chart and a table for each input, and the definitions of metrics."""
    panels = report.panels(_blocks)
    if not panels:
        return None
    lead = "How good are the predictions, and how precise are the estimates?"
    specs = (spec for s in report.subjects for v in s.views for spec in (*v.result.metrics, *v.result.checks))
    items = definitions_of(specs)
    facts = dict.fromkeys(name for evaluation in report.evaluations for name in facts_used(evaluation))
    scores = (COMPARISON_SCORES[name] for name in facts)
    items += tuple((score.title, f"{score.definition} Reference: {score.reference}.") for score in scores)
    glossary = (Details("Definitions of metrics", (Definitions(items),)),) if items else ()
    return Section("scores", "Metrics", (*panels, *glossary), lead)


def _blocks(subject: Subject) -> list[Block | None]:
    """The chart, a table of all metrics, or if there are many of the main ones, and what was skipped."""
    view = subject.metrics_view
    if view is None or not view.result.metrics:
        return []
    result, skipped = view.result, view.result.skipped
    whole = main_table(view.evaluation, result)
    blocks: list[Block | None] = [_figure(result)]
    main = {spec: e for spec, e in result.metrics.items() if spec in with_role("main")}
    if len(result.metrics) <= MAX_OPEN or not main:
        blocks += [TableBlock(whole)]
    else:
        every = TableBlock(replace(whole, title=f"{whole.title} · all metrics"))
        first = TableBlock(main_table(view.evaluation, replace(result, metrics=main)))
        blocks += [first, Details(f"All {len(result.metrics)} metrics", (every,))]
    items = tuple((", ".join(names), f"Skipped: {reason}.") for reason, names in by_reason(skipped).items())
    return blocks + ([Details(count(len(skipped), "skipped metric"), (Definitions(items),))] if items else [])


# -------------------------------------------------------------------------------------------------------- chart
def _figure(result: Result) -> Figure | None:
    """One axis for each group of metrics of similar size."""
    known = {spec: metric for spec, e in result.metrics.items() if e.method != "none" and (metric := metric_of(spec))}
    groups: dict[str, list[str]] = {}
    for axis in dict.fromkeys(metric.axis for metric in metrics().values() if metric.axis):
        specs = [spec for spec, metric in known.items() if metric.axis == axis and not metric.has_null_band]
        groups |= split_by_scale(axis, specs, result.metrics)
    if not groups:
        return None
    return Figure(
        key="intervals",
        title="Metrics with intervals",
        chart=intervals_chart("metric", True),
        data={(option,): spec_columns(result, specs) for option, specs in groups.items()},
        heads={
            "name": "metric", "title": "meaning", "value": "value", "low": "interval from", "high": "interval to",
            "n": "rows",
        },
        description="The value of each metric with its interval",
        caption=CAPTION,
        controls=(Control("metrics", tuple(groups)),),
    )  # fmt: skip


# ----------------------------------------------------------------------------------------------------- glossary
def definitions_of(specs: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Definition, bias and reference of metrics, in order."""
    known = {metric.name: metric for spec in specs if (metric := metric_of(spec)) is not None}
    return tuple(
        (f"{m.title} ({m.name})", " ".join(filter(None, (m.definition, m.bias, f"Reference: {m.reference}."))))
        for m in known.values()
    )
