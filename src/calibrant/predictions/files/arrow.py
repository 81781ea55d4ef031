"""Parquet and Arrow IPC: one row per example, scores as lists inside the row; read in batches, never whole files.

A column of numbers or text is an (N,) array; lists of K numbers are (N, K). Lists of M lists of C numbers have the rows
second, (M, N, C), and so have lists of M numbers that are members or draws: see `axes`. What is not by row (`classes`,
`member_names`, `levels`, `meta`) stands as one JSON object under `calibrant` in the metadata of the schema.
References: parquet.apache.org/docs/file-format and arrow.apache.org/docs/format/Columnar.html.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.errors import CalibrantError, FileError, plain, show
from calibrant.predictions.files.arrow_columns import Column, Piece, blocks_of, column_of, first_lengths
from calibrant.predictions.files.arrow_sources import ColumnFile, IpcSource, ParquetSource
from calibrant.predictions.files.arrow_writing import OURS, need_pyarrow, write_arrow, write_parquet
from calibrant.predictions.files.axes import CONSTANTS
from calibrant.predictions.files.npy import check_size
from calibrant.predictions.files.stores import MOST_ARRAYS, Entry, Store, of_array

__all__ = ["arrow_store", "parquet_store", "write_arrow", "write_parquet"]


def parquet_store(path: Path, rename: Mapping[str, str] | None = None) -> Store:
    """The columns of a Parquet file. rename: {"confidence": "p_max"}, where a name in the file stands for a key."""
    need_pyarrow(str(path))
    with _guarded(path, ParquetSource.what):
        return _store(ParquetSource(path), rename or {})


def arrow_store(path: Path, rename: Mapping[str, str] | None = None) -> Store:
    """The columns of an Arrow IPC file (.arrow, .feather, .ipc) or stream; `rename` as for Parquet."""
    need_pyarrow(str(path))
    with _guarded(path, IpcSource.what):
        return _store(IpcSource(path), rename or {})


def _store(source: ColumnFile, rename: Mapping[str, str]) -> Store:
    names = source.schema.names
    if len(names) > MOST_ARRAYS or len(set(names)) < len(names):
        twice = next((name for name in names if names.count(name) > 1), "")
        came = f"it has {len(names)}" if len(names) > MOST_ARRAYS else f"{show(twice)} stands twice"
        raise FileError(
            str(source.path), expected=f"at most {MOST_ARRAYS} distinct columns", came=came, do="rename or remove some"
        )
    constants = _constants(source.schema.metadata or {}, source.path)
    for name in constants.keys() & set(names):
        raise _bad_constants(source.path, f"{show(name)} is a column too")
    keys = {name: key for key, name in rename.items()}
    return {name: _entry(source, k, keys.get(name, name)) for k, name in enumerate(names)} | constants


def _entry(source: ColumnFile, index: int, key: str) -> Entry:
    """A column as an entry; one that cannot be an array has the shape (), and says why when it is loaded."""
    field, where = source.schema.field(index), str(source.path)
    column = column_of(where, field.name, key, source.rows, field.type)
    if column is None:
        return _misfit(
            FileError(
                f"{where}: column {show(field.name)}",
                expected="numbers, truth values, text, or lists of numbers",
                came=f"its type is {show(field.type)}",
                do="convert the column",
            )
        )
    if None in column.lengths and column.rows:
        try:
            column = column.settled(first_lengths(source.first(index), column))
        except FileError as error:
            return _misfit(error)
    return _read_entry(column, partial(source.pieces, index, column), partial(_guarded, source.path, source.what))


def _misfit(error: FileError) -> Entry:
    def load() -> np.ndarray:
        raise error

    def blocks(axis: int, rows: int) -> Iterator[np.ndarray]:
        raise error

    return Entry((), 0, load, blocks)


def _read_entry(
    column: Column, pieces: Callable[[int], Iterable[Piece]], guarded: Callable[[], AbstractContextManager[None]]
) -> Entry:
    def load() -> np.ndarray:
        check_size(column.nbytes if column.dtype.itemsize else 4 * column.rows, column.where)
        if not column.rows:
            return np.empty(0, column.dtype if column.dtype.itemsize else "U1")
        with guarded():
            return next(blocks_of(pieces(column.rows), column, column.rows))

    def blocks(axis: int, rows: int) -> Iterator[np.ndarray]:
        if axis != (column.axis if column.rows else 0):
            yield from of_array(load()).blocks(axis, rows)
            return
        with guarded():
            yield from blocks_of(pieces(rows), column, rows)

    return Entry(column.shape, column.nbytes, load, blocks)


def _constants(metadata: Mapping[bytes, bytes], path: Path) -> Store:
    """What is not by row; names that have no meaning here are left alone."""
    try:
        found = json.loads(metadata.get(OURS, b"{}").decode())
        return {name: of_array(_constant(name, found[name], path)) for name in CONSTANTS if name in found}
    except CalibrantError:
        raise
    except (ValueError, TypeError, RecursionError) as error:
        raise _bad_constants(path, f"they are unreadable ({plain(str(error), 60)})") from error


def _constant(name: str, value: Any, path: Path) -> np.ndarray:
    if name == "levels":
        if not isinstance(value, list) or not all(type(item) in (int, float) for item in value):
            raise ValueError(f"{name} are {show(value)}")
        return np.array([float(item) for item in value], np.float64)
    texts = [value] if name == "meta" else value
    if not isinstance(texts, list) or not all(isinstance(item, str) for item in texts):
        raise ValueError(f"{name} is {show(value)}")
    check_size(4 * len(texts) * max(map(len, texts), default=0), str(path))
    return np.array(value, np.str_)


def _bad_constants(path: Path, came: str) -> FileError:
    return FileError(
        str(path),
        expected=f"{', '.join(CONSTANTS)} as JSON under 'calibrant' in the schema's metadata",
        came=came,
        do="write the file again with calibrant.write, or without that metadata",
    )


@contextmanager
def _guarded(path: Path, what: str) -> Iterator[None]:
    """Whatever the library says of a damaged file becomes one error that names it."""
    try:
        yield
    except CalibrantError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno:
            raise  # the system's, not the library's word on the content
        reason = plain(str(error) or type(error).__name__, 100)
        raise FileError(
            str(path),
            expected=what,
            came=f"it cannot be read ({reason})",
            do="write it again; it may be truncated or damaged",
        ) from error
