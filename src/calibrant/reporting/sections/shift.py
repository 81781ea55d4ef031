"""Under shift: box plots by severity over types (Ovadia et al. 2019, figure 2), checks passed by severity (Gopal 2021,
figure 7), and the rank correlation of every metric with severity (Krishnan & Tickoo 2020)."""

from __future__ import annotations

import math
from typing import Any

from calibrant.evaluation.check_tables import pass_tables
from calibrant.evaluation.rendering import Table
from calibrant.evaluation.shift import QUARTILES, Summary
from calibrant.evaluation.tables import shift_tables
from calibrant.evaluation.wording import number
from calibrant.reporting.charting import altair, base, chart, layered, tips
from calibrant.reporting.document import Block, Columns, Control, Figure, Fold, Section, Shown
from calibrant.reporting.gathering import Gathered
from calibrant.reporting.naming import short
from calibrant.reporting.palette import INK, SERIES
from calibrant.reporting.sections.naming import COLOURS, directed, first_of, labels
from calibrant.reporting.sections.shift_checks import passed_figure

LEAD = "What becomes of the model when the data is not what it was trained for?"
BOXES = (
    "Each box is over the types of shift at a severity: from the lower to the upper quartile, the median across it, "
    "the whiskers from the lowest to the highest type. Dots are the types; severity 0 is clean data."
)
MOST_INPUTS, MOST_METRICS, MOST_COLUMNS = COLOURS, 12, 8
BOX, TYPE = "box", "type"
MAIN = ("nll", "accuracy", "ece", "brier", "crps", "mse")
"""The metrics that controls name first."""


def section(gathered: Gathered) -> Section | None:
    """All inputs together: boxes of several models stand beside each other."""
    summaries = _summaries(gathered)
    passed = [table for evaluation in gathered.evaluations for table in evaluation.passed]
    blocks: list[Block] = [figure for figure in (_boxes(summaries), passed_figure(gathered)) if figure is not None]
    if summaries:
        blocks += [Shown(spearman_table(summaries))]
    tables = [table for evaluation in gathered.evaluations for table in shift_tables(evaluation)]
    tables += [table for evaluation in gathered.evaluations for table in pass_tables(evaluation) if passed]
    blocks += [Fold(f"Tables by severity ({len(tables)})", tuple(Shown(table) for table in tables))] if tables else []
    return Section("shift", "Under shift", tuple(blocks), LEAD) if blocks else None


def _summaries(gathered: Gathered) -> dict[str, Summary]:
    """Every summary under a label of its own."""
    out: dict[str, Summary] = {}
    for summary in (item for evaluation in gathered.evaluations for item in evaluation.shift):
        (label,) = labels([summary.input], taken=out).values()
        out[label] = summary
    return out


# ------------------------------------------------------------------------------------------------------ boxes
def _boxes(summaries: dict[str, Summary]) -> Figure | None:
    every = list(dict.fromkeys(spec for summary in summaries.values() for spec in summary.specs))
    specs = sorted(every, key=lambda spec: MAIN.index(spec) if spec in MAIN else len(MAIN))[:MOST_METRICS]
    shown = dict(list(summaries.items())[:MOST_INPUTS])
    data: dict[tuple[str, ...], Columns] = {(directed(spec),): _box_columns(shown, spec) for spec in specs}
    data = {key: columns for key, columns in data.items() if any(map(_finite, columns["value"]))}
    if not data:
        return None
    several = len(shown) > 1
    said = first_of(MOST_INPUTS, len(summaries), "inputs") + first_of(MOST_METRICS, len(every), "metrics")
    heads = {
        "name": "input", "severity": "severity", "shift": "type of shift", "value": "value", "types": "types",
        "mean": "mean", "min": "lowest", "q25": "lower quartile", "median": "median", "q75": "upper quartile",
        "max": "highest",
    }  # fmt: skip
    return Figure(
        key="boxes",
        title="By severity of shift, over its types",
        chart=boxes_chart(several),
        data=data,
        heads=heads if several else {key: head for key, head in heads.items() if key != "name"},
        said="Box plots of a metric over types of shift, severity by severity",
        caption=BOXES + said,
        controls=(Control("metric", tuple(key[0] for key in data)),),
    )


def _finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _box_columns(summaries: dict[str, Summary], spec: str) -> Columns:
    """A record for each box, and one for each type in it."""
    rows: list[dict[str, Any]] = []
    for place, (label, summary) in enumerate(summaries.items()):
        for severity in summary.severities:
            cells = [c for c in summary.cells if c.severity == severity and spec in c.values]
            row = {"name": label, "place": place, "severity": severity}
            rows += [{**row, "kind": BOX, "shift": "all", **summary.at(spec, severity)}] if cells else []
            rows += [{**row, "kind": TYPE, "shift": short(c.shift), "value": c.values[spec]} for c in cells]
    keys = ("name", "place", "severity", "shift", "kind", "value", "types", "mean", *QUARTILES)
    return {key: [row.get(key) for row in rows] for key in keys}


@chart
def boxes_chart(several: bool) -> Any:
    """Whiskers, boxes, medians and the types as dots; of several inputs beside each other."""
    alt = altair()
    boxes, types = (base().transform_filter(f"datum.kind === '{kind}'") for kind in (BOX, TYPE))
    x = alt.X("severity:O", title="severity of shift (0: clean)", axis=alt.Axis(labelAngle=0))
    y = {
        name: alt.Y(f"{name}:Q", title="value", scale=alt.Scale(zero=False))
        for name in ("min", "q25", "median", "value")
    }
    where: dict[str, Any] = {"x": x}
    if several:
        where["xOffset"] = alt.XOffset(
            "name:N", sort=None, bandPosition=0.5, scale=alt.Scale(type="band", padding=0.15)
        )
    wide = {"band": 1.0 if several else 0.6}
    legend = alt.Legend(columns=1) if several else None
    fill = alt.Fill("name:N", sort=None, title=None, scale=alt.Scale(range=SERIES), legend=legend)
    colour = alt.Color("place:N", sort=None, scale=alt.Scale(range=SERIES), legend=None)
    hover = tips(
        name__n="input", severity="severity", types__i="types", mean="mean", min="lowest", q25="lower quartile",
        median="median", q75="upper quartile", max="highest",
    )  # fmt: skip
    whisker = boxes.mark_rule(strokeWidth=1.5).encode(**where, y=y["min"], y2="max:Q", color=colour)
    box = boxes.mark_bar(fillOpacity=0.45, width=wide).encode(
        **where, y=y["q25"], y2="q75:Q", fill=fill, tooltip=hover
    )  # fmt: skip
    median = boxes.mark_tick(color=INK, thickness=2.5, width=wide).encode(**where, y=y["median"], tooltip=hover)
    dot = types.mark_circle(size=22, opacity=0.75).encode(
        **where, y=y["value"], color=colour,
        tooltip=tips(name__n="input", shift__n="type", severity="severity", value="value"),
    )  # fmt: skip
    return layered(whisker, box, median, dot, height=320)


# --------------------------------------------------------------------------------------------------- Spearman
def spearman_table(summaries: dict[str, Summary]) -> Table:
    """ρ of every metric; of one input also its value at the lowest and at the highest severity."""
    shown = dict(list(summaries.items())[:MOST_COLUMNS])
    specs = list(dict.fromkeys(spec for summary in shown.values() for spec in summary.specs))
    over = next(iter(shown.values())).over
    more = f" · the first {MOST_COLUMNS} of {len(summaries)} inputs" if len(summaries) > MOST_COLUMNS else ""
    title = f"Spearman's ρ between severity and the {over} over types; +1: it always rises, −1: it always falls{more}"
    if len(shown) == 1:
        summary = next(iter(shown.values()))
        ends = (summary.severities[0], summary.severities[-1])
        rows = [(spec, _rho(summary, spec), *(number(summary.at(spec, s)[over]) for s in ends)) for spec in specs]
        return Table(title, ("metric", "ρ", *(f"at severity {s:g}" for s in ends)), tuple(rows))
    rows = [(spec, *(_rho(summary, spec) for summary in shown.values())) for spec in specs]
    return Table(title, ("metric", *shown), tuple(rows))


def _rho(summary: Summary, spec: str) -> str:
    value = summary.rho(spec) if spec in summary.specs else float("nan")
    return "" if value != value else f"{value:+.3f}".replace("-", "−")
