"""Evaluations as tables, remarks, CSV and HTML: what is printed, shown in a notebook and written by `--format`."""

from __future__ import annotations

import html
import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from calibrant.errors import plain
from calibrant.intervals import APPROXIMATE
from calibrant.registry.estimate import Estimate
from calibrant.registry.lookup import SETS, by_default, families, find, metric_label, parse, spec_texts, with_role
from calibrant.registry.metric import Skipped, Spec
from calibrant.render import checks, comparison
from calibrant.render import table as rendering
from calibrant.render.comparison_text import comparison_legend, comparison_lines
from calibrant.render.formatting import (
    blank_if_nan,
    count,
    format_interval,
    format_level,
    format_number,
    format_short,
    input_title,
)
from calibrant.render.recalibration import describe_improvement, gain_rows, recalibration_tables
from calibrant.render.table import Bar, Table
from calibrant.render.verdicts.calibration_text import UNCORRECTED
from calibrant.results.error_hierarchy import ErrorHierarchy
from calibrant.results.evaluation import CHECK, COMPARISON, EVALUATION, RECALIBRATION, Evaluation, Result
from calibrant.results.sample_size import NUMBERS, SampleSizeCurves
from calibrant.results.shift import QUARTILES

ARROWS = {"lower": " ↓", "higher": " ↑"}
MAX_GROUP_COLUMNS = 6
MAX_UNGROUPED = 12
"""Metrics from which a table separates families."""
MAX_SIZES = 5
MARK = " *"
"""Marks values of groups that stay significant after correction for multiple testing."""
FIELDS = ("value", "low", "high", "level", "method", "n", "null_low", "null_high", "p_value", "detectable", "q_value")
SIZE_FIELDS = (*NUMBERS[1:], "undefined")
LINKS = {"must": "must hold", "limit": "holds in the limit", "may cross": "not guaranteed"}
"""The kinds of inequality between calibration errors, in words."""


def with_arrow(spec: str) -> str:
    """A metric with the arrow of its better direction."""
    return spec + ARROWS.get(find(spec.partition("(")[0]).direction, "")


# ------------------------------------------------------------------------------------------------- tables
def tables(evaluation: Evaluation) -> list[Table]:
    """Every table of an evaluation, in order."""
    if evaluation.kind == COMPARISON:
        return comparison.comparison_tables(evaluation)
    out = []
    if not evaluation.across_inputs:
        out += recalibration_tables(evaluation) if evaluation.kind == RECALIBRATION else []
        for result in evaluation.results:
            if result.is_check:
                out += checks.check_tables(evaluation, result)
                continue
            out += [main_table(evaluation, result)]
            out += [hierarchy_table(result.input, result.ladder)] if result.ladder else []
            out += [group_table(evaluation, result, by) for by in dict.fromkeys(group.by for group in result.groups)]
    out += shift_tables(evaluation)
    out += map(size_table, evaluation.sizes)
    return out + (checks.pass_rate_tables(evaluation) if evaluation.passed else [])


def main_table(evaluation: Evaluation, result: Result) -> Table:
    """One row per metric: value, interval, and the range of a calibrated model."""
    has_bands = any(math.isfinite(e.null_high) for e in result.metrics.values())
    heads: tuple[str, ...] = ("metric", "value", format_level(float(evaluation.settings["level"])))
    heads += ("if calibrated",) if has_bands else ()
    specs, breaks = list(result.metrics), frozenset[int]()
    if len(specs) > MAX_UNGROUPED:
        place = {spec: families().index(find(spec.partition("(")[0]).family) for spec in specs}
        specs.sort(key=place.__getitem__)
        breaks = frozenset(k for k in range(1, len(specs)) if place[specs[k]] != place[specs[k - 1]])
    rows: dict[bool, list[tuple[str, ...]]] = {False: [], True: []}
    for spec, short in itertools.product(specs, rows):  # few digits leave room for a bar
        e = result.metrics[spec]
        mark = (APPROXIMATE_MARK.strip() if short else APPROXIMATE_MARK) * is_approximate(e)
        value = format_short(e.value) if short else format_number(e.value)
        interval, band = (format_interval(*x, short=short) for x in ((e.low, e.high), (e.null_low, e.null_high)))
        band += INSIGNIFICANT * (not short and spec in insignificant(result))
        rows[short].append((with_arrow(spec), value, interval + mark, band)[: len(heads)])
    bars = tuple(Bar(e.value, e.low, e.high, e.null_low, e.null_high) for e in map(result.metrics.__getitem__, specs))
    title = input_title(evaluation, result)
    return Table(title, heads, tuple(rows[False]), breaks=breaks, bars=bars, short=tuple(rows[True]))


INSIGNIFICANT = " †"
"""Follows the range of a value above it that is not significant after correction for the tests of the verdict."""


def insignificant(result: Result) -> list[str]:
    """Metrics whose value lies outside its range, but not significantly after correction."""
    tests = () if result.verdict is None else result.verdict.evidence
    return [test.metric for test in tests if test.p_value < UNCORRECTED and not test.rejected
            and test.metric in result.metrics and math.isfinite(test.estimate.null_high)]  # fmt: skip


def hierarchy_table(name: str, ladder: ErrorHierarchy) -> Table:
    """One row per inequality: whether theory guarantees it, and whether it holds here."""
    rows = tuple((s.inequality, LINKS[s.link.kind], "holds" if s.holds else "does not hold") for s in ladder.standings)
    title = " · ".join(filter(None, (name, "error hierarchy: inequalities between calibration errors")))
    return Table(title, ("inequality", "theory", "here"), rows, left=3)


def hierarchy_lines(ladder: ErrorHierarchy, prefix: str = "") -> list[str]:
    """Why an inequality does not hold, and what each error of 0 would and would not imply."""
    lines = [f"{prefix}{s.inequality} does not hold here: {s.link.why}" for s in ladder.standings if not s.holds]
    for rung in ladder.rungs:
        without = f"; it does not imply that {rung.not_zero}" if rung.not_zero else ""
        lines.append(f"{rung.symbol} = 0: {rung.zero}{without}")
    return lines


def _select(evaluation: Evaluation, result: Result | None, specs: list[str]) -> list[str]:
    """The metrics that were requested by name; of a default or all, the main ones."""
    requested = evaluation.settings["metrics"]
    if requested != "all" and not by_default(requested):
        return specs
    return of_positive_class(with_role("group_column"), result, specs) or specs


def of_positive_class(names: Iterable[str], result: Result | None, available: Collection[str]) -> list[str]:
    """The available ones of these metrics; of binary predictions those of the positive class, as in the verdict."""
    tested = [test.metric for test in (result.verdict.evidence if result and result.verdict else ())]
    options = next((spec[spec.index("(") :] for spec in tested if "(of=" in spec), "")
    specs = [name + options if name + options in available else name for name in names]
    return [spec for spec in specs if spec in available]


def verdict_error(result: Result, available: Collection[str], task: str = "") -> str | None:
    """The calibration error to show among the available metrics: of binary predictions that of the positive class."""
    specs = of_positive_class(with_role("verdict_error", task), result, available)
    return min(specs, key=lambda spec: "(of=" not in spec, default=None)


def group_table(evaluation: Evaluation, result: Result, by: str) -> Table:
    """One row per group, with the requested or the main metrics as columns."""
    groups = [group for group in result.groups if group.by == by]
    rate, every = false_discovery_rate(evaluation), list(groups[0].metrics)
    selected = _select(evaluation, result, every)
    specs = selected[:MAX_GROUP_COLUMNS]
    rows = []
    for group in groups:
        estimates = [group.metrics.get(spec) for spec in specs]
        cells = ["" if e is None else format_number(e.value) + MARK * (e.q_value < rate) for e in estimates]
        rows.append((str(group.value), str(group.n), *cells))
    hidden = len(selected) - len(specs) if selected == every else 0
    title = f"by {by}" + (f" ({hidden} more in the JSON)" if hidden else "")
    if any(cell.endswith(MARK) for row in rows for cell in row):
        title += f"; {MARK.strip()} significantly miscalibrated (q < {rate:g})"
    return Table(title, (by, "n", *map(with_arrow, specs)), tuple(rows))


def shift_tables(evaluation: Evaluation) -> list[Table]:
    """One table per metric: mean and quartiles over shift types at each severity, and over all of them."""
    out = []
    by_input = {result.input: result for result in evaluation.results}
    for summary in evaluation.shift:
        result = by_input.get(summary.input) or next(iter(by_input.values()), None)  # one summary may be of all inputs
        for spec in _select(evaluation, result, summary.specs)[:MAX_GROUP_COLUMNS]:
            rho = summary.rho(spec)
            trend = f"Spearman ρ {format_number(rho)}" if math.isfinite(rho) else "no rank correlation"
            lines = [(f"{severity:g}", summary.at(spec, severity)) for severity in summary.severities]
            lines.append(("all shifted", summary.shifted(spec)))
            rows = tuple(
                (name, str(int(stats["types"])), *(format_number(stats[key]) for key in ("mean", *QUARTILES)))
                for name, stats in lines
            )
            title = f"{summary.input} · {with_arrow(spec)} over {count(len(summary.types), 'shift type')} · {trend}"
            out.append(Table(title, ("severity", "types", "mean", *QUARTILES), rows))
    return out


def size_table(item: SampleSizeCurves) -> Table:
    """The mean of every metric at some test set sizes, with its standard deviation below."""
    paired, last = item.after is not None, len(item.sizes) - 1
    shown = sorted({int(k * last / (MAX_SIZES - 1) + 0.5) for k in range(MAX_SIZES)})
    ratios, rows = item.ratios(), []
    for spec, curve in (item.improvement if paired else item.specs).items():
        ratio = f"{ratios[spec]:.2f}".replace("-", "−") if math.isfinite(ratios[spec]) else ""
        name = spec if paired else with_arrow(spec)
        rows.append((name, *(format_number(curve.mean[k]) for k in shown), ratio))
        rows.append(("  ±", *(format_number(curve.sd[k]) if math.isfinite(curve.sd[k]) else "" for k in shown), ""))
    subject = f"improvement from {item.input} to {item.after}" if paired else item.input
    title = f"{subject} by test set size · mean ± sd of {item.repeats} subsets"
    heads = ("metric", *(str(item.sizes[k]) for k in shown), "share" if paired else "drift")
    return Table(title, heads, tuple(rows))


# ------------------------------------------------------------------------------------------------ remarks
def remarks(evaluation: Evaluation) -> list[str]:
    """Caveats, what was skipped and why, notes and gates: everything below the tables."""
    several, across = len(evaluation.results) > 1, evaluation.across_inputs
    out: list[str] = []
    for result in evaluation.results:
        name = plain(result.input)
        prefix = f"{name}: " * several
        if not across:
            out += [prefix + line for line in top_label_notes(evaluation, result)] + caveats(result)
            out += hierarchy_lines(result.ladder, prefix) if result.ladder else []
            temperatures = checks.temperature_lines(evaluation, result) if result.is_check else []
            out += [prefix + plain(line) for line in temperatures]
        skipped = [f"{', '.join(names)} ({why})" for why, names in by_reason(result.skipped).items()]
        out += [f"skipped{f' for {name}' * several}: {'; '.join(skipped)}"] if skipped else []
    out += describe_improvement(evaluation.improvement) if evaluation.improvement else []
    for item in evaluation.sizes:
        name = f" of {plain(item.input)}" * (len(evaluation.sizes) > 1)
        out += [f"test set size{name}: {item.reading()}"] if item.reading() else []
    out += [log_line(item) for item in evaluation.inputs if "log" in item]
    out += [f"note: {plain(note.message)}" for note in evaluation.warnings]
    return out + [str(item) for item in evaluation.gates]


def log_line(item: Mapping[str, Any]) -> str:
    """What was taken from an evaluation log as correct and as confidence."""
    log = item["log"]
    parts = [f"{item['name']}: {log['tool']} log ({log['title']})", f"correct: {log['correct']}"]
    parts += [f"confidence: {log['confidence']}", f"{log['rows']} of {log['read']} rows"]
    return plain("; ".join(parts), rendering.MAX_TEXT)


# ------------------------------------------------------------------------------------------- CSV and HTML
def as_csv(evaluation: Evaluation) -> str:
    """One full-precision row per input, group and metric, as comma-separated values."""
    return rendering.as_csv(*tidy_rows(evaluation))


def tidy_rows(evaluation: Evaluation) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
    """One full-precision row per input, group and metric, with heads; rows by test set size have extra columns."""
    if evaluation.kind == CHECK:
        return checks.CSV_HEADS, checks.check_rows(evaluation)
    if evaluation.kind == COMPARISON:
        return comparison.CSV_HEADS, comparison.comparison_rows(evaluation)
    heads: tuple[str, ...] = ("input", "by", "group", "metric", *FIELDS)
    rows: list[tuple[object, ...]] = []
    for result in evaluation.results:
        rows += [(result.input, "", "", spec, *_csv_fields(e)) for spec, e in result.metrics.items()]
        for group in result.groups:
            where = (result.input, group.by, group.value)
            rows += [(*where, spec, *_csv_fields(e)) for spec, e in group.metrics.items()]
    if evaluation.improvement is not None:
        rows += gain_rows(evaluation.improvement)
    for summary in evaluation.shift if not evaluation.across_inputs else ():
        for cell in summary.cells:
            where = (summary.input, "shift,severity", f"{cell.shift} {cell.severity:g}")
            rows += [(*where, spec, *_csv_fields(Estimate.of(value, cell.n))) for spec, value in cell.values.items()]
    if evaluation.sizes:
        heads += SIZE_FIELDS
        rows = [row + ("",) * len(SIZE_FIELDS) for row in rows]
        rows += _size_rows(evaluation.sizes)
    return heads, rows


def _csv_fields(e: Estimate) -> tuple[object, ...]:
    return tuple(blank_if_nan(getattr(e, name)) for name in FIELDS)


def _size_rows(every: Iterable[SampleSizeCurves]) -> Iterator[tuple[object, ...]]:
    """One row per input, size and metric with the mean as value; improvements belong to the input before."""
    for item in every:
        parts = [(item.input, "size", item.specs), (item.after or "", "size", item.specs_after)]
        for name, by, curves in (*parts, (item.input, "size: improvement", item.improvement)):
            for (spec, curve), (k, size) in itertools.product(curves.items(), enumerate(item.sizes)):
                spread = (blank_if_nan(getattr(curve, field)[k]) for field in SIZE_FIELDS)
                yield (name, by, size, spec, *_csv_fields(Estimate.of(curve.mean[k], size)), *spread)


def as_html(evaluation: Evaluation) -> str:
    """Tables and remarks as an HTML fragment."""
    lines = [*comparison_legend(evaluation), *comparison_lines(evaluation)]
    lines += [line for result in evaluation.results for line in result.reading]
    paragraphs = "".join(f"<p>{html.escape(line)}</p>" for line in [*lines, *remarks(evaluation)])
    return "".join(rendering.as_html(table) for table in tables(evaluation)) + paragraphs


APPROXIMATE_MARK = " ~"
"""Follows intervals that may cover less than their nominal level."""
ROUNDING = 1e-9
"""Relative tolerance of values above their interval."""
MISSED = 0.2
"""The false-negative rate at 80% power."""


def is_approximate(e: Estimate) -> bool:
    """Whether the interval may cover less than its nominal level."""
    return e.method.endswith(APPROXIMATE)


def smallest_detectable(n: int) -> float:
    """The error that n rows detect with 80% power in the easiest case: all predictions certain, so any miss shows."""
    return 1.0 - MISSED ** (1.0 / n) if n > 0 else 1.0


def power_note(result: Result) -> list[str]:
    """The smallest calibration error that could have been detected, if it is known."""
    spec = verdict_error(result, result.metrics, "classification")
    e = result.metrics.get(spec or "")
    if spec is None or e is None or not math.isfinite(e.detectable):
        return []
    tests = () if result.verdict is None else result.verdict.evidence
    known = next((test.detectable for test in tests if test.metric == spec and math.isfinite(test.detectable)), 0.0)
    error = max(known or e.detectable, smallest_detectable(e.n))  # as in the verdict
    return [f"80% power to detect a true {metric_label(spec)} of {format_number(error)} with {count(e.n, 'row')}"]


def caveats(result: Result) -> list[str]:
    """Sentences about metrics of an input that are biased, or whose intervals may under-cover."""
    out, metrics = [], result.metrics
    above = [spec for spec, e in metrics.items() if e.value > e.high * (1.0 + ROUNDING)]
    if above:
        out.append(f"{', '.join(above)}: the value is biased upwards; the interval is for the true error")
    negative = [spec for spec, e in metrics.items() if e.value < 0.0 == e.low]
    if negative:
        out.append(f"{', '.join(negative)}: the value is unbiased and can be negative; the true error cannot")
    below = [spec for spec, e in metrics.items() if e.value < e.low and spec not in negative]
    if below:
        out.append(f"{', '.join(below)}: the value is biased downwards; the interval is for the true error")
    if marked := insignificant(result):
        out.append(f"{INSIGNIFICANT.strip()} {', '.join(marked)}: outside the range, not significant after correction")
    approximate = [spec for spec, e in metrics.items() if is_approximate(e)]
    if approximate:
        first, *others = dict.fromkeys(spec.partition("(")[0] for spec in approximate)
        command = f"`calibrant metrics {first}`" + (f" (or {', '.join(others)})" if others else "")
        out.append(f"{APPROXIMATE_MARK.strip()} interval may under-cover: see {command}")
    return out


TOP = "top"
"""The option of metrics of the most likely class."""


def top_label_notes(evaluation: Evaluation, result: Result) -> list[str]:
    """Of binary predictions: which metrics that were requested by name are of the top label, unlike the verdict."""
    requested = evaluation.settings.get("metrics")
    if evaluation.kind != EVALUATION or set(SETS) & set(spec_texts(requested)) or result.verdict is None:
        return []
    tested = [parse(test.metric) for test in result.verdict.evidence]
    positive = next((spec["of"] for spec in tested if spec.options.get("of", TOP) != TOP), None)
    if positive is None:
        return []
    top = [spec for text in result.metrics if (spec := parse(text)).options.get("of") == TOP]
    other = {spec.text: Spec(spec.metric, {**spec.options, "of": positive}).text for spec in top}
    alone = [text for text, of_class in other.items() if of_class not in result.metrics]
    if not alone:
        return []
    text = f"{', '.join(alone)}: of the top label; the verdict is about the positive class"
    return [f"{text}: use {other[alone[0]]}"]


def by_reason(skipped: Mapping[str, Skipped]) -> dict[str, list[str]]:
    """Names of what was skipped, by reason."""
    reasons: dict[str, list[str]] = {}
    for name, why in skipped.items():
        reasons.setdefault(plain(why.text), []).append(plain(name))
    return reasons


def false_discovery_rate(evaluation: Evaluation) -> float:
    """The rate at which groups are starred: that of a value outside a single group's band."""
    return round(1.0 - float(evaluation.settings["level"]), 6)
