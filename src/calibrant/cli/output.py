"""Output of commands: width, colours and encoding of the terminal, a progress bar, and where results are written.

Colours are for terminals only: none where output is piped, where `NO_COLOR` is set (no-color.org), or where `TERM` is
dumb. `FORCE_COLOR` and `CLICOLOR_FORCE`, unless they are empty or 0, enable them in a pipe too.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import typer

from calibrant.cli.completion import FORMATS
from calibrant.errors import UsageError, WriteError, check_choice, plain, show

if TYPE_CHECKING:
    from rich.progress import Progress

    from calibrant.predictions.base import Note
    from calibrant.render.terminal import Line
    from calibrant.results.evaluation import Evaluation

WIDTH, NARROWEST, WIDEST = 80, 40, 120
"""Columns without a terminal, and the limits with one."""
DELAY = 1.0
"""Seconds before the progress bar appears, so that short work does not make it flash."""
CODES = {"good": "32", "warn": "33", "bad": "31", "bold": "1", "dim": "2"}
ASCII = str.maketrans({
    "─": "-", "░": ":", "▒": "=", "┃": "o", "█": "#", "┊": "|", "✓": "+", "✗": "x", "·": "-", "…": "~", "−": "-",
    "–": "-", "↓": "v", "↑": "^", "→": ">", "≤": "<", "≥": ">", "±": "~", "×": "x", "ρ": "r", "√": "/", "²": "2",
    "’": "'", "“": '"', "”": '"', "₂": "2",
})  # fmt: skip
"""Replacements of the same width for characters that an encoding lacks, so that columns stay aligned."""


def width_of(stream: TextIO | None = None) -> int:
    """Columns of the terminal, from 40 to 120; 80 without one."""
    stream = sys.stdout if stream is None else stream
    if not is_terminal(stream):
        return WIDTH
    return min(max(shutil.get_terminal_size((WIDTH, 24)).columns, NARROWEST), WIDEST)


def is_terminal(stream: TextIO) -> bool:
    """Whether the stream is a terminal."""
    with suppress(ValueError, AttributeError):  # a closed stream, or None
        return stream.isatty()
    return False


def shows_colours(stream: TextIO | None = None) -> bool:
    """Whether to write colours to the stream."""
    if os.environ.get("NO_COLOR"):
        return False
    if any(os.environ.get(name, "0") not in ("", "0") for name in ("FORCE_COLOR", "CLICOLOR_FORCE")):
        return True
    return is_terminal(sys.stdout if stream is None else stream) and os.environ.get("TERM") != "dumb"


def paint(lines: list[Line], colours: bool) -> str:
    """Join lines, with their styles as ANSI colours or without them."""
    out = []
    for line in lines:
        parts = []
        for text, style in line:
            codes = ";".join(CODES[name] for name in style.split() if name in CODES)
            parts.append(f"\x1b[{codes}m{text}\x1b[0m" if colours and codes and text else text)
        out.append("".join(parts))
    return "\n".join(out)


def encodable(text: str, stream: TextIO | None = None) -> str:
    """Replace characters that the encoding of the stream lacks."""
    encoding = getattr(sys.stdout if stream is None else stream, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(ASCII).encode(encoding, errors="replace").decode(encoding)
    except LookupError:  # an unknown encoding: writing to the stream raises a clear error
        pass
    return text


# ----------------------------------------------------------------------------------------------- progress
@contextmanager
def progress_bar(quiet: bool, rows: int = 0) -> Iterator[DelayedBar | None]:
    """Show a bar with the rate and the remaining time on stderr, on a terminal only, and remove it at the end.

    rows: the number of rows of all inputs, for the rate.
    """
    if quiet or not is_terminal(sys.stderr):
        yield None
        return
    bar = DelayedBar(rows)
    try:
        yield bar
    finally:
        bar.stop()


class DelayedBar:
    """A progress bar that appears after a delay, so that short work shows none; called with each update."""

    def __init__(self, rows: int = 0) -> None:
        """Start the timer; nothing is shown yet."""
        self.rows, self.started = rows, time.monotonic()
        self.stage_started = self.started
        self.description, self.done, self.total = "starting (the first run compiles)", 0.0, 0.0
        self.progress: Progress | None = None
        self.preview = ""
        self.stopped = False
        self.lock = threading.Lock()
        self.timer = threading.Timer(DELAY, self.start)
        self.timer.daemon = True
        self.timer.start()

    def start(self) -> None:
        """Show the bar, with the last update."""
        from rich.console import Console, RenderableType
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
        from rich.text import Text

        bar = self

        class PreviewedProgress(Progress):
            """The bar, below the values that are known so far."""

            def get_renderables(self) -> Iterator[RenderableType]:
                if bar.preview:
                    yield Text(bar.preview)
                yield from super().get_renderables()

        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[pace]}", markup=False),
            TimeElapsedColumn(),
        )
        console = Console(stderr=True, no_color=not shows_colours(sys.stderr))
        with self.lock:
            if self.stopped:
                return
            self.progress = PreviewedProgress(*columns, console=console, transient=True, expand=True)
            self.progress.add_task("", total=None, pace="")
            self.progress.tasks[0].start_time = self.started
            self._update()
            self.progress.start()

    def __call__(self, description: str, done: float, total: float) -> None:
        """Update the description and how much of the total is done."""
        with self.lock:
            if done < self.done / 2:  # a new stage, with a pace of its own; a slower thread falls back less
                self.stage_started = time.monotonic()
            self.description, self.done, self.total = description, done, total
            self._update()

    def show_values(self, name: str, values: Mapping[str, float]) -> None:
        """Show the values of an input above the bar, while what their intervals take is still compiled."""
        from calibrant.render.formatting import format_number

        width = max(map(len, values))
        lines = [f"{text.ljust(width)}  {format_number(value)}" for text, value in values.items()]
        title = f"{plain(name, 40)}: values; intervals follow"
        self.preview = encodable("\n".join([title, *lines, ""]), sys.stderr)

    def _update(self) -> None:
        if self.progress is not None:
            pace = format_pace(self.done, self.total, time.monotonic() - self.stage_started, self.rows)
            self.progress.update(
                self.progress.tasks[0].id, description=plain(self.description, 40), completed=self.done,
                total=self.total or None, pace=pace,
            )  # fmt: skip

    def stop(self) -> None:
        """Remove the bar, or keep it from appearing."""
        self.timer.cancel()
        with self.lock:
            self.stopped = True
            if self.progress is not None:
                self.progress.stop()


def format_pace(done: float, total: float, seconds: float, rows: int = 0) -> str:
    """Format the rate and the remaining time, as far as they are known."""
    share = done / total if total > 0 else 0.0
    if share <= 0.0 or seconds <= 0.0:
        return ""
    parts = []
    if rows:
        rate = rows * share / seconds
        size, letter = next(((s, x) for s, x in ((1e6, "M"), (1e3, "k")) if rate >= s), (1.0, ""))
        parts.append(f"{rate / size:.3g}{letter} rows/s")
    left = round(seconds * (1.0 - share) / share) if share < 1.0 else 0
    return ", ".join([*parts, *([f"{left // 60}:{left % 60:02d} left"] if left else [])])


def check_format(name: str) -> str:
    """Return the format, or raise an error that lists them."""
    return check_choice("--format", name, FORMATS)


def check_outputs(**paths: str | None) -> None:
    """Refuse to write a result over predictions, or two results to one file, before anything is read.

    Otherwise `calibrant evaluate --json a.npz b.npz` would overwrite a.npz.
    """
    from calibrant.predictions.files.sources import SUFFIXES

    if paths.get("html") is not None:
        from calibrant.reporting.report import check_ready

        check_ready()
    options: dict[Path, str] = {}
    for option, path in paths.items():
        if path is None or path == "-":
            continue
        if Path(path).suffix.lower() in SUFFIXES:
            suffix = Path(path).suffix
            ending = "html" if option == "html" else "json"
            expected = f"a file name for results, such as out.{ending}"
            got = f"{show(Path(path).name)} ({suffix} is for predictions)"
            hint = f"write --{option} out.{ending}, then the predictions"
            raise UsageError(f"--{option}", expected=expected, got=got, hint=hint)
        other = options.setdefault(Path(path).absolute(), option)
        if other != option:
            got = f"{show(path)} for --{other} and --{option}"
            raise UsageError("output", expected="a different file for each result", got=got, hint="rename one of them")


@contextmanager
def strict_end(strict: bool, notes: Iterable[Note], evaluation: Evaluation | None = None) -> Iterator[None]:
    """With --strict, end with exit code 2 after the block has written everything, if there is a warning.

    A warning is a note, or an interval of `evaluation` that may under-cover. It also replaces the exit code of a gate.
    """
    try:
        yield
    finally:
        if strict:
            found = [note.message for note in notes] + approximate_intervals(evaluation)
            if found:
                codes = list(dict.fromkeys(note.code for note in notes)) + ["approximate-interval"] * bool(
                    approximate_intervals(evaluation)
                )
                count = f"{len(found)} warning{'s' * (len(found) > 1)}"
                text = f"calibrant: --strict: {count} ({', '.join(codes)}): {plain(found[0], 300)}"
                typer.echo(encodable(text, sys.stderr), err=True)
                raise typer.Exit(2)


def approximate_intervals(evaluation: Evaluation | None) -> list[str]:
    """One line for each metric whose interval may cover less than its level."""
    if evaluation is None:
        return []
    from calibrant.render.evaluation import is_approximate

    return [
        f"{result.input}: the interval of {spec} may under-cover"
        for result in evaluation.results
        for spec, estimate in result.metrics.items()
        if is_approximate(estimate)
    ]


def write_json(dumped: str, json_path: str | None, text: str, quiet: bool) -> None:
    """Write JSON to a file or print it; print the text unless JSON is printed, or with --quiet."""
    from calibrant.predictions.files.write import atomic_write

    if json_path and json_path != "-":
        with atomic_write(Path(json_path)) as stream:
            stream.write((dumped + "\n").encode())
    if json_path == "-":
        emit(dumped)
    elif not quiet:
        emit(text)


def write_outputs(
    evaluation: Evaluation, *, form: str, json_path: str | None, html_path: str | None, quiet: bool
) -> None:
    """Write the files, then print: a broken pipe loses no file."""
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
    """Print a result; a closed pipe is no error, a full disk is."""
    try:
        typer.echo(encodable(text), color=True)  # `paint` has decided on colours
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # drop the buffered rest
        if isinstance(error, BrokenPipeError):
            raise typer.Exit from error
        got, hint = plain(error.strerror or str(error)), "free some space or write to another place"
        raise WriteError("standard output", expected="a writable stream", got=got, hint=hint) from error


def render(evaluation: Evaluation, form: str) -> str:
    """Format the evaluation; a table is as wide as the terminal, and coloured where that is supported."""
    from calibrant.render import evaluation as tables
    from calibrant.render import terminal as printing

    if form == "table":
        return paint(printing.text_lines(evaluation, width_of()), shows_colours())
    writers: dict[str, Callable[[Evaluation], str]] = {
        "json": lambda item: item.dumps(),
        "csv": tables.as_csv,
        "markdown": printing.as_markdown,
        "latex": printing.as_latex,
    }
    return writers[form](evaluation)
