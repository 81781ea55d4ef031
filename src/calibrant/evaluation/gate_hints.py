"""What is said to a gate that is none: the gate that was probably meant, in the words of the grammar.

Each slip is a pattern and what is answered to it; the first that fits is told. A hint never asks for more than the
text did: under `require` it shows what is wanted, under `fail_on` what is not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from calibrant.errors import UsageError, did_you_mean, show

LISTED = 160
"""Characters of names that a hint lists; where there are more, it says where they are listed."""
ALIASES = {
    "acc": "accuracy", "acc1": "accuracy", "top1": "accuracy", "top_1": "accuracy", "auc": "roc_auc",
    "rocauc": "roc_auc", "roc": "roc_auc", "auroc_score": "roc_auc", "roc_auc_score": "roc_auc", "logloss": "nll",
    "log_loss": "nll", "cross_entropy": "nll", "crossentropy": "nll", "xent": "nll", "loss": "nll", "nlpd": "nll",
    "ap": "average_precision", "auprc": "average_precision", "pr_auc": "average_precision",
    "brier_score": "brier", "smece": "smooth_ece", "mi": "mutual_information", "bald": "mutual_information",
    "coverage": "picp", "fpr": "fpr95", "log_likelihood": "cll", "likelihood": "cll", "loglik": "cll",
    "calibrated_log_likelihood": "cll", "deep_ensemble_equivalent": "dee",
}  # fmt: skip
"""What metrics are called elsewhere."""
INSTEAD = {
    "error": "write accuracy, which is 1 − the error rate",
    "err": "write accuracy, which is 1 − the error rate",
    "error_rate": "write accuracy, which is 1 − the error rate",
    "rmse": "write mse, which is its square",
    "ll": "write nll, which is minus the log-likelihood, or cll of a comparison",
}
TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "≤": ">=", "≥": "<="}
_NUMBER = r"[-+−]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_OP = r"(?P<op><=|>=|≤|≥|<|>)"
_NAME = r"[^\s'\"<>=≤≥()\[\]:,;]+"
_QUOTED = r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\""
_ONE = rf"(?:{_QUOTED}|{_NAME})"


# -------------------------------------------------------------------------------------------------- names
def known(expected: str, name: str, names: Mapping[str, Any]) -> Any:
    """What a name stands for, or an error that says which names there are."""
    if name not in names:
        raise UsageError("gate", expected=expected, came=f"got {show(name)}", do=suggest(name, names))
    return names[name]


def suggest(name: str, names: Iterable[str], listed_by: str = "") -> str:
    """The name that was meant; else a list, where it is short, or where one is."""
    names = list(names)
    if not names:
        return "there is none"
    alias = ALIASES.get(name.lower().replace("-", "_"))
    if alias in names:
        return f"did you mean {show(alias)}?"
    said = did_you_mean(name, names)
    if said.startswith("did you mean") or len(", ".join(names)) <= LISTED:
        return said
    return f"{listed_by} lists them" if listed_by else f"it has {len(names)}, such as {', '.join(_first(names))}"


def metric(name: str, names: Iterable[str]) -> str:
    """The same of metrics, which have other names elsewhere."""
    return INSTEAD.get(name.lower()) or suggest(name, names, "`calibrant metrics`")


def _first(names: list[str], most: int = LISTED) -> list[str]:
    out: list[str] = []
    for name in names:
        if out and len(", ".join([*out, name])) > most:
            break
        out.append(name)
    return out


# -------------------------------------------------------------------------------------------------- slips
def usual(kind: str) -> str:
    """Gates of each form, on the side that is asked for."""
    if kind == "fail_on":
        return "write for example 'nll > 0.3', 'accuracy fails' or 'candidate worse than baseline by nll'"
    return "write for example 'nll < 0.3', 'accuracy passes' or 'candidate better than baseline by nll'"


def hint(text: str, kind: str) -> str:
    """What to write instead of a text that is no gate."""
    text = text.strip()
    bare = re.sub(_QUOTED, lambda found: "q" * len(found[0]), text)
    if "'" in bare or '"' in bare:
        return "close the quotation marks; a mark within them is written twice"
    if len(text) > 200:
        return usual(kind)
    said = slip(text)
    if said:
        return said
    if re.search(r"\d\s*%", bare):
        return "write a share as a number: 0.95 for 95 %"
    if _several(bare):
        flag = "--fail-on twice fails where either is" if kind == "fail_on" else "--require twice asks for both"
        return f"one condition a gate: {flag}"
    if re.search(r"==|!=|≠|(?<![<>])=(?!=)[^\]]*$", bare):
        return "estimates are not equal to a number: use <, <=, > or >="
    if re.search(r"\b(?:better|worse|best|than|by|passes|fails|gain|margin)\b", bare.lower()) and bare != bare.lower():
        return f"write words in small letters; {usual(kind)}"
    return usual(kind)


def slip(text: str) -> str | None:
    """What is answered to a slip that is known."""
    for pattern, answer in _SLIPS:
        found = pattern.fullmatch(text.strip()) if len(text) <= 200 else None
        said = answer(found.groupdict()) if found else None
        if said:
            return said
    return None


def _several(bare: str) -> bool:
    """Whether a text has more than one condition."""
    joined = re.search(r"(?i)\s(?:and|or)\s|[;&|]|,(?![^(]*\))", bare)
    operators = re.findall(r"<=|>=|≤|≥|<|>", bare)
    return bool(joined) or len(operators) > 1


def _mean(gate: str) -> str:
    return f'did you mean "{gate}"?' if "'" in gate else f"did you mean '{gate}'?"


def _quoted(name: str) -> str:
    """A name as a gate has it."""
    if name[:1] in ("'", '"') or re.fullmatch(r"[^\s'\":<>=\[\]()]+", name):
        return name
    return "'" + name.replace("'", "''") + "'"


def _is_metric(name: str) -> bool:
    from calibrant.registry import metrics

    return name in metrics() or name in ("cll", "brier_ts")


def _metric(name: str | None) -> str:
    """A metric as it is called here; nll where it is not one."""
    name = (name or "nll").strip()
    name = ALIASES.get(name.lower(), name)
    return name if _is_metric(name) else "nll"


def _against(found: dict[str, Any]) -> str | None:
    """nll(a) < nll(b), a.nll < b.nll, a > b."""
    from calibrant.comparison.records import better_when_higher

    first, second = found["first"], found["second"]
    if _is_metric(first):
        return "the bound is a number: write for example 'nll < 0.3'"
    if _is_number(first) or _is_number(second):
        return None
    given = found.get("score")
    if given is not None and given != found.get("again", given):
        return None
    score = _metric(given)
    higher = given is None or better_when_higher(score)
    relation = "better" if (found["op"] in (">", ">=", "≥")) == higher else "worse"
    return _mean(f"{_quoted(first)} {relation} than {_quoted(second)} by {score}")


def _of_input(found: dict[str, Any]) -> str | None:
    """nll(a) < 0.3."""
    from calibrant.registry import find, metrics

    name = ALIASES.get(found["score"].lower(), found["score"])
    options = [option.name for option in find(name).options] if name in metrics() else []
    if not _is_metric(name) or found["first"] in options:
        return None
    return _mean(f"{_quoted(found['first'])}: {name} {found['op']} {found['number']}")


def _worst(found: dict[str, Any]) -> str:
    return f"name the column of groups: 'worst {found['score']} by COLUMN {found['op']} {found['number']}'"


def _is_number(text: str) -> bool:
    return re.fullmatch(_NUMBER, text) is not None


def _beats(found: dict[str, Any]) -> str:
    first, second, score = _quoted(found["first"]), _quoted(found["second"]), _metric(found["score"])
    return _mean(f"{first} better than {second} by {score}")


def _as_good(found: dict[str, Any]) -> str:
    first, second, score = _quoted(found["first"]), _quoted(found["second"]), _metric(found["score"])
    return _mean(f"{first} not worse than {second} by {score} margin 0.01")


def _ranked(found: dict[str, Any]) -> str:
    return _mean(f"{_quoted(found['first'] or 'candidate')} best by cll")


def _p_best(found: dict[str, Any]) -> str:
    return _mean(f"{_quoted(found['first'] or 'candidate')} best")


def _p_value(found: dict[str, Any]) -> str:
    number = float(found["number"].replace("−", "-"))
    name = found["score"] or "ece"
    name = ALIASES.get(name.lower(), name)
    bound = f"{number:g}" if 0.0 < number < 1.0 else "0.05"
    return _mean(f"{name if _is_metric(name) else 'ece'}.p_value {found['op']} {bound}")


def _comma(found: dict[str, Any]) -> str:
    return f"write a decimal point: {found['whole']}.{found['part']}"


def _turned(found: dict[str, Any]) -> str | None:
    rest = found["rest"].strip()
    if re.search(r"[<>≤≥]", rest):
        return None
    return f"turn it round: '{rest} {TURNED[found['op']]} {found['number']}'"


def _margin(found: dict[str, Any]) -> str:
    return f"a margin goes with 'not worse', as in '{found['head']} not worse than {found['tail']}'"


def _spaced(found: dict[str, Any]) -> str | None:
    """Names with spaces in them, which quotation marks would hold together."""
    first, second = found["first"].strip(), (found.get("second") or "").strip()
    if not re.search(r"\s", first + second) and "'" not in first + second:
        return None
    rest = f" {_quoted(second)}" if second else ""
    said = f"{_quoted(first)}{found['word']}{rest}{found.get('tail') or ''}"
    return f"put names with spaces in quotation marks: {said}"


_BY = rf"(?:\s+(?:by|in|on|at)\s+(?P<score>{_NAME}))?"
_SLIPS: tuple[tuple[re.Pattern[str], Callable[[dict[str, Any]], str | None]], ...] = tuple(
    (re.compile(pattern), answer)
    for pattern, answer in (
        (r".*(?:<=|>=|≤|≥|<|>|margin)\s*[-+−]?(?P<whole>\d+),(?P<part>\d+)", _comma),
        (rf"(?i:rank)\s*\(?\s*(?P<first>{_ONE})?\s*\)?\s*(?:<=|≤|<|==?)\s*[12]", _ranked),
        (rf"(?:(?P<first>{_ONE})\s*[:.]\s*)?(?i:rank)\s*(?:<=|≤|<|==?)\s*[12]", _ranked),
        (rf"(?:(?P<first>{_ONE})\s*:\s*)?[Pp]\s*\(\s*best\s*\)\s*(?:>=|≥|>)\s*{_NUMBER}", _p_best),
        (rf"[Pp]\s*\(\s*(?P<first>{_ONE})\s+(?:is\s+)?best\s*\)\s*(?:>=|≥|>)\s*{_NUMBER}", _p_best),
        (rf"(?i:p|p[-_ ]?value)\s*\(\s*(?P<score>\w+)\s*\)\s*{_OP}\s*(?P<number>{_NUMBER})", _p_value),
        (rf"(?i:p|p[-_ ]?value)(?P<score>)\s*{_OP}\s*(?P<number>{_NUMBER})", _p_value),
        (rf"(?P<score>\w+)\(\s*(?P<first>{_ONE})\s*\)\s*{_OP}\s*(?P<number>{_NUMBER})", _of_input),
        (rf"worst\s+(?P<score>\w+)\s*{_OP}\s*(?P<number>{_NUMBER})", _worst),
        (rf"(?P<score>\w+)\((?P<first>{_ONE})\)\s*{_OP}\s*(?P<again>\w+)\((?P<second>{_ONE})\)", _against),
        (
            rf"(?P<first>{_QUOTED}|[^\s.'\"<>()]+)\.(?P<score>[A-Za-z_]\w*)\s*{_OP}\s*"
            rf"(?P<second>{_QUOTED}|[^\s.'\"<>()]+)\.(?P<again>[A-Za-z_]\w*)",
            _against,
        ),
        (
            rf"(?P<first>{_ONE})\s*:\s*(?P<score>\w+)\s*{_OP}\s*(?P<second>{_ONE})\s*:\s*(?P<again>\w+)",
            _against,
        ),
        (rf"(?P<first>{_ONE})\s*{_OP}\s*(?P<second>{_ONE})(?:\s+by\s+(?P<score>{_NAME}))?", _against),
        (rf"(?P<first>{_ONE})\s+(?:beats?|outperforms?|is\s+better|better)\s+(?P<second>{_ONE}){_BY}", _beats),
        (rf"(?P<first>{_ONE})\s+(?:is\s+)?as\s+good\s+as\s+(?P<second>{_ONE}){_BY}", _as_good),
        (rf"(?P<number>{_NUMBER})\s*{_OP}(?P<rest>.+)", _turned),
        (rf"(?P<head>{_ONE})\s+(?:is\s+)?(?:better|worse)\s+than\s+(?P<tail>.+\smargin\s+{_NUMBER})", _margin),
        (
            r"(?P<first>[^'\"]+?)(?P<word>\s+(?:is\s+)?(?:better|worse|not\s+worse|no\s+worse)\s+than)\s+"
            r"(?P<second>[^'\"]+?)(?P<tail>(?:\s+by\s+\S+)?(?:\s+margin\s+\S+)?)",
            _spaced,
        ),
        (r"(?P<first>[^'\"]+?)(?P<word>\s+(?:is\s+)?best(?:\s+by\s+\S+)?)", _spaced),
        (rf"(?P<first>[^'\":<>=]+?)(?P<word>\s*:.*(?:<=|>=|≤|≥|<|>)\s*{_NUMBER})", _spaced),
    )
)
