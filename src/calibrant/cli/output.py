"""Where results go: stdout or files, in the form that was asked for."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from calibrant.cli.completion import FORMATS
from calibrant.cli.terminal import carried, painted, shows_colours, width_of
from calibrant.errors import UsageError, WriteError, did_you_mean, plain, show

if TYPE_CHECKING:
    from calibrant.evaluation.result import Evaluation
    from calibrant.predictions.base import Note


def check_format(name: str) -> str:
    """The format, or an error that lists them."""
    if name not in FORMATS:
        raise UsageError(
            "--format",
            expected=", ".join(FORMATS),
            came=f"got {show(name)}",
            do=did_you_mean(name, FORMATS),
        )
    return name


def check_outputs(**paths: str | None) -> None:
    """Refuse to write a result over predictions, or two results into one file, before anything is read.

    `calibrant evaluate --json a.npz b.npz` would else lose a.npz: the option takes the name that follows it.
    """
    from calibrant.predictions.files.shards import SUFFIXES

    if paths.get("html") is not None:
        from calibrant.reporting.report import check_ready

        check_ready()
    taken: dict[Path, str] = {}
    for option, path in paths.items():
        if path is None or path == "-":
            continue
        if Path(path).suffix.lower() in SUFFIXES:
            raise UsageError(
                f"--{option}",
                expected=f"a name for the result, such as out.{option}",
                came=f"{show(Path(path).name)} is a name of predictions",
                do=f"write --{option} out.{option}, and the predictions apart from it",
            )
        if Path(path).absolute() in taken:
            came = f"--{taken[Path(path).absolute()]} and --{option} name {show(path)}"
            raise UsageError("output", expected="a file for each result", came=came, do="choose another name for one")
        taken[Path(path).absolute()] = option


def refuse_warnings(notes: Iterable[Note]) -> None:
    """Under --strict a warning is an error, and nothing is written."""
    notes = tuple(notes)
    for note in notes:
        raise UsageError(
            "--strict",
            expected="no warnings",
            came=note.message,
            do=f"mend it, or leave --strict out ({len(notes)} in all)",
        )


def write_outputs(
    evaluation: Evaluation, *, form: str, json_path: str | None, html_path: str | None, quiet: bool
) -> None:
    """Files first, so that a broken pipe loses nothing; then what is printed."""
    if json_path and json_path != "-":
        evaluation.save(json_path)
    if html_path:
        from calibrant.reporting.report import report

        report(evaluation, html_path)
    if json_path == "-":
        emit(evaluation.dumps())
    elif not quiet:
        emit(render(evaluation, form))


def emit(text: str) -> None:
    """Print a result; a reader that has gone is no failure, a full disk is one."""
    try:
        typer.echo(carried(text), color=True)  # what is coloured was meant to be
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is still buffered has nowhere to go
        if isinstance(error, BrokenPipeError):
            raise typer.Exit from error
        raise WriteError(
            "standard output",
            expected="a place to write to",
            came=plain(error.strerror or str(error)),
            do="free space or write elsewhere",
        ) from error


def render(evaluation: Evaluation, form: str) -> str:
    """The evaluation in one of the formats; as a table as wide as the terminal, and in colour where it shows any."""
    from calibrant.evaluation import printing, tables

    if form == "json":
        return evaluation.dumps()
    if form == "table":
        return painted(printing.text_lines(evaluation, width_of()), shows_colours())
    writers: dict[str, Callable[[Evaluation], str]] = {
        "csv": tables.as_csv,
        "markdown": printing.as_markdown,
        "latex": printing.as_latex,
    }
    return writers[form](evaluation)
