"""Mirrored histograms of two kinds of rows, such as correct and wrong ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from calibrant.reporting.charts.base import altair, base, chart, layered, tooltip
from calibrant.reporting.charts.palette import BLUE, ORANGE, SOFT
from calibrant.reporting.document import Choices, Columns, Control, Figure

SHARES, ROWS = "share of each kind", "rows"
MIN_BINS = 8
"""Minimum number of bins shown."""
Curve = Mapping[str, Sequence[float]]


def split_histogram(
    curve: Curve, kinds: tuple[str, str], *, key: str, title: str, of: str, caption: str, log: bool = False
) -> Figure | None:
    """A histogram of the bins of a curve, split into the two kinds that it has columns of, if it has them."""
    known = all(kind in curve for kind in kinds)
    last = max((k for k, n in enumerate(curve["n"]) if n), default=0)
    curve = {name: column[: max(last + 1, MIN_BINS)] for name, column in curve.items()}  # without an empty end
    parts = [curve[kind] for kind in kinds] if known else [curve["n"]]
    totals = [sum(part) for part in parts]
    if not any(totals):
        return None
    names = kinds if known else ("rows",)
    data: Choices = {(ROWS,): _columns(curve, parts, names, [1.0] * len(parts))}
    if known:
        data = {(SHARES,): _columns(curve, parts, names, totals), **data}
    split = f"; {kinds[0]} rows above the line, {kinds[1]} rows below it" if known else ""
    return Figure(
        key=key,
        title=title,
        chart=mirrored_chart(of, names, log=log),
        data=data,
        heads={"lower": f"{of} from", "upper": f"{of} to", "kind": "kind", "rows": "rows", "share": "share of kind"},
        description=f"Histogram of {of}{split}",
        caption=caption,
        controls=(Control("bar height", tuple(option for (option,) in data)),),
    )


def _columns(curve: Curve, parts: list[Sequence[float]], names: Sequence[str], totals: Sequence[float]) -> Columns:
    """Bars from 0 to `height` (negative for the second kind) with their rows and shares."""
    bins = len(curve["lower"])
    out: dict[str, list[Any]] = {}
    out["lower"], out["upper"] = ([*curve[end]] * len(parts) for end in ("lower", "upper"))
    out["kind"] = [name for name in names for _ in range(bins)]
    out["rows"] = [x for part in parts for x in part]
    out["share"] = [x / sum(part) if sum(part) else 0.0 for part in parts for x in part]
    signs = (1.0, -1.0)
    ends = zip(parts, totals, signs, strict=False)
    out["height"] = [sign * x / total if total else 0.0 for part, total, sign in ends for x in part]
    return out


@chart
def mirrored_chart(of: str, kinds: tuple[str, ...], *, log: bool = False) -> Any:
    """Bars of the first kind upwards and of the second downwards."""
    alt = altair()
    scale = {"type": "log"} if log else {"zero": False}
    x = alt.X("lower:Q", scale=alt.Scale(nice=False, **scale), axis=alt.Axis(title=of, tickCount=6))
    title = (
        " · ".join(f"{kind} {arrow}" for kind, arrow in zip(kinds, "↑↓", strict=False)) if len(kinds) > 1 else "rows"
    )
    numbers = alt.Axis(title=title, labelExpr="format(abs(datum.value), '~g')", tickCount=6)
    legend = alt.Legend(title=None) if len(kinds) > 1 else None
    colour = alt.Color("kind:N", scale=alt.Scale(domain=[*kinds], range=[BLUE, ORANGE][: len(kinds)]), legend=legend)
    hover = tooltip(kind__n="kind", lower=f"{of} from", upper=f"{of} to", rows="rows", share="share of kind")
    bars = base().mark_rect(stroke=None).transform_calculate(zero="0").encode(
        x=x, x2="upper:Q", y=alt.Y("height:Q", axis=numbers), y2="zero:Q", color=colour, tooltip=hover
    )  # fmt: skip
    line = base().mark_rule(color=SOFT, strokeWidth=1).encode(y=alt.datum(0))
    return layered(bars, line, height=200)
