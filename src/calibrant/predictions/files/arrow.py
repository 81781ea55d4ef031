"""Parquet and Arrow IPC: one row per example, scores as lists inside the row; read in batches, never whole files.

A column of numbers or text is an (N,) array; lists of K numbers are (N, K). Lists of M lists of C numbers become
(M, N, C), and lists of M numbers that are members or draws become (M, N): see `axis_of`. Arrays without rows
(`classes`, `member_names`, `levels`, `meta`) are one JSON object under `calibrant` in the metadata of the schema.
References: parquet.apache.org/docs/file-format and arrow.apache.org/docs/format/Columnar.html.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from calibrant.errors import CalibrantError, FileError, plain, show
from calibrant.predictions.arrays import CONSTANTS
from calibrant.predictions.files.arrow_columns import (
    NUMBERS,
    TEXTS,
    Column,
    Piece,
    blocks_of,
    column_of,
    first_lengths,
    values_of,
)
from calibrant.predictions.files.arrow_ipc import MAGIC, count_parts, read_frames, rows_in_file, unpacked_bytes
from calibrant.predictions.files.arrow_write import OURS, need_pyarrow
from calibrant.predictions.files.binary import (
    MAX_ARRAYS,
    LazyArray,
    LazyArrays,
    PinnedFile,
    check_size,
    report_unreadable,
)

BATCH_ROWS = 1 << 16
"""Rows decoded at a time of a column with one item per row; fewer for tables of many columns."""
BATCH_ITEMS = 1 << 22
"""Items decoded at a time of all columns together."""
BATCH_BYTES = 1 << 24
"""Bytes decoded at a time of a column of lists: one block, which is then not copied."""


class ColumnFile(Protocol):
    """A file of columns: its schema, its number of rows, and the pieces of each column."""

    path: Path
    what: str
    schema: Any
    rows: int

    def first(self, index: int) -> Any:
        """An Arrow array that starts with the first row of a column."""

    def pieces(self, index: int, column: Column, rows: int) -> Iterable[Piece]:
        """The pieces of a column, for blocks of `rows` rows."""


class ParquetSource:
    """A Parquet file, opened once.

    With a buffer and without `pre_buffer`, pages of a column are read one after the other; pyarrow would otherwise read
    the whole row group, often the whole file. Text is read as a dictionary: a long text repeated a million times stays
    small until it is known to fit into memory. Columns with one item per row share a reader and its batch size, as a
    table may have a thousand of them; each column of lists has its own.
    """

    what = "a Parquet file"

    def __init__(self, path: Path) -> None:
        """Read the footer."""
        import pyarrow
        from pyarrow import parquet

        self.path = path
        source = pyarrow.OSFile(str(path))
        whole = parquet.ParquetFile(source, pre_buffer=False)
        self.schema, self.rows = whole.schema_arrow, whole.metadata.num_rows
        self._reader = partial(parquet.ParquetFile, source, metadata=whole.metadata, pre_buffer=False)
        texts = [field.name for field in self.schema if str(field.type) in TEXTS]
        self._flat = self._reader(buffer_size=1 << 16, read_dictionary=texts)
        self._flat_rows = max(1, min(BATCH_ROWS, BATCH_ITEMS // max(len(self.schema), 1)))

    def first(self, index: int) -> Any:
        """Decode one row of one page."""
        return next(self._arrays(self._reader(buffer_size=1 << 16), index, 1))

    def pieces(self, index: int, column: Column, rows: int) -> Iterator[Piece]:
        """Decoded batches."""
        reader, batch = self._flat, self._flat_rows
        if column.lengths:
            reader = self._reader(buffer_size=1 << 20)
            batch = max(1, min(rows, BATCH_BYTES // max(column.row_bytes, 1)))
        first = 0
        for array in self._arrays(reader, index, batch):
            yield values_of(array, column, first)
            first += len(array)

    def _arrays(self, reader: Any, index: int, rows: int) -> Iterator[Any]:
        name = self.schema.names[index]
        for batch in reader.iter_batches(batch_size=rows, columns=[name], use_threads=False):
            yield batch.column(batch.schema.names.index(name))


class IpcSource:
    """An Arrow IPC file or stream. Plain numbers are read directly from the file, other columns by pyarrow.

    pyarrow decodes whole batches of one column; they are fully validated, as their offsets may point anywhere.
    """

    what = "an Arrow IPC file or stream"

    def __init__(self, path: Path) -> None:
        """Read the schema and the header of every batch."""
        import pyarrow

        self.path, self._file = path, PinnedFile.of(path)
        with self._file.open() as stream:
            self._is_file = stream.read(len(MAGIC)) == MAGIC
            self._frames, self._little = read_frames(stream, self._file.size)
        self._source = pyarrow.OSFile(str(path))
        self.schema = self._open(None).schema
        self.rows = sum(frame.rows for frame in self._frames)

    def _open(self, index: int | None) -> Any:
        from pyarrow import OSFile, ipc

        fields = None if index is None else [index]
        options = ipc.IpcReadOptions(use_threads=False, included_fields=fields)
        if not self._is_file:
            self._file.open().close()
            return ipc.open_stream(OSFile(str(self.path)), options=options)
        reader = ipc.open_file(self._source, options=options)
        if reader.num_record_batches != len(self._frames):
            raise ValueError("a footer that does not match the batches")
        return reader

    def first(self, index: int) -> Any:
        """The first batch with rows."""
        return next(array for array in self._arrays(index) if len(array))

    def pieces(self, index: int, column: Column, rows: int) -> Iterable[Piece]:
        """Rows in the file, or decoded batches."""
        from pyarrow import types

        del rows
        kind = self.schema.types[index]
        while types.is_fixed_size_list(kind):
            kind = kind.value_type
        before = count_parts(self.schema.types[:index])
        if before is not None and self._little and str(kind) in NUMBERS and str(kind) != "bool":  # booleans are bits
            pieces = rows_in_file(self._file, self._frames, before, column)
            if pieces is not None:
                return pieces
        return self._decode(index, column)

    def _decode(self, index: int, column: Column) -> Iterator[Piece]:
        first = 0
        for array in self._arrays(index):
            yield values_of(array, column, first)
            first += len(array)

    def _arrays(self, index: int) -> Iterator[Any]:
        reader = self._open(index)
        for number, frame in enumerate(self._frames):
            if frame.compressed:
                before, until = count_parts(self.schema.types[:index]), count_parts(self.schema.types[: index + 1])
                buffers = range(len(frame.buffers))
                if before is not None and until is not None:
                    buffers = range(before[1], until[1])
                with self._file.open() as stream:
                    check_size(unpacked_bytes(stream, frame, buffers), str(self.path))
            batch = reader.get_batch(number) if self._is_file else reader.read_next_batch()
            if batch.num_rows != frame.rows:
                raise ValueError("a batch with other rows than its header")
            array = batch.column(0)
            array.validate(full=True)
            yield array


def open_parquet(path: Path, rename: Mapping[str, str] | None = None) -> LazyArrays:
    """The columns of a Parquet file. rename: {"confidence": "p_max"}, names in the file for keys of the format."""
    return _open(ParquetSource, path, rename or {})


def open_arrow(path: Path, rename: Mapping[str, str] | None = None) -> LazyArrays:
    """The columns of an Arrow IPC file (.arrow, .feather, .ipc) or stream; `rename` as for Parquet."""
    return _open(IpcSource, path, rename or {})


def _open(source_type: type[ParquetSource] | type[IpcSource], path: Path, rename: Mapping[str, str]) -> LazyArrays:
    need_pyarrow(str(path))
    with _report_unreadable(path, source_type.what):
        source = source_type(path)
        names = source.schema.names
        if len(names) > MAX_ARRAYS or len(set(names)) < len(names):
            repeated = next((name for name in names if names.count(name) > 1), "")
            got = f"{len(names)}" if len(names) > MAX_ARRAYS else f"{show(repeated)} twice"
            expected, hint = f"at most {MAX_ARRAYS} distinct columns", "rename or remove some"
            raise FileError(str(source.path), expected=expected, got=got, hint=hint)
        constants = _constants(source.schema.metadata or {}, source.path)
        for name in constants.keys() & set(names):
            raise _bad_constants(source.path, f"{show(name)} as a column too")
        keys = {name: key for key, name in rename.items()}
        return {name: _lazy_column(source, k, keys.get(name, name)) for k, name in enumerate(names)} | constants


def _lazy_column(source: ColumnFile, index: int, key: str) -> LazyArray:
    """A column as a lazy array; an unreadable one has the shape () and raises when it is loaded."""
    field, where = source.schema.field(index), str(source.path)
    readable = column_of(where, field.name, key, source.rows, field.type)
    if readable is None:
        subject, expected = f"{where}: column {show(field.name)}", "numbers, booleans, text, or lists of numbers"
        hint = "convert the column to one of these types"
        return _unreadable(FileError(subject, expected=expected, got=f"type {show(field.type)}", hint=hint))
    column = readable
    if None in column.lengths and column.rows:
        try:
            column = column.with_lengths(first_lengths(source.first(index), column))
        except FileError as error:
            return _unreadable(error)
    reporting = partial(_report_unreadable, source.path, source.what)

    def load() -> np.ndarray:
        check_size(column.nbytes if column.dtype.itemsize else 4 * column.rows, column.where)
        if not column.rows:
            return np.empty(0, column.dtype if column.dtype.itemsize else "U1")
        with reporting():
            return next(blocks_of(source.pieces(index, column, column.rows), column, column.rows))

    def blocks(axis: int, rows: int) -> Iterator[np.ndarray]:
        if axis != (column.axis if column.rows else 0):
            yield from LazyArray.from_array(load()).blocks(axis, rows)
            return
        with reporting():
            yield from blocks_of(source.pieces(index, column, rows), column, rows)

    return LazyArray(column.shape, column.nbytes, load, blocks)


def _unreadable(error: FileError) -> LazyArray:
    def load() -> np.ndarray:
        raise error

    def blocks(axis: int, rows: int) -> Iterator[np.ndarray]:
        raise error

    return LazyArray((), 0, load, blocks)


def _constants(metadata: Mapping[bytes, bytes], path: Path) -> LazyArrays:
    """The arrays without rows; unknown names are ignored."""
    arrays: LazyArrays = {}
    try:
        stored = json.loads(metadata.get(OURS, b"{}").decode())
        for name in (name for name in CONSTANTS if name in stored):
            value = stored[name]
            if name == "levels":
                if not isinstance(value, list) or not all(type(item) in (int, float) for item in value):
                    raise ValueError(f"levels: {show(value)}")
                arrays[name] = LazyArray.from_array(np.array([float(item) for item in value], np.float64))
                continue
            texts = [value] if name == "meta" else value
            if not isinstance(texts, list) or not all(isinstance(item, str) for item in texts):
                raise ValueError(f"{name}: {show(value)}")
            check_size(4 * len(texts) * max(map(len, texts), default=0), str(path))
            arrays[name] = LazyArray.from_array(np.array(value, np.str_))
    except CalibrantError:
        raise
    except (ValueError, TypeError, RecursionError) as error:
        raise _bad_constants(path, f"unreadable metadata ({plain(str(error), 60)})") from error
    return arrays


def _bad_constants(path: Path, got: str) -> FileError:
    expected = f"{', '.join(CONSTANTS)} as JSON under 'calibrant' in the schema's metadata"
    hint = "write the file again with calibrant.write, or without that metadata"
    return FileError(str(path), expected=expected, got=got, hint=hint)


def _report_unreadable(path: Path, expected: str) -> AbstractContextManager[None]:
    return report_unreadable(path, expected, "write it again; it may be truncated or damaged")
