"""What an evaluation says of a condition: shown, shown not to hold, or neither; `gate_compared` asks comparisons."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from calibrant.comparison.records import Equivalent, better_when_higher
from calibrant.errors import UsageError, did_you_mean, show
from calibrant.evaluation.gate_compared import best, inputs_called, places, rankings, versus
from calibrant.evaluation.gate_grammar import FIELDS, Condition, Gained, Outcome, Threshold, Versus
from calibrant.evaluation.gate_hints import known
from calibrant.evaluation.gate_measured import Finding, Measured
from calibrant.evaluation.result import Evaluation, Group, Result
from calibrant.evaluation.wording import number, span
from calibrant.registry.estimate import Estimate

SIDES = ("before", "after")
"""What the inputs of a recalibration may be called in gates, whatever their names."""


def findings(condition: Condition, evaluation: Evaluation) -> list[Finding]:
    """What is found: one for each input that the condition speaks of."""
    if isinstance(condition, Threshold):
        return _thresholds(condition, evaluation)
    if isinstance(condition, Outcome):
        return _outcomes(condition, evaluation)
    if isinstance(condition, Gained):
        return [_gain(condition, evaluation)]
    return [versus(condition, evaluation)] if isinstance(condition, Versus) else best(condition, evaluation)


# ------------------------------------------------------------------------------------------------- inputs
def _results(name: str | None, evaluation: Evaluation) -> list[Result]:
    """The result of a name; without one all of them, of a recalibration the one after it."""
    named = {result.input: result for result in evaluation.results}
    gained = evaluation.improvement
    if gained is not None:
        name = name or "after"
        if name in SIDES and name not in named:
            name = getattr(gained, name)
    if name is None:
        return list(named.values())
    several = [] if name in named else [key for key in inputs_called(name, evaluation) if key in named]
    if several:
        return [named[key] for key in several]
    return [known("an input of this evaluation", name, named)]


def _group(result: Result, where: tuple[str, str]) -> Group:
    column, value = where
    groups = {str(group.value): group for group in _groups(result, column)}
    found: Group = known(f"a value of {show(column)}", value, groups)
    return found


def _groups(result: Result, column: str) -> list[Group]:
    by: dict[str, list[Group]] = {}
    for group in result.groups:
        by.setdefault(group.by, []).append(group)
    if not by:
        do = f"evaluate with --by {column}, or by={column!r}"
        raise UsageError("gate", expected=f"groups by {show(column)}", came="there are no groups", do=do)
    found: list[Group] = known("a column that was grouped by", column, by)
    return found


def _named(result: Result, evaluation: Evaluation, text: str) -> str:
    return f"{result.input}: {text}" if len(evaluation.results) > 1 else text


# ------------------------------------------------------------------------------------------------ metrics
def _thresholds(condition: Threshold, evaluation: Evaluation) -> list[Finding]:
    chosen = _results(condition.input, evaluation)
    having = [result for result in chosen if condition.spec in _numbers(result, evaluation)]
    if not having:
        _refuse_missing(condition, chosen, evaluation)
    return [_threshold(condition, result, evaluation) for result in having]


def _numbers(part: Result | Group, evaluation: Evaluation) -> dict[str, Any]:
    """The estimates and checks of an input or group; what a comparison knows of it beside."""
    found: dict[str, Any] = {**part.checks, **part.metrics}
    if isinstance(part, Group) or part.input not in (every := places(evaluation)):
        return found
    comparison, model = every[part.input]
    for score, ranking in rankings(comparison).items():
        mine = [item for item in ranking if item.model == model]
        found |= {score: mine[0]} if mine and score not in found else {}
    if model in comparison.equivalents:
        found["dee"] = comparison.equivalents[model]
    return found


def _refuse_missing(condition: Threshold, chosen: Iterable[Result], evaluation: Evaluation) -> None:
    there: dict[str, Any] = {}
    for result in chosen:
        if condition.spec in result.skipped:
            came = f"{show(condition.spec)} was skipped: {result.skipped[condition.spec]}"
            raise UsageError("gate", expected="a metric of this evaluation", came=came, do="leave the gate out")
        there |= _numbers(result, evaluation)
    if condition.spec == "dee" and evaluation.comparison is not None and evaluation.comparison.pool is None:
        came, do = "there is no pool to count them in", "compare with --pool, or pool="
        raise UsageError("gate", expected="deep-ensemble equivalents", came=came, do=do)
    known("a metric or statistic of this evaluation", condition.spec, there)


def _threshold(condition: Threshold, result: Result, evaluation: Evaluation) -> Finding:
    op, bound = condition.op, condition.bound
    if condition.worst_by is not None:
        return _worst(condition, result, evaluation)
    part = result if condition.where is None else _group(result, condition.where)
    found = known("a metric of these groups", condition.spec, _numbers(part, evaluation))
    where = "" if condition.where is None else f"[{condition.where[0]}={condition.where[1]}]"
    name = _named(result, evaluation, condition.spec + where)
    return _measured(name, found, condition.field, evaluation).finding(op, bound)


def _measured(name: str, found: Any, field: str | None, evaluation: Evaluation) -> Measured:
    """A number of a record: its estimate with the interval, or one of its fields as it is."""
    if field is not None:
        if not isinstance(getattr(found, field, None), float):
            do = did_you_mean(field, [key for key in FIELDS if hasattr(found, key)])
            raise UsageError("gate", expected=f"a number of {show(name)}", came=f"got {show(field)}", do=do)
        return Measured.exact(f"{name}.{field}", getattr(found, field))
    if isinstance(found, Equivalent):
        low = -math.inf if found.low_censored or math.isnan(found.low) else found.low
        high = math.inf if found.high_censored or math.isnan(found.high) else found.high
        return Measured(name, found.value, low, high, found.level, _censored(found))
    if not hasattr(found, "low"):
        do = f"write {name.rpartition(': ')[2]} passes, or name one of its numbers, as in .p_value"
        raise UsageError("gate", expected="a metric", came=f"{show(name)} was checked, not measured", do=do)
    level = getattr(found, "level", math.nan)
    low, high = found.low, found.high
    if math.isnan(low) and math.isnan(high) and getattr(found, "method", "none") != "none":
        low, high = -math.inf, math.inf  # an interval without ends, of which a file has nothing but the method
    if math.isnan(level):
        level = float(evaluation.settings.get("level") or math.nan)
    return Measured.of(name, found.value, low, high, level)


def _censored(found: Equivalent) -> tuple[str, str]:
    """The value and the interval of an equivalent, < 1.0 and > K where they lie beyond the pool, as in tables."""
    low = f"< {found.low:.1f}" if found.low_censored else number(found.low)
    high = f"> {found.high:.1f}" if found.high_censored else number(found.high)
    known = math.isfinite(found.low) and math.isfinite(found.high)
    return found.shown()[0] if found.censored else "", f"{low} to {high}" if known else ""


def _worst(condition: Threshold, result: Result, evaluation: Evaluation) -> Finding:
    """The worst of some groups: beyond a bound where any of them is, within it where all of them are."""
    groups = _groups(result, str(condition.worst_by))
    measured = []
    for group in groups:
        found: Estimate = known("a metric of these groups", condition.spec, group.metrics)
        measured.append(_measured(f"{condition.spec}[{group.by}={group.value}]", found, None, evaluation))
    higher = better_when_higher(condition.spec)
    defined = [item for item in measured if not math.isnan(item.value)]
    if not defined:
        return Finding(None, f"{_named(result, evaluation, condition.spec)} is undefined in every group", weak=True)
    any_will_do = (condition.op[0] == "<") == higher
    decided = [item.shows(condition.op, condition.bound) for item in measured]
    shown = _any(decided) if any_will_do else _all(decided)
    worst = _telling(defined, condition, higher)
    said = worst.finding(condition.op, condition.bound).said
    beside = f", the worst of {len(groups)} groups" if len(groups) > 1 else ""
    unknown = len(measured) - len(defined)
    beside += f"; it is undefined in {unknown} of them" if unknown else ""
    weak = worst.weak if any_will_do else any(item.weak for item in measured)
    return Finding(shown, _named(result, evaluation, said + beside), weak)


def _telling(defined: list[Measured], condition: Threshold, higher: bool) -> Measured:
    """The group to tell of: one that is shown beyond the bound, else one that may be, else that of the worst value."""
    order = sorted(defined, key=lambda item: item.value, reverse=not higher)
    beyond = {item.name: item.shows("<" if higher else ">", condition.bound) for item in order}
    for how in (True, None):
        for item in order:
            if beyond[item.name] is how:
                return item
    return order[0]


def _any(found: Iterable[bool | None]) -> bool | None:
    found = list(found)
    return True if True in found else None if None in found else False


def _all(found: Iterable[bool | None]) -> bool | None:
    found = list(found)
    return False if False in found else None if None in found else True


# ------------------------------------------------------------------------------------------------- checks
def _outcomes(condition: Outcome, evaluation: Evaluation) -> list[Finding]:
    rule = str(evaluation.settings.get("rule", "interval"))
    chosen = [result for result in _results(condition.input, evaluation) if result.checks]
    if not chosen:
        do = "make them with calibrant check, or cal.check"
        raise UsageError("gate", expected="an evaluation with checks", came="it has none", do=do)
    return [_outcome(condition, result, evaluation, rule) for result in chosen]


def _outcome(condition: Outcome, result: Result, evaluation: Evaluation, rule: str) -> Finding:
    part = result if condition.where is None else _group(result, condition.where)
    keys = list(part.checks) if condition.spec is None else [condition.spec]
    passed = {key: known("a statistic that was checked", key, part.checks).passed(rule) for key in keys}
    surprised = [key for key, how in passed.items() if how is False]
    unknown = [key for key, how in passed.items() if how is None]
    told = [f"{key} {_surprise(part.checks[key], rule)}" for key in surprised]
    told += [f"{key} is undefined" for key in unknown]
    if not told:
        told = [f"{', '.join(keys)} {'is' if len(keys) == 1 else 'are'} as expected"]
    where = "" if condition.where is None else f"[{condition.where[0]}={condition.where[1]}] "
    shown = _all(passed.values())
    if not condition.passes:
        shown = None if shown is None else not shown
    return Finding(shown, _named(result, evaluation, where + "; ".join(told)))


def _surprise(check: Any, rule: str) -> str:
    low, high = (check.q025, check.q975) if rule == "interval" else (check.min, check.max)
    return f"{number(check.observed)} is {check.surprise(rule)} than expected ({span(low, high)})"


# -------------------------------------------------------------------------------- recalibration, comparison
def _gain(condition: Gained, evaluation: Evaluation) -> Finding:
    found = evaluation.improvement
    if found is None:
        do = "make one with calibrant recalibrate, on rows with labels"
        raise UsageError("gate", expected="a recalibration", came="this evaluation has none", do=do)
    gain = known("a score whose gain is known", condition.spec, found.gains)
    measured = Measured.of(f"{condition.spec} gain", gain.gain, gain.low, gain.high, found.level)
    return measured.finding(condition.op, condition.bound)
