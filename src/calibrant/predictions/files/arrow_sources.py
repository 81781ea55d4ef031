"""Where columns come from: a Parquet file, or an Arrow IPC file or stream, each opened once and decoded in batches.

References: parquet.apache.org/docs/file-format and arrow.apache.org/docs/format/Columnar.html.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from calibrant.predictions.files.arrow_columns import NUMBERS, TEXTS, Column, Piece, values_of
from calibrant.predictions.files.arrow_frames import MAGIC, frames_of, lying, parts_before, unpacked_bytes
from calibrant.predictions.files.npy import check_size
from calibrant.predictions.files.pinned import Pinned

BATCH_ROWS = 1 << 16
"""Rows decoded at a time, of a column with one item a row; fewer where there are many columns."""
BATCH_ITEMS = 1 << 22
"""Items decoded at a time, of all columns together."""
BATCH_BYTES = 1 << 24
"""Bytes decoded at a time, of a column of lists: a block, which is then handed on without a copy."""


class ColumnFile(Protocol):
    """A file of columns: its schema and rows, and the pieces of each column."""

    path: Path
    what: str
    schema: Any
    rows: int

    def first(self, index: int) -> Any:
        """An Arrow array that begins with the first row of a column."""

    def pieces(self, index: int, column: Column, rows: int) -> Iterable[Piece]:
        """The pieces of a column, for blocks of that many rows."""


class ParquetSource:
    """A Parquet file, opened once.

    Without `pre_buffer`, and with a buffer, the pages of a column are read one after the other; the library would
    otherwise read its whole row group, often all of the file. Text comes as a dictionary: what repeats a long text a
    million times stays small until it is known to fit. Columns of one item a row share a reader and its batch size,
    since a table may have a thousand of them; each column of lists has its own.
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
        """One row is decoded, of one page."""
        return next(self._arrays(self._reader(buffer_size=1 << 16), index, 1))

    def pieces(self, index: int, column: Column, rows: int) -> Iterator[Piece]:
        """Batches as they are decoded."""
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
    """An Arrow IPC file or stream. Plain numbers are read from their place; the rest comes from the library.

    The library gives batches whole, of one column; they are checked in full, since their offsets may point anywhere.
    """

    what = "an Arrow IPC file or stream"

    def __init__(self, path: Path) -> None:
        """Read the schema and the headers of all batches."""
        import pyarrow

        self.path, self._file = path, Pinned.of(path)
        with self._file.open() as stream:
            self._is_file = stream.read(len(MAGIC)) == MAGIC
            self._frames, self._little = frames_of(stream, self._file.size)
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
            raise ValueError("its footer and its batches do not agree")
        return reader

    def first(self, index: int) -> Any:
        """The first batch that has rows."""
        return next(array for array in self._arrays(index) if len(array))

    def pieces(self, index: int, column: Column, rows: int) -> Iterable[Piece]:
        """Rows that lie in the file, or batches as they are decoded."""
        del rows
        before = parts_before(self.schema.types[:index])
        if before is not None and self._little and _is_plain(self.schema.types[index]):
            found = lying(self._file, self._frames, before, column)
            if found is not None:
                return found
        return self._decoded(index, column)

    def _decoded(self, index: int, column: Column) -> Iterator[Piece]:
        first = 0
        for array in self._arrays(index):
            yield values_of(array, column, first)
            first += len(array)

    def _arrays(self, index: int) -> Iterator[Any]:
        reader = self._open(index)
        for number, frame in enumerate(self._frames):
            self._check_unpacked(number, index)
            batch = reader.get_batch(number) if self._is_file else reader.read_next_batch()
            if batch.num_rows != frame.rows:
                raise ValueError("a batch whose header and rows do not agree")
            array = batch.column(0)
            array.validate(full=True)
            yield array

    def _check_unpacked(self, number: int, index: int) -> None:
        frame = self._frames[number]
        if frame.compressed:
            before, until = parts_before(self.schema.types[:index]), parts_before(self.schema.types[: index + 1])
            buffers = range(len(frame.buffers))
            if before is not None and until is not None:
                buffers = range(before[1], until[1])
            with self._file.open() as stream:
                check_size(unpacked_bytes(stream, frame, buffers), str(self.path))


def _is_plain(kind: Any) -> bool:
    """Whether the bytes of a column are the numbers: truth values, for instance, are bits."""
    from pyarrow import types

    while types.is_fixed_size_list(kind):
        kind = kind.value_type
    return str(kind) in NUMBERS and str(kind) != "bool"
