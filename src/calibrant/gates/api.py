"""`gate`: pass/fail conditions on an evaluation, for continuous integration.

A `fail_on` gate fails only if the whole interval satisfies its condition; a `require` gate passes only if the whole
interval does. An interval that contains the bound fails neither and passes neither: the choice between the two kinds
places the burden of proof. `grammar` has the language.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from calibrant.errors import FileError, UsageError
from calibrant.gates.evaluate import decide
from calibrant.gates.grammar import CheckOutcome, Condition, Threshold, parse_condition
from calibrant.gates.suggestions import example_gates
from calibrant.predictions.files.sources import EXISTING, SUFFIXES, similar_path_hint
from calibrant.results.evaluation import Evaluation
from calibrant.results.gates import FAIL_ON, REQUIRE, GateResult, Gates

MAX_IN_REASON = 3
"""Inputs that a reason describes; the rest are counted."""


@dataclass(frozen=True)
class Gate:
    """A parsed gate: its text, its kind (`fail_on` or `require`) and its condition."""

    text: str
    kind: str
    condition: Condition

    @classmethod
    def parse(cls, text: str, kind: str) -> Gate:
        """Parse a gate; raises `UsageError` with a suggestion if the text is not one."""
        if not isinstance(text, str):
            raise UsageError(kind, expected="gates as text", got=type(text).__name__, hint=example_gates(kind))
        return cls(text.strip(), kind, parse_condition(text, kind))

    @property
    def spec(self) -> str | None:
        """The metric or statistic that the condition names, if any."""
        return self.condition.spec

    @property
    def column(self) -> str | None:
        """The column of groups that the condition names, if any."""
        if isinstance(self.condition, Threshold) and self.condition.worst_by is not None:
            return self.condition.worst_by
        where = self.condition.where if isinstance(self.condition, Threshold | CheckOutcome) else None
        return None if where is None else where[0]

    def judge(self, evaluation: Evaluation) -> GateResult:
        """Whether the evaluation passes, and why."""
        decisions = decide(self.condition, evaluation)
        if self.kind == FAIL_ON:
            relevant = [item for item in decisions if item.holds] or [item for item in decisions if item.holds is None]
            passed = not any(item.holds for item in decisions)
            undecided = passed and bool(relevant)
        else:
            relevant = [item for item in decisions if not item.holds or item.without_interval]
            passed = not relevant
            undecided = any(item.holds is None or item.without_interval for item in relevant)
        shown = relevant or decisions
        reason = "; ".join(item.text for item in shown[:MAX_IN_REASON])
        if len(shown) > MAX_IN_REASON:
            reason += f"; and {len(shown) - MAX_IN_REASON} more of {len(decisions)}"
        if self.kind == REQUIRE and relevant and all(item.holds and item.without_interval for item in relevant):
            reason += ", so the gate is undecided"
            reason += f"; to gate the value alone write {self.spec}.value" * isinstance(self.condition, Threshold)
        return GateResult(self.text, self.kind, passed, reason, undecided)


def gate(
    evaluation: Evaluation | str | Path, *, fail_on: str | Iterable[str] = (), require: str | Iterable[str] = ()
) -> Gates:
    """Test an evaluation against pass/fail conditions.

    Parameters
    ----------
    evaluation : Evaluation, str or Path
        An evaluation, or the path of a stored one.
    fail_on : str or iterable of str
        Conditions such as "nll > 0.3". Each fails if its whole confidence interval satisfies the condition.
    require : str or iterable of str
        Conditions such as "nll < 0.3". Each passes only if its whole confidence interval satisfies the condition.

    Returns
    -------
    Gates
        True if every gate passed; prints the failures otherwise.

    Notes
    -----
    Conditions may also name the verdict on calibration ("verdict = overconfident", "verdict = calibrated, negligible"),
    groups ("worst nll by site < 0.5"), checks ("accuracy passes", "all pass"), recalibrations
    ("nll gain > 0") and comparisons ("candidate worse than baseline by nll", "candidate not worse than baseline by nll
    margin 0.01").

    Examples
    --------
    >>> import numpy as np
    >>> import calibrant as cal
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 3, 400)
    >>> logits = 3 * np.eye(3)[labels] + rng.normal(size=(400, 3))
    >>> evaluation = cal.evaluate(cal.Classification.from_logits(logits, labels), "accuracy,nll")
    >>> bool(cal.gates.gate(evaluation, fail_on="nll > 0.3", require="accuracy > 0.9"))
    True
    >>> print(cal.gates.gate(evaluation, require="nll < 0.05"))
    gate failed: require nll < 0.05: nll 0.1833, 95% interval 0.1633 to 0.2087
    """
    gates = parse_gates(fail_on, require)
    if not gates:
        raise UsageError("gate", expected="at least one gate", got="none", hint='use require="nll < 0.3" for example')
    stored = load_evaluation(evaluation) if isinstance(evaluation, str | Path) else evaluation
    if not isinstance(stored, Evaluation):
        hint = "for a recalibration pass its .evaluation"
        raise UsageError("gate", expected="an evaluation or the path of one", got=type(stored).__name__, hint=hint)
    return judge(stored, gates)


def load_evaluation(path: str | Path) -> Evaluation:
    """Load a stored evaluation; the error distinguishes missing files, prediction files and damaged evaluations."""
    try:
        return Evaluation.load(path)
    except FileError as error:
        cause = error.__cause__
        if isinstance(cause, FileNotFoundError):
            hint = similar_path_hint(Path(path))
            raise FileError(str(path), expected=EXISTING, got="no such file", hint=hint) from cause
        got, hint = "", error.hint
        if not isinstance(cause, OSError) and Path(path).suffix.lower() in SUFFIXES:
            got = "a file of predictions"
            hint = f"evaluate it first: calibrant evaluate {Path(path).name} --json OUT"
        elif isinstance(cause, KeyError | TypeError):
            got = "other content"
        elif isinstance(cause, UnicodeDecodeError):
            got = "a binary file"
        if not got:
            raise
        raise FileError(str(path), expected=error.expected, got=got, hint=hint) from cause


def parse_gates(fail_on: str | Iterable[str] = (), require: str | Iterable[str] = ()) -> list[Gate]:
    """Parse every gate, before anything is computed."""
    by_kind = ((FAIL_ON, fail_on), (REQUIRE, require))
    return [
        Gate.parse(text, kind) for kind, texts in by_kind for text in ([texts] if isinstance(texts, str) else texts)
    ]


def judge(evaluation: Evaluation, gates: Iterable[Gate]) -> Gates:
    """The result of every gate on an evaluation."""
    return Gates(tuple(item.judge(evaluation) for item in gates))
