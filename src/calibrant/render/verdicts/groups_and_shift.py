"""Findings on parts of an input: its groups and its shift severities."""

from __future__ import annotations

import math
from collections.abc import Sequence

from calibrant.errors import plain
from calibrant.registry.estimate import Estimate
from calibrant.registry.lookup import metric_label, parse, with_role
from calibrant.render.evaluation import false_discovery_rate, of_positive_class, verdict_error
from calibrant.render.formatting import format_interval, format_number, format_percent
from calibrant.render.verdicts.model import Point, Tone, has_interval, is_significant
from calibrant.results.evaluation import Evaluation, Group, Result
from calibrant.results.pass_rates import PassTable
from calibrant.results.shift import ACROSS, ShiftSummary

CORRELATED = 0.5
"""A rank correlation from which something is said to change with severity."""
CHECK_FDR = 0.05
"""False discovery rate of group checks."""
MAX_NAME = 40


def context_points(evaluation: Evaluation, result: Result) -> tuple[Point, ...]:
    """The points on groups and shift of one input."""
    points = []
    for by in dict.fromkeys(group.by for group in result.groups):
        groups = [group for group in result.groups if group.by == by]
        points += _group_points(evaluation, result, groups, plain(by, MAX_NAME))
    return (*points, *_shift(evaluation, result.input, result))


def shift_across_inputs(evaluation: Evaluation) -> list[Point]:
    """The points on shift where each input is one cell of it."""
    return _shift(evaluation, ACROSS, next(iter(evaluation.results), None))


# ------------------------------------------------------------------------------------------------- groups
def _group_points(evaluation: Evaluation, result: Result, groups: Sequence[Group], column: str) -> list[Point]:
    if groups[0].checks:
        return [_checked_groups(groups, column)]
    spec = verdict_error(result, set.intersection(*(set(group.metrics) for group in groups)))
    if spec is None:
        return []
    errors = [(group, group.metrics[spec]) for group in groups if math.isfinite(group.metrics[spec].value)]
    if len(errors) < 2:
        return []
    if any(math.isfinite(e.q_value) for _, e in errors):
        return [_corrected(errors, spec, column, false_discovery_rate(evaluation))]
    group, e = max(errors, key=lambda pair: pair[1].value)
    interval = ""
    if has_interval(e):
        interval = f" ({format_interval(e.low, e.high)}, not corrected for {len(errors)} groups)"
    text = f"{metric_label(spec)} is largest for {_name(column, group)}: {format_number(e.value)}{interval}"
    return [Point("warn" if is_significant(e) else "neutral", "groups", text, (f"{spec} {format_number(e.value)}",))]


def _name(column: str, group: Group) -> str:
    return f"{column} = {plain(str(group.value), MAX_NAME)}"


def _corrected(errors: Sequence[tuple[Group, Estimate]], spec: str, column: str, rate: float) -> Point:
    """Groups that stay significant after correction for multiple testing, and the worst of them."""
    significant = [(group, e) for group, e in errors if e.q_value < rate]
    if not significant:
        text = f"none of {len(errors)} groups by {column} is significantly miscalibrated (q ≥ {rate:g})"
        return Point("good", "groups", text)
    group, e = max(significant, key=lambda pair: pair[1].value)
    verb = "is" if len(significant) == 1 else "are"
    worst = f"worst: {_name(column, group)}, {metric_label(spec)} {format_number(e.value)}"
    band = f"({format_interval(e.null_low, e.null_high)} if calibrated)"
    head = f"{len(significant)} of {len(errors)} groups by {column} {verb} significantly miscalibrated (q < {rate:g})"
    return Point("warn", "groups", f"{head}; {worst} {band}", (f"{spec} {format_number(e.value)}, q {e.q_value:.3g}",))


def _checked_groups(groups: Sequence[Group], column: str) -> Point:
    """Groups that fail a check after correction for multiple testing."""
    failed = [
        (check.q_value, place, key)
        for place, group in enumerate(groups)
        for key, check in group.checks.items()
        if check.q_value < CHECK_FDR
    ]
    if not failed:
        return Point("good", "groups", f"none of {len(groups)} groups by {column} fails a check (q ≥ {CHECK_FDR:g})")
    number = len({place for _, place, _ in failed})
    _, place, key = min(failed)
    verb = "fails" if number == 1 else "fail"
    text = f"{number} of {len(groups)} groups by {column} {verb} a check (q < {CHECK_FDR:g})"
    return Point("warn", "groups", f"{text}; worst: {_name(column, groups[place])} on {key}")


# -------------------------------------------------------------------------------------------------- shift
def _shift(evaluation: Evaluation, name: str, result: Result | None) -> list[Point]:
    out = []
    for summary in evaluation.shift:
        if summary.input == name and len(summary.severities) > 1:
            out += [*_trends(summary, result), *_uncertainty_trend(summary)]
    tables = [table for table in evaluation.passed if table.input == name]
    return out + _passed_checks(tables[:1], str(evaluation.settings.get("rule", "interval")))


def _trends(summary: ShiftSummary, result: Result | None) -> list[Point]:
    """How accuracy and calibration change from the lowest to the highest severity."""
    first, last = summary.severities[0], summary.severities[-1]
    specs = of_positive_class(with_role("shift_trend"), result, summary.specs)
    trends = []
    for spec in specs:
        before, after = (summary.at(spec, severity)["mean"] for severity in (first, last))
        if not math.isfinite(before + after):
            continue
        write = format_percent if parse(spec).metric.direction == "higher" else format_number
        verb = "rises" if after > before else "falls"
        change = f"stays at {write(before)}" if after == before else f"{verb} from {write(before)} to {write(after)}"
        trends.append(f"{metric_label(spec)} {change}")
    if not trends:
        return []
    errors = [spec for spec in specs if parse(spec).metric.name in with_role("verdict_error")]
    growing = [spec for spec in errors if summary.rho(spec) > CORRELATED]
    worse = bool(growing) and summary.at(growing[0], last)["mean"] > summary.at(growing[0], first)["mean"]
    text = f"from severity {first:g} to {last:g}, {' and '.join(trends)}"
    return [Point("warn" if worse else "neutral", "shift", text)]


def _uncertainty_trend(summary: ShiftSummary) -> list[Point]:
    """Whether uncertainty grows with severity, as it should."""
    spec = next((name for name in with_role("shift_uncertainty") if name in summary.specs), None)
    rho = math.nan if spec is None else summary.rho(spec)
    if math.isnan(rho):
        return []
    verb, tone = "does not grow", "warn"
    if abs(rho) > CORRELATED:
        verb, tone = ("grows", "good") if rho > 0 else ("falls", "bad")
    detail = f"(Spearman ρ {rho:.2f} over {len(summary.severities)} severities)".replace("-", "−")
    return [Point(tone, "shift", f"uncertainty ({spec}) {verb} with severity {detail}")]  # type: ignore[arg-type]


def _passed_checks(tables: Sequence[PassTable], rule: str) -> list[Point]:
    """How many checks pass at the lowest and at the highest severity."""
    out = []
    for table in tables:
        if len(table.severities) < 2:
            continue
        ends = (table.severities[0], table.severities[-1])
        counts = []
        for severity in ends:
            passed = [table.passed(key, severity, rule) for key in table.keys]
            counts.append((sum(good for good, _ in passed), sum(total for _, total in passed)))
        if not all(total for _, total in counts):
            continue
        texts = [f"{good} of {total} at severity {s:g}" for (good, total), s in zip(counts, ends, strict=True)]
        tone: Tone = "good" if counts[1][0] == counts[1][1] else "warn"
        out.append(Point(tone, "shift", f"checks passed over shift types and statistics: {', '.join(texts)}"))
    return out
