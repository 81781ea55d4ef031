"""What a terminal gets: its width, colours where they are wanted, signs that it has, progress that does not flash."""

import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import time
from fcntl import ioctl

import pytest

from calibrant.cli import output as terminal
from calibrant.cli.output import (
    DelayedBar,
    encodable,
    format_pace,
    paint,
    progress_bar,
    shows_colours,
    width_of,
)
from calibrant.render.table import columns_of

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
INTERRUPTED = """
import sys
class Interrupts:
    def find_spec(self, name, *rest):
        if name == "typer":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupts())
from calibrant.cli.start import run
run()
"""


class Terminal(io.StringIO):
    """A stream that somebody looks at."""

    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def no_wishes(monkeypatch):
    """Whatever colours the tests are run with."""
    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")


# --------------------------------------------------------------------------------------------------- width
@pytest.mark.parametrize(("columns", "width"), [(20, 40), (64, 64), (100, 100), (400, 120)])
def test_tables_are_as_wide_as_the_terminal_within_limits(columns, width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    assert width_of(Terminal()) == width
    assert width_of(io.StringIO()) == 80


# ------------------------------------------------------------------------------------------------- colours
@pytest.mark.parametrize(
    ("environment", "piped", "shown"),
    [
        ({}, False, True),
        ({}, True, False),
        ({"NO_COLOR": "1"}, False, False),
        ({"NO_COLOR": "0"}, False, False),
        ({"NO_COLOR": ""}, False, True),
        ({"TERM": "dumb"}, False, False),
        ({"FORCE_COLOR": "1"}, True, True),
        ({"CLICOLOR_FORCE": "1"}, True, True),
        ({"FORCE_COLOR": "0"}, True, False),
        ({"CLICOLOR_FORCE": ""}, True, False),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, False, False),
    ],
)
def test_colours_are_for_those_who_see_and_want_them(environment, piped, shown, monkeypatch):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert shows_colours(io.StringIO() if piped else Terminal()) is shown


def test_styles_are_all_that_painting_adds():
    lines = [(("Good [red]news[/red]", "bold good"),), (), (("  ", ""), ("!", "warn"), (" text", ""))]
    shown = paint(lines, colours=True)
    assert shown.startswith("\x1b[1;32mGood [red]news[/red]\x1b[0m\n\n  \x1b[33m!\x1b[0m text")
    assert ESCAPE.sub("", shown) == paint(lines, colours=False) == "Good [red]news[/red]\n\n  ! text"


def test_piped_output_has_no_colours_unless_they_are_forced(good, run_here, monkeypatch):
    plain = run_here("evaluate", good, "-m", "accuracy,ece").out
    assert "\x1b" not in plain
    monkeypatch.setenv("FORCE_COLOR", "1")
    forced = run_here("evaluate", good, "-m", "accuracy,ece").out
    assert "\x1b[1" in forced
    assert ESCAPE.sub("", forced) == plain
    assert "\x1b" not in run_here("evaluate", good, "-m", "accuracy,ece", "--format", "markdown").out


# -------------------------------------------------------------------------------------- a real terminal
def on_a_terminal(columns, *args, **env):
    """What the program writes to a pseudo-terminal of so many columns."""
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    command = [sys.executable, "-m", "calibrant", *map(str, args)]
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, stdin=theirs, env={**os.environ, **env}) as process:
        os.close(theirs)
        parts = []
        while True:
            try:
                part = os.read(ours, 1 << 16)
            except OSError:  # the other end is gone
                break
            parts.append(part)
            if not part:
                break
    os.close(ours)
    return process.returncode, b"".join(parts).decode().replace("\r\n", "\n")


def test_on_a_narrow_terminal_lines_fit_and_are_in_colour(good):
    code, shown = on_a_terminal(60, "evaluate", good, "-m", "accuracy,nll,ece,ks", "--fail-on", "nll>0.1")
    plain = ESCAPE.sub("", shown)
    assert code == 1
    assert max(map(columns_of, plain.splitlines())) <= 60
    assert "\x1b[31mgate failed" in shown
    assert plain.count("gate failed: fail-on nll>0.1") == 1
    assert "bars: " not in plain


# --------------------------------------------------------------------------------------------- encodings
def test_signs_that_an_encoding_lacks_become_others_as_wide():
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    said = "✓ ece ↓ ░░▒─┃█ … −1 ± 名"
    assert encodable(said, stream) == "+ ece v ::=-o# ~ -1 ~ ?"
    assert encodable(said, io.TextIOWrapper(io.BytesIO(), encoding="utf-8")) == said


def test_a_terminal_of_ascii_gets_ascii(good, run_cli):
    ran = run_cli("evaluate", good, "-m", "accuracy,ece", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.isascii()
    assert "bars: - interval" in ran.out


# ----------------------------------------------------------------------------------------------- progress
def test_short_work_shows_no_bar(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with progress_bar(quiet=False, rows=10) as progress:
        progress("reading", 0.5, 1)
    assert sys.stderr.getvalue() == ""


def test_long_work_shows_a_bar_that_goes_away(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(terminal, "DELAY", 0.01)
    bar = DelayedBar(rows=1000)
    bar("[bold]odd[/bold]\x1b[31m name", 1, 4)
    deadline = time.monotonic() + 20
    while bar.progress is None and time.monotonic() < deadline:
        time.sleep(0.01)
    bar("[bold]odd[/bold]\x1b[31m name", 2, 4)
    assert "rows/s" in bar.progress.tasks[0].fields["pace"]
    assert (bar.progress.tasks[0].completed, bar.progress.tasks[0].total) == (2, 4)
    bar.stop()
    written = sys.stderr.getvalue()
    assert "[bold]odd[/bold] [31m name" in ESCAPE.sub("", written)
    assert written.rstrip().endswith("\x1b[2K")  # the line is erased


def test_nothing_is_shown_where_nobody_looks(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with progress_bar(quiet=False) as progress:
        assert progress is None
    monkeypatch.setattr(sys, "stderr", Terminal())
    with progress_bar(quiet=True) as progress:
        assert progress is None


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ((0.0, 2.0, 5.0, 100), ""),
        ((1.0, 4.0, 10.0, 8_000_000), "200k rows/s, 0:30 left"),
        ((1.0, 4.0, 60.0, 0), "3:00 left"),
        ((4.0, 4.0, 2.0, 100), "50 rows/s"),
        ((1.0, 1.0, 1.0, 25_000_000), "25M rows/s"),
    ],
)
def test_the_pace_is_that_of_what_is_done(known, said):
    assert format_pace(*known) == said


# ---------------------------------------------------------------------------------------------- interrupts
def test_an_interrupt_while_loading_is_told_like_any_other():
    done = subprocess.run([sys.executable, "-c", INTERRUPTED, "--help"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "calibrant: interrupted\n")


def test_work_that_begins_anew_has_a_pace_of_its_own(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("calibrant.cli.output.time.monotonic", lambda: now[0])
    bar = DelayedBar()
    bar.stop()
    for at, done in ((100.0, 0.0), (190.0, 0.9), (200.0, 0.0), (210.0, 0.5)):
        now[0] = at
        bar("work", done, 1.0)
    assert format_pace(bar.done, bar.total, now[0] - bar.stage_started) == "0:10 left"
