"""Data frames as predictions: pandas, polars, or any frame with named columns that become NumPy arrays.

No library is imported: a frame has `columns` (or `column_names`), and `frame[name]` has `to_numpy`, which is what
pandas, polars, pyarrow and narwhals share. Columns are named in the same ways as those of a table in a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.errors import FileError, UsageError, did_you_mean, plain, show

Columns = str | Sequence[str]
"""One column, several, or a pattern with one '*'."""
FRAME = "data frame"


def from_frame(
    frame: Any, options: dict[str, Any], *, classes: Any, ids: str | None, weights: str | None, name: str
) -> Any:
    """Predictions from the columns of a frame; `options` are the fields of `ColumnOptions` that name columns."""
    from calibrant.predictions.files.assemble import Plan, build
    from calibrant.predictions.files.binary import LazyArray
    from calibrant.predictions.files.tables import ColumnOptions, are_names, as_named, collect

    table = {column: LazyArray.from_array(values) for column, values in frame_columns(frame).items()}
    for key, column in {"ids": ids, "weights": weights}.items():
        if column is not None and column != key:
            if column not in table:
                hint = did_you_mean(column, table)
                raise UsageError(f"{FRAME}: {key}", expected=f"a column {show(column)}", got="none", hint=hint)
            table[key] = table.pop(column)
    given: dict[str, Any] = {key: value if isinstance(value, str) else None for key, value in options.items()}
    for key, value in options.items():
        if value is None or isinstance(value, str):
            continue
        names = [str(item) for item in value]
        for item in names:
            if item not in table:
                hint = did_you_mean(item, table)
                raise UsageError(f"{FRAME}: {key}", expected=f"a column {show(item)}", got="none", hint=hint)
            if "," in item:
                hint = "rename it, or use a pattern with '*'"
                raise UsageError(f"{FRAME}: {key}", expected="column names without commas", got=show(item), hint=hint)
        given[key] = ",".join(names) if len(names) > 1 else names[0]
    if classes is not None:
        given["classes"] = ",".join(map(str, classes))
    store = collect(table, ColumnOptions(**given), FRAME, loaded=True)
    named = "classes" in store and "classes" not in table
    plan = Plan.of(store, Path(FRAME))
    arrays = {key: store[key].load() for key in (*plan.by_row(), *plan.constants())}
    if named and "labels" in arrays:
        arrays["labels"] = as_named(arrays["labels"], are_names(arrays["labels"], arrays["classes"]))
    return build(plan, arrays, name)


def one_of(subject: str, **given: Any) -> None:
    """Refuse none or several of some arguments of which exactly one is needed."""
    present = [key for key, value in given.items() if value is not None]
    if len(present) != 1:
        expected = f"exactly one of {', '.join(given)}"
        hint = f"name the columns with {next(iter(given))}=…"
        raise UsageError(subject, expected=expected, got=" and ".join(present) or "none", hint=hint)


def frame_columns(frame: Any) -> dict[str, np.ndarray]:
    """The columns of a frame by name, as numbers, booleans or text."""
    names = getattr(frame, "column_names", None)
    names = getattr(frame, "columns", None) if names is None else names
    if names is None or not hasattr(frame, "__getitem__"):
        hint = "pass a pandas or polars data frame, or use from_probs for arrays"
        raise UsageError("from_frame", expected="a data frame", got=type(frame).__name__, hint=hint)
    labels = list(names)
    texts = [str(label) for label in labels]
    if len(set(texts)) < len(texts):
        twice = next(text for text in texts if texts.count(text) > 1)
        hint = "rename one of them"
        raise UsageError(FRAME, expected="distinct column names", got=f"{show(twice)} twice", hint=hint)
    out = {}
    for label, text in zip(labels, texts, strict=True):
        try:
            out[text] = _as_plain(np.asarray(frame[label].to_numpy()))
        except (AttributeError, TypeError, ValueError) as error:
            reason = plain(str(error), 80)
            hint = "convert the column to numbers or text, or drop it"
            raise FileError(f"{FRAME}: {show(text)}", expected="a column", got=reason, hint=hint) from error
    if not out or not len(next(iter(out.values()))):
        hint = "pass a frame with at least one row"
        raise FileError(FRAME, expected="at least one column and row", got="none", hint=hint)
    return out


def _as_plain(values: np.ndarray) -> np.ndarray:
    """Numbers with NaN where they are missing; text; dates as text; anything else is a column that is left out."""
    if values.dtype.kind in "biuf" or values.dtype.kind == "U":
        return values
    if values.dtype.kind in "mM":
        return values.astype(np.str_)
    items = values.tolist()
    if values.ndim == 1 and items and all(isinstance(item, list | tuple | np.ndarray) for item in items):
        return np.array([np.asarray(item, np.float64) for item in items])
    missing = [item is None or item is np.nan or type(item).__name__ in ("NAType", "NaTType") for item in items]
    known = [item for item, absent in zip(items, missing, strict=True) if not absent]
    if known and all(isinstance(item, bool | np.bool_) for item in known) and not any(missing):
        return np.array(items, bool)
    if known and all(isinstance(item, int | float | np.number) for item in known):
        return np.array([np.nan if absent else item for item, absent in zip(items, missing, strict=True)], np.float64)
    if all(isinstance(item, str) for item in known):
        return np.array(["" if absent else item for item, absent in zip(items, missing, strict=True)], np.str_)
    return np.zeros(())  # not a column: ignored, with a note
