"""CSV and JSON Lines: columns by name, collected into the arrays of the contract.

Without options, columns carry the names of the contract: `labels`, `ids`, `weights`, `confidence`, `correct`, and
scores as `logits_<class>`, `log_probs_<class>` or `probs_<class>` (CSV) or as lists (JSON Lines). What stands for the
`*` of a pattern names the class.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.errors import FileError, UsageError, did_you_mean, plain, show
from calibrant.predictions.base import RESERVED

SCORE_KEYS = ("logits", "log_probs", "probs")
NAMES = ("labels", "classes", "member_names", "meta")
TRUE, FALSE = {"1", "true", "yes", "t"}, {"0", "false", "no", "f"}


@dataclass(frozen=True)
class ColumnOptions:
    """Which columns of a table hold what; patterns with one `*` for scores."""

    labels: str | None = None
    logits: str | None = None
    log_probs: str | None = None
    probs: str | None = None
    prob: str | None = None
    confidence: str | None = None
    correct: str | None = None

    @classmethod
    def of(cls, columns: Mapping[str, str]) -> ColumnOptions:
        """From a mapping of these names."""
        known = list(cls.__dataclass_fields__)
        for key in columns:
            if key not in known:
                raise UsageError(
                    "columns", expected=", ".join(known), came=f"got {show(key)}", do=did_you_mean(key, known)
                )
        return cls(**columns)

    def any(self) -> bool:
        """Whether any is set."""
        return any(value is not None for value in vars(self).values())

    def scores(self) -> bool:
        """Whether the columns of the predictions themselves are named."""
        return any(getattr(self, key) is not None for key in (*SCORE_KEYS, "prob", "confidence"))


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
    if len(set(header)) < len(header):
        raise _bad(path, "distinct column names", f"{show(_repeated(header))} stands twice")
    for number, row in enumerate(fields, start=2):
        if len(row) != len(header):
            came = f"row {number} has {len(row)}"
            raise _bad(path, f"{len(header)} fields in every row", came)
    return {name: np.array([row[k] for row in fields]) for k, name in enumerate(header)}


def read_jsonl(path: Path) -> dict[str, np.ndarray]:
    """The keys of a JSON Lines file, one array each; every line has the same keys."""
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
    classes = _unfold_named_scores(path, records)
    arrays = {key: _stacked_or_misfit(path, key, [record[key] for record in records]) for key in keys}
    return arrays | ({"classes": np.array(classes)} if classes else {})


def collect(
    columns: dict[str, np.ndarray], options: ColumnOptions, where: str, *, all_text: bool = False
) -> dict[str, np.ndarray]:
    """The arrays of the contract from the columns of a table; `all_text` where numbers are still written out."""
    left = dict(columns)
    arrays: dict[str, np.ndarray] = {}
    for key in ("labels", "confidence", "correct"):
        wanted = getattr(options, key)
        if wanted is not None:
            arrays[key] = _column(left, wanted, where)
    if options.prob is not None:
        arrays["probs"] = _column(left, options.prob, where)
    for key in SCORE_KEYS:
        pattern = getattr(options, key) or (None if options.scores() else f"{key}_*")
        if pattern is not None and (options.scores() or any(fnmatchcase(c, pattern) for c in left)):
            scores, names = _scores(left, pattern, where)
            if key in left:
                raise UsageError(
                    where,
                    expected=f"one meaning of {show(key)}",
                    came=f"there are columns {show(key)} and {show(pattern)}",
                    do="rename one of them",
                )
            arrays[key] = scores
            arrays.setdefault("classes", names)
    arrays.update({key: left.pop(key) for key in list(left) if key not in arrays})
    arrays = _labels_as_classes(arrays)
    if all_text:
        arrays = {key: array if key in NAMES else _typed(array) for key, array in arrays.items()}
    if "correct" in arrays:
        arrays["correct"] = _truth(arrays["correct"], where)
    return arrays


def _scores(left: dict[str, np.ndarray], pattern: str, where: str) -> tuple[np.ndarray, np.ndarray]:
    if pattern.count("*") != 1:
        raise UsageError(
            "score columns",
            expected="a pattern with one '*', such as 'p_*'",
            came=f"got {show(pattern)}",
            do="use --prob for the single column of a binary problem",
        )
    found = [name for name in left if fnmatchcase(name, pattern)]
    if not found:
        raise UsageError(
            f"{where}: {show(pattern)}",
            expected="at least one such column",
            came=f"the columns are {', '.join(map(show, left))}",
            do="mend the pattern",
        )
    head, tail = pattern.split("*")
    values = np.stack([_numbers(left.pop(name), name, where) for name in found], axis=1)
    return values, np.array([name[len(head) : len(name) - len(tail)] for name in found])


def _labels_as_classes(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """In a table a label is a name first: 1 … 3 under columns p_1 … p_3 are those; else it counts from 0."""
    labels, names = arrays.get("labels"), arrays.get("classes")
    if labels is None or labels.dtype.kind not in "iuU":
        return arrays
    as_text = labels.astype(np.str_)
    known = names is not None and np.isin(as_text, names).all()
    return arrays | {"labels": as_text if known else _typed(labels)}


def _column(left: dict[str, np.ndarray], name: str, where: str) -> np.ndarray:
    if name not in left:
        hint = did_you_mean(name, left)
        raise UsageError(where, expected=f"a column {show(name)}", came="there is none", do=hint)
    return left.pop(name)


def _truth(values: np.ndarray, where: str) -> np.ndarray:
    """Right or wrong as booleans: 0/1, true/false, yes/no."""
    if values.dtype.kind != "U":
        return values
    lower = np.char.lower(values)
    odd = ~np.isin(lower, list(TRUE | FALSE))
    if odd.any():
        raise FileError(
            f"{where}: correct",
            expected="0/1, true/false or yes/no",
            came=f"row {int(np.argmax(odd))} is {show(values[odd][0])}",
            do="judge each answer right or wrong",
        )
    return np.isin(lower, list(TRUE))


def _numbers(values: np.ndarray, name: str, where: str) -> np.ndarray:
    values = _typed(values)
    if values.dtype.kind not in "iuf" or values.ndim != 1:
        raise FileError(
            f"{where}: column {show(name)}",
            expected="numbers, one a row",
            came=f"it holds {show(values[0]) if values.dtype.kind != 'U' else show(_first_text(values))}",
            do="repair the column, or leave it out of the pattern",
        )
    return values.astype(np.float64)


def _first_text(values: np.ndarray) -> str:
    for item in values.tolist():
        try:
            float(item)
        except ValueError:
            return str(item)
    return str(values[0])


def _typed(fields: np.ndarray) -> np.ndarray:
    """Whole numbers, numbers, or text: whatever every field of a column of text is."""
    if fields.dtype.kind != "U" or fields.ndim != 1:
        return fields
    for kind in (np.int64, np.float64):
        try:
            return np.array([kind(field) for field in fields])
        except (ValueError, OverflowError):
            continue
    return fields


def _record(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _bad(path, "a JSON object in every line", f"line {number} is not ({plain(str(error), 60)})") from error
    if not isinstance(record, dict):
        raise _bad(path, "a JSON object in every line", f"line {number} is {show(line.strip())}")
    return record


def _unfold_named_scores(path: Path, records: list[dict[str, Any]]) -> list[str]:
    """Scores written as {class: number} (a list of such for members) become lists; the names of the classes."""
    names: list[str] = []
    for key in (key for key in SCORE_KEYS if key in records[0]):
        if not any(_is_named(record[key]) for record in records):
            continue
        for number, record in enumerate(records, start=1):
            parts = record[key] if isinstance(record[key], list) else [record[key]]
            names = names or next((list(part) for part in parts if isinstance(part, dict)), [])
            if any(not isinstance(part, dict) or part.keys() != set(names) for part in parts):
                came = f"record {number} differs"
                raise _bad(path, f"the same classes under {show(key)} in every line", came)
            lists = [[part[name] for name in names] for part in parts]
            record[key] = lists if isinstance(record[key], list) else lists[0]
    return names


def _is_named(scores: Any) -> bool:
    return isinstance(scores, dict) or (isinstance(scores, list) and any(isinstance(part, dict) for part in scores))


def _stacked_or_misfit(path: Path, key: str, items: list[Any]) -> np.ndarray:
    """As `_stacked`; a key without a meaning that is no column becomes a misfit, which is ignored with a note."""
    try:
        return _stacked(path, key, items)
    except FileError:
        if key in RESERVED:
            raise
        return np.zeros(())


def _stacked(path: Path, key: str, items: list[Any]) -> np.ndarray:
    """One array of all rows; members, which stand inside a row here, come first."""
    try:
        array = np.array(items)
    except (ValueError, OverflowError) as error:
        raise _bad(path, f"{show(key)} of one shape in every line", "its lengths differ") from error
    if array.dtype == object:
        came = f"it holds {show(next((i for i in items if not isinstance(i, (int, float))), items[0]))}"
        raise _bad(path, f"numbers, text or equally long lists under {show(key)}", came)
    members_second = array.ndim == 3 or (key == "confidence" and array.ndim == 2)
    return np.ascontiguousarray(np.moveaxis(array, 1, 0)) if members_second else array


def _repeated(names: list[str]) -> str:
    return next(name for name in names if names.count(name) > 1)


def _bad(path: Path, expected: str, came: str) -> FileError:
    return FileError(str(path), expected=expected, came=came, do="repair the file and try again")
