"""Reading back what was written as JSON: whole, or one line that says what is wrong with it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from calibrant.errors import FileError, plain

Made = TypeVar("Made")


def read_stored(path: str | Path, make: Callable[[Any], Made], *, expected: str, do: str) -> Made:
    """What `make` makes of a file's JSON; a file that it cannot be made of is refused."""
    path = Path(path)
    try:
        return make(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or f"{type(error).__name__} {error}"
        came = f"it cannot be read ({plain(reason, 100)})"
        raise FileError(str(path), expected=expected, came=came, do=do) from error
