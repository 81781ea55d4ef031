"""Columns of Arrow as arrays: which types are read, and how pieces of a column become blocks of rows.

Notation: a column of N rows holds one number, truth value or text a row, or a list of K numbers, or a list of M lists
of C numbers. Pieces have the rows first, (n, …); blocks have them on the axis where the contract wants them.
Reference: the Arrow columnar format (arrow.apache.org/docs/format/Columnar.html).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from calibrant.errors import FileError, show
from calibrant.predictions.files.axes import row_axis
from calibrant.predictions.files.npy import check_size

NUMBERS = {
    "bool": np.bool_,
    "int8": np.int8,
    "int16": np.int16,
    "int32": np.int32,
    "int64": np.int64,
    "uint8": np.uint8,
    "uint16": np.uint16,
    "uint32": np.uint32,
    "uint64": np.uint64,
    "halffloat": np.float16,
    "float": np.float32,
    "double": np.float64,
}
TEXTS = ("string", "large_string", "string_view")
TEXT_BYTES = 64
"""What a text is taken to need before it has been read."""


def axis_of(key: str, ndim: int) -> int:
    """The axis of the rows: members stand inside the row here, and first in arrays, also in those of other names."""
    return 1 if ndim == 3 else row_axis(key, ndim)


class Piece(Protocol):
    """Some rows of a column: an array, or rows that still lie in a file."""

    def __len__(self) -> int: ...

    def __getitem__(self, rows: slice, /) -> Any: ...


@dataclass(frozen=True)
class Column:
    """A column that can be read: its rows, the type of its items, and the lengths of its lists, outer ones first."""

    where: str
    name: str
    key: str
    rows: int
    dtype: np.dtype[Any]
    lengths: tuple[int | None, ...] = ()
    """None where lists may have any length, until the first row has been seen."""

    @property
    def axis(self) -> int:
        """The axis of the rows in the array."""
        return axis_of(self.key, len(self.lengths) + 1)

    @property
    def inside(self) -> tuple[int, ...]:
        """The shape of one row."""
        return tuple(length or 0 for length in self.lengths)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array; without rows nothing is known of them."""
        return self.around(self.rows) if self.rows else (0,)

    def around(self, rows: int) -> tuple[int, ...]:
        """The shape of some of the rows."""
        return (*self.inside[: self.axis], rows, *self.inside[self.axis :])

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return math.prod(self.inside) * (self.dtype.itemsize or TEXT_BYTES)

    @property
    def nbytes(self) -> int:
        """Bytes of all rows; of text, a guess."""
        return self.rows * self.row_bytes

    def settled(self, lengths: tuple[int, ...]) -> Column:
        """The same with the lengths of the lists that the first row showed."""
        return replace(
            self, lengths=tuple(a if a is not None else b for a, b in zip(self.lengths, lengths, strict=True))
        )

    def bad(self, expected: str, came: str, do: str) -> FileError:
        """What is wrong with it."""
        return FileError(f"{self.where}: column {show(self.name)}", expected=expected, came=came, do=do)


def column_of(where: str, name: str, key: str, rows: int, kind: Any) -> Column | None:
    """The column of an Arrow type, or None if that type cannot be read."""
    from pyarrow import types

    lengths: list[int | None] = []
    while types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        lengths.append(kind.list_size if types.is_fixed_size_list(kind) else None)
        kind = kind.value_type
    if types.is_dictionary(kind) and not lengths:
        kind = kind.value_type
    if str(kind) in TEXTS and not lengths:
        return Column(where, name, key, rows, np.dtype(np.str_))
    if str(kind) in NUMBERS and len(lengths) <= 2:
        return Column(where, name, key, rows, np.dtype(NUMBERS[str(kind)]), tuple(lengths))
    return None


def first_lengths(array: Any, column: Column) -> tuple[int, ...]:
    """The lengths of the lists in the first row."""
    lengths: list[int] = []
    array = array.slice(0, 1)
    for _ in column.lengths:
        _refuse_nulls(array, column, 0, 1)
        values = array.flatten()
        lengths.append(len(values))
        array = values.slice(0, 1)
    return tuple(lengths)


def values_of(array: Any, column: Column, first: int) -> np.ndarray:
    """The rows of an Arrow array as a NumPy array, without a copy where their bytes allow; `first` counts them."""
    shape, inside = [len(array)], 1
    for length in column.inside:
        _refuse_nulls(array, column, first, inside)
        _refuse_ragged(array, column, first, inside, length)
        array = array.flatten()
        shape.append(length)
        inside *= length
    if str(array.type) in ("float", "double") and array.null_count:
        array = array.fill_null(math.nan)  # pandas writes NaN as null
    _refuse_nulls(array, column, first, inside)
    return _flat(array, column).reshape(shape)


def _flat(array: Any, column: Column) -> np.ndarray:
    """An Arrow array of plain values, without nulls."""
    if hasattr(array, "dictionary"):
        known = _flat(array.dictionary, column)
        check_size(len(array) * known.itemsize, column.where)
        return known[array.indices.to_numpy()]
    if str(array.type) in TEXTS:
        return _text(array, column)
    if str(array.type) == "bool" or not len(array):
        return np.array(array.to_numpy(zero_copy_only=False), column.dtype)
    # Through its buffer, and not `to_numpy`, the array may be written to: compiled kernels tell the two apart.
    start = array.offset * column.dtype.itemsize
    return np.frombuffer(array.buffers()[1], column.dtype, len(array), start)


def _text(array: Any, column: Column) -> np.ndarray:
    from pyarrow import compute

    longest = compute.max(compute.utf8_length(array)).as_py() or 0
    check_size(4 * len(array) * longest, column.where)
    return np.array(array.to_pylist(), np.str_)


def _refuse_nulls(array: Any, column: Column, first: int, inside: int) -> None:
    if hasattr(array, "dictionary") and array.dictionary.null_count:
        array = array.dictionary_decode()
    if array.null_count:
        place = int(np.argmin(array.is_valid().to_numpy(zero_copy_only=False)))
        raise column.bad(
            "a value in every row",
            f"row {first + place // inside} is null",
            "fill it in, or leave the row or the column out",
        )


def _refuse_ragged(array: Any, column: Column, first: int, inside: int, length: int) -> None:
    from pyarrow import types

    if types.is_fixed_size_list(array.type):
        if array.type.list_size == length:
            return
        lengths = np.full(len(array), array.type.list_size)
    else:
        lengths = np.diff(array.offsets.to_numpy())
    odd = lengths != length
    if odd.any():
        place = int(np.argmax(odd))
        raise column.bad(
            f"lists of {length} in every row",
            f"they are ragged: row {first + place // inside} has one of {int(lengths[place])}",
            "pad or split the column",
        )


def blocks_of(pieces: Iterable[Piece], column: Column, rows: int) -> Iterator[np.ndarray]:
    """Blocks of exactly that many rows, the last one shorter, from pieces of any length.

    A piece that is a block of itself is handed on as it is; otherwise it is copied once, to its place.
    """
    source = iter(pieces)
    piece: Piece = np.empty(0)
    at = 0
    for start in range(0, column.rows, rows):
        count, done = min(rows, column.rows - start), 0
        out: np.ndarray | None = None
        while done < count:
            if at == len(piece):
                piece, at = _next(source, column), 0
                continue
            part = piece[at : at + count - done]
            at += len(part)
            if len(part) == count and column.axis == 0 and part.flags.writeable:
                out = part
            else:
                out = _room(out, part, column, count)
                np.moveaxis(out, column.axis, 0)[done : done + len(part)] = part
            done += len(part)
        if out is not None:
            yield out


def _next(source: Iterator[Piece], column: Column) -> Piece:
    piece = next(source, None)
    if piece is None:
        raise column.bad(f"{column.rows} rows", "fewer came", "the file is truncated or damaged: write it again")
    return piece


def _room(out: np.ndarray | None, part: np.ndarray, column: Column, count: int) -> np.ndarray:
    """Room for a block; where a longer text comes than those before, the room grows."""
    if out is not None and (out.dtype.kind != "U" or out.dtype.itemsize >= part.dtype.itemsize):
        return out
    shape = column.around(count)
    check_size(math.prod(shape) * part.dtype.itemsize, column.where)
    return np.empty(shape, part.dtype) if out is None else out.astype(part.dtype)
