"""Posterior predictive checks as box plots with the observed value as a cross (figures 5 and 6 of Gopal 2021)."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping

from calibrant.checks.check import Check
from calibrant.checks.plan import INDEPENDENT
from calibrant.checks.reading import digits, sentence
from calibrant.errors import plain
from calibrant.evaluation import rendering
from calibrant.evaluation.check_tables import check_tables, temperature_lines
from calibrant.evaluation.result import Evaluation, Result

LEFT, WIDTH, ROW = 110, 420, 34
CAPTION = (
    "Boxes: the middle half of what the model expects; whiskers: 5 % to 95 %; thin line: all replicates. The cross is "
    "what was observed: outside the line, the model did not see it coming."
)


def check_section(evaluation: Evaluation, result: Result) -> str:
    """The tables of an input's checks, the box plots, and what they say."""
    first = "independent" if evaluation.settings["members"] == INDEPENDENT else "Bayesian"
    figures = [
        _figure(key, checks, str(evaluation.settings["rule"]))
        for key, check in result.checks.items()
        if (checks := {first: check} | ({"independent": result.independent[key]} if result.independent else {}))
        and all(map(_can_be_drawn, checks.values()))
    ]
    tables = "".join(rendering.as_html(table) for table in check_tables(evaluation, result))
    lines = [*result.reading, *temperature_lines(evaluation, result)]
    said = "".join(f"<li>{html.escape(plain(line))}</li>" for line in lines)
    caption = f"<p class='note'>{CAPTION}</p>" if figures else ""
    return f"<ul>{said}</ul>{''.join(figures)}{caption}{tables}"


def _can_be_drawn(check: Check) -> bool:
    return all(map(math.isfinite, (check.observed, check.min, check.q05, check.q25, check.q50, check.q75, check.max)))


def _figure(key: str, checks: Mapping[str, Check], rule: str) -> str:
    ends = [x for c in checks.values() for x in (c.min, c.max, c.observed) if math.isfinite(x)]
    low, high = min(ends), max(ends)
    pad = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    low, high = low - pad, high + pad

    def at(value: float) -> float:
        return LEFT + WIDTH * (min(max(value, low), high) - low) / (high - low)

    rows = "".join(_box(name, check, 14 + ROW * k, at) for k, (name, check) in enumerate(checks.items()))
    height = 14 + ROW * len(checks)
    ticks = "".join(
        f"<text x='{at(x):.1f}' y='{height + 16}' text-anchor='middle'>{digits(x)}</text>"
        for x in (low + pad, 0.5 * (low + high), high - pad)
    )
    axis = f"<line x1='{LEFT}' x2='{LEFT + WIDTH}' y1='{height}' y2='{height}' stroke='var(--line)'/>"
    label = html.escape(
        "; ".join(f"{name}: {sentence(key, check, rule)}" for name, check in checks.items()), quote=True
    )
    return (
        f"<figure><figcaption><b>{html.escape(plain(key))}</b></figcaption><svg viewBox='0 0 {LEFT + WIDTH + 20} {height + 24}' width='{LEFT + WIDTH + 20}' role='img' "
        f"aria-label='{label}'>{rows}{axis}{ticks}</svg></figure>"
    )


def _box(name: str, check: Check, y: float, at) -> str:  # type: ignore[no-untyped-def]
    middle, x = y + 10, at(check.observed)
    left, right = at(check.q25), at(check.q75)
    cross = "".join(
        f"<line x1='{x - 5:.1f}' x2='{x + 5:.1f}' y1='{middle - 5 * s}' y2='{middle + 5 * s}' stroke='var(--gap)' stroke-width='3'/>"
        for s in (1, -1)
    )
    return (
        f"<g><title>{html.escape(name)}: observed {digits(check.observed)}, p {check.p_value:.3f}</title>"
        f"<text x='{LEFT - 8}' y='{middle + 4}' text-anchor='end'>{html.escape(name)}</text>"
        f"<line x1='{at(check.min):.1f}' x2='{at(check.max):.1f}' y1='{middle}' y2='{middle}' stroke='var(--line)'/>"
        f"<line x1='{at(check.q05):.1f}' x2='{at(check.q95):.1f}' y1='{middle}' y2='{middle}' stroke='var(--bar)' stroke-width='2'/>"
        f"<rect x='{left:.1f}' y='{y}' width='{max(right - left, 1):.1f}' height='20' fill='var(--bar)' opacity='.5'/>"
        f"<line x1='{at(check.q50):.1f}' x2='{at(check.q50):.1f}' y1='{y}' y2='{y + 20}' stroke='var(--ink)'/>{cross}</g>"
    )
