"""Every metric of an input with its interval, and what each means."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from calibrant.comparison.facts import FACTS
from calibrant.evaluation.caveats import by_reason
from calibrant.evaluation.references import facts_used
from calibrant.evaluation.result import Result
from calibrant.evaluation.tables import main_table
from calibrant.reporting.document import Block, Columns, Control, Definitions, Figure, Fold, Panel, Section, Shown
from calibrant.reporting.estimates import (
    called,
    estimate_columns,
    family_of,
    intervals_chart,
    metric_of,
    on_one_axis,
    titled,
)
from calibrant.reporting.gathering import Found, Gathered

MOST_SHOWN = 14
"""Metrics that a table shows without being opened."""
MAIN = (
    "accuracy", "top_k", "nll", "brier", "rbs", "ece", "smooth_ece", "ks", "aurc", "misclassification_auroc", "entropy",
    "mutual_information", "mse", "mae", "crps", "interval_score", "calibration_error", "picp", "width", "sharpness",
)  # fmt: skip
"""Of more metrics, those that are shown at once."""
KINDS = {
    "main scores": (0, 4, 8),
    "finding its own mistakes": (5,),
    "uncertainty": (6,),
    "coverage and width": (9,),
    "detection": (10,),
}
"""What the chart shows together, by families of the registry."""
MOVED = {"pit": "coverage and width", "aleatoric_variance": "uncertainty", "epistemic_variance": "uncertainty"}
CAPTION = (
    "Dots: the values. Lines: intervals that hold the value of endlessly many such rows as often as their level says. "
    "↓ lower is better, ↑ higher is better; without an arrow neither is. Calibration errors stand apart, below."
)


def section(gathered: Gathered) -> Section | None:
    """A chart and a table of each input, and what the metrics mean."""
    panels = [
        Panel(k, _blocks(subject.scored))
        for k, subject in enumerate(gathered.subjects)
        if subject.scored is not None and subject.scored.result.metrics
    ]
    if not panels:
        return None
    lead = "How good are the predictions, and how well do so many rows show it?"
    return Section("scores", "Scores", (*panels, *_glossary(gathered)), lead)


def _blocks(found: Found) -> tuple[Block, ...]:
    figure = _figure(found.result)
    drawn: tuple[Block, ...] = () if figure is None else (figure,)
    return (*drawn, *_tables(found), *_skipped(found.result))


# -------------------------------------------------------------------------------------------------------- chart
def _figure(result: Result) -> Figure | None:
    """One axis for each kind of metrics of like size."""
    groups = {
        option: specs
        for kind in KINDS
        for option, specs in on_one_axis(kind, _of_kind(result, kind), result.metrics).items()
    }
    if not groups:
        return None
    return Figure(
        key="intervals",
        title="Scores with their intervals",
        chart=intervals_chart("spec", True),
        data={(option,): _columns(result, specs) for option, specs in groups.items()},
        heads={
            "name": "metric",
            "title": "meaning",
            "value": "value",
            "low": "interval from",
            "high": "to",
            "n": "rows",
        },
        said="A dot for the value of each metric, on a line for its interval",
        caption=CAPTION,
        controls=(Control("show", tuple(groups)),),
    )


def _of_kind(result: Result, kind: str) -> list[str]:
    """Metrics that are no calibration errors and no parts of other scores."""
    out = []
    for spec, e in result.metrics.items():
        metric = metric_of(spec)
        if metric is None or metric.redraws or e.method == "none":
            continue
        if MOVED.get(metric.name, kind) == kind and (metric.name in MOVED or family_of(spec) in KINDS[kind]):
            out.append(spec)
    return out


def _columns(result: Result, specs: list[str]) -> Columns:
    estimates = [result.metrics[spec] for spec in specs]
    made = estimate_columns([called(spec, result.metrics[spec]) for spec in specs], estimates)
    return made | {"title": [titled(spec) for spec in specs]}


# ------------------------------------------------------------------------------------------------------- tables
def _tables(found: Found) -> tuple[Block, ...]:
    """All metrics; of very many the main ones, and all for those who open it."""
    result = found.result
    whole = Shown(main_table(found.evaluation, result))
    if len(result.metrics) <= MOST_SHOWN:
        return (whole,)
    main = {spec: result.metrics[spec] for spec in MAIN if spec in result.metrics}
    titled_apart = replace(whole.table, title=f"{whole.table.title} · all metrics")
    rest = Fold(f"All {len(result.metrics)} metrics", (Shown(titled_apart),))
    return (Shown(main_table(found.evaluation, replace(result, metrics=main))), rest) if main else (whole,)


def _skipped(result: Result) -> tuple[Block, ...]:
    """What was left out, and why."""
    if not result.skipped:
        return ()
    items = tuple((", ".join(names), f"Skipped: {why}.") for why, names in by_reason(result.skipped).items())
    count = len(result.skipped)
    return (Fold(f"{count} metric{'s were' if count > 1 else ' was'} skipped, and why", (Definitions(items),)),)


# ----------------------------------------------------------------------------------------------------- glossary
def _glossary(gathered: Gathered) -> tuple[Block, ...]:
    """What each metric means, from the registry, with its reference."""
    found = [found.result for subject in gathered.subjects for found in subject.every]
    items = definitions_of(spec for result in found for spec in (*result.metrics, *result.checks))
    facts = dict.fromkeys(name for evaluation in gathered.evaluations for name in facts_used(evaluation))
    items += tuple(
        (FACTS[name].title, f"{FACTS[name].definition} Reference: {FACTS[name].reference}.") for name in facts
    )
    return (Fold("What the metrics mean", (Definitions(items),)),) if items else ()


def definitions_of(specs: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Definition, bias and reference of metrics, in the order in which they come."""
    known = {metric.name: metric for spec in specs if (metric := metric_of(spec)) is not None}
    return tuple(
        (f"{m.title} ({m.name})", " ".join(filter(None, (m.definition, m.bias, f"Reference: {m.reference}."))))
        for m in known.values()
    )
