"""The program `calibrant` and its commands."""

from __future__ import annotations

import typer

from calibrant import __version__
from calibrant.cli import (
    check,
    compare,
    conformal,
    demo,
    describe,
    detect,
    evaluate,
    gate,
    metrics,
    monitor,
    recalibrate,
    report,
)
from calibrant.cli.program import Program

app = typer.Typer(
    name="calibrant",
    cls=Program,
    help="Does a model know what it does not know? Judge and repair the predictive uncertainty of any model.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("evaluate")(evaluate.command)
app.command("check")(check.command)
app.command("compare")(compare.command)
app.command("recalibrate")(recalibrate.command)
app.command("conformal")(conformal.command)
app.command("detect")(detect.command)
app.command("gate")(gate.command)
app.command("monitor")(monitor.command)
app.command("describe")(describe.command)
app.command("report")(report.command)
app.command("metrics")(metrics.command)
app.command("demo")(demo.command)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"calibrant {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and stop."
    ),
) -> None:
    """Does a model know what it does not know? Judge and repair the predictive uncertainty of any model."""
    del version


def run() -> None:
    """Run the program; what becomes of errors is told in `program`."""
    app(prog_name="calibrant")
