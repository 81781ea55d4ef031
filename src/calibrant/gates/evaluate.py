"""Decide a condition on an evaluation: it holds, it does not, or the data cannot decide.

A number is tested with its interval: it satisfies `> x` if both ends are above x, violates it if neither is, and is
undecided if the interval contains x. Without an interval the value alone decides: enough to fail a `fail_on` gate, not
enough to pass a `require` gate.

*Better* and *worse* follow `Pair.better`: both the p-value corrected for all pairs and the interval of the paired
difference agree, or the difference is infinite. *Not worse* is non-inferiority: the whole interval of the difference
lies above −margin, where higher is better. A model that is better is therefore also not worse. With several datasets,
two bare model names mean their mean difference over datasets. Elsewhere a bare name means every dataset that has the
model, and DATASET/MODEL the model on one dataset.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from calibrant.errors import UsageError, did_you_mean, show
from calibrant.gates.grammar import (
    FIELDS,
    OPERATORS,
    BestModel,
    CheckOutcome,
    Condition,
    GainThreshold,
    Threshold,
    VerdictIs,
    Versus,
)
from calibrant.gates.suggestions import look_up
from calibrant.registry.lookup import with_role
from calibrant.render.formatting import format_interval, format_number
from calibrant.results.comparison import Comparison, Equivalent, Pair, Ranked, better_when_higher
from calibrant.results.evaluation import CHECK, COMPARISON, Evaluation, Group, Result
from calibrant.results.verdict import INCONCLUSIVE, NOT_TESTED

SIDES = ("before", "after")
"""What gates may call the two inputs of a recalibration, whatever their names."""


@dataclass(frozen=True)
class Decision:
    """Whether a condition holds for one input, with the numbers in words."""

    holds: bool | None
    """None where the data support neither the condition nor its opposite."""
    text: str
    without_interval: bool = False
    """Whether only a value without an interval supports the decision."""


@dataclass(frozen=True)
class Measurement:
    """A number and its interval: equal ends for an exact number, NaN ends where there is no interval."""

    name: str
    value: float
    low: float
    high: float
    level: float = math.nan
    labels: tuple[str, str] = ("", "")
    """How to print the value and the interval where plain numbers would mislead: '< 1.0'."""

    @classmethod
    def exact(cls, name: str, value: float) -> Measurement:
        """A number without an error."""
        return cls(name, value, value, value)

    @classmethod
    def from_estimate(cls, name: str, value: float, low: float, high: float, level: float = math.nan) -> Measurement:
        """Restore infinite ends, which files omit: where one end is known, the missing one is infinite."""
        if math.isinf(value):
            return cls.exact(name, value)
        if math.isnan(low) != math.isnan(high):
            low, high = (-math.inf if math.isnan(low) else low), (math.inf if math.isnan(high) else high)
        return cls(name, value, low, high, level)

    @property
    def has_interval(self) -> bool:
        """Whether at least one end is known."""
        return not (math.isnan(self.low) and math.isnan(self.high))

    def satisfies(self, op: str, bound: float) -> bool | None:
        """True or False if the whole interval agrees, None if it contains the bound."""
        if math.isnan(self.value):
            return None
        ends = (self.low, self.high) if self.has_interval else (self.value,)
        outcomes = {OPERATORS[op](end, bound) for end in ends}
        return outcomes.pop() if len(outcomes) == 1 else None

    def decide(self, op: str, bound: float) -> Decision:
        """The same, with the numbers in words."""
        holds = self.satisfies(op, bound)
        if math.isnan(self.value):
            return Decision(holds, f"{self.name} is undefined", without_interval=True)
        text = f"{self.name} {self.labels[0] or format_number(self.value)}"
        if self.low == self.high:
            return Decision(holds, text)
        if not self.has_interval:
            return Decision(holds, f"{text} without an interval", without_interval=True)
        percent = f"{100 * self.level:g}% " if math.isfinite(self.level) else ""
        text += f", {percent}interval {self.labels[1] or format_interval(self.low, self.high) or 'unbounded'}"
        return Decision(holds, text if holds is not None else f"{text} contains {bound:g}")


def decide(condition: Condition, evaluation: Evaluation) -> list[Decision]:
    """One decision for each input that the condition concerns."""
    if isinstance(condition, Threshold):
        results = _results(condition.input, evaluation)
        available = [result for result in results if condition.spec in _records(result, evaluation)]
        if not available:
            records: dict[str, Any] = {}
            for result in results:
                if condition.spec in result.skipped:
                    got = f"{show(condition.spec)}, which was skipped: {result.skipped[condition.spec]}"
                    raise UsageError("gate", expected="a metric of this evaluation", got=got, hint="leave the gate out")
                records |= _records(result, evaluation)
            if condition.spec == "dee" and evaluation.kind == COMPARISON and evaluation.comparison.pool is None:
                got, hint = "a comparison without a pool", "compare with --pool, or pool="
                raise UsageError("gate", expected="deep-ensemble equivalents", got=got, hint=hint)
            look_up("a metric or statistic of this evaluation", condition.spec, records)
        return [_decide_threshold(condition, result, evaluation) for result in available]
    if isinstance(condition, CheckOutcome):
        results = _results(condition.input, evaluation)
        if evaluation.kind != CHECK:
            got, hint = "an evaluation without checks", "run calibrant check, or cal.check"
            raise UsageError("gate", expected="posterior predictive checks", got=got, hint=hint)
        return [_decide_outcome(condition, result, evaluation) for result in results]
    if isinstance(condition, VerdictIs):
        return [_decide_verdict(condition, result, evaluation) for result in _results(condition.input, evaluation)]
    if isinstance(condition, GainThreshold):
        improvement = evaluation.improvement
        if improvement is None:
            hint = "run calibrant recalibrate on rows with labels"
            raise UsageError("gate", expected="a recalibration", got="an evaluation without one", hint=hint)
        gain = look_up("a score with a gain", condition.spec, improvement.gains)
        name = f"{condition.spec} gain"
        measurement = Measurement.from_estimate(name, gain.gain, gain.low, gain.high, improvement.level)
        return [measurement.decide(condition.op, condition.bound)]
    if isinstance(condition, Versus):
        return [decide_versus(condition, evaluation)]
    return decide_best(condition, evaluation)


# ------------------------------------------------------------------------------------------------- inputs
def _results(name: str | None, evaluation: Evaluation) -> list[Result]:
    """The results of a name; without one all of them, or the one after a recalibration."""
    by_name = {result.input: result for result in evaluation.results}
    improvement = evaluation.improvement
    if improvement is not None:
        name = name or "after"
        if name in SIDES and name not in by_name:
            name = getattr(improvement, name)
    if name is None:
        return list(by_name.values())
    if name not in by_name:
        inputs = [by_name[key] for key in inputs_of_model(name, evaluation) if key in by_name]
        if inputs:
            return inputs
    return [look_up("an input of this evaluation", name, by_name)]


def _part(result: Result, where: tuple[str, str] | None) -> tuple[Result | Group, str]:
    """The group of a condition, and how it is named; the whole result without one."""
    if where is None:
        return result, ""
    column, value = where
    groups = {str(group.value): group for group in _groups(result, column)}
    return look_up(f"a value of {show(column)}", value, groups), f"[{column}={value}]"


def _groups(result: Result, column: str) -> list[Group]:
    by_column: dict[str, list[Group]] = {}
    for group in result.groups:
        by_column.setdefault(group.by, []).append(group)
    if not by_column:
        hint = f"evaluate with --by {column}, or by={column!r}"
        raise UsageError("gate", expected=f"groups by {show(column)}", got="an evaluation without groups", hint=hint)
    return list(look_up("a column that --by names", column, by_column))


def _prefixed(result: Result, evaluation: Evaluation, text: str) -> str:
    return f"{result.input}: {text}" if len(evaluation.results) > 1 else text


# ------------------------------------------------------------------------------------------------ metrics
def _records(part: Result | Group, evaluation: Evaluation) -> dict[str, Any]:
    """The estimates and checks of an input or group, with the scores that a comparison has for it."""
    records: dict[str, Any] = {**part.checks, **part.metrics}
    if isinstance(part, Group) or part.input not in (inputs := compared_inputs(evaluation)):
        return records
    comparison, model = inputs[part.input]
    for score, ranking in rankings(comparison).items():
        ranked = next((item for item in ranking if item.model == model), None)
        if ranked is not None:
            records.setdefault(score, ranked)
    if model in comparison.equivalents:
        records["dee"] = comparison.equivalents[model]
    return records


def _decide_threshold(condition: Threshold, result: Result, evaluation: Evaluation) -> Decision:
    if condition.worst_by is not None:
        return _decide_worst(condition, result, evaluation)
    part, where = _part(result, condition.where)
    record = look_up("a metric of these groups", condition.spec, _records(part, evaluation))
    name = _prefixed(result, evaluation, condition.spec + where)
    return _measurement(name, record, condition.field, evaluation).decide(condition.op, condition.bound)


def _measurement(name: str, record: Any, field: str | None, evaluation: Evaluation) -> Measurement:
    """The estimate of a record with its interval, or one of its fields as an exact number."""
    if field is not None:
        if not isinstance(getattr(record, field, None), float):
            hint = did_you_mean(field, [key for key in FIELDS if hasattr(record, key)])
            raise UsageError("gate", expected=f"a number of {show(name)}", got=show(field), hint=hint)
        return Measurement.exact(f"{name}.{field}", getattr(record, field))
    if isinstance(record, Equivalent):
        low = -math.inf if record.low_censored or math.isnan(record.low) else record.low
        high = math.inf if record.high_censored or math.isnan(record.high) else record.high
        finite = math.isfinite(record.low) and math.isfinite(record.high)
        first = f"< {record.low:.1f}" if record.low_censored else format_number(record.low)
        last = f"> {record.high:.1f}" if record.high_censored else format_number(record.high)
        labels = (record.shown()[0] if record.censored else "", f"{first} to {last}" if finite else "")
        return Measurement(name, record.value, low, high, record.level, labels)
    if not hasattr(record, "low"):
        hint = f"write {name.rpartition(': ')[2]} passes, or name one of its numbers, as in .p_value"
        raise UsageError("gate", expected="a metric", got=f"the check {show(name)}", hint=hint)
    low, high, level = record.low, record.high, getattr(record, "level", math.nan)
    if math.isnan(low) and math.isnan(high) and getattr(record, "method", "none") != "none":
        low, high = -math.inf, math.inf  # an unbounded interval, of which files keep only the method
    if math.isnan(level):
        level = float(evaluation.settings.get("level") or math.nan)
    return Measurement.from_estimate(name, record.value, low, high, level)


def _decide_worst(condition: Threshold, result: Result, evaluation: Evaluation) -> Decision:
    """The worst group: beyond a bound if any group is, within it if all groups are."""
    groups = _groups(result, str(condition.worst_by))
    measurements = []
    for group in groups:
        estimate = look_up("a metric of these groups", condition.spec, group.metrics)
        name = f"{condition.spec}[{group.by}={group.value}]"
        measurements.append(_measurement(name, estimate, None, evaluation))
    higher = better_when_higher(condition.spec)
    defined = [item for item in measurements if not math.isnan(item.value)]
    if not defined:
        text = f"{_prefixed(result, evaluation, condition.spec)} is undefined in every group"
        return Decision(None, text, without_interval=True)
    any_decides = (condition.op[0] == "<") == higher
    outcomes = [item.satisfies(condition.op, condition.bound) for item in measurements]
    holds = any_decides if any_decides in outcomes else None if None in outcomes else not any_decides
    # report the worst of the groups beyond the bound, else of the undecided ones, else of all
    order = sorted(defined, key=lambda item: item.value, reverse=not higher)
    beyond = [item.satisfies("<" if higher else ">", condition.bound) for item in order]
    worst = order[next((beyond.index(outcome) for outcome in (True, None) if outcome in beyond), 0)]
    text = worst.decide(condition.op, condition.bound).text
    text += f", the worst of {len(groups)} groups" if len(groups) > 1 else ""
    undefined = len(measurements) - len(defined)
    text += f"; undefined in {undefined} of them" if undefined else ""
    without_interval = not all(item.has_interval for item in ([worst] if any_decides else measurements))
    return Decision(holds, _prefixed(result, evaluation, text), without_interval)


# ------------------------------------------------------------------------------------ checks
def _decide_outcome(condition: CheckOutcome, result: Result, evaluation: Evaluation) -> Decision:
    rule = str(evaluation.settings.get("rule", "interval"))
    part, where = _part(result, condition.where)
    keys = list(part.checks) if condition.spec is None else [condition.spec]
    passed = {key: look_up("a statistic of these checks", key, part.checks).passed(rule) for key in keys}
    texts = []
    for key in (key for key, outcome in passed.items() if outcome is False):
        check = part.checks[key]
        low, high = (check.q025, check.q975) if rule == "interval" else (check.min, check.max)
        observed = format_number(check.observed)
        texts.append(f"{key} {observed} is {check.surprise(rule)} than expected ({format_interval(low, high)})")
    texts += [f"{key} is undefined" for key, outcome in passed.items() if outcome is None]
    texts = texts or [f"{', '.join(keys)} {'is' if len(keys) == 1 else 'are'} as expected"]
    outcomes = set(passed.values())
    all_pass = False if False in outcomes else None if None in outcomes else True
    holds = all_pass if condition.passes or all_pass is None else not all_pass
    return Decision(holds, _prefixed(result, evaluation, f"{where} {'; '.join(texts)}".lstrip()))


# ------------------------------------------------------------------------------------ verdicts
def _decide_verdict(condition: VerdictIs, result: Result, evaluation: Evaluation) -> Decision:
    """Whether the stored verdict has one of the words; one that is inconclusive shows neither that nor the opposite."""
    verdict = result.verdict
    if verdict is None:
        got = f"none stored of {show(result.input)}"
        hint = "evaluate its predictions again, with calibrant evaluate FILE --json OUT"
        raise UsageError("gate", expected="a verdict on calibration", got=got, hint=hint)
    words = " and ".join([verdict.status, *verdict.direction]).replace("_", " ")
    text = f"verdict: {words}" + (f" ({verdict.headline})" if verdict.headline else "")
    matches = any(verdict.matches(word) for word in condition.words)
    holds = None if verdict.status in (INCONCLUSIVE, NOT_TESTED) and not matches else matches == condition.equal
    return Decision(holds, _prefixed(result, evaluation, text))


# ------------------------------------------------------------------------------------------------ datasets
def compared_inputs(evaluation: Evaluation) -> dict[str, tuple[Comparison, str]]:
    """The comparison and the model name of every input, by input name."""
    if evaluation.kind != COMPARISON:
        return {}
    comparison = evaluation.comparison
    if not comparison.datasets:
        return {model: (comparison, model) for model in _models(comparison)}
    return {f"{name}/{model}": (one, model) for name, one in comparison.datasets.items() for model in _models(one)}


def inputs_of_model(name: str, evaluation: Evaluation) -> list[str]:
    """The inputs that hold a model, one per dataset."""
    return [place for place, (_, model) in compared_inputs(evaluation).items() if model == name]


def rankings(comparison: Comparison) -> dict[str, tuple[Ranked, ...]]:
    """The ranking by every score."""
    return {**comparison.ranks, comparison.rank_by: comparison.ranking}


def _models(comparison: Comparison) -> dict[str, None]:
    names = [item.model for ranked in rankings(comparison).values() for item in ranked]
    return dict.fromkeys([*names, *comparison.equivalents])


def _comparison(evaluation: Evaluation) -> Comparison:
    if evaluation.kind != COMPARISON:
        hint = "run calibrant compare"
        raise UsageError("gate", expected="a comparison", got="an evaluation without one", hint=hint)
    return evaluation.comparison


# ---------------------------------------------------------------------------------------------------- pairs
def decide_versus(condition: Versus, evaluation: Evaluation) -> Decision:
    """One model against another."""
    pair = _pair(condition, evaluation)
    same = pair.difference == 0.0 and math.isnan(pair.low) and math.isnan(pair.high) and pair.p_holm >= 1.0
    # no row differs, as for the same predictions twice: without spread there is no interval
    equal = same and pair.n > 1 and pair.score.partition("(")[0] not in with_role("hit_rate")
    text = f"{pair.score} of {condition.first} minus {condition.second}"
    if math.isnan(pair.difference):
        return Decision(None, f"{text} is undefined")
    if math.isinf(pair.difference):
        text += f" is {format_number(pair.difference)}"
    elif equal:
        text += f" is {format_number(pair.difference)} in every row"
    else:
        ends = format_interval(pair.low, pair.high)
        interval = f", {100 * pair.level:g}% interval {ends}" if ends else " without an interval"
        text += f" {format_number(pair.difference)}{interval}, p {format_number(pair.p_holm)} corrected for all pairs"
    if condition.relation == "not worse":
        text += f", margin {condition.margin:g}"
        if equal or pair.better == pair.first:
            return Decision(True, text)
        higher = better_when_higher(pair.score)
        bound = -condition.margin if higher else condition.margin
        difference = Measurement.from_estimate(pair.score, pair.difference, pair.low, pair.high)
        holds = difference.satisfies(">=" if higher else "<=", bound)
        if holds is None and math.isfinite(pair.difference):
            text += f": the interval contains {bound:g}"
        return Decision(holds, text, not difference.has_interval)
    if equal:
        return Decision(False, text)
    if pair.better is None:
        return Decision(None, f"{text}: not significant")
    return Decision(pair.better == (pair.first if condition.relation == "better" else pair.second), text)


def _pair(condition: Versus, evaluation: Evaluation) -> Pair:
    """The pair that the condition names, as first minus second."""
    comparison, inputs = _comparison(evaluation), compared_inputs(evaluation)
    first, second = condition.first, condition.second
    for name in (first, second):
        look_up("a model of this comparison", name, {**{model: None for _, model in inputs.values()}, **inputs})
    if comparison.datasets and (first in inputs or second in inputs):
        if not (first in inputs and second in inputs and inputs[first][0] is inputs[second][0]):
            hint = "write DATASET/MODEL for both, or MODEL for both to compare their means over datasets"
            got = f"{show(first)} and {show(second)}"
            raise UsageError("gate", expected="two models of one dataset", got=got, hint=hint)
        (comparison, first), (_, second) = inputs[first], inputs[second]
    score = condition.spec or comparison.rank_by
    if first == second:
        hint = "name the other one"
        raise UsageError("gate", expected="two models", got=f"{show(condition.first)} twice", hint=hint)
    scores = dict.fromkeys(pair.score for pair in comparison.pairs)
    if score not in scores:
        ranked = rankings(comparison) | {key: () for one in comparison.datasets.values() for key in one.ranks}
        if score in ranked or score == "dee":
            hint = f"gate its value, as in '{condition.first}: {score} < 0.05'"
            hint = f"write '{condition.first}: dee > 2'" if score == "dee" else hint
            got = f"{score}, which is not a mean over rows"
            raise UsageError("gate", expected="a score with paired differences", got=got, hint=hint)
        look_up("a score of this comparison", score, scores)
    for pair in comparison.pairs:
        if pair.score == score and {pair.first, pair.second} == {first, second}:
            return pair if pair.first == first else pair.turned()
    hint = "leave --baseline out" if comparison.baseline is not None else "compare them with calibrant compare"
    got = f"{show(condition.first)} and {show(condition.second)}"
    raise UsageError("gate", expected=f"two models compared by {score}", got=got, hint=hint)


# ---------------------------------------------------------------------------------------------------- ranks
def decide_best(condition: BestModel, evaluation: Evaluation) -> list[Decision]:
    """Whether a model ranks first, on each dataset that has it."""
    whole, inputs = _comparison(evaluation), compared_inputs(evaluation)
    names = [condition.model] if condition.model in inputs else inputs_of_model(condition.model, evaluation)
    if not names:
        models = dict.fromkeys(model for _, model in inputs.values())
        look_up("a model of this comparison", condition.model, {**models, **inputs})
    decisions = []
    for name in names:
        comparison, model = inputs[name]
        score = condition.spec or whole.rank_by
        ranking = look_up("a score of this ranking", score, rankings(comparison))
        item: Ranked = look_up("a ranked model", model, {item.model: item for item in ranking})
        text = f"{name} has rank {item.rank} by {score}"
        if math.isnan(item.value):
            decisions.append(Decision(None, f"{score} of {name} is undefined"))
        elif math.isnan(item.best):
            text += ", without an interval of ranks"
            decisions.append(Decision(item.rank == 1, text, without_interval=True))
        else:
            text += f", rank {item.rank_low} to {item.rank_high} on resampled rows"
            decisions.append(Decision(True if item.rank_high == 1 else False if item.rank_low > 1 else None, text))
    return decisions
