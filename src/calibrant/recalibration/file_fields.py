"""Validate the fields of saved files; anything invalid is a ValueError, or an OverflowError for too large a number."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from calibrant.errors import CalibrantError, FileError, plain, show
from calibrant.predictions.files.numpy_files import open_npz

T = TypeVar("T")


def parse_number(value: Any, name: str) -> float:
    """A finite number; booleans are refused."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name} is {show(value)}, not a number")
    return float(value)


def parse_integer(value: Any, name: str, at_least: int = 0) -> int:
    """An integer that is not too small."""
    if type(value) is not int or value < at_least:
        raise ValueError(f"{name} is {show(value)}, not an integer from {at_least}")
    return value


def parse_bool(value: Any, name: str) -> bool:
    """True or false."""
    if type(value) is not bool:
        raise ValueError(f"{name} is {show(value)}, not true or false")
    return value


def parse_string(value: Any, name: str) -> str:
    """A string."""
    if type(value) is not str:
        raise ValueError(f"{name} is {show(value)}, not a string")
    return value


def parse_array(value: Any, name: str) -> np.ndarray:
    """Finite numbers in float64, from nested lists or an array; booleans are refused."""
    if isinstance(value, list):
        numeric = set(map(type, np.asarray(value, object).ravel())) <= {int, float}
    else:
        numeric = isinstance(value, np.ndarray) and value.dtype.kind in "iuf"
    array = np.asarray(value, np.float64) if numeric else None
    if array is None or not np.isfinite(array).all():
        raise ValueError(f"{name} is not an array of finite numbers")
    return array


def parse_strings(value: Any, name: str, count: int | None = None) -> tuple[str, ...]:
    """A list of strings, of length `count` if that is given."""
    if not isinstance(value, list | tuple):
        raise ValueError(f"{name} is {show(value)}, not a list")
    if count is not None and len(value) != count:
        raise ValueError(f"{name} has {len(value)} entries, not {count}")
    return tuple(parse_string(each, name) for each in value)


PARSERS: dict[Any, Callable[[Any, str], Any]] = {
    float: parse_number,
    int: parse_integer,
    bool: parse_bool,
    str: parse_string,
    np.ndarray: parse_array,
}
PARSERS |= {"np.ndarray": parse_array} | {kind.__name__: parse for kind, parse in PARSERS.items()}
PARSERS |= {"float | None": parse_number, "tuple[str, ...]": parse_strings}
"""The validator of a field by its annotation, a class or its name."""


def read_fitted(path: str | Path, from_json: Callable[[Any], T], what: str, hint: str) -> T:
    """Read a .json file, or a .npz file whose arrays are kept apart; any other content is refused in one line."""
    path = Path(path)
    try:
        if path.suffix.lower() != ".npz":
            return from_json(json.loads(path.read_text(encoding="utf-8")))
        with path.open("rb") as stream:
            return from_json({name: entry.load() for name, entry in open_npz(path, stream).items()})
    except FileError:
        raise
    except (
        CalibrantError, OSError, ValueError, LookupError, ArithmeticError, TypeError, AttributeError, RecursionError
    ) as error:  # fmt: skip
        reason = getattr(error, "strerror", None) or f"{type(error).__name__} {error}"
        raise FileError(
            str(path), expected=what, got=f"a file that cannot be read as one ({plain(reason, 120)})", hint=hint
        ) from error
