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
    reproduce,
)
from calibrant.cli.program import Command, Program

app = typer.Typer(
    name="calibrant",
    cls=Program,
    help="Does a model know what it does not know? Judge and repair the predictive uncertainty of any model.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
BRIEFLY = {
    evaluate: "Judge predictions: every metric, with its interval.",
    check: "Ask whether what was observed is what the model expects.",
    compare: "Rank models on the same rows, and test their differences.",
    recalibrate: "Mend probabilities, and say what was gained.",
    conformal: "Give sets or intervals that hold the truth as often as asked.",
    detect: "Judge how well a score tells rows from outside.",
    gate: "Judge a stored evaluation by gates: exit code 1 if one fails.",
    monitor: "Test whether a model in use is still calibrated.",
    describe: "Say what a prediction file holds; begin here.",
    report: "Make one HTML page of words, charts and tables.",
    metrics: "List the metrics, or say what one means.",
    reproduce: "Make a table of a paper anew, beside the printed one.",
    demo: "Judge 20 small networks on handwritten digits.",
}
"""The commands, each with what the list of them says of it."""

for _module, _brief in BRIEFLY.items():
    app.command(_module.__name__.rpartition(".")[2], cls=Command, short_help=_brief)(_module.command)


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
