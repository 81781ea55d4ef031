"""A comparison on the page: who is best, likelihood before and after temperature, differences, equivalents."""

from __future__ import annotations

import html
import math

from calibrant.comparison.records import CllCurve, Pair
from calibrant.comparison.result import Comparison
from calibrant.errors import plain
from calibrant.evaluation import rendering
from calibrant.evaluation.comparison_tables import comparison_lines, comparison_tables, shown_pairs
from calibrant.evaluation.result import Evaluation
from calibrant.evaluation.wording import number

WIDTH, ROW, LEFT, RIGHT = 560, 22, 190, 20
SOURCE = "Ashukha, Lyzhov, Molchanov & Vetrov (2020), Pitfalls of in-domain uncertainty estimation and ensembling"


def comparison_section(evaluation: Evaluation) -> str:
    """The section, or nothing where there is no comparison."""
    comparison = evaluation.comparison
    if comparison is None:
        return ""
    lines = "".join(f"<p>{html.escape(line)}.</p>" for line in comparison_lines(evaluation))
    first, *others = (rendering.as_html(table) for table in comparison_tables(evaluation))
    figures = "" if comparison.datasets else _before_after(comparison) + _pairs(comparison) + _curves(comparison)
    source = f"<p class='note'>{html.escape(SOURCE)}</p>"
    body = lines + first + figures + "".join(others) + source
    return f"<section><h2>Which model is best</h2>{body}</section>"


# ------------------------------------------------------------------------------------------------ dumbbells
def _before_after(comparison: Comparison) -> str:
    """NLL before (ring) and after (disc) temperature, model by model."""
    if not {"nll", "cll"} <= set(comparison.ranks):
        return ""
    before = {item.model: item.value for item in comparison.ranks["nll"]}
    after = {item.model: -item.value for item in comparison.ranks["cll"]}
    models = [item.model for item in comparison.ranking if math.isfinite(before[item.model] + after[item.model])]
    if not models:
        return ""
    scale = _Scale([before[m] for m in models] + [after[m] for m in models])
    marks = []
    for k, name in enumerate(models):
        x0, x1, y = scale(before[name]), scale(after[name]), _y(k)
        hint = html.escape(f"{plain(name)}: NLL {number(before[name])}, after temperature {number(after[name])}")
        marks.append(
            f"<g><title>{hint}</title><line x1='{x0:.1f}' x2='{x1:.1f}' y1='{y}' y2='{y}' stroke='var(--soft)'/>"
            f"<circle cx='{x0:.1f}' cy='{y}' r='5' fill='var(--paper)' stroke='var(--gap)' stroke-width='2'/>"
            f"<circle cx='{x1:.1f}' cy='{y}' r='5' fill='var(--bar)'/>{_label(name, y)}</g>"
        )
    said = "Negative log-likelihood before (rings) and after temperature (discs); left is better."
    return _figure(marks, scale, len(models), said)


# --------------------------------------------------------------------------------------------------- forest
def _pairs(comparison: Comparison) -> str:
    """Paired differences with their intervals, about the line of no difference."""
    pairs = [pair for pair in shown_pairs(comparison) if math.isfinite(pair.low + pair.high)]
    if not pairs:
        return ""
    scale = _Scale([end for pair in pairs for end in (pair.low, pair.high)] + [0.0])
    marks = [_interval(pair, scale, _y(k)) for k, pair in enumerate(pairs)]
    zero, bottom = scale(0.0), ROW * len(pairs) + 8
    marks.append(f"<line x1='{zero:.1f}' x2='{zero:.1f}' y1='4' y2='{bottom}' stroke='var(--soft)' "
                 "stroke-dasharray='4 4'/>")  # fmt: skip
    said = f"Differences of {comparison.rank_by}, first less second, with intervals; dashed: none."
    return _figure(marks, scale, len(pairs), said)


def _interval(pair: Pair, scale: _Scale, y: float) -> str:
    colour = "var(--bar)" if pair.better else "var(--soft)"
    name = f"{plain(pair.first)} − {plain(pair.second)}"
    hint = html.escape(f"{name}: {number(pair.difference)} ({number(pair.low)} to {number(pair.high)})")
    return (
        f"<g><title>{hint}</title><line x1='{scale(pair.low):.1f}' x2='{scale(pair.high):.1f}' y1='{y}' y2='{y}' "
        f"stroke='{colour}' stroke-width='3'/><circle cx='{scale(pair.difference):.1f}' cy='{y}' r='4' "
        f"fill='{colour}'/>{_label(name, y)}</g>"
    )


# --------------------------------------------------------------------------------------------------- curves
def _curves(comparison: Comparison) -> str:
    """CLL of the pool against its number of members, and where each model lies on it."""
    pool = comparison.curves.get(comparison.pool or "")
    if pool is None or not all(map(math.isfinite, pool.mean)) or len(pool.mean) < 2:
        return ""
    models = {name: item.cll for name, item in comparison.equivalents.items() if math.isfinite(item.cll)}
    across = _Scale([1.0, float(len(pool.mean))], 60, WIDTH - 150, room=0.0)
    up = _Scale([*pool.mean, *models.values()], 210, 10)
    path = " ".join(f"{across(k):.1f},{up(value):.1f}" for k, value in zip(pool.k, pool.mean, strict=True))
    parts = [f"<polyline points='{path}' fill='none' stroke='var(--bar)' stroke-width='2.5'/>", _band(pool, across, up)]
    for name, value in models.items():
        y = up(value)
        parts.append(
            f"<g><title>{html.escape(plain(name))}: CLL {number(value)}</title><line x1='60' x2='{WIDTH - 150}' "
            f"y1='{y:.1f}' y2='{y:.1f}' stroke='var(--gap)' stroke-dasharray='3 3'/>"
            f"<text x='{WIDTH - 146}' y='{y + 4:.1f}'>{html.escape(_short(name, 22))}</text></g>"
        )
    ends = (
        f"<text x='60' y='232' text-anchor='middle'>1</text><text x='{WIDTH - 150}' y='232' "
        f"text-anchor='middle'>{len(pool.mean)}</text><text x='{(WIDTH - 90) / 2}' y='246' text-anchor='middle'>members "
        "of the pool</text>"
        f"<text x='54' y='{up(max(pool.mean)) + 4:.1f}' text-anchor='end'>{number(max(pool.mean))}</text>"
        f"<text x='54' y='{up(min(pool.mean)) + 4:.1f}' text-anchor='end'>{number(min(pool.mean))}</text>"
    )
    label = "Calibrated log-likelihood of the pool by its number of members, and of the models"
    said = "Where a dashed line meets the curve, so many members of the pool are as good as the model."
    return (
        f"<figure><svg viewBox='0 0 {WIDTH} 252' width='{WIDTH}' role='img' aria-label='{label}'>"
        f"{''.join(parts)}{ends}</svg><figcaption class='note'>{said}</figcaption></figure>"
    )


def _band(pool: CllCurve, across: _Scale, up: _Scale) -> str:
    """Mean ± standard deviation over draws of members."""
    if not all(map(math.isfinite, pool.std)):
        return ""
    ends = list(zip(pool.k, pool.mean, pool.std, strict=True))
    there = [f"{across(k):.1f},{up(m + s):.1f}" for k, m, s in ends]
    back = [f"{across(k):.1f},{up(m - s):.1f}" for k, m, s in reversed(ends)]
    return f"<polygon points='{' '.join([*there, *back])}' fill='var(--bar)' opacity='.15'/>"


# ---------------------------------------------------------------------------------------------------- parts
class _Scale:
    """From values to places: the lowest at `first`, the highest at `last`, with a little room at both ends."""

    def __init__(
        self, values: list[float], first: float = LEFT, last: float = WIDTH - RIGHT, room: float = 0.04
    ) -> None:
        low, high = min(values), max(values)
        spare = room * (high - low) or (0.0 if high > low else abs(low) * 0.1 or 1.0)
        self.low, self.high, self.first, self.last = low - spare, high + spare, first, last

    def __call__(self, value: float) -> float:
        return self.first + (self.last - self.first) * (value - self.low) / (self.high - self.low)


def _y(k: int) -> float:
    return ROW * k + ROW / 2 + 4


def _label(name: str, y: float) -> str:
    return f"<text x='{LEFT - 10}' y='{y + 4:.1f}' text-anchor='end'>{html.escape(_short(name, 28))}</text>"


def _short(name: str, most: int) -> str:
    name = plain(name)
    return name if len(name) <= most else name[: most - 1] + "…"


def _figure(marks: list[str], scale: _Scale, rows: int, said: str) -> str:
    height = ROW * rows + 32
    ends = (
        f"<text x='{LEFT}' y='{height - 6}'>{number(scale.low)}</text>"
        f"<text x='{WIDTH - RIGHT}' y='{height - 6}' text-anchor='end'>{number(scale.high)}</text>"
        f"<line x1='{LEFT}' x2='{WIDTH - RIGHT}' y1='{height - 22}' y2='{height - 22}' stroke='var(--line)'/>"
    )
    return (
        f"<figure><svg viewBox='0 0 {WIDTH} {height}' width='{WIDTH}' role='img' aria-label='{html.escape(said)}'>"
        f"{''.join(marks)}{ends}</svg><figcaption class='note'>{html.escape(said)}</figcaption></figure>"
    )
