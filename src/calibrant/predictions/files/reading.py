"""`read`: a path, perhaps with `::key=name` after it, to predictions in memory; `stream.scan` leaves them there."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from calibrant.errors import CalibrantWarning, FileError, InputError, show
from calibrant.predictions import InMemory
from calibrant.predictions.base import Note
from calibrant.predictions.files.assembling import Plan, build, check_total, total_bytes
from calibrant.predictions.files.axes import row_axis
from calibrant.predictions.files.naming import naming
from calibrant.predictions.files.shards import Source, opened, shards_of, together
from calibrant.predictions.files.tables import ColumnOptions, are_names, as_named


def read(
    path: str | Path,
    *,
    rename: Mapping[str, str] | None = None,
    member: int | None = None,
    columns: Mapping[str, str] | None = None,
    strict: bool = False,
) -> InMemory:
    """Read predictions into memory: .npz, a folder of .npy, .parquet, .arrow, .safetensors, .csv, .jsonl, or shards.

    A folder or a pattern ('parts/*.npz') of several such files is one input, in the order of their paths. rename:
    {"logits": "logits_test"} takes another array for a key, as `FILE::logits=logits_test` does. member: keep one of the
    members. columns: which columns of a table hold what, {"labels": "truth", "probs": "p_*"}. strict: arrays that fit
    nothing are an error.
    """
    made = read_source(source_of(path, rename, member), ColumnOptions.of(columns or {}), strict=strict)
    for note in made.notes():
        warnings.warn(note.message, CalibrantWarning, stacklevel=2)
    return made


def source_of(path: str | Path, rename: Mapping[str, str] | None, member: int | None) -> Source:
    """What the arguments of `read` and `scan` name together with the path."""
    source = Source.parse(str(path))
    wanted = source.member if member is None else member
    return Source(source.path, {**source.rename, **(rename or {})}, wanted)


def read_source(source: Source, columns: ColumnOptions, *, strict: bool = False) -> InMemory:
    """The same without warnings: they stand in the notes of what is returned."""
    plans: list[Plan] = []
    loaded: list[dict[str, np.ndarray]] = []
    hashes: list[tuple[str, str]] = []
    total, named = 0, False
    for path in shards_of(source.path):
        with opened(path, columns, source.rename) as shard:
            plan = Plan.of(shard.store, path, strict, source.elsewhere)
            hashes.append((path.name, shard.digest()))
            if plans and not plan.n:
                continue  # other tools leave empty shards
            if plans and not plans[0].n:
                plans, loaded = [], []
            if plans:
                plan.check_fits(plans[0])
            total += total_bytes(shard.store, plan)
            check_total(total, plan)
            loaded.append({key: shard.store[key].load() for key in (*plan.by_row(), *plan.constants())})
            plans.append(plan)
            named = named or shard.named
    if named and "labels" in loaded[0]:
        _name_labels(loaded)
    try:
        with naming(source.path.name):
            made = build(plans[0], _joined(plans, loaded), source.name)
    except FileError:
        raise
    except InputError:
        _find_fault(plans, loaded, source.name)
        raise
    made = made._with_info(replace(made.info, origin=source.path.name))
    with naming(source.path.name):
        made = source.chosen(made)
    return made.with_notes(tuple(notes_of(plans)), hashes[0][1] if len(hashes) == 1 else together(hashes))


def _name_labels(loaded: list[dict[str, np.ndarray]]) -> None:
    """Decide once, for the labels of all shards, whether they are names."""
    named = all(are_names(arrays["labels"], arrays["classes"]) for arrays in loaded)
    for arrays in loaded:
        arrays["labels"] = as_named(arrays["labels"], named)


def _find_fault(plans: list[Plan], loaded: list[dict[str, np.ndarray]], name: str) -> None:
    """Of several shards, raise what is wrong with the first that is not right on its own."""
    for plan, arrays in zip(plans, loaded, strict=True) if len(plans) > 1 else ():
        with naming(plan.path.name):
            build(plan, {key: array for key, array in arrays.items() if key != "weights"}, name)  # may all be 0


def notes_of(plans: list[Plan]) -> list[Note]:
    """What was ignored, of each shard."""
    return [note for plan in plans for note in plan.notes()]


def _joined(plans: list[Plan], loaded: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """The shards one after another; what is not by row must be the same in each."""
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
    """Refuse a shard whose classes, names, levels or meta are not those of the first."""
    if not np.array_equal(part, first):
        raise FileError(
            str(plan.path),
            expected=f"the same {show(key)} in every shard",
            came="they differ from those of the first",
            do="shards of one input are of one make: mend or leave out the odd one",
        )


def check_same_type(plan: Plan, key: str, part: np.ndarray, array: np.ndarray, first: Plan) -> None:
    """Refuse a shard of another precision, whose digits would depend on how it is read, or text beside numbers."""
    same = part.dtype.newbyteorder("=") == array.dtype.newbyteorder("=")
    text_beside_numbers = (part.dtype.kind == "U") != (array.dtype.kind == "U")
    if text_beside_numbers or (key in first.main and not same):
        raise FileError(
            str(plan.path),
            expected=f"{show(key)} in {array.dtype}, as in {first.path.name}",
            came=f"it is {part.dtype}",
            do="write all shards alike",
        )
