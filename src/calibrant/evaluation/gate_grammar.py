"""The language of gates: one condition on an evaluation in a line of text, parsed without ever running it.

    [INPUT:] SPEC [WHERE] OP NUMBER                      nll < 0.3      digits: ece(bins=10)[site=north] <= 0.05
    [INPUT:] worst SPEC by COLUMN OP NUMBER              worst nll by site < 0.5
    [INPUT:] SPEC [WHERE].FIELD OP NUMBER                ece.p_value < 0.01
    [INPUT:] STATISTIC [WHERE] passes | fails            accuracy passes
    [INPUT:] all pass | any fails
    SCORE gain OP NUMBER                                 nll gain > 0
    MODEL better|worse than MODEL by SCORE               candidate worse than baseline by nll
    MODEL not worse than MODEL by SCORE [margin NUMBER]
    MODEL best [by SCORE]

OP is one of < <= > >=, WHERE is [COLUMN=VALUE]. Names with spaces or signs stand in quotation marks of either kind; a
mark within them is written twice.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from calibrant.errors import UsageError, did_you_mean, show

OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
ALSO = ("cll", "brier_ts", "dee")
"""What a comparison has beside the metrics: scores at the best temperature, the deep-ensemble equivalent."""
FIELDS = ("value", "p_value", "q_value", "observed", "mid_p", "two_sided")
"""Numbers of a metric or check that are gated as they are, without an interval."""
LONGEST = 1000
"""Characters of a gate; nobody means more."""
WRITE = "write for example 'nll < 0.3', 'accuracy passes' or 'candidate worse than baseline by nll'"

_QUOTED = r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\""
_INPUT = rf"(?:(?P<input>{_QUOTED}|[^\s'\":<>=\[\]()]+)\s*:\s*)?"
_SPEC = rf"(?P<spec>{_QUOTED}|[A-Za-z_]\w*(?:\s*\([^()]*\))?)"
_WHERE = rf"(?:\s*\[\s*(?P<column>{_QUOTED}|[^\s='\"\[\]]+)\s*=\s*(?P<equals>{_QUOTED}|[^'\"\]]*?)\s*\])?"
_NUMBER = r"(?:[-+−]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|inf))"
_BOUND = rf"\s*(?P<op><=|>=|<|>)\s*(?P<number>{_NUMBER})"
_MODEL = rf"(?:{_QUOTED}|[^\s'\"]+)"
_THAN = rf"\s+than\s+(?P<second>{_MODEL})\s+by\s+{_SPEC}"


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
    """One model against another by a score: `better`, `worse`, or `not worse` by more than a margin."""

    first: str
    second: str
    spec: str
    relation: str
    margin: float = 0.0


@dataclass(frozen=True)
class Best:
    """A model whose rank is 1 over its whole interval; by the score of the ranking where none is named."""

    model: str
    spec: str | None


Condition = Threshold | Outcome | Gained | Versus | Best


# ------------------------------------------------------------------------------------------------ parsing
def parse_condition(text: str) -> Condition:
    """The condition that a line stands for, or an error of one line that says how to write one."""
    for pattern, make in _FORMS if len(text) <= LONGEST else ():
        match = pattern.fullmatch(text.strip())
        if match is not None:
            return make(match.groupdict())
    expected = "[INPUT:] METRIC < NUMBER (or <=, >, >=), STATISTIC passes, or MODEL worse than MODEL by SCORE"
    raise UsageError("gate", expected=expected, came=f"got {show(text)}", do=_hint(text))


def _hint(text: str) -> str:
    if re.search(r"==|!=|(?<![<>])=(?!=)[^\]]*$", text):
        return "estimates are not equal to a number: use <, <=, > or >="
    if re.search(r"\d\s*%", text):
        return "write a share as a number: 0.95 for 95 %"
    if text.count("'") % 2 or text.count('"') % 2:
        return "close the quotation marks; a mark within them is written twice"
    return WRITE


def _threshold(found: dict[str, Any]) -> Threshold:
    field = found.get("field")
    if field is not None and field not in FIELDS:
        came = f"got {show(field)}"
        raise UsageError("gate", expected="a number of a metric or check", came=came, do=did_you_mean(field, FIELDS))
    worst_by = _bare(found.get("by"))
    spec = _spec(found["spec"], checked=field is not None)
    if worst_by is not None:
        _refuse_undirected(spec)
    bound = _number(found["number"])
    return Threshold(_bare(found["input"]), spec, found["op"], bound, _where(found), worst_by, field)


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
    return Gained(_spec(found["spec"]), found["op"], _number(found["number"]))


def _versus(found: dict[str, Any]) -> Versus:
    margin = _number(found.get("margin") or "0")
    if not 0.0 <= margin < float("inf"):
        raise UsageError("gate", expected="a margin from 0", came=f"got {margin:g}", do="leave the sign out")
    relation = " ".join(found["relation"].split())
    return Versus(
        str(_bare(found["first"])), str(_bare(found["second"])), _spec(found["spec"], compared=True), relation, margin
    )


def _best(found: dict[str, Any]) -> Best:
    spec = found["spec"]
    return Best(str(_bare(found["first"])), None if spec is None else _spec(spec, compared=True))


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
    known = [*metrics(), *own, *(ALSO[: 1 if compared else 2] if not checked else ())]
    came = f"got {show(name)}"
    raise UsageError("gate", expected="a known metric", came=came, do=did_you_mean(name, known))


_FORMS: tuple[tuple[re.Pattern[str], Callable[[dict[str, Any]], Condition]], ...] = (
    (re.compile(rf"(?P<first>{_MODEL})\s+(?P<relation>better|worse){_THAN}"), _versus),
    (
        re.compile(rf"(?P<first>{_MODEL})\s+(?P<relation>not\s+worse){_THAN}(?:\s+margin\s+(?P<margin>{_NUMBER}))?"),
        _versus,
    ),
    (re.compile(rf"(?P<first>{_MODEL})\s+best(?:\s+by\s+{_SPEC})?"), _best),
    (re.compile(rf"{_INPUT}(?P<outcome>all\s+pass|any\s+fails)"), _outcome),
    (re.compile(rf"{_INPUT}{_SPEC}{_WHERE}\s+(?P<outcome>passes|fails)"), _outcome),
    (re.compile(rf"{_SPEC}\s+gain{_BOUND}"), _gained),
    (re.compile(rf"{_INPUT}worst\s+{_SPEC}\s+by\s+(?P<by>{_QUOTED}|[^\s'\"<>=]+){_BOUND}"), _threshold),
    (re.compile(rf"{_INPUT}{_SPEC}{_WHERE}(?:\s*\.\s*(?P<field>\w+))?{_BOUND}"), _threshold),
)
