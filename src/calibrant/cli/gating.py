"""Gates of commands: parsed before anything is read, judged before anything is written, told after that."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from calibrant.cli.terminal import is_terminal
from calibrant.errors import UsageError, show

if TYPE_CHECKING:
    from calibrant.evaluation.gates import Gate
    from calibrant.evaluation.result import Evaluation

FailOn = Annotated[
    list[str] | None,
    typer.Option("--fail-on", help="Exit with 1 if this is shown: 'nll > 0.3', the whole interval.", metavar="GATE"),
]
Require = Annotated[
    list[str] | None,
    typer.Option("--require", help="Exit with 1 unless this is shown: 'nll < 0.3', the whole interval.",
                 metavar="GATE"),
]  # fmt: skip
MADE_BY = {
    "Outcome": "calibrant check", "Gained": "calibrant recalibrate",
    "Versus": "calibrant compare", "Best": "calibrant compare",
}  # fmt: skip
"""The command whose evaluations a condition that is no threshold speaks of."""
EVERY = ("Threshold", *MADE_BY)


def parsed(
    fail_on: list[str] | None,
    require: list[str] | None,
    *,
    of: Iterable[str] = ("Threshold",),
    by: Iterable[str] | None = None,
) -> list[Gate]:
    """The gates of a command; those that its evaluation cannot answer are refused at once.

    of: the conditions that it can answer. by: the columns that it groups by; None where they are not known yet.
    """
    if not fail_on and not require:
        return []
    from calibrant.evaluation.gate_grammar import ALSO
    from calibrant.evaluation.gate_hints import suggest
    from calibrant.evaluation.gates import parse_gates

    gates = parse_gates(fail_on or (), require or ())
    for gate in gates:
        kind = "Best" if gate.spec in ALSO else type(gate.condition).__name__
        if kind not in of:
            came = f"{show(gate.text)} is for {MADE_BY.get(kind, 'calibrant evaluate')}"
            raise UsageError("gate", expected="one that this command can answer", came=came, do="give it there")
        if by is not None and gate.column is not None and gate.column not in by:
            do = f"add --by {gate.column}" if not by else suggest(gate.column, by)
            came = f"{show(gate.text)} speaks of {show(gate.column)}"
            raise UsageError("gate", expected="a column that --by names", came=came, do=do)
    return gates


def with_metrics(named: list[str] | None, gates: Iterable[Gate], usual: Iterable[str] = ()) -> str | list[str] | None:
    """What --metrics or --statistics ask for, and beside it what gates ask for.

    usual: what is computed where nothing is named.
    """
    from calibrant import registry

    specs = dict.fromkeys(gate.spec for gate in gates if gate.spec is not None and type(gate.condition) in _own())
    if named is None:
        known = set(usual)
        more = [spec for spec in specs if spec not in known]
        return ["default", *more] if more else None
    given = [text.strip() for text in registry.split(",".join(named))]
    known = {_canonical(text) for text in given} | (set(registry.metrics()) if "all" in given else set())
    more = [spec for spec in specs if spec not in known]
    return [*given, *more] if more else ",".join(named)


def _own() -> tuple[type, ...]:
    from calibrant.evaluation.gate_grammar import Outcome, Threshold

    return (Threshold, Outcome)


def _canonical(text: str) -> str:
    from calibrant import registry

    name = text.partition("(")[0].strip()
    return registry.parse(text).text if name in registry.metrics() else text


def check_inputs(gates: Iterable[Gate], names: Iterable[str]) -> None:
    """Refuse gates of inputs that are not there, before anything is computed."""
    from calibrant.evaluation.gate_hints import suggest

    names = list(names)
    for gate in gates:
        wanted = getattr(gate.condition, "input", None)
        if wanted is not None and wanted not in names:
            came = f"got {show(wanted)}"
            raise UsageError("gate", expected="the name of an input", came=came, do=suggest(wanted, names))


def apply_gates(evaluation: Evaluation, gates: list[Gate]) -> tuple[Evaluation, int]:
    """The evaluation with what became of the gates, and the exit code: 1 where one failed."""
    if not gates:
        return evaluation, 0
    from calibrant.evaluation.gates import judge

    found = judge(evaluation, gates)
    return replace(evaluation, gates=found.results), 0 if found else 1


def write_gated(
    evaluation: Evaluation, gates: list[Gate], *, form: str, json_path: str | None, html_path: str | None, quiet: bool
) -> None:
    """Write and print the evaluation with its gates; then, if one failed, say so and end with code 1."""
    from calibrant.cli.output import write_outputs

    evaluation, code = apply_gates(evaluation, gates)
    try:
        write_outputs(evaluation, form=form, json_path=json_path, html_path=html_path, quiet=quiet)
    except typer.Exit:  # the reader of stdout has gone, and the gates still hold
        if code == 0:
            raise
    printed = form == "table" and json_path != "-" and not quiet
    if not (printed and is_terminal(sys.stdout) and is_terminal(sys.stderr)):  # there they stand already
        tell(evaluation, quiet)
    if code:
        raise typer.Exit(code)


def tell(evaluation: Evaluation, quiet: bool) -> None:
    """On stderr: each gate that failed; where all passed, one line."""
    from calibrant.evaluation.gate_records import Gates

    gates = Gates(evaluation.gates)
    if gates.failed or (len(gates) and not quiet):
        typer.echo(f"{gates}", err=True)
