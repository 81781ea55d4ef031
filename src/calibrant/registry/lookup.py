"""The registry: metrics by name and by role, and the spec strings that name them with their options."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from calibrant.errors import UsageError, did_you_mean, show
from calibrant.registry.comparison_scores import COMPARISON_SCORES, ComparisonScore
from calibrant.registry.metric import Metric, Spec, Value, option_named

DEFAULT, REPORT, ALL = SETS = "default", "report", "all"
"""Names of sets of metrics: the default ones, those of reports, and all. Other specs may be added to each."""
PATTERN = re.compile(r"\s*([A-Za-z_]\w*)\s*(?:\(([^()]*)\))?\s*")
MODULES = (
    "proper", "calibration", "bin_free", "classwise", "canonical", "validators", "gaps", "evalues", "selective",
    "uncertainty", "decompositions", "regression", "regression_calibration", "regression_spread", "pit_tests",
    "detection",
)  # fmt: skip
"""The files of `registry/metrics`, in the order in which tables show their metrics."""


@cache
def metrics() -> dict[str, Metric]:
    """Every metric by name, in the order in which tables show them.

    Returns
    -------
    dict of str to Metric

    Examples
    --------
    >>> import calibrant as cal
    >>> cal.metrics()["ece"]
    Metric(name='ece', title='Expected calibration error', direction='lower', family='calibration errors')
    >>> [name for name, metric in cal.metrics().items() if metric.proper][:2]
    ['nll', 'brier']
    """
    modules = (import_module(f"calibrant.registry.metrics.{module}") for module in MODULES)
    return {metric.name: metric for module in modules for metric in module.METRICS}


@cache
def families() -> tuple[str, ...]:
    """The families of metrics, in the same order."""
    return tuple(dict.fromkeys(metric.family for metric in metrics().values()))


@cache
def with_role(role: str, task: str = "") -> tuple[str, ...]:
    """The specs of the metrics with a role (`ROLES`), in its order; with a task, of those defined for it."""
    found = [
        (place, metric.name + bracket + options)
        for metric in metrics().values()
        if not task or task in metric.tasks
        for key, place in metric.roles.items()
        for name, bracket, options in [key.partition("(")]
        if name == role
    ]
    return tuple(spec for _, spec in sorted(found, key=lambda item: item[0]))


@cache
def on_axis(axis: str) -> tuple[str, ...]:
    """The names of the metrics that the report draws and lists together."""
    return tuple(name for name, metric in metrics().items() if metric.axis == axis)


@cache
def compared_by_default(task: str) -> tuple[str, ...]:
    """The default scores of a comparison; in classification, each follows its form at the best temperature."""
    forms = {score.raw: name for name, score in COMPARISON_SCORES.items() if score.raw and task != "regression"}
    scores = (form for name in with_role("comparison", task) for form in (forms.get(name), name))
    return tuple(score for score in scores if score)


def names() -> tuple[str, ...]:
    """The names of all metrics, read from source because importing them is too slow for shell completion."""
    return tuple(name for module in MODULES for name in names_in(module))


def names_in(module: str) -> tuple[str, ...]:
    """The names of the metrics of one family file, read from source."""
    source = Path(__file__).parent / "metrics" / f"{module}.py"
    return tuple(re.findall(r'\bname="(\w+)"', source.read_text("utf-8")))


@cache
def aliases() -> dict[str, str]:
    """Names of metrics and of scores of comparisons in other libraries, and the names here."""
    every: dict[str, Metric | ComparisonScore] = {**metrics(), **COMPARISON_SCORES}
    return {alias: name for name, metric in every.items() for alias in metric.aliases}


def metric_label(spec: str) -> str:
    """The label of a metric in text, with its options: `ece(bins=10)` is ECE(bins=10)."""
    name, bracket, options = spec.partition("(")
    known = metrics().get(name) or COMPARISON_SCORES.get(name)
    return ((known and known.label) or name) + bracket + options


OF_COMPARISONS = "`calibrant compare` has it, and in Python `cal.comparison.cll` and `cal.compare`"


def find(name: str) -> Metric:
    """The metric of this name, or an error with a hint."""
    known = metrics()
    if name not in known:
        hint = OF_COMPARISONS if name in COMPARISON_SCORES else did_you_mean(name, known)
        raise UsageError("metric", expected="a known metric", got=show(name), hint=hint)
    return known[name]


@lru_cache(maxsize=1024)
def parse(text: str) -> Spec:
    """Parse a spec such as `ece(bins=10, norm=l2)`."""
    name, options = _split(text)
    metric = find(name)
    return Spec(metric, _options(options, metric))


def options_of(text: str, entry: Any) -> dict[str, Value]:
    """The options in a spec of an entry that is not a metric, completed by the defaults."""
    return _options(_split(text)[1], entry)


def _split(text: str) -> tuple[str, str]:
    """The name and the options of a spec."""
    match = PATTERN.fullmatch(text)
    if match is None:
        expected, hint = "NAME or NAME(option=value,…)", "write for example ece(bins=10)"
        raise UsageError("metric", expected=expected, got=show(text), hint=hint)
    return match[1], match[2] or ""


def _options(text: str, entry: Any) -> dict[str, Value]:
    options: dict[str, Value] = {option.name: option.default for option in entry.options}
    given: set[str] = set()
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = (piece.strip() for piece in item.partition("="))
        if not equals:
            raise UsageError(entry.name, expected="option=value", got=show(item), hint=f"write {entry.name}({name}=…)")
        if name in given:
            raise UsageError(entry.name, expected="each option once", got=f"{show(name)} twice", hint="keep one")
        given.add(name)
        options[name] = option_named(entry, name).parse(value, entry.name)
    return options


def split(text: str) -> list[str]:
    """Split specs at commas outside brackets."""
    return [part for part in re.split(r",(?![^(]*\))", text) if part.strip()]


def spec_texts(metrics: str | Iterable[str] | None) -> list[str]:
    """The requested metrics as a list of spec strings; None means `default`."""
    if metrics is None:
        return [DEFAULT]
    return [text.strip() for text in (split(metrics) if isinstance(metrics, str) else metrics)]


def by_default(metrics: str | Iterable[str] | None) -> bool:
    """Whether the default metrics or those of a report are requested, alone or with others."""
    return bool({DEFAULT, REPORT} & set(spec_texts(metrics)))


def report_specs() -> list[Spec]:
    """Every metric of linear or sort cost that reports have, with its defaults."""
    return [Spec.make(m) for m in metrics().values() if m.in_report and m.cost in ("linear", "sort")]
