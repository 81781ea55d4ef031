"""The frames of an Arrow IPC file or stream: how many rows each batch has, and where the bytes of its columns lie.

The library gives a batch only whole. The headers alone say how many rows there are, and a column of numbers without
nulls that was not compressed is read from its place, some rows at a time, however large the batches are.

The format (arrow.apache.org/docs/format/Columnar.html, "IPC"): a stream is a row of messages, each a length, a header
(FlatBuffers) and a body; a file is the magic word, such a stream, a footer, the footer's length and the magic word.
The header of a batch lists, for the columns in order and for each column outside in, nodes (length, nulls) and
buffers (offset in the body, length).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

import numpy as np

from calibrant.predictions.files.arrow_columns import Column
from calibrant.predictions.files.pinned import Pinned
from calibrant.predictions.files.raw import Layout, read_rows

MAGIC = b"ARROW1"
NEW_STYLE = b"\xff\xff\xff\xff"
SCHEMA, BATCH = 1, 3
LONGEST_HEADER = 1 << 26


@dataclass(frozen=True)
class Frame:
    """One batch: its rows, its nodes and buffers, and where its body begins."""

    rows: int
    nodes: list[tuple[int, int]]
    buffers: list[tuple[int, int]]
    body: int
    body_bytes: int
    compressed: bool


class Table:
    """A table of FlatBuffers: fields by number, each where the table's own index says; absent ones are 0.

    Reference: flatbuffers.dev/internals. What points out of the bytes ends in ValueError or struct.error.
    """

    def __init__(self, content: bytes, place: int) -> None:
        """The table at a place."""
        self.content, self.place = content, place
        self.index = place - self._at("<i", place)
        self.index_bytes = self._at("<H", self.index)

    def _at(self, form: str, place: int) -> int:
        if place < 0:
            raise ValueError("a place before the beginning")
        return int(struct.unpack_from(form, self.content, place)[0])

    def _field(self, number: int) -> int:
        entry = 4 + 2 * number
        offset = self._at("<H", self.index + entry) if entry + 2 <= self.index_bytes else 0
        return self.place + offset if offset else 0

    def number(self, number: int, form: str) -> int:
        """A field that holds a number."""
        place = self._field(number)
        return self._at(form, place) if place else 0

    def table(self, number: int) -> Table | None:
        """A field that points to another table."""
        place = self._field(number)
        return Table(self.content, place + self._at("<I", place)) if place else None

    def pairs(self, number: int) -> list[tuple[int, int]]:
        """A field that points to a vector of pairs of 64-bit numbers."""
        place = self._field(number)
        if not place:
            return []
        start = place + self._at("<I", place)
        count = self._at("<I", start)
        if start + 4 + 16 * count > len(self.content):
            raise ValueError("a list that is longer than its header")
        flat = struct.unpack_from(f"<{2 * count}q", self.content, start + 4)
        return list(zip(flat[::2], flat[1::2], strict=True))


def frames_of(stream: IO[bytes], size: int) -> tuple[list[Frame], bool]:
    """The batches in the order of the stream, and whether their numbers are little-endian."""
    frames, little = [], True
    for header, body, body_bytes in _messages(stream, *_extent(stream, size)):
        message = header.table(2)
        if message is None:
            raise ValueError("a message without content")
        kind = header.number(1, "<B")
        if kind == SCHEMA:
            little = message.number(0, "<h") == 0
        elif kind == BATCH:
            frames.append(_frame(message, body, body_bytes))
    return frames, little


def _frame(message: Table, body: int, body_bytes: int) -> Frame:
    rows, buffers = message.number(0, "<q"), message.pairs(2)
    if rows < 0 or any(min(buffer) < 0 or sum(buffer) > body_bytes for buffer in buffers):
        raise ValueError("a batch whose buffers lie outside of it")
    return Frame(rows, message.pairs(1), buffers, body, body_bytes, message.table(3) is not None)


def _extent(stream: IO[bytes], size: int) -> tuple[int, int]:
    """Where the messages begin and end."""
    stream.seek(0)
    if stream.read(len(MAGIC)) != MAGIC:
        return 0, size
    stream.seek(max(size - 10, 0))
    footer = int.from_bytes(stream.read(4), "little")
    return 8, size - 10 - footer


def _messages(stream: IO[bytes], place: int, end: int) -> Iterator[tuple[Table, int, int]]:
    """Headers, where their bodies begin, and their lengths; the bodies are passed over."""
    while place + 4 <= end:
        stream.seek(place)
        start = stream.read(8)
        length_at = 4 if start[:4] == NEW_STYLE else 0
        length = int.from_bytes(start[length_at : length_at + 4], "little")
        if not length:
            return
        if length > min(LONGEST_HEADER, end - place):
            raise ValueError("a header that is longer than its file")
        stream.seek(place + length_at + 4)
        content = stream.read(length)
        header = Table(content, struct.unpack_from("<I", content)[0])
        body, body_bytes = place + length_at + 4 + length, header.number(3, "<q")
        if not 0 <= body_bytes <= end - body:
            raise ValueError("it ends within a batch")
        yield header, body, body_bytes
        place = body + body_bytes


@dataclass(frozen=True)
class Lying:
    """The rows of one batch of a column, which lie in the file until they are asked for."""

    file: Pinned
    layout: Layout
    where: str

    def __len__(self) -> int:
        return self.layout.shape[0]

    def __getitem__(self, rows: slice, /) -> np.ndarray:
        start, stop, _ = rows.indices(len(self))
        with self.file.open() as stream:
            return read_rows(stream, self.layout, 0, start, stop, self.where)


def parts_before(kinds: list[Any]) -> tuple[int, int] | None:
    """How many nodes and buffers the columns of these types have, or None where the types do not tell."""
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


def lying(file: Pinned, frames: list[Frame], before: tuple[int, int], column: Column) -> list[Lying] | None:
    """The pieces of a column of plain numbers, in fixed lists or none; None if one of them must be decoded."""
    depth, pieces = len(column.lengths), []
    for frame in frames:
        nodes = frame.nodes[before[0] : before[0] + depth + 1]
        if frame.compressed or any(nulls for _, nulls in nodes):
            return None
        layout = Layout((frame.rows, *column.inside), column.dtype)
        offset, length = frame.buffers[before[1] + 1 + depth]
        if length < layout.nbytes or nodes[-1][0] != math.prod(layout.shape):
            raise ValueError(f"a batch whose column {column.name!r} is shorter than its rows")
        pieces.append(Lying(file, Layout(layout.shape, column.dtype, offset=frame.body + offset), column.where))
    return pieces


def unpacked_bytes(stream: IO[bytes], frame: Frame, buffers: range) -> int:
    """To how many bytes these buffers unpack, which stands before each of them; it is -1 where it is not packed."""
    total = 0
    for offset, length in (frame.buffers[k] for k in buffers):
        stream.seek(frame.body + offset)
        announced = int.from_bytes(stream.read(8) if length else b"", "little", signed=True)
        total += announced if announced >= 0 else length
    return total
