"""What can go wrong, drawn as a tree. Every message says what was expected, what came and what to do.

CalibrantError
├── InputError          the data given is not what it was declared to be      (exit code 2)
│   ├── FileError       a file cannot be read as predictions
│   ├── ShapeError      an array has the wrong shape or length
│   ├── ValuesError     an array holds values that its declaration forbids
│   └── LabelsError     the labels do not fit the predictions
├── UsageError          a name, option or setting that does not exist          (exit code 2)
│   └── NotApplicable   a metric that these predictions cannot give
├── TrainingError       training went wrong: the loss, the memory, the device  (exit code 2)
├── WriteError          a result could not be written; nothing was left behind (exit code 2)
└── MissingExtra        an optional dependency is not installed                (exit code 2)

CalibrantWarning        something was done that the user should know of
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class CalibrantError(Exception):
    """The root of the tree; its message is always one line."""

    exit_code = 2

    def __init__(self, subject: str, *, expected: str, came: str, do: str) -> None:
        """Compose `subject: expected …, but …; …` and strip what a terminal could misread."""
        self.subject, self.expected, self.came, self.do = subject, expected, came, do
        parts = f"{_ends(subject)}: expected {plain(expected, 250)}, but {plain(came, 250)}; {plain(do, 400)}"
        super().__init__(plain(parts, 1200))


class InputError(CalibrantError, ValueError):
    """The data given is not what it was declared to be."""


class FileError(InputError):
    """A file cannot be read as predictions."""


class ShapeError(InputError):
    """An array has the wrong shape or length."""


class ValuesError(InputError):
    """An array holds values that its declaration forbids."""


class LabelsError(InputError):
    """The labels do not fit the predictions."""


class UsageError(CalibrantError, ValueError):
    """A name, option or setting that does not exist."""


class NotApplicable(UsageError):
    """A metric that these predictions cannot give; an evaluation lists it under `skipped`."""


class TrainingError(CalibrantError, RuntimeError):
    """Training went wrong: a loss that is no number, memory that does not suffice, a device that is not there."""


class WriteError(CalibrantError, OSError):
    """A result could not be written; nothing half-written was left behind."""


class MissingExtra(CalibrantError, ImportError):
    """An optional dependency is not installed."""


class CalibrantWarning(UserWarning):
    """Something was done that the user should know of."""


def plain(text: str, limit: int = 600) -> str:
    """The text on one line, without control characters, cut to `limit` characters."""
    cleaned = "".join(c if c.isprintable() else " " for c in text)
    return cleaned if len(cleaned) <= limit else cleaned[: limit - 1] + "…"


def _ends(text: str, limit: int = 240) -> str:
    """A long text without its middle: of a path the end tells most."""
    text = plain(text, 1 << 20)
    return text if len(text) <= limit else f"{text[: limit // 3]}…{text[-limit // 2 :]}"


def whole_number(text: str) -> int | None:
    """A whole number of at most 18 plain digits, or None: `isdigit` lets superscripts pass, and `int` has a limit."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


def show(value: object, limit: int = 60) -> str:
    """A value as it is quoted in a message: plain, short, in quotation marks."""
    return f"'{plain(str(value), limit)}'"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint for a misspelt name, or the whole list where nothing is close."""
    names = sorted(known)
    close = [other for other in names if other.lower() == name.lower()]
    close = close or get_close_matches(name, names, n=1, cutoff=0.6)
    return f"did you mean {show(close[0])}?" if close else f"choose from {', '.join(names)}"
