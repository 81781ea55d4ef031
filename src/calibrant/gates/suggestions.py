"""Suggestions for text that is not a gate: the gate that was probably meant.

Each common slip is a pattern with its answer; the first that matches is used. Examples match the kind of gate: passing
conditions for `require`, failing ones for `fail_on`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from calibrant.errors import UsageError, did_you_mean, show
from calibrant.registry.comparison_scores import CALIBRATED
from calibrant.registry.lookup import aliases, find, metrics, with_role

MAX_LISTED = 160
"""Characters of names that a hint lists in full."""
ALTERNATIVES = {
    "error": "use accuracy, which is 1 − the error rate",
    "err": "use accuracy, which is 1 − the error rate",
    "error_rate": "use accuracy, which is 1 − the error rate",
    "rmse": "use mse, its square",
    "ll": "use nll, the negative log-likelihood, or cll in a comparison",
}
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "≤": ">=", "≥": "<="}
_NUMBER = r"[-+−]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_OP = r"(?P<op><=|>=|≤|≥|<|>)"
_NAME = r"[^\s'\"<>=≤≥()\[\]:,;]+"
_QUOTED = r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\""
_ONE = rf"(?:{_QUOTED}|{_NAME})"
_BY = rf"(?:\s+(?:by|in|on|at)\s+(?P<score>{_NAME}))?"
_ID = r"[A-Za-z_]\w*"
_OWNER = rf"(?:{_QUOTED}|[^\s.'\"<>()]+)"


# -------------------------------------------------------------------------------------------------- names
def look_up(expected: str, name: str, names: Mapping[str, Any]) -> Any:
    """The entry of a name, or an error that suggests a similar one."""
    if name not in names:
        raise UsageError("gate", expected=expected, got=show(name), hint=suggest_name(name, names))
    return names[name]


def suggest_name(name: str, names: Iterable[str], list_command: str = "") -> str:
    """The closest name or alias; else the list of names, or where to find it if it is long."""
    names = list(names)
    if not names:
        return "there are none"
    alias = aliases().get(name.lower().replace("-", "_"))
    if alias in names:
        return f"did you mean {show(alias)}?"
    hint = did_you_mean(name, names)
    if hint.startswith("did you mean") or len(", ".join(names)) <= MAX_LISTED:
        return hint
    if list_command:
        return f"run {list_command} for the list"
    examples = names[:1]
    for other in names[1:]:
        if len(", ".join([*examples, other])) > MAX_LISTED:
            break
        examples.append(other)
    return f"choose from {len(names)} names, for example {', '.join(examples)}"


def suggest_metric(name: str, names: Iterable[str]) -> str:
    """The same for metrics, which have other names elsewhere."""
    return ALTERNATIVES.get(name.lower()) or suggest_name(name, names, "`calibrant metrics`")


# -------------------------------------------------------------------------------------------------- slips
def example_gates(kind: str) -> str:
    """Examples of each form of gate."""
    if kind == "fail_on":
        examples = "'nll > 0.3', 'accuracy fails', 'verdict = miscalibrated' or 'candidate worse than baseline by nll'"
        return f"write for example {examples}"
    examples = "'nll < 0.3', 'accuracy passes', 'verdict = calibrated' or 'candidate better than baseline by nll'"
    return f"write for example {examples}"


def suggest_gate(text: str, kind: str) -> str:
    """What to write instead of a text that is not a gate."""
    text = text.strip()
    bare = re.sub(_QUOTED, lambda match: "q" * len(match[0]), text)
    if "'" in bare or '"' in bare:
        return "close the quotation marks, and double a mark inside them"
    if len(text) > 200:
        return example_gates(kind)
    if answer := correct_slip(text):
        return answer
    if re.search(r"\d\s*%", bare):
        return "write percentages as fractions: 0.95 for 95%"
    joined = re.search(r"(?i)\s(?:and|or)\s|[;&|]|,(?![^(]*\))", bare)
    if joined or len(re.findall(r"<=|>=|≤|≥|<|>", bare)) > 1:
        flag = "--fail-on to fail if either holds" if kind == "fail_on" else "--require to ask for both"
        return f"write one condition per gate: repeat {flag}"
    if re.search(r"==|!=|≠|(?<![<>])=(?!=)[^\]]*$", bare):
        word = re.match(r"\s*(?:[^:]*:)?\s*(\w+)\s*(?:==?|!=|≠)\s*[a-z]", bare.lower())
        if word and did_you_mean(word[1], ["verdict", "calibration", "status"]).startswith("did you mean"):
            return "write the status or a direction of a verdict as 'verdict = overconfident'"
        return "estimates never equal a number exactly: use <, <=, > or >="
    if re.search(r"\b(?:better|worse|best|than|by|passes|fails|gain|margin)\b", bare.lower()) and bare != bare.lower():
        return f"use lower case; {example_gates(kind)}"
    return example_gates(kind)


def correct_slip(text: str) -> str | None:
    """The answer to a common slip; None if the text matches none."""
    for pattern, answer in _SLIPS if len(text) <= 200 else ():
        match = pattern.fullmatch(text.strip())
        if match is None:
            continue
        hint = answer.format(**match.groupdict()) if isinstance(answer, str) else answer(match.groupdict())
        if hint:
            return hint
    return None


def _ask(gate: str) -> str:
    return f'did you mean "{gate}"?' if "'" in gate else f"did you mean '{gate}'?"


def _quoted(name: str) -> str:
    """A name with quotation marks where the grammar needs them."""
    if name[:1] in ("'", '"') or re.fullmatch(r"[^\s'\":<>=\[\]()]+", name):
        return name
    return "'" + name.replace("'", "''") + "'"


def _is_metric(name: str) -> bool:
    return name in metrics() or name in CALIBRATED


def _metric(name: str | None) -> str:
    """The canonical name of a metric; nll for anything else."""
    name = (name or with_role("row_loss")[0]).strip()
    name = aliases().get(name.lower(), name)
    return name if _is_metric(name) else with_role("row_loss")[0]


def _against(match: dict[str, Any]) -> str | None:
    """nll(a) < nll(b), a.nll < b.nll, a > b."""
    from calibrant.results.comparison import better_when_higher

    first, second = match["first"], match["second"]
    if _is_metric(first):
        return "the bound must be a number, as in 'nll < 0.3'"
    if any(re.fullmatch(_NUMBER, name) for name in (first, second)):
        return None
    named = match.get("score")
    if named is not None and named != match.get("again", named):
        return None
    score = _metric(named)
    higher = named is None or better_when_higher(score)
    relation = "better" if (match["op"] in (">", ">=", "≥")) == higher else "worse"
    return _ask(f"{_quoted(first)} {relation} than {_quoted(second)} by {score}")


def _of_input(match: dict[str, Any]) -> str | None:
    """nll(a) < 0.3."""
    name = aliases().get(match["score"].lower(), match["score"])
    options = [option.name for option in find(name).options] if name in metrics() else []
    if not _is_metric(name) or match["first"] in options:
        return None
    return _ask(f"{_quoted(match['first'])}: {name} {match['op']} {match['number']}")


def _two_models(match: dict[str, Any], gate: str) -> str:
    names = (_quoted(match[key]) for key in ("first", "second"))
    return _ask(gate.format(*names, _metric(match["score"])))


def _best(match: dict[str, Any], by: str = "") -> str:
    return _ask(f"{_quoted(match['first'] or 'candidate')} best{by}")


def _p_value(match: dict[str, Any]) -> str:
    number = float(match["number"].replace("−", "-"))
    default = with_role("verdict_error")[0]
    name = match["score"] or default
    name = aliases().get(name.lower(), name)
    bound = f"{number:g}" if 0.0 < number < 1.0 else "0.05"
    return _ask(f"{name if _is_metric(name) else default}.p_value {match['op']} {bound}")


def _mirrored(match: dict[str, Any]) -> str | None:
    rest = match["rest"].strip()
    if re.search(r"[<>≤≥]", rest):
        return None
    return f"put the bound on the right: '{rest} {MIRRORED[match['op']]} {match['number']}'"


def _spaced(match: dict[str, Any]) -> str | None:
    """Names with spaces but without quotation marks."""
    first, second = match["first"].strip(), (match.get("second") or "").strip()
    if not re.search(r"\s", first + second) and "'" not in first + second:
        return None
    rest = f" {_quoted(second)}" if second else ""
    gate = f"{_quoted(first)}{match['word']}{rest}{match.get('tail') or ''}"
    return f"put names with spaces in quotation marks: {gate}"


_SLIPS: tuple[tuple[re.Pattern[str], str | Callable[[dict[str, Any]], str | None]], ...] = tuple(
    (re.compile(pattern), answer)
    for pattern, answer in (
        (r".*(?:<=|>=|≤|≥|<|>|margin)\s*[-+−]?(?P<whole>\d+),(?P<part>\d+)", "use a decimal point: {whole}.{part}"),
        (rf"(?i:rank)\s*\(?\s*(?P<first>{_ONE})?\s*\)?\s*(?:<=|≤|<|==?)\s*[12]", lambda match: _best(match, " by cll")),
        (rf"(?:(?P<first>{_ONE})\s*[:.]\s*)?(?i:rank)\s*(?:<=|≤|<|==?)\s*[12]", lambda match: _best(match, " by cll")),
        (rf"(?:(?P<first>{_ONE})\s*:\s*)?[Pp]\s*\(\s*best\s*\)\s*(?:>=|≥|>)\s*{_NUMBER}", _best),
        (rf"[Pp]\s*\(\s*(?P<first>{_ONE})\s+(?:is\s+)?best\s*\)\s*(?:>=|≥|>)\s*{_NUMBER}", _best),
        (rf"(?i:p|p[-_ ]?value)\s*\(\s*(?P<score>\w+)\s*\)\s*{_OP}\s*(?P<number>{_NUMBER})", _p_value),
        (rf"(?i:p|p[-_ ]?value)(?P<score>)\s*{_OP}\s*(?P<number>{_NUMBER})", _p_value),
        (rf"(?P<score>\w+)\(\s*(?P<first>{_ONE})\s*\)\s*{_OP}\s*(?P<number>{_NUMBER})", _of_input),
        (
            rf"worst\s+(?P<score>\w+)\s*{_OP}\s*(?P<number>{_NUMBER})",
            "name the group column: 'worst {score} by COLUMN {op} {number}'",
        ),
        (rf"(?P<score>\w+)\((?P<first>{_ONE})\)\s*{_OP}\s*(?P<again>\w+)\((?P<second>{_ONE})\)", _against),
        (rf"(?P<first>{_OWNER})\.(?P<score>{_ID})\s*{_OP}\s*(?P<second>{_OWNER})\.(?P<again>{_ID})", _against),
        (rf"(?P<first>{_ONE})\s*:\s*(?P<score>\w+)\s*{_OP}\s*(?P<second>{_ONE})\s*:\s*(?P<again>\w+)", _against),
        (rf"(?P<first>{_ONE})\s*{_OP}\s*(?P<second>{_ONE})(?:\s+by\s+(?P<score>{_NAME}))?", _against),
        (
            rf"(?P<first>{_ONE})\s+(?:beats?|outperforms?|is\s+better|better)\s+(?P<second>{_ONE}){_BY}",
            lambda match: _two_models(match, "{} better than {} by {}"),
        ),
        (
            rf"(?P<first>{_ONE})\s+(?:is\s+)?as\s+good\s+as\s+(?P<second>{_ONE}){_BY}",
            lambda match: _two_models(match, "{} not worse than {} by {} margin 0.01"),
        ),
        (rf"(?P<number>{_NUMBER})\s*{_OP}(?P<rest>.+)", _mirrored),
        (
            rf"(?P<head>{_ONE})\s+(?:is\s+)?(?:better|worse)\s+than\s+(?P<tail>.+\smargin\s+{_NUMBER})",
            "only 'not worse' takes a margin, as in '{head} not worse than {tail}'",
        ),
        (
            r"(?P<first>[^'\"]+?)(?P<word>\s+(?:is\s+)?(?:better|worse|not\s+worse|no\s+worse)\s+than)\s+"
            r"(?P<second>[^'\"]+?)(?P<tail>(?:\s+by\s+\S+)?(?:\s+margin\s+\S+)?)",
            _spaced,
        ),
        (r"(?P<first>[^'\"]+?)(?P<word>\s+(?:is\s+)?best(?:\s+by\s+\S+)?)", _spaced),
        (rf"(?P<first>[^'\":<>=]+?)(?P<word>\s*:.*(?:<=|>=|≤|≥|<|>)\s*{_NUMBER})", _spaced),
    )
)
