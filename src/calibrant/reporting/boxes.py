"""Box plots of checks: what the model expects of a statistic, and a cross at what was observed.

As figures 5 and 6 of Gopal (2021): the box holds the middle half of the replicates, whiskers run from 5 % to 95 %, the
bar in the box is the median; a thin line beyond them holds all replicates.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from calibrant.checks.check import AS_EXPECTED, HIGHER, LOWER, UNKNOWN, Check
from calibrant.reporting.charting import altair, base, chart, layered, tips
from calibrant.reporting.document import Columns
from calibrant.reporting.palette import BLUE, GREEN, GREY, INK, ORANGE, SOFT

ENDS = ("min", "q05", "q25", "q50", "q75", "q95", "max", "observed")
"""What must be known of a check for it to be drawn."""
HEADS = {
    "name": "",
    "said": "observed value",
    "observed": "observed",
    "q025": "expected: 2.5 %",
    "q05": "5 %",
    "q25": "25 %",
    "q50": "median",
    "q75": "75 %",
    "q95": "95 %",
    "q975": "97.5 %",
    "min": "least",
    "max": "greatest",
    "p_value": "p-value",
}
HOW = (
    "Box: the middle half of what the model expects; bar: the median; whiskers: 5 % to 95 %; thin line: all "
    "replicates. The cross is what was observed."
)
SAID = {AS_EXPECTED: "as expected", LOWER: "lower than expected", HIGHER: "higher than expected", UNKNOWN: "undefined"}
STEP = 42
MOST_DRAWN = 24
JOINT = " · "
"""Between a name and what is said of it, which stand under each other beside the chart."""


def can_be_drawn(check: Check) -> bool:
    """Whether all of the box is finite."""
    return all(math.isfinite(getattr(check, end)) for end in ENDS)


def box_columns(named: Iterable[tuple[str, Check]], rule: str) -> Columns:
    """One row for each check; of many the first are drawn, and all of them are among the numbers."""
    rows: list[Mapping[str, Any]] = []
    for name, check in named:
        said = SAID[check.surprise(rule)]
        numbers = {key: getattr(check, key) for key in HEADS if key not in ("name", "said")}
        drawn = can_be_drawn(check) and sum(row["drawn"] for row in rows) < MOST_DRAWN
        rows.append({"name": name, "said": said, "label": f"{name}{JOINT}{said}", "drawn": drawn} | numbers)
    return {key: [row[key] for row in rows] for key in rows[0]} if rows else {}


def drawn_rows(data: Iterable[Columns]) -> int:
    """How many boxes stand under each other at most."""
    return max((sum(columns["drawn"]) for columns in data), default=1)


@chart
def box_chart(rows: int) -> Any:
    """Boxes under each other."""
    alt = altair()
    cut = f"lastindexof(datum.value, '{JOINT}')"
    lines = f"[slice(datum.value, 0, {cut}), slice(datum.value, {cut} + {len(JOINT)})]"
    axis = alt.Axis(
        title=None, labelExpr=lines, labelLimit=150, labelLineHeight=14, labelOffset=-6, grid=False, ticks=False
    )
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
    marks = (every, whiskers, *ends, box, median, _cross(drawn, x("observed"), y))
    return layered(*marks, height=STEP * rows)


def _cross(drawn: Any, x: Any, y: Any) -> Any:
    """What was observed; its colour says again what stands beside it in words."""
    alt = altair()
    surprised = [SAID[LOWER], SAID[HIGHER]]
    colours = alt.Scale(domain=[SAID[AS_EXPECTED], *surprised, SAID[UNKNOWN]], range=[GREEN, ORANGE, ORANGE, GREY])
    hover = tips(
        name__n="of", observed="observed", said__n="it is", q025="expected: 2.5 %", q25="25 %", q50="median",
        q75="75 %", q975="97.5 %", min="least", max="greatest", p_value="p-value",
    )  # fmt: skip
    return drawn.mark_point(
        shape="M-1,-1L1,1M-1,1L1,-1", size=110, strokeWidth=3, filled=False, opacity=1
    ).encode(x=x, y=y, color=alt.Color("said:N", scale=colours, legend=None), tooltip=hover)  # fmt: skip
