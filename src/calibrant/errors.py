"""The exception hierarchy, and the checks of arguments that every layer shares.

CalibrantError
├── InputError          the data does not match its declaration               (exit code 2)
│   ├── FileError       a file cannot be read as predictions
│   ├── ShapeError      an array has the wrong shape or length
│   ├── ValuesError     an array has values that its declaration forbids
│   └── LabelsError     the labels do not match the predictions
├── UsageError          an unknown name or an invalid option or setting       (exit code 2)
│   └── NotApplicable   a metric that cannot be computed from these predictions
├── TrainingError       training failed: the loss, the memory, the device     (exit code 2)
├── WriteError          a result could not be written; no partial file is left (exit code 2)
└── MissingExtra        an optional dependency is not installed               (exit code 2)

CalibrantWarning        something the user should know about a result

Every message reads `subject: expected X, got Y; hint`, on one line.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from numbers import Real
from typing import Any, Literal, overload

Inclusive = Literal["both", "neither", "left", "right"]

MAX_SEED = 2**64 - 1


class CalibrantError(Exception):
    """Base class of every error Calibrant raises on purpose; its message is one line.

    Examples
    --------
    >>> import calibrant as cal
    >>> try:
    ...     cal.metrics()["ece"].option("bin")
    ... except cal.CalibrantError as error:
    ...     print(error)
    ece: expected one of its options: bins, binning, norm, of, got 'bin'; did you mean 'bins'?
    """

    exit_code = 2

    def __init__(self, subject: str, *, expected: str, got: str, hint: str) -> None:
        """Compose `subject: expected …, got …; hint` on one line, without control characters."""
        self.subject, self.expected, self.got, self.hint = subject, expected, got, hint
        start = plain(subject, 1 << 20)
        if len(start) > 240:  # the end of a path identifies the file
            start = f"{start[:80]}…{start[-120:]}"
        message = f"{start}: expected {plain(expected, 250)}, got {plain(got, 250)}; {plain(hint, 400)}"
        super().__init__(plain(message, 1200))


class InputError(CalibrantError, ValueError):
    """The data does not match its declaration."""


class FileError(InputError):
    """A file cannot be read as predictions."""


class ShapeError(InputError):
    """An array has the wrong shape or length."""


class ValuesError(InputError):
    """An array has values that its declaration forbids."""


class LabelsError(InputError):
    """The labels do not match the predictions."""


class UsageError(CalibrantError, ValueError):
    """An unknown name, or an invalid option or setting."""


class NotApplicable(UsageError):
    """A metric that cannot be computed from these predictions; an evaluation lists it under `skipped`."""


class TrainingError(CalibrantError, RuntimeError):
    """Training failed: the loss is not finite, memory ran out, or the device is unavailable."""


class WriteError(CalibrantError, OSError):
    """A result could not be written; no partial file is left behind."""


class MissingExtra(CalibrantError, ImportError):
    """An optional dependency is not installed."""


class CalibrantWarning(UserWarning):
    """Something the user should know about a result."""


@contextmanager
def error_context(origin: str, first_row: int = 0) -> Iterator[None]:
    """Prefix the subject of input and usage errors with their origin, a file for example.

    Row numbers in the message are shifted by `first_row`, so that rows of a block count from the start of the file.
    """
    try:
        yield
    except (InputError, UsageError) as error:
        if not origin or isinstance(error, FileError):
            raise
        got = re.sub(r"\brow (\d+)", lambda row: f"row {first_row + int(row[1])}", error.got, count=1)
        raise type(error)(f"{origin}: {error.subject}", expected=error.expected, got=got, hint=error.hint) from error


def plain(text: str, limit: int = 600) -> str:
    """Put the text on one line, without control characters, cut to `limit` characters."""
    cleaned = "".join(c if c.isprintable() else " " for c in text)
    return cleaned if len(cleaned) <= limit else cleaned[: limit - 1] + "…"


def parse_count(text: str) -> int | None:
    """Parse a non-negative integer of at most 18 ASCII digits; None for anything else."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


def show(value: object, limit: int = 60) -> str:
    """Quote a value for a message: one line, at most `limit` characters, in quotation marks."""
    return f"'{plain(str(value), limit)}'"


def did_you_mean(name: str, choices: Iterable[str]) -> str:
    """Suggest the closest choice to a misspelt name, or list all choices if none is close."""
    names = sorted(choices)
    close = [other for other in names if other.lower() == name.lower()]
    close = close or get_close_matches(name, names, n=1, cutoff=0.6)
    return f"did you mean {show(close[0])}?" if close else f"choose from {', '.join(names)}"


def check_choice(name: str, value: object, choices: Collection[str], hint: str | None = None) -> str:
    """Return `value` if it is one of `choices`, else raise `UsageError`.

    Parameters
    ----------
    name : str
        What the value is, as the user typed it: "rule", "--device".
    value : object
        The value to check.
    choices : collection of str
        The permitted values.
    hint : str, optional
        The last part of the message; by default the closest choice.

    Examples
    --------
    >>> check_choice("rule", "any", ("all", "any"))
    'any'
    """
    if isinstance(value, str) and value in choices:
        return value
    listed = [show(choice) for choice in choices]
    expected = (
        " or ".join(filter(None, [", ".join(listed[:-1]), listed[-1]])) if len(listed) <= 6 else f"a known {name}"
    )
    raise UsageError(name, expected=expected, got=show(value), hint=hint or did_you_mean(str(value), choices))


@overload
def check_range(
    name: str, value: Any, low: float = ..., high: float = ..., *, integer: Literal[True], hint: str
) -> int: ...
@overload
def check_range(
    name: str,
    value: Any,
    low: float = ...,
    high: float = ...,
    *,
    integer: Literal[False] = ...,
    inclusive: Inclusive = ...,
    hint: str,
) -> float: ...
def check_range(
    name: str,
    value: Any,
    low: float = -math.inf,
    high: float = math.inf,
    *,
    integer: bool = False,
    inclusive: Inclusive = "both",
    hint: str,
) -> float:
    """Return `value` as an int or float if it lies in a range, else raise `UsageError`.

    Parameters
    ----------
    name : str
        What the value is, as the user typed it: "level", "--resamples".
    value
        The value to check. Booleans, text, NaN and infinities are always refused.
    low, high : float
        The ends of the range.
    integer : bool
        Whether only integers are accepted (`1000.0` is one).
    inclusive : {"both", "neither", "left", "right"}
        Which ends belong to the range.
    hint : str
        The last part of the message, for example "use level=0.95".

    Examples
    --------
    >>> check_range("level", 0.9, 0, 1, inclusive="neither", hint="use level=0.95")
    0.9
    >>> check_range("resamples", 1e3, 20, integer=True, hint="use resamples=1000")
    1000
    """
    number = isinstance(value, Real) and not isinstance(value, bool)
    if number and abs(value) < math.inf:
        above = value >= low if inclusive in ("both", "left") else value > low
        below = value <= high if inclusive in ("both", "right") else value < high
        if above and below and (not integer or value == int(value)):
            return int(value) if integer else float(value)
    expected = range_text(low, high, integer=integer, inclusive=inclusive)
    raise UsageError(name, expected=expected, got=plain(str(value), 60) if number else show(value), hint=hint)


def range_text(low: float, high: float, *, integer: bool = False, inclusive: Inclusive = "both") -> str:
    """A range in words, such as "an integer from 20 to 1000"."""
    noun, at_least, at_most = "an integer" if integer else "a number", _bound(low), _bound(high)
    if math.isinf(low) and math.isinf(high):
        return noun
    if math.isinf(high):
        return f"{noun} of at least {at_least}" if inclusive in ("both", "left") else f"{noun} above {at_least}"
    if math.isinf(low):
        return f"{noun} of at most {at_most}" if inclusive in ("both", "right") else f"{noun} below {at_most}"
    return {
        "both": f"{noun} from {at_least} to {at_most}",
        "neither": f"{noun} between {at_least} and {at_most}",
        "left": f"{noun} of at least {at_least} and below {at_most}",
        "right": f"{noun} above {at_least} and at most {at_most}",
    }[inclusive]


def _bound(value: float) -> str:
    return "2^64 - 1" if value == MAX_SEED else str(value) if isinstance(value, int) else f"{value:g}"
