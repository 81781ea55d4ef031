"""What is known of the terminal: how wide it is, whether it shows colours, which signs it can carry, and progress.

Colours are for a terminal alone: none where output is piped, where `NO_COLOR` is set to anything (no-color.org), or
where `TERM` is dumb. `FORCE_COLOR` and `CLICOLOR_FORCE`, unless they are empty or 0, ask for them also in a pipe.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TextIO

from calibrant.errors import plain

if TYPE_CHECKING:
    from rich.progress import Progress

    from calibrant.evaluation.printing import Line

WIDTH, NARROWEST, WIDEST = 80, 40, 120
"""Columns where there is no terminal, and between which those of one are taken."""
DELAY = 1.0
"""Seconds after which a bar of progress appears: what is shorter does not flash."""
CODES = {"good": "32", "warn": "33", "bad": "31", "bold": "1", "dim": "2"}
SIGNS = str.maketrans({
    "─": "-", "░": ":", "▒": "=", "┃": "o", "█": "#", "┊": "|", "✓": "+", "✗": "x", "·": "-", "…": "~", "−": "-",
    "–": "-", "↓": "v", "↑": "^", "→": ">", "≤": "<", "≥": ">", "±": "~", "×": "x", "ρ": "r", "√": "/", "²": "2",
    "’": "'", "“": '"', "”": '"', "₂": "2",
})  # fmt: skip
"""What stands for signs that an encoding lacks: as wide as they are, so that columns stay where they were."""


def width_of(stream: TextIO | None = None) -> int:
    """Columns of the terminal, from 40 to 120; 80 where there is none."""
    stream = sys.stdout if stream is None else stream
    if not is_terminal(stream):
        return WIDTH
    return min(max(shutil.get_terminal_size((WIDTH, 24)).columns, NARROWEST), WIDEST)


def is_terminal(stream: TextIO) -> bool:
    """Whether somebody looks at it."""
    with suppress(ValueError, AttributeError):  # a stream that is closed, or that there is none of
        return stream.isatty()
    return False


def shows_colours(stream: TextIO | None = None) -> bool:
    """Whether colours are wanted on a stream."""
    if os.environ.get("NO_COLOR"):
        return False
    if any(os.environ.get(name, "0") not in ("", "0") for name in ("FORCE_COLOR", "CLICOLOR_FORCE")):
        return True
    return is_terminal(sys.stdout if stream is None else stream) and os.environ.get("TERM") != "dumb"


def painted(lines: list[Line], colours: bool) -> str:
    """Lines with their styles as colours, or without them."""
    return "\n".join("".join(_paint(text, style if colours else "") for text, style in line) for line in lines)


def _paint(text: str, style: str) -> str:
    codes = ";".join(CODES[name] for name in style.split() if name in CODES)
    return f"\x1b[{codes}m{text}\x1b[0m" if codes and text else text


def carried(text: str, stream: TextIO | None = None) -> str:
    """The text in signs that the stream's encoding has."""
    encoding = getattr(sys.stdout if stream is None else stream, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(SIGNS).encode(encoding, errors="replace").decode(encoding)
    except LookupError:  # an encoding that Python does not know: it will say so itself
        pass
    return text


# ----------------------------------------------------------------------------------------------- progress
@contextmanager
def progress_bar(quiet: bool, rows: int = 0) -> Iterator[Callable[[str, float, float], None] | None]:
    """A bar with a rate and the time that is left, on stderr, on a terminal only; it is gone when the work is done.

    rows: how many there are in all inputs together, which the rate is told by.
    """
    if quiet or not is_terminal(sys.stderr):
        yield None
        return
    bar = LateBar(rows)
    try:
        yield bar.advance
    finally:
        bar.stop()


class LateBar:
    """A bar that appears after a while: work that is done by then is never seen."""

    def __init__(self, rows: int = 0) -> None:
        """Nothing is shown yet."""
        self.rows, self.begun = rows, time.monotonic()
        self.stage = self.begun
        self.what, self.done, self.total = "starting (the first run compiles)", 0.0, 0.0
        self.shown: Progress | None = None
        self.over = False
        self.lock = threading.Lock()
        self.timer = threading.Timer(DELAY, self.start)
        self.timer.daemon = True
        self.timer.start()

    def start(self) -> None:
        """Show the bar, with what was said last."""
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[pace]}", markup=False),
            TimeElapsedColumn(),
        )
        console = Console(stderr=True, no_color=not shows_colours(sys.stderr))
        with self.lock:
            if self.over:
                return
            self.shown = Progress(*columns, console=console, transient=True, expand=True)
            self.shown.add_task("", total=None, pace="")
            self.shown.tasks[0].start_time = self.begun
            self._tell()
            self.shown.start()

    def advance(self, what: str, done: float, total: float) -> None:
        """Say what is being done, and how much of all is."""
        with self.lock:
            if done < self.done / 2:  # another piece of work, which has a pace of its own, and not a slower thread
                self.stage = time.monotonic()
            self.what, self.done, self.total = what, done, total
            self._tell()

    def _tell(self) -> None:
        if self.shown is not None:
            pace = pace_of(self.done, self.total, time.monotonic() - self.stage, self.rows)
            total = self.total or None
            task = self.shown.tasks[0].id
            self.shown.update(task, description=plain(self.what, 40), completed=self.done, total=total, pace=pace)

    def stop(self) -> None:
        """Take the bar away, or see to it that it never comes."""
        self.timer.cancel()
        with self.lock:
            self.over = True
            if self.shown is not None:
                self.shown.stop()


def pace_of(done: float, total: float, seconds: float, rows: int = 0) -> str:
    """How fast it goes and how long it will still take, as far as what is done tells."""
    share = done / total if total > 0 else 0.0
    if share <= 0.0 or seconds <= 0.0:
        return ""
    rate = [f"{_short(rows * share / seconds)} rows/s"] if rows else []
    left = round(seconds * (1.0 - share) / share) if share < 1.0 else 0
    return ", ".join([*rate, *([f"{left // 60}:{left % 60:02d} left"] if left else [])])


def _short(number: float) -> str:
    """Three digits that count, thousands as k and millions as M."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:.3g}"
