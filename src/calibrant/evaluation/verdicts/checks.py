"""Verdicts on posterior predictive checks: whether the model expected what was observed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calibrant.checks.check import AS_EXPECTED, UNKNOWN
from calibrant.evaluation.result import Result
from calibrant.evaluation.verdicts.records import InputVerdict, Point, Tone, headline, rows_of, worst
from calibrant.evaluation.wording import number, span

MOST = 3
"""Statistics that a headline names."""
SHOWN = 5
"""Statistics that have a point of their own."""


def check_verdict(result: Result, settings: Mapping[str, Any], others: tuple[Point, ...]) -> InputVerdict:
    """The checks of one input by the rule that was asked for."""
    rule = str(settings["rule"])
    found = {key: check.surprise(rule) for key, check in result.checks.items()}
    known = {key: how for key, how in found.items() if how != UNKNOWN}
    off = [key for key, how in known.items() if how != AS_EXPECTED]
    points = [*_count(result, known, off), *(_surprise(result, key, rule) for key in off[:SHOWN])]
    points += [*_close(result), *_read(result)]
    sure = [key for key in off if not result.checks[key].close]
    word = "surprised" if sure else "not settled" if off else "as expected" if known else "not judged"
    every = (*points, *others)
    tone: Tone = "neutral" if not known else "bad" if 2 * len(off) > len(known) else "warn" if off else "good"
    tone = worst([tone, *(point.tone for point in every)])
    return InputVerdict(result.input, _headline(known, off, sure), tone, every, word)


def _headline(known: Mapping[str, str], off: list[str], sure: list[str]) -> str:
    if not known:
        return "No check has a value"
    if not off:
        return headline(f"What was observed is what the model expects: {len(known)} of {len(known)} checks pass")
    named = ", ".join(off) if len(off) <= MOST else f"{', '.join(off[:MOST])} and {len(off) - MOST} more"
    if not sure:
        return headline(
            f"Not settled by these draws whether the model expects its {named}; the rest it does",
            "Not settled by these draws whether the model expects what was observed",
        )
    return headline(
        f"The model is surprised by {named}",
        f"The model is surprised by {len(off)} of {len(known)} statistics",
    )


def _count(result: Result, known: Mapping[str, str], off: list[str]) -> list[Point]:
    """How many are off, where some are: that none is stands in the headline."""
    if not off:
        return []
    n = max((check.n for check in result.checks.values()), default=0)
    are = "is" if len(off) == 1 else "are"
    text = f"{len(off)} of {len(known)} statistics of {rows_of(n)} {are} not what the model expects"
    return [Point("bad" if 2 * len(off) > len(known) else "warn", "checks", text)]


def _surprise(result: Result, key: str, rule: str) -> Point:
    """What was observed instead of what was expected, and what that means."""
    check = result.checks[key]
    ends = span(check.q025, check.q975) if rule == "interval" else span(check.min, check.max)
    than = "more" if check.surprise(rule) == "higher" else "less"
    plain = f"{key}: {number(check.observed)} was observed, {than} than the {ends} that it expects"
    text = next((line for line in result.reading if line.startswith(f"{key}: ")), plain)
    return Point("warn", "surprise", text, (f"{key} {number(check.observed)}; expected {ends}",))


def _read(result: Result) -> list[Point]:
    """What the checks say together: beside calibration error, and of the readings of the members."""
    each = tuple(f"{key}: " for key in result.checks)
    tone: Tone = "warn" if result.supported == "neither" else "neutral"
    lines = [line for line in result.reading if not line.startswith(each)]
    return [Point(tone if k == len(lines) - 1 else "neutral", "members", line) for k, line in enumerate(lines)]


def _close(result: Result) -> list[Point]:
    close = [key for key, check in result.checks.items() if check.close]
    if not close:
        return []
    return [Point("neutral", "close calls", f"{', '.join(close)}: a close call, which more draws might turn")]
