"""Which metrics are computed: those that were named, or by default all that these predictions can give."""

from __future__ import annotations

from collections.abc import Iterable

from calibrant import registry
from calibrant.errors import NotApplicable
from calibrant.predictions import Classification, Evaluated
from calibrant.predictions.files.stream import Stream
from calibrant.registry.metric import Spec

MAIN = (
    "accuracy", "nll", "brier", "ece", "ks", "roc_auc", "misclassification_auroc", "entropy", "mutual_information",
    "mse", "mae", "crps", "dss", "pinball", "interval_score", "pit", "auroc", "aupr_in", "aupr_out", "fpr95",
)  # fmt: skip
"""Metrics of groups and of shifted data where none are named."""
MOST_ENTRIES = 1 << 21
"""Probabilities of all classes and rows up to which metrics that sort them run without being named."""
ALL, DEFAULT = "all", "default"
"""Words for every metric, and for those that run without being named; other specs may stand beside them."""
Input = Evaluated | Stream
MOST_KEPT = 1 << 21
"""Rows of an input read block by block up to which metrics that keep rows run without being named."""


def applicable(
    wanted: str | Iterable[str] | None, source: Input, by_unit: bool = False
) -> tuple[list[Spec], dict[str, str]]:
    """The specs that these predictions can give, and the reason for each that they cannot."""
    example = source.example
    specs, meant = _specs(wanted, example)
    rest = [spec for spec in specs if spec.text not in meant]
    skipped = {spec.text: reason for spec in specs if (reason := spec.metric.lacks(spec, example))}
    if isinstance(source, Stream) and source.n > MOST_KEPT:
        said = "it keeps every row, and this input is read block by block: name it if it is meant"
        skipped |= {s.text: said for s in rest if s.metric.keeps_rows(s) and s.text not in skipped}
    if source.n * getattr(example, "classes", 1) > MOST_ENTRIES:
        said = "it sorts the probabilities of every class, of which there are many: name it if it is meant"
        skipped |= {s.text: said for s in rest if s.metric.every_class and s.text not in skipped}
    if source.n > MOST_KEPT:
        said = "it takes long of millions of rows: name it if it is meant"
        skipped |= {s.text: said for s in rest if not s.metric.of_many and s.text not in skipped}
    if by_unit:
        said = "its rows may not depend on each other, and units say that they do"
        unnamed = specs if wanted in ("all", ["all"]) else rest
        skipped |= {s.text: said for s in unnamed if not s.metric.by_unit and s.text not in skipped}
    said = "its cost grows with the square of the rows: name it, or ask for all"
    skipped |= {s.text: said for s in rest if s.metric.cost == "quadratic" and s.text not in skipped}
    chosen = [spec for spec in specs if spec.text not in skipped]
    if not chosen:
        by_reason: dict[str, list[str]] = {}
        for text, reason in skipped.items():
            by_reason.setdefault(reason, []).append(text)
        reasons = "; ".join(f"{', '.join(texts)}: {reason}" for reason, texts in by_reason.items())
        raise NotApplicable(
            source.name,
            expected="at least one metric that applies",
            came=f"none of those asked for does ({reasons})" if reasons else "none was asked for",
            do="see `calibrant metrics` for what each needs",
        )
    return chosen, skipped


def main_metrics(specs: list[Spec], wanted: str | Iterable[str] | None) -> list[Spec]:
    """Those that groups have where none were named: a hundred groups need not have every metric there is."""
    named = {registry.parse(text).text for text in asked(wanted) if text not in (ALL, DEFAULT)}
    return [spec for spec in specs if spec.text in MAIN or _of_class(spec) or spec.text in named] or specs


def asked(wanted: str | Iterable[str] | None) -> list[str]:
    """What was asked for, word by word; nothing is the word `default`."""
    if wanted is None:
        return [DEFAULT]
    return [text.strip() for text in (registry.split(wanted) if isinstance(wanted, str) else wanted)]


def by_default(wanted: str | Iterable[str] | None) -> bool:
    """Whether the metrics that run without being named are meant, be it beside others."""
    return DEFAULT in asked(wanted)


def _of_class(spec: Spec) -> bool:
    """A main metric, of one class."""
    return spec.metric.name in MAIN and spec.text == f"{spec.metric.name}(of={spec.options.get('of')})"


def _specs(wanted: str | Iterable[str] | None, example: Evaluated) -> tuple[list[Spec], set[str]]:
    """The specs asked for, and those that are meant whatever they cost; of other tasks none are meant by default."""
    texts = asked(wanted)
    named = {spec.text: spec for text in texts if text not in (ALL, DEFAULT) for spec in [registry.parse(text)]}
    if not {ALL, DEFAULT} & set(texts):
        return list(named.values()), set(named)
    specs = [Spec.make(metric) for metric in registry.metrics().values() if metric.default or ALL in texts]
    family = frozenset({example.task} if example.task in ("regression", "detection") else {"classification", "judged"})
    specs = [spec for spec in specs if family & spec.metric.tasks]
    every = {spec.text: spec for spec in [*named.values(), *specs, *_binary_extras(specs, example)]}
    return list(every.values()), set(every) if ALL in texts else set(named)


def _binary_extras(specs: list[Spec], example: Evaluated) -> list[Spec]:
    """Of a binary problem both readings are shown: the top label, and class 1."""
    name = second_class(example)
    return [] if name is None else [Spec.make(spec.metric, of=name) for spec in specs if "of" in spec.options]


def second_class(example: Evaluated) -> str | None:
    """How specs name class 1 of a binary problem: by its name where that can be written; None of other problems."""
    if not isinstance(example, Classification) or example.classes != 2:
        return None
    names = (*(example.class_names or ())[1:], "1")
    written = [n for n in names if n != "top" and n == n.strip() and not set(n) & set("(),=")]
    return next((n for n in written if example.class_index(n) == 1), None)
