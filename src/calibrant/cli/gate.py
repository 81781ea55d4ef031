"""calibrant gate: gates on an evaluation that was stored, without computing it again."""

from __future__ import annotations

from typing import Annotated

import typer

from calibrant.cli import gating, inputs


def command(
    path: Annotated[str, typer.Argument(help="An evaluation that --json wrote.", metavar="EVAL.json")],
    fail_on: gating.FailOn = None,
    require: gating.Require = None,
    json_path: inputs.JsonPath = None,
    html_path: inputs.HtmlPath = None,
    quiet: inputs.Quiet = False,
) -> None:
    """Judge a stored evaluation by gates: exit code 1 if one fails."""
    from calibrant.cli.output import check_outputs, emit, write_outputs
    from calibrant.errors import UsageError
    from calibrant.evaluation.gates import load_evaluation

    check_outputs(json=json_path, html=html_path)
    gates = gating.parsed(fail_on, require, of=gating.EVERY)
    if not gates:
        do = "write for example --require 'nll < 0.3'"
        raise UsageError("gate", expected="--fail-on or --require", came="got neither", do=do)
    evaluation, code = gating.apply_gates(load_evaluation(path), gates)
    write_outputs(evaluation, form="table", json_path=json_path, html_path=html_path, quiet=True)
    if not quiet and json_path != "-":
        emit("\n".join(str(item) for item in evaluation.gates if item.passed))
    gating.tell(evaluation, quiet=True)
    if code:
        raise typer.Exit(code)
