"""The gate language: one condition on an evaluation per line of text, parsed with regular expressions, never executed.

    [INPUT:] SPEC [WHERE] OP NUMBER                      nll < 0.3      digits: ece(bins=10)[site=north] <= 0.05
    [INPUT:] worst SPEC by COLUMN OP NUMBER              worst nll by site < 0.5
    [INPUT:] SPEC [WHERE].FIELD OP NUMBER                ece.p_value < 0.01
    [INPUT:] STATISTIC [WHERE] passes | fails            accuracy passes
    [INPUT:] all pass | any fails
    [INPUT:] verdict = WORD, …  |  verdict != WORD, …    verdict = overconfident
    SCORE gain OP NUMBER                                 nll gain > 0
    MODEL better|worse than MODEL [by SCORE]             candidate worse than baseline by nll
    MODEL not worse than MODEL [by SCORE] [margin NUMBER]
    MODEL best [by SCORE]

OP is one of < <= > >=, also ≤ and ≥; WHERE is [COLUMN=VALUE]. SCORE defaults to the score of the ranking. `is` is
allowed before better, worse, not worse and best; `no worse` means `not worse`. Put names with spaces or operators in
single or double quotation marks, and double a mark inside them.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from calibrant.errors import UsageError, did_you_mean, show
from calibrant.gates.suggestions import correct_slip, suggest_gate, suggest_metric
from calibrant.registry.comparison_scores import CALIBRATED, COMPARISON_SCORES
from calibrant.registry.lookup import find, metrics, parse
from calibrant.results.verdict import DIRECTIONS, STATUSES

OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
FIELDS = ("value", "p_value", "q_value", "observed", "mid_p", "two_sided")
"""Fields of a metric or check that are gated as exact numbers."""
MAX_CHARACTERS = 1000
VERDICT_WORDS = (*STATUSES, *DIRECTIONS)
ASCII_OPERATORS = {"≤": "<=", "≥": ">="}
FORMS = (
    "[INPUT:] METRIC < NUMBER (or <=, >, >=), STATISTIC passes or fails, MODEL better (worse, not worse) than MODEL by "
    "SCORE, MODEL best, or verdict = WORD"
)

_QUOTED = r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\""
_INPUT = rf"(?:(?P<input>{_QUOTED}|[^\s'\":<>=\[\]()]+)\s*:\s*)?"
_SPEC = rf"(?P<spec>{_QUOTED}|[A-Za-z_]\w*(?:\s*\([^()]*\))?)"
_WHERE = rf"(?:\s*\[\s*(?P<column>{_QUOTED}|[^\s='\"\[\]]+)\s*=\s*(?P<equals>{_QUOTED}|[^'\"\]]*?)\s*\])?"
_NUMBER = r"(?:[-+−]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|inf))"
_BOUND = rf"\s*(?P<op><=|>=|≤|≥|<|>)\s*(?P<number>{_NUMBER})"
_MODEL = rf"(?:{_QUOTED}|[^\s'\"]+)"
_IS = rf"(?P<first>{_MODEL})(?:\s+is)?"
_THAN = rf"\s+than\s+(?P<second>{_MODEL})(?:\s+by\s+{_SPEC})?"


# -------------------------------------------------------------------------------------------- conditions
@dataclass(frozen=True)
class Threshold:
    """A metric, or a field of a check, on one side of a bound."""

    input: str | None
    spec: str
    op: str
    bound: float
    where: tuple[str, str] | None = None
    """Column and value of the group."""
    worst_by: str | None = None
    """The column whose worst group is tested."""
    field: str | None = None


@dataclass(frozen=True)
class CheckOutcome:
    """A check that passes or fails; without a statistic, all checks pass or any fails."""

    input: str | None
    spec: str | None
    passes: bool
    where: tuple[str, str] | None = None


@dataclass(frozen=True)
class GainThreshold:
    """The gain of a recalibration in a proper score, on one side of a bound."""

    spec: str
    op: str
    bound: float


@dataclass(frozen=True)
class Versus:
    """One model against another: `better`, `worse`, or `not worse` by more than a margin."""

    first: str
    second: str
    spec: str | None
    relation: str
    margin: float = 0.0


@dataclass(frozen=True)
class BestModel:
    """A model that ranks first over its whole rank interval."""

    model: str
    spec: str | None


@dataclass(frozen=True)
class VerdictIs:
    """The stored verdict on calibration has one of these words as its status or direction, or none of them."""

    input: str | None
    words: tuple[str, ...]
    equal: bool = True
    """False for `!=`."""

    spec: ClassVar[None] = None


Condition = Threshold | CheckOutcome | GainThreshold | Versus | BestModel | VerdictIs


# ------------------------------------------------------------------------------------------------- bounds
def check_bound(condition: Condition) -> None:
    """Refuse a bound that every possible value of the metric satisfies, or that none does."""
    if isinstance(condition, Versus):
        if condition.spec is not None:
            low, high = limits_of(condition.spec)
            if condition.margin >= high - low:
                name, limits = f"a difference of {condition.spec}", (low - high, high - low)
                _refuse_bound(name, limits, "margin", condition.margin, "always")
        return
    if not isinstance(condition, Threshold | GainThreshold):
        return
    low, high = limits_of(condition.spec)
    name = condition.spec
    if isinstance(condition, GainThreshold):
        name, low, high = f"{name} gain", low - high, high - low
    elif condition.field is not None:
        name = f"{name}.{condition.field}"
        low, high = (low, high) if condition.field in ("value", "observed") else (0.0, 1.0)
    outcomes = {OPERATORS[condition.op](end, condition.bound) for end in (low, high)}
    if len(outcomes) == 1 and low < high:
        _refuse_bound(name, (low, high), condition.op, condition.bound, "always" if outcomes.pop() else "never")


def limits_of(spec: str) -> tuple[float, float]:
    """The least and the greatest value of a metric, where known."""
    name = spec.partition("(")[0]
    known = metrics().get(name) or COMPARISON_SCORES.get(name)
    return (-math.inf, math.inf) if known is None else known.limits


def _refuse_bound(name: str, limits: tuple[float, float], op: str, bound: float, how: str) -> None:
    low, high = limits
    within = f"lies in [{low:g}, {high:g}]" if math.isfinite(low + high) else "is any number"
    if math.isfinite(low) != math.isfinite(high):
        within = f"is at least {low:g}" if math.isfinite(low) else f"is at most {high:g}"
    hint = f"for {bound:g}% write {bound / 100:g}" if high == 1.0 < bound <= 100.0 else "choose a bound in that range"
    got = f"{op} {bound:g}, which {how} holds"
    raise UsageError("gate", expected=f"a bound that can decide: {name} {within}", got=got, hint=hint)


# ------------------------------------------------------------------------------------------------ parsing
def parse_condition(text: str, kind: str = "require") -> Condition:
    """Parse one condition; raises `UsageError` with a suggestion if the text is not one."""
    for pattern, build in _FORMS if len(text) <= MAX_CHARACTERS else ():
        match = pattern.fullmatch(text.strip())
        if match is not None:
            try:
                condition = build(match.groupdict())
            except UsageError as error:
                hint = correct_slip(text) or error.hint
                raise UsageError("gate", expected=error.expected, got=error.got, hint=hint) from None
            check_bound(condition)
            return condition
    raise UsageError("gate", expected=FORMS, got=show(text), hint=suggest_gate(text, kind))


def _threshold(match: dict[str, Any]) -> Threshold:
    field = match.get("field")
    if field is not None and field not in FIELDS:
        hint = did_you_mean(field, FIELDS)
        if field in metrics() or field in COMPARISON_SCORES:  # as in candidate.nll < 0.3
            hint = f"did you mean '{match['spec']}: {field} {match['op']} {match['number']}'?"
        raise UsageError("gate", expected="a field of a metric or check", got=show(field), hint=hint)
    worst_by = _unquoted(match.get("by"))
    spec = _spec(match["spec"], checks=field is not None)
    if worst_by is not None and find(spec.partition("(")[0]).direction not in ("lower", "higher"):
        expected = "a metric that is better when lower, or when higher, after 'worst'"
        hint = f"gate the groups one by one, as in {spec}[COLUMN=VALUE]"
        raise UsageError("gate", expected=expected, got=show(spec), hint=hint)
    bound = _number(match["number"])
    return Threshold(_unquoted(match["input"]), spec, _operator(match), bound, _where(match), worst_by, field)


def _outcome(match: dict[str, Any]) -> CheckOutcome:
    spec = match.get("spec")
    name = None if spec is None else _spec(spec, checks=True)
    return CheckOutcome(_unquoted(match["input"]), name, "pass" in match["outcome"], _where(match))


def _verdict(match: dict[str, Any]) -> VerdictIs:
    words = []
    for text in re.split(r"[,|]", match["words"]):
        word = re.sub(r"[\s_-]+", "_", str(_unquoted(text.strip())).strip().lower()).removeprefix("well_")
        if word not in VERDICT_WORDS:
            expected, hint = "the status or a direction of a verdict", did_you_mean(word, VERDICT_WORDS)
            raise UsageError("gate", expected=expected, got=show(text.strip()), hint=hint)
        words.append(word)
    return VerdictIs(_unquoted(match["input"]), tuple(dict.fromkeys(words)), match["op"] not in ("!=", "≠"))


def _versus(match: dict[str, Any]) -> Versus:
    margin = _number(match.get("margin") or "0")
    if not 0.0 <= margin < math.inf:
        raise UsageError("gate", expected="a finite margin of at least 0", got=f"{margin:g}", hint="use margin 0.01")
    relation = "not worse" if match["relation"][:1] == "n" else match["relation"]
    first, second = str(_unquoted(match["first"])), str(_unquoted(match["second"]))
    return Versus(first, second, _score(match["spec"]), relation, margin)


def _best(match: dict[str, Any]) -> BestModel:
    return BestModel(str(_unquoted(match["first"])), _score(match["spec"]))


def _score(spec: str | None) -> str | None:
    return None if spec is None else _spec(spec, comparison=True)


def _operator(match: dict[str, Any]) -> str:
    return ASCII_OPERATORS.get(match["op"], match["op"])


def _where(match: dict[str, Any]) -> tuple[str, str] | None:
    column = match.get("column")
    return None if column is None else (str(_unquoted(column)), str(_unquoted(match["equals"])))


def _unquoted(name: str | None) -> str | None:
    """A name without its quotation marks."""
    if name is None or name[:1] not in ("'", '"'):
        return name
    return name[1:-1].replace(2 * name[0], name[0])


def _number(text: str) -> float:
    return float(text.replace("−", "-"))


def _spec(text: str, *, checks: bool = False, comparison: bool = False) -> str:
    """A metric in canonical form; a quoted name as it is, for the user's own functions."""
    from calibrant.checks.label_statistics import OWN

    spec = str(_unquoted(text))
    name = spec.partition("(")[0].strip()
    if spec != text or name in COMPARISON_SCORES:
        return spec
    if name in metrics():
        return parse(spec).text
    label_statistics = list(OWN) if checks else []
    if name in label_statistics:
        return re.sub(r"\s*([(),=])\s*", r"\1", spec)
    scores = () if checks else CALIBRATED if comparison else COMPARISON_SCORES
    hint = suggest_metric(name, [*metrics(), *label_statistics, *scores])
    raise UsageError("gate", expected="a known metric", got=show(name), hint=hint)


_FORMS: tuple[tuple[re.Pattern[str], Callable[[dict[str, Any]], Condition]], ...] = (
    (re.compile(rf"{_IS}\s+(?P<relation>better|worse){_THAN}"), _versus),
    (re.compile(rf"{_IS}\s+(?P<relation>not?\s+worse){_THAN}(?:\s+margin\s+(?P<margin>{_NUMBER}))?"), _versus),
    (re.compile(rf"{_IS}\s+best(?:\s+by\s+{_SPEC})?"), _best),
    (re.compile(rf"{_INPUT}verdict\s*(?P<op>==?|!=|≠)\s*(?P<words>\S.*)"), _verdict),
    (re.compile(rf"{_INPUT}(?P<outcome>all\s+pass|any\s+fails)"), _outcome),
    (re.compile(rf"{_INPUT}{_SPEC}{_WHERE}\s+(?P<outcome>passes|fails)"), _outcome),
    (
        re.compile(rf"{_SPEC}\s+gain{_BOUND}"),
        lambda m: GainThreshold(_spec(m["spec"]), _operator(m), _number(m["number"])),
    ),
    (re.compile(rf"{_INPUT}worst\s+{_SPEC}\s+by\s+(?P<by>{_QUOTED}|[^\s'\"<>=]+){_BOUND}"), _threshold),
    (re.compile(rf"{_INPUT}{_SPEC}{_WHERE}(?:\s*\.\s*(?P<field>\w+))?{_BOUND}"), _threshold),
)
