"""Tables: columns by name, collected into the arrays of the file format.

Without options, columns have the names of the format: `labels`, `ids`, `weights`, `confidence`, `correct`, `y`, `mean`,
`std`, `var`, and scores as `logits_<class>`, `log_probs_<class>` or `probs_<class>`, members as `mean_<number>` and
`std_<number>`, draws as `samples_<number>`, quantiles as `quantiles_<level>` (CSV), or as lists (JSON Lines, Parquet,
Arrow). The text at the `*` of a pattern names the class, the member or the level.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from calibrant.errors import FileError, UsageError, did_you_mean, show
from calibrant.predictions.arrays import NUMBER_KEYS, SCORE_KEYS, row_axis
from calibrant.predictions.files.binary import LazyArray, LazyArrays
from calibrant.records import Record

SPREAD = ("mean", "std", "var")
NUMERIC = ("y", "weights", "confidence", *NUMBER_KEYS)
NAMES = ("labels", "classes", "member_names", "meta")
READING = (
    "scorer",
    "filter",
    "split",
    "partial",
    "confidence_scale",
    "drop_missing",
    "vote_share",
    "classes",
    "positive",
)
"""Options that name no column."""
TRUE, FALSE = {"1", "true", "yes", "t"}, {"0", "false", "no", "f"}


@dataclass(frozen=True, repr=False)
class ColumnOptions(Record):
    """The columns of a table, or the fields of a log, that hold each array; patterns with one `*` for scores."""

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
    scorer: str | None = None
    """Logs: the score that grades the answers."""
    filter: str | None = None
    """Logs of lm-evaluation-harness: the filter of the answers."""
    split: str | None = None
    """Runs of HELM: the split."""
    partial: str | None = None
    """Logs: what a grade between right and wrong counts as: wrong, right or drop."""
    confidence_scale: str | None = None
    """The number that confidences are divided by: 100 for percent."""
    drop_missing: bool = False
    """Whether rows without a usable confidence are dropped, and counted."""

    classes: str | None = None
    """Class names in the order of the scores, separated by commas."""
    positive: str | None = None
    """The label that the probability of a binary problem is of."""
    vote_share: str | None = None
    """The column of answers, whose share among the samples of a question becomes the confidence."""

    @classmethod
    def of(cls, columns: Mapping[str, Any]) -> ColumnOptions:
        """From a mapping; unknown keys raise `UsageError`."""
        known = list(cls.__dataclass_fields__)
        for key in columns:
            if key not in known:
                raise UsageError("columns", expected=", ".join(known), got=show(key), hint=did_you_mean(key, known))
        scale = columns.get("confidence_scale")
        return cls(**columns) if scale is None else cls(**{**columns, "confidence_scale": str(scale)})

    def names_columns(self) -> bool:
        """Whether any option names a column."""
        return any(getattr(self, key) is not None for key in self.__dataclass_fields__ if key not in READING)

    def scores(self) -> bool:
        """Whether an option names columns of predictions."""
        return any(getattr(self, key) is not None for key in (*SCORE_KEYS, *NUMBER_KEYS, "prob", "confidence"))

    def single(self) -> dict[str, str]:
        """The options without a pattern, by key."""
        names = {key: getattr(self, key) for key in self.__dataclass_fields__ if key not in READING}
        return {key: name for key, name in names.items() if name is not None and "*" not in name}


def collect(
    store: LazyArrays, options: ColumnOptions, where: str, *, all_text: bool = False, loaded: bool = False
) -> LazyArrays:
    """The arrays of the format from the columns of a table.

    all_text: all values are still text (CSV). loaded: the columns are in memory and are validated as a whole.
    """
    options = _forgiving(store, options)
    left, arrays = dict(store), {}
    named = {key: name for key in ("labels", "confidence", "correct", "y") if (name := getattr(options, key))}
    if options.prob is not None:
        named["probs"] = options.prob
    if "labels" in named and any(getattr(options, key) is not None for key in NUMBER_KEYS):
        if "y" in named:
            got, hint = f"{show(named['labels'])} and {show(named['y'])}", "leave --labels out"
            raise UsageError(where, expected="--y or --labels for regression", got=got, hint=hint)
        named["y"] = named.pop("labels")
    for key, name in named.items():
        arrays[key] = _column(left, name, where, store)
    arrays |= _arrays_of_several_columns(left, options, where, store)
    _name_classes(arrays, left, options, where)
    arrays.update({key: left.pop(key) for key in list(left) if key not in arrays})
    if all_text:
        parsed = {key: LazyArray.from_array(_parse(item.load())) for key, item in arrays.items() if key not in NAMES}
        arrays = {key: parsed.get(key, item) for key, item in arrays.items()}
    lenient = options.drop_missing or options.confidence_scale is not None  # confidences are parsed row by row
    for key in (key for key in NUMERIC if key in arrays and not (lenient and key == "confidence")):
        check = partial(_check_numeric, key=key, where=where)
        arrays[key] = arrays[key].map_whole(check) if loaded else arrays[key].map(check)
    if "levels" in arrays and len(arrays["levels"].shape) == 2:
        levels = arrays["levels"].load()
        differs = (levels != levels[0]).any(axis=1)
        if differs.any():
            got, hint = (
                f"others in row {int(differs.argmax())}",
                "predict the same levels in every row, or split the file",
            )
            raise FileError(f"{where}: levels", expected="the same levels in every row", got=got, hint=hint)
        arrays["levels"] = LazyArray.from_array(levels[0])
    if "labels" in arrays and "classes" not in arrays:
        arrays["labels"] = arrays["labels"].map(_parse)
    if "correct" in arrays and arrays["correct"].shape:
        arrays["correct"] = arrays["correct"].map(lambda values: _parse_booleans(values, where))
    return arrays


def _forgiving(store: LazyArrays, options: ColumnOptions) -> ColumnOptions:
    """`prob` with a pattern or several columns is `probs`, and `probs` with one column of numbers is `prob`."""
    prob, probs = options.prob, options.probs
    if prob is not None and probs is None and prob not in store and ("*" in prob or "," in prob):
        return replace(options, prob=None, probs=prob)
    if probs is not None and prob is None and probs in store and len(store[probs].shape) == 1:
        return replace(options, prob=probs, probs=None)
    return options


def _name_classes(arrays: LazyArrays, left: LazyArrays, options: ColumnOptions, where: str) -> None:
    """Set the class names that `classes` or `positive` give."""
    scores = next((arrays.get(key) or left.get(key) for key in SCORE_KEYS if key in arrays or key in left), None)
    labels = arrays.get("labels") or left.get("labels")
    binary = scores is not None and len(scores.shape) == 1
    if options.positive is not None and (not binary or labels is None or options.classes is not None):
        got = "--classes too" if options.classes is not None else "no labels" if binary else "no such column"
        hint = "leave --positive out; --classes A,B,C names the classes of several columns"
        expected = "labels with one column of probabilities (--prob)"
        raise UsageError(f"{where}: --positive", expected=expected, got=got, hint=hint)
    if options.positive is not None and labels is not None:
        distinct = np.unique(labels.load().astype(np.str_)).tolist()
        others = [name for name in distinct if name != options.positive]
        if options.positive not in distinct or len(others) > 1:
            expected = f"{show(options.positive)} and one other label" if others else "labels"
            known = ", ".join(map(show, distinct[:8]))
            hint = "name one of two labels, or give one column per class with --probs A,B,C"
            raise UsageError(f"{where}: --positive", expected=expected, got=known, hint=hint)
        other = others[0] if others else f"not {options.positive}"
        arrays["classes"] = LazyArray.from_array(np.array([other, options.positive]))
    elif options.classes is not None:
        names = [name.strip() for name in options.classes.split(",")]
        if scores is None:
            hint = "name them with --probs A,B,C or --prob COL"
            raise UsageError(f"{where}: --classes", expected="columns of scores", got="none", hint=hint)
        arrays["classes"] = LazyArray.from_array(np.array(names))
    elif binary and labels is not None and "classes" not in left and "classes" not in arrays:
        values = _parse(labels.load())
        if values.dtype.kind == "U" and (distinct := np.unique(values).tolist()):
            listed = " or ".join(f"--positive {name}" for name in distinct[:4] if len(name) <= 40)
            expected = "the label that the probability is of"
            got = f"the labels {', '.join(map(show, distinct[:4]))}"
            raise UsageError(f"{where}: labels", expected=expected, got=got, hint=f"add {listed}")


def _arrays_of_several_columns(left: LazyArrays, options: ColumnOptions, where: str, store: LazyArrays) -> LazyArrays:
    """The arrays made of several columns, which match a pattern or have names such as `probs_cat`."""
    arrays: LazyArrays = {}
    members: list[str] | None = None
    for key in (*SCORE_KEYS, *NUMBER_KEYS):
        option = getattr(options, key)
        if option is not None and "*" not in option and key in SPREAD:
            entry = _column(left, option, where, store)
            arrays[key] = entry.map(partial(_numbers, name=option, where=where))
            continue
        columns: dict[str, str] = {}  # name to the text at the '*'
        if option is not None and key in SCORE_KEYS and "*" not in option and _is_array(left, option):
            arrays[key] = left.pop(option)  # a column of lists
            continue
        if option is not None and key in SCORE_KEYS and "," in option and "*" not in option:
            columns = {name: name for name in (part.strip() for part in option.split(","))}
            for name in columns:
                if name not in left:
                    _column(left, name, where, store)
        elif option is not None:
            columns = _matching(left, option, where)
        elif not options.scores():
            columns = {name: name[len(key) + 1 :] for name in left if name.startswith(f"{key}_")}
            if key in NUMBER_KEYS:
                is_ending = _is_level if key == "quantiles" else str.isdecimal
                columns = {name: end for name, end in columns.items() if key not in left and is_ending(end)}
        if key in ("std", "var") and columns and members:
            unpaired = sorted(set(members) ^ set(columns.values()))
            if unpaired:
                got, hint = f"{show(unpaired[0])} on one side only", "name the columns alike, such as mean_0 and std_0"
                expected = f"a column for each of the {len(members)} columns of mean, with the same ending"
                raise UsageError(f"{where}: {key}", expected=expected, got=got, hint=hint)
            position = {ending: k for k, ending in enumerate(members)}
            columns = dict(sorted(columns.items(), key=lambda item: position[item[1]]))
        if key == "mean":
            members = list(columns.values())
        if not columns:
            continue
        pattern = option or f"{key}_*"
        entries, endings = [(name, left.pop(name)) for name in columns], list(columns.values())
        if key in left:
            got = f"both {show(key)} and {show(pattern)}"
            raise UsageError(where, expected=f"one source of {show(key)}", got=got, hint="rename one of them")
        axis = 0 if row_axis(key, 2) else 1
        arrays[key] = _stack([item.map(partial(_numbers, name=name, where=where)) for name, item in entries], axis)
        if key == "quantiles":
            for ending in endings:
                if not _is_level(ending):
                    subject, expected = f"{where}: {show(pattern)}", "levels between 0 and 1 at the '*'"
                    hint = "name the columns after their levels, such as q_0.05"
                    raise UsageError(subject, expected=expected, got=show(ending), hint=hint)
            arrays["levels"] = LazyArray.from_array(np.array([float(ending) for ending in endings]))
        elif key in SCORE_KEYS:
            arrays["classes"] = LazyArray.from_array(np.array(endings))
    return arrays


def _is_array(left: LazyArrays, name: str) -> bool:
    return name in left and len(left[name].shape) > 1


def _is_level(text: str) -> bool:
    try:
        return 0.0 < float(text) < 1.0
    except ValueError:
        return False


def _matching(left: LazyArrays, pattern: str, where: str) -> dict[str, str]:
    """The columns that match a pattern, and the text at its `*`."""
    if pattern.count("*") != 1:
        expected = "a pattern with one '*', such as 'p_*', or columns separated by commas"
        hint = "read a column of lists as FILE::KEY=NAME" if pattern in left else did_you_mean(pattern, left)
        raise UsageError(f"{where}: columns", expected=expected, got=show(pattern), hint=hint)
    head, tail = pattern.split("*")
    names = [name for name in left if name.startswith(head) and name.endswith(tail) and len(name) >= len(pattern) - 1]
    if not names:
        got, hint = f"the columns {', '.join(map(show, left))}", "change the pattern to match them"
        raise UsageError(f"{where}: {show(pattern)}", expected="at least one matching column", got=got, hint=hint)
    return {name: name[len(head) : len(name) - len(tail)] for name in names}


def _stack(columns: list[LazyArray], axis: int) -> LazyArray:
    """Columns as one array, stacked along `axis`: members and draws on axis 0."""
    n = columns[0].shape[:1]
    shape = (len(columns), *n) if axis == 0 else (*n, len(columns))

    def blocks(rows_axis: int, rows: int) -> Iterator[np.ndarray]:
        del rows_axis
        for parts in zip(*(column.blocks(0, rows) for column in columns), strict=True):
            yield np.stack(parts, axis=axis)

    nbytes = 8 * len(columns) * math.prod(n)
    return LazyArray(shape, nbytes, lambda: np.stack([column.load() for column in columns], axis=axis), blocks)


def are_names(labels: np.ndarray, classes: np.ndarray) -> bool:
    """Whether labels are class names in a table that names the classes: 1 to 3 with columns p_1 to p_3 are names."""
    return labels.dtype.kind in "iuU" and bool(np.isin(labels.astype(np.str_), classes).all())


def as_named(labels: np.ndarray, named: bool) -> np.ndarray:
    """Labels as class names, or as indices from 0."""
    return labels.astype(np.str_) if named else _parse(labels)


def _column(left: LazyArrays, name: str, where: str, store: LazyArrays) -> LazyArray:
    if name in left:
        return left.pop(name)
    if name in store:
        got, hint = f"{show(name)} in two options", "name another column in one of the options"
        raise UsageError(where, expected="one option per column", got=got, hint=hint)
    raise UsageError(where, expected=f"a column {show(name)}", got="none", hint=did_you_mean(name, store))


def _parse_booleans(values: np.ndarray, where: str) -> np.ndarray:
    """Convert 0/1, true/false and yes/no to booleans."""
    if values.dtype.kind != "U":
        return values
    lower = np.char.lower(values)
    invalid = ~np.isin(lower, list(TRUE | FALSE))
    if invalid.any():
        got, hint = f"row {int(np.argmax(invalid))}: {show(values[invalid][0])}", "write 1 for right and 0 for wrong"
        raise FileError(f"{where}: correct", expected="0/1, true/false or yes/no", got=got, hint=hint)
    return np.isin(lower, list(TRUE))


def _numbers(values: np.ndarray, name: str, where: str) -> np.ndarray:
    values = _parse(values)
    if values.dtype.kind in "iuf" and values.ndim == 1:
        return values.astype(np.float64)
    got = f"row 0: {show(values[0])}" if values.ndim and values.size else "values of different types or lengths"
    if values.dtype.kind == "U" and values.ndim == 1:
        got = _first_text(values)
    hint = "fix the column, or choose a pattern without it"
    raise FileError(f"{where}: column {show(name)}", expected="one number per row", got=got, hint=hint)


def _check_numeric(values: np.ndarray, key: str, where: str) -> np.ndarray:
    if values.dtype.kind == "U" and values.ndim == 1:
        hint = "write numbers, and drop the rows without one"
        raise FileError(f"{where}: {key}", expected="a number in every row", got=_first_text(values), hint=hint)
    return values


def _first_text(values: np.ndarray) -> str:
    """Describe the first value that is not a number, or numbers that are stored as text."""
    for row, item in enumerate(values.tolist()):
        try:
            float(item)
        except ValueError:
            return f"row {row}: {show(item)}"
    return f"text, such as {show(values[0])}"


def _parse(fields: np.ndarray) -> np.ndarray:
    """Convert a column of text to integers or floats if every field is one."""
    if fields.dtype.kind != "U" or fields.ndim != 1:
        return fields
    for kind in (np.int64, np.float64):
        try:
            return np.array([kind(field) for field in fields])
        except (ValueError, OverflowError):
            continue
    return fields
