"""Where results go: stdout or files, in the form that was asked for. Progress goes to stderr and only to a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from calibrant.errors import UsageError, WriteError, did_you_mean, plain, show

if TYPE_CHECKING:
    from calibrant.evaluation.result import Evaluation
    from calibrant.predictions.base import Note

FORMATS = ("table", "json", "csv", "markdown", "latex")


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
        typer.echo(text)
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
    """The evaluation in one of the formats."""
    from calibrant.evaluation import tables

    if form == "json":
        return evaluation.dumps()
    writers: dict[str, Callable[[Evaluation], str]] = {
        "table": tables.as_text,
        "csv": tables.as_csv,
        "markdown": tables.as_markdown,
        "latex": tables.as_latex,
    }
    return writers[form](evaluation)


@contextmanager
def progress_bar(quiet: bool) -> Iterator[Callable[[str, float, float], None] | None]:
    """A bar over inputs, on a terminal only; it is gone when the work is done."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting (the first run compiles)", total=None)

        def advance(what: str, done: float, total: float) -> None:
            bar.update(task, description=plain(what, 60), completed=done, total=total)

        yield advance
