"""What an evaluation says of a condition: shown, shown not to hold, or neither.

A number with an interval shows `> x` where both ends are above x, and shows that it does not hold where neither is.
Between them nothing is shown. An infinite value is what it is. Without an interval the value speaks, *weakly*: that is
enough to stop a build, and not enough to pass what must be shown.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from calibrant.comparison.records import Equivalent, Pair, better_when_higher
from calibrant.errors import UsageError, did_you_mean, show
from calibrant.evaluation.gate_grammar import FIELDS, OPERATORS, Best, Condition, Gained, Outcome, Threshold, Versus
from calibrant.evaluation.result import Evaluation, Group, Result
from calibrant.evaluation.wording import number, span
from calibrant.registry.estimate import Estimate

SIDES = ("before", "after")
"""What the inputs of a recalibration may be called in gates, whatever their names."""


@dataclass(frozen=True)
class Finding:
    """Whether a condition is shown (None: neither it nor its opposite), in words, and whether a bare value says so."""

    shown: bool | None
    said: str
    weak: bool = False


@dataclass(frozen=True)
class Measured:
    """A number and its interval; where they are the same the number is exact, where the ends are NaN there is none."""

    name: str
    value: float
    low: float
    high: float
    level: float = math.nan

    @classmethod
    def exact(cls, name: str, value: float) -> Measured:
        """A number that has no error."""
        return cls(name, value, value, value)

    @classmethod
    def of(cls, name: str, value: float, low: float, high: float, level: float = math.nan) -> Measured:
        """Ends that are not finite are left out of files: where one is known, the other is infinite."""
        if math.isinf(value):
            return cls.exact(name, value)
        if math.isnan(low) != math.isnan(high):
            low, high = (-math.inf if math.isnan(low) else low), (math.inf if math.isnan(high) else high)
        return cls(name, value, low, high, level)

    @property
    def weak(self) -> bool:
        """Whether there is no interval."""
        return math.isnan(self.low) and math.isnan(self.high)

    def shows(self, op: str, bound: float) -> bool | None:
        """Whether the whole interval is on that side of the bound (true), on the other (false), or on both (None)."""
        holds = OPERATORS[op]
        if math.isnan(self.value):
            return None
        ends = {holds(end, bound) for end in ((self.value,) if self.weak else (self.low, self.high))}
        return ends.pop() if len(ends) == 1 else None

    def finding(self, op: str, bound: float) -> Finding:
        """The same with words."""
        shown = self.shows(op, bound)
        told = f"{self.name} {number(self.value)}"
        if math.isnan(self.value):
            return Finding(shown, f"{self.name} is undefined, so that nothing can be told", weak=True)
        if self.low == self.high:
            return Finding(shown, told)
        if self.weak:
            return Finding(shown, f"{told}, the value alone: there is no interval", weak=True)
        percent = f"{100 * self.level:g} % " if math.isfinite(self.level) else ""
        told += f", {percent}interval {span(self.low, self.high)}"
        return Finding(shown, told if shown is not None else f"{told}: on both sides of {bound:g}")


def findings(condition: Condition, evaluation: Evaluation) -> list[Finding]:
    """What is found: one for each input that the condition speaks of."""
    if isinstance(condition, Threshold):
        return _thresholds(condition, evaluation)
    if isinstance(condition, Outcome):
        return _outcomes(condition, evaluation)
    if isinstance(condition, Gained):
        return [_gain(condition, evaluation)]
    return [_versus(condition, evaluation) if isinstance(condition, Versus) else _best(condition, evaluation)]


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
    return [_known("an input of this evaluation", name, named)]


def _known(expected: str, name: str, known: Mapping[str, Any]) -> Any:
    if name not in known:
        do = did_you_mean(name, known) if known else "there is none"
        raise UsageError("gate", expected=expected, came=f"got {show(name)}", do=do)
    return known[name]


def _group(result: Result, where: tuple[str, str]) -> Group:
    column, value = where
    groups = {str(group.value): group for group in _groups(result, column)}
    found: Group = _known(f"a value of {show(column)}", value, groups)
    return found


def _groups(result: Result, column: str) -> list[Group]:
    known: dict[str, list[Group]] = {}
    for group in result.groups:
        known.setdefault(group.by, []).append(group)
    if not known:
        do = f"evaluate with --by {column}, or by={column!r}"
        raise UsageError("gate", expected=f"groups by {show(column)}", came="there are no groups", do=do)
    found: list[Group] = _known("a column that was grouped by", column, known)
    return found


def _named(result: Result, evaluation: Evaluation, text: str) -> str:
    return f"{result.input}: {text}" if len(evaluation.results) > 1 else text


# ------------------------------------------------------------------------------------------------ metrics
def _thresholds(condition: Threshold, evaluation: Evaluation) -> list[Finding]:
    chosen = _results(condition.input, evaluation)
    having = [result for result in chosen if condition.spec in _numbers(condition, result, evaluation)]
    if not having:
        _refuse_missing(condition, chosen, evaluation)
    return [_threshold(condition, result, evaluation) for result in having]


def _numbers(condition: Threshold, part: Result | Group, evaluation: Evaluation) -> dict[str, Any]:
    """The estimates and checks of an input or group; what a comparison knows of it beside."""
    known: dict[str, Any] = {**part.checks, **part.metrics}
    comparison = evaluation.comparison
    if isinstance(part, Group) or comparison is None:
        return known
    for score, ranked in {comparison.rank_by: comparison.ranking, **comparison.ranks}.items():
        mine = [item for item in ranked if item.model == part.input]
        known |= {score: mine[0]} if mine and score not in known else {}
    if part.input in comparison.equivalents:
        known["dee"] = comparison.equivalents[part.input]
    return known


def _refuse_missing(condition: Threshold, chosen: Iterable[Result], evaluation: Evaluation) -> None:
    known: dict[str, Any] = {}
    for result in chosen:
        if condition.spec in result.skipped:
            came = f"{show(condition.spec)} was skipped: {result.skipped[condition.spec]}"
            raise UsageError("gate", expected="a metric of this evaluation", came=came, do="leave the gate out")
        known |= _numbers(condition, result, evaluation)
    _known("a metric or statistic of this evaluation", condition.spec, known)


def _threshold(condition: Threshold, result: Result, evaluation: Evaluation) -> Finding:
    op, bound = condition.op, condition.bound
    if condition.worst_by is not None:
        return _worst(condition, result, evaluation)
    part = result if condition.where is None else _group(result, condition.where)
    found = _known("a metric of these groups", condition.spec, _numbers(condition, part, evaluation))
    where = "" if condition.where is None else f"[{condition.where[0]}={condition.where[1]}]"
    name = _named(result, evaluation, condition.spec + where)
    return _measured(name, found, condition.field).finding(op, bound)


def _measured(name: str, found: Any, field: str | None) -> Measured:
    """A number of a record: its estimate with the interval, or one of its fields as it is."""
    if field is not None:
        if not isinstance(getattr(found, field, None), float):
            do = did_you_mean(field, [key for key in FIELDS if hasattr(found, key)])
            raise UsageError("gate", expected=f"a number of {show(name)}", came=f"got {show(field)}", do=do)
        return Measured.exact(f"{name}.{field}", getattr(found, field))
    if isinstance(found, Equivalent):
        low = -math.inf if found.low_censored or math.isnan(found.low) else found.low
        high = math.inf if found.high_censored or math.isnan(found.high) else found.high
        return Measured(name, found.value, low, high, found.level)
    if not hasattr(found, "low"):
        do = f"write {name.rpartition(': ')[2]} passes, or name one of its numbers, as in .p_value"
        raise UsageError("gate", expected="a metric", came=f"{show(name)} was checked, not measured", do=do)
    return Measured.of(name, found.value, found.low, found.high, getattr(found, "level", math.nan))


def _worst(condition: Threshold, result: Result, evaluation: Evaluation) -> Finding:
    """The worst of some groups: beyond a bound where any of them is, within it where all of them are."""
    groups = _groups(result, str(condition.worst_by))
    measured = []
    for group in groups:
        found: Estimate = _known("a metric of these groups", condition.spec, group.metrics)
        measured.append(_measured(f"{condition.spec}[{group.by}={group.value}]", found, None))
    higher = better_when_higher(condition.spec)
    known = [item for item in measured if not math.isnan(item.value)]
    if not known:
        return Finding(None, f"{_named(result, evaluation, condition.spec)} is undefined in every group", weak=True)
    any_will_do = (condition.op[0] == "<") == higher
    decided = [item.shows(condition.op, condition.bound) for item in measured]
    shown = _any(decided) if any_will_do else _all(decided)
    worst = _telling(known, condition, higher)
    said = worst.finding(condition.op, condition.bound).said
    beside = f", the worst of {len(groups)} groups" if len(groups) > 1 else ""
    unknown = len(measured) - len(known)
    beside += f"; it is undefined in {unknown} of them" if unknown else ""
    weak = worst.weak if any_will_do else any(item.weak for item in measured)
    return Finding(shown, _named(result, evaluation, said + beside), weak)


def _telling(known: list[Measured], condition: Threshold, higher: bool) -> Measured:
    """The group to tell of: one that is shown beyond the bound, else one that may be, else that of the worst value."""
    order = sorted(known, key=lambda item: item.value, reverse=not higher)
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
    passed = {key: _known("a statistic that was checked", key, part.checks).passed(rule) for key in keys}
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
    gain = _known("a score whose gain is known", condition.spec, found.gains)
    measured = Measured.of(f"{condition.spec} gain", gain.gain, gain.low, gain.high, found.level)
    return measured.finding(condition.op, condition.bound)


def _comparison(evaluation: Evaluation) -> Any:
    if evaluation.comparison is None:
        do = "make one with calibrant compare"
        raise UsageError("gate", expected="a comparison", came="this evaluation has none", do=do)
    return evaluation.comparison


def _versus(condition: Versus, evaluation: Evaluation) -> Finding:
    comparison = _comparison(evaluation)
    scores = dict.fromkeys(pair.score for pair in comparison.pairs)
    models = dict.fromkeys(name for pair in comparison.pairs for name in (pair.first, pair.second))
    _known("a score that was compared", condition.spec, scores)
    for name in (condition.first, condition.second):
        _known("a model that was compared", name, models)
    pair: Pair = comparison.pair(condition.first, condition.second, condition.spec)
    percent = f"{100 * pair.level:g} % interval {span(pair.low, pair.high)}"
    told = f"{pair.score} of {pair.first} less that of {pair.second} {number(pair.difference)}, {percent}"
    if condition.relation == "not worse":
        return _not_worse(condition, pair, told)
    told += f", p {number(pair.p_holm)} of all pairs"
    if math.isnan(pair.difference) or math.isnan(pair.p_holm):
        return Finding(None, told)
    winner = condition.first if condition.relation == "better" else condition.second
    return Finding(None if pair.better is None else pair.better == winner, told)


def _not_worse(condition: Versus, pair: Pair, told: str) -> Finding:
    """Non-inferiority: the whole interval of the difference lies above −margin, where higher is better."""
    higher = better_when_higher(pair.score)
    measured = Measured.of(pair.score, pair.difference, pair.low, pair.high)
    bound = -condition.margin if higher else condition.margin
    shown = measured.shows(">=" if higher else "<=", bound)
    return Finding(shown, f"{told}, margin {condition.margin:g}", measured.weak)


def _best(condition: Best, evaluation: Evaluation) -> Finding:
    comparison = _comparison(evaluation)
    rankings = {**comparison.ranks, comparison.rank_by: comparison.ranking}
    score = condition.spec or comparison.rank_by
    ranked = {item.model: item for item in _known("a score that models were ranked by", score, rankings)}
    item = _known("a model that was compared", condition.model, ranked)
    if math.isnan(item.value):
        return Finding(None, f"{score} of {item.model} is undefined")
    told = f"{item.model} has rank {item.rank} by {score}, on resampled rows {item.rank_low} to {item.rank_high}"
    return Finding(True if item.rank_high == 1 else False if item.rank_low > 1 else None, told)
