"""Tables: columns by name, collected into the arrays of the contract.

Without options, columns carry the names of the contract: `labels`, `ids`, `weights`, `confidence`, `correct`, `y`,
`mean`, `std`, `var`, and scores as `logits_<class>`, `log_probs_<class>` or `probs_<class>`, members as `mean_<number>`
and `std_<number>`, draws as `samples_<number>`, quantiles as `quantiles_<level>` (CSV), or as lists (JSON Lines,
Parquet, Arrow). What stands for the `*` of a pattern names the class, the member or the level.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from calibrant.errors import FileError, UsageError, did_you_mean, show
from calibrant.predictions.files.axes import row_axis
from calibrant.predictions.files.stores import Entry, Store, of_array

SCORE_KEYS = ("logits", "log_probs", "probs")
NUMBER_KEYS = ("mean", "std", "var", "samples", "quantiles")
SPREAD = ("mean", "std", "var")
NUMBERS_ONLY = ("y", "weights", "confidence", *NUMBER_KEYS)
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

    def single(self) -> dict[str, str]:
        """The options that name one column, as a renaming."""
        return {key: name for key, name in vars(self).items() if name is not None and "*" not in name}


def collect(store: Store, options: ColumnOptions, where: str, *, all_text: bool = False, loaded: bool = False) -> Store:
    """The arrays of the contract from the columns of a table.

    all_text: numbers are still written out. loaded: the columns are in memory, and are looked at as a whole.
    """
    left, made = dict(store), {}
    for key, name in _single_columns(options, where).items():
        made[key] = _column(left, name, where, store)
    made |= _several_columns(left, options, where, store)
    made.update({key: left.pop(key) for key in list(left) if key not in made})
    if all_text:
        made = {key: item if key in NAMES else of_array(_typed(item.load())) for key, item in made.items()}
    for key in (key for key in NUMBERS_ONLY if key in made):
        check = partial(_no_text, key=key, where=where)
        made[key] = _checked_whole(made[key].load(), check) if loaded else made[key].map(check)
    if "levels" in made and len(made["levels"].shape) == 2:
        made["levels"] = of_array(_same_levels(made["levels"].load(), where))
    if "labels" in made and "classes" not in made:
        made["labels"] = made["labels"].map(_typed)
    if "correct" in made and made["correct"].shape:
        made["correct"] = made["correct"].map(lambda values: _truth(values, where))
    return made


def _single_columns(options: ColumnOptions, where: str) -> dict[str, str]:
    """The keys that one column holds each, and its name; what came true may be called labels in a regression too."""
    found = {key: name for key in ("labels", "confidence", "correct", "y") if (name := getattr(options, key))}
    if options.prob is not None:
        found["probs"] = options.prob
    if "labels" in found and any(getattr(options, key) is not None for key in NUMBER_KEYS):
        if "y" in found:
            came = f"got {show(found['labels'])} and {show(found['y'])}"
            raise UsageError(where, expected="--y or --labels, in a regression", came=came, do="leave --labels out")
        found["y"] = found.pop("labels")
    return found


def _several_columns(left: Store, options: ColumnOptions, where: str, store: Store) -> Store:
    """The keys that several columns may hold together: those of a pattern, or of the contract's own names."""
    made: Store = {}
    members: list[str] | None = None
    for key in (*SCORE_KEYS, *NUMBER_KEYS):
        pattern = getattr(options, key)
        if pattern is not None and "*" not in pattern and key in SPREAD:
            entry = _column(left, pattern, where, store)
            made[key] = entry.map(partial(_numbers, name=pattern, where=where))
            continue
        columns = _usual(key, left) if not options.scores() else {}
        columns = columns if pattern is None else _matching(left, pattern, where)
        if key in ("std", "var") and columns and members:
            columns = _paired(key, columns, members, where)
        if key == "mean":
            members = list(columns.values())
        if columns:
            made |= _stacked_columns(key, left, columns, pattern or f"{key}_*", where)
    return made


def _usual(key: str, left: Store) -> dict[str, str]:
    """The columns that bear the contract's own names, `probs_cat`, `mean_0`, `quantiles_0.05`, and their endings."""
    found = {name: name[len(key) + 1 :] for name in left if name.startswith(f"{key}_")}
    if key not in NUMBER_KEYS:
        return found
    if key in left:
        return {}
    return {name: end for name, end in found.items() if (_is_level(end) if key == "quantiles" else end.isdecimal())}


def _paired(key: str, columns: dict[str, str], members: list[str], where: str) -> dict[str, str]:
    """Means and spreads of members belong together by their endings, in whichever order the columns stand."""
    odd = sorted(set(members) ^ set(columns.values()))
    if odd:
        raise UsageError(
            f"{where}: {key}",
            expected=f"a column for each of the {len(members)} columns of mean, with the same ending",
            came=f"{show(odd[0])} stands on one side only",
            do="name the columns alike, such as mean_0 and std_0",
        )
    return dict(sorted(columns.items(), key=lambda item: members.index(item[1])))


def _is_level(text: str) -> bool:
    try:
        return 0.0 < float(text) < 1.0
    except ValueError:
        return False


def _stacked_columns(key: str, left: Store, columns: dict[str, str], pattern: str, where: str) -> Store:
    """The array of some columns, which are taken out of those left, and what they are named after."""
    entries, names = [(name, left.pop(name)) for name in columns], list(columns.values())
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


def _matching(left: Store, pattern: str, where: str) -> dict[str, str]:
    """The columns of a pattern, and what stands for its `*`."""
    if pattern.count("*") != 1:
        raise UsageError(
            f"{where}: columns",
            expected="a pattern with one '*', such as 'p_*'",
            came=f"got {show(pattern)}",
            do="use --prob for the single column of a binary problem, and FILE::probs=NAME for a column of lists",
        )
    head, tail = pattern.split("*")
    found = [name for name in left if name.startswith(head) and name.endswith(tail) and len(name) >= len(pattern) - 1]
    if not found:
        raise UsageError(
            f"{where}: {show(pattern)}",
            expected="at least one such column",
            came=f"the columns are {', '.join(map(show, left))}",
            do="mend the pattern",
        )
    return {name: name[len(head) : len(name) - len(tail)] for name in found}


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


def _column(left: Store, name: str, where: str, store: Store) -> Entry:
    if name in left:
        return left.pop(name)
    if name in store:
        came, hint = f"{show(name)} is named twice", "name another column in one of the options"
        raise UsageError(where, expected="one meaning of a column", came=came, do=hint)
    raise UsageError(where, expected=f"a column {show(name)}", came="there is none", do=did_you_mean(name, store))


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
        came = f"row 0 is {show(values[0])}" if values.size else "its rows are missing, or differ in type or length"
        if not values.ndim:
            came = "its rows are missing, or differ in type or length"
        elif values.dtype.kind == "U" and values.ndim == 1:
            came = _first_text(values)
        raise FileError(
            f"{where}: column {show(name)}",
            expected="numbers, one a row",
            came=came,
            do="repair the column, or leave it out of the pattern",
        )
    return values.astype(np.float64)


def _checked_whole(array: np.ndarray, check: Callable[[np.ndarray], np.ndarray]) -> Entry:
    """An array in memory that is looked at as a whole before the first block of it is used, if ever."""
    return Entry(
        array.shape, array.nbytes, lambda: check(array), lambda axis, rows: of_array(check(array)).blocks(axis, rows)
    )


def _no_text(values: np.ndarray, key: str, where: str) -> np.ndarray:
    if values.dtype.kind == "U" and values.ndim == 1:
        raise FileError(
            f"{where}: {key}",
            expected="a number in every row",
            came=_first_text(values),
            do="write numbers, and drop the rows without one",
        )
    return values


def _first_text(values: np.ndarray) -> str:
    """What is said of the first row that is no number, or of all where numbers are written as text."""
    for row, item in enumerate(values.tolist()):
        try:
            float(item)
        except ValueError:
            return f"row {row} is {show(item)}"
    return f"they are text, such as {show(values[0])}"


def _same_levels(levels: np.ndarray, where: str) -> np.ndarray:
    """Levels that every row repeats."""
    odd = (levels != levels[0]).any(axis=1)
    if odd.any():
        raise FileError(
            f"{where}: levels",
            expected="the same levels in every row",
            came=f"row {int(odd.argmax())} differs from row 0",
            do="predict the same levels for every row, or split the file",
        )
    return levels[0]


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
