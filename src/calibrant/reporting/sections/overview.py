"""Inputs side by side: their main metrics as a table, and one metric at a time as a chart.

What is best is marked only where that is fair: among inputs that have as many rows and classes, by metrics that the
registry calls comparable. Whether a difference is more than chance, only a paired comparison says.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from calibrant.evaluation.rendering import Table
from calibrant.evaluation.wording import number
from calibrant.registry.estimate import Estimate
from calibrant.reporting.document import Block, Columns, Control, Figure, Fold, Points, Section, Shown, Text
from calibrant.reporting.estimates import called, estimate_columns, intervals_chart, metric_of, titled
from calibrant.reporting.gathering import Gathered, Subject
from calibrant.reporting.naming import distinct

MAIN = (
    "accuracy", "nll", "brier", "ece", "aurc", "entropy", "smooth_ece", "mutual_information", "mse", "mae", "crps",
    "interval_score", "calibration_error", "picp", "width", "auroc", "aupr_in", "aupr_out", "fpr95",
)  # fmt: skip
MOST_COLUMNS, MOST_CHOICES = 6, 10
MOST_DRAWN = 40
"""Inputs that the chart has room for."""
MOST_OPEN = 15
"""Inputs that the table shows without being opened."""
LONGEST = 28
"""Characters of a name beside the chart."""
BEST = " ★"
NO_TEST = (
    "Intervals side by side are no test of a difference: inputs that share rows differ by less, or by more, than their "
    "own intervals show. The command calibrant compare, in Python cal.compare, tests differences row by row."
)


def section(gathered: Gathered) -> Section | None:
    """A table and a chart, where at least two inputs were scored."""
    subjects = [s for s in gathered.subjects if s.scored is not None and s.scored.result.metrics]
    specs = _specs(subjects)
    subjects = [s for s in subjects if any(spec in _estimates(s) for spec in specs)]
    if len(subjects) < 2:
        return None
    table = Shown(_table(subjects, specs[:MOST_COLUMNS]))
    shown: Block = table if len(subjects) <= MOST_OPEN else Fold(f"All {len(subjects)} inputs as a table", (table,))
    figure = _figure(subjects, specs)
    blocks = (*((figure,) if figure else ()), shown, *_marked(subjects, specs[:MOST_COLUMNS]), *_warned(specs))
    return Section("overview", "Side by side", blocks, f"{len(subjects)} inputs, the same metrics of each.")


def _estimates(subject: Subject) -> Mapping[str, Estimate]:
    return {} if subject.scored is None else subject.scored.result.metrics


def _specs(subjects: Sequence[Subject]) -> list[str]:
    """The main metrics that at least two inputs have; where none of them is there, those that most have."""
    counts = Counter(spec for subject in subjects for spec in _estimates(subject))
    shared = [spec for spec, count in counts.most_common() if count > 1]
    main = [spec for spec in MAIN if spec in shared]
    others = [spec for spec in shared if spec not in main and (spec.partition("(")[0] in MAIN or not main)]
    return (main + others)[:MOST_CHOICES]


# ----------------------------------------------------------------------------------------------------------- fair
def alike(subject: Subject) -> tuple[Any, ...]:
    """Inputs that agree in this may be of the same rows."""
    return tuple(subject.facts.get(key) for key in ("n", "classes", "outside"))


def may_be_ranked(spec: str) -> bool:
    """Whether a better value means a better model."""
    metric = metric_of(spec)
    return metric is not None and metric.comparable and metric.direction != "none"


def _best(subjects: Sequence[Subject], spec: str) -> set[str]:
    """The inputs that are best among those alike, as far as the digits that are shown tell them apart."""
    out: set[str] = set()
    metric = metric_of(spec)
    if metric is None or not may_be_ranked(spec):
        return out
    for kind in dict.fromkeys(map(alike, subjects)):
        same = [s for s in subjects if alike(s) == kind and spec in _estimates(s)]
        values = [_estimates(s)[spec].value for s in same]
        finite = [value for value in values if math.isfinite(value)]
        if len(values) > 1 and finite:
            best = number(max(finite) if metric.direction == "higher" else min(finite))
            found = {s.name for s, value in zip(same, values, strict=True) if number(value) == best}
            out |= found if len(found) < len(same) else set()
    return out


# ---------------------------------------------------------------------------------------------------------- table
def _table(subjects: Sequence[Subject], specs: Sequence[str]) -> Table:
    """A row each, inputs of as many rows together."""
    kinds = list(dict.fromkeys(map(alike, subjects)))
    ordered = sorted(subjects, key=lambda s: kinds.index(alike(s)))
    best = {spec: _best(subjects, spec) for spec in specs}
    rows = tuple((s.name, str(s.facts.get("n", "")), *(_cell(s, spec, best[spec]) for spec in specs)) for s in ordered)
    breaks = {k for k in range(1, len(ordered)) if alike(ordered[k]) != alike(ordered[k - 1])}
    fewer = len(kinds) < len(ordered)
    return Table(
        "The main metrics of each",
        ("input", "rows", *map(called, specs)),
        rows,
        breaks=frozenset(breaks if fewer else ()),
    )


def _cell(subject: Subject, spec: str, best: set[str]) -> str:
    e = _estimates(subject).get(spec)
    return "" if e is None else number(e.value) + BEST * (subject.name in best)


def _marked(subjects: Sequence[Subject], specs: Sequence[str]) -> tuple[Block, ...]:
    if not any(_best(subjects, spec) for spec in specs):
        return ()
    said = (
        f"{BEST.strip()} the best value among inputs with as many rows and classes; that they are the same rows is not "
        "known here, and the best of many is best by chance too."
    )
    return (Text((said,), note=True),)


def _warned(specs: Sequence[str]) -> tuple[Block, ...]:
    """What these numbers do not allow."""
    items = [("warn", "not a test", NO_TEST)]
    errors = [spec for spec in specs if (m := metric_of(spec)) is not None and m.redraws and not m.comparable]
    others = [spec for spec in specs if spec not in errors and (m := metric_of(spec)) is not None and not m.comparable]
    if errors:
        why = (
            "calibration errors are no ranking: their bias differs between models, bins and numbers of rows, and zero "
            "is reached by saying the base rate everywhere. Rank by proper scores, and look at each error beside its "
            "band."
        )
        items.append(("warn", ", ".join(errors), f"{why[0].upper()}{why[1:]}"))
    for spec in others:
        metric = metric_of(spec)
        items.append(("warn", spec, "Models cannot be ranked by it. " + (metric.bias if metric else "")))
    return (Points(tuple(items)),)


# ---------------------------------------------------------------------------------------------------------- chart
def _figure(subjects: Sequence[Subject], specs: Sequence[str]) -> Figure | None:
    """One metric at a time."""
    names = dict(zip((s.name for s in subjects), distinct((s.name for s in subjects), LONGEST), strict=True))
    data: dict[tuple[str, ...], Columns]
    data = {(spec,): made for spec in specs if (made := _columns(subjects, spec, names))}
    if not data:
        return None
    ranked = len(set(map(alike, subjects))) == 1
    order = "Inputs stand in the order in which they were given"
    order += "; by metrics that rank models, the best is first." if ranked else "."
    few = f" {MOST_DRAWN} of the {len(subjects)} are drawn." if len(subjects) > MOST_DRAWN else ""
    return Figure(
        key="inputs",
        title="One metric of all inputs",
        chart=intervals_chart("input", False),
        data=data,
        heads={"name": "input", "value": "value", "low": "interval from", "high": "to", "n": "rows"},
        said="A dot for the value of each input, on a line for its interval",
        caption=f"Dots: the values. Lines: their intervals. {order}{few}",
        controls=(Control("metric", tuple(spec for spec, *_ in data)),),
    )


def _columns(subjects: Sequence[Subject], spec: str, names: Mapping[str, str]) -> Columns:
    """The inputs that have the metric, as many as there is room for."""
    known = [(s, e) for s in subjects if (e := _estimates(s).get(spec)) is not None and math.isfinite(e.value)]
    metric = metric_of(spec)
    if metric is not None and may_be_ranked(spec) and len(set(map(alike, subjects))) == 1:
        known.sort(key=lambda item: item[1].value, reverse=metric.direction == "higher")
    drawn = known[:MOST_DRAWN]
    if not drawn:
        return {}
    made = estimate_columns([names[s.name] for s, _ in drawn], [e for _, e in drawn])
    return made | {"title": [titled(spec)] * len(drawn)}
