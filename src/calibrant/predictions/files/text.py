"""CSV and JSON Lines: a table in text, one array for each column."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.errors import FileError, plain, show
from calibrant.predictions.base import RESERVED
from calibrant.predictions.files.axes import row_axis
from calibrant.predictions.files.tables import SCORE_KEYS


def read_csv(path: Path) -> dict[str, np.ndarray]:
    """The columns of a CSV file, as text."""
    with path.open(newline="", encoding="utf-8-sig") as stream:
        rows = csv.reader(stream, strict=True)
        try:
            header = next(rows, None)
            fields = [row for row in rows if row]
        except (csv.Error, UnicodeDecodeError) as error:
            raise _bad(path, "a CSV table in UTF-8", plain(str(error), 100)) from error
    if not header or not fields:
        raise _bad(path, "a header line and at least one row", "it has none")
    mark = next((mark for mark in (";", "\t", "|") if len(header) == 1 and mark in header[0]), None)
    if mark:
        raise _bad(path, "fields that are separated by commas", f"the header is {show(header[0])}")
    if len(set(header)) < len(header):
        raise _bad(path, "distinct column names", f"{show(_repeated(header))} stands twice")
    for number, row in enumerate(fields, start=2):
        if len(row) != len(header):
            came = f"row {number} has {len(row)}"
            raise _bad(path, f"{len(header)} fields in every row", came)
    return {name: np.array([row[k] for row in fields]) for k, name in enumerate(header)}


def read_jsonl(path: Path, meant: Mapping[str, str] | None = None) -> dict[str, np.ndarray]:
    """The keys of a JSON Lines file, one array each; every line has the same keys.

    meant: {"samples": "draws"}, where a name in the file stands for a key of the contract.
    """
    records: list[dict[str, Any]] = []
    with path.open(encoding="utf-8-sig") as stream:
        try:
            for number, line in enumerate(stream, start=1):
                if line.strip():
                    records.append(_record(path, number, line))
        except UnicodeDecodeError as error:
            raise _bad(path, "JSON lines in UTF-8", plain(str(error), 100)) from error
    if not records:
        raise _bad(path, "at least one line", "it has none")
    keys = records[0].keys()
    for number, record in enumerate(records, start=1):
        if record.keys() != keys:
            odd = sorted(set(record) ^ set(keys))[0]
            raise _bad(path, "the same keys in every line", f"record {number} differs in {show(odd)}")
    meaning = {name: key for key, name in (meant or {}).items()}
    named = _unfold_named_scores(path, records, meaning)
    for key in named:
        if key in (meaning.get(name, name) for name in keys):
            raise _bad(path, f"{show(key)} once", "they stand beside the scores and as names of them")
    return named | {
        key: _stacked_or_misfit(path, key, meaning.get(key, key), [record[key] for record in records]) for key in keys
    }


def _record(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _bad(path, "a JSON object in every line", f"line {number} is not ({plain(str(error), 60)})") from error
    if not isinstance(record, dict):
        raise _bad(path, "a JSON object in every line", f"line {number} is {show(line.strip())}")
    return record


def _unfold_named_scores(
    path: Path, records: list[dict[str, Any]], meaning: Mapping[str, str]
) -> dict[str, np.ndarray]:
    """Scores written as {class: number} (a list of such for members), and quantiles as {level: number}, become lists.

    Returns the names of the classes, and the levels.
    """
    found: dict[str, np.ndarray] = {}
    for key in (key for key in records[0] if meaning.get(key, key) in (*SCORE_KEYS, "quantiles")):
        if not any(_is_named(record[key]) for record in records):
            continue
        names = _unfold(path, records, key)
        if meaning.get(key, key) != "quantiles":
            found["classes"] = np.array(names)
            continue
        try:
            found["levels"] = np.array([float(name) for name in names])
        except ValueError as error:
            raise _bad(path, "levels as names of the quantiles", f"they are {', '.join(map(show, names))}") from error
    return found


def _unfold(path: Path, records: list[dict[str, Any]], key: str) -> list[str]:
    """Make lists of the numbers under `key` in every record; the names that they had."""
    names: list[str] = []
    for number, record in enumerate(records, start=1):
        parts = record[key] if isinstance(record[key], list) else [record[key]]
        names = names or next((list(part) for part in parts if isinstance(part, dict)), [])
        if any(not isinstance(part, dict) or part.keys() != set(names) for part in parts):
            came = f"record {number} differs"
            raise _bad(path, f"the same names under {show(key)} in every line", came)
        lists = [[part[name] for name in names] for part in parts]
        record[key] = lists if isinstance(record[key], list) else lists[0]
    return names


def _is_named(scores: Any) -> bool:
    return isinstance(scores, dict) or (isinstance(scores, list) and any(isinstance(part, dict) for part in scores))


def _stacked_or_misfit(path: Path, key: str, meaning: str, items: list[Any]) -> np.ndarray:
    """As `_stacked`; a key without a meaning that is no column becomes a misfit, which is ignored with a note."""
    try:
        return _stacked(path, key, meaning, items)
    except FileError:
        if meaning in RESERVED:
            raise
        return np.zeros(())


def _stacked(path: Path, key: str, meaning: str, items: list[Any]) -> np.ndarray:
    """One array of all rows; members, which stand inside a row here, come first."""
    try:
        array = np.array(items)
    except (ValueError, OverflowError) as error:
        raise _bad(path, f"{show(key)} of one shape in every line", "its lengths differ") from error
    if array.dtype == object:
        came = f"it holds {show(next((i for i in items if not isinstance(i, (int, float))), items[0]))}"
        raise _bad(path, f"numbers, text or equally long lists under {show(key)}", came)
    members_second = array.ndim == 3 or row_axis(meaning, array.ndim) == 1
    return np.ascontiguousarray(np.moveaxis(array, 1, 0)) if members_second else array


def _repeated(names: list[str]) -> str:
    return next(name for name in names if names.count(name) > 1)


def _bad(path: Path, expected: str, came: str) -> FileError:
    return FileError(str(path), expected=expected, came=came, do="repair the file and try again")
