"""Which metrics are computed: those that were named, the default ones, those of a report, or all.

The default ones are a few main metrics and the tests behind the verdict; a report has every metric of moderate cost.
"""

from __future__ import annotations

from collections.abc import Iterable

from calibrant.errors import NotApplicable
from calibrant.predictions import Classification, Evaluable, Judged, Regression
from calibrant.predictions.files.stream import Stream
from calibrant.registry import lookup
from calibrant.registry.lookup import ALL, DEFAULT, REPORT, SETS, spec_texts
from calibrant.registry.metric import NEEDS, OF_KIND, Skipped, Spec

MAX_SORTED_ENTRIES = 1 << 21
"""Probabilities of all classes and rows up to which metrics that sort them run by default."""
Input = Evaluable | Stream
MAX_KEPT_ROWS = 1 << 21
"""Rows up to which slow metrics, and for an input read block by block metrics that keep rows, run by default."""


def applicable(
    metrics: str | Iterable[str] | None, source: Input, by_unit: bool = False
) -> tuple[list[Spec], dict[str, Skipped]]:
    """The specs to compute, and the reason for each that is skipped."""
    example = source.example
    specs, required = _specs(metrics, example)
    optional = [spec for spec in specs if spec.text not in required]
    skipped = {spec.text: reason for spec in specs if (reason := spec.metric.unsupported_reason(spec, example))}

    def skip(code: str, text: str, candidates: Iterable[Spec]) -> None:
        for spec in candidates:
            skipped.setdefault(spec.text, Skipped(code, text))

    if isinstance(source, Stream) and source.n > MAX_KEPT_ROWS:
        text = "it keeps every row, and this input is read block by block; request it by name"
        skip("keeps_rows", text, (spec for spec in optional if spec.metric.keeps_rows(spec)))
    if source.n * getattr(example, "classes", 1) > MAX_SORTED_ENTRIES:
        text = "it sorts the probabilities of all classes, which is slow for so many; request it by name"
        skip("many_classes", text, (spec for spec in optional if spec.metric.needs_all_classes))
    if source.n > MAX_KEPT_ROWS:
        text = "it is slow above 2 million rows; request it by name"
        skip("slow", text, (spec for spec in optional if spec.metric.slow))
    if by_unit:
        unnamed = specs if metrics in (ALL, [ALL]) else optional
        text = "it assumes independent rows, and rows of a unit are dependent"
        skip("dependent_rows", text, (spec for spec in unnamed if not spec.metric.supports_units))
    text = "its cost grows with the square of the number of rows; request it by name, or use -m all"
    skip("quadratic_cost", text, (spec for spec in optional if spec.metric.cost == "quadratic"))
    selected = [spec for spec in specs if spec.text not in skipped]
    if not selected:
        by_reason: dict[str, list[str]] = {}
        for name, reason in skipped.items():
            by_reason.setdefault(reason.text, []).append(name)
        reasons = "; ".join(f"{', '.join(names)} ({reason})" for reason, names in by_reason.items())
        got = reasons or "no metrics"
        expected, hint = "at least one metric that applies", "see `calibrant metrics` for what each needs"
        raise NotApplicable(source.name, expected=expected, got=got, hint=hint)
    return selected, skipped


def requested_by_name(metrics: str | Iterable[str] | None) -> set[str]:
    """The texts of the specs that were named, not those that a set stands for."""
    return {lookup.parse(text).text for text in spec_texts(metrics) if text not in SETS}


def main_metrics(specs: list[Spec], metrics: str | Iterable[str] | None) -> list[Spec]:
    """The metrics of groups if none were named: the main ones, also of one class, and those added by name."""
    named = requested_by_name(metrics)
    for name in lookup.with_role("group"):
        named |= {name} | {spec.text for spec in specs if spec.text == f"{name}(of={spec.options.get('of')})"}
    return [spec for spec in specs if spec.text in named] or specs


def _specs(metrics: str | Iterable[str] | None, example: Evaluable) -> tuple[list[Spec], set[str]]:
    """The requested specs, and the texts of those that must run whatever their cost; sets are those of the task."""
    texts = spec_texts(metrics)
    named = {spec.text: spec for text in texts if text not in SETS for spec in [lookup.parse(text)]}
    if not set(SETS) & set(texts):
        return list(named.values()), set(named)
    family = frozenset({example.task} if example.task in ("regression", "detection") else {"classification", "judged"})
    known = [metric for metric in lookup.metrics().values() if family & metric.tasks]
    second, chosen = second_class(example), []
    if DEFAULT in texts:
        default = set(lookup.with_role("default", example.task))
        tests = {spec.metric.name: spec for spec in verdict_specs(example)}
        fitting = [m for m in known if all(NEEDS[need][0](example) for need in m.needs & OF_KIND)]
        if not getattr(example, "has_confidence", True):
            fitting = [m for m in fitting if not m.needs_confidence]
        chosen += [tests.get(m.name) or Spec.make(m) for m in fitting if m.name in default or m.name in tests]
    if {REPORT, ALL} & set(texts):
        specs = [Spec.make(metric) for metric in known if metric.in_report or ALL in texts]
        # binary problems have both readings: the top label, and class 1
        chosen += specs + [Spec.make(s.metric, of=second) for s in specs if second is not None and "of" in s.options]
    every = {spec.text: spec for spec in [*named.values(), *chosen]}
    return list(every.values()), set(every) if ALL in texts else set(named)


def kind_of(example: Evaluable) -> str | None:
    """Which family of tests is behind the verdict: binary, classes, judged or regression; None for detection."""
    if isinstance(example, Classification):
        return "classes" if second_class(example) is None else "binary"
    return example.task if isinstance(example, Judged | Regression) else None


def verdict_specs(example: Evaluable, role: str = "") -> list[Spec]:
    """The specs of the tests behind the verdict, of binary predictions those of class 1; or those of another role."""
    kind = kind_of(example)
    if kind is None:
        return []
    specs, of = [lookup.parse(text) for text in lookup.with_role(role or f"test_{kind}", example.task)], None
    if isinstance(example, Classification):
        of = second_class(example)
    return [Spec.make(spec.metric, of=of) if of is not None and "of" in spec.options else spec for spec in specs]


def second_class(example: Evaluable) -> str | None:
    """How specs name class 1 of a binary problem: by its name if it can be written; None for other problems."""
    if not isinstance(example, Classification) or example.classes != 2:
        return None
    names = (*(example.class_names or ())[1:], "1")
    writable = [n for n in names if n != "top" and n == n.strip() and not set(n) & set("(),=")]
    return next((n for n in writable if example.class_index(n) == 1), None)
