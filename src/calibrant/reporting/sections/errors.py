"""Calibration errors of an input: each beside what a calibrated model would give, and what is known against it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from calibrant.evaluation.caveats import ABOUT, caveats, detectable, is_about
from calibrant.evaluation.ladder_tables import ladder_lines, links_table
from calibrant.evaluation.rendering import Table
from calibrant.evaluation.result import Result
from calibrant.evaluation.wording import number, span
from calibrant.registry.estimate import Estimate
from calibrant.reporting.charting import altair, base, chart, listed, names_axis, tips, values_beside
from calibrant.reporting.document import (
    Block,
    Columns,
    Control,
    Definitions,
    Figure,
    Fold,
    Heading,
    Panel,
    Section,
    Shown,
    Text,
)
from calibrant.reporting.estimates import (
    band_of,
    called,
    estimate_columns,
    family_of,
    metric_of,
    on_one_axis,
    titled,
)
from calibrant.reporting.gathering import Found, Gathered, Subject
from calibrant.reporting.palette import BLUE, GREY, ORANGE, SOFT

LADDER = "the ladder, from √BS down to ECE"
KINDS = {
    "of the confidence": (1, 3),
    "of all classes": (2,),
    "of the distribution": (9,),
}
"""What the chart shows together, by families of the registry."""
WIDEST = 8.0
"""By what factor errors on one axis may differ, whose bands must be seen."""
TESTED = (1, 2, 3, 9)
"""Families whose metrics are in the table."""
ABOVE, WITHIN, BELOW, UNKNOWN = "above the band", "in the band", "below the band", "no band"
CAPTION = (
    "Mark: the error that was measured. Grey bar: where those of a calibrated model lie, which are not zero with so "
    "many rows and no more. A mark to the right of its bar is more than chance explains. Blue line: the interval of "
    "the true error; where the measured one is biased upwards, its mark may lie beyond the line."
)
HEADS = {
    "name": "calibration error",
    "title": "meaning",
    "value": "measured",
    "low": "true error from",
    "high": "to",
    "null_low": "calibrated: from",
    "null_high": "calibrated: to",
    "standing": "standing",
    "p_value": "p-value",
    "n": "rows",
}


def section(gathered: Gathered) -> Section | None:
    """A panel for each input that has calibration errors."""
    panels = [
        Panel(k, found)
        for k, subject in enumerate(gathered.subjects)
        if (found := tuple(block for each in _speaking(subject) for block in _blocks(each)))
    ]
    if not panels:
        return None
    lead = "How far from calibrated is it, and how far would a calibrated model seem to be?"
    known = [found.result for subject in gathered.subjects for found in _speaking(subject)]
    return Section("errors", "Calibration errors", (*panels, *_biases(known)), lead)


def _speaking(subject: Subject) -> tuple[Found, ...]:
    """The result with its metrics, and the one with its ladder where that is another."""
    found = (subject.scored, subject.having(lambda result: result.ladder))
    return tuple({id(each): each for each in found if each is not None}.values())


def _blocks(found: Found) -> tuple[Block, ...]:
    tested = [spec for spec in found.result.metrics if _is_tested(spec)]
    if not tested:
        return ()
    figure = _figure(found.result)
    told = tuple(f"{line.replace('`', '')}." for line in (*detectable(found.result), *caveats(found.result)))
    drawn: tuple[Block, ...] = () if figure is None else (figure,)
    notes: tuple[Block, ...] = (Text(told, note=True),) if told else ()
    table = Shown(_table(found, tested))
    return (*drawn, Fold("All of them as a table, with p-values", (table,)), *notes, *_ladder(found.result))


def _is_tested(spec: str) -> bool:
    metric = metric_of(spec)
    return metric is not None and family_of(spec) in TESTED and (metric.redraws or not metric.comparable)


def _is_error(spec: str) -> bool:
    """Whether it is an error, which is zero for a calibrated model in the limit, and no statistic of a test."""
    metric = metric_of(spec)
    return metric is not None and metric.redraws and metric.direction == "lower" and metric.name != "hosmer_lemeshow"


# ---------------------------------------------------------------------------------------------------------- chart
def _figure(result: Result) -> Figure | None:
    groups: dict[str, list[str]] = {}
    if result.ladder is not None and len(result.ladder.rungs) > 1:
        groups[LADDER] = [rung.spec for rung in result.ladder.rungs]
    for kind, families in KINDS.items():
        specs = [spec for spec in result.metrics if family_of(spec) in families and _is_error(spec)]
        groups |= on_one_axis(kind, specs, result.metrics, WIDEST)
    if not groups:
        return None
    return Figure(
        key="errors",
        title="Errors beside those of a calibrated model",
        chart=errors_chart(),
        data={(option,): _columns(result, specs) for option, specs in groups.items()},
        heads=HEADS,
        said="The measured calibration errors, the band of a calibrated model, and the interval of the true error",
        caption=CAPTION,
        controls=(Control("errors", tuple(groups)),),
    )


def _columns(result: Result, specs: list[str]) -> Columns:
    estimates = [result.metrics[spec] for spec in specs]
    bands = [band_of(e) for e in estimates]
    made = estimate_columns([called(spec, result.metrics[spec]) for spec in specs], estimates)
    return made | {
        "title": [titled(spec) for spec in specs],
        "null_low": [low for low, _ in bands],
        "null_high": [high for _, high in bands],
        "standing": [standing(e) for e in estimates],
        "p_value": [e.p_value for e in estimates],
    }


def standing(e: Estimate) -> str:
    """Where the value lies beside the band of a calibrated model."""
    low, high = band_of(e)
    if low is None or high is None or math.isnan(e.value):
        return UNKNOWN
    return ABOVE if e.value > high else BELOW if e.value < low else WITHIN


@chart
def errors_chart() -> Any:
    """A row each: the band as a bar, the value as a mark whose shape says how it stands, the interval below."""
    alt = altair()
    y = names_axis()
    x = alt.X("value:Q", title="calibration error", scale=alt.Scale(zero=True))
    names = [ABOVE, WITHIN, BELOW, UNKNOWN]
    legend, shapes = alt.Legend(columns=2), ["diamond", "circle", "triangle-left", "square"]
    colours = alt.Scale(domain=names, range=[ORANGE, BLUE, BLUE, SOFT])
    colour = alt.Color("standing:N", title=None, scale=colours, legend=legend)
    shape = alt.Shape("standing:N", title=None, scale=alt.Scale(domain=names, range=shapes), legend=legend)
    hover = tips(
        title__n="error", value="measured", low="true error from", high="to", null_low="calibrated: from",
        null_high="calibrated: to", p_value="p-value", n__i="rows",
    )  # fmt: skip
    band = base().mark_bar(color=GREY, opacity=0.4, height=14, cornerRadius=2, aria=False).encode(
        y=y, x=alt.X("null_low:Q", title="calibration error"), x2="null_high:Q", tooltip=hover
    )  # fmt: skip
    line = base().mark_rule(color=BLUE, strokeWidth=2.5, yOffset=10, aria=False).encode(
        y=y, x=alt.X("low:Q", title="calibration error"), x2="high:Q", tooltip=hover
    )  # fmt: skip
    dots = base().mark_point(filled=True, size=90, opacity=1).encode(y=y, x=x, color=colour, shape=shape, tooltip=hover)
    return listed(values_beside(y), band, line, dots, step=30, beside=64)


# --------------------------------------------------------------------------------------------------------- tables
def _table(found: Found, specs: Iterable[str]) -> Table:
    """Everything that is known of each error."""
    percent = f"{100 * float(found.evaluation.settings['level']):g} % interval"
    heads = ("metric", "value", percent, "if calibrated", "p-value", "would be seen")
    rows = []
    for spec in specs:
        e = found.result.metrics[spec]
        interval = span(e.low, e.high) + ABOUT * is_about(e)
        rest = (number(x) if math.isfinite(x) else "" for x in (e.p_value, e.detectable))
        rows.append((called(spec), number(e.value), interval, span(e.null_low, e.null_high), *rest))
    title = "p-value: how often a calibrated model would give as much; would be seen: in four of five cases"
    return Table(title, heads, tuple(rows))


def _ladder(result: Result) -> tuple[Block, ...]:
    """What holds between the errors, and what zero would mean."""
    if result.ladder is None or not result.ladder.rungs:
        return ()
    symbols = ", ".join(f"{rung.symbol} is {rung.spec}" for rung in result.ladder.rungs)
    lines = (f"{symbols}.", *(f"{line}." for line in ladder_lines(result.ladder)))
    links = (Shown(links_table("", result.ladder)),) if result.ladder.standings else ()
    return (Heading("The ladder of calibration errors"), *links, Text(lines, note=True))


def _biases(results: Iterable[Result]) -> tuple[Block, ...]:
    """What the registry knows against each error."""
    names = dict.fromkeys(spec.partition("(")[0] for result in results for spec in result.metrics if _is_tested(spec))
    known = [metric for name in names if (metric := metric_of(name)) is not None and metric.bias]
    items = tuple((f"{metric.title} ({metric.name})", metric.bias) for metric in known)
    return (Fold("What is known against each of them", (Definitions(items),)),) if items else ()
