"""--fail-on and --require: parsed before any file is read, applied to the evaluation before it is written."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from calibrant.cli.output import is_terminal
from calibrant.errors import UsageError, show

if TYPE_CHECKING:
    from calibrant.gates.api import Gate
    from calibrant.results.evaluation import Evaluation

COMMANDS = {
    "CheckOutcome": "calibrant check", "GainThreshold": "calibrant recalibrate",
    "Versus": "calibrant compare", "BestModel": "calibrant compare",
}  # fmt: skip
"""The command that evaluates each kind of condition other than a threshold."""
ALL_KINDS = ("Threshold", "VerdictIs", *COMMANDS)


def parse_gate_options(
    fail_on: list[str] | None,
    require: list[str] | None,
    *,
    kinds: Iterable[str] = ("Threshold", "VerdictIs"),
    by: Iterable[str] | None = None,
) -> list[Gate]:
    """Parse the gates of a command, and refuse those that it cannot evaluate.

    kinds: the conditions that the command can evaluate. by: the columns it groups by; None if not known yet.
    """
    if not fail_on and not require:
        return []
    from calibrant.gates.api import parse_gates
    from calibrant.gates.suggestions import suggest_name
    from calibrant.registry.comparison_scores import COMPARISON_SCORES

    gates = parse_gates(fail_on or (), require or ())
    for gate in gates:
        kind = "BestModel" if gate.spec in COMPARISON_SCORES else type(gate.condition).__name__
        if kind not in kinds:
            command = COMMANDS.get(kind, "calibrant evaluate")
            got = f"{show(gate.text)}, a gate for {command}"
            raise UsageError("gate", expected="a gate for this command", got=got, hint=f"use it with {command}")
        if by is not None and gate.column is not None and gate.column not in by:
            hint = f"add --by {gate.column}" if not by else suggest_name(gate.column, by)
            got = f"{show(gate.column)} in {show(gate.text)}"
            raise UsageError("gate", expected="a column of --by", got=got, hint=hint)
    return gates


def judge_calibration(gates: Iterable[Gate]) -> bool:
    """Whether a gate asks for the verdict on calibration."""
    return any(type(gate.condition).__name__ == "VerdictIs" for gate in gates)


def add_gate_metrics(
    requested: list[str] | None, gates: Iterable[Gate], defaults: Iterable[str] = ()
) -> str | list[str] | None:
    """Add the metrics that gates need to those of --metrics or --statistics.

    defaults: the metrics that are computed if none are requested.
    """
    from calibrant.gates.grammar import CheckOutcome, Threshold
    from calibrant.registry import lookup

    needed = dict.fromkeys(
        gate.spec for gate in gates if gate.spec is not None and isinstance(gate.condition, Threshold | CheckOutcome)
    )
    if requested is None:
        computed = set(defaults)
        missing = [spec for spec in needed if spec not in computed]
        return ["default", *missing] if missing else None
    specs = [text.strip() for text in lookup.split(",".join(requested))]
    known = lookup.metrics()
    computed = {lookup.parse(text).text if text.partition("(")[0].strip() in known else text for text in specs}
    computed |= set(known) if "all" in specs else set()
    missing = [spec for spec in needed if spec not in computed]
    return [*specs, *missing] if missing else ",".join(requested)


def check_gate_inputs(gates: Iterable[Gate], names: Iterable[str]) -> None:
    """Refuse gates on inputs that are not among `names`, before anything is computed."""
    from calibrant.gates.suggestions import suggest_name

    names = list(names)
    for gate in gates:
        name = getattr(gate.condition, "input", None)
        if name is not None and name not in names:
            hint = suggest_name(name, names)
            raise UsageError("gate", expected="the name of an input", got=show(name), hint=hint)


def apply_gates(evaluation: Evaluation, gates: list[Gate]) -> tuple[Evaluation, int]:
    """Add the results of the gates to the evaluation; return it and the exit code, 1 if a gate failed."""
    if not gates:
        return evaluation, 0
    from calibrant.gates.api import judge

    outcome = judge(evaluation, gates)
    return replace(evaluation, gates=outcome.results), 0 if outcome else 1


def write_gated(
    evaluation: Evaluation, gates: list[Gate], *, form: str, json_path: str | None, html_path: str | None, quiet: bool
) -> None:
    """Write and print the evaluation with its gates, and exit with code 1 if a gate failed."""
    from calibrant.cli.output import write_outputs

    evaluation, code = apply_gates(evaluation, gates)
    try:
        write_outputs(evaluation, form=form, json_path=json_path, html_path=html_path, quiet=quiet)
    except typer.Exit:  # nobody reads stdout any more; the gates still apply
        if code == 0:
            raise
    printed = form == "table" and json_path != "-" and not quiet
    if not (printed and is_terminal(sys.stdout) and is_terminal(sys.stderr)):  # else they are on the screen already
        report_gates(evaluation, quiet)
    if code:
        raise typer.Exit(code)


def report_gates(evaluation: Evaluation, quiet: bool) -> None:
    """Print to stderr each gate that failed, or one line if all passed."""
    from calibrant.results.gates import Gates

    gates = Gates(evaluation.gates)
    if gates.failed or (len(gates) and not quiet):
        typer.echo(f"{gates}", err=True)
