"""Tables: columns by name, collected into the arrays of the contract.

Without options, columns carry the names of the contract: `labels`, `ids`, `weights`, `confidence`, `correct`, `y`,
`mean`, `std`, `var`, and scores as `logits_<class>`, `log_probs_<class>` or `probs_<class>`, members as `mean_<number>`
and `std_<number>`, draws as `samples_<number>`, quantiles as `quantiles_<level>` (CSV), or as lists (JSON Lines,
Parquet, Arrow). What stands for the `*` of a pattern names the class, the member or the level.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial

import numpy as np

from calibrant.errors import FileError, UsageError, did_you_mean, show
from calibrant.predictions.files.axes import row_axis
from calibrant.predictions.files.stores import Entry, Store, of_array

SCORE_KEYS = ("logits", "log_probs", "probs")
NUMBER_KEYS = ("mean", "std", "var", "samples", "quantiles")
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
    y: str | None = None
    mean: str | None = None
    std: str | None = None
    var: str | None = None
    samples: str | None = None
    quantiles: str | None = None

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
        return any(getattr(self, key) is not None for key in (*SCORE_KEYS, *NUMBER_KEYS, "prob", "confidence"))


def collect(store: Store, options: ColumnOptions, where: str, *, all_text: bool = False) -> Store:
    """The arrays of the contract from the columns of a table; `all_text` where numbers are still written out."""
    left, made = dict(store), {}
    numbers = any(getattr(options, key) is not None for key in NUMBER_KEYS)
    for key in ("labels", "confidence", "correct", "y"):
        wanted = getattr(options, key)
        if wanted is not None:
            made["y" if numbers and key == "labels" else key] = _column(left, wanted, where)
    if options.prob is not None:
        made["probs"] = _column(left, options.prob, where)
    for key in (*SCORE_KEYS, *NUMBER_KEYS):
        pattern = getattr(options, key) or (None if options.scores() else _usual(key, left))
        if pattern is not None:
            made |= _stacked_columns(key, left, pattern, where)
    made.update({key: left.pop(key) for key in list(left) if key not in made})
    if all_text:
        made = {key: item if key in NAMES else of_array(_typed(item.load())) for key, item in made.items()}
    if "labels" in made and "classes" not in made:
        made["labels"] = made["labels"].map(_typed)
    if "correct" in made and made["correct"].shape:
        made["correct"] = made["correct"].map(lambda values: _truth(values, where))
    return made


def _usual(key: str, left: Store) -> str | None:
    """The pattern of the contract's own names, where columns follow it: `probs_cat`, `mean_0`, `quantiles_0.05`."""
    found = [name for name in left if name.startswith(f"{key}_")]
    if key in NUMBER_KEYS:
        is_level = key == "quantiles"
        found = [name for name in found if (_is_level if is_level else str.isdecimal)(name[len(key) + 1 :])]
        if key in left:
            return None
    return f"{key}_*" if found else None


def _is_level(text: str) -> bool:
    try:
        return 0.0 < float(text) < 1.0
    except ValueError:
        return False


def _stacked_columns(key: str, left: Store, pattern: str, where: str) -> Store:
    """The array of a pattern, and what its columns are named after; without a `*`, one column."""
    if "*" not in pattern and key in ("mean", "std", "var"):
        return {key: _column(left, pattern, where).map(lambda values: _numbers(values, pattern, where))}
    entries, names = _matching(left, pattern, where)
    if key in left:
        raise UsageError(
            where,
            expected=f"one meaning of {show(key)}",
            came=f"there are columns {show(key)} and {show(pattern)}",
            do="rename one of them",
        )
    axis = 0 if row_axis(key, 2) else 1
    made = {key: _stack([item.map(partial(_numbers, name=name, where=where)) for name, item in entries], axis)}
    if key == "quantiles":
        made["levels"] = of_array(_levels(names, pattern, where))
    elif key in SCORE_KEYS:
        made["classes"] = of_array(np.array(names))
    return made


def _matching(left: Store, pattern: str, where: str) -> tuple[list[tuple[str, Entry]], list[str]]:
    """The columns of a pattern, taken out of those left, and what stands for its `*`."""
    if pattern.count("*") != 1:
        raise UsageError(
            "columns",
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
    return [(name, left.pop(name)) for name in found], [name[len(head) : len(name) - len(tail)] for name in found]


def _levels(names: list[str], pattern: str, where: str) -> np.ndarray:
    odd = [name for name in names if not _is_level(name)]
    if odd:
        raise UsageError(
            f"{where}: {show(pattern)}",
            expected="levels between 0 and 1 where the '*' stands",
            came=f"got {show(odd[0])}",
            do="name the columns after their levels, such as q_0.05",
        )
    return np.array([float(name) for name in names])


def _stack(columns: list[Entry], axis: int) -> Entry:
    """Columns beside each other as one array; on axis 0 they are members or draws."""
    n = columns[0].shape[:1]
    shape = (len(columns), *n) if axis == 0 else (*n, len(columns))

    def blocks(rows_axis: int, rows: int) -> Iterator[np.ndarray]:
        del rows_axis
        for parts in zip(*(column.blocks(0, rows) for column in columns), strict=True):
            yield np.stack(parts, axis=axis)

    nbytes = 8 * len(columns) * math.prod(n)
    return Entry(shape, nbytes, lambda: np.stack([column.load() for column in columns], axis=axis), blocks)


def are_names(labels: np.ndarray, classes: np.ndarray) -> bool:
    """In a table whose columns name the classes a label is a name first: 1 … 3 under columns p_1 … p_3 are those."""
    return labels.dtype.kind in "iuU" and bool(np.isin(labels.astype(np.str_), classes).all())


def as_named(labels: np.ndarray, named: bool) -> np.ndarray:
    """Labels as names of classes, or as numbers that count from 0."""
    return labels.astype(np.str_) if named else _typed(labels)


def _column(left: Store, name: str, where: str) -> Entry:
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
