"""Evaluations as tables: what is printed, shown in a notebook, and written by `--format`."""

from __future__ import annotations

import math
import textwrap

from calibrant.errors import plain
from calibrant.evaluation import rendering
from calibrant.evaluation.rendering import Table
from calibrant.evaluation.result import Evaluation, Result
from calibrant.registry.estimate import Estimate

ARROWS = {"lower": " ↓", "higher": " ↑"}
GROUP_METRICS = ("accuracy", "nll", "brier", "ece", "entropy", "mutual_information")
MOST_GROUP_COLUMNS = 6
FIELDS = ("value", "low", "high", "level", "method", "n", "null_low", "null_high", "p_value")


def number(value: float) -> str:
    """Four digits that count, in a fixed form."""
    if math.isnan(value):
        return "undefined"
    if math.isinf(value):
        return "infinite" if value > 0 else "−infinite"
    if value != 0 and not 1e-4 <= abs(value) < 1e5:
        return f"{value:.3g}".replace("-", "−")
    return f"{value:.4f}".replace("-", "−")


def span(low: float, high: float) -> str:
    """Both ends of an interval, or nothing."""
    return f"{number(low)} to {number(high)}" if math.isfinite(low) or math.isfinite(high) else ""


def main_table(evaluation: Evaluation, result: Result) -> Table:
    """One row a metric: value, interval, and what a calibrated model would give."""
    nulls = any(math.isfinite(e.null_high) for e in result.metrics.values())
    percent = f"{100 * float(evaluation.settings['level']):g} % interval"
    heads = ("metric", "value", percent) + (("if calibrated",) if nulls else ())
    rows = []
    for spec, e in result.metrics.items():
        row = (spec + _arrow(spec), number(e.value), span(e.low, e.high))
        rows.append(row + ((span(e.null_low, e.null_high),) if nulls else ()))
    return Table(_title(evaluation, result), heads, tuple(rows))


def group_table(result: Result, by: str) -> Table:
    """One row a group, the main metrics beside each other."""
    groups = [group for group in result.groups if group.by == by]
    known = list(groups[0].metrics)
    chosen = [m for m in GROUP_METRICS if m in known] or known
    chosen = chosen[:MOST_GROUP_COLUMNS]
    rows = [
        (
            str(group.value),
            str(group.n),
            *(_or_blank(group.metrics.get(metric)) for metric in chosen),
        )
        for group in groups
    ]
    return Table(f"by {by}", (by, "n", *(m + _arrow(m) for m in chosen)), tuple(rows))


def result_tables(evaluation: Evaluation, result: Result) -> list[Table]:
    """The tables of one input: its metrics, then its groups."""
    columns = dict.fromkeys(group.by for group in result.groups)
    return [main_table(evaluation, result), *(group_table(result, by) for by in columns)]


def tables(evaluation: Evaluation) -> list[Table]:
    """Every table of an evaluation, in order."""
    return [table for result in evaluation.results for table in result_tables(evaluation, result)]


def as_text(evaluation: Evaluation, width: int = 80) -> str:
    """All tables, what was skipped and the warnings, in plain text."""
    parts = []
    for result in evaluation.results:
        found = [rendering.text(table, width) for table in result_tables(evaluation, result)]
        found[0] += "".join(f"\n{line}" for line in _skipped(result, width))
        parts += found
    if evaluation.warnings:
        wrapped = (
            textwrap.wrap(f"note: {plain(note.message)}", width, subsequent_indent="  ") for note in evaluation.warnings
        )
        parts.append("\n".join(line for lines in wrapped for line in lines))
    return "\n\n".join(parts)


def _skipped(result: Result, width: int) -> list[str]:
    """What was left out, by reason."""
    reasons: dict[str, list[str]] = {}
    for name, why in result.skipped.items():
        reasons.setdefault(plain(why), []).append(plain(name))
    said = "; ".join(f"{', '.join(names)} ({why})" for why, names in reasons.items())
    return textwrap.wrap(f"skipped: {said}", width, subsequent_indent="  ") if said else []


def as_markdown(evaluation: Evaluation) -> str:
    """All tables in Markdown."""
    return "\n\n".join(rendering.markdown(table) for table in tables(evaluation))


def as_latex(evaluation: Evaluation) -> str:
    """All tables in LaTeX."""
    return "\n\n".join(rendering.latex(table) for table in tables(evaluation))


def as_csv(evaluation: Evaluation) -> str:
    """One row per input, group and metric, with full precision."""
    heads = ("input", "by", "group", "metric", *FIELDS)
    rows: list[tuple[object, ...]] = []
    for result in evaluation.results:
        rows += [(result.input, "", "", spec, *_fields(e)) for spec, e in result.metrics.items()]
        for group in result.groups:
            where = (result.input, group.by, group.value)
            rows += [(*where, spec, *_fields(e)) for spec, e in group.metrics.items()]
    return rendering.as_csv(heads, rows)


def as_html(evaluation: Evaluation) -> str:
    """All tables as HTML, without a page around them."""
    return "".join(rendering.as_html(table) for table in tables(evaluation))


def _fields(e: Estimate) -> tuple[object, ...]:
    values = (getattr(e, name) for name in FIELDS)
    return tuple("" if isinstance(v, float) and math.isnan(v) else v for v in values)


def _title(evaluation: Evaluation, result: Result) -> str:
    facts = next(item for item in evaluation.inputs if item["name"] == result.input)
    parts = [result.input, f"{facts['n']} rows"]
    if facts["members"] > 1:
        parts.append(f"{facts['members']} members")
    if "classes" in facts:
        parts.append(f"{facts['classes']} classes")
    return " · ".join(parts)


def _arrow(spec: str) -> str:
    from calibrant.registry import find

    return ARROWS.get(find(spec.partition("(")[0]).direction, "")


def _or_blank(e: Estimate | None) -> str:
    return "" if e is None else number(e.value)
