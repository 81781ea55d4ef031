"""Overview of several inputs: their main metrics as a table, and one metric at a time as a chart.

The best value is marked only among inputs with equal numbers of rows and classes, by metrics that the registry calls
comparable. Only a paired comparison tests whether a difference is significant.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from calibrant.registry.estimate import Estimate
from calibrant.registry.lookup import with_role
from calibrant.render.formatting import format_number
from calibrant.render.table import Table
from calibrant.reporting import document as doc
from calibrant.reporting.document import Block, Choices, Columns, Figure, Section, TableBlock, Text
from calibrant.reporting.estimates import estimate_columns, intervals_chart, metric_of, metric_title, spec_label
from calibrant.reporting.labels import distinct, first_of
from calibrant.reporting.report_data import ReportData, Subject

MAX_COLUMNS, MAX_OPTIONS = 6, 10
MAX_DRAWN = 40
"""Inputs in the chart."""
MAX_OPEN = 15
"""Inputs of a table that is not collapsed."""
MAX_NAME = 28
"""Maximum characters of a name next to the chart."""
BEST = " ★"
NO_TEST = (
    "Overlapping intervals are not a test of a difference, which can be more or less precise than they suggest if "
    "inputs share rows. Use calibrant compare, or cal.compare in Python, to test differences row by row."
)
NO_ERRORS = (
    "Do not rank models by calibration errors: their bias depends on the model, the bins and the number of rows, and a "
    "constant prediction of the base rate has none. Rank by proper scores, and compare each error with its range for a "
    "calibrated model."
)


def section(report: ReportData) -> Section | None:
    """A table and a chart, if at least two inputs have metrics."""
    subjects = [s for s in report.subjects if s.metrics_view is not None and s.metrics_view.result.metrics]
    specs = _specs(subjects)
    subjects = [s for s in subjects if any(spec in _estimates(s) for spec in specs)]
    if len(subjects) < 2:
        return None
    table = TableBlock(_table(subjects, specs[:MAX_COLUMNS]))
    shown: Block = table if len(subjects) <= MAX_OPEN else doc.Details(f"Table of all {len(subjects)} inputs", (table,))
    figure = _figure(subjects, specs)
    blocks: list[Block] = [*([figure] if figure else []), shown]
    if any(_best(subjects, spec) for spec in specs[:MAX_COLUMNS]):
        legend = (
            f"{BEST.strip()} best value among inputs with the same number of rows and classes; whether they have the "
            "same rows is unknown, and the best of many may be best by chance."
        )
        blocks.append(Text((legend,), note=True))
    items = [("warn", "Not a significance test", NO_TEST)]
    unranked = {spec: m for spec in specs if (m := metric_of(spec)) is not None and not m.comparable}
    errors = [spec for spec, metric in unranked.items() if metric.has_null_band]
    items += [("warn", ", ".join(errors), NO_ERRORS)] if errors else []
    others = ((spec, metric.bias) for spec, metric in unranked.items() if not metric.has_null_band)
    items += [("warn", spec, f"Do not rank models by this metric. {bias}") for spec, bias in others]
    blocks.append(doc.Points(tuple(items)))
    return Section("overview", "Overview", tuple(blocks), f"The main metrics of {len(subjects)} inputs.")


def _estimates(subject: Subject) -> Mapping[str, Estimate]:
    return {} if subject.metrics_view is None else subject.metrics_view.result.metrics


def _specs(subjects: Sequence[Subject]) -> list[str]:
    """The main metrics that at least two inputs have, or without any of them those that most inputs have."""
    counts = Counter(spec for subject in subjects for spec in _estimates(subject))
    shared = [spec for spec, count in counts.most_common() if count > 1]
    wanted = with_role("main")
    main = [spec for spec in wanted if spec in shared]
    others = [spec for spec in shared if spec not in main and (spec.partition("(")[0] in wanted or not main)]
    return (main + others)[:MAX_OPTIONS]


# -------------------------------------------------------------------------------------------------- best values
def comparability(subject: Subject) -> tuple[Any, ...]:
    """Inputs that agree in this may have the same rows."""
    return tuple(subject.facts.get(key) for key in ("n", "classes", "outside"))


def may_be_ranked(spec: str) -> bool:
    """Whether models can be ranked by the metric."""
    metric = metric_of(spec)
    return metric is not None and metric.comparable and metric.direction != "none"


def _best(subjects: Sequence[Subject], spec: str) -> set[str]:
    """The inputs with the best shown value among comparable inputs."""
    out: set[str] = set()
    metric = metric_of(spec)
    if metric is None or not may_be_ranked(spec):
        return out
    for kind in dict.fromkeys(map(comparability, subjects)):
        same = [s for s in subjects if comparability(s) == kind and spec in _estimates(s)]
        values = [_estimates(s)[spec].value for s in same]
        finite = [value for value in values if math.isfinite(value)]
        if len(values) > 1 and finite:
            best = format_number(max(finite) if metric.direction == "higher" else min(finite))
            names = {s.name for s, value in zip(same, values, strict=True) if format_number(value) == best}
            out |= names if len(names) < len(same) else set()
    return out


# ---------------------------------------------------------------------------------------------------------- table
def _table(subjects: Sequence[Subject], specs: Sequence[str]) -> Table:
    """One row per input, comparable inputs together."""
    kinds = list(dict.fromkeys(map(comparability, subjects)))
    ordered = sorted(subjects, key=lambda s: kinds.index(comparability(s)))
    best = {spec: _best(subjects, spec) for spec in specs}
    rows = []
    for s in ordered:
        known = [(spec, _estimates(s).get(spec)) for spec in specs]
        cells = ["" if e is None else format_number(e.value) + BEST * (s.name in best[spec]) for spec, e in known]
        rows.append((s.name, str(s.facts.get("n", "")), *cells))
    breaks = {k for k in range(1, len(ordered)) if comparability(ordered[k]) != comparability(ordered[k - 1])}
    heads = ("input", "rows", *map(spec_label, specs))
    return Table("Main metrics", heads, tuple(rows), breaks=frozenset(breaks if len(kinds) < len(ordered) else ()))


# ---------------------------------------------------------------------------------------------------------- chart
def _figure(subjects: Sequence[Subject], specs: Sequence[str]) -> Figure | None:
    """One metric, selected by a control."""
    names = dict(zip((s.name for s in subjects), distinct((s.name for s in subjects), MAX_NAME), strict=True))
    data: Choices
    data = {(spec,): columns for spec in specs if (columns := _columns(subjects, spec, names))}
    if not data:
        return None
    ranked = len(set(map(comparability, subjects))) == 1
    order = "Inputs are in the order given" + ("; for metrics that rank models, best first." if ranked else ".")
    return Figure(
        key="inputs",
        title="Metric by input",
        chart=intervals_chart("input", False),
        data=data,
        heads={"name": "input", "value": "value", "low": "interval from", "high": "interval to", "n": "rows"},
        description="The value of a metric with its interval for each input",
        caption=f"Dots: values. Lines: intervals. {order}{first_of(MAX_DRAWN, len(subjects), 'inputs')}",
        controls=(doc.Control("metric", tuple(spec for spec, *_ in data)),),
    )


def _columns(subjects: Sequence[Subject], spec: str, names: Mapping[str, str]) -> Columns:
    """The inputs that have the metric."""
    known = [(s, e) for s in subjects if (e := _estimates(s).get(spec)) is not None and math.isfinite(e.value)]
    metric = metric_of(spec)
    if metric is not None and may_be_ranked(spec) and len(set(map(comparability, subjects))) == 1:
        known.sort(key=lambda item: item[1].value, reverse=metric.direction == "higher")
    drawn = known[:MAX_DRAWN]
    if not drawn:
        return {}
    columns = estimate_columns([names[s.name] for s, _ in drawn], [e for _, e in drawn])
    return columns | {"title": [metric_title(spec)] * len(drawn)}
