"""Sources of predictions: a file, a folder of arrays, or a folder or pattern of shards that form one input.

Shards are in the order of their paths. Names that begin with '.' or '_' are skipped, as other tools do.
"""

from __future__ import annotations

import glob
import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import SequenceMatcher
from io import BufferedReader
from pathlib import Path
from typing import Any, TypeVar

from calibrant.errors import FileError, UsageError, did_you_mean, parse_count, plain, show
from calibrant.predictions.arrays import RESERVED
from calibrant.predictions.files.arrow import open_arrow, open_parquet
from calibrant.predictions.files.binary import LazyArray, LazyArrays
from calibrant.predictions.files.csv_jsonl import read_csv, read_json_table, read_jsonl
from calibrant.predictions.files.numpy_files import open_npy_folder, open_npz
from calibrant.predictions.files.safetensors import open_safetensors
from calibrant.predictions.files.tables import ColumnOptions, collect

T = TypeVar("T")
TEXT = (".csv", ".jsonl")
ARROW = (".parquet", ".arrow", ".feather", ".ipc")
SUFFIXES = (".npz", ".safetensors", *ARROW, *TEXT)
TABLE = ".json"
"""A table with the keys `columns` and `data`, as MLflow and W&B write; also the suffix of logs and results."""
SIMILAR = 0.65
"""The similarity of two stems from which one is suggested for the other."""
EXISTING = "an existing file"
FORMATS = ".npz, a folder of .npy, .parquet, .arrow, .safetensors, .csv or .jsonl"


def _members(text: str) -> int | range:
    """Parse a number, or a range such as 0-4 with both ends included."""
    ends = [parse_count(part) for part in text.split("-")]
    if len(ends) == 1 and ends[0] is not None:
        return ends[0]
    if len(ends) == 2 and ends[0] is not None and ends[1] is not None and ends[0] <= ends[1] < 1 << 20:
        return range(ends[0], ends[1] + 1)
    hint = "write FILE::member=0 for the first member"
    raise UsageError("member", expected="a number from 0, or a range such as 0-4", got=show(text), hint=hint)


@dataclass(frozen=True)
class Source:
    """A path, renamed keys and selected members, as on the command line."""

    path: Path
    rename: Mapping[str, str]
    member: int | range | None = None
    elsewhere: frozenset[str] = frozenset()
    """Arrays of the file that other inputs of the same command read: ignored without a note."""

    @classmethod
    def parse(cls, text: str) -> Source:
        """Parse `FILE` or `FILE::logits=logits_test,member=0`; member=0-4 selects the first five."""
        path, mark, options = text.rpartition("::")
        if not (path if mark else text):
            hint = "write a path ('.' is the current folder)"
            raise UsageError("input", expected="the name of a file or folder", got="an empty name", hint=hint)
        if not mark:
            return cls(Path(text), {})
        rename: dict[str, str] = {}
        for item in filter(None, options.split(",")):
            key, equals, value = item.partition("=")
            if not equals or not value or key not in (*RESERVED, "member"):
                expected = "KEY=NAME after '::', with a KEY of the file format or 'member'"
                hint = did_you_mean(key, (*RESERVED, "member")) if equals else "write logits=NAME"
                raise UsageError(text, expected=expected, got=show(item), hint=hint)
            rename[key] = value
        member = rename.pop("member", None)
        return cls(Path(path), rename, None if member is None else _members(member))

    def select_members(self, predictions: Any) -> Any:
        """The selected members of some predictions."""
        if self.member is None:
            return predictions
        return predictions.subset(self.member) if isinstance(self.member, range) else predictions.member(self.member)

    @property
    def name(self) -> str:
        """The name of the predictions: the file without its suffix, or the text of a pattern without wildcards."""
        path = self.path if self.path.name not in ("", "..") else self.path.resolve()
        stem = path.stem if path.suffix.lower() in (*SUFFIXES, TABLE, ".eval") else path.name
        if not _is_pattern(path):
            return stem or str(path)
        readable = (part.replace("*", "").replace("?", "").strip("-_. ") for part in (stem, *path.parts[-2::-1]))
        return next(filter(None, readable), stem)


# ------------------------------------------------------------------------------------------- paths
def list_shards(path: Path) -> list[Path]:
    """The files (or folders of .npy) of one input, in the order of their paths."""
    with report_os_errors(path):
        if path.is_dir():
            if any(path.glob("*.npy")):
                return [path]
            inside = sorted(item for item in path.iterdir() if _is_visible(item))
            shards = [item for item in inside if item.suffix.lower() in SUFFIXES and item.is_file()]
            shards = shards or [item for item in inside if item.is_dir() and any(item.glob("*.npy"))]
        elif path.exists() or not _is_pattern(path):
            return [path]
        else:
            names = sorted(Path(name) for name in glob.glob(str(path), recursive=True))  # noqa: PTH207
            # once per file: in a folder that links to itself, '**' finds it forty times
            targets = {name.resolve(): name for name in reversed(names) if _is_visible(name)}
            shards = list(targets.values())[::-1]
            if not shards:
                raise FileError(str(path), expected="matching files", got="none", hint="check the pattern")
    if not shards:
        expected = f"a folder of .npy arrays or of shards ({', '.join(SUFFIXES)})"
        hint = "name a file or another folder"
        raise FileError(str(path), expected=expected, got="a folder without any", hint=hint)
    kinds = {item.suffix.lower(): item for item in shards}
    if len(kinds) > 1:
        got, hint = ", ".join(show(item.name) for item in kinds.values()), f"use a pattern such as '{path.name}/*.npz'"
        hint = hint if path.is_dir() else "use a pattern that ends in one suffix, such as '*.npz'"
        raise FileError(str(path), expected="shards of one format", got=got, hint=hint)
    return shards


def _is_pattern(path: Path) -> bool:
    return any(mark in str(path) for mark in "*?[")


def _is_visible(path: Path) -> bool:
    return not path.name.startswith((".", "_"))


# ------------------------------------------------------------------------------------------- opening
@dataclass(frozen=True)
class Shard:
    """The arrays of one shard, and a function for its SHA-256."""

    store: LazyArrays
    digest: Callable[[], str]
    named: bool = False
    """Whether the columns of a table name the classes, so that labels may be such names."""


@contextmanager
def open_shard(path: Path, columns: ColumnOptions, rename: Mapping[str, str]) -> Iterator[Shard]:
    """Open one shard under the keys of the format; an archive stays open, so that all its arrays are of one version."""
    with report_os_errors(path):
        kind = _kind(path, columns)
        if kind == ".npz":
            with path.open("rb") as stream:
                yield Shard(_renamed(open_npz(path, stream), rename, path), lambda: stream_sha256(stream))
            return
        if kind in ("folder", ".safetensors"):
            store = open_npy_folder(path) if kind == "folder" else open_safetensors(path)
            yield Shard(_renamed(store, rename, path), lambda: file_sha256(path))
            return
        names = {**columns.single(), **rename}  # the key of a column decides on the axis of members in its lists
        if kind in (*TEXT, TABLE):
            if kind == ".csv":
                arrays = read_csv(path)
            else:
                arrays = read_json_table(path, names) if kind == TABLE else read_jsonl(path, names)
            table = {name: LazyArray.from_array(array) for name, array in arrays.items()}
        else:
            table = open_parquet(path, names) if kind == ".parquet" else open_arrow(path, names)
        table = _renamed(table, rename, path)
        store = collect(table, columns, str(path), all_text=kind == ".csv", loaded=kind in (*TEXT, TABLE))
        named = "classes" in store and (kind == ".jsonl" or "classes" not in table)
        yield Shard(store, lambda: file_sha256(path), named)


def similar_path_hint(path: Path) -> str:
    """Suggest a file whose name without its suffix is similar: two names that share '.npz' share nothing."""
    try:
        names = [other.name for other in path.parent.iterdir()]
    except OSError:
        return "check the path"
    stem = path.stem.lower()
    similarity = {name: SequenceMatcher(None, stem, Path(name).stem.lower()).ratio() for name in names}
    best = max(similarity, key=lambda name: (similarity[name], name), default="")
    return f"check the path; did you mean {show(best)}?" if similarity.get(best, 0.0) >= SIMILAR else "check the path"


def _kind(path: Path, columns: ColumnOptions) -> str:
    """The suffix or "folder"; `FileError` for anything else."""
    if path.is_dir():
        return "folder"
    if not path.exists():
        raise FileError(str(path), expected=EXISTING, got="none", hint=similar_path_hint(path))
    suffix = path.suffix.lower()
    if suffix == TABLE:
        return TABLE
    if suffix not in SUFFIXES:
        hint = "convert it with calibrant.write(predictions, 'file.npz')"
        raise FileError(str(path), expected=FORMATS, got=f"the suffix {show(suffix)}", hint=hint)
    if columns.names_columns() and suffix not in (*TEXT, *ARROW):
        expected = "a table (.csv, .jsonl, .parquet or .arrow) with these column options"
        hint = "rename keys with FILE::key=name instead"
        raise UsageError(str(path), expected=expected, got=f"the suffix {show(suffix)}", hint=hint)
    return suffix


def _renamed(store: dict[str, T], rename: Mapping[str, str], path: Path) -> dict[str, T]:
    for name in rename.values():
        if name not in store:
            raise FileError(str(path), expected=f"an array {show(name)}", got="none", hint=did_you_mean(name, store))
    renamed = {key: store[name] for key, name in rename.items()}
    others = {key: item for key, item in store.items() if key not in renamed and key not in rename.values()}
    return {**others, **renamed}


@contextmanager
def report_os_errors(path: Path) -> Iterator[None]:
    """Convert `OSError` to `FileError`."""
    try:
        yield
    except OSError as error:
        got = plain(error.strerror or str(error))
        raise FileError(str(path), expected="a readable file", got=got, hint="check path and permissions") from error


# --------------------------------------------------------------------------------------- fingerprint
def file_sha256(path: Path) -> str:
    """SHA-256 of a file, or of the names and hashes of the files of a folder."""
    if path.is_dir():
        return combined_sha256([(file.name, file_sha256(file)) for file in sorted(path.glob("*.npy"))])
    with path.open("rb") as stream:
        return stream_sha256(stream)


def stream_sha256(stream: BufferedReader) -> str:
    """SHA-256 of an open file."""
    stream.seek(0)
    return hashlib.file_digest(stream, "sha256").hexdigest()


def combined_sha256(parts: list[tuple[str, str]]) -> str:
    """SHA-256 of several files, from their names and hashes."""
    lines = [f"{name} {sha256}" for name, sha256 in parts]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
