"""`read`: a path, perhaps with `::key=name` after it, to predictions."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from calibrant.errors import CalibrantWarning, FileError, UsageError, did_you_mean, plain, show, whole_number
from calibrant.predictions.base import RESERVED, Note
from calibrant.predictions.classification import Classification
from calibrant.predictions.files.npy import memory_limit
from calibrant.predictions.files.stores import (
    Store,
    digest,
    fingerprint,
    folder_store,
    in_memory,
    npz_store,
)
from calibrant.predictions.files.tables import (
    SCORE_KEYS,
    ColumnOptions,
    collect,
    read_csv,
    read_jsonl,
)
from calibrant.predictions.judged import Judged

T = TypeVar("T")
FORMATS = ".npz, a folder of .npy, .csv or .jsonl"
LATER = ("y", "mean", "std", "var", "samples", "quantiles", "levels")


@dataclass(frozen=True)
class Source:
    """A path, the renaming of keys, and the member wanted, as written on the command line."""

    path: Path
    rename: Mapping[str, str]
    member: int | None = None

    @classmethod
    def parse(cls, text: str) -> Source:
        """`FILE`, or `FILE::logits=logits_test,labels=labels_test,member=0`."""
        path, mark, options = text.rpartition("::")
        if not mark:
            return cls(Path(text), {})
        rename: dict[str, str] = {}
        for item in filter(None, options.split(",")):
            key, equals, value = item.partition("=")
            if not equals or not value or key not in (*RESERVED, "member"):
                raise UsageError(
                    f"{text}",
                    expected="KEY=NAME after '::', KEY being one of the contract's keys or 'member'",
                    came=f"got {show(item)}",
                    do=did_you_mean(key, (*RESERVED, "member")) if equals else "write logits=NAME",
                )
            rename[key] = value
        member = rename.pop("member", None)
        if member is not None and whole_number(member) is None:
            raise UsageError("member", expected="a number from 0", came=f"got {show(member)}", do="count from 0")
        return cls(Path(path), rename, None if member is None else whole_number(member))


def read(
    path: str | Path,
    *,
    rename: Mapping[str, str] | None = None,
    member: int | None = None,
    columns: Mapping[str, str] | None = None,
    strict: bool = False,
) -> Classification | Judged:
    """Read predictions from .npz, a folder of .npy, .csv or .jsonl; see the guide for the keys.

    rename: {"logits": "logits_test"} takes another array for a key, as `FILE::logits=logits_test` does. member: keep
    one member. columns: which columns of a table hold what, {"labels": "truth", "probs": "p_*"}. strict: arrays that
    fit nothing are an error.
    """
    source = Source.parse(str(path))
    made = read_source(
        Source(
            source.path,
            {**source.rename, **(rename or {})},
            source.member if member is None else member,
        ),
        ColumnOptions.of(columns or {}),
        strict=strict,
    )
    for note in made.notes():
        warnings.warn(note.message, CalibrantWarning, stacklevel=2)
    return made


def read_source(source: Source, columns: ColumnOptions, *, strict: bool = False) -> Classification | Judged:
    """The same without warnings: they stand in the notes of what is returned."""
    path = source.path
    try:
        made, notes, sha256 = _read(path, columns, source.rename, strict)
    except OSError as error:
        raise FileError(
            str(path),
            expected="a readable file",
            came=plain(error.strerror or str(error)),
            do="check path and rights",
        ) from error
    if source.member is not None:
        made = made.member(source.member)
    return made.with_notes(tuple(notes), sha256)


def _read(
    path: Path, columns: ColumnOptions, rename: Mapping[str, str], strict: bool
) -> tuple[Classification | Judged, list[Note], str]:
    """An archive is held open from the first array to the last, so that it is one file that is read."""
    if _is_archive(path, columns):
        with path.open("rb") as stream:
            store = _renamed(npz_store(path, stream), rename, path)
            return *_assemble(store, path, strict), digest(stream)
    store = _open(path, columns, rename)
    return *_assemble(store, path, strict), fingerprint(path)


def _open(path: Path, columns: ColumnOptions, rename: Mapping[str, str]) -> Store:
    if path.is_dir():
        return _renamed(folder_store(path), rename, path)
    is_csv = path.suffix.lower() == ".csv"
    table = _renamed(read_csv(path) if is_csv else read_jsonl(path), rename, path)
    return in_memory(collect(table, columns, str(path), all_text=is_csv))


def _is_archive(path: Path, columns: ColumnOptions) -> bool:
    """Whether it is one, rather than a folder or a table; what is none of these is refused."""
    suffix = path.suffix.lower()
    if path.is_dir():
        return False
    if not path.exists():
        raise FileError(str(path), expected="an existing file", came="there is none", do="check the path")
    if suffix in (".csv", ".jsonl"):
        return False
    if columns.any():
        raise UsageError(
            str(path),
            expected="a table (.csv or .jsonl) with these column options",
            came=f"its name ends in {show(suffix)}",
            do="rename keys with FILE::key=name instead",
        )
    if suffix != ".npz":
        raise FileError(
            str(path),
            expected=FORMATS,
            came=f"its name ends in {show(suffix)}",
            do="convert it to one of these",
        )
    return True


def _renamed(store: dict[str, T], rename: Mapping[str, str], path: Path) -> dict[str, T]:
    for name in rename.values():
        if name not in store:
            raise FileError(
                str(path),
                expected=f"an array {show(name)}",
                came="there is none",
                do=did_you_mean(name, store),
            )
    moved = {key: store[name] for key, name in rename.items()}
    kept = {key: item for key, item in store.items() if key not in moved and key not in rename.values()}
    return {**kept, **moved}


def _assemble(store: Store, path: Path, strict: bool) -> tuple[Classification | Judged, list[Note]]:
    scores = [key for key in SCORE_KEYS if key in store]
    judged = "confidence" in store
    if len(scores) + judged != 1:
        raise _undecided(store, path, scores, judged)
    n = store["confidence"].shape[-1] if judged and store["confidence"].shape else _rows(store, scores)
    _check_total(store, n, path)
    known, notes = _rest(store, n, path, strict)
    known["name"] = path.stem
    if judged:
        correct = known.pop("correct", None)
        known = {k: v for k, v in known.items() if k in ("ids", "weights", "columns", "meta", "name")}
        return Judged.from_confidence(store["confidence"].load(), correct, **known), notes
    if known.pop("correct", None) is not None:
        notes.append(Note("ignored-arrays", f"{path.name}: 'correct' goes with 'confidence', and was ignored"))
    return Classification.build(scores[0], store[scores[0]].load(), **known), notes


def _check_total(store: Store, n: int, path: Path) -> None:
    """Each array fits into memory; those that are needed must fit together."""
    total = sum(item.nbytes for key, item in store.items() if key in RESERVED or item.shape == (n,))
    if total > memory_limit():
        raise FileError(
            str(path),
            expected=f"arrays of at most {memory_limit() / 2**30:.1f} GiB together, three quarters of the memory",
            came=f"they unpack to {total / 2**30:.1f} GiB",
            do="split the file, or set CALIBRANT_MAX_BYTES if it is meant",
        )


def _rows(store: Store, scores: list[str]) -> int:
    """The number of rows of the score array: its first axis, or its second where members come first."""
    shape = store[scores[0]].shape if scores else ()
    return shape[1] if len(shape) == 3 else shape[0] if shape else 0


def _rest(store: Store, n: int, path: Path, strict: bool) -> tuple[dict[str, Any], list[Note]]:
    """Everything beside the scores: reserved keys, columns, and notes on what fits nothing."""
    known: dict[str, Any] = {"columns": {}}
    ignored: list[str] = []
    for key, item in store.items():
        if key in ("labels", "classes", "member_names", "ids", "weights", "label_probs", "correct"):
            known[key] = item.load()
        elif key == "meta":
            known["meta"] = _meta(item.load(), path)
        elif key in (*SCORE_KEYS, "confidence"):
            continue
        elif item.shape == (n,) and key not in RESERVED:
            known["columns"][key] = item.load()
        else:
            ignored.append(f"{show(key)} {item.shape}")
    if not ignored:
        return known, []
    message = f"{path.name}: {', '.join(ignored)} fit no key and not the {n} rows, and were ignored"
    if strict:
        raise FileError(
            str(path),
            expected=f"only known keys and columns of length {n} (strict)",
            came=f"found {', '.join(ignored)}",
            do="remove or rename them, or leave --strict out",
        )
    return known, [Note("ignored-arrays", message)]


def _meta(value: np.ndarray, path: Path) -> dict[str, Any]:
    try:
        meta = json.loads(str(value[()] if value.ndim == 0 else value.ravel()[0]))
        if isinstance(meta, dict):
            return meta
    except (ValueError, IndexError, RecursionError):
        pass
    raise FileError(
        f"{path}: meta",
        expected="a JSON object as text",
        came=f"it is {show(value.ravel()[:1])}",
        do="write numpy.array(json.dumps({...}))",
    )


def _undecided(store: Store, path: Path, scores: list[str], judged: bool) -> FileError:
    wanted = "exactly one of logits, log_probs, probs, or confidence (with correct)"
    if scores or judged:
        found = ", ".join(scores + ["confidence"] * judged)
        return FileError(str(path), expected=wanted, came=f"it has {found}", do="remove all but one")
    names = ", ".join(show(key) for key in list(store)[:12]) or "nothing"
    if path.suffix.lower() in (".csv", ".jsonl"):
        hint = "name the columns: --labels COL with --probs 'p_*' or --prob COL, or --confidence COL --correct COL"
        return FileError(str(path), expected=wanted, came=f"its columns are {names}", do=hint)
    if any(key in store for key in LATER):
        return FileError(
            str(path),
            expected=wanted,
            came=f"it holds {names}, which looks like regression",
            do="regression is not read yet; this version judges classification",
        )
    return FileError(
        str(path),
        expected=wanted,
        came=f"it holds {names}",
        do="rename on the way in: FILE::logits=NAME,labels=NAME",
    )
