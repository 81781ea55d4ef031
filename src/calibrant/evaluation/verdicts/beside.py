"""What stands beside a verdict on all rows of an input: its groups, its shift, and notes on it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from calibrant.checks.check import Check
from calibrant.errors import plain
from calibrant.evaluation.passing import PassTable
from calibrant.evaluation.result import Evaluation, Group, Result
from calibrant.evaluation.shift import ACROSS, Summary
from calibrant.evaluation.verdicts.calibration import beyond_chance, named
from calibrant.evaluation.verdicts.records import Point, Tone, has_interval, percent
from calibrant.evaluation.wording import number, span
from calibrant.predictions.base import Note
from calibrant.registry.estimate import Estimate

CALIBRATION = ("ece", "ks", "mace", "tce")
"""Errors by which the worst group is found, the first that groups have."""
RISES = 0.5
"""A rank correlation from which something is said to go with severity."""
FALSE_DISCOVERIES = 0.05
"""Of checks: the share of false ones among the groups that are named."""
NAME = 40


def beside(evaluation: Evaluation, result: Result) -> tuple[Point, ...]:
    """The points on groups, shift and notes of one input."""
    points = [point for by in _columns(result) for point in _groups(evaluation, result, by)]
    points += [p for summary in evaluation.shift if summary.input == result.input for p in shift_points(summary)]
    tables = [table for table in evaluation.passed if table.input == result.input]
    points += passed_points(tables, str(evaluation.settings.get("rule", "interval")))
    return (*points, *_infinite(evaluation.warnings, result))


# ------------------------------------------------------------------------------------------------- groups
def _columns(result: Result) -> list[str]:
    return list(dict.fromkeys(group.by for group in result.groups))


def _groups(evaluation: Evaluation, result: Result, by: str) -> list[Point]:
    groups = [group for group in result.groups if group.by == by]
    if groups and groups[0].checks:
        return _checked_groups(groups, by)
    spec = next((name for name in CALIBRATION if all(name in group.metrics for group in groups)), None)
    if spec is None:
        return []
    found = [(group, group.metrics[spec]) for group in groups if math.isfinite(group.metrics[spec].value)]
    if len(found) < 2:
        return []
    if any(math.isfinite(e.q_value) for _, e in found):
        most = round(0.5 - float(evaluation.settings["level"]) / 2, 6)
        return [_corrected(found, spec, by, most)]
    return [_uncorrected(found, spec, by)]


def _called(group: Group) -> str:
    return plain(str(group.value), NAME)


def _corrected(found: Sequence[tuple[Group, Estimate]], spec: str, by: str, most: float) -> Point:
    """Groups that are off when all groups are counted (Benjamini & Hochberg), the worst of them named."""
    off = [(group, e) for group, e in found if e.q_value < most]
    column = plain(by, NAME)
    if not off:
        return Point(
            "good", "groups",
            f"none of {len(found)} groups by {column} is off beyond chance, all of them counted (q ≥ {most:g})",
        )  # fmt: skip
    group, e = max(off, key=lambda pair: pair[1].value)
    worst = f"{column} {_called(group)}: {named(spec)} {number(e.value)}, {span(e.null_low, e.null_high)} if calibrated"
    text = f"{len(off)} of {len(found)} groups by {column} are off beyond chance (q < {most:g}), most {worst}"
    return Point("warn", "groups", text, (f"{spec} {number(e.value)}, q {e.q_value:.3g}",))


def _uncorrected(found: Sequence[tuple[Group, Estimate]], spec: str, by: str) -> Point:
    group, e = max(found, key=lambda pair: pair[1].value)
    ends = f" ({span(e.low, e.high)}, not corrected for {len(found)} groups)" if has_interval(e) else ""
    shown = bool(beyond_chance(e))
    text = f"{named(spec)} is largest where {plain(by, NAME)} is {_called(group)}: {number(e.value)}{ends}"
    return Point("warn" if shown else "neutral", "groups", text, (f"{spec} {number(e.value)}",))


def _checked_groups(groups: Sequence[Group], by: str) -> list[Point]:
    """Groups that surprise the model when all groups are counted."""
    off: list[tuple[float, Group, str]] = []
    for group in groups:
        known: Mapping[str, Check] = group.checks
        found = [(check.q_value, key) for key, check in known.items() if check.q_value < FALSE_DISCOVERIES]
        off += [(min(found)[0], group, min(found)[1])] if found else []
    column = plain(by, NAME)
    if not off:
        return [Point("good", "groups", f"none of {len(groups)} groups by {column} surprises it, all of them counted")]
    _, group, key = min(off, key=lambda item: item[0])
    text = f"{len(off)} of {len(groups)} groups by {column} surprise it (q < {FALSE_DISCOVERIES:g})"
    return [Point("warn", "groups", f"{text}, most of all {column} {_called(group)} by its {key}")]


# -------------------------------------------------------------------------------------------------- shift
def shift_points(summary: Summary) -> list[Point]:
    """How accuracy, calibration and uncertainty go with severity."""
    if len(summary.severities) < 2:
        return []
    first, last = summary.severities[0], summary.severities[-1]
    moves = [_move(summary, spec, first, last) for spec in ("accuracy", "ece", "mse", "mace") if spec in summary.specs]
    moves = [move for move in moves if move]
    out = []
    if moves:
        grows = [spec for spec in ("ece", "mace") if spec in summary.specs and summary.rho(spec) > RISES]
        worse = bool(grows) and summary.at(grows[0], last)["mean"] > summary.at(grows[0], first)["mean"]
        tone: Tone = "warn" if worse else "neutral"
        out.append(Point(tone, "shift", f"from severity {first:g} to {last:g} {' and '.join(moves)}"))
    return out + _uncertain(summary)


def _move(summary: Summary, spec: str, first: float, last: float) -> str:
    before, after = (summary.at(spec, severity)["mean"] for severity in (first, last))
    if not math.isfinite(before + after):
        return ""
    how = "rises" if after > before else "falls" if after < before else "stays"
    shown = (percent(before), percent(after)) if spec == "accuracy" else (number(before), number(after))
    return (
        f"{named(spec)} {how} from {shown[0]} to {shown[1]}" if how != "stays" else f"{named(spec)} stays at {shown[0]}"
    )


def _uncertain(summary: Summary) -> list[Point]:
    """Whether uncertainty grows where the data are stranger."""
    spec = next((name for name in ("entropy", "width", "sharpness") if name in summary.specs), None)
    rho = math.nan if spec is None else summary.rho(spec)
    if math.isnan(rho):
        return []
    count = f"over {len(summary.severities)} severities (Spearman's ρ {rho:.2f})".replace("-", "−")
    if rho > RISES:
        return [Point("good", "shift", f"its uncertainty ({spec}) grows with severity {count}")]
    how = "falls" if rho < -RISES else "does not grow"
    return [Point("bad" if rho < -RISES else "warn", "shift", f"its uncertainty ({spec}) {how} with severity {count}")]


def passed_points(tables: Sequence[PassTable], rule: str) -> list[Point]:
    """How many types of shift pass at the lowest and at the highest severity."""
    out = []
    for table in tables[:1]:
        if len(table.severities) < 2:
            continue
        ends = [_passed(table, severity, rule) for severity in (table.severities[0], table.severities[-1])]
        if not all(total for _, total in ends):
            continue
        said = [f"{good} of {total} at severity {s:g}" for (good, total), s in
                zip(ends, (table.severities[0], table.severities[-1]), strict=True)]  # fmt: skip
        tone: Tone = "good" if ends[1][0] == ends[1][1] else "warn"
        out.append(Point(tone, "shift", f"checks that pass, over types and statistics: {', '.join(said)}"))
    return out


def _passed(table: PassTable, severity: float, rule: str) -> tuple[int, int]:
    found = [table.passed(key, severity, rule) for key in table.keys]
    return sum(good for good, _ in found), sum(total for _, total in found)


def across(evaluation: Evaluation) -> list[Point]:
    """The points on shift where each input is a cell of it."""
    points = [p for summary in evaluation.shift if summary.input == ACROSS for p in shift_points(summary)]
    tables = [table for table in evaluation.passed if table.input == ACROSS]
    return points + passed_points(tables, str(evaluation.settings.get("rule", "interval")))


# -------------------------------------------------------------------------------------------------- notes
def _infinite(notes: Sequence[Note], result: Result) -> list[Point]:
    """Rows that were held impossible and came true, said plainly."""
    out = []
    for note in notes:
        rest = note.message.removeprefix(f"{result.input}: ")
        count = re.match(r"(\d+) rows", rest)
        if note.code == "infinite-nll" and rest != note.message and count:
            rows = f"{count[1]} row{'s' * (count[1] != '1')}"
            text = f"{rows} {'have' if count[1] != '1' else 'has'} probability 0 for what came true: NLL is infinite"
            out.append(Point("bad", "impossible", text))
    if not out and (e := result.metrics.get("nll")) is not None and math.isinf(e.value):
        out.append(Point("bad", "impossible", "some rows have probability 0 for what came true: NLL is infinite"))
    return out
