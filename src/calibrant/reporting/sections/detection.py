"""OOD detection: metrics, score distributions, and accuracy against confidence on a mixture of in-distribution and OOD
rows (Ovadia et al. 2019, figure 4)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any

from calibrant.registry.estimate import Estimate
from calibrant.registry.lookup import on_axis
from calibrant.render.evaluation import main_table
from calibrant.render.formatting import format_number
from calibrant.render.table import Table
from calibrant.reporting.charts.base import altair, base, chart, layered, tooltip
from calibrant.reporting.charts.line_charts import has_points, line_rows, lines_chart
from calibrant.reporting.charts.palette import BLUE, ORANGE
from calibrant.reporting.charts.row_charts import estimates_chart
from calibrant.reporting.document import Block, Choices, Control, Figure, Section, TableBlock
from calibrant.reporting.labels import first_of, label_with_direction, labels, short
from calibrant.reporting.report_data import ReportData, Subject
from calibrant.results.evaluation import task_of

LEAD = "Does the uncertainty score separate OOD rows from in-distribution rows?"
DENSITIES = (
    "Distribution of the score on in-distribution and on OOD rows. The less they overlap, the better the detection. "
    "The square-root scale shows rare values."
)
MIX = (
    "Accuracy of the rows above each confidence threshold on a mixture of in-distribution and OOD rows; every "
    "prediction on an OOD row counts as wrong (figure 4 of Ovadia et al. 2019). It should rise to 1."
)
SCALES = {"linear": 1.0, "square root": 0.5}
SIDES = {"inside": "in-distribution", "outside": "OOD"}
METRIC_COLUMNS = ("label", "value", "low", "high", "text")
MAX_SETS = 40
"""OOD data sets in charts."""


def section(report: ReportData) -> Section | None:
    """Metrics, score distributions and mixtures of all OOD data sets; a control selects one of them."""
    views = {s.name: s.metrics_view for s in report.subjects if s.metrics_view and task_of(s.facts) == "detection"}
    names = labels(views)
    tables = [main_table(view.evaluation, view.result) for view in views.values()]
    if len(tables) > 1:
        tables = [_common_table({names[name]: view.result.metrics for name, view in views.items()})]
    shown = {names[subject.name]: subject for subject in report.subjects if subject.name in list(views)[:MAX_SETS]}
    blocks: tuple[Block, ...] = (*map(TableBlock, tables), *_figures(shown, len(views)))
    return Section("detection", "OOD detection", blocks, LEAD) if blocks else None


def _common_table(known: Mapping[str, Mapping[str, Estimate]]) -> Table:
    """One row per OOD data set, with the intervals of all metrics."""
    specs = list(dict.fromkeys(spec for metrics in known.values() for spec in metrics))

    def cell(e: Estimate | None) -> str:
        if e is None or not math.isfinite(e.value):
            return "" if e is None else format_number(e.value)
        return f"{e.value:.3f}" + (f" ({e.low:.3f}–{e.high:.3f})" if math.isfinite(e.low) else "")

    rows = [(name, *(cell(metrics.get(spec)) for spec in specs)) for name, metrics in known.items()]
    return Table("Detection metrics with intervals", ("OOD data", *specs), tuple(rows))


def _figures(shown: Mapping[str, Subject], count: int) -> Iterator[Figure]:
    """Each metric for every OOD data set if there are several, the scores, and the mixtures."""
    known = {name: subject.metrics_view.result.metrics for name, subject in shown.items() if subject.metrics_view}
    every = dict.fromkeys(spec for metrics in known.values() for spec in metrics)
    data: Choices = {}
    for spec in (spec for spec in every if spec.partition("(")[0] in on_axis("OOD detection")):
        rows = [(name, e.value, e.low, e.high, f"{e.value:.3f}") for name, m in known.items() if (e := m.get(spec))]
        data[(label_with_direction(spec),)] = {head: [row[k] for row in rows] for k, head in enumerate(METRIC_COLUMNS)}
    if len(shown) > 1 and data:
        yield Figure(
            key="metrics",
            title="Detection metrics",
            chart=estimates_chart("value", intervals=any(e.low == e.low for m in known.values() for e in m.values())),
            data=data,
            heads={"label": "OOD data", "value": "value", "low": "interval from", "high": "interval to"},
            description="A detection metric with its interval for every OOD data set",
            caption="Value and interval for each OOD data set and score." + first_of(MAX_SETS, count, "sets"),
            controls=(Control("metric", tuple(label for (label,) in data)),),
        )
    curves = {name: subject.curves["scores"] for name, subject in shown.items() if subject.curves.get("scores")}
    data = {}
    for (name, curve), (scale, power) in itertools.product(curves.items(), SCALES.items()):
        bins = len(curve["lower"])
        data[name, scale] = {
            **{end: [*curve[end], *curve[end]] for end in ("lower", "upper")},
            "side": [side for side in SIDES.values() for _ in range(bins)],
            "share": [*curve["inside"], *curve["outside"]],
            "power": [power] * (2 * bins),  # the exponent of the scale of shares
        }
    if curves:
        yield Figure(
            key="densities",
            title="Score distributions",
            chart=densities_chart(),
            data=data,
            heads={"lower": "score from", "upper": "score to", "side": "rows", "share": "share of rows"},
            description="Histograms of the score on in-distribution and on OOD rows",
            caption=DENSITIES + first_of(MAX_SETS, count, "sets"),
            controls=(Control("OOD data", tuple(curves)), Control("scale", tuple(SCALES))),
        )
    lines: dict[str, list[dict[str, Any]]] = {}
    drawn: list[Any] = []
    for name, subject in shown.items():
        mix = subject.curves.get("mix")
        if not mix or mix in drawn:  # it does not depend on the score
            continue
        drawn.append(mix)
        meta = subject.facts.get("meta")
        outside = meta.get("outside") if isinstance(meta, Mapping) else None
        label = short(str(outside)) if outside else name  # without the name of the score
        points = zip(mix["confidence"], mix["accuracy"], mix["share"], strict=True)
        lines[name if label in lines else label] = [
            {"x": x, "y": y, "note": f"{100 * share:.1f}% of rows"} for x, y, share in points
        ]
    mixtures = line_rows(lines)
    if has_points(mixtures):
        yield Figure(
            key="mix",
            title="Accuracy above a confidence threshold, with OOD rows",
            chart=lines_chart("confidence threshold", "accuracy", share=True),
            data={(): mixtures},
            heads={"name": "OOD data", "x": "confidence threshold", "y": "accuracy", "note": "retained"},
            description="Accuracy above each confidence threshold, on a mixture of in-distribution and OOD rows",
            caption=MIX + first_of(MAX_SETS, count, "sets"),
        )


@chart
def densities_chart() -> Any:
    """Both histograms on top of each other; tops of OOD bars are dashed."""
    alt = altair()
    power = alt.Scale(type="pow", exponent=alt.ExprRef("data('rows')[0].power"), domainMin=0)
    y = alt.Y("share:Q", title="share of rows", stack=None, scale=power, axis=alt.Axis(format="~g", tickCount=6))
    x = alt.X("lower:Q", title="score (higher: more likely OOD)", scale=alt.Scale(zero=False, nice=False))
    kinds = list(SIDES.values())
    colour = alt.Color("side:N", title=None, scale=alt.Scale(domain=kinds, range=[BLUE, ORANGE]))
    dash = alt.condition(f"datum.side === '{kinds[1]}'", alt.value([3, 2]), alt.value([1, 0]))
    hover = tooltip(side__n="rows", lower="score from", upper="score to", share="share of rows")
    bar = base().mark_rect(opacity=0.38).encode(x=x, x2="upper:Q", y=y, y2=alt.datum(0), color=colour, tooltip=hover)
    top = base().mark_rule(strokeWidth=2).encode(x=x, x2="upper:Q", y=y, color=colour, strokeDash=dash)
    return layered(bar, top, height=280)
