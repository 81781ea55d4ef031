"""What is known of a few rows beside their predictions: ids and columns, as JSON can carry them.

Text is plain and at most 200 characters long, since it may hold anything. Of an input in files these rows are looked up
when all have gone by, block by block; what cannot be read is left out, and of more than `MOST_KEPT` rows nothing is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from calibrant.errors import plain
from calibrant.evaluation.choosing import MOST_KEPT, Input
from calibrant.predictions.files.stream import Stream

MOST_COLUMNS = 12
LONGEST = 200
LARGEST = 1 << 53
"""Whole numbers beyond it are written as text: not every reader of JSON keeps their digits."""


def beside(source: Input, rows: np.ndarray, first: Iterable[str]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """The id and the columns of each row, rising; at most `MOST_COLUMNS`, those named `first` before others."""
    names = list(dict.fromkeys([*(name for name in first if name in source.columns), *source.columns]))[:MOST_COLUMNS]
    found = _picked(source, ["ids", *names], rows)
    ids = found.pop("ids", None)
    out = []
    for place in range(len(rows)):
        columns = {plain(name, LONGEST): as_json(values[place]) for name, values in found.items()}
        known = {} if ids is None else {"id": as_json(ids[place])}
        out.append((known, {"columns": columns} if columns else {}))
    return out


def _picked(source: Input, names: list[str], rows: np.ndarray) -> dict[str, np.ndarray]:
    if isinstance(source, Stream):
        return source.picked(names, rows) if source.n <= MOST_KEPT else {}
    known = {**source.columns, **({} if source.info.ids is None else {"ids": source.info.ids})}
    return {name: known[name][rows] for name in names if name in known}


def as_json(value: Any) -> Any:
    """A value of any type as JSON can carry it: a number, a truth value, null, or plain text."""
    if value is None or isinstance(value, bool | np.bool_):
        return None if value is None else bool(value)
    if isinstance(value, int | np.integer) and not isinstance(value, np.timedelta64):
        return int(value) if abs(int(value)) <= LARGEST else str(value)
    if isinstance(value, float | np.floating):
        number = float(str(value)) if getattr(value, "itemsize", 8) < 8 else float(value)  # 0.1 in any precision
        return number if math.isfinite(number) else str(number)
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    return plain(text, LONGEST)
