"""The program `calibrant`: its commands, and what becomes of errors.

Exit codes: 0 done; 1 a gate failed; 2 bad input or usage; 3 an internal error; 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

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
from calibrant.errors import CalibrantError, plain

app = typer.Typer(
    name="calibrant",
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
    """Run the program; every expected failure is one line on stderr. Typer ends the process on usage errors itself."""
    try:
        app()
    except CalibrantError as error:
        _fail(f"calibrant: {error}", error.exit_code)
    except KeyboardInterrupt:
        _fail("calibrant: interrupted", 130)
    except MemoryError:
        _fail("calibrant: expected to fit into memory, but it is exhausted; evaluate fewer rows at a time", 2)
    except Exception as error:
        if os.environ.get("CALIBRANT_DEBUG"):
            raise
        said = plain(f"{type(error).__name__}: {error}")
        _fail(f"calibrant: a fault of the program ({said}); please report it, with CALIBRANT_DEBUG=1 set", 3)


def _fail(message: str, code: int) -> NoReturn:
    typer.echo(message, err=True)
    sys.exit(code)
