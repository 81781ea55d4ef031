"""`read`: load predictions from files into memory."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.errors import CalibrantWarning, FileError, InputError, UsageError, error_context, show
from calibrant.predictions import InMemory, Judged
from calibrant.predictions.arrays import CONSTANTS, row_axis
from calibrant.predictions.files.assemble import Plan, build
from calibrant.predictions.files.binary import memory_limit
from calibrant.predictions.files.confidence import dropped_note, usable_confidence
from calibrant.predictions.files.sources import (
    Source,
    combined_sha256,
    file_sha256,
    list_shards,
    open_shard,
    report_os_errors,
)
from calibrant.predictions.files.tables import ColumnOptions, are_names, as_named
from calibrant.predictions.logs.read import TABLE, find_log, read_log
from calibrant.predictions.votes import vote_shares


def read(
    path: str | Path,
    *,
    rename: Mapping[str, str] | None = None,
    member: int | None = None,
    columns: Mapping[str, Any] | None = None,
    strict: bool = False,
) -> InMemory:
    """Read predictions from files into memory.

    Parameters
    ----------
    path : str or Path
        A .npz, .parquet, .arrow, .safetensors, .csv or .jsonl file, or a folder of .npy files. A folder or pattern
        ('parts/*.npz') of several such files is one input, in the order of their paths. `FILE::logits=scores,member=0`
        renames arrays and selects members. Logs of inspect_ai (.eval, .json), lm-evaluation-harness (samples_*.jsonl)
        and HELM (the folder of a run), and JSON tables with `columns` and `data`, are read too.
    rename : mapping of str to str, optional
        Key of the format to name in the file: {"logits": "logits_test"}.
    member : int, optional
        Read only this ensemble member.
    columns : mapping of str to str, optional
        Key to column of a table: {"labels": "truth", "probs": "p_*"}. For logs: {"scorer": "match", "confidence":
        "metadata.certainty", "confidence_scale": 100, "drop_missing": True}, as the options of the command line.
    strict : bool
        Raise an error for arrays that are otherwise ignored with a warning.

    Returns
    -------
    Classification, Judged or Regression

    Examples
    --------
    >>> import calibrant as cal
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "net.csv"
    >>> _ = path.write_text("truth,p_cat,p_dog\\ncat,0.8,0.2\\ndog,0.3,0.7\\n")
    >>> cal.read(path, columns={"labels": "truth", "probs": "p_*"})
    Classification('net', probs, rows=2, classes=2, members=1, labels=True)
    """
    predictions = read_source(make_source(path, rename, member), ColumnOptions.of(columns or {}), strict=strict)
    for note in predictions.notes():
        warnings.warn(note.message, CalibrantWarning, stacklevel=2)
    return predictions


def make_source(path: str | Path, rename: Mapping[str, str] | None, member: int | None) -> Source:
    """Combine the path and arguments of `read` and `scan`."""
    source = Source.parse(str(path))
    return Source(source.path, {**source.rename, **(rename or {})}, source.member if member is None else member)


def read_source(source: Source, columns: ColumnOptions, *, strict: bool = False) -> InMemory:
    """`read` without warnings; the notes of the returned predictions hold them."""
    with report_os_errors(source.path):
        log = find_log(source.path)
    if log is not None and log.kind != TABLE:
        if source.rename or source.member is not None:
            hint = "leave '::' out, and name fields with --confidence and --scorer"
            raise UsageError(str(source.path), expected="a log without '::'", got="a renamed array", hint=hint)
        predictions: InMemory = read_log(log, columns, source.name)
        predictions = predictions._with_info(replace(predictions.info, origin=source.path.name))
        return _voted(predictions, columns).with_notes((), file_sha256(log.path))
    plans: list[Plan] = []
    loaded: list[dict[str, np.ndarray]] = []
    hashes: list[tuple[str, str]] = []
    total, named = 0, False
    for path in list_shards(source.path):
        with open_shard(path, columns, source.rename) as shard:
            plan = Plan.of(shard.store, path, strict, source.elsewhere)
            hashes.append((path.name, shard.digest()))
            if plans and not plan.n:
                continue  # other tools leave empty shards
            if plans and not plans[0].n:
                plans, loaded = [], []
            if plans:
                plan.check_fits(plans[0])
            keys = (*plan.by_row(), *plan.constants())
            total += sum(shard.store[key].nbytes for key in keys)
            if total > memory_limit():
                most = f"{memory_limit() / 2**30:.1f} GiB"
                expected = f"arrays of at most {most} in total, three quarters of the memory"
                hint = "read block by block with calibrant.scan or --blocks, or raise CALIBRANT_MAX_BYTES"
                raise FileError(str(path), expected=expected, got=f"{total / 2**30:.1f} GiB", hint=hint)
            loaded.append({key: shard.store[key].load() for key in keys})
            plans.append(plan)
            named = named or shard.named
    if named and "labels" in loaded[0]:  # one decision for all shards
        as_names = all(are_names(arrays["labels"], arrays["classes"]) for arrays in loaded)
        for arrays in loaded:
            arrays["labels"] = as_named(arrays["labels"], as_names)
    dropped = Counter[str]()
    if columns.confidence_scale is not None or columns.drop_missing:
        loaded = [
            _with_usable_confidence(plan, arrays, columns, dropped) for plan, arrays in zip(plans, loaded, strict=True)
        ]
    try:
        with error_context(source.path.name):
            predictions = build(plans[0], _concatenate(plans, loaded), source.name)
    except FileError:
        raise
    except InputError:
        for plan, arrays in zip(plans, loaded, strict=True) if len(plans) > 1 else ():  # name the invalid shard
            with error_context(plan.path.name):
                build(plan, {key: array for key, array in arrays.items() if key != "weights"}, source.name)
        raise
    predictions = predictions._with_info(replace(predictions.info, origin=source.path.name))
    with error_context(source.path.name):
        predictions = source.select_members(predictions)
    notes = tuple(note for plan in plans for note in plan.notes())
    if dropped:
        total = sum(plan.n for plan in plans)
        notes += (dropped_note(source.path.name, total, dropped),)
    return _voted(predictions, columns).with_notes(notes, hashes[0][1] if len(hashes) == 1 else combined_sha256(hashes))


def _voted(predictions: InMemory, columns: ColumnOptions) -> InMemory:
    """The vote shares of the samples of each question, if they are requested."""
    if columns.vote_share is None:
        return predictions
    if not isinstance(predictions, Judged):
        hint = "leave --vote-share out"
        raise UsageError("--vote-share", expected="graded answers", got=f"{predictions.task} predictions", hint=hint)
    return vote_shares(predictions, columns.vote_share)


def _with_usable_confidence(
    plan: Plan, arrays: dict[str, np.ndarray], columns: ColumnOptions, dropped: Counter[str]
) -> dict[str, np.ndarray]:
    """The arrays of one shard with confidences from 0 to 1, without the rows that have none."""
    if plan.main != ("confidence",):
        option = "--drop-missing" if columns.drop_missing else "--confidence-scale"
        hint = f"leave {option} out"
        raise UsageError(option, expected="a confidence (--confidence COL)", got=f"{plan.main[0]}", hint=hint)
    given = arrays["confidence"]
    if given.ndim != 1:
        hint = "evaluate one member at a time, with FILE::member=0"
        raise UsageError(str(plan.path), expected="one confidence per row", got=f"shape {given.shape}", hint=hint)
    values, usable = usable_confidence(given.tolist(), columns, plan.path.name, dropped)
    if not usable.any():
        hint = "name another column with --confidence"
        raise FileError(str(plan.path), expected="a confidence in some row", got="none", hint=hint)
    arrays = {**arrays, "confidence": values}
    return {key: array if key in CONSTANTS else array[usable] for key, array in arrays.items()}


def _concatenate(plans: list[Plan], loaded: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """The rows of all shards; arrays without rows must be equal."""
    if len(loaded) == 1:
        return loaded[0]
    first, out = plans[0], {}
    for key, array in loaded[0].items():
        parts = [arrays[key] for arrays in loaded]
        if key in first.constants():
            for plan, part in zip(plans, parts, strict=True):
                check_same_constant(plan, key, part, array)
            out[key] = array
            continue
        for plan, part in zip(plans, parts, strict=True):
            check_same_type(plan, key, part, array, first)
        out[key] = np.concatenate(parts, axis=row_axis(key, array.ndim))
    return out


def check_same_constant(plan: Plan, key: str, part: np.ndarray, first: np.ndarray) -> None:
    """Raise `FileError` for a shard whose classes, names, levels or meta differ from the first."""
    if not np.array_equal(part, first):
        expected = f"the same {show(key)} in every shard"
        hint = "write all shards with the same values, or remove this file"
        raise FileError(str(plan.path), expected=expected, got="values that differ from the first shard", hint=hint)


def check_same_type(plan: Plan, key: str, part: np.ndarray, array: np.ndarray, first: Plan) -> None:
    """Raise `FileError` for a shard of another precision, or with text where the first has numbers."""
    same = part.dtype.newbyteorder("=") == array.dtype.newbyteorder("=")
    text_and_numbers = (part.dtype.kind == "U") != (array.dtype.kind == "U")
    if text_and_numbers or (key in first.main and not same):
        expected = f"{show(key)} in {array.dtype}, as in {first.path.name}"
        hint = f"write {show(key)} with the same dtype in every shard"
        raise FileError(str(plan.path), expected=expected, got=f"{part.dtype}", hint=hint)
