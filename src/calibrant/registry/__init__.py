"""The registry: metrics by name, and the spec strings that name them with their options."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Any

from calibrant.errors import UsageError, did_you_mean, show
from calibrant.registry.metric import Metric, Option, Spec, Value, option_named

__all__ = ["Metric", "Option", "Spec", "default_specs", "families", "family", "metrics", "options_of", "parse", "split"]

PATTERN = re.compile(r"\s*([A-Za-z_]\w*)\s*(?:\(([^()]*)\))?\s*")


@cache
def families() -> tuple[tuple[Metric, ...], ...]:
    """Every metric, those of a kind together, in the order in which tables show them."""
    from calibrant.registry import (
        bin_free,
        calibration,
        canonical,
        classwise_errors,
        decompositions,
        detection,
        evalues,
        proper,
        ranking,
        regression,
        regression_calibration,
        selective,
        uncertainty,
        validators,
    )

    errors = (
        calibration.METRICS + bin_free.METRICS,
        classwise_errors.METRICS + canonical.METRICS,
        validators.METRICS + evalues.METRICS,
    )
    others = (ranking, selective, uncertainty, decompositions, regression, regression_calibration, detection)
    return (proper.METRICS, *errors, *(family.METRICS for family in others))


@cache
def metrics() -> dict[str, Metric]:
    """Every metric by name, in the order in which tables show them."""
    return {metric.name: metric for family in families() for metric in family}


def family(name: str) -> int:
    """The place of the metric's kind among the families."""
    return next(place for place, family in enumerate(families()) if any(metric.name == name for metric in family))


COMPARED = ("cll", "brier_ts", "dee")
"""Scores at the best temperature and equivalents, which rows alone do not give: they need halves, or a pool."""
OF_COMPARISONS = "`calibrant compare` has it, and in Python `cal.cll` and `cal.compare`"


def find(name: str) -> Metric:
    """The metric of this name, or an error with a hint."""
    known = metrics()
    if name not in known:
        raise UsageError(
            "metric",
            expected="a known metric",
            came=f"got {show(name)}",
            do=OF_COMPARISONS if name in COMPARED else did_you_mean(name, known),
        )
    return known[name]


@lru_cache(maxsize=1024)
def parse(text: str) -> Spec:
    """`ece(bins=10, norm=l2)` as a spec."""
    match = _match(text)
    metric = find(match[1])
    return Spec(metric, _options(match[2] or "", metric))


def options_of(text: str, entry: Any) -> dict[str, Value]:
    """The options that are written behind the name of an entry that is not a metric, the others by default."""
    match = _match(text)
    return _options(match[2] or "", entry)


def _match(text: str) -> re.Match[str]:
    match = PATTERN.fullmatch(text)
    if match is None:
        raise UsageError(
            "metric",
            expected="NAME or NAME(option=value,…)",
            came=f"got {show(text)}",
            do="write for example ece(bins=10)",
        )
    return match


def _options(text: str, entry: Any) -> dict[str, Value]:
    options: dict[str, Value] = {option.name: option.default for option in entry.options}
    seen: set[str] = set()
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = (piece.strip() for piece in item.partition("="))
        if not equals:
            raise UsageError(
                entry.name,
                expected="option=value",
                came=f"got {show(item)}",
                do=f"write {entry.name}({name}=…)",
            )
        if name in seen:
            raise UsageError(entry.name, expected="each option once", came=f"got {show(name)} twice", do="keep one")
        seen.add(name)
        options[name] = option_named(entry, name).parse(value, entry.name)
    return options


def split(text: str) -> list[str]:
    """Specs separated by commas that stand outside brackets."""
    return [part for part in re.split(r",(?![^(]*\))", text) if part.strip()]


def default_specs() -> list[Spec]:
    """Every metric of linear or sort cost, with its defaults."""
    return [Spec.make(m) for m in metrics().values() if m.default and m.cost in ("linear", "sort")]
