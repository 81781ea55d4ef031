"""Evaluations as tables: what is printed, shown in a notebook, and written by `--format`."""

from __future__ import annotations

import html
import math

from calibrant.errors import plain
from calibrant.evaluation import rendering, wording
from calibrant.evaluation.bars import Bar
from calibrant.evaluation.caveats import ABOUT, by_reason, caveats, false_discoveries, is_about
from calibrant.evaluation.check_tables import CHECK_HEADS, check_rows, check_tables, pass_tables, temperature_lines
from calibrant.evaluation.choosing import by_default
from calibrant.evaluation.comparison_tables import comparison_tables
from calibrant.evaluation.comparison_values import HEADS as COMPARISON_HEADS
from calibrant.evaluation.comparison_values import comparison_rows
from calibrant.evaluation.comparison_words import comparison_legend, comparison_lines
from calibrant.evaluation.improvement_tables import gain_rows, reading
from calibrant.evaluation.ladder_tables import ladder_lines, links_table
from calibrant.evaluation.recalibration_tables import recalibration_tables
from calibrant.evaluation.rendering import Table
from calibrant.evaluation.result import Evaluation, Result
from calibrant.evaluation.shift import ACROSS, QUARTILES, Summary
from calibrant.evaluation.size_curves import NUMBERS, Curve, Sizes
from calibrant.evaluation.wording import number, span, title
from calibrant.registry.estimate import Estimate

ARROWS = {"lower": " ↓", "higher": " ↑"}
GROUP_METRICS = ("accuracy", "mse", "mae", "nll", "crps", "interval_score", "pit", "brier", "ece", "entropy",
                 "mutual_information")  # fmt: skip
MOST_GROUP_COLUMNS = 6
MOST_TOGETHER = 12
MOST_SIZES = 5
MARK = " *"
"""Behind values of groups that stay significant when all groups are counted."""
FIELDS = ("value", "low", "high", "level", "method", "n", "null_low", "null_high", "p_value", "detectable", "q_value")
SIZE_FIELDS = (*NUMBERS[1:], "undefined")


def main_table(evaluation: Evaluation, result: Result) -> Table:
    """One row a metric: value, interval, and what a calibrated model would give."""
    nulls = any(math.isfinite(e.null_high) for e in result.metrics.values())
    percent = f"{100 * float(evaluation.settings['level']):g} % interval"
    heads = ("metric", "value", percent) + (("if calibrated",) if nulls else ())
    specs = sorted(result.metrics, key=_family) if _long(result) else list(result.metrics)
    found = [(spec, result.metrics[spec]) for spec in specs]
    rows, few = (tuple(_row(spec, e, nulls, short=how) for spec, e in found) for how in (False, True))
    changes = {k for k in range(1, len(specs)) if _family(specs[k]) != _family(specs[k - 1])}
    breaks = frozenset(changes) if _long(result) else frozenset()
    drawn = tuple(Bar(e.value, e.low, e.high, e.null_low, e.null_high) for _, e in found)
    return Table(title(evaluation, result), heads, rows, breaks=breaks, bars=drawn, short=few)


def _row(spec: str, e: Estimate, nulls: bool, *, short: bool) -> tuple[str, ...]:
    """The cells of a metric, with all of its digits or with those that leave room for a bar."""
    one, both = (wording.short, wording.short_span) if short else (number, span)
    about = (ABOUT.strip() if short else ABOUT) * is_about(e)
    row = (spec + _arrow(spec), one(e.value), both(e.low, e.high) + about)
    return row + ((both(e.null_low, e.null_high),) if nulls else ())


def _long(result: Result) -> bool:
    """Whether a table has so many rows that families of metrics are set apart."""
    return len(result.metrics) > MOST_TOGETHER


def _family(spec: str) -> int:
    from calibrant.registry import family

    return family(spec.partition("(")[0])


def group_table(evaluation: Evaluation, result: Result, by: str) -> Table:
    """One row a group, the metrics that were asked for beside each other; of all, the main ones."""
    groups = [group for group in result.groups if group.by == by]
    chosen = _chosen(evaluation, list(groups[0].metrics))
    left_out = len(chosen) - MOST_GROUP_COLUMNS if _named_all(evaluation) else 0
    chosen = chosen[:MOST_GROUP_COLUMNS]
    most = false_discoveries(evaluation)
    rows = [
        (str(group.value), str(group.n), *(_or_blank(group.metrics.get(m), most) for m in chosen)) for group in groups
    ]
    title = f"by {by}" + (f" ({left_out} more in the JSON)" if left_out > 0 else "")
    if any(cell.endswith(MARK) for row in rows for cell in row):
        title += f"; {MARK.strip()} more than chance allows a calibrated model (q < {false_discoveries(evaluation):g})"
    return Table(title, (by, "n", *(m + _arrow(m) for m in chosen)), tuple(rows))


def shift_tables(evaluation: Evaluation) -> list[Table]:
    """A table a metric: its mean and quartiles over types of shift, severity by severity, and over all of them."""
    return [
        _shift_table(summary, spec)
        for summary in evaluation.shift
        for spec in _chosen(evaluation, summary.specs)[:MOST_GROUP_COLUMNS]
    ]


def _shift_table(summary: Summary, spec: str) -> Table:
    rho = summary.rho(spec)
    said = f"ρ with severity {number(rho)}" if math.isfinite(rho) else "no rank correlation"
    lines = [(f"{severity:g}", summary.at(spec, severity)) for severity in summary.severities]
    lines.append(("all shifted", summary.shifted(spec)))
    rows = tuple(
        (name, str(int(found["types"])), *(number(found[key]) for key in ("mean", *QUARTILES))) for name, found in lines
    )
    types = f"{len(summary.types)} type{'s' * (len(summary.types) != 1)}"
    title = f"{summary.input} · {spec}{_arrow(spec)} over {types} · {said}"
    return Table(title, ("severity", "types", "mean", *QUARTILES), rows)


def size_tables(evaluation: Evaluation) -> list[Table]:
    """A table an input, or a pair of them: the mean of every metric at some of the sizes, and its spread below it."""
    return [size_table(item) for item in evaluation.sizes]


def size_table(item: Sizes) -> Table:
    paired = item.after is not None
    last = len(item.sizes) - 1
    shown = sorted({int(k * last / (MOST_SIZES - 1) + 0.5) for k in range(MOST_SIZES)})
    ratios, rows = item.ratios(), []
    for spec, curve in (item.improvement if paired else item.specs).items():
        ratio = ratios[spec]
        said = f"{ratio:.2f}".replace("-", "−") if math.isfinite(ratio) else ""
        rows.append((spec + _arrow(spec) * (not paired), *(number(curve.mean[k]) for k in shown), said))
        rows.append(("  ±", *(number(curve.sd[k]) if math.isfinite(curve.sd[k]) else "" for k in shown), ""))
    what = f"{item.input} − {item.after}: improvement" if paired else item.input
    title = f"{what} by rows · mean ± sd of {item.repeats} subsets"
    heads = ("metric", *(str(item.sizes[k]) for k in shown), "share" if paired else "drift")
    return Table(title, heads, tuple(rows))


def _chosen(evaluation: Evaluation, known: list[str]) -> list[str]:
    """The metrics that were asked for; of all, the main ones."""
    return known if _named_all(evaluation) else [m for m in GROUP_METRICS if m in known] or known


def _named_all(evaluation: Evaluation) -> bool:
    """Whether each metric was asked for by its name."""
    asked = evaluation.settings["metrics"]
    return asked != "all" and not by_default(asked)


def result_tables(evaluation: Evaluation, result: Result) -> list[Table]:
    """The tables of one input: its metrics, what holds between them, then its groups."""
    if result.checks:
        return check_tables(evaluation, result)
    columns = dict.fromkeys(group.by for group in result.groups)
    links = [links_table(result.input, result.ladder)] if result.ladder else []
    return [main_table(evaluation, result), *links, *(group_table(evaluation, result, by) for by in columns)]


def tables(evaluation: Evaluation) -> list[Table]:
    """Every table of an evaluation, in order."""
    if evaluation.comparison is not None:
        return comparison_tables(evaluation)
    if _across(evaluation):  # each input is a cell, and there may be a hundred
        return shift_tables(evaluation) + size_tables(evaluation) + pass_tables(evaluation)
    of_results = [table for result in evaluation.results for table in result_tables(evaluation, result)]
    of_results = recalibration_tables(evaluation) + of_results
    return of_results + shift_tables(evaluation) + size_tables(evaluation) + pass_tables(evaluation)


def _across(evaluation: Evaluation) -> bool:
    """Whether each input is a cell of a shift."""
    names = [summary.input for summary in evaluation.shift] + [table.input for table in evaluation.passed]
    return ACROSS in names


def remarks(evaluation: Evaluation) -> list[str]:
    """What was left out of each input, by reason, and what the user should know of beside the verdict."""
    several = len(evaluation.results) > 1
    out: list[str] = []
    for result in evaluation.results:
        said = _skipped(result)
        if not _across(evaluation):
            out += caveats(result)
        if result.ladder and not _across(evaluation):
            out += ladder_lines(result.ladder, f"{plain(result.input)}: " * several)
        if result.checks and not _across(evaluation):
            out += [
                f"{plain(result.input)}: " * several + plain(line) for line in temperature_lines(evaluation, result)
            ]
        if said:
            out.append(f"skipped{f' for {plain(result.input)}' * several}: {said}")
    out += list(reading(evaluation.improvement)) if evaluation.improvement else []
    for item in evaluation.sizes:
        name = f" of {plain(item.input)}" * (len(evaluation.sizes) > 1)
        out += [f"size of the test set{name}: {item.reading()}"] if item.reading() else []
    out += [f"note: {plain(note.message)}" for note in evaluation.warnings]
    return out + [str(item) for item in evaluation.gates]


def _skipped(result: Result) -> str:
    return "; ".join(f"{', '.join(names)} ({why})" for why, names in by_reason(result.skipped).items())


def as_csv(evaluation: Evaluation) -> str:
    """One row per input, group and metric, with full precision; those of sizes have columns of their own."""
    if any(result.checks for result in evaluation.results):
        return rendering.as_csv(CHECK_HEADS, check_rows(evaluation))
    if evaluation.comparison is not None:
        return rendering.as_csv(COMPARISON_HEADS, comparison_rows(evaluation))
    heads: tuple[str, ...] = ("input", "by", "group", "metric", *FIELDS)
    rows: list[tuple[object, ...]] = []
    for result in evaluation.results:
        rows += [(result.input, "", "", spec, *_fields(e)) for spec, e in result.metrics.items()]
        for group in result.groups:
            where = (result.input, group.by, group.value)
            rows += [(*where, spec, *_fields(e)) for spec, e in group.metrics.items()]
    if evaluation.improvement is not None:
        rows += gain_rows(evaluation.improvement)
    for summary in evaluation.shift if not _across(evaluation) else ():
        for cell in summary.cells:
            where = (summary.input, "shift,severity", f"{cell.shift} {cell.severity:g}")
            rows += [(*where, spec, *_fields(Estimate.of(value, cell.n))) for spec, value in cell.values.items()]
    if evaluation.sizes:
        heads += SIZE_FIELDS
        rows = [row + ("",) * len(SIZE_FIELDS) for row in rows]
        rows += [row for item in evaluation.sizes for row in _size_rows(item)]
    return rendering.as_csv(heads, rows)


def _size_rows(item: Sizes) -> list[tuple[object, ...]]:
    """One row per input, size and metric, the mean being the value; improvements are rows of the input before."""
    parts = [(item.input, "size", item.specs), (item.after or "", "size", item.specs_after)]
    parts.append((item.input, "size: improvement", item.improvement))
    return [
        (name, by, size, spec, *_fields(Estimate.of(curve.mean[k], size)), *_spread(curve, k))
        for name, by, curves in parts
        for spec, curve in curves.items()
        for k, size in enumerate(item.sizes)
    ]


def _spread(curve: Curve, k: int) -> tuple[object, ...]:
    """What a curve has beside the mean at one size; nothing where it is undefined."""
    values = (getattr(curve, name)[k] for name in SIZE_FIELDS)
    return tuple("" if isinstance(v, float) and math.isnan(v) else v for v in values)


def as_html(evaluation: Evaluation) -> str:
    """The same as HTML, without a page around it."""
    lines = [*comparison_legend(evaluation), *comparison_lines(evaluation)]
    lines += [line for result in evaluation.results for line in result.reading]
    lines += remarks(evaluation)
    said = "".join(f"<p>{html.escape(line)}</p>" for line in lines)
    return "".join(rendering.as_html(table) for table in tables(evaluation)) + said


def _fields(e: Estimate) -> tuple[object, ...]:
    values = (getattr(e, name) for name in FIELDS)
    return tuple("" if isinstance(v, float) and math.isnan(v) else v for v in values)


def _arrow(spec: str) -> str:
    from calibrant.registry import find

    return ARROWS.get(find(spec.partition("(")[0]).direction, "")


def _or_blank(e: Estimate | None, most: float) -> str:
    return "" if e is None else number(e.value) + MARK * (e.q_value < most)
