"""Where what was refused lies, said before it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from calibrant.errors import FileError, InputError


@contextmanager
def naming(origin: str) -> Iterator[None]:
    """Say where what was refused lies."""
    try:
        yield
    except InputError as error:
        if not origin or isinstance(error, FileError):
            raise
        place = f"{origin}: {error.subject}"
        raise type(error)(place, expected=error.expected, came=error.came, do=error.do) from error
