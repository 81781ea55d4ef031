"""Rows from inside and from outside: how their scores are spread, how well they are told apart, and what becomes of
accuracy where both are met (Ovadia et al. 2019, figure 4)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from calibrant.evaluation.rendering import Table
from calibrant.evaluation.tables import main_table
from calibrant.evaluation.wording import number
from calibrant.registry.estimate import Estimate
from calibrant.reporting.charting import altair, base, chart, layered, tips
from calibrant.reporting.document import Block, Columns, Control, Figure, Section, Shown
from calibrant.reporting.gathering import Gathered, Subject
from calibrant.reporting.naming import short
from calibrant.reporting.palette import BLUE, ORANGE
from calibrant.reporting.sections.line_charts import line_rows, lines_chart, lines_drawn
from calibrant.reporting.sections.naming import directed, first_of, labels
from calibrant.reporting.sections.row_charts import estimates_chart

LEAD = "Does the score of a row tell that it is not from the known distribution?"
DENSITIES = (
    "The share of inside and of outside rows in each range of the score; the further the two lie apart, the better "
    "they are told. The square-root scale shows what is rare."
)
MIX = (
    "Accuracy of the rows that the model is at least so sure of, where inside and outside rows are mixed and every "
    "answer on an outside row counts as wrong (figure 4 of Ovadia et al. 2019). It should rise to 1."
)
TOLD = "The value of each metric with its interval, for each set of outside rows and each score."
METRICS = ("auroc", "aupr_in", "aupr_out", "detection_accuracy", "fpr95", "wasserstein")
SCALES = {"linear": 1.0, "square root": 0.5}
SIDES = ("inside", "outside")
MOST = 40
"""Sets of outside rows that charts have."""


def section(gathered: Gathered) -> Section | None:
    """All sets of outside rows together; a control chooses one of them."""
    found = {subject.name: subject for subject in gathered.subjects if subject.scored and "outside" in subject.facts}
    named = labels(found)
    shown = {named[name]: subject for name, subject in list(found.items())[:MOST]}
    made = (_told(shown, len(found)), _densities(shown, len(found)), _mixes(shown, len(found)))
    blocks: list[Block] = [figure for figure in made if figure is not None]
    tables = [main_table(s.scored.evaluation, s.scored.result) for s in found.values() if s.scored]
    tables = [_together({named[name]: _metrics(subject) for name, subject in found.items()})] if tables[1:] else tables
    blocks = [*(Shown(table) for table in tables), *blocks]
    return Section("detection", "Inside and outside", tuple(blocks), LEAD) if blocks else None


# ------------------------------------------------------------------------------------------------------ metrics
def _together(known: Mapping[str, Mapping[str, Estimate]]) -> Table:
    """One row a set of outside rows, each metric with its interval."""
    specs = list(dict.fromkeys(spec for metrics in known.values() for spec in metrics))
    rows = [(name, *(_shown(metrics.get(spec)) for spec in specs)) for name, metrics in known.items()]
    return Table("Each metric with its interval", ("outside", *specs), tuple(rows))


def _shown(estimate: Estimate | None) -> str:
    """In three decimals, so that six metrics stand beside each other."""
    if estimate is None or not math.isfinite(estimate.value):
        return "" if estimate is None else number(estimate.value)
    ends = f" ({estimate.low:.3f}–{estimate.high:.3f})" if math.isfinite(estimate.low) else ""
    return f"{estimate.value:.3f}{ends}"


def _told(shown: Mapping[str, Subject], count: int) -> Figure | None:
    """Each metric for every set of outside rows, where there are several."""
    known = {name: _metrics(subject) for name, subject in shown.items()}
    specs = [spec for spec in dict.fromkeys(spec for metrics in known.values() for spec in metrics) if _is_one(spec)]
    if len(shown) < 2 or not specs:
        return None
    return Figure(
        key="told",
        title="How well they are told apart",
        chart=estimates_chart("value", intervals=any(e.low == e.low for m in known.values() for e in m.values())),
        data={(directed(spec),): _estimate_columns(known, spec) for spec in specs},
        heads={"label": "outside", "value": "value", "low": "from", "high": "to"},
        said="A metric of detection with its interval, for every set of outside rows",
        caption=TOLD + first_of(MOST, count, "sets"),
        controls=(Control("metric", tuple(directed(spec) for spec in specs)),),
    )


def _metrics(subject: Subject) -> Mapping[str, Estimate]:
    return {} if subject.scored is None else subject.scored.result.metrics


def _is_one(spec: str) -> bool:
    return spec.partition("(")[0] in METRICS


def _estimate_columns(known: Mapping[str, Mapping[str, Estimate]], spec: str) -> Columns:
    rows = {name: metrics[spec] for name, metrics in known.items() if spec in metrics}
    return {
        "label": list(rows),
        "value": [e.value for e in rows.values()],
        "low": [e.low for e in rows.values()],
        "high": [e.high for e in rows.values()],
        "said": [f"{e.value:.3f}" for e in rows.values()],
    }


# ---------------------------------------------------------------------------------------------------- densities
def _densities(shown: Mapping[str, Subject], count: int) -> Figure | None:
    curves = {name: subject.curves["scores"] for name, subject in shown.items() if subject.curves.get("scores")}
    if not curves:
        return None
    return Figure(
        key="densities",
        title="Scores of inside and outside rows",
        chart=densities_chart(),
        data={
            (name, scale): _density_columns(curve, power)
            for name, curve in curves.items()
            for scale, power in SCALES.items()
        },
        heads={"lower": "score from", "upper": "to", "side": "rows from", "share": "share of them"},
        said="Histograms of the score on inside and on outside rows",
        caption=DENSITIES + first_of(MOST, count, "sets"),
        controls=(Control("outside", tuple(curves)), Control("scale", tuple(SCALES))),
    )


def _density_columns(curve: Mapping[str, list[float]], power: float) -> Columns:
    """Range by range of both sides; `power` is what the chart's scale raises shares to."""
    count = len(curve["lower"])
    return {
        "lower": [*curve["lower"], *curve["lower"]],
        "upper": [*curve["upper"], *curve["upper"]],
        "side": [side for side in SIDES for _ in range(count)],
        "share": [*curve["inside"], *curve["outside"]],
        "power": [power] * (2 * count),
    }


@chart
def densities_chart() -> Any:
    """Both histograms over each other; the tops of outside rows are dashed."""
    alt = altair()
    power = alt.Scale(type="pow", exponent=alt.ExprRef("data('rows')[0].power"), domainMin=0)
    y = alt.Y("share:Q", title="share of rows", stack=None, scale=power, axis=alt.Axis(format="~g", tickCount=6))
    x = alt.X("lower:Q", title="score (high: outside)", scale=alt.Scale(zero=False, nice=False))
    kinds = list(SIDES)
    colour = alt.Color("side:N", title=None, scale=alt.Scale(domain=kinds, range=[BLUE, ORANGE]))
    dash = alt.condition("datum.side === 'outside'", alt.value([3, 2]), alt.value([1, 0]))
    hover = tips(side__n="rows from", lower="score from", upper="to", share="share")
    bar = base().mark_rect(opacity=0.38).encode(x=x, x2="upper:Q", y=y, y2=alt.datum(0), color=colour, tooltip=hover)
    top = base().mark_rule(strokeWidth=2).encode(x=x, x2="upper:Q", y=y, color=colour, strokeDash=dash)
    return layered(bar, top, height=280)


# ----------------------------------------------------------------------------------------------------------- mix
def _mixes(shown: Mapping[str, Subject], count: int) -> Figure | None:
    """A line for each set of outside rows: scores do not matter to it, so that each set is there once."""
    lines: dict[str, list[dict[str, Any]]] = {}
    seen: list[Any] = []
    for name, subject in shown.items():
        curve = subject.curves.get("mix")
        if not curve or curve in seen:
            continue
        seen.append(curve)
        label = _outside(subject, name)
        points = zip(curve["confidence"], curve["accuracy"], curve["share"], strict=True)
        lines[name if label in lines else label] = [
            {"x": x, "y": y, "note": f"{100 * share:.1f} % of rows"} for x, y, share in points
        ]
    data = line_rows(lines)
    if not lines or not lines_drawn(data):
        return None
    return Figure(
        key="mix",
        title="Accuracy against confidence, inside and outside mixed",
        chart=lines_chart("confidence of at least", "accuracy", share=True),
        data={(): data},
        heads={"name": "outside", "x": "confidence of at least", "y": "accuracy", "note": "left"},
        said="Accuracy of the rows above each confidence, on inside and outside rows together",
        caption=MIX + first_of(MOST, count, "sets"),
    )


def _outside(subject: Subject, name: str) -> str:
    """The name of the outside rows, without that of the score."""
    meta = subject.facts.get("meta")
    return short(str(meta["outside"])) if isinstance(meta, Mapping) and meta.get("outside") else name
