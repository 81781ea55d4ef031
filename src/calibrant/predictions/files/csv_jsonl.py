"""CSV, JSON Lines, and JSON with columns and data: text tables with one array per column."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.errors import FileError, plain, show
from calibrant.predictions.arrays import RESERVED, SCORE_KEYS, row_axis
from calibrant.predictions.files.binary import check_size, report_unreadable


def read_csv(path: Path) -> dict[str, np.ndarray]:
    """The columns of a CSV file, as text."""
    with path.open(newline="", encoding="utf-8-sig") as stream:
        rows = csv.reader(stream, strict=True)
        try:
            header = next(rows, None)
            numbered = [(rows.line_num, row) for row in rows if row]
            fields = [row for _, row in numbered]
        except (csv.Error, UnicodeDecodeError) as error:
            raise _bad(path, "a CSV table in UTF-8", plain(str(error), 100)) from error
    if not header or not fields:
        raise _bad(path, "a header line and at least one row", "none")
    if len(header) == 1 and any(separator in header[0] for separator in ";\t|"):
        raise _bad(path, "fields separated by commas", f"the header {show(header[0])}")
    if len(set(header)) < len(header):
        repeated = next(name for name in header if header.count(name) > 1)
        raise _bad(path, "distinct column names", f"{show(repeated)} twice")
    for number, row in numbered:
        if len(row) != len(header):
            raise _bad(path, f"{len(header)} fields in every line", f"{len(row)} in line {number}")
    return {name: np.array([row[k] for row in fields]) for k, name in enumerate(header)}


def read_jsonl(path: Path, rename: Mapping[str, str] | None = None) -> dict[str, np.ndarray]:
    """The keys of a JSON Lines file, one array each; every line has the same keys.

    rename: {"samples": "draws"}, where the file uses another name for a key of the format.
    """
    records: list[dict[str, Any]] = []
    with path.open(encoding="utf-8-sig") as stream:
        try:
            for number, line in enumerate(stream, start=1):
                if line.strip():
                    records.append(_record(path, number, line))
        except UnicodeDecodeError as error:
            raise _bad(path, "JSON lines in UTF-8", plain(str(error), 100)) from error
    return _columns_of(path, records, rename)


def read_json_table(path: Path, names: Mapping[str, str] | None = None) -> dict[str, np.ndarray]:
    """The columns of a JSON file with the keys `columns`, their names, and `data`, a list of rows.

    names: as `rename` of `read_jsonl`.
    """
    check_size(path.stat().st_size, str(path))
    with report_unreadable(path, "a JSON file", "write it again"):
        content = json.loads(path.read_bytes())
    keys, rows = (content.get("columns"), content.get("data")) if isinstance(content, dict) else (None, None)
    if not isinstance(keys, list) or not isinstance(rows, list) or len(set(map(str, keys))) < len(keys):
        hint = "write JSON lines, one object per row, to a .jsonl file"
        expected = "the key 'columns' with distinct names and the key 'data' with rows"
        raise FileError(str(path), expected=expected, got="other content", hint=hint)
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, list) or len(row) != len(keys):
            got = f"{len(row) if isinstance(row, list) else type(row).__name__} in row {number}"
            raise _bad(path, f"{len(keys)} values in every row of 'data'", got)
    records = [dict(zip(map(str, keys), row, strict=True)) for row in rows]
    return _columns_of(path, records, names)


def _columns_of(path: Path, records: list[dict[str, Any]], rename: Mapping[str, str] | None) -> dict[str, np.ndarray]:
    """One array per key; every record has the same keys."""
    if not records:
        raise _bad(path, "at least one line", "none")
    keys = records[0].keys()
    for number, record in enumerate(records, start=1):
        if record.keys() != keys:
            odd = sorted(set(record) ^ set(keys))[0]
            got = f"record {number} {'without' if odd in keys else 'with'} {show(odd)}"
            raise _bad(path, "the same keys in every line", got)
    key_of = {name: key for key, name in (rename or {}).items()}
    arrays: dict[str, np.ndarray] = {}
    for name in (name for name in keys if key_of.get(name, name) in (*SCORE_KEYS, "quantiles")):
        if not any(_is_named(record[name]) for record in records):
            continue
        names = _unfold(path, records, name)
        if key_of.get(name, name) != "quantiles":
            arrays["classes"] = np.array(names)
            continue
        try:
            arrays["levels"] = np.array([float(level) for level in names])
        except ValueError as error:
            raise _bad(path, "levels as keys of the quantiles", ", ".join(map(show, names))) from error
    for key in arrays:
        if key in (key_of.get(name, name) for name in keys):
            raise _bad(path, f"{show(key)} once", "both an array and the keys of the scores")
    for name in keys:
        key = key_of.get(name, name)
        try:
            arrays[name] = _stack(path, name, key, [record[name] for record in records])
        except FileError:
            if key in RESERVED:
                raise
            arrays[name] = np.zeros(())  # not a column: ignored, with a note
    return arrays


def _record(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _bad(path, "a JSON object in every line", f"line {number}: {plain(str(error), 60)}") from error
    if not isinstance(record, dict):
        raise _bad(path, "a JSON object in every line", f"line {number}: {show(line.strip())}")
    return record


def _unfold(path: Path, records: list[dict[str, Any]], key: str) -> list[str]:
    """Replace objects {name: number} under `key` by lists of the numbers; returns the names."""
    names: list[str] = []
    for number, record in enumerate(records, start=1):
        parts = record[key] if isinstance(record[key], list) else [record[key]]
        names = names or next((list(part) for part in parts if isinstance(part, dict)), [])
        if any(not isinstance(part, dict) or part.keys() != set(names) for part in parts):
            raise _bad(path, f"the same names under {show(key)} in every line", f"others in record {number}")
        lists = [[part[name] for name in names] for part in parts]
        record[key] = lists if isinstance(record[key], list) else lists[0]
    return names


def _is_named(scores: Any) -> bool:
    return isinstance(scores, dict) or (isinstance(scores, list) and any(isinstance(part, dict) for part in scores))


def _stack(path: Path, name: str, key: str, items: list[Any]) -> np.ndarray:
    """One array of all rows; members, second in the file, are moved first."""
    optional = key == "confidence" or key not in RESERVED
    if optional and any(item is None for item in items) and all(item is None or _is_number(item) for item in items):
        items = [np.nan if item is None else item for item in items]
    try:
        array = np.array(items)
    except (ValueError, OverflowError) as error:
        raise _bad(path, f"{show(name)} of one shape in every line", "lists of different lengths") from error
    if array.dtype == object:
        got = show(next((item for item in items if not isinstance(item, (int, float))), items[0]))
        raise _bad(path, f"numbers, text or equally long lists under {show(name)}", got)
    members_second = array.ndim == 3 or row_axis(key, array.ndim) == 1
    return np.ascontiguousarray(np.moveaxis(array, 1, 0)) if members_second else array


def _is_number(item: Any) -> bool:
    return isinstance(item, int | float) and not isinstance(item, bool)


def _bad(path: Path, expected: str, got: str) -> FileError:
    return FileError(str(path), expected=expected, got=got, hint="fix the file, or write it with calibrant.write")
