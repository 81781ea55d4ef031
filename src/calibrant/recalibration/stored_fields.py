"""What a file may hold where a number, a text or an array is expected.

What is refused is a ValueError, or an OverflowError where a number is too large.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from calibrant.errors import CalibrantError, show

UNREADABLE = (
    CalibrantError, OSError, ValueError, LookupError, ArithmeticError, TypeError, AttributeError, RecursionError
)  # fmt: skip
"""What reading may end in when a file is not what it should be."""


def number(value: Any, name: str) -> float:
    """A finite number; true and false are none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name} is {show(value)}, not a number")
    return float(value)


def whole(value: Any, name: str, at_least: int = 0) -> int:
    """A whole number that is not too small."""
    if type(value) is not int or value < at_least:
        raise ValueError(f"{name} is {show(value)}, not a whole number from {at_least}")
    return value


def truth(value: Any, name: str) -> bool:
    """True or false."""
    if type(value) is not bool:
        raise ValueError(f"{name} is {show(value)}, not true or false")
    return value


def text(value: Any, name: str) -> str:
    """A text."""
    if type(value) is not str:
        raise ValueError(f"{name} is {show(value)}, not a text")
    return value


def array(value: Any, name: str) -> np.ndarray:
    """Finite numbers in float64, from nested lists or from an array; true and false are none."""
    if isinstance(value, list):
        kinds = set(map(type, np.asarray(value, object).ravel()))
        known = kinds <= {int, float}
    else:
        known = isinstance(value, np.ndarray) and value.dtype.kind in "iuf"
    made = np.asarray(value, np.float64) if known else None
    if made is None or not np.isfinite(made).all():
        raise ValueError(f"{name} is no array of numbers")
    return made


def texts(value: Any, name: str, count: int | None = None) -> tuple[str, ...]:
    """A list of texts, of a number that is given."""
    if not isinstance(value, list | tuple):
        raise ValueError(f"{name} is {show(value)}, not a list")
    if count is not None and len(value) != count:
        raise ValueError(f"{name} has {len(value)} entries, not {count}")
    return tuple(text(each, name) for each in value)


KINDS: dict[Any, Callable[[Any, str], Any]] = {
    float: number,
    int: whole,
    bool: truth,
    str: text,
    np.ndarray: array,
}
KINDS |= {"np.ndarray": array} | {kind.__name__: check for kind, check in KINDS.items()}
"""How fields are checked, by their annotation, which is a text or a class."""
