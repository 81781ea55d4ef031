"""The frames of an Arrow IPC file or stream: the rows of each batch, and the position of its columns in the file.

pyarrow reads batches only as a whole. The headers alone give the number of rows, and an uncompressed column of numbers
without nulls is read directly from the file in blocks of rows, whatever the size of the batches.

The format (arrow.apache.org/docs/format/Columnar.html, "IPC"): a stream is a sequence of messages, each a length, a
header (FlatBuffers) and a body; a file is the magic word, such a stream, a footer, the footer's length and the magic
word. The header of a batch lists, for the columns in order and for each column outside in, nodes (length, nulls) and
buffers (offset in the body, length).
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import IO, Any

import numpy as np

from calibrant.predictions.files.arrow_columns import Column
from calibrant.predictions.files.binary import Layout, PinnedFile, read_rows

MAGIC = b"ARROW1"
NEW_STYLE = b"\xff\xff\xff\xff"
SCHEMA, BATCH = 1, 3
LONGEST_HEADER = 1 << 26


@dataclass(frozen=True)
class Frame:
    """One batch: its rows, nodes and buffers, and the offset of its body."""

    rows: int
    nodes: list[tuple[int, int]]
    buffers: list[tuple[int, int]]
    body: int
    body_bytes: int
    compressed: bool


class Table:
    """A FlatBuffers table: fields by number at the offsets in the table's vtable; absent ones are 0.

    Reference: flatbuffers.dev/internals. Offsets outside the content raise ValueError or struct.error.
    """

    def __init__(self, content: bytes, offset: int) -> None:
        """The table at an offset."""
        self.content, self.offset = content, offset
        self.vtable = offset - self._unpack("<i", offset)
        self.vtable_bytes = self._unpack("<H", self.vtable)

    def _unpack(self, form: str, offset: int) -> int:
        if offset < 0:
            raise ValueError("a negative offset")
        return int(struct.unpack_from(form, self.content, offset)[0])

    def _field(self, number: int) -> int:
        entry = 4 + 2 * number
        relative = self._unpack("<H", self.vtable + entry) if entry + 2 <= self.vtable_bytes else 0
        return self.offset + relative if relative else 0

    def number(self, number: int, form: str) -> int:
        """A field that holds a number."""
        offset = self._field(number)
        return self._unpack(form, offset) if offset else 0

    def table(self, number: int) -> Table | None:
        """A field that points to another table."""
        offset = self._field(number)
        return Table(self.content, offset + self._unpack("<I", offset)) if offset else None

    def pairs(self, number: int) -> list[tuple[int, int]]:
        """A field that points to a vector of pairs of 64-bit numbers."""
        offset = self._field(number)
        if not offset:
            return []
        start = offset + self._unpack("<I", offset)
        count = self._unpack("<I", start)
        if start + 4 + 16 * count > len(self.content):
            raise ValueError("a list that is longer than its header")
        flat = struct.unpack_from(f"<{2 * count}q", self.content, start + 4)
        return list(zip(flat[::2], flat[1::2], strict=True))


def read_frames(stream: IO[bytes], size: int) -> tuple[list[Frame], bool]:
    """The batches in the order of the stream, and whether their numbers are little-endian."""
    stream.seek(0)
    offset, end = 0, size
    if stream.read(len(MAGIC)) == MAGIC:
        stream.seek(max(size - 10, 0))
        offset, end = 8, size - 10 - int.from_bytes(stream.read(4), "little")
    frames, little = [], True
    while offset + 4 <= end:
        stream.seek(offset)
        start = stream.read(8)
        length_at = 4 if start[:4] == NEW_STYLE else 0
        length = int.from_bytes(start[length_at : length_at + 4], "little")
        if not length:
            break
        if length > min(LONGEST_HEADER, end - offset):
            raise ValueError("a header that is longer than its file")
        stream.seek(offset + length_at + 4)
        content = stream.read(length)
        header = Table(content, struct.unpack_from("<I", content)[0])
        body, body_bytes = offset + length_at + 4 + length, header.number(3, "<q")
        if not 0 <= body_bytes <= end - body:
            raise ValueError("it ends within a batch")
        offset = body + body_bytes
        message, kind = header.table(2), header.number(1, "<B")
        if message is None:
            raise ValueError("a message without content")
        if kind == SCHEMA:
            little = message.number(0, "<h") == 0
        elif kind == BATCH:
            rows, buffers = message.number(0, "<q"), message.pairs(2)
            if rows < 0 or any(min(buffer) < 0 or sum(buffer) > body_bytes for buffer in buffers):
                raise ValueError("a batch with buffers outside its body")
            frames.append(Frame(rows, message.pairs(1), buffers, body, body_bytes, message.table(3) is not None))
    return frames, little


@dataclass(frozen=True)
class RowsInFile:
    """The rows of one batch of a column, read from the file on demand."""

    file: PinnedFile
    layout: Layout
    where: str

    def __len__(self) -> int:
        return self.layout.shape[0]

    def __getitem__(self, rows: slice, /) -> np.ndarray:
        start, stop, _ = rows.indices(len(self))
        with self.file.open() as stream:
            return read_rows(stream, self.layout, 0, start, stop, self.where)


def count_parts(kinds: list[Any]) -> tuple[int, int] | None:
    """The number of nodes and buffers of columns of these types, or None if the types do not determine it."""
    nodes = buffers = 0
    for kind in kinds:
        parts = _parts(kind)
        if parts is None:
            return None
        nodes, buffers = nodes + parts[0], buffers + parts[1]
    return nodes, buffers


def _parts(kind: Any) -> tuple[int, int] | None:
    from pyarrow import types

    if types.is_dictionary(kind) or types.is_primitive(kind) or types.is_fixed_size_binary(kind):
        return 1, 2
    if any(is_one(kind) for is_one in (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)):
        return 1, 3
    own = 2 if types.is_list(kind) or types.is_large_list(kind) else 1
    if own == 2 or types.is_fixed_size_list(kind):
        inside = _parts(kind.value_type)
        return None if inside is None else (1 + inside[0], own + inside[1])
    return None


def rows_in_file(
    file: PinnedFile, frames: list[Frame], before: tuple[int, int], column: Column
) -> list[RowsInFile] | None:
    """The pieces of a column of plain numbers, perhaps in fixed-size lists; None if one of them must be decoded."""
    depth, pieces = len(column.lengths), []
    for frame in frames:
        nodes = frame.nodes[before[0] : before[0] + depth + 1]
        if frame.compressed or any(nulls for _, nulls in nodes):
            return None
        layout = Layout((frame.rows, *column.inside), column.dtype)
        offset, length = frame.buffers[before[1] + 1 + depth]
        if length < layout.nbytes or nodes[-1][0] != math.prod(layout.shape):
            raise ValueError(f"a batch whose column {column.name!r} is shorter than its rows")
        pieces.append(RowsInFile(file, Layout(layout.shape, column.dtype, offset=frame.body + offset), column.where))
    return pieces


def unpacked_bytes(stream: IO[bytes], frame: Frame, buffers: range) -> int:
    """The uncompressed size of these buffers, which precedes each of them (-1 for an uncompressed one)."""
    total = 0
    for offset, length in (frame.buffers[k] for k in buffers):
        stream.seek(frame.body + offset)
        unpacked = int.from_bytes(stream.read(8) if length else b"", "little", signed=True)
        total += unpacked if unpacked >= 0 else length
    return total
