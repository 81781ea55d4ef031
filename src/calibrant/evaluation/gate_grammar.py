"""The language of gates: one condition on an evaluation in a line of text, parsed without ever running it.

    [INPUT:] SPEC [WHERE] OP NUMBER                      nll < 0.3      digits: ece(bins=10)[site=north] <= 0.05
    [INPUT:] worst SPEC by COLUMN OP NUMBER              worst nll by site < 0.5
    [INPUT:] SPEC [WHERE].FIELD OP NUMBER                ece.p_value < 0.01
    [INPUT:] STATISTIC [WHERE] passes | fails            accuracy passes
    [INPUT:] all pass | any fails
    SCORE gain OP NUMBER                                 nll gain > 0
    MODEL better|worse than MODEL [by SCORE]             candidate worse than baseline by nll
    MODEL not worse than MODEL [by SCORE] [margin NUMBER]
    MODEL best [by SCORE]

OP is one of < <= > >=, also ≤ and ≥; WHERE is [COLUMN=VALUE]. Without a SCORE the one that ranks is meant. `is` may
stand before better, worse, not worse and best; `no worse` is `not worse`. Names with spaces or signs stand in quotation
marks of either kind; a mark within them is written twice.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from calibrant.errors import UsageError, did_you_mean, show
from calibrant.evaluation.gate_hints import hint, metric, slip

OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
ALSO = ("cll", "brier_ts", "dee")
"""What a comparison has beside the metrics: scores at the best temperature, the deep-ensemble equivalent."""
LIMITS = {"cll": (-math.inf, 0.0), "brier_ts": (0.0, 2.0), "dee": (1.0, math.inf)}
FIELDS = ("value", "p_value", "q_value", "observed", "mid_p", "two_sided")
"""Numbers of a metric or check that are gated as they are, without an interval."""
LONGEST = 1000
"""Characters of a gate; nobody means more."""
SIGNS = {"≤": "<=", "≥": ">="}
FORMS = (
    "[INPUT:] METRIC < NUMBER (or <=, >, >=), STATISTIC passes or fails, MODEL better (worse, not worse) than MODEL by "
    "SCORE, or MODEL best"
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
    """A metric, or a number of a check, on one side of a bound."""

    input: str | None
    spec: str
    op: str
    bound: float
    where: tuple[str, str] | None = None
    """The group: column and value."""
    worst_by: str | None = None
    """The column whose worst group is meant."""
    field: str | None = None


@dataclass(frozen=True)
class Outcome:
    """A check that passes or fails; without a statistic, all of them or any."""

    input: str | None
    spec: str | None
    passes: bool
    where: tuple[str, str] | None = None


@dataclass(frozen=True)
class Gained:
    """What a recalibration gained by a proper score, on one side of a bound."""

    spec: str
    op: str
    bound: float


@dataclass(frozen=True)
class Versus:
    """One model against another: `better`, `worse`, or `not worse` by more than a margin; as `Best` without a score."""

    first: str
    second: str
    spec: str | None
    relation: str
    margin: float = 0.0


@dataclass(frozen=True)
class Best:
    """A model whose rank is 1 over its whole interval; by the score of the ranking where none is named."""

    model: str
    spec: str | None


Condition = Threshold | Outcome | Gained | Versus | Best


# ------------------------------------------------------------------------------------------------- bounds
def check_bound(condition: Condition) -> None:
    """Refuse a bound that decides nothing: of a number that lies within limits, all values are on one side of it."""
    if isinstance(condition, Threshold | Gained):
        low, high = _limits(condition)
        ends = {OPERATORS[condition.op](end, condition.bound) for end in (low, high)}
        if len(ends) == 1 and low < high:
            how = "always" if ends.pop() else "never"
            _refuse_bound(f"{condition.spec}{_part(condition)}", (low, high), condition.op, condition.bound, how)
    elif isinstance(condition, Versus) and condition.spec is not None:
        low, high = limits_of(condition.spec)
        if condition.margin >= high - low:
            name, limits = f"a difference of {condition.spec}", (low - high, high - low)
            _refuse_bound(name, limits, "margin", condition.margin, "always")


def limits_of(spec: str) -> tuple[float, float]:
    """The least and the greatest value of a metric, as far as they are known."""
    from calibrant.registry import find, metrics

    name = spec.partition("(")[0]
    if name in metrics():
        return find(name).limits
    return LIMITS.get(name, (-math.inf, math.inf))


def _limits(condition: Threshold | Gained) -> tuple[float, float]:
    low, high = limits_of(condition.spec)
    if isinstance(condition, Gained):
        return low - high, high - low
    return (low, high) if condition.field in (None, "value", "observed") else (0.0, 1.0)


def _part(condition: Threshold | Gained) -> str:
    if isinstance(condition, Gained):
        return " gain"
    return "" if condition.field is None else f".{condition.field}"


def _refuse_bound(name: str, limits: tuple[float, float], op: str, bound: float, how: str) -> None:
    low, high = limits
    within = f"lies in [{low:g}, {high:g}]" if math.isfinite(low + high) else "may be any number"
    if math.isfinite(low) != math.isfinite(high):
        within = f"is at least {low:g}" if math.isfinite(low) else f"is at most {high:g}"
    do = f"for {bound:g} % write {bound / 100:g}" if high == 1.0 < bound <= 100.0 else "write one within"
    came = f"got {op} {bound:g}, which {how} holds"
    raise UsageError("gate", expected=f"a bound that decides: {name} {within}", came=came, do=do)


# ------------------------------------------------------------------------------------------------ parsing
def parse_condition(text: str, kind: str = "require") -> Condition:
    """The condition that a line stands for, or an error of one line that says how to write one."""
    for pattern, make in _FORMS if len(text) <= LONGEST else ():
        match = pattern.fullmatch(text.strip())
        if match is not None:
            try:
                condition = make(match.groupdict())
            except UsageError as error:
                raise UsageError("gate", expected=error.expected, came=error.came, do=slip(text) or error.do) from None
            check_bound(condition)
            return condition
    raise UsageError("gate", expected=FORMS, came=f"got {show(text)}", do=hint(text, kind))


def _threshold(found: dict[str, Any]) -> Threshold:
    field = found.get("field")
    if field is not None and field not in FIELDS:
        _refuse_field(found)
    worst_by = _bare(found.get("by"))
    spec = _spec(found["spec"], checked=field is not None)
    if worst_by is not None:
        _refuse_undirected(spec)
    bound = _number(found["number"])
    return Threshold(_bare(found["input"]), spec, _op(found), bound, _where(found), worst_by, field)


def _refuse_field(found: dict[str, Any]) -> None:
    from calibrant.registry import metrics

    field, do = found["field"], did_you_mean(found["field"], FIELDS)
    if field in metrics() or field in ALSO:  # as in candidate.nll < 0.3
        do = f"did you mean '{found['spec']}: {field} {found['op']} {found['number']}'?"
    raise UsageError("gate", expected="a number of a metric or check", came=f"got {show(field)}", do=do)


def _refuse_undirected(spec: str) -> None:
    from calibrant.registry import find

    metric = find(spec.partition("(")[0])
    if metric.direction not in ("lower", "higher"):
        raise UsageError(
            "gate",
            expected="a metric that is better when lower, or when higher, behind 'worst'",
            came=f"{show(spec)} is neither",
            do=f"gate the groups one by one, as in {spec}[COLUMN=VALUE]",
        )


def _outcome(found: dict[str, Any]) -> Outcome:
    spec = found.get("spec")
    named = None if spec is None else _spec(spec, checked=True)
    return Outcome(_bare(found["input"]), named, "pass" in found["outcome"], _where(found))


def _gained(found: dict[str, Any]) -> Gained:
    return Gained(_spec(found["spec"]), _op(found), _number(found["number"]))


def _versus(found: dict[str, Any]) -> Versus:
    margin = _number(found.get("margin") or "0")
    if not 0.0 <= margin < float("inf"):
        raise UsageError("gate", expected="a margin from 0", came=f"got {margin:g}", do="leave the sign out")
    relation = "not worse" if found["relation"][:1] == "n" else found["relation"]
    return Versus(str(_bare(found["first"])), str(_bare(found["second"])), _score(found["spec"]), relation, margin)


def _best(found: dict[str, Any]) -> Best:
    return Best(str(_bare(found["first"])), _score(found["spec"]))


def _score(spec: str | None) -> str | None:
    return None if spec is None else _spec(spec, compared=True)


def _op(found: dict[str, Any]) -> str:
    return SIGNS.get(found["op"], found["op"])


def _where(found: dict[str, Any]) -> tuple[str, str] | None:
    column = found.get("column")
    return None if column is None else (str(_bare(column)), str(_bare(found["equals"])))


def _bare(name: str | None) -> str | None:
    """A name without the quotation marks around it."""
    if name is None or name[:1] not in ("'", '"'):
        return name
    return name[1:-1].replace(2 * name[0], name[0])


def _number(text: str) -> float:
    return float(text.replace("−", "-"))


def _spec(text: str, *, checked: bool = False, compared: bool = False) -> str:
    """A metric in its canonical form; a name in quotation marks as it is, for functions of the user's own."""
    from calibrant.checks.own import OWN
    from calibrant.registry import metrics, parse

    bare = str(_bare(text))
    name = bare.partition("(")[0].strip()
    if bare != text or name in ALSO:
        return bare
    if name in metrics():
        return parse(bare).text
    own = list(OWN) if checked else []
    if name in own:
        return re.sub(r"\s*([(),=])\s*", r"\1", bare)
    known = [*metrics(), *own, *(ALSO[: 2 if compared else 3] if not checked else ())]
    came = f"got {show(name)}"
    raise UsageError("gate", expected="a known metric", came=came, do=metric(name, known))


_FORMS: tuple[tuple[re.Pattern[str], Callable[[dict[str, Any]], Condition]], ...] = (
    (re.compile(rf"{_IS}\s+(?P<relation>better|worse){_THAN}"), _versus),
    (re.compile(rf"{_IS}\s+(?P<relation>not?\s+worse){_THAN}(?:\s+margin\s+(?P<margin>{_NUMBER}))?"), _versus),
    (re.compile(rf"{_IS}\s+best(?:\s+by\s+{_SPEC})?"), _best),
    (re.compile(rf"{_INPUT}(?P<outcome>all\s+pass|any\s+fails)"), _outcome),
    (re.compile(rf"{_INPUT}{_SPEC}{_WHERE}\s+(?P<outcome>passes|fails)"), _outcome),
    (re.compile(rf"{_SPEC}\s+gain{_BOUND}"), _gained),
    (re.compile(rf"{_INPUT}worst\s+{_SPEC}\s+by\s+(?P<by>{_QUOTED}|[^\s'\"<>=]+){_BOUND}"), _threshold),
    (re.compile(rf"{_INPUT}{_SPEC}{_WHERE}(?:\s*\.\s*(?P<field>\w+))?{_BOUND}"), _threshold),
)
