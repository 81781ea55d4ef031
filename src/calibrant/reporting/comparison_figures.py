"""A comparison on the page: who is best, likelihood before and after temperature, differences, equivalents."""

from __future__ import annotations

import html
import math

from calibrant.comparison.facts import ASHUKHA
from calibrant.comparison.records import CllCurve, Pair
from calibrant.comparison.result import Comparison
from calibrant.errors import plain
from calibrant.evaluation import rendering
from calibrant.evaluation.comparison_tables import comparison_tables, shown_pairs
from calibrant.evaluation.comparison_words import comparison_legend, comparison_lines, named, numbers_of
from calibrant.evaluation.result import Evaluation
from calibrant.evaluation.wording import number
from calibrant.reporting.charts import (
    LINE,
    Scale,
    axis,
    figure,
    lines_of,
    shortened,
    spread,
    text_at,
    tick_label,
    width_of,
)

PLOT, GAP, RIGHT, ROW = 420.0, 10.0, 24.0, 24.0
MOST_NAMED_PAIRS = 20
"""Up to which pairs of the chart have names; beyond it numbers alone, which the first table explains."""
MOST_LEVELS = 20
"""Models that the chart of equivalents names; the table has all."""


def comparison_section(evaluation: Evaluation) -> str:
    """The section, or nothing where there is no comparison."""
    comparison = evaluation.comparison
    if comparison is None:
        return ""
    lines = "".join(f"<p>{html.escape(line)}.</p>" for line in comparison_lines(evaluation))
    first, *others = (rendering.as_html(table) for table in comparison_tables(evaluation))
    legend = f"<p class='note'>{' · '.join(map(html.escape, comparison_legend(evaluation)))}</p>"
    figures = "" if comparison.datasets else _before_after(comparison) + _pairs(comparison) + _curves(comparison)
    source = f"<p class='note'>{html.escape(ASHUKHA)}</p>"
    body = lines + first + legend + _notes(evaluation) + figures + "".join(others) + source
    return f"<section><h2>Which model is best</h2>{body}</section>"


def _notes(evaluation: Evaluation) -> str:
    """What the comparison must not rest on, below its answer."""
    items = "".join(f"<li>{html.escape(plain(note.message))}</li>" for note in evaluation.warnings)
    return f"<h3>To be noted</h3><ul class='note'>{items}</ul>" if items else ""


# ------------------------------------------------------------------------------------------------ dumbbells
def _before_after(comparison: Comparison) -> str:
    """NLL before (ring) and after (disc) temperature, model by model."""
    if not {"nll", "cll"} <= set(comparison.ranks):
        return ""
    before = {item.model: item.value for item in comparison.ranks["nll"]}
    after = {item.model: -item.value for item in comparison.ranks["cll"]}
    models = [name for name in numbers_of(comparison) if math.isfinite(before[name] + after[name])]
    if not models:
        return ""
    numbers = numbers_of(comparison)
    labels = [lines_of(f"{numbers[name]} {plain(name)}") for name in models]
    rows, values = _Rows(labels), [before[m] for m in models] + [after[m] for m in models]
    scale = rows.scale(values)
    marks = []
    for name, label, y in zip(models, labels, rows.middles, strict=True):
        x0, x1 = scale(before[name]), scale(after[name])
        hint = html.escape(f"{plain(name)}: NLL {number(before[name])}, after temperature {number(after[name])}")
        marks.append(
            f"<g><title>{hint}</title><line x1='{x0:.1f}' x2='{x1:.1f}' y1='{y:.1f}' y2='{y:.1f}' stroke='var(--soft)'/>"
            f"<circle cx='{x0:.1f}' cy='{y:.1f}' r='5' fill='var(--paper)' stroke='var(--gap)' stroke-width='2'/>"
            f"<circle cx='{x1:.1f}' cy='{y:.1f}' r='5' fill='var(--bar)'/>{text_at(label, rows.left - GAP, y)}</g>"
        )
    said = "Negative log-likelihood before (rings) and after temperature (discs); left is better."
    return rows.figure(marks, scale, said)


# --------------------------------------------------------------------------------------------------- forest
def _pairs(comparison: Comparison) -> str:
    """Paired differences with their intervals, about the line of no difference."""
    pairs = [pair for pair in shown_pairs(comparison) if math.isfinite(pair.low + pair.high)]
    if not pairs:
        return ""
    numbers, brief = numbers_of(comparison), len(pairs) > MOST_NAMED_PAIRS
    labels = [_pair_label(pair, numbers, brief) for pair in pairs]
    rows = _Rows(labels)
    scale = rows.scale([end for pair in pairs for end in (pair.low, pair.high)] + [0.0])
    marks = [
        _interval(pair, scale, y, text_at(label, rows.left - GAP, y))
        for pair, label, y in zip(pairs, labels, rows.middles, strict=True)
    ]
    said = f"Differences of {named(comparison.rank_by)}, first less second, with intervals; dashed: no difference. "
    said += "Blue: beyond chance." + " Numbers are those of the first table." * brief
    return rows.figure(marks, scale, said)


def _pair_label(pair: Pair, numbers: dict[str, int], brief: bool) -> list[str]:
    if brief:
        return [f"{numbers[pair.first]} − {numbers[pair.second]}"]
    return [shortened(f"{numbers[pair.first]} {plain(pair.first)}"),
            shortened(f"− {numbers[pair.second]} {plain(pair.second)}")]  # fmt: skip


def _interval(pair: Pair, scale: Scale, y: float, label: str) -> str:
    colour = "var(--bar)" if pair.better else "var(--soft)"
    name = f"{plain(pair.first)} − {plain(pair.second)}"
    hint = html.escape(f"{name}: {number(pair.difference)} ({number(pair.low)} to {number(pair.high)})")
    return (
        f"<g><title>{hint}</title><line x1='{scale(pair.low):.1f}' x2='{scale(pair.high):.1f}' y1='{y:.1f}' "
        f"y2='{y:.1f}' stroke='{colour}' stroke-width='3'/><circle cx='{scale(pair.difference):.1f}' cy='{y:.1f}' r='4' "
        f"fill='{colour}'/>{label}</g>"
    )


# --------------------------------------------------------------------------------------------------- curves
def _curves(comparison: Comparison) -> str:
    """CLL of the pool against its number of members, and where each model lies on it."""
    pool = comparison.curves.get(comparison.pool or "")
    if pool is None or not all(map(math.isfinite, pool.mean)) or len(pool.mean) < 2:
        return ""
    numbers, known = numbers_of(comparison), comparison.equivalents
    models = {name: known[name].cll for name in numbers if name in known and math.isfinite(known[name].cll)}
    named_models = list(models)[:MOST_LEVELS]
    height = max(200.0, (LINE + 1) * len(named_models))
    across = Scale([1.0, float(len(pool.mean))], 64.0, 64.0 + PLOT, room=0.0)
    up = Scale([*pool.mean, *models.values()], height + 10, 10.0)
    labels = [shortened(f"{numbers[name]} {plain(name)}") for name in named_models]
    path = " ".join(f"{across(k):.1f},{up(value):.1f}" for k, value in zip(pool.k, pool.mean, strict=True))
    body = _frame(across, up, height) + _band(pool, across, up)
    body += f"<polyline points='{path}' fill='none' stroke='var(--bar)' stroke-width='2.5'/>"
    places = spread([up(models[name]) for name in named_models], LINE + 1, 10.0, height + 10)
    lines = [_level(name, value, across, up(value)) for name, value in models.items()]
    ends = zip(named_models, labels, places, strict=True)
    lines += [_leader(across.last, up(models[name]), y, label) for name, label, y in ends]
    more = f" Of {len(models)} models the first {MOST_LEVELS} have names." * (len(models) > MOST_LEVELS)
    label = "Calibrated log-likelihood of the pool by its number of members, and of the models"
    said = f"{label}. Where a dashed line meets the curve, so many members of the pool are as good as the model.{more}"
    return figure(body + "".join(lines), across.last + 40 + width_of(labels), height + 50, label, said)


def _level(name: str, value: float, across: Scale, y: float) -> str:
    hint = html.escape(f"{plain(name)}: CLL {number(value)}")
    return (
        f"<g><title>{hint}</title><line x1='{across.first}' x2='{across.last}' y1='{y:.1f}' y2='{y:.1f}' "
        "stroke='var(--gap)' stroke-dasharray='3 3'/></g>"
    )


def _leader(x: float, y: float, label_y: float, label: str) -> str:
    """From the end of a line to its label, which may have moved."""
    line = f"<line x1='{x}' y1='{y:.1f}' x2='{x + 22}' y2='{label_y:.1f}' stroke='var(--soft)' opacity='.6'/>"
    return line + text_at([label], x + 26, label_y, "start")


def _frame(across: Scale, up: Scale, height: float) -> str:
    """Both axes with round marks."""
    whole = [k for k in across.ticks(8) if k == int(k)]
    whole = whole if whole and whole[0] == 1.0 else [1.0, *whole]
    y = height + 10
    parts = [f"<text x='{across(k):.1f}' y='{y + 16}' text-anchor='middle'>{k:.0f}</text>" for k in whole]
    parts.append(
        f"<text x='{(across.first + across.last) / 2}' y='{y + 34}' text-anchor='middle'>members of the pool</text>"
    )
    ticks = up.ticks()
    for value in ticks:
        line = f"x1='{across.first}' x2='{across.last}' y1='{up(value):.1f}' y2='{up(value):.1f}'"
        parts.append(f"<line {line} stroke='var(--line)' opacity='.6'/>")
        parts.append(
            f"<text x='{across.first - 6}' y='{up(value) + 4:.1f}' text-anchor='end'>{tick_label(value, ticks)}</text>"
        )
    parts.append(f"<line x1='{across.first}' x2='{across.last}' y1='{y}' y2='{y}' stroke='var(--line)'/>")
    return "".join(parts)


def _band(pool: CllCurve, across: Scale, up: Scale) -> str:
    """Mean ± standard deviation over draws of members."""
    if not all(map(math.isfinite, pool.std)):
        return ""
    ends = list(zip(pool.k, pool.mean, pool.std, strict=True))
    there = [f"{across(k):.1f},{up(m + s):.1f}" for k, m, s in ends]
    back = [f"{across(k):.1f},{up(m - s):.1f}" for k, m, s in reversed(ends)]
    return f"<polygon points='{' '.join([*there, *back])}' fill='var(--bar)' opacity='.15'/>"


# ---------------------------------------------------------------------------------------------------- parts
class _Rows:
    """A chart with a row for each label: as high as the labels, its left side as wide as they need."""

    def __init__(self, labels: list[list[str]]) -> None:
        self.left = GAP + max(width_of(label) for label in labels) + GAP
        heights = [max(ROW, LINE * len(label) + 8) for label in labels]
        self.bottom = sum(heights) + 8
        self.middles = [4 + sum(heights[:k]) + height / 2 for k, height in enumerate(heights)]

    def scale(self, values: list[float]) -> Scale:
        return Scale(values, self.left, self.left + PLOT)

    def figure(self, marks: list[str], scale: Scale, said: str) -> str:
        body = axis(scale, self.bottom, 4) + "".join(marks)
        return figure(body, self.left + PLOT + RIGHT, self.bottom + 24, said, said)
