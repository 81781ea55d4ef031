"""Where what was refused lies, said before it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from calibrant.errors import FileError, InputError, UsageError


@contextmanager
def naming(origin: str, first: int = 0) -> Iterator[None]:
    """Say where what was refused lies; `first` is the row of that place from which the rows in it are counted."""
    try:
        yield
    except (InputError, UsageError) as error:
        if not origin or isinstance(error, FileError):
            raise
        place = f"{origin}: {error.subject}"
        came = re.sub(r"\brow (\d+)", lambda row: f"row {first + int(row[1])}", error.came, count=1)
        raise type(error)(place, expected=error.expected, came=came, do=error.do) from error
