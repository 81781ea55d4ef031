"""calibrant gate: apply gates to a stored evaluation, without computing it again."""

from __future__ import annotations

from typing import Annotated

import typer

from calibrant.cli import gate_options, options
from calibrant.cli.options import argument

EXAMPLES = """\
calibrant evaluate predictions.npz --json evaluation.json
calibrant gate evaluation.json --require 'nll < 0.3' --fail-on 'ece > 0.05'
"""


def command(
    path: Annotated[str, argument("An evaluation written with --json.", "EVAL.json")],
    fail_on: options.FailOn = None,
    require: options.Require = None,
    json_path: options.JsonPath = None,
    html_path: options.HtmlPath = None,
    quiet: options.Quiet = False,
) -> None:
    """Apply gates to a stored evaluation; exit with 1 if one fails."""
    from calibrant.cli.output import check_outputs, emit, write_outputs
    from calibrant.errors import UsageError
    from calibrant.gates.api import load_evaluation

    check_outputs(json=json_path, html=html_path)
    gates = gate_options.parse_gate_options(fail_on, require, kinds=gate_options.ALL_KINDS)
    if not gates:
        hint = "for example --require 'nll < 0.3'"
        raise UsageError("gate", expected="--fail-on or --require", got="neither", hint=hint)
    evaluation, code = gate_options.apply_gates(load_evaluation(path), gates)
    write_outputs(evaluation, form="table", json_path=json_path, html_path=html_path, quiet=True)
    if not quiet and json_path != "-":
        emit("\n".join(str(item) for item in evaluation.gates if item.passed))
    gate_options.report_gates(evaluation, quiet=True)
    if code:
        raise typer.Exit(code)
