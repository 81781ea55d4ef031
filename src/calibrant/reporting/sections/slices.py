"""Groups of rows: which are worse than all rows, which of them by more than chance, and the curve of each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from calibrant.errors import plain
from calibrant.evaluation.caveats import false_discoveries
from calibrant.evaluation.result import Group, Result
from calibrant.evaluation.tables import GROUP_METRICS, group_table
from calibrant.registry.estimate import Estimate
from calibrant.reporting.charting import altair, base, chart, listed, names_axis, tips, values_beside
from calibrant.reporting.document import Block, Columns, Control, Figure, Fold, Panel, Section, Shown
from calibrant.reporting.estimates import band_of, estimate_columns, metric_of, without_blank
from calibrant.reporting.gathering import Found, Gathered
from calibrant.reporting.naming import distinct
from calibrant.reporting.palette import BLUE, GREY, INK, ORANGE, SOFT
from calibrant.reporting.sections.slice_curves import curves_figure

MOST_DRAWN = 30
"""Groups of a column that the chart has room for."""
MOST_METRICS, FEWER_METRICS, MANY_INPUTS = 8, 4, 20
"""Metrics to choose from, and of how many inputs there are fewer: a page must stay small."""
LONGEST = 28
"""Characters of a name beside the chart."""
WANTED = (*GROUP_METRICS, "ks", "smooth_ece", "calibration_error", "picp")
FIRST = ("ece", "calibration_error")
"""What is shown first where it was tested."""
SHOWN, CHANCE, UNTESTED = "more than chance", "within chance", "not tested"
HEADS = {
    "name": "group",
    "n": "rows",
    "value": "value",
    "low": "interval from",
    "high": "to",
    "null_low": "calibrated: from",
    "null_high": "calibrated: to",
    "whole": "all rows",
    "standing": "against a calibrated model",
    "q_value": "q-value",
}


def section(gathered: Gathered) -> Section | None:
    """A panel for each input with groups."""
    most = MOST_METRICS if len(gathered.subjects) <= MANY_INPUTS else FEWER_METRICS
    panels = [
        Panel(k, found)
        for k, subject in enumerate(gathered.subjects)
        if (grouped := subject.having(_has_groups)) is not None and (found := _blocks(grouped, most))
    ]
    lead = "Is it as good, and does it know itself as well, for every kind of rows?"
    return Section("slices", "Groups of rows", tuple(panels), lead) if panels else None


def _has_groups(result: Result) -> bool:
    return any(group.metrics for group in result.groups)


def _blocks(found: Found, metrics: int) -> tuple[Block, ...]:
    groups = [group for group in found.result.groups if group.metrics]
    if not groups:
        return ()
    figures = (_figure(found, groups, metrics), curves_figure(found.result, groups))
    columns = list(dict.fromkeys(group.by for group in groups))
    tables = tuple(Shown(group_table(found.evaluation, found.result, by)) for by in columns)
    fold = Fold(f"All {len(groups)} groups as a table", tables)
    return (*(figure for figure in figures if figure is not None), fold)


# ---------------------------------------------------------------------------------------------------------- chart
def _figure(found: Found, groups: Sequence[Group], metrics: int) -> Figure | None:
    """The worst groups of a column by a metric; one choice for each."""
    by = list(dict.fromkeys(group.by for group in groups))
    specs = _specs(groups)[:metrics]
    most = false_discoveries(found.evaluation)
    data: dict[tuple[str, ...], Columns] = {
        (label, spec): made
        for label, column in zip(distinct(_safe(name) for name in by), by, strict=True)
        for spec in specs
        if (made := _columns(found.result, [group for group in groups if group.by == column], spec, most))
    }
    if not data:
        return None
    several = max(sum(group.by == column for group in groups) for column in by)
    return Figure(
        key="groups",
        title="The worst groups",
        chart=groups_chart(),
        data=data,
        heads=HEADS,
        said="The value of each group with its interval, beside the value of all rows",
        caption=_caption(most, several),
        controls=(
            Control("column", tuple(dict.fromkeys(key[0] for key in data))),
            Control("metric", tuple(spec for spec in specs if any(key[1] == spec for key in data))),
        ),
    )


def _safe(name: str) -> str:
    """A name that can be one part of several."""
    return name.replace("|", "¦")


def _caption(most: float, several: int) -> str:
    few = f" At most {MOST_DRAWN} groups of a column are drawn, the worst of {several}." if several > MOST_DRAWN else ""
    return (
        "Mark and line: the value of a group and its interval; vertical line: the value of all rows; grey bar, of "
        "calibration errors: where a calibrated model with as few rows would lie. Diamonds are groups that are beyond "
        f"chance when all groups are counted (q < {most:g}, Benjamini & Hochberg 1995): they come first, then the "
        f"worst values, which small groups have by chance alone.{few}"
    )


def _specs(groups: Sequence[Group]) -> list[str]:
    """The main metrics of groups, one that was tested first; where none of them is there, all."""
    known = list(dict.fromkeys(spec for group in groups for spec in group.metrics))
    main = [spec for spec in WANTED if spec in known]
    others = [spec for spec in known if spec.partition("(")[0] in WANTED and spec not in main]
    tested = {spec for group in groups for spec, e in group.metrics.items() if math.isfinite(e.q_value)}
    first = [spec for spec in FIRST if spec in tested]
    return list(dict.fromkeys([*first, *main, *others])) or known


def _columns(result: Result, groups: Sequence[Group], spec: str, most: float) -> Columns:
    """The worst groups: those that stay significant before the others."""
    whole = result.metrics[spec].value if spec in result.metrics else math.nan
    known = [(g, e) for g in groups if (e := g.metrics.get(spec)) is not None and math.isfinite(e.value)]
    known.sort(key=lambda item: (not item[1].q_value < most, -badness(spec, item[1], whole)))
    drawn = known[:MOST_DRAWN]
    if not drawn:
        return {}
    made = estimate_columns(distinct((_named(g) for g, _ in drawn), LONGEST), [e for _, e in drawn])
    bands = [band_of(e) for _, e in drawn]
    made |= {
        "null_low": [low for low, _ in bands],
        "null_high": [high for _, high in bands],
        "n": [g.n for g, _ in drawn],
        "whole": [whole] * len(drawn),
        "standing": [_standing(e, most) for _, e in drawn],
        "q_value": [e.q_value for _, e in drawn],
    }
    return without_blank(made)


def badness(spec: str, e: Estimate, whole: float) -> float:
    """Larger is worse; by metrics of which neither is better, what is farther from all rows."""
    direction = metric.direction if (metric := metric_of(spec)) is not None else "none"
    if direction == "none":
        return abs(e.value - whole) if math.isfinite(whole) else e.value
    return -e.value if direction == "higher" else e.value


def _named(group: Group) -> str:
    return plain(str(group.value), 10_000) or "(empty)"


def _standing(e: Estimate, most: float) -> str:
    return UNTESTED if math.isnan(e.q_value) else SHOWN if e.q_value < most else CHANCE


@chart
def groups_chart() -> Any:
    """A row each: the band of a calibrated model, the interval, and a mark whose shape says how it stands."""
    alt = altair()
    y, x = names_axis(), alt.X("value:Q", title=None, scale=alt.Scale(zero=False))
    names, legend = [SHOWN, CHANCE, UNTESTED], alt.Legend(columns=2)
    colours = alt.Scale(domain=names, range=[ORANGE, BLUE, SOFT])
    colour = alt.Color("standing:N", title=None, scale=colours, legend=legend)
    shapes = alt.Scale(domain=names, range=["diamond", "circle", "square"])
    shape = alt.Shape("standing:N", title=None, scale=shapes, legend=legend)
    hover = tips(
        name__n="group", n__i="rows", value="value", low="interval from", high="to", null_low="calibrated: from",
        null_high="calibrated: to", whole="all rows", q_value="q-value",
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
    return listed(values_beside(y), band, lines, whole, dots, step=24, beside=64)
