"""Gates: conditions on an evaluation that decide whether a build goes on.

`fail_on` fails where its condition is *shown*: the whole interval satisfies it. `require` passes only where its
condition is shown. An interval that lies on both sides of the bound therefore neither fails the one nor passes the
other, and which of them is meant says on whom the burden of proof lies. `gate_grammar` has the language.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from calibrant.errors import FileError, UsageError
from calibrant.evaluation.gate_findings import findings
from calibrant.evaluation.gate_grammar import Condition, Outcome, Threshold, parse_condition
from calibrant.evaluation.gate_hints import usual
from calibrant.evaluation.gate_measured import Finding
from calibrant.evaluation.gate_records import FAIL_ON, REQUIRE, GateResult, Gates
from calibrant.evaluation.result import Evaluation
from calibrant.predictions.files.shards import EXISTING, SUFFIXES, near

MOST_TOLD = 3
"""Inputs that a reason tells of."""


@dataclass(frozen=True)
class Gate:
    """A parsed gate: its text, whether it is `fail_on` or `require`, and its condition."""

    text: str
    kind: str
    condition: Condition

    @classmethod
    def parse(cls, text: str, kind: str) -> Gate:
        """From text; an error of one line where it is no gate."""
        if not isinstance(text, str):
            came = f"got {type(text).__name__}"
            raise UsageError(kind, expected="gates as text", came=came, do=usual(kind))
        return cls(text.strip(), kind, parse_condition(text, kind))

    @property
    def spec(self) -> str | None:
        """The metric or statistic that it asks for, if it names one."""
        return self.condition.spec

    @property
    def column(self) -> str | None:
        """The column of groups that it speaks of, if any."""
        if isinstance(self.condition, Threshold) and self.condition.worst_by is not None:
            return self.condition.worst_by
        where = self.condition.where if isinstance(self.condition, Threshold | Outcome) else None
        return None if where is None else where[0]

    def judge(self, evaluation: Evaluation) -> GateResult:
        """Whether the evaluation passes, and why."""
        found = findings(self.condition, evaluation)
        if self.kind == FAIL_ON:
            told = [item for item in found if item.shown] or [item for item in found if item.shown is None]
            passed = not any(item.shown for item in found)
            undecided = passed and bool(told)
        else:
            told = [item for item in found if not item.shown or item.weak]
            passed = not told
            undecided = any(item.shown is None or item.weak for item in told)
        reason = _reason(told or found, found)
        if self.kind == REQUIRE and told and all(item.shown and item.weak for item in told):
            reason += ", which shows nothing"
            reason += "; write .value behind the metric if it is to decide" * isinstance(self.condition, Threshold)
        return GateResult(self.text, self.kind, passed, reason, undecided)


def gate(
    evaluation: Evaluation | str | Path, *, fail_on: str | Iterable[str] = (), require: str | Iterable[str] = ()
) -> Gates:
    """Judge an evaluation, or the file of one, by gates; true where all of them pass, else printed as what failed.

    fail_on: conditions such as "nll > 0.3", each of which fails where the whole interval satisfies it. require:
    conditions each of which passes only where the whole interval satisfies it. Conditions may also speak of groups
    ("worst nll by site < 0.5"), checks ("accuracy passes", "all pass"), recalibrations ("nll gain > 0") and comparisons
    ("candidate worse than baseline by nll", "candidate not worse than baseline by nll margin 0.01").
    """
    gates = parse_gates(fail_on, require)
    if not gates:
        do = 'write for example require="nll < 0.3"'
        raise UsageError("gate", expected="at least one gate", came="none was given", do=do)
    held = load_evaluation(evaluation) if isinstance(evaluation, str | Path) else evaluation
    if not isinstance(held, Evaluation):
        came = f"got {type(held).__name__}"
        raise UsageError(
            "gate",
            expected="an evaluation, or the path of one",
            came=came,
            do="of a recalibration give its .evaluation",
        )
    return judge(held, gates)


def load_evaluation(path: str | Path) -> Evaluation:
    """A stored evaluation; a path that leads nowhere and a file of predictions are told from one that is damaged."""
    try:
        return Evaluation.load(path)
    except FileError as error:
        cause = error.__cause__
        if isinstance(cause, FileNotFoundError):
            raise FileError(str(path), expected=EXISTING, came="there is none", do=near(Path(path))) from cause
        came = "it is no text" if isinstance(cause, UnicodeDecodeError) else ""
        if isinstance(cause, KeyError | TypeError):
            came = "it holds something else"
        if not isinstance(cause, OSError) and Path(path).suffix.lower() in SUFFIXES:
            came = "it is a file of predictions"
        if not came:
            raise
        do = f"evaluate it first: calibrant evaluate {Path(path).name} --json OUT"
        do = do if came.endswith("predictions") else error.do
        raise FileError(str(path), expected=error.expected, came=came, do=do) from cause


def parse_gates(fail_on: str | Iterable[str] = (), require: str | Iterable[str] = ()) -> list[Gate]:
    """Every gate, before anything is computed."""
    out = []
    for kind, texts in ((FAIL_ON, fail_on), (REQUIRE, require)):
        out += [Gate.parse(text, kind) for text in ([texts] if isinstance(texts, str) else texts)]
    return out


def judge(evaluation: Evaluation, gates: Iterable[Gate]) -> Gates:
    """What an evaluation says to each of some gates."""
    return Gates(tuple(item.judge(evaluation) for item in gates))


def _reason(told: list[Finding], found: list[Finding]) -> str:
    said = "; ".join(item.said for item in told[:MOST_TOLD])
    more = len(told) - MOST_TOLD
    return said + (f"; and {more} more of {len(found)}" if more > 0 else "")
