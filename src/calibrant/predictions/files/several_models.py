"""Several models in one file: a column that names the model of each row, or confidences of shape (models, rows).

In a table, every row belongs to one model, and the rows of two models are matched by `ids`, or by the values of the
column of units. In arrays, `confidence` and `correct` of shape (M, N) hold the answers of M models to the same N
questions, and a row keeps its number as its id, so that models stay matched where some rows of one are dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.errors import FileError, UsageError, did_you_mean, show
from calibrant.predictions import InMemory, Judged
from calibrant.predictions.base import Note
from calibrant.predictions.files.binary import LazyArrays, check_size
from calibrant.predictions.files.confidence import dropped_note, usable_confidence
from calibrant.predictions.files.read import read_source
from calibrant.predictions.files.sources import Source, list_shards, open_shard
from calibrant.predictions.files.tables import ColumnOptions
from calibrant.predictions.logs.read import find_log

CORRECT = "correct"


def read_models(
    path: str | Path,
    by: str,
    *,
    units: str | None = None,
    select: Collection[str] = (),
    columns: Mapping[str, Any] | None = None,
) -> dict[str, InMemory]:
    """Read the models of one file, by name.

    Parameters
    ----------
    path : str or Path
        A table with one row per model and question, or arrays `confidence` and `correct` of shape (models, questions).
    by : str
        The column, or the array, that names the models.
    units : str, optional
        The column of the questions, which matches the rows of two models.
    select : collection of str
        The models to keep; all by default.
    columns : mapping, optional
        As in `calibrant.read`: {"drop_missing": True} drops rows without a confidence, with a note.

    Returns
    -------
    dict of str to predictions

    Examples
    --------
    >>> from calibrant.demo import FOLDER
    >>> from calibrant.predictions import read_models
    >>> models = read_models(FOLDER / "mmlu_pro.npz", "models", columns={"drop_missing": True})
    >>> models["gpt-4.1"]
    Judged('gpt-4.1', rows=12012, members=1)
    """
    options = ColumnOptions.of(columns or {})
    return read_models_of(Source.parse(str(path)), options, by, units=units, select=select)


def read_models_of(
    source: Source,
    options: ColumnOptions,
    by: str,
    *,
    units: str | None = None,
    select: Collection[str] = (),
    strict: bool = False,
) -> dict[str, InMemory]:
    """The models of one file by name, in the order of the file; `select` names those to keep."""
    if find_log(source.path) is None:
        paths = list_shards(source.path)
        if len(paths) == 1:
            with open_shard(paths[0], options, source.rename) as shard:
                store = shard.store
                if "confidence" in store and len(store["confidence"].shape) == 2 and _names_models(store, by):
                    return _from_arrays(store, source, options, by, select)
    whole = read_source(source, options, strict=strict)
    values = whole.column(by)
    if values.dtype.kind == "f":
        hint = f"name a column of text or integers, not {by}"
        raise UsageError("--compare-by", expected="a column that names the models", got="numbers", hint=hint)
    whole = _with_ids(whole, values, units)
    names = [str(name) for name in dict.fromkeys(values.tolist())]
    kept = _selected(names, select)
    text = values.astype(np.str_)
    return {name: whole[np.flatnonzero(text == name)].named(name) for name in kept}


def _names_models(store: LazyArrays, by: str) -> bool:
    return by in store and store[by].shape == store["confidence"].shape[:1]


def _from_arrays(
    store: LazyArrays, source: Source, options: ColumnOptions, by: str, select: Collection[str]
) -> dict[str, InMemory]:
    """Models whose answers are the rows of (M, N) arrays."""
    where = source.path.name
    shape = store["confidence"].shape
    if CORRECT not in store or store[CORRECT].shape != shape:
        got = f"shape {store[CORRECT].shape}" if CORRECT in store else "none"
        hint = "write correct as an array of shape (models, rows), like confidence"
        raise FileError(f"{where}: correct", expected=f"shape {shape}", got=got, hint=hint)
    rows = shape[1]
    per_row = [key for key, item in store.items() if item.shape == (rows,)]
    ignored = [key for key in store if key not in (*per_row, by, "confidence", CORRECT)]
    check_size(sum(store[key].nbytes for key in (*per_row, "confidence", CORRECT)), where)
    names = store[by].load().astype(np.str_).tolist()
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        hint = "rename one of them"
        raise FileError(f"{where}: {by}", expected="distinct names of models", got=f"{show(twice)} twice", hint=hint)
    columns = {key: store[key].load() for key in per_row if key != "ids"}
    ids = store["ids"].load() if "ids" in per_row else np.arange(rows)
    confidence, correct = store["confidence"].load(), store[CORRECT].load()
    out: dict[str, InMemory] = {}
    empty: list[str] = []
    for name in _selected(names, select):
        place, dropped = names.index(name), Counter[str]()
        among = f"{where}: {name}"
        finite = ~np.isnan(confidence[place].astype(np.float64))
        if not finite.any():
            empty.append(name)
            continue
        values, usable = usable_confidence(confidence[place].tolist(), options, among, dropped)
        if not usable.any():
            empty.append(name)
            continue
        own = {key: column[usable] for key, column in columns.items() if key != "weights"}
        weights = columns["weights"][usable] if "weights" in columns else None
        judged = Judged.from_confidence(
            values[usable], correct[place][usable], ids=ids[usable], weights=weights, columns=own, name=name
        )
        notes = (dropped_note(where, rows, dropped),) if dropped else ()
        out[name] = judged.with_notes(notes)
    if not out:
        hint = "name another array: FILE::confidence=NAME"
        raise FileError(where, expected="a confidence of some model", got="none", hint=hint)
    more: list[Note] = []
    if empty:
        text = f"{where}: {len(empty)} models without any confidence are left out: {', '.join(empty[:8])}"
        more.append(Note("models-without-confidence", text + ", …" * (len(empty) > 8)))
    if ignored:
        listed = ", ".join(f"{show(key)} {store[key].shape}" for key in ignored)
        more.append(Note("ignored-arrays", f"{where}: ignored {listed}"))
    first = next(iter(out))
    out[first] = out[first].with_notes(tuple(more))
    return out


def _selected(names: list[str], select: Collection[str]) -> list[str]:
    """The names to keep, in the order of `select`; all without it."""
    for name in select:
        if name not in names:
            raise UsageError("--select", expected="the name of a model", got=show(name), hint=did_you_mean(name, names))
    return list(select) or names


def _with_ids(whole: InMemory, models: np.ndarray, units: str | None) -> InMemory:
    """The same rows with ids that match them between models: their own, or unit and number within unit and model."""
    if units is None:
        return whole
    values = whole.column(units)
    occurrence = Counter[tuple[str, str]]()
    numbered = []
    for model, unit in zip(models.tolist(), values.tolist(), strict=True):
        occurrence[str(model), str(unit)] += 1
        numbered.append((str(unit), occurrence[str(model), str(unit)]))
    several = max(occurrence.values()) > 1
    ids = np.array([f"{unit} {number}" if several else unit for unit, number in numbered])
    return whole._with_info(replace(whole.info, ids=ids))
