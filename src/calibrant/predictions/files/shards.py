"""Where predictions lie: one file, a folder of arrays, or a folder or pattern of shards that are one input together.

Shards are taken in the order of their paths. Names that begin with '.' or '_' are left alone, as other tools do.
"""

from __future__ import annotations

import glob
import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from calibrant.errors import FileError, UsageError, did_you_mean, plain, show, whole_number
from calibrant.predictions.base import RESERVED
from calibrant.predictions.files.arrow import arrow_store, parquet_store
from calibrant.predictions.files.safetensors import safetensors_store
from calibrant.predictions.files.stores import Store, digest, folder_store, in_memory, npz_store
from calibrant.predictions.files.tables import ColumnOptions, collect
from calibrant.predictions.files.text import read_csv, read_jsonl

T = TypeVar("T")
TEXT = (".csv", ".jsonl")
ARROW = (".parquet", ".arrow", ".feather", ".ipc")
SUFFIXES = (".npz", ".safetensors", *ARROW, *TEXT)
EXISTING = "an existing file"
FORMATS = ".npz, a folder of .npy, .parquet, .arrow, .safetensors, .csv or .jsonl"


def _members(text: str) -> int | range:
    """A number, or the range 0-4, both ends included."""
    ends = [whole_number(part) for part in text.split("-")]
    if len(ends) == 1 and ends[0] is not None:
        return ends[0]
    if len(ends) == 2 and ends[0] is not None and ends[1] is not None and ends[0] <= ends[1] < 1 << 20:
        return range(ends[0], ends[1] + 1)
    said = "a number from 0, or two such as 0-4"
    raise UsageError("member", expected=said, came=f"got {show(text)}", do="count from 0")


@dataclass(frozen=True)
class Source:
    """A path, the renaming of keys, and the member wanted, as written on the command line."""

    path: Path
    rename: Mapping[str, str]
    member: int | range | None = None
    elsewhere: frozenset[str] = frozenset()
    """Arrays of the file that other inputs of the same command read: here they are ignored without a word."""

    @classmethod
    def parse(cls, text: str) -> Source:
        """`FILE`, or `FILE::logits=logits_test,labels=labels_test,member=0`; member=0-4 are the first five."""
        path, mark, options = text.rpartition("::")
        if not (path if mark else text):
            raise UsageError(
                "input", expected="the name of a file or folder", came="it is empty", do="name one ('.' is this folder)"
            )
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
        return cls(Path(path), rename, None if member is None else _members(member))

    def chosen(self, made: Any) -> Any:
        """The member that is wanted of some predictions, or those that are."""
        if self.member is None:
            return made
        return made.subset(self.member) if isinstance(self.member, range) else made.member(self.member)

    @property
    def name(self) -> str:
        """What the predictions are called: the file without its ending; of a pattern, what can be read of it."""
        path = self.path if self.path.name not in ("", "..") else self.path.resolve()
        stem = path.stem if path.suffix.lower() in SUFFIXES else path.name
        if not _is_pattern(path):
            return stem or str(path)
        readable = (part.replace("*", "").replace("?", "").strip("-_. ") for part in (stem, *path.parts[-2::-1]))
        return next(filter(None, readable), stem)


# ------------------------------------------------------------------------------------------- paths
def shards_of(path: Path) -> list[Path]:
    """The files (or folders of .npy) that make one input, in the order of their paths."""
    with reading(path):
        if path.is_dir():
            return _in_folder(path)
        if path.exists() or not _is_pattern(path):
            return [path]
        found = sorted(Path(name) for name in glob.glob(str(path), recursive=True))  # noqa: PTH207
        found = _once([item for item in found if _counts(item)])
    if not found:
        raise FileError(str(path), expected="files that match", came="there are none", do="check the pattern")
    return _of_one_format(found, path)


def _is_pattern(path: Path) -> bool:
    return any(mark in str(path) for mark in "*?[")


def _once(paths: list[Path]) -> list[Path]:
    """Each file once, however many links lead to it: in a folder that links to itself, '**' finds it forty times."""
    return list({path.resolve(): path for path in reversed(paths)}.values())[::-1]


def _counts(path: Path) -> bool:
    return not path.name.startswith((".", "_"))


def _in_folder(path: Path) -> list[Path]:
    if any(path.glob("*.npy")):
        return [path]
    inside = sorted(item for item in path.iterdir() if _counts(item))
    shards = [item for item in inside if item.suffix.lower() in SUFFIXES and item.is_file()]
    shards = shards or [item for item in inside if item.is_dir() and any(item.glob("*.npy"))]
    if not shards:
        raise FileError(
            str(path),
            expected=f"a folder of .npy arrays, or of shards ({', '.join(SUFFIXES)})",
            came="it holds none",
            do="name a file, or write arrays into it with numpy.save",
        )
    return _of_one_format(shards, path)


def _of_one_format(shards: list[Path], path: Path) -> list[Path]:
    kinds = {item.suffix.lower(): item for item in shards}
    if len(kinds) > 1:
        names = ", ".join(show(item.name) for item in kinds.values())
        raise FileError(
            str(path),
            expected="shards of one format",
            came=f"found {names}",
            do="name those that belong together by a pattern, such as 'folder/*.npz'",
        )
    return shards


# ------------------------------------------------------------------------------------------- opening
@dataclass(frozen=True)
class Shard:
    """The arrays of one shard, and what gives its SHA-256."""

    store: Store
    digest: Callable[[], str]
    named: bool = False
    """Whether the columns of a table name the classes, so that a label may be such a name."""


@contextmanager
def opened(path: Path, columns: ColumnOptions, rename: Mapping[str, str]) -> Iterator[Shard]:
    """One shard, by the keys of the contract; what is read of an archive while it is open comes from the same file."""
    with reading(path):
        kind = _kind(path, columns)
        if kind == ".npz":
            with path.open("rb") as stream:
                yield Shard(_renamed(npz_store(path, stream), rename, path), lambda: digest(stream))
            return
        if kind in ("folder", ".safetensors"):
            store = folder_store(path) if kind == "folder" else safetensors_store(path)
            yield Shard(_renamed(store, rename, path), lambda: fingerprint(path))
            return
        table = _renamed(_table(kind, path, {**columns.single(), **rename}), rename, path)
        store = collect(table, columns, str(path), all_text=kind == ".csv", loaded=kind in TEXT)
        named = "classes" in store and (kind == ".jsonl" or "classes" not in table)
        yield Shard(store, lambda: fingerprint(path), named)


def _table(kind: str, path: Path, meant: Mapping[str, str]) -> Store:
    """The columns under their own names; what is meant by one decides on which axis of its lists the members are."""
    if kind in TEXT:
        return in_memory(read_csv(path) if kind == ".csv" else read_jsonl(path, meant))
    return parquet_store(path, meant) if kind == ".parquet" else arrow_store(path, meant)


def near(path: Path) -> str:
    """A file of almost this name, or what to do where there is none."""
    try:
        names = [other.name for other in path.parent.iterdir()]
    except OSError:
        return "check the path"
    said = did_you_mean(path.name, names) if names else ""
    return f"check the path; {said}" if said.startswith("did you mean") else "check the path"


def _kind(path: Path, columns: ColumnOptions) -> str:
    """The suffix, or "folder"; what is none of these is refused."""
    if path.is_dir():
        return "folder"
    if not path.exists():
        raise FileError(str(path), expected=EXISTING, came="there is none", do=near(path))
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise FileError(
            str(path),
            expected=FORMATS,
            came=f"its name ends in {show(suffix)}",
            do="convert it to one of these",
        )
    if columns.any() and suffix not in (*TEXT, *ARROW):
        raise UsageError(
            str(path),
            expected="a table (.csv, .jsonl, .parquet or .arrow) with these column options",
            came=f"its name ends in {show(suffix)}",
            do="rename keys with FILE::key=name instead",
        )
    return suffix


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


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """What the operating system refuses, as one clear line."""
    try:
        yield
    except OSError as error:
        raise FileError(
            str(path),
            expected="a readable file",
            came=plain(error.strerror or str(error)),
            do="check path and rights",
        ) from error


# --------------------------------------------------------------------------------------- fingerprint
def fingerprint(path: Path) -> str:
    """SHA-256 of a file; of a folder, that of its files' names and hashes."""
    if path.is_dir():
        return together([(file.name, fingerprint(file)) for file in sorted(path.glob("*.npy"))])
    with path.open("rb") as stream:
        return digest(stream)


def together(parts: list[tuple[str, str]]) -> str:
    """SHA-256 of several files, from their names and hashes."""
    lines = [f"{name} {sha256}" for name, sha256 in parts]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
